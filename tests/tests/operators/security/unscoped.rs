//! Row-level security as a second line of defence (invariant I14): what a forgotten condition, or an API without a
//! scope, would see. Statements here are wrong on purpose: none of them names a project or an owner.

use rejoin_api::ApiConfig;
use rejoin_db::{Db, Role, rls, transactions};
use rejoin_tests::app::TestApp;
use rejoin_tests::client::Client;
use rejoin_tests::model_server::Reply;
use rejoin_types::owner::Owner;
use serde_json::json;
use sqlx::{AssertSqlSafe, PgConnection, PgPool};
use uuid::Uuid;

/// Tables with a project, an owner, a run or a conversation, but without row-level security, and why.
const OPEN: [(&str, &str); 10] = [
    (
        "kb.graph_embedding_marks",
        "as graph_objects: whoever writes one marks it",
    ),
    ("kb.graph_embeddings", "as graph_objects"),
    (
        "kb.graph_objects",
        "search would lose its indexes: docs/decisions/0014-row-level-security.md",
    ),
    ("kb.graph_relationships", "as graph_objects"),
    ("kb.graph_words", "as graph_objects"),
    (
        "kb.template_assignments",
        "a write that did not see what is installed would be held against nothing",
    ),
    ("kb.template_packs", "as template_assignments"),
    ("queue.jobs", "found through its run, which has one"),
    ("queue.finished_jobs", "as jobs"),
    (
        "stream.events",
        "found through its log's conversation or run, which have one",
    ),
];

/// A conversation with an ended run that has called a tool; returns both.
async fn talked(app: &TestApp, client: &Client, agent: Uuid) -> (Uuid, Uuid) {
    app.model.script([
        Reply::tool("schema_version", json!({})),
        Reply::text("There is a schema."),
    ]);
    let posted = client
        .post_message(json!({"message": "What is there?", "agentDefinitionId": agent, "clientTurnId": Uuid::now_v7()}))
        .await;
    let id = |name: &str| posted[name].as_str().expect("an id").parse::<Uuid>().expect("an id");
    client
        .stream(&format!("/api/runs/{}/events", id("runId")))
        .await
        .rest()
        .await;
    client.post("/api/stream-tickets", json!({"runId": id("runId")})).await;
    (id("conversationId"), id("runId"))
}

fn as_app(app: &TestApp) -> PgPool {
    Db::connect_lazy(&app.db.args(), "rejoin-test-app", Role::App)
        .expect("a readable URL")
        .pool_sqlx
}

/// Returns all tables of the schema `kb`, and the number of rows visible to this transaction; None: no access.
async fn seen(pool: &PgPool, opening: &str) -> Vec<(String, Option<i64>)> {
    let mut tables: Vec<String> =
        sqlx::query_scalar("select 'kb.' || tablename from pg_tables where schemaname = 'kb' order by 1")
            .fetch_all(pool)
            .await
            .expect("the catalogue");
    assert!(tables.len() > 10, "{tables:?}");
    tables.retain(|table| !OPEN.iter().any(|(open, _)| open == table));
    let mut seen = Vec::new();
    for table in tables {
        let mut tx = transactions::begin_with(pool, opening).await.expect("a transaction");
        let rows = sqlx::query_scalar(AssertSqlSafe(format!("select count(*) from {table}")))
            .fetch_one(&mut *tx)
            .await;
        seen.push((table, rows.ok()));
    }
    seen
}

#[tokio::test]
async fn without_a_valid_caller_no_row_of_any_table_is_visible() {
    let app = TestApp::start().await;
    let agent = app.agent("asker", &["*"]).await;
    talked(&app, &app.client(), agent).await;
    let (other_user, _) = app.db.another_user().await;
    let pool = as_app(&app);
    let (project, owner, stranger) = (app.db.workspace_id, app.db.user_id, Uuid::now_v7());
    let set = |project: &str, owner: &str| {
        format!("set local rejoin.project = '{project}'; set local rejoin.owner = '{owner}'; begin")
    };
    for opening in [
        "begin".to_owned(),
        set("", ""),
        set(&stranger.to_string(), &owner.to_string()),
        set(&stranger.to_string(), &stranger.to_string()),
        set("nonsense", "nonsense"),
        set("%", "%"),
        format!("set local rejoin.owner = '{owner}'; begin"),
    ] {
        for (table, rows) in seen(&pool, &opening).await {
            assert!(matches!(rows, None | Some(0)), "{opening}: {table} shows {rows:?}");
        }
    }
    // The project alone shows the project's rows, and no user's.
    for opening in [
        format!("set local rejoin.project = '{project}'; begin"),
        set(&project.to_string(), &other_user.to_string()),
    ] {
        for (table, rows) in seen(&pool, &opening).await {
            let of_project = ["kb.agent_definitions", "kb.agent_versions"].contains(&table.as_str());
            assert!(
                of_project || matches!(rows, None | Some(0)),
                "{opening}: {table} shows {rows:?}"
            );
        }
    }
    // And they are visible to their owner.
    let shown = seen(&pool, &set(&project.to_string(), &owner.to_string())).await;
    let rows = |name: &str| {
        shown
            .iter()
            .find(|(table, _)| table == name)
            .and_then(|(_, rows)| *rows)
    };
    for table in [
        "kb.chat_conversations",
        "kb.chat_messages",
        "kb.agent_definitions",
        "kb.agent_runs",
        "kb.agent_run_messages",
        "kb.agent_run_tool_calls",
        "kb.idempotency_keys",
        "kb.stream_tickets",
    ] {
        assert!(rows(table) > Some(0), "{table}: {shown:?}");
    }
    for table in [
        "kb.api_keys",
        "kb.users",
        "kb.identities",
        "kb.invitations",
        "kb.sso_sessions",
        "kb.project_members",
        "kb.projects",
    ] {
        assert_eq!(rows(table), None, "{table} is the gate's");
    }
}

