//! `REJOIN_TEST_POOLER=true`: APIs and workers of tests reach the shared server through one PgBouncer in transaction mode, set up as
//! docs/operations/poolers.md says, by its own statements. What tests do as operators stays direct. Called by `support` and `app`; a test that brings
//! its own server, or its own `DATABASE_URL`, is not affected. `make test-pooler` runs a selection of the tests so.

use rejoin_cli::dev::postgres::PrivatePostgres;
use rejoin_db::config::{BusKind, DatabaseArgs, Pooler};
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};
use tokio::sync::OnceCell;

use crate::documents;
use crate::pgbouncer::PgBouncer;

const PAGE: &str = "docs/operations/poolers.md";
/// Server connections of each login to each database.
const SERVER_CONNECTIONS: usize = 4;

/// A kind of process, with the logins that the page gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Api,
    Worker,
}

impl Kind {
    fn login(self) -> &'static str {
        match self {
            Kind::Api => "rejoin_api",
            Kind::Worker => "rejoin_work",
        }
    }
}

/// The pooler in front of the shared server.
struct Pooled {
    pooler: PgBouncer,
    /// The server's URL, up to the name of the database.
    server: String,
}

static POOLED: OnceCell<Pooled> = OnceCell::const_new();

/// Whether it is asked for.
pub fn is_wanted() -> bool {
    std::env::var("REJOIN_TEST_POOLER").is_ok_and(|value| value == "true")
}

/// Starts it, if it is asked for. The server is migrated: it has the product's roles.
pub(crate) async fn start(server: &PrivatePostgres) {
    if !is_wanted() {
        return;
    }
    let pooled = async {
        let of_page = documents::blocks(PAGE, "sql");
        let [logins, hot] = &of_page[..] else {
            panic!("{PAGE}: the logins, and the API's login for the hot paths");
        };
        // "For workers the same", as the page puts it.
        let hot_of_workers = hot
            .replace("rejoin_api_hot", "rejoin_work_hot")
            .replace("rejoin_app, rejoin_gate", "rejoin_worker")
            .replace("rejoin_app", "rejoin_worker");
        let mut operator = PgConnection::connect(&server.url()).await.expect("a session");
        for statements in [logins, hot, &hot_of_workers] {
            sqlx::raw_sql(AssertSqlSafe(statements.clone()))
                .execute(&mut operator)
                .await
                .unwrap_or_else(|error| panic!("{statements}: {error}"));
        }
        let users = ["rejoin_api", "rejoin_work", "rejoin_api_hot", "rejoin_work_hot"];
        let pooler = PgBouncer::start(server, &users, SERVER_CONNECTIONS).await;
        Pooled {
            pooler: pooler.expect("REJOIN_TEST_POOLER needs PgBouncer 1.24: scripts/setup-pgbouncer.sh builds it"),
            server: server.admin_url(""),
        }
    };
    POOLED.get_or_init(|| pooled).await;
}

/// The URLs of a process: for queries, for the hot paths, and for LISTEN. None: the database is not behind the pooler.
fn urls(database_url: &str, kind: Kind) -> Option<[String; 3]> {
    let pooled = POOLED.get()?;
    let database = database_url.strip_prefix(&pooled.server)?;
    let login = kind.login();
    Some([
        pooled.pooler.url_of(login, database),
        pooled.pooler.url_of(&format!("{login}_hot"), database),
        database_url.replacen("//rejoin@", &format!("//{login}@"), 1),
    ])
}

/// Leads the connections of a process in the test's own one through the pooler.
pub(crate) fn lead(args: &mut DatabaseArgs, kind: Kind) {
    let Some([url, hot, listen]) = urls(&args.database_url, kind) else {
        return;
    };
    args.database_url = url;
    args.db_hot_url = Some(hot);
    args.db_pooler = Pooler::Transaction;
    args.listen_url = (args.bus == BusKind::Postgres).then_some(listen);
}

/// The variables of a separate process, beside those that the test sets: none if it sets its own database.
pub(crate) fn variables<'a>(
    database_url: &str,
    kind: Kind,
    of_test: impl Iterator<Item = (&'a str, &'a str)>,
) -> Vec<(&'static str, String)> {
    let Some([url, hot, listen]) = urls(database_url, kind) else {
        return Vec::new();
    };
    let mut variables = vec![
        ("DATABASE_URL", url),
        ("REJOIN_DB_HOT_URL", hot),
        ("REJOIN_DB_POOLER", "transaction".to_owned()),
        ("REJOIN_LISTEN_URL", listen),
    ];
    for (name, value) in of_test {
        match name {
            "DATABASE_URL" => return Vec::new(),
            // The others listen elsewhere, or not at all.
            "REJOIN_BUS" if value != "postgres" => variables.retain(|(name, _)| *name != "REJOIN_LISTEN_URL"),
            _ => {}
        }
    }
    variables
}
