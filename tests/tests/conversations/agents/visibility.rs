//! Agents that external callers may choose (requirements C26 to C28). Visibility between agents is tested in
//! `spawning`.

use rejoin_identity::workspaces::Role;
use rejoin_runs::agents::DefinitionContent;
use rejoin_tests::app::TestApp;
use rejoin_tests::model_server::Reply;
use rejoin_tests::support;
use reqwest::StatusCode;
use serde_json::{Value, json};

use super::run_initiators;

/// Requirements: C26, C28.
#[tokio::test]
async fn outside_callers_do_not_find_an_internal_agent() {
    let app = TestApp::start().await;
    let client = app.client();
    app.model.always("", Reply::text("done"));
    for (visibility, is_open) in [("external", true), ("project", true), ("internal", false)] {
        let change = |content: &mut DefinitionContent| content.visibility = visibility.to_owned();
        let id = app.agent_with(visibility, &["schema_version"], change).await;
        for named in [visibility.to_owned(), id.to_string()] {
            let path = format!("/api/projects/{}/agents/{named}/trigger", app.db.workspace_id);
            let (status, _) = client.post(&path, json!({"input": "go"})).await;
            let wanted = if is_open {
                StatusCode::ACCEPTED
            } else {
                StatusCode::NOT_FOUND
            };
            assert_eq!(status, wanted, "{named}");
        }
        let (status, answer) = client
            .post("/api/conversations", json!({"agentDefinitionId": id}))
            .await;
        assert_eq!(status == StatusCode::CREATED, is_open, "{answer}");
        let request = client
            .request(reqwest::Method::POST, "/api/chat/stream")
            .header("accept", "application/json")
            .json(&json!({"message": "go", "agentDefinitionId": id}));
        let (status, answer) = rejoin_tests::client::answer(request.send().await.unwrap()).await;
        if is_open {
            assert_eq!(status, StatusCode::ACCEPTED, "{answer}");
        } else {
            assert_eq!(
                (status, &answer["code"]),
                (StatusCode::BAD_REQUEST, &json!("agent_definition_not_found"))
            );
        }
    }
    let conversations: i64 = sqlx::query_scalar("select count(*) from kb.chat_conversations")
        .fetch_one(&app.db.pool)
        .await
        .unwrap();
    assert_eq!(conversations, 4, "none for the internal one");
}

/// Requirements: C28.
#[tokio::test]
async fn admin_listings_include_internal_agents_on_request_only() {
    let app = TestApp::start().await;
    let client = app.client();
    for visibility in ["external", "project", "internal"] {
        app.agent_with(visibility, &[], |content| content.visibility = visibility.to_owned())
            .await;
    }
    let listed = async |path: &str, query: &str| -> Vec<String> {
        let (status, page) = client.get(&format!("{path}{query}")).await;
        assert_eq!(status, StatusCode::OK, "{page}");
        let items = page["items"].as_array().unwrap().iter();
        items.map(|item| item["name"].as_str().unwrap().to_owned()).collect()
    };
    let admin = format!("/api/admin/projects/{}/agent-definitions", app.db.workspace_id);
    for (query, expected) in [
        ("", &["external", "project"][..]),
        ("?visibility=all", &["external", "internal", "project"]),
        ("?visibility=internal", &["internal"]),
        ("?visibility=project", &["project"]),
    ] {
        assert_eq!(listed(&admin, query).await, expected, "{query}");
    }
    let (status, problem) = client.get(&format!("{admin}?visibility=odd")).await;
    assert_eq!(
        (status, &problem["code"]),
        (StatusCode::BAD_REQUEST, &json!("invalid_query"))
    );
    let choosers = format!("/api/projects/{}/agents", app.db.workspace_id);
    assert_eq!(listed(&choosers, "").await, ["external", "project"]);
}

/// Requirements: C27.
#[tokio::test]
async fn tasks_reach_an_internal_agent_whose_runs_cannot_be_forked() {
    let app = TestApp::start().await;
    let client = app.client();
    app.agent_with("hidden", &[], |content| content.visibility = "internal".to_owned())
        .await;
    app.model.always("", Reply::text("done"));
    let spec = json!({"name": "one", "tasks": [{"id": "a", "title": "A", "agent": "hidden"}]});
    let path = format!("/api/projects/{}/task-dags", app.db.workspace_id);
    let (_, dag) = client.post(&path, spec).await;
    let dag = support::wait_for("the DAG to end", async || {
        let (_, dag) = client.get(&format!("{path}/{}", dag["id"].as_str().unwrap())).await;
        (dag["state"] == "completed").then_some(dag)
    })
    .await;
    let run = dag["tasks"][0]["runId"].as_str().unwrap();
    let (status, problem) = client
        .post(
            &format!("/api/runs/{run}/fork"),
            json!({"step": 0, "message": "for me"}),
        )
        .await;
    assert_eq!(status, StatusCode::CONFLICT, "{problem}");
    assert!(problem["detail"].as_str().unwrap().contains("internal"), "{problem}");
}

