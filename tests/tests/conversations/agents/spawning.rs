//! Agents that start others: on the queue, concurrently, in one log. (Large and failing trees: `run_trees`.)

use rejoin_runs::agents::DefinitionContent;
use rejoin_tests::app::TestApp;
use rejoin_tests::client::{json_of, of_kind, text};
use rejoin_tests::model_server::{Reply, sent};
use rejoin_tests::replies::spawn;
use rejoin_tests::support;
use serde_json::{Value, json};
use uuid::Uuid;

/// Returns the results of `spawn_agents`.
pub fn results(events: &[Value]) -> Vec<Value> {
    let ends = of_kind(events, "mcp_tool");
    let end = ends
        .iter()
        .find(|event| event["tool"] == "spawn_agents" && event["status"] != "started")
        .expect("the call ended");
    end["result"]["results"]
        .as_array()
        .unwrap_or_else(|| panic!("{end}"))
        .clone()
}

/// Returns (agent, state, depth) of all runs, by depth and name.
pub async fn runs(app: &TestApp) -> Vec<(String, String, i32)> {
    sqlx::query_as(
        "select coalesce(agent_name, ''), state, depth from kb.agent_runs order by depth, agent_name, created_at",
    )
    .fetch_all(&app.db.pool)
    .await
    .unwrap()
}

/// Requirements: C02, C05.
#[tokio::test]
async fn an_agent_finds_others_starts_them_and_reads_what_they_found() {
    let app = TestApp::start().await;
    let boss = app.agent("boss", &["spawn_agents", "list_available_agents"]).await;
    app.agent("finder", &[]).await;
    app.agent("writer", &[]).await;
    app.model.on(
        "the question",
        [
            Reply::tool("list_available_agents", json!({})),
            spawn(&[("finder", "find it"), ("nobody", "x"), ("writer", "write it")]),
            Reply::text("All done."),
        ],
    );
    app.model.on("find it", [Reply::text("It is here.")]);
    app.model.on("write it", [Reply::text("It is written.")]);
    let frames = app.client().ask(Some(boss), "the question").await;
    let events = json_of(&frames);
    let listed = &of_kind(&events, "mcp_tool")[1]["result"];
    assert_eq!(listed["total"], 3);
    let found = results(&events);
    let short: Vec<_> = found
        .iter()
        .map(|item| (item["agent_name"].as_str().unwrap(), item["status"].as_str().unwrap()))
        .collect();
    assert_eq!(
        short,
        [("finder", "completed"), ("nobody", "failed"), ("writer", "completed")]
    );
    assert_eq!(found[0]["summary"], "It is here.");
    assert_eq!(found[0]["steps"], 1);
    let error = found[1]["error"].as_str().unwrap();
    assert!(
        error.contains("there is no agent nobody") && error.contains("finder"),
        "{error}"
    );
    assert!(found[1]["run_id"].is_null());
    // One log: the children's events are marked, and the turn ends once.
    let child = found[0]["run_id"].clone();
    let of_child: Vec<&Value> = events.iter().filter(|event| event["runId"] == child).collect();
    assert!(
        of_child
            .iter()
            .all(|event| event["source"] == "sub_agent" && event["agent"] == "finder")
    );
    let parent = &events[1]["runId"];
    assert!(of_child.iter().all(|event| event["parentRunId"] == *parent));
    let of_child: Vec<&str> = of_child.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(of_child.first(), Some(&"sub_agent"));
    assert_eq!(of_child.last(), Some(&"sub_agent"));
    assert!(
        of_child.contains(&"meta") && of_child.contains(&"token"),
        "{of_child:?}"
    );
    assert_eq!(of_kind(&events, "done").len(), 1);
    let waits: Vec<&Value> = of_kind(&events, "agent_state")
        .iter()
        .map(|event| &event["state"])
        .collect();
    assert_eq!(waits, ["waiting_on_agents", "thinking"]);
    assert_eq!(of_kind(&events, "reset").len(), 0, "a wait is no crash");
    let own: String = of_kind(&events, "token")
        .iter()
        .filter(|event| event["runId"] == *parent)
        .map(|event| event["token"].as_str().unwrap())
        .collect();
    assert_eq!(own, "All done.");
    assert!(app.model.violations().is_empty(), "{:?}", app.model.violations());
    // A sub-agent sees its task only.
    let asked = app.model.requests();
    let of_finder = asked
        .iter()
        .find(|request| sent(request).last().unwrap().1 == "find it")
        .unwrap();
    assert_eq!(sent(of_finder).len(), 2, "system and task");
    // The conversation has two messages; those of sub-agents are not included.
    let stored: i64 = sqlx::query_scalar("select count(*) from kb.chat_messages")
        .fetch_one(&app.db.pool)
        .await
        .unwrap();
    assert_eq!(stored, 2);
}

