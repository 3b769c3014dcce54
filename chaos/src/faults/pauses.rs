//! Processes that stand still, and go on as if nothing had been.

use anyhow::{Result, bail};
use async_trait::async_trait;
use rand::rngs::StdRng;
use rejoin_cli::dev::process::{self, Signal};
use tokio::time::sleep;

use super::{Fault, Told, ms, pick_member};
use crate::witness;
use crate::world::World;

/// F17: a worker that is stopped for longer than its lease. When it goes on, others have its runs: it must write nothing.
pub struct Zombie;

#[async_trait]
impl Fault for Zombie {
    fn name(&self) -> &'static str {
        "stop-worker-past-lease"
    }

    fn number(&self) -> &'static str {
        "F17"
    }

    async fn inject(&self, world: &World, dice: &mut StdRng) -> Result<Told> {
        let member = pick_member(dice, &world.workers());
        let process = member.process.lock().await;
        let Some(pid) = process.as_ref().map(std::process::Child::id) else {
            bail!("{} does not run", member.name);
        };
        let worker = witness::worker(&world.db, pid).await.ok().flatten();
        process::send(pid, Signal::Stop)?;
        sleep(world.lease + ms(dice, 1_500..4_000)).await;
        process::send(pid, Signal::Continue)?;
        Ok(Told {
            detail: format!("{} ({pid})", member.name),
            worker,
            at_us: None,
        })
    }
}
