//! Reviews of plans: by a user, who edits, approves or rejects them; by a reviewer; by rules.

use rejoin_tests::app::TestApp;
use rejoin_tests::client::{json_of, of_kind};
use rejoin_tests::model_server::Reply;
use rejoin_tests::replies::{PLAN, plan_of, step};
use serde_json::{Value, json};

use super::execution::{answer, open_question, outcome, planner, plans};

/// Requirements: E24, E42.
#[tokio::test]
async fn a_draft_waits_for_the_user_who_edits_approves_or_refuses_it() {
    let app = TestApp::start().await;
    let planner = planner(&app, &[], json!({})).await;
    let draft = || plan_of("draft_only", json!([step(1, "First", &[]), step(2, "Second", &[1])]));
    app.model.on("Plan it", [draft(), Reply::text("Carried out.")]);
    app.model.always("# Other", Reply::text("other done"));
    let client = app.client();
    let posted = client
        .post_message(json!({"message": "Plan it", "agentDefinitionId": planner}))
        .await;
    let question = open_question(&app).await;
    assert!(
        question["question"].as_str().unwrap().contains("1. First"),
        "{question}"
    );
    let plan = plans(&app).await.remove(0);
    assert_eq!(plan["status"], "pending_review");
    let path = format!(
        "/api/projects/{}/plans/{}",
        app.db.workspace_id,
        plan["id"].as_str().unwrap()
    );
    let edit = |version: i32, steps: Value| json!({"version": version, "steps": steps});
    let (status, problem) = client.patch(&path, edit(1, json!([step(1, "Loop", &[1])]))).await;
    assert_eq!((status.as_u16(), &problem["code"]), (400, &json!("invalid_plan")));
    let (status, edited) = client.patch(&path, edit(1, json!([step(1, "Other", &[])]))).await;
    assert_eq!((status.as_u16(), &edited["version"]), (200, &json!(2)), "{edited}");
    let (status, problem) = client.patch(&path, edit(1, json!([step(1, "Late", &[])]))).await;
    assert_eq!((status.as_u16(), &problem["code"]), (409, &json!("plan_conflict")));
    answer(&app, &question, json!({"answer": "approve"})).await;
    let run = posted["runId"].as_str().unwrap();
    let events = json_of(&client.stream(&format!("/api/runs/{run}/events")).await.rest().await);
    assert_eq!(of_kind(&events, "plan_ready_for_review").len(), 1);
    let review = of_kind(&events, "plan_review")[0];
    assert_eq!(
        (&review["verdict"], &review["reviewer"], &review["plan"]["version"]),
        (&json!("approved"), &json!("user"), &json!(2))
    );
    assert_eq!(outcome(&events)["steps"][0]["result"], "other done");
    let (_, plan) = client.get(&path).await;
    let by: Vec<&str> = plan["versions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["changed_by"].as_str().or(one["changedBy"].as_str()).unwrap())
        .collect();
    assert_eq!((by, &plan["status"]), (vec!["user", "agent"], &json!("completed")));

    // Rejected: nothing is executed, and the planner is informed.
    app.model.on("Plan more", [draft(), Reply::text("As you wish.")]);
    let posted = client
        .post_message(json!({"message": "Plan more", "agentDefinitionId": planner}))
        .await;
    let question = open_question(&app).await;
    answer(&app, &question, json!({"answer": "refuse"})).await;
    let run = posted["runId"].as_str().unwrap();
    let events = json_of(&client.stream(&format!("/api/runs/{run}/events")).await.rest().await);
    assert_eq!(of_kind(&events, "plan_review")[0]["verdict"], "rejected");
    assert!(of_kind(&events, "step_start").is_empty());
    assert_eq!(
        (&outcome(&events)["status"], &outcome(&events)["verdict"]),
        (&json!("failed"), &json!("rejected"))
    );

    // Approved with changed steps, in the answer itself.
    app.model.on("Plan again", [draft(), Reply::text("Changed.")]);
    let posted = client
        .post_message(json!({"message": "Plan again", "agentDefinitionId": planner}))
        .await;
    let question = open_question(&app).await;
    answer(
        &app,
        &question,
        json!({"answer": "edit", "input": {"steps": [step(7, "Other", &[])]}}),
    )
    .await;
    let run = posted["runId"].as_str().unwrap();
    let events = json_of(&client.stream(&format!("/api/runs/{run}/events")).await.rest().await);
    assert_eq!(outcome(&events)["steps"][0]["step_number"], 7);
    assert_eq!(outcome(&events)["status"], "completed");
}

/// Requirements: E24, E42.
#[tokio::test]
async fn a_reviewer_or_rules_let_a_plan_pass_or_send_it_back() {
    let app = TestApp::start().await;
    let reviewed = planner(&app, &[], json!({"planning": {"reviewer": "critic"}})).await;
    app.agent("critic", &[]).await;
    let draft = || plan_of("agent_review", json!([step(1, "Only", &[])]));
    app.model
        .on("Plan it", [draft(), draft(), Reply::text("Done at last.")]);
    app.model.on(
        "Review this plan",
        [
            Reply::text("{\"verdict\": \"changes_requested\", \"notes\": \"name the day\"}"),
            Reply::text("{\"verdict\": \"approved\"}"),
        ],
    );
    app.model.on("# Only", [Reply::text("only done")]);
    let events = json_of(&app.client().ask(Some(reviewed), "Plan it").await);
    let reviews: Vec<(&Value, &Value, &Value)> = of_kind(&events, "plan_review")
        .iter()
        .map(|review| (&review["verdict"], &review["reviewer"], &review["notes"]))
        .collect();
    assert_eq!(
        reviews,
        [
            (&json!("changes_requested"), &json!("critic"), &json!("name the day")),
            (&json!("approved"), &json!("critic"), &Value::Null)
        ]
    );
    assert_eq!(of_kind(&events, "step_start").len(), 1);
    assert_eq!(outcome(&events)["status"], "completed");

    let ruled = app.agent_with("ruled", &[PLAN], |_| {}).await;
    let many: Vec<Value> = (1..=21).map(|number| step(number, "Small", &[])).collect();
    app.model.on(
        "By rules",
        [
            plan_of("agent_review", json!(many)),
            plan_of("agent_review", json!([step(1, "Only", &[])])),
            Reply::text("Ruled."),
        ],
    );
    app.model.on("# Only", [Reply::text("only done")]);
    let events = json_of(&app.client().ask(Some(ruled), "By rules").await);
    let verdicts: Vec<&Value> = of_kind(&events, "plan_review")
        .iter()
        .map(|review| &review["verdict"])
        .collect();
    assert_eq!(verdicts, ["changes_requested", "approved"]);
}
