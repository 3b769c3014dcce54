//! Processes that are suspended and continued.

use anyhow::Result;
use async_trait::async_trait;
use rand::rngs::StdRng;
use rejoin_cli::dev::process::{self, Signal};
use tokio::time::sleep;

use super::{Fault, Injection, hold, ms, pick_member};
use crate::world::World;

/// F17: a worker suspended for longer than its lease. When it continues, others have its runs: it must write nothing.
pub struct Zombie;

#[async_trait]
impl Fault for Zombie {
    fn name(&self) -> &'static str {
        "stop-worker-past-lease"
    }

    fn number(&self) -> &'static str {
        "F17"
    }

    async fn inject(&self, world: &World, dice: &mut StdRng) -> Result<Injection> {
        let member = pick_member(dice, &world.workers());
        let held = hold(member).await?;
        process::send(held.pid, Signal::Stop)?;
        sleep(world.lease + ms(dice, 1_500..4_000)).await;
        process::send(held.pid, Signal::Continue)?;
        Ok(Injection {
            detail: format!("{} ({})", member.name, held.pid),
            worker: held.worker,
            at_us: None,
        })
    }
}

/// F17, an API: suspended for longer than it may use what it knows of projects' places. When it continues, some have moved away.
pub struct Api;

#[async_trait]
impl Fault for Api {
    fn name(&self) -> &'static str {
        "stop-api"
    }

    fn number(&self) -> &'static str {
        "F17"
    }

    async fn inject(&self, world: &World, dice: &mut StdRng) -> Result<Injection> {
        let member = pick_member(dice, &world.api_members());
        let held = hold(member).await?;
        process::send(held.pid, Signal::Stop)?;
        let lasts = ms(dice, 1_000..6_000);
        sleep(lasts).await;
        process::send(held.pid, Signal::Continue)?;
        Ok(Injection::of(format!(
            "{} ({}) for {} ms",
            member.name,
            held.pid,
            lasts.as_millis()
        )))
    }
}
