//! Servers that ask the user in the middle of a call: their forms become questions, and the call is made again with the answers.

use rejoin_tests::client::{json_of, of_kind};
use rejoin_tests::mcp::{self, HttpServer, Shop};
use rejoin_tests::model_server::Reply;
use rejoin_tests::support::wait_for;
use reqwest::StatusCode;
use serde_json::{Value, json};
use uuid::Uuid;

/// A shop with a server of the newest revision, and an agent that uses it.
async fn shop() -> (Shop, HttpServer, Uuid) {
    let shop = Shop::open().await;
    let http = HttpServer::modern().await;
    shop.add(json!({"name": "modern", "transport": "http", "url": http.url}))
        .await;
    let agent = shop.app.agent("host", &["modern_*"]).await;
    (shop, http, agent)
}

/// Begins a run that calls a tool, and returns what was posted.
async fn begin(shop: &Shop, agent: Uuid, tool: &str, arguments: Value) -> Value {
    shop.app
        .model
        .on("go", [Reply::tool(tool, arguments), Reply::text("done")]);
    let client = shop.app.client();
    client
        .post_message(json!({"message": "go", "agentDefinitionId": agent}))
        .await
}

fn id(posted: &Value) -> &str {
    posted["runId"].as_str().unwrap()
}

/// Returns the open questions, once there are this many.
async fn open(shop: &Shop, count: usize) -> Vec<Value> {
    let client = shop.app.client();
    wait_for("the questions", async || {
        let (_, page) = client.get("/api/questions?status=pending").await;
        let items = page["items"].as_array().unwrap().clone();
        (items.len() == count).then_some(items)
    })
    .await
}

/// Returns the question for a field.
fn of<'a>(questions: &'a [Value], field: &str) -> &'a Value {
    let found = questions
        .iter()
        .find(|question| question["question"].as_str().unwrap().ends_with(field));
    found.unwrap_or_else(|| panic!("{field} is not among {questions:?}"))
}

async fn answer(shop: &Shop, question: &Value, answer: &str) -> (StatusCode, Value) {
    let path = format!("/api/questions/{}/answer", question["id"].as_str().unwrap());
    shop.app.client().post(&path, json!({ "answer": answer })).await
}

/// Returns the events of a run, once it has ended.
async fn events(shop: &Shop, posted: &Value) -> Vec<Value> {
    let client = shop.app.client();
    let stream = client.stream(&format!("/api/runs/{}/events", id(posted))).await;
    json_of(&stream.rest().await)
}

/// The statuses of the call's events.
fn of_call(events: &[Value]) -> Vec<&str> {
    of_kind(events, "mcp_tool")
        .into_iter()
        .map(|event| event["status"].as_str().unwrap())
        .collect()
}

#[tokio::test]
async fn a_form_is_put_to_the_user_field_by_field() {
    if !mcp::are_there() {
        return;
    }
    let (shop, _http, agent) = shop().await;
    let posted = begin(&shop, agent, "modern_book", json!({"seats": 2})).await;
    let asked = open(&shop, 2).await;
    let (name, confirm) = (of(&asked, "Name"), of(&asked, "Confirm"));
    assert_eq!(
        name["question"],
        "The MCP server modern asks: Who takes 2 seats?\n\nName"
    );
    assert_eq!(
        (&name["interactionType"], &confirm["interactionType"]),
        (&json!("text"), &json!("buttons"))
    );
    assert_eq!(
        answer(&shop, confirm, "perhaps").await.0,
        StatusCode::BAD_REQUEST,
        "what does not fit is refused"
    );
    assert_eq!(answer(&shop, confirm, "true").await.0, StatusCode::OK);
    assert_eq!(answer(&shop, name, "Ada").await.0, StatusCode::OK);
    let events = events(&shop, &posted).await;
    assert_eq!(events.last().unwrap()["status"], "completed");
    assert_eq!(of_call(&events), ["started", "completed"], "the call is shown once");
    let call = shop.calls(id(&posted)).await.remove(0);
    assert_eq!(call.status, "completed", "{call:?}");
    assert!(call.output.to_string().contains("2 seats for Ada: True"), "{call:?}");
}

#[tokio::test]
async fn a_declined_field_declines_its_form() {
    if !mcp::are_there() {
        return;
    }
    let (shop, _http, agent) = shop().await;
    let posted = begin(&shop, agent, "modern_book", json!({"seats": 2})).await;
    let asked = open(&shop, 2).await;
    let (status, declined) = answer(&shop, of(&asked, "Name"), "decline_form").await;
    assert_eq!(status, StatusCode::OK, "{declined}");
    let events = events(&shop, &posted).await;
    let ended: Vec<&Value> = of_kind(&events, "question_answered")
        .into_iter()
        .map(|event| &event["status"])
        .collect();
    assert_eq!(ended, ["answered", "cancelled"]);
    let call = shop.calls(id(&posted)).await.remove(0);
    assert!(call.output.to_string().contains("not booked: decline"), "{call:?}");
}

