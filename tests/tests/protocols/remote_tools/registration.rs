//! Who may register what: conflicts of tools, versions side by side, absent programs, scopes and workspaces.

use rejoin_identity::{auth, workspaces};
use rejoin_tests::app::TestApp;
use rejoin_tests::client::Client;
use rejoin_tests::model_server::Reply;
use rejoin_tests::support;
use rejoin_types::access::{Grant, Scope};
use reqwest::StatusCode;
use serde_json::{Value, json};

use super::{Program, asked, events_of, hasty, result_for_model, tool, tool_with};

async fn register(client: &Client, queue: &str, tools: Value) -> (StatusCode, Value) {
    let body = json!({"name": "other", "slots": 1, "tools": tools});
    client.post(&format!("/api/workers/{queue}/registrations"), body).await
}

/// A client whose key has these scopes.
pub(super) async fn client_with(app: &TestApp, scopes: &[&str]) -> Client {
    let mut db = app.db.pool.acquire().await.unwrap();
    let (user, workspace) = (app.db.user_id, app.db.workspace_id);
    let grants: Vec<Grant> = scopes.iter().map(|scope| scope.parse().unwrap()).collect();
    let made = auth::create_key_with(&mut db, user, Some(workspace), "limited", &grants, None).await;
    let (_, key) = made.unwrap();
    Client::new(app.url(), &key)
}

