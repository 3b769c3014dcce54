//! Turns with answers so long that a worker which was stopped past its lease still writes when it goes on.

use anyhow::Result;
use async_trait::async_trait;
use rand::RngExt as _;

use super::{Actor, Load};
use crate::client::Message;
use crate::plan::Plan;

pub struct Stories;

/// Together 8 s at least: longer than a fault stops a worker.
const WORDS: u32 = 400;
const PACE_MS: std::ops::Range<u64> = 20..26;

#[async_trait]
impl Load for Stories {
    fn name(&self) -> &'static str {
        "stories"
    }

    async fn play(&self, actor: &mut Actor) -> Result<()> {
        let Plan { id, .. } = actor.plan();
        let plan = Plan::words(id, WORDS, actor.dice.random_range(PACE_MS));
        actor.turn(Message::new(self.name(), &plan)).await;
        Ok(())
    }
}
