//! The migrations up, all the way down, and up again, with rows in every table; and the effect of each step on existing
//! rows.

use rejoin_cli::migrate::{self, MIGRATOR, State};
use rejoin_tests::app::{AppOptions, TestApp};
use rejoin_tests::client::{Client, kinds, text};
use rejoin_tests::model_server::Reply;
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, Connection, PgConnection, Row};
use uuid::Uuid;

use super::filled_schema::fill;
use super::older_schema;
use rejoin_tests::support;

/// Returns the versions, oldest first.
pub fn versions() -> Vec<i64> {
    MIGRATOR
        .iter()
        .filter(|migration| migration.migration_type.is_up_migration())
        .map(|migration| migration.version)
        .collect()
}

pub async fn states(url: &str) -> Vec<State> {
    migrate::status(url)
        .await
        .expect("the status")
        .into_iter()
        .map(|line| line.state)
        .collect()
}

/// Returns our tables, by name.
async fn tables(connection: &mut PgConnection) -> Vec<String> {
    sqlx::query_scalar(
        "select schemaname || '.' || tablename from pg_tables
         where schemaname not in ('pg_catalog', 'information_schema') and tablename <> '_sqlx_migrations'
         order by 1",
    )
    .fetch_all(connection)
    .await
    .expect("the catalogue")
}

/// Returns everything about the schema that a client could see: columns, constraints, indexes, functions.
pub async fn shape(connection: &mut PgConnection) -> Vec<String> {
    sqlx::query_scalar(
        "select format('column %s.%s.%s %s %s %s', table_schema, table_name, column_name, data_type, is_nullable, column_default)
         from information_schema.columns where table_schema in ('kb', 'queue', 'stream', 'audit', 'cells')
         union all
         select format('constraint %s %s', conrelid::regclass, pg_get_constraintdef(oid))
         from pg_constraint where connamespace::regnamespace::text in ('kb', 'queue', 'stream', 'audit', 'cells')
         union all
         select indexdef from pg_indexes where schemaname in ('kb', 'queue', 'stream', 'audit', 'cells')
         union all
         select pg_get_functiondef(oid) from pg_proc where pronamespace::regnamespace::text in ('kb', 'queue', 'stream', 'audit', 'cells')
         order by 1",
    )
    .fetch_all(connection)
    .await
    .expect("the catalogue")
}

/// Requirements: C55.
#[tokio::test]
async fn the_schema_goes_up_down_and_up_with_rows_in_every_table() {
    let mut app = TestApp::start().await;
    fill(&mut app).await;
    let url = app.db.url.clone();
    let mut connection = PgConnection::connect(&url).await.expect("a connection");
    for table in tables(&mut connection).await {
        let statement = format!("select count(*) from {table}");
        let rows: i64 = sqlx::query_scalar(AssertSqlSafe(statement))
            .fetch_one(&mut connection)
            .await
            .expect("a count");
        assert!(
            rows > 0,
            "{table} is empty: fill it here, so that its way down is tried with rows"
        );
    }
    let first_shape = shape(&mut connection).await;
    // No other process works while the schema is removed.
    app.server
        .take()
        .expect("a server")
        .stop()
        .await
        .expect("the API stops");

    let mut down = versions();
    down.reverse();
    assert_eq!(migrate::down(&url, usize::MAX).await.expect("down"), down);
    assert_eq!(tables(&mut connection).await, Vec::<String>::new());
    let schemas: i64 = sqlx::query_scalar(
        "select count(*) from pg_namespace where nspname in ('kb', 'queue', 'stream', 'audit', 'cells')",
    )
    .fetch_one(&mut connection)
    .await
    .expect("a count");
    assert_eq!(schemas, 0, "nothing of ours is left");
    assert_eq!(states(&url).await, vec![State::Pending; versions().len()]);

    assert_eq!(migrate::up(&url).await.expect("up again"), versions());
    assert_eq!(states(&url).await, vec![State::Applied; versions().len()]);
    assert_eq!(shape(&mut connection).await, first_shape, "the same schema as before");
    assert_eq!(migrate::up(&url).await.expect("nothing to do"), Vec::<i64>::new());
}

#[tokio::test]
async fn an_owner_without_createrole_migrates_once_roles_exist() {
    // The roles were created by another test's database, as an administrator would.
    let db = support::database().await;
    let mut admin = PgConnection::connect(&db.url).await.expect("a connection");
    let owner = format!("owner_{}", Uuid::now_v7().simple());
    for statement in [
        format!("create role {owner} login"),
        format!("grant rejoin_app, rejoin_gate, rejoin_worker to {owner}"),
        format!("create database {owner} owner {owner}"),
    ] {
        let done = sqlx::query(AssertSqlSafe(statement.clone())).execute(&mut admin).await;
        done.unwrap_or_else(|error| panic!("{statement}: {error}"));
    }
    let mut url: url::Url = db.url.parse().expect("a URL");
    url.set_username(&owner).expect("a name");
    url.set_path(&owner);
    migrate::up(url.as_str()).await.expect("up");
    let app = TestApp::over(support::populated(url.to_string()).await, AppOptions::default()).await;
    app.model.script([Reply::text("There is a schema.")]);
    let agent = app.agent("asker", &[]).await;
    let frames = app.client().ask(Some(agent), "What is there?").await;
    assert_eq!(text(&frames), "There is a schema.");
    drop(app);
    let mut down = versions();
    down.reverse();
    assert_eq!(migrate::down(url.as_str(), usize::MAX).await.expect("down"), down);
    let left: i64 = sqlx::query_scalar(
        "select count(*) from pg_roles where rolname in ('rejoin_app', 'rejoin_gate', 'rejoin_worker')",
    )
    .fetch_one(&mut admin)
    .await
    .expect("a count");
    assert_eq!(left, 3, "they are the administrator's");
}

