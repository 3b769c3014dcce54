//! Users in a run: questions, confirmations of calls, and steering messages. A run that waits for a user holds no
//! worker, however long it takes.

use rejoin_runs::agents::DefinitionContent;
use rejoin_tests::app::{AppOptions, TestApp};
use rejoin_tests::client::{Client, json_of, of_kind, text};
use rejoin_tests::model_server::{Reply, sent};
use rejoin_tests::replies::spawn;
use rejoin_tests::support;
use serde_json::{Value, json};

use super::spawning::results;

/// A call that asks.
fn ask(question: &str, options: &[&str]) -> Reply {
    let options: Vec<Value> = options
        .iter()
        .map(|value| json!({"label": value.to_uppercase(), "value": value}))
        .collect();
    Reply::tool("ask_user", json!({"question": question, "options": options}))
}

/// Returns the open questions, once there are this many.
async fn open_questions(client: &Client, count: usize) -> Vec<Value> {
    support::wait_for("questions", async || {
        let (_, page) = client.get("/api/questions?status=pending").await;
        let items = page["items"].as_array().unwrap().clone();
        (items.len() == count).then_some(items)
    })
    .await
}

async fn answer(client: &Client, question: &Value, body: Value) -> (u16, Value) {
    let path = format!("/api/questions/{}/answer", question["id"].as_str().unwrap());
    let (status, body) = client.post(&path, body).await;
    (status.as_u16(), body)
}