#[tokio::test]
async fn messages_fill_in_the_fields_one_after_the_other() {
    if !mcp::are_there() {
        return;
    }
    let (shop, _http, agent) = shop().await;
    let posted = begin(&shop, agent, "modern_book", json!({"seats": 3})).await;
    open(&shop, 2).await;
    let client = shop.app.client();
    for (message, left) in [("Ada", 1), ("Yes", 0)] {
        let said = json!({"message": message, "conversationId": posted["conversationId"]});
        client.post_message(said).await;
        open(&shop, left).await;
    }
    events(&shop, &posted).await;
    let call = shop.calls(id(&posted)).await.remove(0);
    assert!(call.output.to_string().contains("3 seats for Ada: True"), "{call:?}");
}

#[tokio::test]
async fn a_form_outlives_the_worker_that_waits_for_it() {
    if !mcp::are_there() {
        return;
    }
    let (mut shop, _http, agent) = shop().await;
    let posted = begin(&shop, agent, "modern_book", json!({"seats": 2})).await;
    let asked = open(&shop, 2).await;
    shop.app.crash_workers();
    assert_eq!(answer(&shop, of(&asked, "Confirm"), "false").await.0, StatusCode::OK);
    assert_eq!(answer(&shop, of(&asked, "Name"), "Ada").await.0, StatusCode::OK);
    shop.app.add_worker();
    let events = events(&shop, &posted).await;
    assert_eq!(of_call(&events), ["started", "completed"]);
    assert_eq!(of_kind(&events, "question").len(), 2, "nothing is asked twice");
    let call = shop.calls(id(&posted)).await.remove(0);
    assert!(call.output.to_string().contains("2 seats for Ada: False"), "{call:?}");
}

#[tokio::test]
async fn a_call_lost_with_its_answers_has_an_unknown_outcome() {
    if !mcp::are_there() {
        return;
    }
    let (mut shop, _http, agent) = shop().await;
    let ledger = mcp::ledger();
    let posted = begin(&shop, agent, "modern_keep", json!({ "ledger": ledger })).await;
    let asked = open(&shop, 2).await;
    assert_eq!(answer(&shop, of(&asked, "Confirm"), "true").await.0, StatusCode::OK);
    assert_eq!(answer(&shop, of(&asked, "Name"), "Ada").await.0, StatusCode::OK);
    wait_for("the call to act", async || {
        (mcp::lines(&ledger) == ["Ada"]).then_some(())
    })
    .await;
    shop.app.crash_workers();
    shop.app.add_worker();
    let events = events(&shop, &posted).await;
    assert_eq!(of_call(&events), ["started", "error"]);
    let call = shop.calls(id(&posted)).await.remove(0);
    assert_eq!(call.status, "outcome_unknown", "{call:?}");
}

#[tokio::test]
async fn a_cancelled_run_withdraws_its_form() {
    if !mcp::are_there() {
        return;
    }
    let (shop, _http, agent) = shop().await;
    let posted = begin(&shop, agent, "modern_book", json!({"seats": 2})).await;
    open(&shop, 2).await;
    let cancel = format!("/api/runs/{}/cancel", id(&posted));
    let (status, _) = shop.app.client().post(&cancel, json!({})).await;
    assert_eq!(status, StatusCode::ACCEPTED);
    let events = events(&shop, &posted).await;
    assert_eq!(events.last().unwrap()["status"], "cancelled");
    assert_eq!(of_call(&events), ["started", "error"]);
    open(&shop, 0).await;
}

#[tokio::test]
async fn a_call_that_asks_without_end_is_ended() {
    if !mcp::are_there() {
        return;
    }
    let (shop, _http, agent) = shop().await;
    let posted = begin(&shop, agent, "modern_insist", json!({})).await;
    for _ in 0..10 {
        let asked = open(&shop, 1).await.remove(0);
        let (status, answered) = answer(&shop, &asked, "accept_form").await;
        assert_eq!(status, StatusCode::OK, "{answered}");
    }
    events(&shop, &posted).await;
    let call = shop.calls(id(&posted)).await.remove(0);
    assert_eq!(call.status, "error");
    assert!(call.error.contains("10 times"), "{call:?}");
}

#[tokio::test]
async fn a_server_with_a_handshake_can_not_ask() {
    if !mcp::are_there() {
        return;
    }
    let shop = Shop::open().await;
    let http = HttpServer::by_events().await;
    shop.add(json!({"name": "old", "transport": "http", "url": http.url}))
        .await;
    let agent = shop.app.agent("host", &["old_*"]).await;
    let refused = shop.call(agent, "old_book", json!({"seats": 2})).await;
    assert_eq!(refused.status, "error", "{refused:?}");
    assert!(refused.error.contains("elicitation"), "{refused:?}");
    open(&shop, 0).await;
}
