//! Messages with files that no model of the turn accepts: refused when posted, if the API knows which model would
//! answer.

use rejoin_models::Ability;
use rejoin_models::answering::Environment;
use rejoin_tests::app::{AppOptions, TestApp};
use rejoin_tests::client::{json_of, of_kind, text};
use rejoin_tests::model_server::Reply;
use rejoin_tests::support::wait_for;
use serde_json::{Value, json};
use uuid::Uuid;

use rejoin_tests::files::{png, stored};

/// An OpenAI model without image input.
fn blind() -> &'static str {
    let today = rejoin_models::today();
    let found = rejoin_models::catalogue().all().iter().find(|model| {
        model.provider() == "openai" && model.can(Ability::Images) == Some(false) && !model.is_retired(today)
    });
    &found.expect("a model that reads no images").name
}

/// An API with OpenAI's key, like its workers.
async fn app() -> TestApp {
    TestApp::with(AppOptions {
        api: |config| {
            config.chat.models = Environment::from_lookup(|name| (name == "OPENAI_API_KEY").then(|| "k".to_owned()));
        },
        ..AppOptions::default()
    })
    .await
}

async fn agent(app: &TestApp, name: &str, tools: &[&str], model: &str) -> Uuid {
    let named = |content: &mut rejoin_runs::agents::DefinitionContent| {
        content.model.as_mut().expect("a model").name = model.to_owned();
    };
    app.agent_with(name, tools, named).await
}

/// Counts conversations, messages, runs, jobs of runs, and files named by messages.
async fn rows(app: &TestApp) -> Vec<i64> {
    let mut rows = Vec::new();
    for from in [
        "kb.chat_conversations",
        "kb.chat_messages",
        "kb.agent_runs",
        "queue.jobs where kind = 'run'",
        "stream.events",
        "kb.message_files",
    ] {
        let count = sqlx::query_scalar(sqlx::AssertSqlSafe(format!("select count(*) from {from}")));
        rows.push(count.fetch_one(&app.db.pool).await.expect("a count"));
    }
    rows
}

fn assert_refused(problem: &Value, status: u16) {
    assert_eq!(
        (status, &problem["code"]),
        (400, &json!("model_cannot_read_file")),
        "{problem}"
    );
    let words = problem["detail"].as_str().expect("words");
    assert!(
        words.starts_with(&format!(
            "The model {} does not read images (`photo.png`, image/png). Choose a model that does, such as gemini:",
            blind()
        )),
        "{words}"
    );
    let others = problem["models"].as_array().expect("models");
    assert!(!others.is_empty(), "{problem}");
    assert!(others.iter().all(|name| words.contains(name.as_str().expect("a name"))));
}

#[tokio::test]
async fn unreadable_files_refuse_the_message_and_can_be_resent() {
    let app = app().await;
    let client = app.client();
    let blind = agent(&app, "blind", &[], blind()).await;
    let sees = agent(&app, "sees", &[], "openai:scripted").await;
    let photo = stored(&client, "photo.png", png()).await;
    let body = |agent: Uuid| json!({"message": "Look.", "agentDefinitionId": agent, "attachments": [{"fileId": photo}], "clientTurnId": "turn-1"});
    let before = rows(&app).await;
    let (status, problem) = client.post_for_json("/api/chat/stream", body(blind)).await;
    assert_refused(&problem, status.as_u16());
    let streamed = json!({"message": "Look.", "workspaceId": app.db.workspace_id, "agentDefinitionId": blind, "attachments": [{"fileId": photo}]});
    let (status, problem) = client.post_for_json("/api/agent/stream", streamed).await;
    assert_refused(&problem, status.as_u16());
    assert_eq!(rows(&app).await, before);
    assert_eq!(app.model.counts().requests, 0);

    // The same turn with an unknown model, so that its provider decides.
    app.model.script([Reply::text("A pixel.")]);
    let events = json_of(&client.chat(body(sees)).await);
    assert_eq!(of_kind(&events, "done")[0]["status"], "completed");

    // In a conversation, its agent decides, and the next message may have other files.
    app.model.script([Reply::text("Hello.")]);
    let posted = client
        .post_message(json!({"message": "Hello.", "agentDefinitionId": blind}))
        .await;
    app.wait_until_idle().await;
    let before = rows(&app).await;
    let follow = |file: &str| json!({"message": "Look.", "conversationId": posted["conversationId"], "attachments": [{"fileId": file}]});
    let (status, problem) = client.post_for_json("/api/chat/stream", follow(&photo)).await;
    assert_refused(&problem, status.as_u16());
    assert_eq!(rows(&app).await, before);
    let note = stored(&client, "note.txt", b"A note.".to_vec()).await;
    app.model.script([Reply::text("Read.")]);
    let events = json_of(&client.chat(follow(&note)).await);
    assert_eq!(of_kind(&events, "done")[0]["status"], "completed");
    assert_eq!(app.model.violations(), Vec::<String>::new());
}