async fn wait_for_state(client: &Client, run: &Value, state: &str) {
    let path = format!("/api/runs/{}", run.as_str().unwrap());
    support::wait_for(state, async || {
        (client.get(&path).await.1["state"] == state).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_run_asks_a_person_and_resumes_after_any_restart() {
    let mut app = TestApp::start().await;
    let agent = app.agent("asker", &["ask_user"]).await;
    app.model.on(
        "paint it",
        [ask("Which colour?", &["red", "blue"]), Reply::text("Blue it is.")],
    );
    let client = app.client();
    let posted = client
        .post_message(json!({"message": "paint it", "agentDefinitionId": agent}))
        .await;
    let question = open_questions(&client, 1).await.remove(0);
    assert_eq!(
        (&question["question"], &question["interactionType"]),
        (&json!("Which colour?"), &json!("buttons"))
    );
    wait_for_state(&client, &posted["runId"], "waiting").await;
    let held: i64 = sqlx::query_scalar("select count(*) from queue.jobs where state = 'running'")
        .fetch_one(&app.db.pool)
        .await
        .unwrap();
    assert_eq!(held, 0, "no worker holds it");
    // A late reader's snapshot contains the question.
    let path = format!(
        "/api/conversations/{}/events?from=snapshot",
        posted["conversationId"].as_str().unwrap()
    );
    let snapshot = client.stream(&path).await.next_event().await.unwrap().json();
    assert_eq!(snapshot["turn"]["questions"][0]["questionId"], question["id"]);
    app.crash_workers();
    app.restart_api().await;
    let client = app.client();
    for unfit in [
        json!({"answer": "green"}),
        json!({"answer": 1}),
        json!({"answer": "red", "input": {}, "x": 1}),
    ] {
        assert_eq!(answer(&client, &question, unfit).await.0, 400);
    }
    let (status, body) = answer(&client, &question, json!({"answer": "blue"})).await;
    assert_eq!(
        (status, &body["status"], &body["answer"]),
        (200, &json!("answered"), &json!("blue"))
    );
    let (status, body) = answer(&client, &question, json!({"answer": "red"})).await;
    assert_eq!((status, &body["code"]), (409, &json!("question_closed")));
    app.add_worker();
    let path = format!("/api/runs/{}/events", posted["runId"].as_str().unwrap());
    let frames = client.stream(&path).await.rest().await;
    let events = json_of(&frames);
    assert_eq!(text(&frames), "Blue it is.");
    assert_eq!(of_kind(&events, "question")[0]["questionId"], question["id"]);
    assert_eq!(of_kind(&events, "question_answered")[0]["answer"], "blue");
    assert_eq!(of_kind(&events, "agent_state")[0]["state"], "waiting_on_user");
    assert_eq!(of_kind(&events, "done").len(), 1);
    let given = sent(&app.model.requests()[1]).last().unwrap().1.clone();
    assert_eq!(given, json!({"answer": "blue"}).to_string());
}

#[tokio::test]
async fn nested_and_parallel_questions_are_answered_in_any_order() {
    let app = TestApp::start().await;
    let boss = app.agent("boss", &["spawn_agents", "ask_user"]).await;
    app.agent("asker", &["ask_user"]).await;
    let both = spawn(&[("asker", "part one"), ("asker", "part two")])
        .then_tool("ask_user", json!({"question": "Top?", "options": []}));
    app.model.on("go", [both, Reply::text("Joined.")]);
    app.model.on("part one", [ask("One?", &["1"]), Reply::text("First.")]);
    let two = Reply::tools([
        ("ask_user", json!({"question": "Two a?", "options": []})),
        ("ask_user", json!({"question": "Two b?", "options": []})),
    ]);
    app.model.on("part two", [two, Reply::text("Second.")]);
    let client = app.client();
    let posted = client
        .post_message(json!({"message": "go", "agentDefinitionId": boss}))
        .await;
    let open = open_questions(&client, 4).await;
    let by = |text: &str| open.iter().find(|question| question["question"] == text).unwrap();
    for (question, reply) in [("Two b?", "b"), ("Top?", "t"), ("One?", "1"), ("Two a?", "a")] {
        assert_eq!(
            answer(&client, by(question), json!({"answer": reply})).await.0,
            200,
            "{question}"
        );
    }
    let path = format!("/api/runs/{}/events", posted["runId"].as_str().unwrap());
    let events = json_of(&client.stream(&path).await.rest().await);
    assert_eq!(events.last().unwrap()["status"], "completed");
    let found = results(&events);
    assert_eq!(
        (&found[0]["summary"], &found[1]["summary"]),
        (&json!("First."), &json!("Second."))
    );
    let root: (i32, f64) = sqlx::query_as("select questions_open, person_s from kb.agent_runs where depth = 0")
        .fetch_one(&app.db.pool)
        .await
        .unwrap();
    assert!(root.0 == 0 && root.1 > 0.0, "the tree's clock stood: {root:?}");
}

#[tokio::test]
async fn a_call_that_is_marked_acts_only_as_a_person_says() {
    let app = TestApp::start().await;
    let agent = app
        .agent_with(
            "writer",
            &["create_entity", "schema_version"],
            |content: &mut DefinitionContent| {
                content.config = json!({"confirm": ["create_*"]});
            },
        )
        .await;
    let create = |key: &str| {
        (
            "create_entity",
            json!({"type": "Note", "key": key, "properties": {"name": key}}),
        )
    };
    app.model.on(
        "go",
        [
            Reply::tools([create("a"), ("schema_version", json!({})), create("b"), create("c")]),
            Reply::text("Done."),
        ],
    );
    let client = app.client();
    let posted = client
        .post_message(json!({"message": "go", "agentDefinitionId": agent}))
        .await;
    let open = open_questions(&client, 3).await;
    assert!(open.iter().all(|question| question["kind"] == "confirm"));
    let by = |key: &str| {
        let wanted = format!("\"key\":\"{key}\"");
        open.iter()
            .find(|question| question["question"].as_str().unwrap().contains(&wanted))
            .unwrap()
    };
    let keys = async || -> Vec<String> {
        sqlx::query_scalar("select key from kb.graph_objects order by key")
            .fetch_all(&app.db.pool)
            .await
            .unwrap()
    };
    assert_eq!(keys().await, Vec::<String>::new(), "nothing acts before it is approved");
    assert_eq!(answer(&client, by("a"), json!({"answer": "approve"})).await.0, 200);
    assert_eq!(
        answer(&client, by("b"), json!({"answer": "edit"})).await.0,
        400,
        "with what?"
    );
    let edited = json!({"answer": "edit", "input": {"type": "Note", "key": "edited", "properties": {}}});
    assert_eq!(answer(&client, by("b"), edited).await.0, 200);
    assert_eq!(answer(&client, by("c"), json!({"answer": "refuse"})).await.0, 200);
    let path = format!("/api/runs/{}/events", posted["runId"].as_str().unwrap());
    let events = json_of(&client.stream(&path).await.rest().await);
    assert_eq!(events.last().unwrap()["status"], "completed");
    assert_eq!(keys().await, ["a", "edited"]);
    let refused = of_kind(&events, "mcp_tool")
        .into_iter()
        .find(|event| event["status"] == "error")
        .unwrap();
    assert!(refused["error"].as_str().unwrap().contains("rejected"), "{refused}");
    assert!(app.model.violations().is_empty(), "{:?}", app.model.violations());
}

#[tokio::test]
async fn questions_expire_or_are_cancelled_with_their_run() {
    let app = TestApp::with(AppOptions {
        worker: |config| config.question_expires_h = 0.0001,
        ..AppOptions::default()
    })
    .await;
    let agent = app.agent("asker", &["ask_user"]).await;
    app.model.on("go", [ask("Anybody?", &[]), Reply::text("Nobody.")]);
    let frames = app.client().ask(Some(agent), "go").await;
    let events = json_of(&frames);
    assert_eq!(text(&frames), "Nobody.");
    assert_eq!(of_kind(&events, "question_answered")[0]["status"], "expired");

    let app = TestApp::start().await;
    let agent = app.agent("asker", &["ask_user"]).await;
    app.model.on("go", [ask("Still there?", &[])]);
    let client = app.client();
    let posted = client
        .post_message(json!({"message": "go", "agentDefinitionId": agent}))
        .await;
    let question = open_questions(&client, 1).await.remove(0);
    let run = posted["runId"].as_str().unwrap();
    client.post(&format!("/api/runs/{run}/cancel"), json!({})).await;
    let events = json_of(&client.stream(&format!("/api/runs/{run}/events")).await.rest().await);
    assert_eq!(events.last().unwrap()["status"], "cancelled");
    let (status, body) = answer(&client, &question, json!({"answer": "yes"})).await;
    assert_eq!((status, &body["code"]), (409, &json!("question_closed")));
    assert!(body["detail"].as_str().unwrap().contains("cancelled"));
}

/// Requirements: C50.
#[tokio::test]
async fn a_message_reaches_a_run_at_its_next_step_and_is_stored() {
    let app = TestApp::start().await;
    let agent = app.agent("worker", &["schema_version"]).await;
    let gate = std::sync::Arc::new(tokio::sync::Notify::new());
    app.model
        .on("go", [Reply::tool("schema_version", json!({})).gate(gate.clone())]);
    app.model.on("rather blue", [Reply::text("Blue then.")]);
    app.model.on("and bigger", [Reply::text("Bigger, too.")]);
    let client = app.client();
    let posted = client
        .post_message(json!({"message": "go", "agentDefinitionId": agent}))
        .await;
    let run = posted["runId"].as_str().unwrap();
    app.model
        .wait_for(std::time::Duration::from_secs(10), |counts| counts.requests == 1)
        .await
        .unwrap();
    let path = format!("/api/runs/{run}/messages");
    let (status, told) = client.post(&path, json!({"message": "rather blue"})).await;
    assert_eq!(status, 202);
    assert_eq!(client.post(&path, json!({"message": " "})).await.0, 400);
    gate.notify_one();
    let frames = client.stream(&format!("/api/runs/{run}/events")).await.rest().await;
    let events = json_of(&frames);
    assert_eq!(text(&frames), "Blue then.");
    let messages = of_kind(&events, "message");
    let ids: Vec<&Value> = messages.iter().map(|event| &event["message"]["id"]).collect();
    assert!(ids.contains(&&told["messageId"]));
    let (status, problem) = client.post(&path, json!({"message": "and bigger"})).await;
    assert_eq!((status.as_u16(), &problem["code"]), (409, &json!("run_ended")));
    let asked = sent(&app.model.requests()[1]);
    assert_eq!(asked.last().unwrap(), &("user".to_owned(), "rather blue".to_owned()));
    let transactions: i64 = sqlx::query_scalar(
        "select count(distinct xmin::text) from kb.agent_run_messages where run_id = $1::uuid and step_number = 2",
    )
    .bind(run)
    .fetch_one(&app.db.pool)
    .await
    .unwrap();
    assert_eq!(transactions, 1, "all messages of a step are inserted together");
}

#[tokio::test]
async fn a_message_during_the_answer_is_heard_before_the_end() {
    let app = TestApp::start().await;
    let agent = app.agent("talker", &[]).await;
    let gate = std::sync::Arc::new(tokio::sync::Notify::new());
    app.model.on("go", [Reply::text("My answer.").gate(gate.clone())]);
    app.model.on("wait, more", [Reply::text("And more.")]);
    let client = app.client();
    let posted = client
        .post_message(json!({"message": "go", "agentDefinitionId": agent}))
        .await;
    let run = posted["runId"].as_str().unwrap();
    app.model
        .wait_for(std::time::Duration::from_secs(10), |counts| counts.requests == 1)
        .await
        .unwrap();
    let (status, _) = client
        .post(&format!("/api/runs/{run}/messages"), json!({"message": "wait, more"}))
        .await;
    assert_eq!(status, 202);
    gate.notify_one();
    let frames = client.stream(&format!("/api/runs/{run}/events")).await.rest().await;
    assert_eq!(text(&frames), "My answer.\n\nAnd more.");
    assert_eq!(of_kind(&json_of(&frames), "done").len(), 1);
}

#[tokio::test]
async fn what_belongs_to_somebody_else_is_not_there() {
    let app = TestApp::start().await;
    let agent = app.agent("asker", &["ask_user"]).await;
    app.model.on("go", [ask("Mine?", &[])]);
    let posted = app
        .client()
        .post_message(json!({"message": "go", "agentDefinitionId": agent}))
        .await;
    let question = open_questions(&app.client(), 1).await.remove(0);
    let (_, key) = app.db.another_user().await;
    let other = Client::new(app.url(), &key);
    assert_eq!(other.get("/api/questions").await.1["items"], json!([]));
    assert_eq!(answer(&other, &question, json!({"answer": "x"})).await.0, 404);
    let run = posted["runId"].as_str().unwrap();
    for path in ["resume", "messages"] {
        let (status, _) = other
            .post(&format!("/api/runs/{run}/{path}"), json!({"message": "x"}))
            .await;
        assert_eq!(status, 404, "{path}");
    }
    assert_eq!(open_questions(&app.client(), 1).await.len(), 1);
}
