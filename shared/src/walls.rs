//! The second wall: transactions in which the database itself shows only what the caller may see. The API begins every transaction on
//! behalf of a user here; roles are in `migrations/0003_identity.up.sql`, policies beside their tables in `migrations/`, and
//! docs/decisions/0014-row-level-security.md says why they are as they are.
//!
//! Invariant: who is asking is set for one transaction, never for a connection; a transaction that does not say sees nothing.

use deadpool_postgres::{Object, Pool};
use sqlx::{AssertSqlSafe, PgPool, Postgres, Transaction};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::owner::Owner;
use crate::queue::settle::HotError;

/// Whom a transaction is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asking {
    /// One user, in one project: what the API does for its callers.
    For(Owner),
    /// Nobody yet: it is being found out who calls.
    Gate,
    /// One user who changes who may come into the project: what the gate may do, in that project alone.
    GateFor(Owner),
    /// Everybody, as the connection's own role allows: workers, and operators.
    Everybody,
}

impl Asking {
    /// What begins the transaction: one message to the server, as a plain BEGIN is. (Ids are safe to be written into it.)
    fn opening(self) -> String {
        match self {
            Asking::For(owner) => format!(
                "begin; set local rejoin.project = '{}'; set local rejoin.owner = '{}'",
                owner.project_id, owner.user_id
            ),
            Asking::GateFor(owner) => format!(
                "begin; set local role rejoin_gate; set local rejoin.project = '{}'; set local rejoin.owner = '{}'",
                owner.project_id, owner.user_id
            ),
            Asking::Gate => "begin; set local role rejoin_gate".to_owned(),
            Asking::Everybody => "begin".to_owned(),
        }
    }
}

/// Begins a transaction. One that only reads need not be committed.
pub async fn begin(db: &PgPool, asking: Asking) -> Result<Transaction<'static, Postgres>, sqlx::Error> {
    db.begin_with(AssertSqlSafe(asking.opening())).await
}

/// A connection that leaves the pool unless its query was answered: whoever gives up waiting must not hand a connection that
/// answers no more to the next one.
pub(crate) struct Lent(Option<Object>);

impl Lent {
    pub(crate) async fn from(pool: &Pool) -> Result<Self, HotError> {
        Ok(Self(Some(pool.get().await?)))
    }

    pub(crate) fn client(&self) -> &Object {
        self.0
            .as_ref()
            .expect("a lent connection is there until its query was answered")
    }

    /// Back to the pool.
    pub(crate) fn answered(mut self) {
        self.0.take();
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let Some(object) = self.0.take() {
            drop(Object::take(object));
        }
    }
}

/// The one row of a statement, in a transaction of its own. Opening, statement and COMMIT are sent together: it takes no longer than
/// the statement by itself.
pub async fn look(
    pool: &Pool,
    asking: Asking,
    sql: &str,
    arguments: &[&(dyn ToSql + Sync)],
) -> Result<Option<Row>, HotError> {
    let lent = Lent::from(pool).await?;
    let client = lent.client();
    let statement = client.prepare_cached(sql).await?;
    let opening = asking.opening();
    // In this order: each is sent when it is first polled. Without its opening, the statement would see nothing.
    let (_, row, _) = tokio::try_join!(
        client.batch_execute(&opening),
        client.query_opt(&statement, arguments),
        client.batch_execute("commit")
    )?;
    lent.answered();
    Ok(row)
}
