//! The migrations up, all the way down, and up again, with rows in every table; and the effect of each step on existing
//! rows.

use rejoin_cli::migrate::{self, MIGRATOR, State};
use rejoin_graph::objects::{self, NewObject};
use rejoin_graph::{Actor, ActorKind, packs, relationships};
use rejoin_integrations::mcp;
use rejoin_secrets::MasterKeys;
use rejoin_secrets::keys::generate;
use rejoin_tests::app::{AppOptions, TestApp};
use rejoin_tests::client::{Client, kinds, text};
use rejoin_tests::model_server::Reply;
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, Connection, PgConnection, Row};
use uuid::Uuid;

use super::older_schema;
use crate::support;

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
         from information_schema.columns where table_schema in ('kb', 'queue', 'stream', 'audit')
         union all
         select format('constraint %s %s', conrelid::regclass, pg_get_constraintdef(oid))
         from pg_constraint where connamespace::regnamespace::text in ('kb', 'queue', 'stream', 'audit')
         union all
         select indexdef from pg_indexes where schemaname in ('kb', 'queue', 'stream', 'audit')
         union all
         select pg_get_functiondef(oid) from pg_proc where pronamespace::regnamespace::text in ('kb', 'queue', 'stream', 'audit')
         order by 1",
    )
    .fetch_all(connection)
    .await
    .expect("the catalogue")
}

/// Inserts rows into every table, through the product's own functions where possible.
async fn fill(app: &TestApp) {
    let client = app.client();
    let agent = app.agent("asker", &["*"]).await;
    app.model.script([
        Reply::tool("schema_version", json!({})),
        Reply::text("There is a schema."),
    ]);
    let request = client
        .request(reqwest::Method::POST, "/api/chat/stream")
        .header("idempotency-key", "one")
        .header("accept", "application/json")
        .json(&json!({"message": "What is there?", "agentDefinitionId": agent}));
    let (status, posted) = rejoin_tests::client::answer(request.send().await.expect("an answer")).await;
    assert_eq!(status, 202, "{posted}");
    let run = posted["runId"].as_str().expect("an id");
    client.stream(&format!("/api/runs/{run}/events")).await.rest().await;
    let (status, ticket) = client.post("/api/stream-tickets", json!({"runId": run})).await;
    assert_eq!(status, 201, "{ticket}");
    let install = format!("/api/admin/projects/{}/install-default-agents", app.db.workspace_id);
    let (status, installed) = client.post(&install, json!({})).await;
    assert_eq!(status, 200, "{installed}");
    support::set_secret(
        &app.db,
        &MasterKeys::parse(&generate()).expect("a key"),
        "TOKEN",
        "a value",
    )
    .await;
    fill_graph(app).await;
    fill_mcp(app).await;
    fill_waits(app).await;
    let routing = format!("/api/admin/projects/{}/routing", app.db.workspace_id);
    let (status, set) = client.put(&routing, json!({"percent": 50})).await;
    assert_eq!(status, 200, "{set}");
    assert_eq!(client.post("/api/sign-in-codes", json!({})).await.0, 201);
    let prompts = format!("/api/workspaces/{}/custom-prompt", app.db.workspace_id);
    let (status, set) = client
        .put(
            &prompts,
            json!({"customPrompt": "Be short.", "userPrompt": "In German."}),
        )
        .await;
    assert_eq!(status, 200, "{set}");
    sqlx::raw_sql(
        "insert into kb.message_feedback (message_id, project_id, user_id, rating)
             select m.id, c.project_id, c.owner_user_id, 1 from kb.chat_messages m join kb.chat_conversations c on c.id = m.conversation_id limit 1;
         update kb.agent_runs set routing = '{}';",
    )
    .execute(&app.db.pool)
    .await
    .expect("feedback");
    let (status, console) = client
        .post("/api/consoles", json!({"title": "Query", "content": "select 1"}))
        .await;
    assert_eq!(status, 201, "{console}");
    app.wait_until_idle().await;
    sqlx::raw_sql(
        "insert into queue.queues (name, paused_at) values ('slow', now());
         select queue.enqueue('later', p_run_at => now() + interval '1 day');
         insert into kb.graph_embeddings (project_id, canonical_id, model, dimensions, content_hash, signs, vector)
             select project_id, canonical_id, 'm', 2, content_hash, b'10', '{1,0}'::real[] from kb.graph_objects limit 1;
         insert into kb.graph_words (project_id, word) select project_id, 'word' from kb.graph_objects limit 1;
         insert into kb.identities (issuer, subject, user_id) select 'https://id.example', 'somebody', id from kb.users limit 1;
         insert into kb.files (id, project_id, name, media_type, size_bytes, sha256, state)
             select gen_random_uuid(), id, 'a.txt', 'text/plain', 1, sha256('a'), 'ready' from kb.projects limit 1;
         insert into kb.file_chunks (file_id, position, content) select id, 0, 'a' from kb.files;
         insert into kb.message_files (message_id, file_id) select m.id, f.id from kb.chat_messages m, kb.files f limit 1;
         insert into kb.file_objects_left (object_key, due_at) values ('project/file', now());
         insert into kb.routing_controls (run_id, project_id) select id, project_id from kb.agent_runs limit 1;
         insert into kb.query_patterns (id, project_id, user_id, data_source_id, database, run_id, asked, query, pattern)
             select gen_random_uuid(), s.project_id, u.id, s.id, '', gen_random_uuid(), 'how many?', 'select 1', 'select ?'
             from kb.data_sources s, kb.users u limit 1;",
    )
    .execute(&app.db.pool)
    .await
    .expect("rows of the queue, and an identity");
}

