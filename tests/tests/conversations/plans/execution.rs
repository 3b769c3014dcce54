//! Plans: created, shown, approved, executed step by step, and cancelled. (Failing steps: `failed_steps`.)

use rejoin_tests::app::TestApp;
use rejoin_tests::client::{json_of, of_kind, text};
use rejoin_tests::model_server::{Reply, sent};
pub use rejoin_tests::plans::{planner, plans, statuses};
use rejoin_tests::replies::{PLAN, plan_of, step};
use rejoin_tests::support;
use serde_json::{Value, json};
use uuid::Uuid;

/// Events without usage figures.
pub fn story(events: &[Value]) -> Vec<(String, Option<i64>)> {
    let silent = ["usage", "token", "meta", "message", "sub_agent", "agent_state"];
    events
        .iter()
        .map(|event| (event["type"].as_str().unwrap().to_owned(), event["stepNumber"].as_i64()))
        .filter(|(kind, _)| !silent.contains(&kind.as_str()))
        .collect()
}

pub fn outcome(events: &[Value]) -> Value {
    let calls = of_kind(events, "mcp_tool");
    let ended = calls
        .iter()
        .rfind(|event| event["tool"] == PLAN && event["status"] != "started");
    ended.unwrap()["result"].clone()
}

/// Returns the open question, and its answer's path.
pub async fn open_question(app: &TestApp) -> Value {
    support::wait_for("a question", async || {
        let (_, page) = app.client().get("/api/questions?status=pending").await;
        page["items"].as_array().and_then(|items| items.first().cloned())
    })
    .await
}

pub async fn answer(app: &TestApp, question: &Value, answer: Value) {
    let id = question["id"].as_str().unwrap();
    let (status, said) = app.client().post(&format!("/api/questions/{id}/answer"), answer).await;
    assert_eq!(status, 200, "{said}");
}

/// Requirements: E24, E25, E26, E41, E43, E44, E65.
#[tokio::test]
async fn a_plan_is_carried_out_step_by_step_in_the_same_stream() {
    let app = TestApp::start().await;
    let planner = planner(&app, &["schema_version", "list_tags"], json!({})).await;
    app.model.on("Plan it", [
        plan_of("auto_execute", json!([
            {"step_number": 1, "type": "research", "description": "Look at tags", "tools": ["list_*"], "executor_required": true},
            step(2, "Think aloud", &[]),
            step(3, "Join both", &[1, 2]),
        ])),
        Reply::text("All done."),
    ]);
    app.model.on(
        "# Look at tags",
        [Reply::tool("list_tags", json!({})), Reply::text("no tags")],
    );
    app.model.on("# Think aloud", [Reply::text("thought")]);
    app.model.on("# Join both", [Reply::text("joined")]);
    let frames = app.client().ask(Some(planner), "Plan it").await;
    let events = json_of(&frames);
    assert_eq!(events.last().unwrap()["status"], "completed");
    assert_eq!(of_kind(&events, "done").len(), 1, "a plan has no end of its own");
    assert_eq!(text(&frames).matches("All done.").count(), 1);
    let story = story(&events);
    let count = |kind: &str| story.iter().filter(|(is, _)| is == kind).count();
    assert_eq!(story[0], ("mcp_tool".to_owned(), None));
    assert_eq!(story[1].0, "plan_created");
    assert_eq!((count("step_start"), count("step_complete")), (3, 3));
    assert_eq!((count("executor_spawned"), count("executor_result")), (3, 3));
    let at = |kind: &str, step: i64| {
        story
            .iter()
            .position(|one| *one == (kind.to_owned(), Some(step)))
            .unwrap()
    };
    assert!(
        at("step_complete", 1) < at("step_start", 3) && at("step_complete", 2) < at("step_start", 3),
        "{story:?}"
    );
    for number in 1..=3 {
        assert!(at("step_start", number) < at("executor_spawned", number));
        assert!(at("executor_result", number) < at("step_complete", number));
    }
    let states: Vec<&str> = of_kind(&events, "agent_state")
        .iter()
        .map(|event| event["state"].as_str().unwrap())
        .collect();
    assert!(states.contains(&"executing_plan"), "{states:?}");

    // Calls are attributed to the planner or a step.
    for event in of_kind(&events, "mcp_tool") {
        match event["tool"].as_str().unwrap() {
            PLAN => assert_eq!(
                (&event["source"], &event["stepNumber"]),
                (&json!("planner"), &Value::Null)
            ),
            _ => assert_eq!(
                (&event["source"], &event["stepNumber"]),
                (&json!("plan_step"), &json!(1))
            ),
        }
    }
    let plan = &of_kind(&events, "plan_created")[0]["plan"];
    assert_eq!(
        (&plan["objective"], &plan["executionMode"], &plan["version"]),
        (&json!("launch"), &json!("auto_execute"), &json!(1))
    );
    let done = outcome(&events);
    assert_eq!(done["status"], "completed");
    assert_eq!(done["steps"][2]["result"], "joined");

    // A step has its own tools, and gets its predecessors' results.
    let asked = app.model.requests();
    let of = |words: &str| {
        asked
            .iter()
            .find(|request| sent(request).last().unwrap().1.contains(words))
            .unwrap()
    };
    let offered: Vec<&str> = of("# Look at tags")["tools"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|tool| tool["function"]["name"].as_str().unwrap())
        .collect();
    assert_eq!(offered, ["list_tags"], "the executor has all tools, its step one");
    let join = &sent(of("# Join both")).last().unwrap().1.clone();
    assert!(join.contains("no tags") && join.contains("thought"), "{join}");

    // Recorded: the plan, and the steps' runs with their own messages and calls, separate from the planner's.
    let plans = plans(&app).await;
    assert_eq!((plans.len(), &plans[0]["status"]), (1, &json!("completed")));
    assert_eq!(statuses(&plans[0]), ["completed"; 3]);
    let of_step: (String, i64) = sqlx::query_as(
        "select r.part ->> 'source', (select count(*) from kb.agent_run_tool_calls c where c.run_id = r.id)
         from kb.agent_runs r where r.part ->> 'stepNumber' = '1'",
    )
    .fetch_one(&app.db.pool)
    .await
    .unwrap();
    assert_eq!(of_step, ("plan_step".to_owned(), 1));
    assert!(app.model.violations().is_empty(), "{:?}", app.model.violations());
}

