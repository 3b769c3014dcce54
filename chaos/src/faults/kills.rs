//! Processes killed by SIGKILL. Each is restarted after a while.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Seek as _, SeekFrom};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use async_trait::async_trait;
use rand::rngs::StdRng;
use tokio::time::{Instant, sleep, timeout};

use super::{Fault, Injection, hold, ms, pick_member, pick_proxy};
use crate::evidence::now_us;
use crate::fleet::Member;
use crate::tools::{Effect, LOOK, PAY};
use crate::world::World;

/// Timeout of waiting for an opportunity to kill.
const CHANCE_LIMIT: Duration = Duration::from_secs(5);
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Kills the member's process, and starts another after `away`.
async fn kill(member: &Member, away: Duration) -> Result<Injection> {
    let mut held = hold(member).await?;
    let at_us = now_us();
    member.kill(&mut held.process).await?;
    sleep(away).await;
    member.start(&mut held.process)?;
    Ok(Injection {
        detail: format!("{} ({})", member.name, held.pid),
        worker: held.worker,
        at_us: Some(at_us),
    })
}

/// F1: a worker, at any time.
pub struct Worker;

#[async_trait]
impl Fault for Worker {
    fn name(&self) -> &'static str {
        "kill-worker"
    }

    fn number(&self) -> &'static str {
        "F1"
    }

    fn weight(&self) -> usize {
        4
    }

    async fn inject(&self, world: &World, dice: &mut StdRng) -> Result<Injection> {
        let member = pick_member(dice, &world.workers());
        kill(member, ms(dice, 0..2_000)).await
    }
}

/// Returns the next effect of a tool of a worker, as soon as it is in the ledger.
async fn next_effect(world: &World) -> Result<Effect> {
    let mut file = File::open(world.evidence.ledger()).context("no tool has acted yet")?;
    let mut at = file.seek(SeekFrom::End(0))?;
    let began = Instant::now();
    while began.elapsed() < CHANCE_LIMIT {
        file.seek(SeekFrom::Start(at))?;
        let mut line = String::new();
        BufReader::new(&file).read_line(&mut line)?;
        if line.ends_with('\n') {
            let effect: Effect = serde_json::from_str(&line)?;
            if [PAY, LOOK].contains(&effect.tool.as_str()) {
                return Ok(effect);
            }
            at += line.len() as u64;
            continue;
        }
        sleep(LOOK_EVERY).await;
    }
    bail!("no tool acted within {} s", CHANCE_LIMIT.as_secs())
}

/// Returns the worker with this process id.
async fn member_of(world: &World, pid: u32) -> Result<&Member> {
    for member in world.workers() {
        if member
            .process
            .lock()
            .await
            .as_ref()
            .is_some_and(|child| child.id() == pid)
        {
            return Ok(member);
        }
    }
    bail!("the worker {pid} has gone already")
}

/// F2: a worker whose tool has acted and not answered yet.
pub struct WorkerInCall;

#[async_trait]
impl Fault for WorkerInCall {
    fn name(&self) -> &'static str {
        "kill-worker-in-call"
    }

    fn number(&self) -> &'static str {
        "F2"
    }

    async fn inject(&self, world: &World, dice: &mut StdRng) -> Result<Injection> {
        let effect = next_effect(world).await?;
        let member = member_of(world, effect.pid).await?;
        kill(member, ms(dice, 0..1_000)).await
    }
}

/// F3: a worker when a tool answers: before or after the answer is stored.
pub struct WorkerAfterCall;

#[async_trait]
impl Fault for WorkerAfterCall {
    fn name(&self) -> &'static str {
        "kill-worker-at-answer"
    }

    fn number(&self) -> &'static str {
        "F3"
    }

    async fn inject(&self, world: &World, dice: &mut StdRng) -> Result<Injection> {
        let effect = next_effect(world).await?;
        let member = member_of(world, effect.pid).await?;
        let answers_us = effect.at_us + i64::try_from(effect.hold_ms).unwrap_or_default() * 1_000;
        let until_us = u64::try_from(answers_us - now_us()).unwrap_or_default();
        sleep(Duration::from_micros(until_us) + ms(dice, 0..8)).await;
        kill(member, ms(dice, 0..1_000)).await
    }
}

/// Kills a member whose transaction was just committed, before it receives the response.
async fn kill_at_commit(member: &Member, dice: &mut StdRng) -> Result<Injection> {
    let proxy = pick_proxy(dice, member);
    if timeout(CHANCE_LIMIT, proxy.hold_commit()).await.is_err() {
        proxy.disarm();
        bail!("{} committed nothing within {} s", member.name, CHANCE_LIMIT.as_secs());
    }
    kill(member, ms(dice, 0..1_000)).await
}

/// F3, elsewhere: between a worker's commit and its response.
pub struct WorkerAtCommit;

#[async_trait]
impl Fault for WorkerAtCommit {
    fn name(&self) -> &'static str {
        "kill-worker-at-commit"
    }

    fn number(&self) -> &'static str {
        "F3"
    }

    async fn inject(&self, world: &World, dice: &mut StdRng) -> Result<Injection> {
        let member = pick_member(dice, &world.workers());
        kill_at_commit(member, dice).await
    }
}

/// F4: between an API's commit and its response.
pub struct ApiAtCommit;

#[async_trait]
impl Fault for ApiAtCommit {
    fn name(&self) -> &'static str {
        "kill-api-at-commit"
    }

    fn number(&self) -> &'static str {
        "F4"
    }

    async fn inject(&self, world: &World, dice: &mut StdRng) -> Result<Injection> {
        let member = pick_member(dice, &world.api_members());
        kill_at_commit(member, dice).await
    }
}

/// F4, F9: an API, at any time; its readers reconnect elsewhere.
pub struct Api;

#[async_trait]
impl Fault for Api {
    fn name(&self) -> &'static str {
        "kill-api"
    }

    fn number(&self) -> &'static str {
        "F4"
    }

    async fn inject(&self, world: &World, dice: &mut StdRng) -> Result<Injection> {
        let member = pick_member(dice, &world.api_members());
        kill(member, ms(dice, 0..1_000)).await
    }
}
