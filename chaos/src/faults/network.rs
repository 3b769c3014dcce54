//! Network faults between a process and PostgreSQL.

use std::time::Duration;

use anyhow::{Result, bail};
use async_trait::async_trait;
use rand::RngExt as _;
use rand::rngs::StdRng;
use tokio::time::{Instant, sleep};

use super::{Fault, Injection, ms, pick, pick_proxy};
use crate::fleet::Member;
use crate::proxy::Weather;
use crate::world::World;

/// Timeout of waiting for a commit to lose.
const CHANCE_LIMIT: Duration = Duration::from_secs(5);
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Changes the weather of a member's connections to one database for a while.
async fn weather(member: &Member, dice: &mut StdRng, lasts: Duration, change: impl FnOnce(&mut Weather)) -> Injection {
    let proxy = pick_proxy(dice, member);
    proxy.change(change);
    sleep(lasts).await;
    proxy.clear();
    Injection::of(format!("{} for {} ms", member.name, lasts.as_millis()))
}

/// F6: all connections of a process are reset.
pub struct Reset;

#[async_trait]
impl Fault for Reset {
    fn name(&self) -> &'static str {
        "reset-connections"
    }

    fn number(&self) -> &'static str {
        "F6"
    }

    async fn inject(&self, world: &World, dice: &mut StdRng) -> Result<Injection> {
        let member = pick(dice, &world.members);
        Ok(Injection::of(format!(
            "{}: {} connections",
            member.name,
            pick_proxy(dice, member).cut()
        )))
    }
}

/// F6: the connections of a process are half open: no data pass, without an error.
pub struct HalfOpen;

#[async_trait]
impl Fault for HalfOpen {
    fn name(&self) -> &'static str {
        "half-open-connections"
    }

    fn number(&self) -> &'static str {
        "F6"
    }

    async fn inject(&self, world: &World, dice: &mut StdRng) -> Result<Injection> {
        let member = pick(dice, &world.members);
        let lasts = ms(dice, 2_000..12_000);
        let proxy = pick_proxy(dice, member);
        proxy.freeze();
        sleep(lasts).await;
        proxy.clear();
        Ok(Injection::of(format!("{} for {} ms", member.name, lasts.as_millis())))
    }
}

/// F6: all data are delayed.
pub struct Slow;

#[async_trait]
impl Fault for Slow {
    fn name(&self) -> &'static str {
        "slow-connections"
    }

    fn number(&self) -> &'static str {
        "F6"
    }

    async fn inject(&self, world: &World, dice: &mut StdRng) -> Result<Injection> {
        let (member, delay) = (pick(dice, &world.members), ms(dice, 20..200));
        let lasts = ms(dice, 1_000..5_000);
        Ok(weather(member, dice, lasts, |weather| weather.delay = delay).await)
    }
}

/// F6: data arrive byte by byte.
pub struct Sliced;

#[async_trait]
impl Fault for Sliced {
    fn name(&self) -> &'static str {
        "sliced-connections"
    }

    fn number(&self) -> &'static str {
        "F6"
    }

    async fn inject(&self, world: &World, dice: &mut StdRng) -> Result<Injection> {
        let member = pick(dice, &world.members);
        let lasts = ms(dice, 1_000..4_000);
        Ok(weather(member, dice, lasts, |weather| weather.sliced = true).await)
    }
}

/// F6: one process can't reach the database, unlike the others.
pub struct Refused;

#[async_trait]
impl Fault for Refused {
    fn name(&self) -> &'static str {
        "refused-connections"
    }

    fn number(&self) -> &'static str {
        "F6"
    }

    async fn inject(&self, world: &World, dice: &mut StdRng) -> Result<Injection> {
        let (member, lasts) = (pick(dice, &world.members), ms(dice, 500..6_000));
        let proxy = pick_proxy(dice, member);
        proxy.change(|weather| weather.refused = true);
        proxy.cut();
        sleep(lasts).await;
        proxy.clear();
        Ok(Injection::of(format!("{} for {} ms", member.name, lasts.as_millis())))
    }
}

/// F7: the response to a commit (a COMMIT, or a worker's command) is lost with its connection; sometimes repeatedly.
pub struct LostCommit;

#[async_trait]
impl Fault for LostCommit {
    fn name(&self) -> &'static str {
        "lose-commit"
    }

    fn number(&self) -> &'static str {
        "F7"
    }

    fn weight(&self) -> usize {
        4
    }

    async fn inject(&self, world: &World, dice: &mut StdRng) -> Result<Injection> {
        let member = pick(dice, &world.members);
        let times = dice.random_range(1..=3);
        let proxy = pick_proxy(dice, member);
        for lost in 0..times {
            proxy.lose_commit();
            let began = Instant::now();
            while proxy.is_armed() {
                if began.elapsed() > CHANCE_LIMIT {
                    proxy.disarm();
                    if lost == 0 {
                        bail!("{} committed nothing within {} s", member.name, CHANCE_LIMIT.as_secs());
                    }
                    return Ok(Injection::of(format!("{}: {lost} commits", member.name)));
                }
                sleep(LOOK_EVERY).await;
            }
        }
        Ok(Injection::of(format!("{}: {times} commits", member.name)))
    }
}