/// Requirements: E43.
#[tokio::test]
async fn a_cancelled_run_takes_its_plan_with_it() {
    let app = TestApp::start().await;
    let planner = planner(&app, &[], json!({})).await;
    app.model.on(
        "Plan it",
        [plan_of(
            "auto_execute",
            json!([step(1, "Slow", &[]), step(2, "Never", &[1])]),
        )],
    );
    app.model.on("# Slow", [Reply::hang_after(2)]);
    let client = app.client();
    let posted = client
        .post_message(json!({"message": "Plan it", "agentDefinitionId": planner}))
        .await;
    let run = posted["runId"].as_str().unwrap();
    let mut reader = client.stream(&format!("/api/runs/{run}/events")).await;
    let mut frames = reader.until("token").await;
    client.post(&format!("/api/runs/{run}/cancel"), json!({})).await;
    frames.extend(reader.rest().await);
    let events = json_of(&frames);
    assert_eq!(events.last().unwrap()["status"], "cancelled");
    app.wait_until_idle().await;
    let plan = plans(&app).await.remove(0);
    assert_eq!(plan["status"], "failed");
    assert!(statuses(&plan).iter().all(|status| *status != "completed"), "{plan}");
    assert!(
        of_kind(&events, "step_start")
            .iter()
            .all(|event| event["stepNumber"] == 1)
    );

    // An unapproved draft ends with its run.
    app.model
        .on("Draft it", [plan_of("draft_only", json!([step(1, "Slow", &[])]))]);
    let posted = client
        .post_message(json!({"message": "Draft it", "agentDefinitionId": planner}))
        .await;
    open_question(&app).await;
    client
        .post(
            &format!("/api/runs/{}/cancel", posted["runId"].as_str().unwrap()),
            json!({}),
        )
        .await;
    app.wait_until_idle().await;
    assert!(plans(&app).await.iter().all(|plan| plan["status"] == "failed"));
}

/// Requirements: E41, E43.
#[tokio::test]
async fn bad_plans_are_errors_for_the_model_and_calls_are_counted() {
    let app = TestApp::start().await;
    let planner = planner(&app, &["find_path"], json!({})).await;
    app.model.on(
        "Plan it",
        [
            plan_of("auto_execute", json!([step(1, "A", &[2]), step(2, "B", &[])])),
            plan_of(
                "auto_execute",
                json!([{"stepNumber": 1, "description": "x", "tools": ["delete_entity"]}]),
            ),
            Reply::tool(PLAN, json!({"objective": "x", "revises": Uuid::nil()})),
            Reply::text("I can't."),
        ],
    );
    let events = json_of(&app.client().ask(Some(planner), "Plan it").await);
    let errors: Vec<&str> = of_kind(&events, "mcp_tool")
        .iter()
        .filter_map(|event| event["error"].as_str())
        .collect();
    assert!(errors[0].contains("only on earlier ones"), "{errors:?}");
    assert!(
        errors[1].contains("no tool delete_entity that you may use"),
        "{errors:?}"
    );
    assert!(errors[2].contains("there is no ended plan"), "{errors:?}");
    assert!(plans(&app).await.is_empty());

    // The limit of a turn is 40 tool calls.
    app.model.answer_by({
        let calls = std::sync::atomic::AtomicUsize::new(0);
        move |request| {
            let n = calls.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let tools = request["tools"].as_array().is_some_and(|tools| !tools.is_empty());
            let call = Reply::tool(
                "find_path",
                json!({"from_entity_id": format!("a{n}"), "to_entity_id": "b"}),
            );
            Some(if tools { call } else { Reply::text("Stopped.") })
        }
    });
    let events = json_of(&app.client().ask(Some(planner), "walk for ever").await);
    assert_eq!(of_kind(&events, "limit")[0]["limit"], "tool_call_limit");
    let calls = of_kind(&events, "mcp_tool")
        .iter()
        .filter(|event| event["status"] == "started")
        .count();
    assert_eq!(calls, 40);
    assert_eq!(events.last().unwrap()["status"], "paused");
}
