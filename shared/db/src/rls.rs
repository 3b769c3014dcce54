//! Transactions scoped by row-level security: the database returns only rows the caller may see. The API begins every
//! user's transaction here; roles are in `migrations/0003_identity.up.sql`, policies beside their tables, and
//! docs/decisions/0014-row-level-security.md gives the reasons.
//!
//! Invariant: the scope is set for one transaction, never for a connection; a transaction without a scope sees no rows.

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use deadpool_postgres::{Object, Pool};
use sqlx::{PgConnection, PgPool, Postgres, Transaction};
use tokio_postgres::Row;
use tokio_postgres::types::{FromSqlOwned, ToSql};
use uuid::Uuid;

use crate::{PgError, transactions};
use rejoin_types::digest::hex;
use rejoin_types::owner::Owner;

/// Whether transactions of users ask if their workspace is being moved to another database.
static ASKS_FOR_HOLDS: AtomicBool = AtomicBool::new(false);

/// From its call, each transaction of a user in this process begins with `cells.enter`, in the same message: it is read-only while its
/// workspace is held, and refused with a transient error where its workspace has left. For processes that serve several databases.
pub fn ask_for_holds() {
    ASKS_FOR_HOLDS.store(true, Ordering::Relaxed);
}

/// The statement with which a transaction begins that may change a workspace.
fn enter(workspace_id: Uuid) -> String {
    format!("select cells.enter('{workspace_id}'); ")
}

/// The row-level-security scope of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// One user, in one workspace: the API's usual scope.
    User(Owner),
    /// The same in the directory, for what belongs to identity: wherever the workspace lives.
    Directory(Owner),
    /// Authentication: the caller is not known yet.
    Login,
    /// A user who manages access to the workspace: the rights of authentication, in that workspace only.
    UserLogin(Owner),
    /// A reader without a credential who has a link to a conversation, by the SHA-256 of the link's token: what the link shows, and nothing else.
    Reader([u8; 32]),
    /// A user's change of what all members of a workspace share, as its graph: no restriction but the connection's own role.
    Workspace(Uuid),
    /// No restriction but the connection's own role: workers, and operators.
    System,
}

impl Scope {
    /// Returns the statements that begin the transaction, BEGIN last: one message to the server, like a plain BEGIN. (Ids can
    /// be inserted safely.)
    pub fn begin_sql(self) -> String {
        match self {
            Scope::User(owner) if ASKS_FOR_HOLDS.load(Ordering::Relaxed) => {
                format!("{}{}", enter(owner.workspace_id), Scope::Directory(owner).begin_sql())
            }
            Scope::User(owner) | Scope::Directory(owner) => format!(
                "set local rejoin.project = '{}'; set local rejoin.owner = '{}'; begin",
                owner.workspace_id, owner.user_id
            ),
            Scope::UserLogin(owner) => format!(
                "set local role rejoin_gate; set local rejoin.project = '{}'; set local rejoin.owner = '{}'; begin",
                owner.workspace_id, owner.user_id
            ),
            Scope::Login => "set local role rejoin_gate; begin".to_owned(),
            Scope::Reader(token_hash) => format!(
                "set local role rejoin_gate; set local rejoin.share = '{}'; begin",
                hex(&token_hash)
            ),
            Scope::Workspace(workspace_id) if ASKS_FOR_HOLDS.load(Ordering::Relaxed) => {
                format!("{}begin", enter(workspace_id))
            }
            Scope::Workspace(_) | Scope::System => "begin".to_owned(),
        }
    }
}

/// Begins a transaction. A read-only one need not be committed.
pub async fn begin(db: &PgPool, scope: Scope) -> Result<Transaction<'static, Postgres>, sqlx::Error> {
    transactions::begin_with(db, scope.begin_sql()).await
}

/// Says for whom a transaction of [`Scope::Login`] goes on: then it has the rights of [`Scope::UserLogin`]. None: for no one, as it
/// began.
pub async fn identified(db: &mut PgConnection, owner: Option<Owner>) -> Result<(), sqlx::Error> {
    let (workspace_id, user_id) = match owner {
        Some(owner) => (owner.workspace_id.to_string(), owner.user_id.to_string()),
        None => (String::new(), String::new()),
    };
    sqlx::query("select set_config('rejoin.project', $1, true), set_config('rejoin.owner', $2, true)")
        .bind(workspace_id)
        .bind(user_id)
        .execute(db)
        .await?;
    Ok(())
}

