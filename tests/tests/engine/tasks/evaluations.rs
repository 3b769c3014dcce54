//! Evaluation sets, and evaluations of agents with them.

use rejoin_identity::workspaces::Role;
use rejoin_tests::app::TestApp;
use rejoin_tests::client::{Client, json_of};
use rejoin_tests::members::member;
use rejoin_tests::model_server::{Reply, sent};
use rejoin_tests::support;
use reqwest::StatusCode;
use serde_json::{Value, json};

fn sets(app: &TestApp) -> String {
    format!("/api/projects/{}/evaluation-sets", app.db.workspace_id)
}

/// Creates a set with these cases: (question, expected). Returns its path.
async fn set(app: &TestApp, name: &str, cases: &[(&str, Option<&str>)]) -> String {
    let (status, made) = app.client().post(&sets(app), json!({"name": name})).await;
    assert_eq!(status, StatusCode::CREATED, "{made}");
    let path = format!("{}/{}", sets(app), made["id"].as_str().unwrap());
    if !cases.is_empty() {
        let cases: Vec<Value> = cases
            .iter()
            .map(|(question, expected)| json!({"question": question, "expected": expected}))
            .collect();
        let (status, added) = app
            .client()
            .post(&format!("{path}/cases"), json!({"cases": cases}))
            .await;
        assert_eq!(status, StatusCode::CREATED, "{added}");
    }
    path
}

/// Starts an evaluation, and returns it once it has ended.
async fn evaluated(client: &Client, set: &str, request: Value) -> Value {
    let (status, begun) = client.post(&format!("{set}/evaluations"), request).await;
    assert_eq!(status, StatusCode::CREATED, "{begun}");
    let path = format!("{set}/evaluations/{}", begun["id"].as_str().unwrap());
    support::wait_for("the evaluation to end", async || {
        let (_, now) = client.get(&path).await;
        (!now["finishedAt"].is_null()).then_some(now)
    })
    .await
}

fn verdict(passed: bool, score: f64, reason: &str) -> Reply {
    Reply::text(json!({"passed": passed, "score": score, "reason": reason}).to_string())
}

/// The states of an evaluation's cases.
fn states(evaluation: &Value) -> Vec<&str> {
    let results = evaluation["results"].as_array().unwrap().iter();
    results.map(|result| result["state"].as_str().unwrap()).collect()
}

fn tally(evaluation: &Value) -> [i64; 4] {
    ["passed", "failed", "errors", "pending"].map(|name| evaluation[name].as_i64().unwrap())
}

#[tokio::test]
async fn an_agent_answers_each_case_and_a_judge_decides() {
    let app = TestApp::start().await;
    let agent = app.agent("helper", &[]).await;
    let client = app.client();
    let set = set(
        &app,
        "basics",
        &[
            ("Who made it?", Some("Ann made it.")),
            ("When was it made?", Some("In 1998.")),
            ("Where was it made?", None),
            ("Why was it made?", None),
        ],
    )
    .await;
    for (question, answer, verdict) in [
        (
            "Who made it?",
            Reply::text("Ann did."),
            verdict(true, 1.0, "Same person."),
        ),
        (
            "When was it made?",
            Reply::text("In 1999."),
            verdict(false, 0.2, "A year late."),
        ),
        (
            "Where was it made?",
            Reply::text("In Bonn."),
            Reply::text("I can't say."),
        ),
    ] {
        app.model.on_request(
            move |request| {
                let asked = request["messages"].to_string();
                asked.contains("You judge answers") && asked.contains(question)
            },
            // An answer that is no verdict is asked for again, and the task is tried again.
            vec![verdict; 6],
        );
        app.model.on(question, [answer]);
    }
    app.model.always("Why was it made?", Reply::status(400));
    let done = evaluated(
        &client,
        &set,
        json!({"agentDefinitionId": agent, "criteria": "Names and years must be right."}),
    )
    .await;
    assert_eq!(states(&done), ["passed", "failed", "error", "error"], "{done}");
    assert_eq!(tally(&done), [1, 1, 2, 0]);
    assert_eq!(
        (&done["agent"], &done["agentVersion"], &done["judge"]),
        (&json!("helper"), &json!(1), &json!("evaluation-judge"))
    );
    let [first, second, third, fourth] = [0, 1, 2, 3].map(|nth| &done["results"][nth]);
    assert_eq!(
        (
            &first["answer"],
            &first["score"],
            &first["reason"],
            &first["agentVersion"]
        ),
        (&json!("Ann did."), &json!(1.0), &json!("Same person."), &json!(1))
    );
    assert_eq!(
        (&second["score"], &second["reason"]),
        (&json!(0.2), &json!("A year late."))
    );
    assert_eq!((&third["answer"], &third["score"]), (&json!("In Bonn."), &Value::Null));
    assert!(fourth["answer"].is_null() && fourth["reason"].is_string(), "{fourth}");

    // The agent gets the question as users ask it; the judge gets all that it needs.
    let requests = app.model.requests();
    let asked: Vec<String> = requests.iter().map(|request| sent(request).pop().unwrap().1).collect();
    assert!(asked.iter().any(|text| text.trim() == "Who made it?"), "{asked:?}");
    let judged = asked
        .iter()
        .find(|text| text.contains("Who made it?") && text.contains("Ann did."))
        .unwrap();
    for part in ["Ann made it.", "Names and years must be right."] {
        assert!(judged.contains(part), "{judged}");
    }

    // Lists have the same numbers.
    let (_, listed) = client.get(&format!("{set}/evaluations")).await;
    assert_eq!(tally(&listed["items"][0]), [1, 1, 2, 0]);
    let (_, listed) = client.get(&sets(&app)).await;
    assert_eq!(
        (&listed["items"][0]["cases"], tally(&listed["items"][0]["latest"])),
        (&json!(4), [1, 1, 2, 0])
    );
}

