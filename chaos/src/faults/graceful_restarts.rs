//! Processes asked to stop, as in a rolling deploy: they drain, and a new one replaces them. With two builds, it is of the other one: an upgrade, or
//! its way back.

use anyhow::Result;
use async_trait::async_trait;
use rand::rngs::StdRng;

use super::{Fault, Injection, hold, pick_member};
use crate::evidence::now_us;
use crate::fleet::Member;
use crate::world::World;

/// The name of drained workers in the evidence.
pub const DRAIN_WORKER: &str = "drain-worker";

async fn replace(member: &Member) -> Result<Injection> {
    let mut held = hold(member).await?;
    let at_us = now_us();
    let took = member.drain(&mut held.process).await?;
    let build = member.change_build();
    member.start(&mut held.process)?;
    let followed = build.map_or_else(String::new, |build| format!(", and was followed by {build}"));
    Ok(Injection {
        detail: format!(
            "{} ({}) left after {} ms{followed}",
            member.name,
            held.pid,
            took.as_millis()
        ),
        worker: held.worker,
        at_us: Some(at_us),
    })
}

/// F18: a worker. Its runs are released.
pub struct Worker;

#[async_trait]
impl Fault for Worker {
    fn name(&self) -> &'static str {
        DRAIN_WORKER
    }

    fn number(&self) -> &'static str {
        "F18"
    }

    fn weight(&self) -> usize {
        4
    }

    async fn inject(&self, world: &World, dice: &mut StdRng) -> Result<Injection> {
        let member = pick_member(dice, &world.workers());
        replace(member).await
    }
}

/// F18: an API. Its readers are told to reconnect elsewhere.
pub struct Api;

#[async_trait]
impl Fault for Api {
    fn name(&self) -> &'static str {
        "drain-api"
    }

    fn number(&self) -> &'static str {
        "F18"
    }

    async fn inject(&self, world: &World, dice: &mut StdRng) -> Result<Injection> {
        let member = pick_member(dice, &world.api_members());
        replace(member).await
    }
}