/// Guards a pooled connection. If its query is abandoned, as by a request whose client has gone, the connection returns to the pool once that query
/// was answered: a new one costs PostgreSQL far more, and a storm of clients that give up would cost one each.
pub struct ConnGuard(Option<Object>);

/// How long the answer to an abandoned query is waited for, before its connection is closed.
const ABANDONED_LIMIT: Duration = Duration::from_secs(2);

impl ConnGuard {
    pub async fn from(pool: &Pool) -> Result<Self, PgError> {
        let pool = pool.clone();
        let mut lent = Box::pin(async move { pool.get().await });
        // An idle one is there at once.
        if let Poll::Ready(idle) = poll_fn(|context| Poll::Ready(lent.as_mut().poll(context))).await {
            return Ok(Self(Some(idle?)));
        }
        // In a task: a connection that is being opened is not abandoned with its request, either.
        match tokio::spawn(lent).await {
            Ok(object) => Ok(Self(Some(object?))),
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                // The runtime ends, and this task with it.
                Err(_) => std::future::pending().await,
            },
        }
    }

    pub fn client(&self) -> &Object {
        self.0
            .as_ref()
            .expect("a lent connection is there until its query was answered")
    }

    /// Returns the connection to the pool if its query succeeded, else closes it: what it has prepared may be the cause.
    pub fn settle<T, E>(mut self, answer: Result<T, E>) -> Result<T, E> {
        let object = self.0.take();
        if answer.is_err() {
            drop(object.map(Object::take));
        }
        answer
    }
}

impl Drop for ConnGuard {
    fn drop(&mut self) {
        let Some(object) = self.0.take() else { return };
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn(return_when_answered(object))),
            Err(_) => drop(Object::take(object)),
        }
    }
}

/// Answers arrive in the order of the statements. A transaction that was begun ends by itself: its COMMIT was sent with it.
async fn return_when_answered(object: Object) {
    let answered = tokio::time::timeout(ABANDONED_LIMIT, object.batch_execute("")).await;
    if !matches!(answered, Ok(Ok(()))) {
        drop(Object::take(object));
    }
}

/// Fetches one row in its own scoped transaction. Opening, statement and COMMIT are pipelined: it takes no longer than
/// the statement alone.
pub async fn query_one_scoped(
    pool: &Pool,
    scope: Scope,
    sql: &str,
    arguments: &[&(dyn ToSql + Sync)],
) -> Result<Option<Row>, PgError> {
    let guard = ConnGuard::from(pool).await?;
    let client = guard.client();
    let statement = client.prepare_cached(sql).await?;
    let begin_sql = scope.begin_sql();
    // In this order: each is sent when it is first polled. Before its opening, the statement would see no rows.
    let answer = tokio::try_join!(
        client.batch_execute(&begin_sql),
        client.query_opt(&statement, arguments),
        client.batch_execute("commit")
    );
    let (_, row, _) = guard.settle(answer)?;
    Ok(row)
}

/// The same for the value of an expression, such as a call of a function: in a user's scope by one statement, which begins and commits its transaction
/// itself. None: it is null.
pub async fn value_scoped<T: FromSqlOwned>(
    pool: &Pool,
    scope: Scope,
    expression: &str,
    arguments: &[&(dyn ToSql + Sync)],
) -> Result<Option<T>, PgError> {
    let owner = match scope {
        Scope::User(owner) if !ASKS_FOR_HOLDS.load(Ordering::Relaxed) => owner,
        _ => {
            let row = query_one_scoped(pool, scope, &format!("select {expression}"), arguments).await?;
            return Ok(row.and_then(|row| row.get(0)));
        }
    };
    let (workspace_id, user_id) = (owner.workspace_id.to_string(), owner.user_id.to_string());
    let last = arguments.len();
    // The subquery is not merged with the statement, so the scope is set before the expression is evaluated.
    let sql = format!(
        "select {expression} from (select set_config('rejoin.project', ${}, true), set_config('rejoin.owner', ${}, true) offset 0) scope",
        last + 1,
        last + 2
    );
    let arguments = [arguments, &[&workspace_id, &user_id]].concat();
    let guard = ConnGuard::from(pool).await?;
    let statement = guard.client().prepare_cached(&sql).await?;
    let answer = guard.client().query_opt(&statement, &arguments).await;
    Ok(guard.settle(answer)?.and_then(|row| row.get(0)))
}
