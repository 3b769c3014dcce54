//! Lost wake-ups: everything works without them, within a second.

use anyhow::Result;
use async_trait::async_trait;
use rand::rngs::StdRng;
use tokio::time::sleep;

use super::{Fault, Injection, ms};
use crate::world::World;

/// The name of periods without wake-ups in the evidence.
pub const LOSE_WAKEUPS: &str = "lose-wakeups";

/// F11: the listening connections of all processes are silently dead.
pub struct Lost;

#[async_trait]
impl Fault for Lost {
    fn name(&self) -> &'static str {
        LOSE_WAKEUPS
    }

    fn number(&self) -> &'static str {
        "F11"
    }

    async fn inject(&self, world: &World, dice: &mut StdRng) -> Result<Injection> {
        let lasts = ms(dice, 4_000..9_000);
        for member in &world.members {
            member.proxy.change(|weather| weather.deaf = true);
        }
        sleep(lasts).await;
        for member in &world.members {
            member.proxy.change(|weather| weather.deaf = false);
        }
        Ok(Injection::of(format!("for {} ms", lasts.as_millis())))
    }
}
