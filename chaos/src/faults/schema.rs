//! Schema changes under load: expand, then contract, as migrations/README.md requires.

use std::time::Duration;

use anyhow::{Result, bail};
use async_trait::async_trait;
use rand::rngs::StdRng;
use sqlx::AssertSqlSafe;
use tokio::time::sleep;

use super::{Fault, Injection, pick};
use crate::world::World;

/// Lock timeout of a change, which is retried: waiting for a lock blocks others.
const LOCK_LIMIT: &str = "200ms";
const TRIES: u32 = 50;
const RETRY: Duration = Duration::from_millis(100);
const TABLES: [&str; 4] = ["kb.agent_runs", "kb.chat_messages", "queue.jobs", "stream.events"];

/// F19: a column, a check and an index are added, and removed again.
pub struct Migration;

#[async_trait]
impl Fault for Migration {
    fn name(&self) -> &'static str {
        "migrate"
    }

    fn number(&self) -> &'static str {
        "F19"
    }

    async fn inject(&self, world: &World, dice: &mut StdRng) -> Result<Injection> {
        // One at a time, on a stable server.
        let _servers = world.servers.private().await?;
        let table = *pick(dice, &TABLES);
        let (schema, _) = table.split_once('.').unwrap_or(("public", table));
        let mut connection = world.connect().await?;
        sqlx::query(AssertSqlSafe(format!("set lock_timeout = '{LOCK_LIMIT}'")))
            .execute(&mut connection)
            .await?;
        let mut tries = 0;
        for change in [
            format!("alter table {table} add column if not exists chaos_note text default 'none'"),
            format!("alter table {table} add constraint chaos_check check (chaos_note <> '') not valid"),
            format!("alter table {table} validate constraint chaos_check"),
            format!("create index concurrently if not exists chaos_index on {table} (chaos_note)"),
            format!("drop index concurrently if exists {schema}.chaos_index"),
            format!("alter table {table} drop constraint if exists chaos_check"),
            format!("alter table {table} drop column if exists chaos_note"),
        ] {
            while let Err(error) = sqlx::query(AssertSqlSafe(change.clone()))
                .execute(&mut connection)
                .await
            {
                tries += 1;
                if tries > TRIES {
                    bail!("{change}: {error}");
                }
                sleep(RETRY).await;
            }
        }
        Ok(Injection::of(format!("{table}, {tries} tries more than one each")))
    }
}
