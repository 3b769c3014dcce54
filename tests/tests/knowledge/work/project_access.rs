//! Who may see and change projects over HTTP.

use rejoin_identity::{auth, workspaces};
use rejoin_tests::client::Client;
use rejoin_types::access::Scope;
use reqwest::StatusCode;
use serde_json::json;

use rejoin_tests::projects::{get, id, names, project, start};

/// Requirements: E06.
#[tokio::test]
async fn what_others_have_is_not_there() {
    let (app, client) = start().await;
    let ids = project(&client, "Private").await;
    let mut connection = app.db.pool.acquire().await.unwrap();
    let elsewhere = workspaces::create(&mut connection, "elsewhere").await.unwrap();
    let user = workspaces::ensure_user(&mut connection, "stranger@example.org")
        .await
        .unwrap();
    workspaces::add_member(&mut connection, elsewhere, user, workspaces::Role::Owner)
        .await
        .unwrap();
    let (_, key) = auth::create_key(&mut connection, user, Some(elsewhere), "test", &Scope::ALL, None)
        .await
        .unwrap();
    let stranger = Client::new(app.url(), &key);
    let own = project(&stranger, "Own").await;
    let (of_theirs, task) = (id(&ids, "project"), id(&ids, "first"));
    for path in [
        format!("projects/{of_theirs}"),
        format!("projects/{of_theirs}/graph"),
        format!("projects/{of_theirs}/documents"),
        format!("tasks/{task}"),
        format!("tasks/{task}/history"),
        format!("tasks/{task}/linked"),
    ] {
        assert_eq!(
            stranger.get(&format!("/api/onto/{path}")).await.0,
            StatusCode::NOT_FOUND,
            "{path}"
        );
    }
    let path = format!("/api/onto/tasks/{task}");
    assert_eq!(
        stranger.patch(&path, json!({"title": "x"})).await.0,
        StatusCode::NOT_FOUND
    );
    assert_eq!(stranger.delete(&path).await.0, StatusCode::NOT_FOUND);
    let edge = get(&client, &format!("/api/onto/projects/{of_theirs}/graph")).await["links"][0]["id"].clone();
    let document = format!("/api/onto/documents/{}/move", id(&ids, "notes"));
    for (path, body) in [
        ("/api/onto/edges/unlink", json!({"edgeId": edge})),
        (
            "/api/onto/edges/link",
            json!({"type": "depends_on", "sourceId": own["first"], "targetId": task}),
        ),
        ("/api/onto/tasks/create", json!({"projectId": of_theirs, "title": "x"})),
        (
            "/api/onto/projects/reorganize",
            json!({"projectId": of_theirs, "unlink": [edge]}),
        ),
        (&document, json!({"parentId": null})),
    ] {
        assert_eq!(stranger.post(path, body).await.0, StatusCode::NOT_FOUND, "{path}");
    }
    assert_eq!(
        names(&get(&stranger, "/api/onto/tasks").await["items"]),
        ["Second", "First"]
    );
    let page = get(&stranger, &format!("/api/onto/tasks?projectId={of_theirs}")).await;
    assert_eq!(page["items"], json!([]));
}

/// Requirements: E06.
#[tokio::test]
async fn a_key_that_only_reads_changes_no_work() {
    let (app, client) = start().await;
    let ids = project(&client, "Read me").await;
    let mut connection = app.db.pool.acquire().await.unwrap();
    let (_, key) = auth::create_key(
        &mut connection,
        app.db.user_id,
        Some(app.db.workspace_id),
        "reads",
        &[Scope::Read],
        None,
    )
    .await
    .unwrap();
    let reader = Client::new(app.url(), &key);
    let path = format!("/api/onto/tasks/{}", id(&ids, "first"));
    let before = get(&reader, &path).await;
    assert_eq!(
        reader.patch(&path, json!({"title": "x"})).await.0,
        StatusCode::FORBIDDEN
    );
    assert_eq!(reader.delete(&path).await.0, StatusCode::FORBIDDEN);
    assert_eq!(
        reader.post("/api/onto/install", json!({})).await.0,
        StatusCode::FORBIDDEN
    );
    assert_eq!(get(&reader, &path).await, before);
}
