//! Row-level security, table by table (invariant I14): each table has rows of two projects and two users, and the API's
//! role sees exactly the caller's. A table missing here fails the test.

mod tables;

use Rule::{As, ConversationOrMaker, Owner as By, OwnerOrNone, Project};
use rejoin_db::{Db, Role, rls};
use rejoin_types::owner::Owner;
use sqlx::{AssertSqlSafe, PgConnection, PgPool};
use uuid::Uuid;

use self::tables::{Audience, Rule, TABLES};
use rejoin_tests::support;

/// A row: its identity, and its audience (a caller in each of these audiences).
struct Row {
    table: &'static str,
    key: String,
    audiences: Vec<Audience>,
}

impl Row {
    fn is_for(&self, caller: Owner) -> bool {
        self.audiences.iter().all(|audience| audience.has(caller))
    }

    fn value(&self, column: &'static str) -> Value {
        Value::Of(self.table, column, self.key.clone())
    }
}

/// The value of a column.
#[derive(Clone)]
enum Value {
    Id(Uuid),
    Text(String),
    Null,
    /// The value of this column in the row of another table with this key.
    Of(&'static str, &'static str, String),
}

impl Value {
    fn sql(&self) -> String {
        match self {
            Value::Id(id) => format!("'{id}'"),
            Value::Text(text) => format!("'{text}'"),
            Value::Null => "null".to_owned(),
            Value::Of(table, column, key) => {
                format!("(select {column} from {table} where {} = '{key}')", key_of(table))
            }
        }
    }

    /// Resolves the value for callers who can't see the other row.
    async fn looked_up(self, db: &mut PgConnection) -> Self {
        if !matches!(self, Value::Of(..)) {
            return self;
        }
        let select = format!("select {}::text", self.sql());
        let found = sqlx::query_scalar(AssertSqlSafe(select)).fetch_one(db).await;
        Value::Text(found.expect("the row is there"))
    }
}

/// Returns a row's identity, as SQL: its ctid, or a column if the API's role may not read all of them.
fn key_of(table: &str) -> &'static str {
    match table {
        "kb.secrets" => "name",
        "kb.google_consents" => "state_hash::text",
        "kb.google_links" => "calendar_id::text",
        "kb.mcp_accounts" | "kb.mcp_consents" | "kb.webhook_secrets" => "id::text",
        _ => "row(tableoid, ctid)::text",
    }
}

/// A connection to a database without constraints: only policies are tested.
async fn without_constraints(db: &PgPool) -> PgConnection {
    let mut connection = db.acquire().await.expect("a connection").detach();
    let drop_checks = "do $$ declare c record; begin
            for c in select conrelid::regclass as of, conname from pg_constraint
                     where contype = 'c' and conislocal and conrelid <> 0
                       and connamespace in ('kb'::regnamespace, 'audit'::regnamespace, 'stream'::regnamespace) loop
                execute format('alter table %s drop constraint %I', c.of, c.conname);
            end loop;
        end $$";
    sqlx::raw_sql(drop_checks)
        .execute(&mut connection)
        .await
        .expect("no checks");
    for (table, _) in TABLES {
        let statement = format!("alter table {table} disable trigger all; delete from {table}");
        let done = sqlx::raw_sql(AssertSqlSafe(statement)).execute(&mut connection).await;
        done.unwrap_or_else(|error| panic!("{table}: {error}"));
    }
    connection
}

/// Returns an insert statement with these values, and arbitrary ones in required columns.
async fn insertion(db: &mut PgConnection, table: &'static str, values: &[(&'static str, Value)]) -> String {
    let needed: Vec<(String, String)> = sqlx::query_as(
        "select attname::text, format_type(atttypid, atttypmod) from pg_attribute
         where attrelid = $1::text::regclass and attnum > 0 and attnotnull and not atthasdef and attidentity = '' and not attisdropped",
    )
    .bind(table)
    .fetch_all(&mut *db)
    .await
    .expect("the catalogue");
    let mut columns: Vec<(&str, String)> = values.iter().map(|(column, value)| (*column, value.sql())).collect();
    for (column, kind) in &needed {
        if columns.iter().any(|(known, _)| known == column) {
            continue;
        }
        let next = format!("(select count(*) + 1 from {table})");
        let value = match kind.as_str() {
            "uuid" => "gen_random_uuid()",
            "text" => "gen_random_uuid()::text",
            "bytea" => "uuid_send(gen_random_uuid())",
            "smallint" | "integer" | "bigint" | "numeric" | "double precision" => &next,
            "boolean" => "false",
            "pg_snapshot" => "pg_current_snapshot()",
            "date" | "timestamp with time zone" | "timestamp without time zone" => "now()",
            "jsonb" | "json" => "'{}'",
            array if array.ends_with("[]") => "'{}'",
            other => panic!("{table}.{column}: which value has a {other}?"),
        };
        columns.push((column, value.to_owned()));
    }
    let (names, values): (Vec<&str>, Vec<String>) = columns.into_iter().unzip();
    format!(
        "insert into {table} ({}) values ({})",
        names.join(", "),
        values.join(", ")
    )
}