async fn fill_waits(app: &TestApp) {
    sqlx::raw_sql(
        "insert into kb.questions (id, project_id, run_id, tool_call_id, kind, question, interaction_type, status)
             select gen_random_uuid(), r.project_id, r.id, c.id, 'ask', 'Why?', 'text', 'answered'
             from kb.agent_runs r join kb.agent_run_tool_calls c on c.run_id = r.id limit 1;
         insert into kb.project_contexts (project_id, context_type, prompt) select id, 'project', 'Be brief.' from kb.projects limit 1;
         insert into kb.chat_compressions (conversation_id, version, through_seq, summary, messages, tokens_before, tokens_after)
             select id, 1, 1, 'x', 1, 1, 1 from kb.chat_conversations limit 1;
         insert into kb.chat_context_cache (project_id, focus_id, entity_id, location, linked, snapshot)
             select id, id, id, 'x', 'y', pg_current_snapshot() from kb.projects limit 1;
         insert into kb.agent_plans (id, project_id, run_id, call_id, objective, execution_mode, status, steps)
             select gen_random_uuid(), r.project_id, r.id, c.id, 'x', 'draft_only', 'failed', '[]'
             from kb.agent_runs r join kb.agent_run_tool_calls c on c.run_id = r.id limit 1;
         insert into kb.agent_plan_versions (plan_id, version, steps, changed_by) select id, 1, '[]', 'agent' from kb.agent_plans;
         insert into kb.run_options (run_id, client_tools, instructions) select id, '[]', 'Be brief.' from kb.agent_runs limit 1;
         insert into kb.run_inbox (run_id, content) select id, 'Hurry.' from kb.agent_runs limit 1;
         insert into kb.task_dags (id, project_id, name, max_concurrency, on_failure) select gen_random_uuid(), id, 'dag', 1, 'skip' from kb.projects limit 1;
         insert into kb.tasks (id, dag_id, project_id, ref, title) select gen_random_uuid(), id, project_id, 'a', 'A' from kb.task_dags;
         insert into kb.schedules (id, project_id, name, cron, agent, input)
             select gen_random_uuid(), id, 'nightly', '@daily', 'asker', 'Go.' from kb.projects limit 1;
         insert into kb.data_sources (id, project_id, name, kind, settings)
             select gen_random_uuid(), id, 'stock', 'sqlite', '{\"path\": \"/srv/stock.db\"}' from kb.projects limit 1;
         insert into kb.data_source_schemas (data_source_id, project_id, database, table_name, revision, schema)
             select id, project_id, '', 'items', 1, '{}' from kb.data_sources;
         insert into kb.web_settings (project_id, visit) select id, true from kb.projects limit 1;
         insert into kb.web_pages (project_id, url_hash, final_url, content, content_type)
             select id, sha256('page'), 'https://page.example/', 'A page.', 'text/plain' from kb.projects limit 1;
         insert into kb.calendars (id, project_id, owner_user_id, name, time_zone)
             select gen_random_uuid(), p.id, u.id, 'Work', 'Europe/Berlin' from kb.projects p, kb.users u limit 1;
         insert into kb.calendar_events (id, calendar_id, title, starts_at, ends_at, time_zone)
             select gen_random_uuid(), id, 'Lunch', now(), now(), 'Europe/Berlin' from kb.calendars;
         insert into kb.calendar_event_entities (event_id, entity_id) select id, gen_random_uuid() from kb.calendar_events;
         insert into kb.calendar_feeds (calendar_id, project_id, owner_user_id, hash)
             select id, project_id, owner_user_id, sha256('feed') from kb.calendars;
         insert into kb.google_consents (state_hash, calendar_id, project_id, owner_user_id, verifier, redirect_url, expires_at)
             select sha256('state'), id, project_id, owner_user_id, 'x', 'https://rejoin.example/', now() from kb.calendars;
         insert into kb.google_links (calendar_id, project_id, owner_user_id, state, google_id, key_id, wrapped_key, ciphertext)
             select id, project_id, owner_user_id, 'linked', 'work@example.org', 'a', repeat('x', 60)::bytea, repeat('x', 40)::bytea from kb.calendars;
         insert into kb.google_events (calendar_id, event_id, google_id, etag, version, base, listing)
             select calendar_id, id, 'abcde', '1', 1, '{}', 1 from kb.calendar_events;
         insert into kb.google_marks (calendar_id) select id from kb.calendars;
         insert into kb.webhook_endpoints (id, project_id, url, events)
             select gen_random_uuid(), id, 'https://hooks.example/', '{run.ended}' from kb.projects limit 1;
         insert into kb.webhook_secrets (id, endpoint_id, project_id, key_id, wrapped_key, ciphertext)
             select gen_random_uuid(), id, project_id, 'a', repeat('x', 60)::bytea, repeat('x', 40)::bytea from kb.webhook_endpoints;
         insert into kb.webhook_deliveries (project_id, endpoint_id, event, subject_id, payload, state)
             select project_id, id, 'run.ended', id, '{}', 'delivered' from kb.webhook_endpoints;
         insert into kb.model_prices (project_id, model, input_usd, output_usd)
             select id, 'openai:gpt-4o', 2.5, 10 from kb.projects limit 1;",
    )
    .execute(&app.db.pool)
    .await
    .expect("a question, mail, a schedule, a price");
}

