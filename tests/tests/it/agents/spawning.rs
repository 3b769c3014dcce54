//! Agents that start others: on the queue, concurrently, in one log; a parent resumes once, despite crashes.

use rejoin_runs::agents::DefinitionContent;
use rejoin_tests::app::{AppOptions, Process, TestApp};
use rejoin_tests::client::{json_of, kinds, of_kind, text};
use rejoin_tests::model_server::{Reply, last_user_message, sent};
use rejoin_tests::support;
use serde_json::{Value, json};
use uuid::Uuid;

/// Returns a call that starts these (agent, task).
pub fn spawn(agents: &[(&str, &str)]) -> Reply {
    let agents: Vec<Value> = agents
        .iter()
        .map(|(agent, task)| json!({"agent_name": agent, "task": task}))
        .collect();
    Reply::tool("spawn_agents", json!({ "agents": agents }))
}

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

/// Requirements: C05, C60.
#[tokio::test]
async fn a_tree_of_twenty_sub_agents_finishes_on_one_slot() {
    let app = TestApp::with(AppOptions {
        slots: 1,
        ..AppOptions::default()
    })
    .await;
    let boss = app.agent("boss", &["spawn_agents"]).await;
    app.agent("middle", &["spawn_agents"]).await;
    app.agent("leaf", &[]).await;
    app.model.on(
        "go",
        [
            spawn(&[
                ("middle", "part 0"),
                ("middle", "part 1"),
                ("middle", "part 2"),
                ("middle", "part 3"),
            ]),
            Reply::text("Joined."),
        ],
    );
    for part in 0..4 {
        let leaves = ["leaf"; 4].map(|leaf| (leaf, "little"));
        app.model.on(
            &format!("part {part}"),
            [spawn(&leaves), Reply::text(format!("Part {part}."))],
        );
    }
    app.model.always("little", Reply::text("Done."));
    let frames = app.client().ask(Some(boss), "go").await;
    let events = json_of(&frames);
    assert_eq!(events.last().unwrap()["status"], "completed");
    let runs = runs(&app).await;
    assert_eq!(runs.len(), 1 + 4 + 16);
    assert!(runs.iter().all(|(_, state, _)| state == "completed"), "{runs:?}");
    assert_eq!(of_kind(&events, "done").len(), 1);
    let left: i64 = sqlx::query_scalar("select count(*) from queue.jobs")
        .fetch_one(&app.db.pool)
        .await
        .unwrap();
    assert_eq!(left, 0);
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
async fn cancelling_a_parent_cancels_its_tree() {
    let app = TestApp::start().await;
    let boss = app.agent("boss", &["spawn_agents"]).await;
    app.agent("middle", &["spawn_agents"]).await;
    app.agent("leaf", &[]).await;
    app.model
        .on("go", [spawn(&[("middle", "part"), ("leaf", "hang here")])]);
    app.model.on("part", [spawn(&[("leaf", "hang there")])]);
    app.model.on("hang", [Reply::hang_after(1), Reply::hang_after(1)]);
    let client = app.client();
    let posted = client
        .post_message(json!({"message": "go", "agentDefinitionId": boss}))
        .await;
    let run = posted["runId"].as_str().unwrap().to_owned();
    support::wait_for("both leaves to speak", async || {
        let speaking: i64 = sqlx::query_scalar(
            "select count(distinct data::jsonb ->> 'runId') from stream.each_event where type = 'token'",
        )
        .fetch_one(&app.db.pool)
        .await
        .unwrap();
        (speaking == 2).then_some(())
    })
    .await;
    client.post(&format!("/api/runs/{run}/cancel"), json!({})).await;
    let frames = client.stream(&format!("/api/runs/{run}/events")).await.rest().await;
    let events = json_of(&frames);
    assert_eq!(events.last().unwrap()["type"], "done");
    assert_eq!(events.last().unwrap()["status"], "cancelled");
    let runs = runs(&app).await;
    assert!(
        runs.len() == 4 && runs.iter().all(|(_, state, _)| state == "cancelled"),
        "{runs:?}"
    );
    let calls = of_kind(&events, "mcp_tool");
    let (begun, ended): (Vec<&Value>, Vec<&Value>) = calls.into_iter().partition(|event| event["status"] == "started");
    assert_eq!(begun.len(), ended.len(), "whatever readers saw begin also ended");
    app.wait_until_idle().await;
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

/// Invariant I12.
#[tokio::test]
async fn every_parent_joins_once_while_workers_die() {
    let app = TestApp::with(AppOptions {
        workers: 0,
        ..AppOptions::default()
    })
    .await;
    let boss = app.agent("boss", &["spawn_agents"]).await;
    app.agent("middle", &["spawn_agents"]).await;
    app.agent("leaf", &[]).await;
    // By the request alone: a dying worker uses up no reply.
    app.model.answer_by(|request| {
        let asked = last_user_message(request);
        let has_joined = request["messages"]
            .as_array()?
            .iter()
            .any(|message| message["role"] == "tool");
        Some(match (asked.as_str(), has_joined) {
            ("little", _) => Reply::text("one two three four five").words_every(100),
            ("go", false) => spawn(&[("middle", "part a"), ("middle", "part b"), ("leaf", "little")]),
            (_, false) => spawn(&[("leaf", "little"), ("leaf", "little")]),
            (_, true) => Reply::text("Joined."),
        })
    });
    let client = app.client();
    let posted = client
        .post_message(json!({"message": "go", "agentDefinitionId": boss}))
        .await;
    let run = posted["runId"].as_str().unwrap();
    let mut worker = Process::worker(&app);
    for _ in 0..4 {
        let before: i64 = events(&app).await;
        support::wait_for("some progress", async || {
            (events(&app).await > before + 4).then_some(())
        })
        .await;
        worker.kill();
        worker = Process::worker(&app);
    }
    let frames = client.stream(&format!("/api/runs/{run}/events")).await.rest().await;
    let told = json_of(&frames);
    assert_eq!(told.last().unwrap()["status"], "completed");
    assert_eq!(kinds(&frames).iter().filter(|kind| *kind == "done").count(), 1);
    let runs = runs(&app).await;
    assert_eq!(runs.len(), 1 + 3 + 4);
    assert!(runs.iter().all(|(_, state, _)| state == "completed"), "{runs:?}");
    let joins: Vec<(i64,)> = sqlx::query_as(
        "select count(*) from kb.agent_run_messages where content ->> 'tool' = 'spawn_agents' and role = 'tool_result' group by run_id",
    )
    .fetch_all(&app.db.pool)
    .await
    .unwrap();
    assert_eq!(joins, [(1,), (1,), (1,)], "each parent read its results once");
    worker.kill();
}

async fn events(app: &TestApp) -> i64 {
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
