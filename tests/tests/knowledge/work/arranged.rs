//! Rearranging the work graph over HTTP: links, the document tree, and many changes at once.

use rejoin_work_graph::documents;
use reqwest::StatusCode;
use serde_json::{Value, json};
use uuid::Uuid;

use rejoin_tests::projects::{get, id, names, project, refused, start};

/// Requirements: E06.
#[tokio::test]
async fn links_stay_within_a_project_and_go_with_their_entities() {
    let (_app, client) = start().await;
    let (one, other) = (project(&client, "One").await, project(&client, "Other").await);
    let link = async |kind: &str, source: &Value, target: &Value| {
        client
            .post(
                "/api/onto/edges/link",
                json!({"rel": kind, "src_id": source, "dst_id": target}),
            )
            .await
    };
    let (status, made) = link("depends_on", &one["first"], &one["second"]).await;
    assert_eq!(status, StatusCode::OK, "{made}");
    let (_, again) = link("depends_on", &one["first"], &one["second"]).await;
    assert_eq!(again, made);
    refused(
        link("depends_on", &one["first"], &other["first"]).await,
        400,
        "different projects",
    )
    .await;
    refused(link("depends_on", &one["first"], &one["first"]).await, 400, "to itself").await;
    refused(
        link("mitigates", &one["first"], &one["goal"]).await,
        400,
        "mitigates goes from",
    )
    .await;
    refused(
        link("parent_of", &one["notes"], &one["context_document"]).await,
        400,
        "move a document",
    )
    .await;
    refused(
        link("depends_on", &one["first"], &json!(Uuid::now_v7())).await,
        404,
        "entity",
    )
    .await;
    let first = id(&one, "first");
    let linked = get(&client, &format!("/api/onto/tasks/{first}/linked")).await;
    assert_eq!(linked["items"].as_array().unwrap().len(), 3);
    let edge = json!({"edge_id": made["id"]});
    assert_eq!(
        client.post("/api/onto/edges/unlink", edge.clone()).await.0,
        StatusCode::NO_CONTENT
    );
    refused(client.post("/api/onto/edges/unlink", edge).await, 404, "relationship").await;
    assert_eq!(
        client.delete(&format!("/api/onto/tasks/{first}")).await.0,
        StatusCode::NO_CONTENT
    );
    let second = get(&client, &format!("/api/onto/tasks/{}/linked", id(&one, "second"))).await;
    assert_eq!(second["items"], json!([]));
}

/// Requirements: E06.
#[tokio::test]
async fn documents_make_a_tree_that_is_moved_and_never_broken() {
    let (_app, client) = start().await;
    let ids = project(&client, "Tree").await;
    let project = id(&ids, "project");
    let create = async |title: &str, parent: Value| {
        let body = json!({"projectId": project, "parentId": parent, "title": title});
        let (status, made) = client.post("/api/onto/documents/create", body).await;
        assert_eq!(status, StatusCode::CREATED, "{made}");
        made["id"].clone()
    };
    let (about, notes) = (ids["context_document"].clone(), ids["notes"].clone());
    let below = create("Below", notes.clone()).await;
    let beside = create("Beside", about.clone()).await;
    let go = async |document: &Value, body: Value| {
        let path = format!("/api/onto/documents/{}/move", document.as_str().unwrap());
        client.post(&path, body).await
    };
    let drawn = async || {
        fn draw(nodes: &Value) -> String {
            let each = nodes.as_array().unwrap().iter();
            let drawn = each.map(|node| match draw(&node["children"]) {
                below if below.is_empty() => node["title"].as_str().unwrap().to_owned(),
                below => format!("{}({below})", node["title"].as_str().unwrap()),
            });
            drawn.collect::<Vec<_>>().join(" ")
        }
        draw(&get(&client, &format!("/api/onto/projects/{project}/documents")).await["documents"])
    };
    assert_eq!(drawn().await, "About(Notes(Below) Beside)");
    assert_eq!(
        go(&beside, json!({"parentId": about, "position": 0})).await.0,
        StatusCode::OK
    );
    assert_eq!(drawn().await, "About(Beside Notes(Below))");
    refused(go(&about, json!({"parentId": below})).await, 400, "its own parent").await;
    refused(go(&notes, json!({"parentId": notes})).await, 400, "its own parent").await;
    refused(go(&notes, json!({"parentId": ids["first"]})).await, 404, "document").await;
    assert_eq!(go(&below, json!({"parentId": null})).await.0, StatusCode::OK);
    assert_eq!(drawn().await, "About(Beside Notes) Below");
    // Two moves that would create a cycle: one of them fails.
    let answers = tokio::join!(
        go(&notes, json!({"parentId": beside})),
        go(&beside, json!({"parentId": notes}))
    );
    let mut statuses = [answers.0.0.as_u16(), answers.1.0.as_u16()];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 400]);
    // Children of a deleted document move up one level.
    assert_eq!(
        go(&notes, json!({"parentId": about, "position": 0})).await.0,
        StatusCode::OK
    );
    assert_eq!(go(&beside, json!({"parentId": about})).await.0, StatusCode::OK);
    client
        .delete(&format!("/api/onto/documents/{}", about.as_str().unwrap()))
        .await;
    assert_eq!(drawn().await, "Below Notes Beside");
}