async fn fill_mcp(app: &TestApp) {
    let mut connection = app.db.pool.acquire().await.expect("a connection");
    let settings = mcp::Settings {
        url: Some("https://mcp.example/mcp".to_owned()),
        ..mcp::Settings::new("web", mcp::Transport::Http)
    };
    let server = mcp::create(&mut connection, app.db.workspace_id, &settings, None)
        .await
        .expect("a server")
        .expect("a fresh name");
    let found = mcp::offers::DiscoveredTool {
        name: "search".to_owned(),
        definition: json!({"description": "Searches."}),
    };
    let listed = mcp::offers::Listed {
        found: vec![found],
        left_out: Vec::new(),
    };
    mcp::offers::record(&mut connection, &server, &json!({}), &listed)
        .await
        .expect("a tool");
    sqlx::query("insert into kb.products (project_id, name, version, manifest) values ($1, 'errands', '1.0.0', '{}')")
        .bind(app.db.workspace_id)
        .execute(&app.db.pool)
        .await
        .expect("a product");
    sqlx::query("insert into kb.mcp_sessions (id, project_id, user_id, state) values ('a', $1, $2, '{}')")
        .bind(app.db.workspace_id)
        .bind(app.db.user_id)
        .execute(&app.db.pool)
        .await
        .expect("a session");
}

async fn fill_graph(app: &TestApp) {
    let actor = Actor {
        kind: ActorKind::System,
        id: None,
    };
    let mut connection = app.db.pool.acquire().await.expect("a connection");
    let mut ends = Vec::new();
    for key in ["a", "b"] {
        let new = NewObject {
            object_type: "Package".to_owned(),
            key: Some(key.to_owned()),
            ..NewObject::default()
        };
        ends.push(
            objects::create(&mut connection, app.db.workspace_id, &new, actor)
                .await
                .expect("an object")
                .id,
        );
    }
    let new = json!({"type": "DEPENDS_ON", "sourceId": ends[0], "targetId": ends[1]});
    let new = serde_json::from_value(new).expect("a relationship");
    relationships::create(&mut connection, app.db.workspace_id, &new, actor)
        .await
        .expect("a relationship");
    let pack = json!({"name": "errands", "version": "1", "objectTypes": {"Errand": {"type": "object"}}});
    let pack = serde_json::from_value(pack).expect("a pack");
    let pack = packs::create(&mut connection, app.db.workspace_id, &pack)
        .await
        .expect("a pack");
    packs::assign(&mut connection, app.db.workspace_id, pack.id, None, &[])
        .await
        .expect("it is installed");
}

/// Requirements: C55.
#[tokio::test]
async fn the_schema_goes_up_down_and_up_with_rows_in_every_table() {
    let mut app = TestApp::start().await;
    fill(&app).await;
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
    app.crash_workers();
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
    let schemas: i64 =
        sqlx::query_scalar("select count(*) from pg_namespace where nspname in ('kb', 'queue', 'stream', 'audit')")
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
    let left: i64 = sqlx::query_scalar("select count(*) from pg_roles where rolname like 'rejoin\\_%'")
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
    let said: Vec<&Value> = asked["messages"]
        .as_array()
        .expect("messages")
        .iter()
        .map(|message| &message["content"])
        .collect();
    assert_eq!(
        said[1..],
        [&json!("What is the answer?"), &json!("Forty-two."), &json!("Again?")]
    );
    assert!(
        asked.get("tools").is_none_or(|tools| tools == &json!([])),
        "a plain conversation has no tools"
    );
    let (status, shown) = client.get(&format!("/api/conversations/{conversation}")).await;
    assert_eq!((status.as_u16(), &shown["agentDefinitionId"]), (200, &Value::Null));
}