#[tokio::test]
async fn an_evaluation_keeps_its_cases_and_can_be_cancelled() {
    let app = TestApp::start().await;
    let agent = app.agent("helper", &[]).await;
    app.agent("strict", &[]).await;
    let client = app.client();
    let set = set(&app, "basics", &[("Who made it?", None)]).await;
    app.model.on("Who made it?", [Reply::hang()]);
    let request = json!({"agentDefinitionId": agent, "judge": "strict"});
    let (_, begun) = client.post(&format!("{set}/evaluations"), request).await;
    assert_eq!(begun["judge"], "strict");
    assert_eq!(tally(&begun), [0, 0, 0, 1]);
    let case = begun["results"][0]["caseId"].as_str().unwrap();
    let (status, _) = client
        .patch(
            &format!("{set}/cases/{case}"),
            json!({"question": "Who wrote it?", "expected": "Ann"}),
        )
        .await;
    assert_eq!(status, StatusCode::OK);
    let cancel = format!(
        "/api/projects/{}/task-dags/{}/cancel",
        app.db.workspace_id,
        begun["dagId"].as_str().unwrap()
    );
    assert_eq!(client.post(&cancel, json!({})).await.0, StatusCode::ACCEPTED);
    let path = format!("{set}/evaluations/{}", begun["id"].as_str().unwrap());
    let done = support::wait_for("the evaluation to end", async || {
        let (_, now) = client.get(&path).await;
        (now["pending"] == 0).then_some(now)
    })
    .await;
    assert_eq!((&done["state"], tally(&done)), (&json!("cancelled"), [0, 0, 1, 0]));
    assert_eq!(done["results"][0]["question"], "Who made it?");
    let (_, cases) = client.get(&format!("{set}/cases")).await;
    assert_eq!(
        (&cases["items"][0]["question"], &cases["items"][0]["expected"]),
        (&json!("Who wrote it?"), &json!("Ann"))
    );
}