/// The names of the tools that the model is offered in a new turn.
async fn offered(app: &TestApp) -> Vec<String> {
    let agent = app
        .agent(&format!("agent-{}", rejoin_types::ids::new()), &["refund"])
        .await;
    app.model.script([Reply::text("Hello.")]);
    app.client().ask(Some(agent), "hello").await;
    let requests = app.model.requests();
    let tools = requests.last().unwrap()["tools"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    tools
        .iter()
        .map(|tool| tool["function"]["name"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn one_version_of_a_tool_has_one_definition() {
    let app = TestApp::start().await;
    let program = Program::register(app.client(), json!([tool("refund")])).await;
    let (status, same) = register(&app.client(), "default", json!([tool("refund")])).await;
    assert_eq!(status, StatusCode::CREATED, "{same}");
    let changed = tool_with("refund", json!({"description": "Gives the money back."}));
    let (status, refused) = register(&app.client(), "default", json!([changed])).await;
    assert_eq!(
        (status, &refused["code"]),
        (StatusCode::CONFLICT, &json!("tool_conflict"))
    );
    let detail = refused["detail"].as_str().unwrap();
    for part in [
        "serves version 1 of refund with another description",
        "give yours another version",
    ] {
        assert!(detail.contains(part), "{part}: {detail}");
    }
    // Either of the two that serve it.
    let names_one = detail.contains(&program.id) || detail.contains(same["workerId"].as_str().unwrap());
    assert!(names_one, "{detail}");
    let (status, refused) = register(&app.client(), "gpu", json!([tool("refund")])).await;
    assert_eq!(
        (status, &refused["code"]),
        (StatusCode::CONFLICT, &json!("tool_conflict"))
    );
    assert!(refused["detail"].as_str().unwrap().contains("in another queue"));
}

#[tokio::test]
async fn a_registration_is_replaced_by_its_worker_only() {
    let app = TestApp::start().await;
    let program = Program::register(app.client(), json!([tool("refund")])).await;
    let again = |id: &str| json!({"workerId": id, "name": "billing", "slots": 1, "tools": [tool("notify")]});
    let path = "/api/workers/default/registrations";
    let (status, replaced) = app.client().post(path, again(&program.id)).await;
    assert_eq!((status, &replaced["workerId"]), (StatusCode::OK, &json!(program.id)));
    let (_, workers) = app.client().get("/api/workers").await;
    assert_eq!(workers["items"][0]["tools"], json!(["notify@1"]));

    // Of another workspace, it gets a worker of its workspace.
    let mut db = app.db.pool.acquire().await.unwrap();
    let other = workspaces::create(&mut db, "elsewhere").await.unwrap();
    workspaces::add_member(&mut db, other, app.db.user_id, workspaces::Role::Owner)
        .await
        .unwrap();
    let (_, key) = auth::create_key(&mut db, app.db.user_id, Some(other), "foreign", &Scope::ALL, None)
        .await
        .unwrap();
    let foreign = Client::new(app.url(), &key);
    let (status, made) = foreign.post(path, again(&program.id)).await;
    assert_eq!(status, StatusCode::CREATED, "{made}");
    assert_ne!(made["workerId"], json!(program.id));
}

#[tokio::test]
async fn a_tool_of_an_mcp_server_keeps_its_name() {
    let app = TestApp::start().await;
    sqlx::query(
        "with server as (
             insert into kb.project_mcp_servers (id, project_id, name, transport, url)
             values (gen_random_uuid(), $1, 'bank', 'http', 'https://bank.example/mcp') returning id)
         insert into kb.mcp_tools (server_id, name, definition, digest, offered)
         select id, 'refund', '{}', 'x', true from server",
    )
    .bind(app.db.workspace_id)
    .execute(&app.db.pool)
    .await
    .unwrap();
    let (status, refused) = register(&app.client(), "default", json!([tool("bank_refund")])).await;
    assert_eq!(
        (status, &refused["code"]),
        (StatusCode::CONFLICT, &json!("tool_conflict"))
    );
    assert!(refused["detail"].as_str().unwrap().contains("bank_refund"), "{refused}");
}

#[tokio::test]
async fn versions_are_served_side_by_side() {
    let app = TestApp::start().await;
    let old = Program::register(app.client(), json!([tool("refund")])).await;
    let (_, before) = asked(&app, json!({"order": "old"})).await;
    let of_old = old.next().await;
    let newer = tool_with(
        "refund",
        json!({"version": "2", "description": "Gives the money back."}),
    );
    let new = Program::register(app.client(), json!([newer])).await;
    let agent = app.agent("second", &["refund"]).await;
    app.model.on(
        "again",
        [Reply::tool("refund", json!({"order": "new"})), Reply::text("Done.")],
    );
    let after = app
        .client()
        .post_message(json!({"agentDefinitionId": agent, "message": "again"}))
        .await;
    let of_new = new.next().await;
    assert_eq!((&of_old["version"], &of_new["version"]), (&json!("1"), &json!("2")));
    assert_eq!(of_new["input"], json!({"order": "new"}));
    assert!(
        old.claim(1, 0).await.is_empty(),
        "a worker gets calls of its version only"
    );
    old.complete(&of_old, json!(1)).await;
    new.complete(&of_new, json!(2)).await;
    events_of(&app, &before).await;
    events_of(&app, &after).await;
}

#[tokio::test]
async fn a_tool_without_a_program_waits_or_hides() {
    let app = hasty().await;
    let hidden = tool_with("refund", json!({"whenAbsent": "hide"}));
    let program = Program::register(app.client(), json!([hidden])).await;
    assert_eq!(offered(&app).await, ["refund"]);
    let path = format!("/api/workers/default/registrations/{}", program.id);
    app.client().delete(&path).await;
    assert!(offered(&app).await.is_empty());

    let waiting = Program::register(app.client(), json!([tool_with("refund", json!({"version": "2"}))])).await;
    let path = format!("/api/workers/default/registrations/{}", waiting.id);
    app.client().delete(&path).await;
    let (_, posted) = asked(&app, json!({"order": "A-7"})).await;
    support::wait_for("the waiting call", async || {
        let waiting: i64 = sqlx::query_scalar("select count(*) from kb.remote_calls where status = 'waiting'")
            .fetch_one(&app.db.pool)
            .await
            .unwrap();
        (waiting == 1).then_some(())
    })
    .await;
    let late = Program::register(app.client(), json!([tool_with("refund", json!({"version": "2"}))])).await;
    let call = late.next().await;
    late.complete(&call, json!("at last")).await;
    events_of(&app, &posted).await;
    assert_eq!(result_for_model(&app), r#""at last""#);
}

#[tokio::test]
async fn bad_registrations_are_refused_with_the_reason() {
    let app = TestApp::start().await;
    let client = app.client();
    for (tools, part) in [
        (json!([]), "1 to 128 tools"),
        (json!([tool("search_entities")]), "built-in"),
        (json!([tool("spawn_agents")]), "built-in"),
        (json!([tool("two words")]), "letters, digits"),
        (
            json!([tool_with(
                "a",
                json!({"inputSchema": {"type": "object", "properties": 1}})
            )]),
            "not a valid JSON Schema",
        ),
    ] {
        let (status, refused) = register(&client, "default", tools).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{refused}");
        assert_eq!(refused["code"], "invalid_registration");
        assert!(refused["detail"].as_str().unwrap().contains(part), "{part}: {refused}");
    }
    let (status, refused) = register(&client, "a b", json!([tool("a")])).await;
    assert_eq!(
        (status, &refused["code"]),
        (StatusCode::BAD_REQUEST, &json!("invalid_queue"))
    );
    let unknown = json!({"workerId": rejoin_types::ids::new(), "max": 1});
    for path in ["claims", "heartbeats"] {
        let mut body = unknown.clone();
        if path == "heartbeats" {
            body.as_object_mut().unwrap().remove("max");
        }
        let (status, refused) = client.post(&format!("/api/workers/default/{path}"), body).await;
        assert_eq!(
            (status, &refused["code"]),
            (StatusCode::NOT_FOUND, &json!("worker_unknown"))
        );
    }
}

#[tokio::test]
async fn a_program_needs_the_scope_and_sees_its_workspace_only() {
    let app = TestApp::start().await;
    let without = client_with(&app, &["read", "write", "admin"]).await;
    let (status, refused) = register(&without, "default", json!([tool("refund")])).await;
    assert_eq!(
        (status, &refused["code"]),
        (StatusCode::FORBIDDEN, &json!("scope_missing"))
    );

    let program = Program::register(app.client(), json!([tool("refund")])).await;
    let (_, posted) = asked(&app, json!({"order": "A-7"})).await;
    let mut db = app.db.pool.acquire().await.unwrap();
    let other = workspaces::create(&mut db, "elsewhere").await.unwrap();
    workspaces::add_member(&mut db, other, app.db.user_id, workspaces::Role::Owner)
        .await
        .unwrap();
    let (_, key) = auth::create_key(&mut db, app.db.user_id, Some(other), "foreign", &Scope::ALL, None)
        .await
        .unwrap();
    let foreign = Client::new(app.url(), &key);
    let body = json!({"workerId": program.id, "max": 1, "waitS": 0});
    let (status, _) = foreign.post("/api/workers/default/claims", body).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    let call = program.next().await;
    let path = format!("/api/workers/default/calls/{}/completion", call["id"].as_str().unwrap());
    let body = json!({"workerId": program.id, "attempt": 1, "output": "forged"});
    let (status, _) = foreign.post(&path, body).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    let (_, workers) = foreign.get("/api/workers").await;
    assert_eq!(workers["items"], json!([]));
    program.complete(&call, json!("right")).await;
    events_of(&app, &posted).await;
    assert_eq!(result_for_model(&app), r#""right""#);
}

/// A worker's key belongs to one user; calls are those of all users of the workspace.
#[tokio::test]
async fn a_program_serves_all_users_of_its_workspace() {
    let app = TestApp::start().await;
    let (_, key) = app.db.another_user().await;
    let program = Program::register(Client::new(app.url(), &key), json!([tool("refund")])).await;
    let (_, posted) = asked(&app, json!({"order": "A-7"})).await;
    let call = program.next().await;
    let (status, answer) = program.complete(&call, json!("refunded")).await;
    assert_eq!((status, answer), (StatusCode::OK, json!({"status": "completed"})));
    events_of(&app, &posted).await;
    assert_eq!(result_for_model(&app), r#""refunded""#);
}

#[tokio::test]
async fn a_key_may_be_for_one_queue_or_one_tool_of_it() {
    let app = TestApp::start().await;
    let of_queue = client_with(&app, &["worker:billing"]).await;
    let of_tool = client_with(&app, &["worker:billing/refund"]).await;
    let is_refused = |(status, refused): (StatusCode, Value), about: &str| {
        assert_eq!(
            (status, &refused["code"]),
            (StatusCode::FORBIDDEN, &json!("scope_missing")),
            "{refused}"
        );
        assert!(refused["detail"].as_str().unwrap().contains(about), "{refused}");
    };
    is_refused(
        register(&of_queue, "default", json!([tool("refund")])).await,
        "queue default",
    );
    is_refused(
        register(&of_tool, "billing", json!([tool("refund"), tool("pay")])).await,
        "the tool pay of the queue billing",
    );
    let (status, both) = register(&of_queue, "billing", json!([tool("refund"), tool("pay")])).await;
    assert_eq!(status, StatusCode::CREATED, "{both}");
    let (status, one) = register(&of_tool, "billing", json!([tool("refund")])).await;
    assert_eq!(status, StatusCode::CREATED, "{one}");
    // The worker of another key serves more than this key may.
    let claim = |worker: &Value| json!({"workerId": worker["workerId"], "max": 1, "waitS": 20});
    is_refused(
        of_tool.post("/api/workers/billing/claims", claim(&both)).await,
        "the tool pay",
    );
    let (_, posted) = asked(&app, json!({"order": "A-7"})).await;
    let (status, claimed) = of_tool.post("/api/workers/billing/claims", claim(&one)).await;
    assert_eq!(status, StatusCode::OK, "{claimed}");
    let call = &claimed["calls"][0];
    let end = json!({"workerId": one["workerId"], "attempt": call["attempt"], "output": "done"});
    let path = format!("/api/workers/billing/calls/{}/completion", call["id"].as_str().unwrap());
    let other = client_with(&app, &["worker:other"]).await;
    is_refused(
        other.post(&path, end.clone()).await,
        "the tool refund of the queue billing",
    );
    let record = json!({"callId": call["id"], "attempt": call["attempt"], "output": "done"});
    let records = json!({"workerId": one["workerId"], "records": [record]});
    let (_, answer) = other.post("/api/workers/billing/records", records.clone()).await;
    is_refused(
        (StatusCode::FORBIDDEN, answer["records"][0]["problem"].clone()),
        "the tool refund of the queue billing",
    );
    let (status, answer) = of_tool.post(&path, end).await;
    assert_eq!(status, StatusCode::OK, "{answer}");
    let (_, answer) = of_tool.post("/api/workers/billing/records", records).await;
    assert_eq!(answer["records"], json!([{"status": "completed"}]));
    events_of(&app, &posted).await;
    assert_eq!(result_for_model(&app), r#""done""#);
}