/// Requirements: C53, C55.
#[tokio::test]
async fn each_migration_can_be_taken_back_and_applied_again() {
    let url = support::empty_database().await;
    let mut connection = PgConnection::connect(&url).await.expect("a connection");
    migrate::up(&url).await.expect("up");
    let whole = shape(&mut connection).await;
    for (steps, _) in versions().iter().enumerate() {
        let gone = migrate::down(&url, steps + 1).await.expect("down");
        assert_eq!(gone.len(), steps + 1);
        let mut back = migrate::up(&url).await.expect("up");
        back.reverse();
        assert_eq!(back, gone);
        assert_eq!(shape(&mut connection).await, whole, "after {gone:?}");
    }
}

/// A conversation of the schema before 0006, with two messages in its log.
async fn old_conversation(connection: &mut PgConnection, project: Uuid, user: Uuid) -> Uuid {
    let conversation = Uuid::now_v7();
    sqlx::query(
        "insert into kb.chat_conversations (id, project_id, owner_user_id, title) values ($1, $2, $3, 'An old one')",
    )
    .bind(conversation)
    .bind(project)
    .bind(user)
    .execute(&mut *connection)
    .await
    .expect("a conversation");
    sqlx::query("insert into stream.logs (log_id) values ($1)")
        .bind(conversation)
        .execute(&mut *connection)
        .await
        .expect("a log");
    for (role, content) in [("user", "What is the answer?"), ("assistant", "Forty-two.")] {
        let id = Uuid::now_v7();
        let message = json!({"id": id, "role": role, "content": content, "createdAt": "2026-01-01T00:00:00Z"});
        let event = json!({"type": "message", "message": message}).to_string();
        sqlx::query(
            "insert into kb.chat_messages (id, conversation_id, role, content, seq)
             values ($1, $2, $3, $4, stream.append($2, null, array['message'], array[$5]))",
        )
        .bind(id)
        .bind(conversation)
        .bind(role)
        .bind(content)
        .bind(event)
        .execute(&mut *connection)
        .await
        .expect("a message");
    }
    conversation
}

/// Requirements: B25, B26.
#[tokio::test]
async fn old_conversations_get_a_nullable_agent_and_stay_plain() {
    let template = support::database().await;
    let url = template.url.clone();
    // Back to the schema without agents in conversations, and up again with an old row.
    let older = older_schema::back(&url).await;
    let mut connection = PgConnection::connect(&url).await.expect("a connection");
    let columns = "select count(*) from information_schema.columns
                   where table_schema = 'kb' and table_name = 'chat_conversations' and column_name = 'agent_definition_id'";
    let before: i64 = sqlx::query_scalar(columns)
        .fetch_one(&mut connection)
        .await
        .expect("a count");
    assert_eq!(before, 0);
    let conversation = old_conversation(&mut connection, template.workspace_id, template.user_id).await;
    older_schema::upgraded(&url, older).await;

    let column = sqlx::query(
        "select data_type, is_nullable, column_default from information_schema.columns
         where table_schema = 'kb' and table_name = 'chat_conversations' and column_name = 'agent_definition_id'",
    )
    .fetch_one(&mut connection)
    .await
    .expect("the column");
    assert_eq!(
        (
            column.get::<&str, _>(0),
            column.get::<&str, _>(1),
            column.get::<Option<&str>, _>(2)
        ),
        ("uuid", "YES", None)
    );
    let references: Vec<String> = sqlx::query_scalar(
        "select pg_get_constraintdef(oid) from pg_constraint
         where conrelid = 'kb.chat_conversations'::regclass and contype = 'f' and pg_get_constraintdef(oid) like '%(agent_definition_id)%'",
    )
    .fetch_all(&mut connection)
    .await
    .expect("constraints");
    assert_eq!(
        references,
        ["FOREIGN KEY (agent_definition_id) REFERENCES kb.agent_definitions(id)"]
    );
    let bound: Option<Uuid> = sqlx::query_scalar("select agent_definition_id from kb.chat_conversations where id = $1")
        .bind(conversation)
        .fetch_one(&mut connection)
        .await
        .expect("the old row");
    assert_eq!(bound, None);

    let app = TestApp::over(template, AppOptions::default()).await;
    goes_on_as_plain(&app, &app.client(), conversation).await;
}

async fn goes_on_as_plain(app: &TestApp, client: &Client, conversation: Uuid) {
    app.model.script([Reply::text("As I said: forty-two.")]);
    let frames = client
        .chat(json!({"message": "Again?", "conversationId": conversation}))
        .await;
    assert_eq!(kinds(&frames), ["message", "meta", "token", "usage", "message", "done"]);
    assert_eq!(frames[0].id, Some(3), "its log goes on");
    assert_eq!(text(&frames), "As I said: forty-two.");
    assert_eq!(frames[1].json()["agentDefinitionId"], Value::Null);
    let asked = app.model.requests().remove(0);
    let given: Vec<&Value> = asked["messages"]
        .as_array()
        .expect("messages")
        .iter()
        .map(|message| &message["content"])
        .collect();
    assert_eq!(
        given[1..],
        [&json!("What is the answer?"), &json!("Forty-two."), &json!("Again?")]
    );
    assert!(
        asked.get("tools").is_none_or(|tools| tools == &json!([])),
        "a plain conversation has no tools"
    );
    let (status, shown) = client.get(&format!("/api/conversations/{conversation}")).await;
    assert_eq!((status.as_u16(), &shown["agentDefinitionId"]), (200, &Value::Null));
}
