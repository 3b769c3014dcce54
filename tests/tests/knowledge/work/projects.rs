//! The work graph over HTTP: projects created as a whole or not at all, their entities, links and documents, and their
//! versions.

use rejoin_tests::client::answer;
use rejoin_tests::projects::{get, id, names, project, refused, start};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use uuid::Uuid;

/// Requirements: E06, E47, E61.
#[tokio::test]
async fn a_project_is_made_with_all_that_it_begins_with() {
    let (_app, client) = start().await;
    let ids = project(&client, "Ship it").await;
    let graph = get(&client, &format!("/api/onto/projects/{}/graph", id(&ids, "project"))).await;
    assert_eq!(graph["project"]["name"], "Ship it");
    assert_eq!(graph["project"]["stateKey"], "planning");
    assert_eq!(
        names(&graph["entities"]),
        ["About", "Be done", "First", "Second", "Notes"]
    );
    assert!(
        graph["entities"]
            .as_array()
            .unwrap()
            .iter()
            .all(|entity| entity["projectId"] == ids["project"])
    );
    let links: Vec<(&str, &str, &str)> = graph["links"]
        .as_array()
        .unwrap()
        .iter()
        .map(|link| {
            let name = |end: &str| link[end]["name"].as_str().unwrap();
            (link["type"].as_str().unwrap(), name("source"), name("target"))
        })
        .collect();
    assert_eq!(
        links,
        [
            ("depends_on", "Second", "First"),
            ("parent_of", "About", "Notes"),
            ("supports_goal", "First", "Be done")
        ]
    );
    let overview = get(&client, "/api/onto/overview").await;
    assert_eq!(names(&overview["due"]), ["Second", "First"]);
    assert_eq!(names(&overview["openTasks"]), ["First", "Second"]);
    assert_eq!(overview["openTaskCount"], 2);
    // The pack was installed with it.
    let (_, again) = client.post("/api/onto/install", json!({})).await;
    assert_eq!(again, Value::Null);
}

/// Requirements: E06, E47.
#[tokio::test]
async fn what_can_not_be_made_leaves_nothing_of_the_whole() {
    let (_app, client) = start().await;
    let task = json!({"tempId": "a", "kind": "task", "title": "A"});
    let goal = json!({"tempId": "g", "kind": "goal", "name": "G"});
    for (entities, relationships, words) in [
        (
            json!([task]),
            json!([{"type": "depends_on", "source": "a", "target": "nobody"}]),
            "nobody",
        ),
        (
            json!([task, goal]),
            json!([{"type": "supports_goal", "source": "g", "target": "a"}]),
            "not from goal to task",
        ),
        (
            json!([task, goal]),
            json!([{"type": "has_task", "source": "project", "target": "a"}]),
            "belongs to the project",
        ),
        (
            json!([task]),
            json!([{"type": "loves", "source": "a", "target": "a"}]),
            "the link types are supports_goal",
        ),
        (json!([task, task]), json!([]), "unique temp_id"),
        (
            json!([{"tempId": "a", "kind": "dragon", "title": "A"}]),
            json!([]),
            "dragon",
        ),
        (
            json!([{"tempId": "a", "kind": "project", "title": "A"}]),
            json!([]),
            "cannot belong",
        ),
        (json!([{"tempId": "a", "kind": "task"}]), json!([]), "needs a title"),
        (
            json!([{"tempId": "a", "kind": "task", "title": "A", "priority": 9}]),
            json!([]),
            "from 1 to 5",
        ),
    ] {
        let body = json!({"project": {"name": "Broken"}, "entities": entities, "relationships": relationships});
        refused(client.post("/api/onto/projects/instantiate", body).await, 400, words).await;
    }
    for kind in ["projects", "tasks", "goals"] {
        assert_eq!(
            get(&client, &format!("/api/onto/{kind}")).await["items"],
            json!([]),
            "{kind}"
        );
    }
}

