//! One conversation, read at once by the clients of all dialects.

use std::sync::Arc;

use rejoin_runs::agents;
use rejoin_tests::a2a_clients::{self, A2aClient};
use rejoin_tests::app::TestApp;
use rejoin_tests::chat_page::{self, ChatPage};
use rejoin_tests::model_server::Reply;
use rejoin_tests::openai_clients::{self, Language, OpenAi};
use rejoin_tests::{client, support};
use serde_json::{Value, json};
use tokio::sync::Notify;
use uuid::Uuid;

use super::ag_ui::{self, Page};
use super::durable_streams;

/// Native, Durable Streams, OpenAI for JavaScript, the AI SDK, AG-UI, A2A for JavaScript.
const READERS: f64 = 6.0;

/// The text of the `delta`s that OpenAI's client was sent.
fn deltas(said: &Value) -> String {
    let events = said["result"]["items"].as_array().expect("events").iter();
    let deltas = events.filter(|event| event["type"] == "response.output_text.delta");
    deltas.filter_map(|event| event["delta"].as_str()).collect()
}

#[tokio::test]
async fn all_clients_read_the_same_text_at_once() {
    if !(openai_clients::are_there() && chat_page::is_there() && a2a_clients::are_there()) {
        return;
    }
    let app = TestApp::start().await;
    let agent = app
        .agent_with("writer", &[], |content| {
            agents::EXTERNAL.clone_into(&mut content.visibility);
        })
        .await;
    let text: String = (0..40).map(|n| format!("word{n} ")).collect();
    let gate = Arc::new(Notify::new());
    app.model.script([Reply::text(&text).words_every(5).gate(gate.clone())]);
    let posted = app
        .client()
        .post_message(json!({ "message": "write", "agentDefinitionId": agent }))
        .await;
    let run: Uuid = posted["runId"].as_str().expect("an id").parse().expect("an id");
    let chat = posted["conversationId"].as_str().expect("an id").to_owned();

    let native = async {
        let stream = app.client().stream(&format!("/api/runs/{run}/events")).await;
        client::text(&stream.rest().await)
    };
    let durable = async {
        let path = format!("/api/durable-streams/runs/{run}");
        let followed = durable_streams::result(&app, &path, durable_streams::follow("sse", &json!("-1"))).await;
        followed.map(|followed| durable_streams::text_of(&followed["items"]))
    };
    let openai = async {
        let response = format!("resp_{}", run.simple());
        let task = json!({ "call": "responses.retrieve", "args": [response, { "stream": true }] });
        deltas(&OpenAi::new(Language::JavaScript, &app).runs(task).await)
    };
    let ai_sdk = async {
        let mut page = ChatPage::open(&app, &chat, json!({})).await;
        page.does("resume", json!({})).await["text"].clone()
    };
    let mut page = Page::open(&app, "writer", &chat, json!([{ "connect": true }]));
    let ag_ui = async {
        match &mut page {
            Some(page) => Some(ag_ui::replied(&page.next().await)),
            None => None,
        }
    };
    let a2a = async {
        let calls = json!([{ "call": "subscribe", "params": { "id": run } }]);
        let mut client = A2aClient::start(a2a_clients::CLIENTS[0], &app, json!({ "agent": "writer" }), calls);
        client.next().await.0.answer().to_owned()
    };
    let opened = async {
        support::wait_for("a stream of each client", async || {
            let open = app.client().metric_sum(&["rejoin_open_streams"]).await;
            (open >= READERS).then_some(())
        })
        .await;
        gate.notify_one();
    };
    let (native, durable, openai, ai_sdk, ag_ui, a2a, ()) =
        tokio::join!(native, durable, openai, ai_sdk, ag_ui, a2a, opened);
    let stored: String = sqlx::query_scalar("select content from kb.chat_messages where role = 'assistant'")
        .fetch_one(&app.db.pool)
        .await
        .expect("the answer");
    assert_eq!(stored, text);
    assert_eq!(native, stored, "native");
    assert_eq!(durable.as_ref(), Some(&stored), "Durable Streams");
    assert_eq!(openai, stored, "OpenAI");
    assert_eq!(ai_sdk, json!(stored), "AI SDK");
    assert_eq!(ag_ui.as_ref(), Some(&stored), "AG-UI");
    assert_eq!(a2a, stored, "A2A");

    a_cursor_is_good_in_the_other_dialects(&app, run).await;
}

/// What follows an event is the same in each dialect that has a cursor.
async fn a_cursor_is_good_in_the_other_dialects(app: &TestApp, run: Uuid) {
    let events = format!("/api/runs/{run}/events");
    let all = app.client().stream(&events).await.rest().await;
    let numbers: Vec<i64> = all.iter().filter_map(|frame| frame.id).collect();
    let after = numbers[numbers.len() / 2];
    let rest = client::text(&app.client().stream_after(&events, after).await.rest().await);
    assert!(!rest.is_empty());
    let path = format!("/api/durable-streams/runs/{run}");
    let offset = json!(format!("{after:020}"));
    let durable = durable_streams::result(app, &path, durable_streams::follow("long-poll", &offset)).await;
    let durable = durable.expect("the client was there");
    assert_eq!(durable_streams::text_of(&durable["items"]), rest, "Durable Streams");
    // Each event has 64 numbers of OpenAI's.
    let args = json!([
        format!("resp_{}", run.simple()),
        { "stream": true, "starting_after": after * 64 + 63 }
    ]);
    let openai = OpenAi::new(Language::JavaScript, app)
        .runs(json!({ "call": "responses.retrieve", "args": args }))
        .await;
    assert_eq!(deltas(&openai), rest, "OpenAI");
}
