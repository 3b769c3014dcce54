//! Wrong clocks.

use anyhow::{Context as _, Result, ensure};
use async_trait::async_trait;
use rand::rngs::StdRng;
use tokio::time::sleep;

use super::{Fault, Injection, hold, ms, pick, pick_member};
use crate::evidence::now_us;
use crate::world::World;

/// F10: a worker's clock is an hour ahead or behind for a while.
pub struct HourOff;

#[async_trait]
impl Fault for HourOff {
    fn name(&self) -> &'static str {
        "clock-hour-off"
    }

    fn number(&self) -> &'static str {
        "F10"
    }

    fn weight(&self) -> usize {
        1
    }

    async fn inject(&self, world: &World, dice: &mut StdRng) -> Result<Injection> {
        let library = library().context("faketime is not installed")?;
        let member = pick_member(dice, &world.workers());
        let off = *pick(dice, &["+1h", "-1h"]);
        let mut held = hold(member).await?;
        let at_us = now_us();
        member.kill(&mut held.process).await?;
        member.start_with(&mut held.process, &[("LD_PRELOAD", &library), ("FAKETIME", off)])?;
        sleep(ms(dice, 3_000..8_000)).await;
        member.drain(&mut held.process).await?;
        ensure!(held.process.is_none(), "it has left");
        member.start(&mut held.process)?;
        Ok(Injection {
            detail: format!("{} by {off}", member.name),
            worker: held.worker,
            at_us: Some(at_us),
        })
    }
}

/// The library preloaded by `faketime`.
fn library() -> Option<String> {
    let folders = std::fs::read_dir("/usr/lib").ok()?.flatten();
    folders
        .map(|folder| folder.path().join("faketime/libfaketime.so.1"))
        .find(|path| path.exists())
        .map(|path| path.display().to_string())
}
