//! Thundering herds.

use anyhow::Result;
use async_trait::async_trait;
use rand::rngs::StdRng;

use super::{Fault, Injection};
use crate::world::World;

/// F9: all readers disconnect and reconnect with their cursors.
pub struct Storm;

#[async_trait]
impl Fault for Storm {
    fn name(&self) -> &'static str {
        "all-readers-return"
    }

    fn number(&self) -> &'static str {
        "F9"
    }

    async fn inject(&self, world: &World, _dice: &mut StdRng) -> Result<Injection> {
        world.storm.send_modify(|storms| *storms += 1);
        Ok(Injection::of(format!("{} readers", world.storm.receiver_count())))
    }
}