#[tokio::test]
async fn an_answer_with_an_unreadable_file_leaves_the_question_open() {
    let app = app().await;
    let client = app.client();
    let asker = agent(&app, "asker", &["ask_user"], blind()).await;
    app.model.script([
        Reply::tool("ask_user", json!({"question": "Which picture?", "options": []})),
        Reply::text("That one."),
    ]);
    let posted = client
        .post_message(json!({"message": "Choose.", "agentDefinitionId": asker}))
        .await;
    wait_for("the question", async || {
        let (_, listed) = client.get("/api/questions").await;
        let is_open = listed["items"].as_array().is_some_and(|items| !items.is_empty());
        is_open.then_some(())
    })
    .await;
    wait_for("the run to wait", async || {
        let waiting = sqlx::query_scalar::<_, i64>("select count(*) from kb.agent_runs where state = 'waiting'");
        (waiting.fetch_one(&app.db.pool).await.expect("a count") == 1).then_some(())
    })
    .await;
    let photo = stored(&client, "photo.png", png()).await;
    let before = rows(&app).await;
    let body =
        json!({"message": "This one.", "conversationId": posted["conversationId"], "attachments": [{"fileId": photo}]});
    let (status, problem) = client.post_for_json("/api/chat/stream", body).await;
    assert_refused(&problem, status.as_u16());
    assert_eq!(rows(&app).await, before);
    let (_, listed) = client.get("/api/questions").await;
    assert_eq!(listed["items"].as_array().map(Vec::len), Some(1), "{listed}");
    let answer = json!({"message": "The first.", "conversationId": posted["conversationId"]});
    client.post_message(answer).await;
    let path = format!("/api/runs/{}/events", posted["runId"].as_str().expect("an id"));
    let frames = client.stream(&path).await.rest().await;
    assert_eq!(text(&frames), "That one.");
    let events = json_of(&frames);
    let done = of_kind(&events, "done");
    assert_eq!(done.len(), 1, "{events:?}");
    assert_eq!(done[0]["status"], "completed", "{events:?}");
}

#[tokio::test]
async fn agents_that_only_run_others_are_given_no_files() {
    // Regardless of the API's knowledge of models.
    let app = TestApp::start().await;
    let client = app.client();
    app.agent("worker", &[]).await;
    let flow = app
        .agent_with("flow", &[], |content| {
            content.flow_type = "sequential".to_owned();
            content.config = json!({"flow": {"agents": ["worker"]}});
        })
        .await;
    let photo = stored(&client, "photo.png", png()).await;
    let body = json!({"message": "Look.", "agentDefinitionId": flow, "attachments": [{"fileId": photo}]});
    let (status, problem) = client.post_for_json("/api/chat/stream", body).await;
    assert_eq!(
        (status.as_u16(), &problem["code"]),
        (400, &json!("model_cannot_read_file")),
        "{problem}"
    );
}