#[tokio::test]
async fn unscoped_statements_neither_read_nor_write_others_rows() {
    let app = TestApp::start().await;
    let agent = app.agent("asker", &["*"]).await;
    let (mine, my_run) = talked(&app, &app.client(), agent).await;
    let (other_user, other_key) = app.db.another_user().await;
    let (theirs, their_run) = talked(&app, &Client::new(app.url(), &other_key), agent).await;
    let pool = as_app(&app);
    let owner = app.db.owner();
    let begin = async || rls::begin(&pool, rls::Scope::User(owner)).await.expect("a transaction");
    for (statement, expected) in [
        ("select id from kb.chat_conversations", mine),
        ("select distinct conversation_id from kb.chat_messages", mine),
        ("select id from kb.agent_runs", my_run),
        ("select distinct run_id from kb.agent_run_messages", my_run),
        ("select distinct run_id from kb.agent_run_tool_calls", my_run),
        ("select run_id from kb.idempotency_keys", my_run),
    ] {
        let ids: Vec<Uuid> = sqlx::query_scalar(statement)
            .fetch_all(&mut *begin().await)
            .await
            .unwrap();
        assert_eq!(ids, [expected], "{statement}");
    }
    for statement in [
        "update kb.chat_conversations set title = 'mine now' where id = $1",
        "delete from kb.chat_conversations where id = $1",
        "delete from kb.chat_messages where conversation_id = $1",
        "update kb.agent_runs set state = 'failed' where conversation_id = $1",
        "update kb.agent_run_messages set content = '{}' where run_id in (select id from kb.agent_runs where conversation_id = $1)",
    ] {
        let mut tx = begin().await;
        let done = sqlx::query(statement).bind(theirs).execute(&mut *tx).await.unwrap();
        tx.commit().await.unwrap();
        assert_eq!(done.rows_affected(), 0, "{statement}");
    }
    let foreign = Uuid::now_v7();
    let insert = "insert into kb.chat_conversations (id, project_id, owner_user_id, title) values (gen_random_uuid(), $1, $2, 'x')";
    let give = "update kb.chat_conversations set project_id = $1, owner_user_id = $2";
    for (statement, project, user) in [
        (insert, owner.workspace_id, other_user),
        (insert, foreign, owner.user_id),
        (give, owner.workspace_id, other_user),
    ] {
        let written = sqlx::query(statement)
            .bind(project)
            .bind(user)
            .execute(&mut *begin().await)
            .await;
        let code = written
            .expect_err(statement)
            .into_database_error()
            .and_then(|error| error.code().map(String::from));
        assert_eq!(code.as_deref(), Some("42501"), "{statement}");
    }
    let message = "insert into kb.chat_messages (id, conversation_id, role, content, seq) values (gen_random_uuid(), $1, 'user', 'x', 99)";
    let written = sqlx::query(message).bind(theirs).execute(&mut *begin().await).await;
    assert!(written.is_err(), "a message in another's conversation");
    let events = format!("/api/runs/{their_run}/events");
    assert_eq!(app.client().stream_status(&events).await, 404);
}

