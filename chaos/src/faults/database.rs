//! Faults of PostgreSQL itself, and inside it.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use async_trait::async_trait;
use rand::RngExt as _;
use rand::rngs::StdRng;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};
use tokio::time::{Instant, sleep};

use super::{Fault, Injection, ms, pick};
use crate::fleet::socket_of;
use crate::world::World;

/// F5: PostgreSQL crashes, loses all connections, and recovers from its log.
pub struct Crash;

#[async_trait]
impl Fault for Crash {
    fn name(&self) -> &'static str {
        "crash-postgres"
    }

    fn number(&self) -> &'static str {
        "F5"
    }

    async fn inject(&self, world: &World, dice: &mut StdRng) -> Result<Injection> {
        let servers = world.servers.private().await?;
        servers.primary.stop_immediate().await?;
        let away = ms(dice, 0..2_000);
        sleep(away).await;
        servers.primary.restart().await?;
        Ok(Injection::of(format!(
            "away for {} ms and its recovery",
            away.as_millis()
        )))
    }
}

/// F5: PostgreSQL is restarted.
pub struct Restart;

#[async_trait]
impl Fault for Restart {
    fn name(&self) -> &'static str {
        "restart-postgres"
    }

    fn number(&self) -> &'static str {
        "F5"
    }

    fn weight(&self) -> usize {
        1
    }

    async fn inject(&self, world: &World, _dice: &mut StdRng) -> Result<Injection> {
        let servers = world.servers.private().await?;
        let began = Instant::now();
        servers.primary.restart().await?;
        Ok(Injection::of(format!("took {} ms", began.elapsed().as_millis())))
    }
}

/// F6: an operator terminates sessions, in the middle of their work.
pub struct EndedSessions;

#[async_trait]
impl Fault for EndedSessions {
    fn name(&self) -> &'static str {
        "end-sessions"
    }

    fn number(&self) -> &'static str {
        "F6"
    }

    async fn inject(&self, world: &World, dice: &mut StdRng) -> Result<Injection> {
        let share: f64 = dice.random_range(0.2..1.0);
        let ended: i64 = sqlx::query_scalar(
            "select count(*) filter (where pg_terminate_backend(pid)) from pg_stat_activity
             where application_name like 'rejoin-%' and random() < $1",
        )
        .bind(share)
        .fetch_one(&world.db)
        .await?;
        Ok(Injection::of(format!("{ended} sessions")))
    }
}

/// F15: a contended lock is held for a while: by a schema change, or manually.
pub struct Locks;

const TABLES: [&str; 5] = [
    "kb.agent_runs",
    "kb.chat_messages",
    "queue.jobs",
    "stream.events",
    "stream.logs",
];

#[async_trait]
impl Fault for Locks {
    fn name(&self) -> &'static str {
        "hold-locks"
    }

    fn number(&self) -> &'static str {
        "F15"
    }

    async fn inject(&self, world: &World, dice: &mut StdRng) -> Result<Injection> {
        let (table, lasts) = (*pick(dice, &TABLES), ms(dice, 300..3_000));
        // A separate connection, which ends with this in any case.
        let mut connection = world.connect().await?;
        sqlx::raw_sql(AssertSqlSafe(format!(
            "begin; lock table {table} in access exclusive mode"
        )))
        .execute(&mut connection)
        .await?;
        sleep(lasts).await;
        sqlx::query("commit").execute(&mut connection).await?;
        Ok(Injection::of(format!("{table} for {} ms", lasts.as_millis())))
    }
}

/// F14: a long-running transaction keeps its snapshot: dead rows can't be removed.
pub struct OldSnapshot;

const STAYS: Duration = Duration::from_secs(15);

#[async_trait]
impl Fault for OldSnapshot {
    fn name(&self) -> &'static str {
        "old-snapshot"
    }

    fn number(&self) -> &'static str {
        "F14"
    }

    fn weight(&self) -> usize {
        1
    }

    async fn inject(&self, world: &World, _dice: &mut StdRng) -> Result<Injection> {
        let mut connection = world.connect().await?;
        let mut transaction = connection.begin_with("begin isolation level repeatable read").await?;
        sqlx::query("select count(*) from queue.jobs")
            .execute(&mut *transaction)
            .await?;
        sleep(STAYS).await;
        // It may have ended with the server.
        let _ = transaction.rollback().await;
        Ok(Injection::of(format!("for {} s", STAYS.as_secs())))
    }
}

/// F20: the primary is lost for good, and its synchronous standby takes over.
pub struct FailOver;

/// Timeout of the promotion.
const PROMOTION_LIMIT_S: i32 = 30;

#[async_trait]
impl Fault for FailOver {
    fn name(&self) -> &'static str {
        "fail-over"
    }

    fn number(&self) -> &'static str {
        "F20"
    }

    async fn inject(&self, world: &World, dice: &mut StdRng) -> Result<Injection> {
        let mut servers = world.servers.private().await?;
        let standby = servers.standby.take().context("there is no standby")?;
        let began = Instant::now();
        servers.primary.stop_immediate().await?;
        sleep(ms(dice, 0..1_000)).await;
        let mut connection = PgConnection::connect(&standby.url()).await?;
        let promoted: bool = sqlx::query_scalar("select pg_promote(true, $1)")
            .bind(PROMOTION_LIMIT_S)
            .fetch_one(&mut connection)
            .await?;
        ensure!(promoted, "the standby did not take over");
        for proxy in world.members.iter().map(|member| &member.proxy).chain([&world.calm]) {
            proxy.lead_to(socket_of(&standby));
        }
        servers.primary = standby;
        Ok(Injection::of(format!(
            "no leader for {} ms",
            began.elapsed().as_millis()
        )))
    }
}