/// Requirements: C23, C24.
#[tokio::test]
async fn sub_agents_need_coordination_by_name_and_depth_two_has_none() {
    let app = TestApp::start().await;
    let boss = app.agent("boss", &["*"]).await;
    app.agent("globber", &["*"]).await;
    app.agent("namer", &["spawn_agents"]).await;
    app.agent("deep", &["spawn_agents", "schema_version"]).await;
    app.model.on(
        "go",
        [
            spawn(&[("globber", "as glob"), ("namer", "as name")]),
            Reply::text("ok"),
        ],
    );
    app.model
        .on("as glob", [spawn(&[("deep", "never")]), Reply::text("could not")]);
    app.model
        .on("as name", [spawn(&[("deep", "deepest")]), Reply::text("could")]);
    app.model
        .on("deepest", [spawn(&[("deep", "never")]), Reply::text("could not")]);
    let frames = app.client().ask(Some(boss), "go").await;
    assert_eq!(json_of(&frames).last().unwrap()["status"], "completed");
    let tools_of = |task: &str| -> Vec<String> {
        let asked = app.model.requests();
        let request = asked
            .iter()
            .find(|request| sent(request).last().unwrap().1 == task)
            .unwrap();
        let tools = request["tools"].as_array().cloned().unwrap_or_default();
        tools
            .iter()
            .map(|tool| tool["function"]["name"].as_str().unwrap().to_owned())
            .collect()
    };
    assert!(tools_of("go").contains(&"spawn_agents".to_owned()));
    let of_glob = tools_of("as glob");
    assert!(
        !of_glob
            .iter()
            .any(|tool| tool == "spawn_agents" || tool == "list_available_agents")
    );
    assert!(of_glob.contains(&"schema_version".to_owned()), "all else is granted");
    assert_eq!(tools_of("as name"), ["spawn_agents"]);
    assert_eq!(tools_of("deepest"), ["schema_version"], "two is the deepest");
    assert_eq!(runs(&app).await.len(), 4, "nobody started `never`");
}

/// Requirements: C27, C28.
#[tokio::test]
async fn agents_see_each_other_whatever_their_visibility() {
    let app = TestApp::start().await;
    let boss = app.agent("boss", &["list_available_agents", "spawn_agents"]).await;
    for visibility in ["internal", "external"] {
        let change = |content: &mut DefinitionContent| content.visibility = visibility.to_owned();
        app.agent_with(visibility, &[], change).await;
    }
    app.model.on(
        "go",
        [
            Reply::tool("list_available_agents", json!({})),
            spawn(&[("internal", "inside"), ("external", "outside")]),
            Reply::text("ok"),
        ],
    );
    let events = json_of(&app.client().ask(Some(boss), "go").await);
    assert_eq!(of_kind(&events, "mcp_tool")[1]["result"]["total"], 3);
    assert!(results(&events).iter().all(|item| item["status"] == "completed"));
}

/// Requirements: C17, C51.
#[tokio::test]
async fn a_paused_sub_agent_resumes_with_its_exact_messages() {
    let app = TestApp::start().await;
    let boss = app.agent("boss", &["spawn_agents"]).await;
    app.agent_with("digger", &["schema_version"], |content| content.max_steps = Some(1))
        .await;
    app.model.on("dig here", [Reply::tool("schema_version", json!({}))]);
    app.model.on("Summarize", [Reply::text("Halfway.")]);
    app.model.on("go on digging", [Reply::text("Found.")]);
    app.model.on(
        "go first",
        [spawn(&[("digger", "dig here")]), Reply::text("It paused.")],
    );
    let client = app.client();
    let first = json_of(&client.ask(Some(boss), "go first").await);
    let run = results(&first)[0]["run_id"].clone();
    assert_eq!(results(&first)[0]["status"], "paused");
    let arguments = json!({"agents": [
        {"agent_name": "digger", "task": "go on digging", "resume_run_id": run},
        {"agent_name": "boss", "task": "go on digging", "resume_run_id": run},
        {"agent_name": "digger", "task": "x", "resume_run_id": Uuid::now_v7()},
    ]});
    app.model.on(
        "go second",
        [Reply::tool("spawn_agents", arguments), Reply::text("Thanks.")],
    );
    let second = client
        .chat(json!({"message": "go second", "conversationId": first[1]["conversationId"]}))
        .await;
    let found = results(&json_of(&second));
    assert_eq!(
        (&found[0]["status"], &found[0]["summary"]),
        (&json!("completed"), &json!("Found."))
    );
    assert_eq!(found[0]["steps"], 3, "over all its turns");
    assert_eq!(found[0]["run_id"], run, "the same run");
    assert!(
        found[1]["error"]
            .as_str()
            .unwrap()
            .contains("belongs to the agent digger")
    );
    assert!(found[2]["error"].as_str().unwrap().contains("no sub-agent run"));
    let asked = app.model.requests();
    let of_dig: Vec<_> = asked
        .iter()
        .filter(|request| request["messages"].to_string().contains("Halfway"))
        .collect();
    let resumed = of_dig
        .iter()
        .find(|request| sent(request).last().unwrap().1.contains("go on digging"))
        .unwrap();
    let before = asked
        .iter()
        .find(|request| sent(request).last().unwrap().1.contains("Summarize"))
        .unwrap();
    let (before, resumed) = (
        before["messages"].as_array().unwrap(),
        resumed["messages"].as_array().unwrap(),
    );
    assert_eq!(resumed[..before.len()], before[..], "word for word");
    let last = resumed.last().unwrap()["content"].as_str().unwrap();
    assert!(
        last.contains("paused after 2 steps") && last.contains("498 steps left"),
        "{last}"
    );
}

