//! A schema with rows in every table, for the tests of migrations.

use rejoin_graph::objects::{self, NewObject};
use rejoin_graph::{Actor, ActorKind, packs, relationships};
use rejoin_integrations::mcp;
use rejoin_secrets::MasterKeys;
use rejoin_secrets::keys::generate;
use rejoin_tests::app::TestApp;
use rejoin_tests::model_server::Reply;
use serde_json::json;

use rejoin_tests::support;

/// Inserts rows into every table, through the product's own functions where possible. The workers are gone afterwards.
pub(super) async fn fill(app: &mut TestApp) {
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
    app.wait_until_idle().await;
    // They would do and remove what is waiting for them.
    app.crash_workers();
    support::wait_for("the end of their connections", async || {
        let open: i64 = sqlx::query_scalar(
            "select count(*) from pg_stat_activity
             where datname = current_database() and starts_with(application_name, 'rejoin-worker')",
        )
        .fetch_one(&app.db.pool)
        .await
        .expect("a count");
        (open == 0).then_some(())
    })
    .await;
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
    sqlx::raw_sql(
        "insert into queue.queues (name, paused_at) values ('slow', now());
         select queue.enqueue('later', p_run_at => now() + interval '1 day');
         insert into kb.google_marks (calendar_id) select id from kb.calendars;
         insert into kb.graph_embeddings (project_id, canonical_id, model, dimensions, content_hash, signs, vector)
             select project_id, canonical_id, 'm', 2, content_hash, b'10', '{1,0}'::real[] from kb.graph_objects limit 1;
         insert into kb.graph_words (project_id, word) select project_id, 'word' from kb.graph_objects limit 1;
         insert into kb.identities (issuer, subject, user_id) select 'https://id.example', 'somebody', id from kb.users limit 1;
         insert into kb.api_keys (id, user_id, project_id, name, prefix, hash, kind, begun_by, expires_at)
             select gen_random_uuid(), m.user_id, m.project_id, 'session of a browser', '', sha256('session'), 'session', 'sso', now() + interval '1 hour'
             from kb.project_members m limit 1;
         insert into kb.sso_sessions (session_id, issuer, subject)
             select id, 'https://id.example', 'somebody' from kb.api_keys where kind = 'session' limit 1;
         insert into kb.invitations (id, project_id, hash, role, max_uses, made_by, expires_at)
             select gen_random_uuid(), m.project_id, sha256('token'), 'member', 1, m.user_id, now() + interval '1 day'
             from kb.project_members m limit 1;
         insert into kb.files (id, project_id, name, media_type, size_bytes, sha256, state)
             select gen_random_uuid(), id, 'a.txt', 'text/plain', 1, sha256('a'), 'ready' from kb.projects limit 1;
         insert into kb.file_chunks (file_id, position, content) select id, 0, 'a' from kb.files;
         insert into kb.message_files (message_id, file_id) select m.id, f.id from kb.chat_messages m, kb.files f limit 1;
         insert into kb.file_objects_left (object_key, due_at) values ('project/file', now());
         insert into stream.archive_leftovers (name, due_at) values ('project/log/object', now());
         insert into stream.archives (log_id, project_id, first_seq, last_seq, events, name, sha256, text_bytes, bytes)
             select l.log_id, p.id, 1, 1, 1, 'project/log/another', sha256('a'), 1, 1 from stream.logs l, kb.projects p limit 1;
         insert into kb.search_settings (project_id, language) select id, 'german' from kb.projects limit 1;
         insert into kb.routing_controls (run_id, project_id) select id, project_id from kb.agent_runs limit 1;
         insert into cells.cells (name, url_from) values ('b', 'env:CELL_B_URL');
         insert into cells.placements (project_id, cell) select id, 'b' from kb.projects limit 1;
         insert into cells.moves (id, project_id, to_cell) select gen_random_uuid(), id, 'b' from kb.projects limit 1;
         insert into cells.epochs (project_id, epoch, common_until, nth) select id, gen_random_uuid(), 'infinity', 1 from kb.projects limit 1;
         insert into cells.holds (project_id, state) values (gen_random_uuid(), 'moved');
         insert into cells.arrivals (project_id, move_id) values (gen_random_uuid(), gen_random_uuid());
         insert into cells.mirrored (project_id, version) values (gen_random_uuid(), 1);
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
         insert into kb.chat_folders (id, project_id, owner_user_id, name)
             select gen_random_uuid(), project_id, owner_user_id, 'Work' from kb.chat_conversations limit 1;
         insert into kb.chat_branches (conversation_id, root_id, point_id, message_id)
             select m.conversation_id, m.conversation_id, m.id, m.id from kb.chat_messages m limit 1;
         insert into kb.conversation_shares (id, project_id, owner_user_id, conversation_id, token_hash, expires_at)
             select gen_random_uuid(), project_id, owner_user_id, id, sha256('share'), now() from kb.chat_conversations limit 1;
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
         insert into kb.evaluation_sets (id, project_id, name) select gen_random_uuid(), id, 'basics' from kb.projects limit 1;
         insert into kb.evaluation_cases (id, set_id, project_id, question) select gen_random_uuid(), id, project_id, 'Why?' from kb.evaluation_sets;
         insert into kb.evaluations (id, set_id, project_id, dag_id, agent_definition_id, agent_name, agent_version, judge_agent, cases)
             select gen_random_uuid(), s.id, s.project_id, d.id, gen_random_uuid(), 'asker', 1, 'judge', '[]'
             from kb.evaluation_sets s join kb.task_dags d on d.project_id = s.project_id limit 1;
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
         insert into kb.remote_workers (id, project_id, queue, name, slots, alive_until)
             select gen_random_uuid(), id, 'default', 'billing', 1, now() from kb.projects limit 1;
         insert into kb.remote_tools (id, project_id, name, version, queue, description, input_schema, read_only, idempotent, confirm,
                                      timeout_s, when_absent)
             select gen_random_uuid(), id, 'refund', '1', 'default', '', '{}', false, false, false, 60, 'wait' from kb.projects limit 1;
         insert into kb.remote_worker_tools (worker_id, tool_id, project_id)
             select w.id, t.id, w.project_id from kb.remote_workers w join kb.remote_tools t on t.project_id = w.project_id;
         select kb.add_remote_call(gen_random_uuid(), id, null, 'c', null, 'default', 'refund', '1', '{}', null, false, 60, 5)
             from kb.projects limit 1;
         select kb.end_remote_call(id, null, 'cancelled', null, null) from kb.remote_calls;
         insert into kb.remote_steps (call_id, number, project_id, name, kind, status, attempt)
             select id, 1, project_id, 'pay', 'function', 'begun', 1 from kb.remote_calls;
         insert into kb.remote_texts (call_id, step, piece, project_id, seq, text) select id, 1, 1, project_id, 1, 'a' from kb.remote_calls;
         insert into kb.remote_signals (id, project_id, run_id, name, data)
             select gen_random_uuid(), project_id, id, 'paid', '1' from kb.agent_runs limit 1;
         insert into kb.webhook_endpoints (id, project_id, url, events)
             select gen_random_uuid(), id, 'https://hooks.example/', '{run.ended}' from kb.projects limit 1;
         insert into kb.webhook_secrets (id, endpoint_id, project_id, key_id, wrapped_key, ciphertext)
             select gen_random_uuid(), id, project_id, 'a', repeat('x', 60)::bytea, repeat('x', 40)::bytea from kb.webhook_endpoints;
         insert into kb.webhook_deliveries (project_id, endpoint_id, event, subject_id, payload, state)
             select project_id, id, 'run.ended', id, '{}', 'delivered' from kb.webhook_endpoints;
         insert into kb.webhook_endpoints (id, project_id, url, events, run_id, config_id, auth_scheme)
             select gen_random_uuid(), project_id, 'https://client.example/', '{run.ended}', id, 'c', 'Bearer' from kb.agent_runs
             where parent_run_id is null limit 1;
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
    sqlx::raw_sql(
        "insert into kb.mcp_accounts (id, project_id, server_id, user_id, revision, issuer, requested_scopes, scopes, key_id, wrapped_key, ciphertext)
             select gen_random_uuid(), s.project_id, s.id, u.id, 1, 'https://login.example', '{}', '{}', 'a', repeat('x', 60)::bytea,
                    repeat('x', 40)::bytea
             from kb.project_mcp_servers s, kb.users u limit 1;
         insert into kb.mcp_consents (id, state_hash, project_id, server_id, user_id, revision, verifier, redirect_url, client_url, expires_at)
             select gen_random_uuid(), sha256('consent'), project_id, server_id, user_id, 1, 'x', 'https://rejoin.example/mcp/connect',
                    'https://rejoin.example/api/mcp-client', now()
             from kb.mcp_accounts",
    )
    .execute(&app.db.pool)
    .await
    .expect("an account");
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
