//! Versions of agents: each change adds one, runs name theirs, conversations may stay with one, and one can be restored.

use rejoin_tests::app::TestApp;
use rejoin_tests::client::{Client, json_of, of_kind};
use rejoin_tests::model_server::Reply;
use reqwest::StatusCode;
use serde_json::{Value, json};
use uuid::Uuid;

fn path(app: &TestApp, agent: Uuid) -> String {
    format!("/api/admin/projects/{}/agent-definitions/{agent}", app.db.workspace_id)
}

async fn changed(client: &Client, path: &str, body: Value) -> i64 {
    let (status, definition) = client.patch(path, body).await;
    assert_eq!(status, StatusCode::OK, "{definition}");
    definition["version"].as_i64().unwrap()
}

/// The system prompt that the newest request to the model began with.
fn prompt(app: &TestApp) -> String {
    let request = app.model.requests().pop().unwrap();
    request["messages"][0]["content"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn each_change_of_an_agent_adds_a_version() {
    let app = TestApp::start().await;
    let client = app.client();
    let agent = app.agent("helper", &[]).await;
    let path = path(&app, agent);
    assert_eq!(client.get(&path).await.1["version"], 1);
    assert_eq!(
        changed(&client, &path, json!({"systemPrompt": "Be kind.\nBe short.\n"})).await,
        2
    );
    // What changes nothing adds none.
    assert_eq!(
        changed(&client, &path, json!({"systemPrompt": "Be kind.\nBe short.\n"})).await,
        2
    );
    let more = json!({"systemPrompt": "Be kind.\nBe long.\n", "maxSteps": 3});
    assert_eq!(changed(&client, &path, more).await, 3);
    let (_, page) = client.get(&format!("{path}/versions")).await;
    let listed: Vec<(i64, Value)> = page["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| (item["version"].as_i64().unwrap(), item["changed"].clone()))
        .collect();
    assert_eq!(
        listed[..2],
        [(3, json!(["systemPrompt", "maxSteps"])), (2, json!(["systemPrompt"]))]
    );
    assert_eq!(page["items"][0]["createdBy"], json!(app.db.user_id));
    let (_, page) = client.get(&format!("{path}/versions?limit=1")).await;
    assert_eq!(page["items"][0]["changed"], json!(["systemPrompt", "maxSteps"]));
    let (_, diff) = client.get(&format!("{path}/versions/3/diff")).await;
    assert_eq!((&diff["from"], &diff["to"]), (&json!(2), &json!(3)));
    let lines = diff["changes"][0]["diff"].as_str().unwrap();
    assert!(lines.contains("-Be short.") && lines.contains("+Be long."), "{lines}");
    let (_, same) = client.get(&format!("{path}/versions/3/diff?from=3")).await;
    assert_eq!(same["changes"], json!([]));
    let (_, second) = client.get(&format!("{path}/versions/2")).await;
    assert_eq!(
        (&second["version"], &second["systemPrompt"]),
        (&json!(2), &json!("Be kind.\nBe short.\n"))
    );
    for missing in ["versions/9", "versions/9/diff", "versions/1/diff?from=9"] {
        let (status, problem) = client.get(&format!("{path}/{missing}")).await;
        assert_eq!(
            (status, &problem["code"]),
            (StatusCode::NOT_FOUND, &json!("agent_version_not_found")),
            "{missing}"
        );
    }
}

#[tokio::test]
async fn a_restored_version_is_the_newest_one() {
    let app = TestApp::start().await;
    let client = app.client();
    let agent = app.agent("helper", &[]).await;
    let path = path(&app, agent);
    let (_, first) = client.get(&path).await;
    changed(&client, &path, json!({"systemPrompt": "Be short.", "name": "other"})).await;
    let (status, restored) = client.post(&format!("{path}/versions/1/restore"), json!({})).await;
    assert_eq!((status, &restored["version"]), (StatusCode::OK, &json!(3)));
    assert_eq!(
        (&restored["systemPrompt"], &restored["name"]),
        (&first["systemPrompt"], &first["name"])
    );
    // Again: nothing changes.
    let (_, again) = client.post(&format!("{path}/versions/1/restore"), json!({})).await;
    assert_eq!(again["version"], 3);
    let (_, audit) = client
        .get(&format!("/api/admin/projects/{}/audit", app.db.workspace_id))
        .await;
    assert_eq!(
        (&audit["items"][0]["action"], &audit["items"][0]["detail"]["version"]),
        (&json!("agent_definition.restored"), &json!(1))
    );
    // Its name is another agent's now.
    changed(&client, &path, json!({"name": "renamed"})).await;
    app.agent("helper", &[]).await;
    let (status, problem) = client.post(&format!("{path}/versions/1/restore"), json!({})).await;
    assert_eq!((status, &problem["code"]), (StatusCode::CONFLICT, &json!("name_taken")));
}

#[tokio::test]
async fn a_conversation_stays_with_the_version_it_is_given() {
    let app = TestApp::start().await;
    let client = app.client();
    let agent = app.agent("helper", &[]).await;
    let path = path(&app, agent);
    changed(&client, &path, json!({"systemPrompt": "First prompt."})).await;
    app.model.always("turn", Reply::text("Yes."));
    let ask = async |conversation: Option<&str>| {
        let body = match conversation {
            Some(id) => json!({"message": "a turn", "conversationId": id}),
            None => json!({"message": "a turn", "agentDefinitionId": agent}),
        };
        let events = json_of(&client.chat(body).await);
        let meta = of_kind(&events, "meta")[0].clone();
        let (_, run) = client
            .get(&format!("/api/runs/{}", meta["runId"].as_str().unwrap()))
            .await;
        (
            meta["conversationId"].as_str().unwrap().to_owned(),
            run["agentVersion"].as_i64(),
        )
    };
    let (id, version) = ask(None).await;
    assert_eq!(version, Some(2));
    let conversation = format!("/api/conversations/{id}");
    let (status, patched) = client.patch(&conversation, json!({"agentVersion": 2})).await;
    assert_eq!((status, &patched["marks"]["agentVersion"]), (StatusCode::OK, &json!(2)));
    changed(&client, &path, json!({"systemPrompt": "Second prompt."})).await;
    assert_eq!(ask(Some(&id)).await.1, Some(2));
    assert!(prompt(&app).starts_with("First prompt."), "{}", prompt(&app));
    assert_eq!(ask(None).await.1, Some(3));
    assert!(prompt(&app).starts_with("Second prompt."), "{}", prompt(&app));
    client.patch(&conversation, json!({"agentVersion": null})).await;
    assert_eq!(ask(Some(&id)).await.1, Some(3));
    assert!(prompt(&app).starts_with("Second prompt."), "{}", prompt(&app));
    let (status, problem) = client.patch(&conversation, json!({"agentVersion": 9})).await;
    assert_eq!(
        (status, &problem["code"]),
        (StatusCode::BAD_REQUEST, &json!("agent_version_not_found"))
    );
}

#[tokio::test]
async fn no_version_is_changed_or_seen_by_another_project() {
    let app = TestApp::start().await;
    let agent = app.agent("helper", &[]).await;
    let (user, _) = app.db.another_user().await;
    let mut connection = app.db.pool.acquire().await.unwrap();
    let other = rejoin_identity::workspaces::create(&mut connection, "other")
        .await
        .unwrap();
    rejoin_identity::workspaces::add_member(&mut connection, other, user, rejoin_identity::workspaces::Role::Owner)
        .await
        .unwrap();
    let (_, key) = rejoin_identity::auth::create_key(
        &mut connection,
        user,
        Some(other),
        "test",
        &rejoin_types::access::Scope::ALL,
        None,
    )
    .await
    .unwrap();
    let client = Client::new(app.url(), &key);
    for path in [
        format!("{}/versions", path(&app, agent)),
        format!("/api/admin/projects/{other}/agent-definitions/{agent}/versions"),
        format!("/api/admin/projects/{other}/agent-definitions/{agent}/versions/1"),
    ] {
        assert_eq!(client.get(&path).await.0, StatusCode::NOT_FOUND, "{path}");
    }
    let pool = rejoin_db::Db::connect_lazy(&app.db.args(), "rejoin-test-app", rejoin_db::Role::App)
        .unwrap()
        .pool_sqlx;
    let scope = rejoin_db::rls::Scope::User(app.db.owner());
    let mut db = rejoin_db::rls::begin(&pool, scope).await.unwrap();
    let error = sqlx::query("update kb.agent_versions set content = '{}'")
        .execute(&mut *db)
        .await
        .unwrap_err();
    let code = error.into_database_error().unwrap().code().unwrap().into_owned();
    assert_eq!(code, "42501");
}
