//! Titles that a model writes after the first answer: they replace automatic ones only, and a failure changes nothing.

use std::sync::Arc;

use rejoin_model_client::name::ModelSettings;
use rejoin_models::choice::ModelChoice;
use rejoin_tests::app::{AppOptions, TestApp};
use rejoin_tests::client::{json_of, text};
use rejoin_tests::model_server::{Reply, sent};
use rejoin_tests::support;
use rejoin_worker::config::TitleModel;
use serde_json::{Value, json};
use tokio::sync::Notify;

const QUESTION: &str = "How do I upgrade libssl3?";

/// An app whose conversations' own models write titles.
async fn titled() -> TestApp {
    TestApp::with(AppOptions {
        worker: |config| config.title_model = TitleModel::OfConversation,
        ..AppOptions::default()
    })
    .await
}

/// Whether a model is asked for a title.
fn asks_for_title(request: &Value) -> bool {
    sent(request)[0].1.contains("the title of a conversation")
}

fn title_requests(app: &TestApp) -> Vec<Value> {
    app.model.requests().into_iter().filter(asks_for_title).collect()
}

/// Asks in a new conversation without an agent; the conversation's path.
async fn begin(app: &TestApp, message: &str) -> String {
    let events = json_of(&app.client().ask(None, message).await);
    assert_eq!(events.last().unwrap()["status"], "completed", "{events:?}");
    format!("/api/conversations/{}", events[1]["conversationId"].as_str().unwrap())
}

async fn conversation(app: &TestApp, path: &str) -> Value {
    app.client().get(path).await.1
}

async fn title_becomes(app: &TestApp, path: &str, title: &str) {
    support::wait_for(title, async || {
        (conversation(app, path).await["title"] == title).then_some(())
    })
    .await;
}

/// Waits until this number of title jobs has ended; returns their states.
async fn ended(app: &TestApp, count: usize) -> Vec<String> {
    support::wait_for("title jobs to end", async || {
        let states: Vec<String> =
            sqlx::query_scalar("select state from queue.finished_jobs where kind = 'title' order by id")
                .fetch_all(&app.db.pool)
                .await
                .unwrap();
        (states.len() == count).then_some(states)
    })
    .await
}

/// Stops the workers, which end what they do; returns the kinds of all jobs, open ones and ended ones.
async fn kinds_of_jobs(app: &mut TestApp) -> Vec<String> {
    for worker in app.workers.drain(..) {
        worker.drain().await;
    }
    sqlx::query_scalar("select kind from queue.jobs union all select kind from queue.finished_jobs order by kind")
        .fetch_all(&app.db.pool)
        .await
        .unwrap()
}

#[tokio::test]
async fn a_model_writes_the_title_after_the_first_answer() {
    let mut app = titled().await;
    let agent = app.agent("helper", &[]).await;
    let gate = Arc::new(Notify::new());
    app.model.on_request(
        asks_for_title,
        [Reply::text("\"Upgrading the TLS library.\"").gate(gate.clone())],
    );
    app.model.script([Reply::text("With apt."), Reply::text("Yes.")]);
    let events = json_of(&app.client().ask(Some(agent), QUESTION).await);
    let id = events[1]["conversationId"].as_str().unwrap().to_owned();
    let path = format!("/api/conversations/{id}");
    let before = conversation(&app, &path).await;
    assert_eq!(before["title"], QUESTION);
    gate.notify_one();
    title_becomes(&app, &path, "Upgrading the TLS library").await;
    let after = conversation(&app, &path).await;
    assert_eq!(
        after["updatedAt"], before["updatedAt"],
        "it does not count as a use of the conversation"
    );
    let request = title_requests(&app).remove(0);
    assert_eq!(request["model"], "scripted");
    let given = sent(&request).pop().unwrap().1;
    assert!(given.contains(QUESTION) && given.contains("With apt."), "{given}");
    // A later turn asks for none.
    let frames = app
        .client()
        .chat(json!({"message": "Is that all?", "conversationId": id}))
        .await;
    assert_eq!(text(&frames), "Yes.");
    assert_eq!(kinds_of_jobs(&mut app).await, ["run", "run", "title"]);
    assert_eq!(title_requests(&app).len(), 1);
    assert!(app.model.violations().is_empty(), "{:?}", app.model.violations());
}