#[tokio::test]
async fn a_transactions_caller_does_not_leak_into_the_next() {
    let app = TestApp::start().await;
    let agent = app.agent("asker", &["*"]).await;
    talked(&app, &app.client(), agent).await;
    let mut args = app.db.args();
    args.db_connections = 1;
    args.db_hot_connections = 1;
    let db = Db::connect_lazy(&args, "rejoin-test-app", Role::App).unwrap();
    let runs = "select count(*) from kb.agent_runs";
    let count =
        async |connection: &mut PgConnection| sqlx::query_scalar::<_, i64>(runs).fetch_one(connection).await.unwrap();
    for committed in [true, false] {
        let mut tx = rls::begin(&db.pool_sqlx, rls::Scope::User(app.db.owner()))
            .await
            .unwrap();
        assert_eq!(count(&mut tx).await, 1);
        if committed {
            tx.commit().await.unwrap();
        } else {
            drop(tx);
        }
        assert_eq!(count(&mut *db.pool_sqlx.acquire().await.unwrap()).await, 0);
    }
    // The same for pipelined statements, and during authentication.
    let seen = |row: Option<tokio_postgres::Row>| row.expect("a row").get::<_, i64>(0);
    let look = async |scope| seen(rls::query_one_scoped(&db.pool_pg, scope, runs, &[]).await.unwrap());
    assert_eq!(look(rls::Scope::User(app.db.owner())).await, 1);
    assert_eq!(look(rls::Scope::System).await, 0);
    let stranger = Owner {
        workspace_id: app.db.workspace_id,
        user_id: Uuid::now_v7(),
    };
    assert_eq!(look(rls::Scope::User(stranger)).await, 0);
    let keys = "select count(*) from kb.api_keys";
    assert!(
        seen(
            rls::query_one_scoped(&db.pool_pg, rls::Scope::Login, keys, &[])
                .await
                .unwrap()
        ) > 0
    );
    assert!(
        rls::query_one_scoped(&db.pool_pg, rls::Scope::Login, runs, &[])
            .await
            .is_err(),
        "the gate sees no runs"
    );
    assert!(
        rls::query_one_scoped(&db.pool_pg, rls::Scope::System, keys, &[])
            .await
            .is_err(),
        "the API sees no keys"
    );
}

#[tokio::test]
async fn any_login_of_api_and_workers_is_bound_by_policies() {
    let app = TestApp::start().await;
    let server = app.server.as_ref().expect("a server");
    for pool in [&server.state.db.pool_sqlx, &as_app(&app)] {
        let role: String = sqlx::query_scalar("select current_user::text")
            .fetch_one(pool)
            .await
            .unwrap();
        assert_eq!(role, "rejoin_app");
    }
    let pool = server.state.db.pool_pg.get().await.unwrap();
    let role: String = pool.query_one("select current_user::text", &[]).await.unwrap().get(0);
    assert_eq!(role, "rejoin_app");
    // A login that owns nothing, for deployments that want more than a second line of defence.
    let mut connection = app.db.pool.acquire().await.unwrap();
    let login = format!("login_{}", Uuid::now_v7().simple());
    sqlx::raw_sql(AssertSqlSafe(format!(
        "create role {login} login; grant rejoin_app, rejoin_gate to {login}"
    )))
    .execute(&mut *connection)
    .await
    .unwrap();
    let mut url: url::Url = app.db.url.parse().unwrap();
    url.set_username(&login).unwrap();
    let mut config = ApiConfig::new(app.db.args());
    config.database.database_url = url.to_string();
    config.listen = "127.0.0.1:0".parse().unwrap();
    let api = rejoin_api::Server::start(config, tokio_util::sync::CancellationToken::new())
        .await
        .unwrap();
    let client = Client::new(api.url(), &app.db.api_key);
    let frames = client.ask(None, "What is there?").await;
    assert_eq!(frames.last().unwrap().kind(), "done");
    api.stop().await.unwrap();
    sqlx::raw_sql(AssertSqlSafe(format!("drop role {login}")))
        .execute(&mut *connection)
        .await
        .unwrap();
}

#[tokio::test]
async fn tables_with_a_project_or_owner_have_policies_or_a_reason() {
    let db = rejoin_tests::support::database().await;
    // Without a policy for a role, a protected table shows it no rows; so it suffices that it is protected.
    let open: Vec<String> = sqlx::query_scalar(
        "select distinct format('%I.%I', n.nspname, c.relname)
         from pg_class c
         join pg_namespace n on n.oid = c.relnamespace
         join pg_attribute a on a.attrelid = c.oid
         where n.nspname in ('kb', 'queue', 'stream', 'audit') and c.relkind in ('r', 'p') and not a.attisdropped
           and a.attname in ('project_id', 'owner_user_id', 'user_id', 'conversation_id', 'run_id')
           and not c.relrowsecurity
         order by 1",
    )
    .fetch_all(&db.pool)
    .await
    .unwrap();
    for table in &open {
        assert!(
            OPEN.iter().any(|(known, _)| known == table),
            "{table} has a project or an owner and no wall: enable row level security, with policies for rejoin_app and rejoin_worker"
        );
    }
    for (known, reason) in OPEN {
        assert!(
            open.iter().any(|table| table == known),
            "{known} ({reason}) needs no exception any more"
        );
    }
    // No policy of the API allows everything.
    let loose: Vec<String> = sqlx::query_scalar(
        "select schemaname || '.' || tablename from pg_policies where 'rejoin_app' = any(roles) and coalesce(qual, 'true') = 'true'",
    )
    .fetch_all(&db.pool)
    .await
    .unwrap();
    assert_eq!(loose, Vec::<String>::new());
}