/// Requirements: E06.
#[tokio::test]
async fn entities_of_each_kind_are_made_listed_changed_and_deleted() {
    let (_app, client) = start().await;
    let ids = project(&client, "Kinds").await;
    let project = id(&ids, "project");
    for kind in [
        "goal",
        "plan",
        "document",
        "milestone",
        "risk",
        "requirement",
        "output",
        "event",
        "task",
    ] {
        let path = format!("/api/onto/{kind}s");
        let create = format!("{path}/create");
        let (status, made) = client
            .post(
                &create,
                json!({"project_id": project, "name": "New", "typeKey": "sort.own", "props": {"a": 1}}),
            )
            .await;
        assert_eq!(status, StatusCode::CREATED, "{kind}: {made}");
        assert_eq!((&made["type"], &made["version"]), (&json!(kind), &json!(1)));
        let one = format!("{path}/{}", made["id"].as_str().unwrap());
        let mut want = made.clone();
        assert_eq!(get(&client, &one).await, want);
        let (status, changed) = client.patch(&one, json!({"title": "Newer", "description": "so"})).await;
        assert_eq!(status, StatusCode::OK, "{kind}: {changed}");
        want = changed.clone();
        assert_eq!((&want["name"], &want["version"]), (&json!("Newer"), &json!(2)));
        assert_eq!(want["properties"]["props"], json!({"a": 1}));
        let page = get(&client, &format!("{path}?projectId={project}&typeKey=sort.own")).await;
        assert_eq!(page["items"], json!([want]));
        let state = made["stateKey"].as_str().unwrap();
        let page = get(&client, &format!("{path}?stateKey={state}&limit=1")).await;
        assert_eq!(page["items"], json!([want]));
        assert_eq!(
            get(&client, &format!("{path}?stateKey=never")).await["items"],
            json!([])
        );
        for (body, words) in [
            (json!({"colour": "red"}), "has no field colour"),
            (json!({"stateKey": "never"}), "state_key must be one of"),
            (json!({"name": null}), "must not be empty"),
            (json!({}), "at least one field"),
            (
                json!({"name": "x", "updateStrategy": "guess"}),
                "replace, append, merge",
            ),
        ] {
            refused(client.patch(&one, body).await, 400, words).await;
        }
        assert_eq!(client.delete(&one).await.0, StatusCode::NO_CONTENT);
        assert_eq!(client.get(&one).await.0, StatusCode::NOT_FOUND);
        assert_eq!(client.delete(&one).await.0, StatusCode::NOT_FOUND);
        refused(
            client.post(&create, json!({"projectId": project})).await,
            400,
            "needs a",
        )
        .await;
        refused(
            client
                .post(&create, json!({"projectId": Uuid::now_v7(), "name": "x"}))
                .await,
            404,
            "project",
        )
        .await;
        // A task's id identifies no goal.
        let other = if kind == "task" { "goals" } else { "tasks" };
        let (_, made) = client
            .post(&create, json!({"projectId": project, "name": "Again"}))
            .await;
        let wrong = format!("/api/onto/{other}/{}", made["id"].as_str().unwrap());
        assert_eq!(client.get(&wrong).await.0, StatusCode::NOT_FOUND);
    }
    assert_eq!(client.get("/api/onto/dragons").await.0, StatusCode::NOT_FOUND);
    refused(client.get("/api/onto/tasks?stateKey=%00").await, 400, "NUL").await;
    let page = get(&client, "/api/onto/tasks?limit=2").await;
    let rest = get(
        &client,
        &format!(
            "/api/onto/tasks?limit=2&cursor={}",
            page["nextCursor"].as_str().unwrap()
        ),
    )
    .await;
    assert_eq!(
        (names(&page["items"]), names(&rest["items"])),
        (vec!["Again", "Second"], vec!["First"])
    );
}

/// Requirements: E06.
#[tokio::test]
async fn changes_made_for_an_older_version_are_refused() {
    let (_app, client) = start().await;
    let ids = project(&client, "Versions").await;
    let path = format!("/api/onto/tasks/{}", id(&ids, "first"));
    let save = async |version: &str, title: &str| {
        let request = client.request(Method::PATCH, &path).header("if-match", version);
        answer(request.json(&json!({"title": title})).send().await.unwrap()).await
    };
    let answers = tokio::join!(save("\"1\"", "One"), save("\"1\"", "Two"));
    let mut statuses = [answers.0.0.as_u16(), answers.1.0.as_u16()];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 409]);
    let (status, told) = save("\"1\"", "Three").await;
    assert_eq!((status.as_u16(), &told["code"]), (409, &json!("version_conflict")));
    let delete = client.request(Method::DELETE, &path).header("if-match", "\"1\"");
    assert_eq!(answer(delete.send().await.unwrap()).await.0, StatusCode::CONFLICT);
    assert_eq!(get(&client, &path).await["version"], 2);
}

/// Requirements: E07.
#[tokio::test]
async fn each_version_says_from_where_it_came() {
    let (_app, client) = start().await;
    let ids = project(&client, "Sources").await;
    let path = format!("/api/onto/documents/{}", id(&ids, "notes"));
    let patch = async |source: &str, body: Value| {
        let request = client.request(Method::PATCH, &path).header("x-change-source", source);
        answer(request.json(&body).send().await.unwrap()).await
    };
    let body = json!({"content": "more", "updateStrategy": "append", "mergeInstructions": "what came up"});
    assert_eq!(patch("chat", body).await.0, StatusCode::OK);
    assert_eq!(patch("ui", json!({"description": "x"})).await.0, StatusCode::OK);
    refused(patch("two words", json!({"description": "y"})).await, 400, "one word").await;
    refused(
        patch(&"x".repeat(100), json!({"description": "y"})).await,
        400,
        "one word",
    )
    .await;
    let delete = client.request(Method::DELETE, &path).header("x-change-source", "ui");
    assert_eq!(answer(delete.send().await.unwrap()).await.0, StatusCode::NO_CONTENT);
    let history = get(&client, &format!("{path}/history")).await;
    let told: Vec<(&Value, &Value, &Value)> = history["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|version| {
            (
                &version["changeSource"],
                &version["changeSummary"],
                &version["properties"]["content"],
            )
        })
        .collect();
    let appended = json!("secretnotes\n\nmore");
    assert_eq!(
        told,
        [
            (&json!("ui"), &json!("deleted"), &appended),
            (&json!("ui"), &Value::Null, &appended),
            (&json!("chat"), &json!("what came up"), &appended),
            (&json!("api"), &Value::Null, &json!("secretnotes")),
        ]
    );
}

/// Requirements: E06.
#[tokio::test]
async fn several_first_projects_at_once_install_the_pack_once() {
    let (app, client) = start().await;
    let made = tokio::join!(project(&client, "A"), project(&client, "B"), project(&client, "C"));
    assert_ne!(made.0["project"], made.1["project"]);
    let packs: i64 = sqlx::query_scalar("select count(*) from kb.template_assignments where project_id = $1")
        .bind(app.db.workspace_id)
        .fetch_one(&app.db.pool)
        .await
        .unwrap();
    assert_eq!(packs, 1);
    let mut all = get(&client, "/api/onto/projects").await["items"].clone();
    all.as_array_mut()
        .unwrap()
        .sort_by_key(|project| project["name"].to_string());
    assert_eq!(names(&all), ["A", "B", "C"]);
}