/// Inserts a row, and returns its key.
async fn insert(db: &mut PgConnection, table: &'static str, values: &[(&'static str, Value)]) -> String {
    let statement = format!("{} returning {}", insertion(db, table, values).await, key_of(table));
    sqlx::query_scalar(AssertSqlSafe(statement.clone()))
        .fetch_one(db)
        .await
        .unwrap_or_else(|error| panic!("{statement}: {error}"))
}

/// Values of a row, and its audience.
type ExpectedRow = (Vec<(&'static str, Value)>, Vec<Audience>);

/// Returns the rows to create in a table.
fn expected_rows(rule: Rule, projects: [Uuid; 2], users: [Uuid; 2], rows: &[Row]) -> Vec<ExpectedRow> {
    let owned = |column: &'static str, nobody: bool| {
        let owners = users.map(Some).into_iter().chain(nobody.then_some(None));
        let audiences = owners.flat_map(move |user| projects.map(|project| Audience { project, user }));
        audiences.map(move |audience| {
            let owner = audience.user.map_or(Value::Null, Value::Id);
            let values = vec![("project_id", Value::Id(audience.project)), (column, owner)];
            (values, vec![audience])
        })
    };
    match rule {
        Project => projects
            .map(|project| {
                let audience = Audience { project, user: None };
                (vec![("project_id", Value::Id(project))], vec![audience])
            })
            .into(),
        By(column) => owned(column, false).collect(),
        OwnerOrNone(column) => owned(column, true).collect(),
        ConversationOrMaker => {
            let within = rows_of(rows, "kb.chat_conversations").map(|conversation| {
                let audience = conversation.audiences[0];
                // Whatever user it names: only the conversation counts.
                let other = users.into_iter().find(|user| Some(*user) != audience.user);
                let values = vec![
                    ("project_id", Value::Id(audience.project)),
                    ("user_id", Value::Id(other.expect("another user"))),
                    ("conversation_id", conversation.value("id")),
                ];
                (values, vec![audience])
            });
            owned("user_id", true).chain(within).collect()
        }
        // All combinations.
        As(parents) => parents
            .iter()
            .fold(vec![(vec![], vec![])], |made, (column, table, key)| {
                let with_each = |(values, audiences): &ExpectedRow| {
                    let with = |parent: &Row| {
                        let values = [values.as_slice(), &[(*column, parent.value(key))]].concat();
                        (values, [audiences.as_slice(), &parent.audiences].concat())
                    };
                    rows_of(rows, table).map(with).collect::<Vec<ExpectedRow>>()
                };
                made.iter().flat_map(with_each).collect()
            }),
    }
}

fn rows_of<'a>(rows: &'a [Row], table: &'static str) -> impl Iterator<Item = &'a Row> {
    rows.iter().filter(move |row| row.table == table)
}

/// Returns the keys of the rows visible to a caller.
async fn seen(pool: &PgPool, caller: Owner, table: &str) -> Vec<String> {
    let mut tx = rls::begin(pool, rls::Scope::User(caller)).await.expect("a transaction");
    let statement = format!("select {} from {table}", key_of(table));
    sqlx::query_scalar(AssertSqlSafe(statement))
        .fetch_all(&mut *tx)
        .await
        .unwrap_or_else(|error| panic!("{table}: {error}"))
}

/// Asserts that row-level security, or the role's grants, refuse a caller's statement.
async fn refused(pool: &PgPool, caller: Owner, statement: &str) {
    let mut tx = rls::begin(pool, rls::Scope::User(caller)).await.expect("a transaction");
    let done = sqlx::query(AssertSqlSafe(statement.to_owned())).execute(&mut *tx).await;
    let error = done.expect_err(statement).into_database_error().expect("an answer");
    assert_eq!(error.code().as_deref(), Some("42501"), "{statement}: {error}");
}

/// A database with rows for all audiences in each table.
struct Filled {
    connection: PgConnection,
    /// With the API's role.
    pool: PgPool,
    projects: [Uuid; 2],
    users: [Uuid; 2],
    rows: Vec<Row>,
}

impl Filled {
    async fn new() -> Self {
        let db = support::database().await;
        let tables: Vec<String> = sqlx::query_scalar(
            "select schemaname || '.' || tablename from pg_policies where 'rejoin_app' = any(roles) order by 1",
        )
        .fetch_all(&db.pool)
        .await
        .expect("the catalogue");
        let mut named = TABLES.map(|(table, _)| table);
        named.sort_unstable();
        assert_eq!(
            named.as_slice(),
            tables,
            "each table with a policy for the API has a rule here"
        );
        let mut connection = without_constraints(&db.pool).await;
        let projects = [db.workspace_id, Uuid::now_v7()];
        let users = [db.user_id, Uuid::now_v7()];
        let mut rows: Vec<Row> = Vec::new();
        for (table, rule) in TABLES {
            for (values, audiences) in expected_rows(rule, projects, users, &rows) {
                let key = insert(&mut connection, table, &values).await;
                rows.push(Row { table, key, audiences });
            }
        }
        let app = Db::connect_lazy(&db.args(), "rejoin-test-app", Role::App).expect("a readable URL");
        Self {
            connection,
            pool: app.pool_sqlx,
            projects,
            users,
            rows,
        }
    }

    /// Returns changes that would give a table's rows to another user than `caller`: columns, and values as SQL.
    async fn gifts(&mut self, rule: Rule, caller: Owner) -> Vec<(&'static str, String)> {
        let project = ("project_id", Value::Id(self.projects[1]).sql());
        let user = |column| (column, Value::Id(self.users[1]).sql());
        let parents = match rule {
            Project => return vec![project],
            By(column) | OwnerOrNone(column) => return vec![project, user(column)],
            ConversationOrMaker => return vec![project, user("user_id")],
            As(parents) => parents,
        };
        let mut gifts = Vec::new();
        for (column, table, key) in parents {
            let theirs = rows_of(&self.rows, table)
                .find(|row| !row.is_for(caller))
                .expect("somebody else's");
            let value = theirs.value(key).looked_up(&mut self.connection).await;
            gifts.push((*column, value.sql()));
        }
        gifts
    }
}

#[tokio::test]
async fn each_table_shows_callers_only_their_own_rows() {
    let filled = Filled::new().await;
    let stranger = Uuid::now_v7();
    let [one, other] = filled.projects;
    for workspace_id in [one, other, stranger] {
        let [one, other] = filled.users;
        for user_id in [one, other, stranger] {
            let caller = Owner { workspace_id, user_id };
            for (table, _) in TABLES {
                let mut expected: Vec<&str> = rows_of(&filled.rows, table)
                    .filter(|row| row.is_for(caller))
                    .map(|row| row.key.as_str())
                    .collect();
                let mut seen = seen(&filled.pool, caller, table).await;
                expected.sort_unstable();
                seen.sort_unstable();
                assert_eq!(seen, expected, "{table}, for {caller:?}");
            }
        }
    }
}

#[tokio::test]
async fn no_row_is_given_to_or_made_for_another_project_or_user() {
    let mut filled = Filled::new().await;
    let caller = Owner {
        workspace_id: filled.projects[0],
        user_id: filled.users[0],
    };
    for (table, rule) in TABLES {
        for (column, value) in filled.gifts(rule, caller).await {
            refused(&filled.pool, caller, &format!("update {table} set {column} = {value}")).await;
        }
        for (values, audiences) in expected_rows(rule, filled.projects, filled.users, &filled.rows) {
            if audiences.iter().all(|audience| audience.has(caller)) {
                continue;
            }
            let mut theirs = Vec::new();
            for (column, value) in values {
                theirs.push((column, value.looked_up(&mut filled.connection).await));
            }
            let statement = insertion(&mut filled.connection, table, &theirs).await;
            refused(&filled.pool, caller, &statement).await;
        }
    }
}
