//! The faults of a Patroni cluster. Each leaves all programs started; the scheduler waits until the cluster is whole.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use async_trait::async_trait;
use rand::RngExt as _;
use rand::rngs::StdRng;
use rejoin_cli::dev::process::{self, Signal};
use tokio::time::{Instant, sleep};

use super::writes;
use crate::cluster::config::TTL_S;
use crate::cluster::node::Node;
use crate::cluster::{Cluster, Replication, SUPERUSER};
use crate::evidence::now_us;
use crate::faults::{Fault, Injection};
use crate::world::World;

const TTL: Duration = Duration::from_secs(TTL_S);
/// The number of the write to a primary that has lost its lock.
const STALE_WRITE: i64 = -1;

/// Returns the faults of a cluster with this replication.
pub fn all(replication: Replication) -> Vec<Arc<dyn Fault>> {
    match replication {
        Replication::Synchronous => vec![
            Arc::new(Switchover),
            Arc::new(PrimaryKilled),
            Arc::new(PrimaryPaused),
            Arc::new(StandbyLost),
            Arc::new(EtcdLost),
            Arc::new(EtcdLostPastTtl),
        ],
        // Not `PrimaryPaused`: such a primary may acknowledge writes when it continues, which are lost.
        Replication::Asynchronous => vec![
            Arc::new(PrimaryKilledAhead),
            Arc::new(Switchover),
            Arc::new(PrimaryKilled),
            Arc::new(EtcdLost),
        ],
    }
}

/// Returns those with these names; without names all.
///
/// # Errors
/// A name is not one of them.
pub fn named(names: &[String], replication: Replication) -> Result<Vec<Arc<dyn Fault>>> {
    let all = all(replication);
    if names.is_empty() {
        return Ok(all);
    }
    let mut found = Vec::new();
    for name in names {
        match all.iter().find(|fault| fault.name() == name) {
            Some(fault) => found.push(fault.clone()),
            None => bail!(
                "a cluster has the faults {}, and not {name}",
                all.iter().map(|fault| fault.name()).collect::<Vec<_>>().join(", ")
            ),
        }
    }
    Ok(found)
}

async fn leader(cluster: &Cluster) -> Result<&Node> {
    cluster.leader().await.context("the cluster has not one leader")
}

fn seconds(dice: &mut StdRng, range: std::ops::Range<u64>) -> Duration {
    Duration::from_millis(dice.random_range(range.start * 1_000..range.end * 1_000))
}

fn injection(detail: String, at_us: i64) -> Injection {
    Injection {
        detail,
        worker: None,
        at_us: Some(at_us),
    }
}

/// F21: an operator has a standby take over.
struct Switchover;

#[async_trait]
impl Fault for Switchover {
    fn name(&self) -> &'static str {
        "switchover"
    }

    fn number(&self) -> &'static str {
        "F21"
    }

    async fn inject(&self, world: &World, _dice: &mut StdRng) -> Result<Injection> {
        let cluster = world.servers.cluster()?;
        let old = leader(cluster).await?;
        let at_us = now_us();
        cluster.switch_over(old).await?;
        let new = cluster.leader_after(old).await?;
        Ok(injection(format!("{} to {}", old.name, new.name), at_us))
    }
}

/// F22: the primary's server and its Patroni are killed. They return when another node is the primary.
struct PrimaryKilled;

#[async_trait]
impl Fault for PrimaryKilled {
    fn name(&self) -> &'static str {
        "primary-killed"
    }

    fn number(&self) -> &'static str {
        "F22"
    }

    async fn inject(&self, world: &World, dice: &mut StdRng) -> Result<Injection> {
        let cluster = world.servers.cluster()?;
        let old = leader(cluster).await?;
        let at_us = now_us();
        old.kill()?;
        let new = cluster.leader_after(old).await?;
        sleep(seconds(dice, 0..5)).await;
        old.patroni.start()?;
        Ok(injection(format!("{} to {}", old.name, new.name), at_us))
    }
}

/// F26: as F22, but the standbys lack the last commits, which are lost.
struct PrimaryKilledAhead;

#[async_trait]
impl Fault for PrimaryKilledAhead {
    fn name(&self) -> &'static str {
        "primary-killed-ahead"
    }

    fn number(&self) -> &'static str {
        "F26"
    }

    async fn inject(&self, world: &World, dice: &mut StdRng) -> Result<Injection> {
        let cluster = world.servers.cluster()?;
        let old = leader(cluster).await?;
        let at_us = now_us();
        let ahead = seconds(dice, 1..3);
        let senders = cluster.suspend_replication(old).await?;
        sleep(ahead).await;
        old.kill()?;
        // Suspended processes do not notice that their server has ended, and it could not be started again.
        for sender in senders {
            // It may have ended by itself.
            let _ = process::send(sender, Signal::Kill);
        }
        let new = cluster.leader_after(old).await?;
        sleep(seconds(dice, 0..5)).await;
        old.patroni.start()?;
        let ahead_ms = ahead.as_millis();
        Ok(injection(
            format!("{}, {ahead_ms} ms ahead, to {}", old.name, new.name),
            at_us,
        ))
    }
}

