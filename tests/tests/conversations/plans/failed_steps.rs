//! Steps of plans that fail, or whose worker dies.

use rejoin_tests::app::TestApp;
use rejoin_tests::client::{apply_resets, json_of, of_kind};
use rejoin_tests::model_server::{Reply, sent};
use rejoin_tests::replies::{PLAN, plan_of, step};
use serde_json::{Value, json};

use super::execution::{outcome, planner, statuses};

/// Requirements: E43.
#[tokio::test]
async fn a_failed_step_is_retried_and_the_rest_is_planned_again() {
    let app = TestApp::start().await;
    let planner = planner(&app, &[], json!({})).await;
    app.model.on(
        "Plan it",
        [plan_of(
            "auto_execute",
            json!([step(1, "Good", &[]), step(2, "Bad", &[]), step(3, "Needs bad", &[2]),]),
        )],
    );
    app.model.on("# Good", [Reply::text("good done")]);
    app.model.on("# Bad", [Reply::status(400), Reply::status(400)]);
    app.model.answer_by({
        // The planner is informed, and makes another plan that keeps completed steps.
        let fired = std::sync::atomic::AtomicUsize::new(0);
        move |request: &Value| {
            let last = sent(request).pop()?.1;
            let plan: Value = serde_json::from_str(&last).ok()?;
            match (
                plan["status"].as_str()?,
                fired.fetch_add(1, std::sync::atomic::Ordering::Relaxed),
            ) {
                ("failed", 0) => Some(Reply::tool(
                    PLAN,
                    json!({
                        "objective": "launch, again", "revises": plan["plan_id"],
                        "plan": {"steps": [step(1, "Good", &[]), step(2, "Better", &[1])]},
                    }),
                )),
                _ => Some(Reply::text("Well in the end.")),
            }
        }
    });
    app.model.on("# Better", [Reply::text("better done")]);
    let events = json_of(&app.client().ask(Some(planner), "Plan it").await);
    assert_eq!(events.last().unwrap()["status"], "completed", "{:?}", events.last());
    let results: Vec<Value> = of_kind(&events, "mcp_tool")
        .iter()
        .filter(|event| event["tool"] == PLAN && event["status"] == "completed")
        .map(|event| event["result"].clone())
        .collect();
    assert_eq!(
        (&results[0]["status"], statuses(&results[0])),
        (&json!("failed"), vec!["completed", "failed", "skipped"])
    );
    assert_eq!(
        (&results[1]["status"], statuses(&results[1])),
        (&json!("completed"), vec!["completed", "completed"])
    );
    let bad: Vec<&Value> = of_kind(&events, "step_start")
        .iter()
        .filter(|event| event["stepNumber"] == 2)
        .map(|event| &event["step"]["attempt"])
        .collect();
    assert_eq!(
        bad,
        [&json!(1), &json!(2), &json!(1)],
        "two tries, and one of the better step"
    );
    let good = of_kind(&events, "step_start")
        .iter()
        .filter(|event| event["stepNumber"] == 1)
        .count();
    assert_eq!(good, 1, "what is done is not done again");
    let told: String = sqlx::query_scalar("select input from kb.agent_runs where input like '# Better%'")
        .fetch_one(&app.db.pool)
        .await
        .unwrap();
    assert!(told.contains("good done"), "{told}");
}

/// Requirements: E43.
#[tokio::test]
async fn a_worker_that_dies_in_a_step_costs_no_step_and_repeats_none() {
    let mut app = TestApp::start().await;
    let planner = planner(&app, &[], json!({})).await;
    app.model.on(
        "Plan it",
        [
            plan_of("auto_execute", json!([step(1, "Quick", &[]), step(2, "Slow", &[1])])),
            Reply::text("Both done."),
        ],
    );
    app.model.on("# Quick", [Reply::text("quick done")]);
    app.model.on("# Slow", [Reply::hang_after(2), Reply::text("slow done")]);
    let posted = app
        .client()
        .post_message(json!({"message": "Plan it", "agentDefinitionId": planner}))
        .await;
    let mut reader = app
        .client()
        .stream(&format!("/api/runs/{}/events", posted["runId"].as_str().unwrap()))
        .await;
    let mut frames = reader.until("step_complete").await;
    frames.extend(reader.until("token").await);
    app.crash_workers();
    app.add_worker();
    frames.extend(reader.rest().await);
    let kept = json_of(&apply_resets(&frames));
    assert_eq!(kept.last().unwrap()["status"], "completed");
    let steps: Vec<&Value> = of_kind(&kept, "step_start")
        .iter()
        .map(|event| &event["stepNumber"])
        .collect();
    assert_eq!(steps, [&json!(1), &json!(2)]);
    assert_eq!(outcome(&kept)["steps"][1]["result"], "slow done");
    assert_eq!(app.model.left(), 0);
}
