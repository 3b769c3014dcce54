//! Authorization: keys, scopes, projects, owners, tickets, rate limits (invariant I14).

use std::time::{Duration, Instant};

use rejoin_identity::auth;
use rejoin_identity::workspaces;
use rejoin_tests::app::{AppOptions, TestApp};
use rejoin_tests::client::{Client, answer};
use rejoin_types::access::Scope;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use uuid::Uuid;

async fn quiet() -> TestApp {
    TestApp::with(AppOptions {
        workers: 0,
        ..AppOptions::default()
    })
    .await
}

async fn key(app: &TestApp, project: Option<Uuid>, scopes: &[Scope]) -> (Uuid, Client) {
    let mut connection = app.db.pool.acquire().await.unwrap();
    let (id, key) = auth::create_key(&mut connection, app.db.user_id, project, "test", scopes, None)
        .await
        .unwrap();
    (id, Client::new(app.url(), &key))
}

#[tokio::test]
async fn without_a_key_nothing_opens_but_what_operators_need() {
    let app = quiet().await;
    let nobody = reqwest::Client::new();
    for path in ["/livez", "/readyz", "/metrics", "/openapi.json", "/api/docs"] {
        assert_eq!(
            nobody
                .get(format!("{}{path}", app.url()))
                .send()
                .await
                .unwrap()
                .status(),
            StatusCode::OK,
            "{path}"
        );
    }
    let refused = nobody
        .get(format!("{}/api/conversations", app.url()))
        .send()
        .await
        .unwrap();
    assert_eq!(refused.status(), StatusCode::UNAUTHORIZED);
    assert!(refused.headers().contains_key("www-authenticate"));
    assert_eq!(refused.headers()["content-type"], "application/problem+json");
    let (_, problem) = answer(refused).await;
    for member in ["type", "title", "status", "detail", "code"] {
        assert!(!problem[member].is_null(), "{member}: {problem}");
    }
    let (status, _) = Client::new(app.url(), "rejoin_nonsense")
        .get("/api/conversations")
        .await;
    assert_eq!(status, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn a_key_does_what_its_scopes_say() {
    let app = quiet().await;
    let project = app.db.workspace_id;
    let definitions = format!("/api/admin/projects/{project}/agent-definitions");
    let (_, reader) = key(&app, Some(project), &[Scope::Read]).await;
    assert_eq!(reader.get("/api/conversations").await.0, StatusCode::OK);
    for (status, problem) in [
        reader.post("/api/conversations", json!({})).await,
        reader.get(&definitions).await,
        reader.post(&definitions, json!({})).await,
    ] {
        assert_eq!(
            (status, &problem["code"]),
            (StatusCode::FORBIDDEN, &json!("scope_missing"))
        );
    }
    let (_, writer) = key(&app, Some(project), &[Scope::Read, Scope::Write]).await;
    assert_eq!(
        writer.post("/api/conversations", json!({})).await.0,
        StatusCode::CREATED
    );
    assert_eq!(writer.get(&definitions).await.0, StatusCode::FORBIDDEN);
}

/// Every operation that needs a scope, with a path of the project where nothing else is.
fn scoped_operations(project: Uuid) -> Vec<(Method, String, Scope)> {
    let mut operations = Vec::new();
    for (path, method, access) in rejoin_api::routes::access().iter() {
        let Some(scope) = access.scope() else { continue };
        let mut path = path.replace("{p}", &project.to_string());
        while let (Some(from), Some(to)) = (path.find('{'), path.find('}')) {
            path.replace_range(from..=to, &Uuid::now_v7().to_string());
        }
        operations.push((method.cloned().unwrap_or(Method::POST), path, scope));
    }
    operations
}

/// An error's code: in a problem, or in the shape of OpenAI's protocols.
fn code_of(body: &Value) -> &Value {
    body.get("code").unwrap_or(&body["error"]["code"])
}

fn detail_of(body: &Value) -> &Value {
    body.get("detail").unwrap_or(&body["error"]["message"])
}

#[tokio::test]
async fn every_operation_refuses_a_key_that_lacks_only_its_scope() {
    let app = quiet().await;
    let project = app.db.workspace_id;
    for scope in Scope::ALL {
        let others: Vec<Scope> = Scope::ALL.into_iter().filter(|other| *other != scope).collect();
        let (_, client) = key(&app, Some(project), &others).await;
        for (method, path, needed) in scoped_operations(project) {
            if needed != scope {
                continue;
            }
            let mut request = client.request(method.clone(), &path);
            if method != Method::GET {
                request = request.json(&json!({}));
            }
            let (status, body) = answer(request.send().await.unwrap()).await;
            if method == Method::HEAD {
                // Without a body.
                assert_eq!(status, StatusCode::FORBIDDEN, "HEAD {path}");
                continue;
            }
            assert_eq!(
                (status, code_of(&body), detail_of(&body)),
                (
                    StatusCode::FORBIDDEN,
                    &json!("scope_missing"),
                    &json!(format!("the caller lacks the scope `{}`", scope.as_str()))
                ),
                "{method} {path}"
            );
            if method == Method::GET {
                let response = client.request(Method::HEAD, &path).send().await.unwrap();
                assert_eq!(response.status(), StatusCode::FORBIDDEN, "HEAD {path}");
            }
        }
    }
}

#[tokio::test]
async fn no_operation_needs_more_than_its_scope() {
    let app = quiet().await;
    let project = app.db.workspace_id;
    for scope in Scope::ALL {
        let (_, client) = key(&app, Some(project), &[scope]).await;
        for (method, path, needed) in scoped_operations(project) {
            if needed != scope {
                continue;
            }
            let mut request = client.request(method.clone(), &path);
            if method != Method::GET {
                // Nothing that any of them does.
                request = request.header("content-type", "application/json").body("[");
            }
            let response = request.send().await.unwrap();
            if response.status() == StatusCode::FORBIDDEN {
                let (_, body) = answer(response).await;
                assert_ne!(*code_of(&body), "scope_missing", "{method} {path}");
            }
        }
    }
}

#[tokio::test]
async fn only_its_owner_sees_a_conversation_and_its_runs() {
    let app = quiet().await;
    let posted = app.client().post_message(json!({"message": "mine"})).await;
    let (conversation, run) = (
        posted["conversationId"].as_str().unwrap(),
        posted["runId"].as_str().unwrap(),
    );
    let (_, other_key) = app.db.another_user().await;
    let other = Client::new(app.url(), &other_key);
    let project = app.db.workspace_id;
    for path in [
        format!("/api/conversations/{conversation}"),
        format!("/api/conversations/{conversation}/messages"),
        format!("/api/conversations/{conversation}/events"),
        format!("/api/runs/{run}"),
        format!("/api/runs/{run}/events"),
        format!("/api/projects/{project}/agent-runs/{run}"),
        format!("/api/projects/{project}/agent-runs/{run}/messages"),
        format!("/api/projects/{project}/agent-runs/{run}/tool-calls"),
    ] {
        assert_eq!(other.get(&path).await.0, StatusCode::NOT_FOUND, "{path}");
    }
    let attempts = [
        other
            .patch(&format!("/api/conversations/{conversation}"), json!({"title": "x"}))
            .await,
        other.delete(&format!("/api/conversations/{conversation}")).await,
        other.post(&format!("/api/runs/{run}/cancel"), json!({})).await,
        other
            .post(
                "/api/chat/stream",
                json!({"message": "x", "conversationId": conversation}),
            )
            .await,
        other
            .post("/api/stream-tickets", json!({"conversationId": conversation}))
            .await,
    ];
    for (status, problem) in attempts {
        assert_eq!(status, StatusCode::NOT_FOUND, "{problem}");
    }
    for path in [
        "/api/conversations".to_owned(),
        format!("/api/projects/{project}/agent-runs"),
    ] {
        assert_eq!(other.get(&path).await.1["items"], json!([]), "{path}");
    }
}

#[tokio::test]
async fn a_key_of_several_projects_chooses_one() {
    let app = quiet().await;
    let mut connection = app.db.pool.acquire().await.unwrap();
    let second = workspaces::create(&mut connection, "second").await.unwrap();
    let foreign = workspaces::create(&mut connection, "foreign").await.unwrap();
    workspaces::add_member(&mut connection, second, app.db.user_id, workspaces::Role::Owner)
        .await
        .unwrap();
    drop(connection);
    let (_, both) = key(&app, None, &Scope::ALL).await;
    let in_workspace = async |project: &str| -> (StatusCode, Value) {
        answer(
            both.request(Method::GET, "/api/conversations")
                .header("x-project-id", project)
                .send()
                .await
                .unwrap(),
        )
        .await
    };
    let (status, problem) = both.get("/api/conversations").await;
    assert_eq!(
        (status, &problem["code"]),
        (StatusCode::BAD_REQUEST, &json!("project_needed"))
    );
    assert_eq!(in_workspace(&second.to_string()).await.0, StatusCode::OK);
    assert_eq!(in_workspace(&foreign.to_string()).await.0, StatusCode::NOT_FOUND);
    assert_eq!(in_workspace("nonsense").await.0, StatusCode::NOT_FOUND);
    // A path that names its project needs no header; a key of one project opens no other.
    assert_eq!(
        both.get(&format!("/api/projects/{second}/agent-runs")).await.0,
        StatusCode::OK
    );
    assert_eq!(
        app.client().get(&format!("/api/projects/{second}/agent-runs")).await.0,
        StatusCode::NOT_FOUND
    );
}

#[tokio::test]
async fn a_revoked_key_and_its_streams_end_within_five_seconds() {
    let app = quiet().await;
    let (id, client) = key(&app, Some(app.db.workspace_id), &Scope::ALL).await;
    let posted = client.post_message(json!({"message": "hello"})).await;
    let stream = client
        .stream(&format!(
            "/api/conversations/{}/events",
            posted["conversationId"].as_str().unwrap()
        ))
        .await;
    let revoked = Instant::now();
    auth::revoke_key(&app.db.pool, id).await.unwrap();
    stream.rest().await;
    rejoin_tests::support::wait_for("the key to be refused", async || {
        (client.get("/api/conversations").await.0 == StatusCode::UNAUTHORIZED).then_some(())
    })
    .await;
    assert!(revoked.elapsed() < Duration::from_secs(5), "{:?}", revoked.elapsed());
}

#[tokio::test]
async fn a_ticket_opens_one_stream_once() {
    let app = quiet().await;
    let posted = app.client().post_message(json!({"message": "hello"})).await;
    let (conversation, run) = (
        posted["conversationId"].as_str().unwrap(),
        posted["runId"].as_str().unwrap(),
    );
    let nobody = reqwest::Client::new();
    let open = async |path: String| {
        nobody
            .get(format!("{}{path}", app.url()))
            .send()
            .await
            .unwrap()
            .status()
    };
    for (target, id, path) in [
        (
            "conversationId",
            conversation,
            format!("/api/conversations/{conversation}/events"),
        ),
        ("runId", run, format!("/api/runs/{run}/events")),
    ] {
        let (status, made) = app.client().post("/api/stream-tickets", json!({ target: id })).await;
        assert_eq!(status, StatusCode::CREATED, "{made}");
        assert!(made["expiresAt"].is_string());
        let ticket = made["ticket"].as_str().unwrap();
        assert_eq!(open(format!("{path}?ticket={ticket}")).await, StatusCode::OK);
        assert_eq!(
            open(format!("{path}?ticket={ticket}")).await,
            StatusCode::UNAUTHORIZED,
            "it was used"
        );
    }
    let (_, made) = app.client().post("/api/stream-tickets", json!({ "runId": run })).await;
    let elsewhere = format!(
        "/api/conversations/{conversation}/events?ticket={}",
        made["ticket"].as_str().unwrap()
    );
    assert_eq!(
        open(elsewhere).await,
        StatusCode::UNAUTHORIZED,
        "it is for another stream"
    );
    let (status, _) = app.client().post("/api/stream-tickets", json!({})).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn a_rate_limited_key_gets_the_time_to_retry() {
    let app = TestApp::with(AppOptions {
        workers: 0,
        api: |config| config.http.rate_per_s = 1,
        ..AppOptions::default()
    })
    .await;
    let mut refused = None;
    for _ in 0..10 {
        let response = app
            .client()
            .request(Method::GET, "/api/conversations")
            .send()
            .await
            .unwrap();
        if response.status() == StatusCode::TOO_MANY_REQUESTS {
            refused = Some(response);
            break;
        }
    }
    let refused = refused.expect("ten requests at once are too many at one a second");
    assert!(
        refused.headers()["retry-after"]
            .to_str()
            .unwrap()
            .parse::<u64>()
            .unwrap()
            >= 1
    );
    assert_eq!(answer(refused).await.1["code"], "too_many_requests");
}