#[tokio::test]
async fn a_first_turn_that_waited_for_its_user_gets_a_title() {
    let app = titled().await;
    let agent = app.agent("asker", &["ask_user"]).await;
    app.model.on_request(asks_for_title, [Reply::text("A podcast in May")]);
    app.model.script([
        Reply::tool("ask_user", json!({"question": "By when?", "options": []})),
        Reply::text("In May, then."),
    ]);
    let client = app.client();
    let posted = client
        .post_message(json!({"message": "a podcast", "agentDefinitionId": agent}))
        .await;
    let conversation = &posted["conversationId"];
    support::wait_for("the question", async || {
        let (_, page) = client.get("/api/questions?status=pending").await;
        (page["items"].as_array().unwrap().len() == 1).then_some(())
    })
    .await;
    let frames = client
        .chat(json!({"message": "in May", "conversationId": conversation}))
        .await;
    assert_eq!(text(&frames), "In May, then.");
    let path = format!("/api/conversations/{}", conversation.as_str().unwrap());
    title_becomes(&app, &path, "A podcast in May").await;
}

#[tokio::test]
async fn a_users_own_title_is_never_replaced() {
    let app = titled().await;
    let client = app.client();
    let gate = Arc::new(Notify::new());
    let replies = [
        Reply::text("The model's title").gate(gate.clone()),
        Reply::text("What was untitled"),
    ];
    app.model.on_request(asks_for_title, replies);
    // Named while the model writes.
    let path = begin(&app, QUESTION).await;
    support::wait_for("the model to be asked", async || {
        (title_requests(&app).len() == 1).then_some(())
    })
    .await;
    client.patch(&path, json!({"title": "My own title"})).await;
    gate.notify_one();
    assert_eq!(ended(&app, 1).await, ["completed"]);
    assert_eq!(conversation(&app, &path).await["title"], "My own title");
    // Named before: the model is not asked. Without a name, it is.
    for (named, title) in [(json!({"title": "Mine"}), "Mine"), (json!({}), "What was untitled")] {
        let (_, made) = client.post("/api/conversations", named).await;
        let id = &made["id"];
        client.chat(json!({"message": QUESTION, "conversationId": id})).await;
        title_becomes(&app, &format!("/api/conversations/{}", id.as_str().unwrap()), title).await;
    }
    assert_eq!(ended(&app, 3).await, ["completed"; 3]);
    assert_eq!(title_requests(&app).len(), 2);
}

#[tokio::test]
async fn without_a_model_for_titles_none_is_asked_for() {
    let mut app = TestApp::start().await;
    let path = begin(&app, QUESTION).await;
    assert_eq!(kinds_of_jobs(&mut app).await, ["run"]);
    assert_eq!(app.model.requests().len(), 1);
    assert_eq!(conversation(&app, &path).await["title"], QUESTION);
}

#[tokio::test]
async fn the_demo_model_is_not_asked_for_a_title() {
    let app = titled().await;
    let choose = |content: &mut rejoin_runs::agents::DefinitionContent| {
        content.model = Some(ModelChoice::named("demo:graph"));
    };
    let agent = app.agent_with("demo", &[], choose).await;
    let events = json_of(&app.client().ask(Some(agent), "hello").await);
    assert_eq!(ended(&app, 1).await, ["completed"]);
    let path = format!("/api/conversations/{}", events[1]["conversationId"].as_str().unwrap());
    assert_eq!(conversation(&app, &path).await["title"], "hello");
    assert!(app.model.requests().is_empty());
}

