//! What processes and PostgreSQL have used so far.

use anyhow::Result;
use sqlx::Row as _;

use crate::load::now_us;
use crate::product::Fleet;
use crate::scenario::Context;

/// What has been used so far.
#[derive(Debug, Clone)]
pub(super) struct Counters {
    at_us: f64,
    pub(super) statements: f64,
    pub(super) transactions: f64,
    pub(super) wal_bytes: f64,
    /// Of API, worker and PostgreSQL.
    pub(super) cpu_us: [f64; 3],
}

impl Counters {
    pub(super) async fn read(fleet: &Fleet, context: &Context) -> Result<Self> {
        let row = sqlx::query(
            "select (select coalesce(sum(calls), 0) from pg_stat_statements)::float8,
                    pg_snapshot_xmax(pg_current_snapshot())::text::float8,
                    pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::float8",
        )
        .fetch_one(&fleet.database.db.pool_sqlx)
        .await?;
        Ok(Self {
            at_us: now_us() as f64,
            statements: row.get(0),
            transactions: row.get(1),
            wal_bytes: row.get(2),
            cpu_us: fleet.cpu_us(context)?.map(|us| us as f64),
        })
    }

    pub(super) fn since(&self, before: &Self) -> Self {
        self.combined(before, -1.0)
    }

    /// Without what idle processes use in the same time.
    pub(super) fn without(&self, idle: &Self) -> Self {
        self.combined(idle, -self.at_us / idle.at_us)
    }

    fn combined(&self, other: &Self, factor: f64) -> Self {
        Self {
            at_us: self.at_us + factor * other.at_us,
            statements: self.statements + factor * other.statements,
            transactions: self.transactions + factor * other.transactions,
            wal_bytes: self.wal_bytes + factor * other.wal_bytes,
            cpu_us: std::array::from_fn(|i| self.cpu_us[i] + factor * other.cpu_us[i]),
        }
    }
}
