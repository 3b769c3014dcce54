//! Transactions over the pool. They begin here, not by the pool's own `begin`: a caller who is cancelled while BEGIN is under way (a client
//! that disconnects, a run that is stopped) would leave a connection which the server has put into a transaction, and which sqlx 0.9
//! believes to be outside one. The next caller would get it, with the first one's role and locks, and lose what it writes.
//!
//! Invariants: the answer to BEGIN is always read, by a task that is not cancelled. BEGIN comes last: what fails before it leaves nothing open,
//! so a lost connection is replaced by another one.

use std::sync::atomic::{AtomicUsize, Ordering};

use sqlx::{AssertSqlSafe, PgPool, Postgres, SqlSafeStr as _, Transaction};

use crate::errors::is_connection_lost;

/// Callers of this process that wait for a connection.
static WAITING: AtomicUsize = AtomicUsize::new(0);

/// Returns how many callers of this process wait for a connection to begin a transaction. The pool itself does not count them.
pub fn waiting() -> usize {
    WAITING.load(Ordering::Relaxed)
}

/// A caller that waits: counted until it has its connection, or is cancelled.
struct Waiter;

impl Waiter {
    fn enter() -> Self {
        WAITING.fetch_add(1, Ordering::Relaxed);
        Self
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        WAITING.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Begins a transaction.
pub async fn begin(pool: &PgPool) -> Result<Transaction<'static, Postgres>, sqlx::Error> {
    begin_with(pool, "begin").await
}

/// Begins a transaction by these statements, of which the last is BEGIN. Those before it are part of it: PostgreSQL runs the statements of
/// one message in one transaction, which BEGIN then keeps open.
pub async fn begin_with(
    pool: &PgPool,
    statements: impl Into<String>,
) -> Result<Transaction<'static, Postgres>, sqlx::Error> {
    let statements = AssertSqlSafe(statements.into()).into_sql_str();
    // All connections of the pool may be lost; the next one is new then.
    let mut replacements = pool.size();
    loop {
        // Waiting for a connection may be cancelled.
        let waiter = Waiter::enter();
        let connection = pool.acquire().await?;
        drop(waiter);
        let begun = tokio::spawn(Transaction::begin(connection, Some(statements.clone()))).await;
        // The task panics only with sqlx, and is cancelled only with the runtime.
        match begun.unwrap_or(Err(sqlx::Error::WorkerCrashed)) {
            Err(error) if replacements > 0 && is_connection_lost(&error) => replacements -= 1,
            begun => return begun,
        }
    }
}