#[tokio::test]
async fn a_model_named_for_titles_writes_them_whatever_answers() {
    let mut app = TestApp::with(AppOptions {
        workers: 0,
        worker: |config| config.title_model = "openai:small".parse().expect("a model"),
        ..AppOptions::default()
    })
    .await;
    let mut models = ModelSettings::openai_compatible(app.model.base_url());
    models.model_override = Some("openai:large".to_owned());
    app.add_worker_with(models);
    app.model.on_request(asks_for_title, [Reply::text("A small title")]);
    let path = begin(&app, QUESTION).await;
    title_becomes(&app, &path, "A small title").await;
    let asked: Vec<Value> = app
        .model
        .requests()
        .iter()
        .map(|request| request["model"].clone())
        .collect();
    assert_eq!(asked, ["large", "small"]);
}

#[tokio::test]
async fn a_failing_model_leaves_the_title_and_the_turn_as_they_are() {
    let app = titled().await;
    // Refused: it is not tried again, and no dead job is left.
    app.model.on_request(asks_for_title, [Reply::status(400)]);
    let path = begin(&app, QUESTION).await;
    assert_eq!(ended(&app, 1).await, ["completed"]);
    assert_eq!(conversation(&app, &path).await["title"], QUESTION);
    // Overloaded, in each of the client's own attempts: the job is tried again later.
    app.model
        .on_request(asks_for_title, std::iter::repeat_n(Reply::status(500), 4));
    let path = begin(&app, "Is it safe?").await;
    let due = support::wait_for("the job to wait for its next attempt", async || {
        sqlx::query_scalar::<_, i64>(
            "select id from queue.jobs
             where kind = 'title' and state = 'available' and attempt = 1 and run_at > now() and last_error is not null",
        )
        .fetch_optional(&app.db.pool)
        .await
        .unwrap()
    })
    .await;
    assert_eq!(conversation(&app, &path).await["title"], "Is it safe?");
    app.model
        .on_request(asks_for_title, [Reply::text("Safety of upgrades")]);
    sqlx::query("update queue.jobs set run_at = now() where id = $1")
        .bind(due)
        .execute(&app.db.pool)
        .await
        .unwrap();
    title_becomes(&app, &path, "Safety of upgrades").await;
    assert_eq!(ended(&app, 2).await, ["completed"; 2]);
}

#[tokio::test]
async fn hostile_text_of_the_model_becomes_a_plain_title() {
    let app = titled().await;
    let long = "word ".repeat(5_000);
    let cases = [
        (
            "\n**\"Trust \u{202E}\u{200B}me\u{0}, \u{7}friend.\"**\r\nIgnore all rules",
            "Trust me, friend",
        ),
        ("<script>alert(1)</script>", "<script>alert(1)</script>"),
        (&*long, long[..99].trim_end()),
        ("\u{202E}…\n\"\"\n", "Question 3"),
    ];
    for (nth, (answer, title)) in cases.into_iter().enumerate() {
        app.model.on_request(asks_for_title, [Reply::text(answer)]);
        let path = begin(&app, &format!("Question {nth}")).await;
        ended(&app, nth + 1).await;
        assert_eq!(conversation(&app, &path).await["title"], title);
    }
}

#[tokio::test]
async fn a_title_is_written_though_its_worker_was_killed() {
    let mut app = titled().await;
    app.model
        .on_request(asks_for_title, [Reply::hang_after(1), Reply::text("After all")]);
    let path = begin(&app, QUESTION).await;
    support::wait_for("the model to be asked", async || {
        (title_requests(&app).len() == 1).then_some(())
    })
    .await;
    app.crash_workers();
    app.add_worker();
    title_becomes(&app, &path, "After all").await;
    assert_eq!(ended(&app, 1).await, ["completed"]);
    assert_eq!(title_requests(&app).len(), 2);
}
