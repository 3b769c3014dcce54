//! Paused runs: a user resumes them, once or repeatedly.

use rejoin_tests::app::TestApp;
use rejoin_tests::client::{json_of, of_kind, text};
use rejoin_tests::model_server::{Reply, sent};
use serde_json::{Value, json};

/// Requirements: C17, C43, C51.
#[tokio::test]
async fn a_paused_run_is_resumed_as_a_new_turn_of_itself() {
    let app = TestApp::start().await;
    let agent = app
        .agent_with("walker", &["schema_version", "list_tags"], |content| {
            content.max_steps = Some(1)
        })
        .await;
    app.model.script([
        Reply::tool("schema_version", json!({})),
        Reply::text("Halfway."),
        Reply::tool("list_tags", json!({})),
        Reply::text("There."),
    ]);
    let client = app.client();
    let first = client.ask(Some(agent), "go").await;
    let events = json_of(&first);
    let run = events[1]["runId"].as_str().unwrap().to_owned();
    assert_eq!(events.last().unwrap()["status"], "paused");
    let path = format!("/api/runs/{run}/resume");
    assert_eq!(client.post(&path, json!({"message": ""})).await.0, 400);
    let (status, resumed) = client.post(&path, json!({"message": "just a little more"})).await;
    assert_eq!(status, 202, "{resumed}");
    let stream = format!("/api/runs/{run}/events?after={}", resumed["cursor"]);
    let turn = client.stream(&stream).await.rest().await;
    let events = json_of(&turn);
    assert_eq!(
        of_kind(&events, "message")[0]["message"]["content"],
        "just a little more"
    );
    assert_eq!(of_kind(&events, "meta").len(), 1);
    assert_eq!(of_kind(&events, "done").len(), 1);
    assert_eq!(text(&turn), "There.");
    // One step, then the final answer: fresh limits, continued counters.
    assert_eq!(events.last().unwrap()["status"], "paused");
    let (_, detail) = client.get(&format!("/api/runs/{run}")).await;
    assert_eq!(
        (&detail["totalSteps"], &detail["summary"]),
        (&json!(4), &json!("There."))
    );
    let asked = app.model.requests();
    let (before, after) = (
        asked[1]["messages"].as_array().unwrap(),
        asked[2]["messages"].as_array().unwrap(),
    );
    assert_eq!(after[..before.len()], before[..], "the exact messages");
    assert!(sent(&asked[2]).last().unwrap().1.contains("paused after 2 steps"));
    // The whole run: two turns, each with its end.
    let all = json_of(&client.stream(&format!("/api/runs/{run}/events")).await.rest().await);
    assert_eq!(of_kind(&all, "done").len(), 2);
    // At five hundred steps it can't be resumed any further; and a run that is not paused can't be resumed.
    sqlx::query("update kb.agent_runs set total_steps = 500 where id = $1::uuid")
        .bind(&run)
        .execute(&app.db.pool)
        .await
        .unwrap();
    let (status, problem) = client.post(&path, json!({})).await;
    assert_eq!((status.as_u16(), &problem["code"]), (409, &json!("run_not_paused")));
    assert!(problem["detail"].as_str().unwrap().contains("500 steps"));
}

/// Requirements: C51.
#[tokio::test]
async fn repeated_resumption_keeps_every_message_unchanged() {
    const STEPS: i32 = 40;
    const TURNS: usize = 3;
    let app = TestApp::start().await;
    let agent = app
        .agent_with("walker", &["find_path"], |content| content.max_steps = Some(STEPS))
        .await;
    for turn in 0..TURNS {
        app.model.script((0..STEPS).map(|step| {
            // One argument: jsonb does not preserve the order of names.
            let ends = json!({"from_entity": format!("a{turn}-{step}")});
            Reply::text(format!("Step {step}: {}", "a thought ".repeat(50))).then_tool("find_path", ends)
        }));
        app.model.script([Reply::text("So far so good.")]);
    }
    let client = app.client();
    let first = json_of(&client.ask(Some(agent), "go").await);
    assert_eq!(first.last().unwrap()["status"], "paused");
    let run = first[1]["runId"].as_str().unwrap().to_owned();
    for turn in 1..TURNS {
        let (status, resumed) = client
            .post(
                &format!("/api/runs/{run}/resume"),
                json!({"message": format!("turn {turn}")}),
            )
            .await;
        assert_eq!(status, 202, "{resumed}");
        let stream = format!("/api/runs/{run}/events?after={}", resumed["cursor"]);
        let events = json_of(&client.stream(&stream).await.rest().await);
        assert_eq!(events.last().unwrap()["status"], "paused", "turn {turn}");
    }
    let asked = app.model.requests();
    let a_turn = usize::try_from(STEPS).unwrap() + 1;
    assert_eq!(asked.len(), TURNS * a_turn, "each turn has its steps, and a last word");
    // Each request begins with the previous one verbatim.
    let mut before: &[Value] = &[];
    for request in &asked {
        let messages = request["messages"].as_array().unwrap();
        assert_eq!(messages[..before.len()], *before);
        assert!(messages.len() > before.len());
        before = messages;
    }
    for turn in 1..TURNS {
        let given = sent(&asked[turn * a_turn]).last().unwrap().1.clone();
        let (taken, left) = (turn * a_turn, 500 - turn * a_turn);
        assert!(
            given.contains(&format!("paused after {taken} steps")) && given.contains(&format!("{left} steps left")),
            "{given}"
        );
        assert!(given.ends_with(&format!("turn {turn}")), "{given}");
    }
    let longest = asked.last().unwrap()["messages"].to_string().len();
    assert!(longest > 60_000, "a long conversation: {longest}");
    assert!(app.model.violations().is_empty(), "{:?}", app.model.violations());
}