/// Requirements: E06.
#[tokio::test]
async fn a_project_is_rearranged_and_deleted_whole_or_not_at_all() {
    let (_app, client) = start().await;
    let (ids, other) = (project(&client, "Mine").await, project(&client, "Other").await);
    let project = id(&ids, "project");
    let edges = async || get(&client, &format!("/api/onto/projects/{project}/graph")).await["links"].clone();
    let before = edges().await;
    let depends = before[0]["id"].clone();
    let reorganize = async |more: Value| {
        let mut body = json!({"projectId": project});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        client.post("/api/onto/projects/reorganize", body).await
    };
    let link = json!([{"type": "depends_on", "sourceId": ids["first"], "targetId": ids["second"]}]);
    let bad = json!([{"documentId": ids["context_document"], "parentId": ids["notes"]}]);
    refused(
        reorganize(json!({"unlink": [depends], "link": link, "move": bad})).await,
        400,
        "its own parent",
    )
    .await;
    assert_eq!(edges().await, before);
    let foreign = json!([{"type": "depends_on", "sourceId": other["first"], "targetId": other["second"]}]);
    refused(reorganize(json!({"link": foreign})).await, 404, "entity").await;
    refused(reorganize(json!({})).await, 400, "changes").await;
    let good = json!([{"documentId": ids["notes"], "parentId": null}]);
    let (status, now) = reorganize(json!({"unlink": [depends], "link": link, "move": good})).await;
    assert_eq!(status, StatusCode::OK, "{now}");
    let types: Vec<&str> = now["links"]
        .as_array()
        .unwrap()
        .iter()
        .map(|link| link["type"].as_str().unwrap())
        .collect();
    assert_eq!(types, ["depends_on", "supports_goal"]);
    assert_eq!(now["links"][0]["source"]["name"], "First");
    assert_eq!(
        client.delete(&format!("/api/onto/projects/{project}")).await.0,
        StatusCode::NO_CONTENT
    );
    assert_eq!(names(&get(&client, "/api/onto/projects").await["items"]), ["Other"]);
    assert_eq!(
        get(&client, "/api/onto/tasks").await["items"].as_array().unwrap().len(),
        2
    );
    assert_eq!(
        client.get(&format!("/api/onto/tasks/{}", id(&ids, "first"))).await.0,
        StatusCode::NOT_FOUND
    );
}

/// Requirements: E06.
#[tokio::test]
async fn a_tree_of_documents_has_a_greatest_depth() {
    let (_app, client) = start().await;
    let ids = project(&client, "Deep").await;
    let create = async |parent: &Value| {
        let body = json!({"projectId": ids["project"], "parentId": parent, "title": "Deeper"});
        client.post("/api/onto/documents/create", body).await
    };
    // It is two levels deep.
    let mut lowest = ids["notes"].clone();
    for _ in 2..documents::MAX_DEPTH {
        let (status, made) = create(&lowest).await;
        assert_eq!(status, StatusCode::CREATED, "{made}");
        lowest = made["id"].clone();
    }
    let before = get(&client, "/api/onto/documents?limit=100").await;
    refused(create(&lowest).await, 400, "at most 20 levels").await;
    // Nor together with its subtree.
    let (_, top) = create(&Value::Null).await;
    let path = format!("/api/onto/documents/{}/move", ids["context_document"].as_str().unwrap());
    let below = json!({"parentId": top["id"]});
    refused(client.post(&path, below).await, 400, "at most 20 levels").await;
    let after = get(&client, "/api/onto/documents?limit=100").await;
    assert_eq!(
        after["items"].as_array().unwrap().len(),
        before["items"].as_array().unwrap().len() + 1
    );
}