/// F23: the primary's server and its Patroni are suspended until another node is the primary, and then continue: first the
/// server, which believes that it still is the primary. It must not acknowledge a write.
struct PrimaryPaused;

#[async_trait]
impl Fault for PrimaryPaused {
    fn name(&self) -> &'static str {
        "primary-paused"
    }

    fn number(&self) -> &'static str {
        "F23"
    }

    async fn inject(&self, world: &World, dice: &mut StdRng) -> Result<Injection> {
        let cluster = world.servers.cluster()?;
        let old = leader(cluster).await?;
        let (began, at_us) = (Instant::now(), now_us());
        let suspended = old.suspend();
        let new = cluster.leader_after(old).await?;
        let lasts = TTL + seconds(dice, 1..5);
        sleep(lasts.saturating_sub(began.elapsed())).await;
        suspended.continue_server();
        let database = world.servers.place(&world.watchdog).await?.database;
        let stale = format!("postgres://{SUPERUSER}@{}/{database}", old.postgres);
        let written = writes::once(&stale, STALE_WRITE).await;
        suspended.continue_patroni();
        ensure!(
            written.is_err(),
            "split brain: {} acknowledged a write while {} was the primary",
            old.name,
            new.name
        );
        let lasted_s = began.elapsed().as_secs();
        Ok(injection(
            format!("{} for {lasted_s} s, to {}", old.name, new.name),
            at_us,
        ))
    }
}

/// F24: the synchronous standby is killed, and returns later. Commits wait until another one has its part.
struct StandbyLost;

#[async_trait]
impl Fault for StandbyLost {
    fn name(&self) -> &'static str {
        "standby-lost"
    }

    fn number(&self) -> &'static str {
        "F24"
    }

    async fn inject(&self, world: &World, dice: &mut StdRng) -> Result<Injection> {
        let cluster = world.servers.cluster()?;
        let standby = cluster.synchronous_standby().await;
        let standby = standby.context("the cluster has not one synchronous standby")?;
        let (at_us, away) = (now_us(), seconds(dice, 5..15));
        standby.kill()?;
        sleep(away).await;
        standby.patroni.start()?;
        Ok(injection(format!("{} for {} s", standby.name, away.as_secs()), at_us))
    }
}

/// Kills etcd, and starts it again after a while.
async fn lose_etcd(world: &World, away: Duration) -> Result<Injection> {
    let cluster = world.servers.cluster()?;
    let old = leader(cluster).await?;
    let at_us = now_us();
    cluster.etcd.kill()?;
    sleep(away).await;
    cluster.start_etcd().await?;
    let still = cluster.leader().await.is_some_and(|leader| leader.name == old.name);
    let kept = if still { "kept" } else { "lost" };
    Ok(injection(
        format!("for {} s: {} {kept} the lock", away.as_secs(), old.name),
        at_us,
    ))
}

/// F25: etcd is away for less than the lifetime of the leader's lock, and for longer than Patroni retries.
struct EtcdLost;

#[async_trait]
impl Fault for EtcdLost {
    fn name(&self) -> &'static str {
        "etcd-lost"
    }

    fn number(&self) -> &'static str {
        "F25"
    }

    async fn inject(&self, world: &World, dice: &mut StdRng) -> Result<Injection> {
        lose_etcd(world, seconds(dice, 5..TTL_S - 5)).await
    }
}

/// F25: etcd is away for longer than the lifetime of the leader's lock.
struct EtcdLostPastTtl;

#[async_trait]
impl Fault for EtcdLostPastTtl {
    fn name(&self) -> &'static str {
        "etcd-lost-past-ttl"
    }

    fn number(&self) -> &'static str {
        "F25"
    }

    async fn inject(&self, world: &World, dice: &mut StdRng) -> Result<Injection> {
        lose_etcd(world, seconds(dice, TTL_S + 5..TTL_S + 20)).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_found_by_their_names() {
        let names = |faults: Vec<Arc<dyn Fault>>| faults.iter().map(|fault| fault.name()).collect::<Vec<_>>();
        let two = ["etcd-lost".to_owned(), "switchover".to_owned()];
        let named = |names: &[String]| named(names, Replication::Synchronous);
        assert_eq!(names(named(&two).unwrap()), ["etcd-lost", "switchover"]);
        assert_eq!(named(&[]).unwrap().len(), all(Replication::Synchronous).len());
        let error = named(&["kill-worker".to_owned()]).err().unwrap().to_string();
        assert!(error.contains("primary-paused"), "{error}");
        let ahead = ["primary-killed-ahead".to_owned()];
        assert!(named(&ahead).is_err(), "it loses what synchronous replication keeps");
        assert!(super::named(&ahead, Replication::Asynchronous).is_ok());
    }
}