#[tokio::test]
async fn a_conversation_stays_a_parents_own_while_it_waits() {
    let app = TestApp::start().await;
    let boss = app.agent("boss", &["spawn_agents"]).await;
    app.agent("slow", &[]).await;
    let gate = std::sync::Arc::new(tokio::sync::Notify::new());
    let reply = Reply::text("Slowly done.").gate(gate.clone());
    app.model
        .on("go", [spawn(&[("slow", "slowly")]), Reply::text("First.")]);
    app.model.on("slowly", [reply]);
    app.model.on("and then", [Reply::text("Second.")]);
    let client = app.client();
    let first = client
        .post_message(json!({"message": "go", "agentDefinitionId": boss}))
        .await;
    support::wait_for("the parent to wait", async || {
        runs(&app)
            .await
            .iter()
            .any(|(_, state, _)| state == "waiting")
            .then_some(())
    })
    .await;
    let conversation = first["conversationId"].clone();
    let second = client
        .post_message(json!({"message": "and then", "conversationId": conversation}))
        .await;
    let state = client
        .get(&format!("/api/runs/{}", second["runId"].as_str().unwrap()))
        .await
        .1;
    assert_eq!(state["state"], "queued");
    gate.notify_one();
    let path = format!("/api/runs/{}/events", second["runId"].as_str().unwrap());
    let frames = client.stream(&path).await.rest().await;
    assert_eq!(text(&frames), "Second.");
    let order: Vec<(String,)> =
        sqlx::query_as("select content from kb.chat_messages where role = 'assistant' order by seq")
            .fetch_all(&app.db.pool)
            .await
            .unwrap();
    assert_eq!(order, [("First.".to_owned(),), ("Second.".to_owned(),)]);
}

pub(super) async fn events(app: &TestApp) -> i64 {
    sqlx::query_scalar("select coalesce(sum(last_seq), 0)::bigint from stream.log_ends")
        .fetch_one(&app.db.pool)
        .await
        .unwrap()
}

#[tokio::test]
async fn a_sub_agents_readers_see_it_and_end_with_it() {
    let app = TestApp::start().await;
    let boss = app.agent("boss", &["spawn_agents"]).await;
    app.agent("finder", &[]).await;
    app.model
        .on("go", [spawn(&[("finder", "find it")]), Reply::text("Thanks.")]);
    app.model.on("find it", [Reply::text("It is here.")]);
    let client = app.client();
    let events = json_of(&client.ask(Some(boss), "go").await);
    let child = results(&events)[0]["run_id"].as_str().unwrap().to_owned();
    let frames = client.stream(&format!("/api/runs/{child}/events")).await.rest().await;
    assert_eq!(text(&frames), "It is here.");
    let last = frames.iter().rev().find(|frame| frame.id.is_some()).unwrap();
    assert_eq!(
        (last.kind().as_str(), &last.json()["status"]),
        ("sub_agent", &json!("completed"))
    );
    let after = format!("/api/runs/{child}/events?after={}", last.id.unwrap());
    assert_eq!(client.stream_status(&after).await, 204);
    // The tree, from the root.
    let root = events[1]["runId"].as_str().unwrap();
    let (_, detail) = client.get(&format!("/api/runs/{root}")).await;
    assert_eq!(detail["children"], json!([child]));
    let (_, detail) = client.get(&format!("/api/runs/{child}")).await;
    assert_eq!((&detail["parentRunId"], &detail["depth"]), (&json!(root), &json!(1)));
}