#[tokio::test]
async fn cases_come_from_runs_and_from_feedback_once() {
    let app = TestApp::start().await;
    let agent = app.agent("helper", &[]).await;
    let client = app.client();
    let mut runs = Vec::new();
    for (question, answer, helped) in [("One?", "1", true), ("Two?", "3", false)] {
        app.model.on(question, [Reply::text(answer)]);
        let events = json_of(&client.ask(Some(agent), question).await);
        let message = events.iter().rfind(|event| event["type"] == "message").unwrap();
        let path = format!("/api/messages/{}/feedback", message["message"]["id"].as_str().unwrap());
        assert!(client.put(&path, json!({"helped": helped})).await.0.is_success());
        runs.push(message["runId"].clone());
    }
    let (_, stranger) = member(&app, Role::Member).await;
    app.model.on("Mine?", [Reply::text("Yes.")]);
    let events = json_of(&stranger.ask(Some(agent), "Mine?").await);
    let other = events.last().unwrap()["runId"].clone();

    let set = set(&app, "from runs", &[]).await;
    let cases = format!("{set}/cases");
    let add = async |body: Value| client.post(&cases, body).await;
    // Another user's run is not to be read.
    let (status, added) = add(json!({"runs": {"ids": [runs[1], other], "expectAnswers": true}})).await;
    assert_eq!(
        (status, &added),
        (StatusCode::CREATED, &json!({"added": 1, "skipped": 1}))
    );
    let (_, added) = add(json!({"feedback": {}})).await;
    assert_eq!(added, json!({"added": 1, "skipped": 1}));
    let (_, added) = add(json!({"feedback": {"helped": true}})).await;
    assert_eq!(added, json!({"added": 0, "skipped": 1}));
    let (_, listed) = client.get(&cases).await;
    let found: Vec<(&Value, &Value, &Value)> = listed["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|case| (&case["question"], &case["expected"], &case["runId"]))
        .collect();
    assert_eq!(
        found,
        [
            (&json!("Two?"), &json!("3"), &runs[1]),
            (&json!("One?"), &json!("1"), &runs[0])
        ]
    );
    let case = listed["items"][0]["id"].as_str().unwrap();
    assert_eq!(
        client.delete(&format!("{cases}/{case}")).await.0,
        StatusCode::NO_CONTENT
    );
    assert_eq!(client.delete(&format!("{cases}/{case}")).await.0, StatusCode::NOT_FOUND);
    let (_, page) = client.get(&format!("{cases}?limit=1")).await;
    assert_eq!(page["items"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn what_can_not_be_evaluated_is_refused() {
    let app = TestApp::start().await;
    let agent = app.agent("helper", &[]).await;
    let client = app.client();
    let set = set(&app, "basics", &[]).await;
    let code = async |path: &str, body: Value| {
        let (status, problem) = client.post(path, body).await;
        (status.as_u16(), problem["code"].as_str().unwrap_or_default().to_owned())
    };
    let refused = |status: u16, code: &str| (status, code.to_owned());
    assert_eq!(
        code(&sets(&app), json!({"name": "basics"})).await,
        refused(409, "name_taken")
    );
    assert_eq!(
        code(&sets(&app), json!({"name": " "})).await,
        refused(400, "invalid_name")
    );
    let cases = format!("{set}/cases");
    for body in [
        json!({}),
        json!({"cases": []}),
        json!({"cases": [{"question": " "}]}),
        json!({"cases": [{"question": "Why?"}], "feedback": {}}),
        json!({"cases": [{"question": "Why?", "expected": "x".repeat(16_001)}]}),
    ] {
        assert_eq!(code(&cases, body).await, refused(400, "invalid_case"));
    }
    let evaluations = format!("{set}/evaluations");
    let request = json!({"agentDefinitionId": agent});
    assert_eq!(code(&evaluations, request.clone()).await, refused(409, "no_cases"));
    let many: Vec<Value> = (0..1_000).map(|nth| json!({"question": format!("{nth}?")})).collect();
    assert_eq!(code(&cases, json!({"cases": many})).await.0, 201);
    assert_eq!(
        code(&cases, json!({"cases": [{"question": "Once more?"}]})).await,
        refused(409, "too_many_cases")
    );
    for request in [
        json!({"agentDefinitionId": uuid::Uuid::nil()}),
        json!({"agentDefinitionId": agent, "judge": "unknown"}),
    ] {
        assert_eq!(
            code(&evaluations, request).await,
            refused(400, "agent_definition_not_found")
        );
    }
    let (_, reader) = member(&app, Role::Viewer).await;
    assert_eq!(reader.get(&set).await.0, StatusCode::OK);
    assert_eq!(reader.post(&evaluations, request).await.0, StatusCode::FORBIDDEN);
    let elsewhere = set.replace(&app.db.workspace_id.to_string(), &uuid::Uuid::nil().to_string());
    assert!(client.get(&elsewhere).await.0.is_client_error());
    assert_eq!(client.delete(&set).await.0, StatusCode::NO_CONTENT);
    assert_eq!(client.get(&set).await.0, StatusCode::NOT_FOUND);
}