/// Requirements: C26, C28.
#[tokio::test]
async fn members_reach_no_internal_agent_by_task_or_schedule() {
    let app = TestApp::start().await;
    let (_, member) = run_initiators::member(&app, Role::Member).await;
    let owner = app.client();
    for (name, visibility) in [("hidden", "internal"), ("open", "project")] {
        let change = |content: &mut DefinitionContent| content.visibility = visibility.to_owned();
        app.agent_with(name, &[], change).await;
    }
    app.model.always("", Reply::text("done"));
    let dags = format!("/api/projects/{}/task-dags", app.db.workspace_id);
    let schedules = format!("/api/projects/{}/schedules", app.db.workspace_id);
    let task = |more: Value| {
        let mut task = json!({"id": "a", "title": "Hidden work"});
        task.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        task
    };
    let dag = |task: Value, more: Value| {
        let mut dag = json!({"name": "one", "tasks": [task]});
        dag.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        dag
    };
    let named = [
        dag(task(json!({"agent": "hidden"})), json!({})),
        dag(
            task(json!({})),
            json!({"rules": [{"pattern": ".*", "agent": "hidden"}]}),
        ),
        dag(task(json!({})), json!({"selectorAgent": "hidden"})),
        dag(task(json!({"agent": "open"})), json!({"judgeAgent": "hidden"})),
        dag(task(json!({"agent": "open"})), json!({"triageAgent": "hidden"})),
    ];
    for spec in &named {
        let (status, problem) = member.post(&dags, spec.clone()).await;
        assert_eq!(
            (status, &problem["code"]),
            (StatusCode::BAD_REQUEST, &json!("invalid_task_dag")),
            "{spec}"
        );
        // The same as for a missing agent.
        assert_eq!(problem["detail"], "there is no agent hidden", "{spec}");
        let timed = json!({"name": "timed", "cron": "0 3 * * *", "tasks": spec});
        let (status, problem) = member.post(&schedules, timed).await;
        assert_eq!(
            (status, &problem["code"]),
            (StatusCode::BAD_REQUEST, &json!("invalid_schedule")),
            "{spec}"
        );
    }
    let timed = json!({"name": "timed", "cron": "0 3 * * *", "agent": "hidden", "input": "go"});
    let (status, problem) = member.post(&schedules, timed.clone()).await;
    assert_eq!(
        (status, &problem["code"]),
        (StatusCode::BAD_REQUEST, &json!("invalid_schedule")),
        "{problem}"
    );
    // Nor is it selected for a task that names none.
    let (status, made) = member.post(&dags, dag(task(json!({})), json!({}))).await;
    assert_eq!(status, StatusCode::CREATED, "{made}");
    assert_eq!(made["tasks"][0]["agent"], "open", "{made}");
    // Users who may configure agents can use it.
    let (status, schedule) = owner.post(&schedules, timed).await;
    assert_eq!(status, StatusCode::CREATED, "{schedule}");
    for spec in named {
        let (status, made) = owner.post(&dags, spec).await;
        assert_eq!(status, StatusCode::CREATED, "{made}");
    }
    // An agent that became internal since, and a maker who may no longer configure agents: as if it were deleted.
    let path = format!("{schedules}/{}", schedule["id"].as_str().unwrap());
    let (maker, other) = run_initiators::member(&app, Role::Owner).await;
    let (status, taken) = other.patch(&path, json!({"agent": "hidden"})).await;
    assert_eq!(status, StatusCode::OK, "{taken}");
    let mut db = app.db.pool.acquire().await.unwrap();
    rejoin_identity::workspaces::set_role(&mut db, app.db.workspace_id, maker, Role::Member)
        .await
        .unwrap();
    sqlx::query("update kb.schedules set next_at = now()")
        .execute(&app.db.pool)
        .await
        .unwrap();
    let fired = support::wait_for("the schedule to be looked at", async || {
        let seen = owner.get(&path).await.1;
        (!seen["lastError"].is_null()).then_some(seen)
    })
    .await;
    assert!(
        fired["lastError"]
            .as_str()
            .unwrap()
            .contains("there is no agent hidden")
            && fired["lastRunId"].is_null(),
        "{fired}"
    );
}

/// Requirements: C26.
#[tokio::test]
async fn agents_for_programs_outside_are_on_the_projects_card() {
    let app = TestApp::start().await;
    let client = app.client();
    for visibility in ["external", "project", "internal"] {
        let change = |content: &mut DefinitionContent| {
            content.visibility = visibility.to_owned();
            content.description = format!("Is {visibility}.");
        };
        app.agent_with(&format!("an {visibility} one"), &[], change).await;
    }
    let path = "/.well-known/agent-card.json";
    let (status, card) = client.get(path).await;
    assert_eq!(status, StatusCode::OK, "{card}");
    let skills = card["skills"].as_array().unwrap();
    assert_eq!(skills.len(), 1, "{skills:?}");
    assert_eq!(
        (&skills[0]["name"], &skills[0]["description"]),
        (&json!("an external one"), &json!("Is external."))
    );
    // The required fields of a card in version 1.0 of the protocol.
    for field in [
        "name",
        "description",
        "version",
        "capabilities",
        "defaultInputModes",
        "defaultOutputModes",
    ] {
        assert!(!card[field].is_null(), "{field}");
    }
    let url = |card: &serde_json::Value| card["supportedInterfaces"][0]["url"].as_str().unwrap().to_owned();
    assert_eq!(url(&card), format!("{}/mcp", app.url()));
    let (_, one) = client.get(&format!("{path}?agent=an+external+one")).await;
    assert_eq!(one["name"], "an external one");
    assert_eq!(url(&one), format!("{}/mcp?agent=an+external+one", app.url()));
    for hidden in ["an+internal+one", "nobody"] {
        let (status, _) = client.get(&format!("{path}?agent={hidden}")).await;
        assert_eq!(status, StatusCode::NOT_FOUND);
    }
    let stranger = rejoin_tests::client::Client::new(app.url(), "rj_nobody");
    assert_eq!(stranger.get(path).await.0, StatusCode::UNAUTHORIZED);
}
