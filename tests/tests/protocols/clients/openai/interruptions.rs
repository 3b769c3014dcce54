//! Responses that are read again after a cut, cancelled, or continued by another worker.

use rejoin_chat::WordsMode;
use rejoin_tests::app::{AppOptions, Process, TestApp};
use rejoin_tests::model_server::Reply;
use rejoin_tests::openai_clients::{self, Language, OpenAi};
use rejoin_tests::support;
use serde_json::{Value, json};

use super::{LANGUAGES, output_text, stored, words};

#[tokio::test]
async fn a_background_response_is_read_from_every_cut() {
    if !openai_clients::are_there() {
        return;
    }
    let app = TestApp::start().await;
    app.agent("helper", &["schema_version"]).await;
    let client = OpenAi::new(Language::JavaScript, &app);
    app.model.script([
        Reply::text("I look it up. ").then_tool("schema_version", json!({})),
        Reply::text(words(12)),
    ]);
    let begun = client
        .calls(
            "responses.create",
            json!({"model": "helper", "input": "go", "background": true, "metadata": {"a": "b"}}),
        )
        .await;
    assert!(
        ["queued", "in_progress"].contains(&begun["status"].as_str().unwrap()),
        "{begun:#}"
    );
    let read = client.runs(json!({"task": "cuts", "id": begun["id"]})).await["result"].clone();
    assert_eq!(read["wrong"], json!([]));
    let events = read["events"].as_array().unwrap();
    let last = events.last().unwrap();
    assert_eq!(last["type"], "response.completed");
    let mut whole = read["whole"].clone();
    // The client adds it.
    whole.as_object_mut().unwrap().remove("output_text");
    assert_eq!(last["response"], whole);
    let shown: String = events
        .iter()
        .filter(|event| event["type"] == "response.output_text.delta")
        .map(|event| event["delta"].as_str().unwrap())
        .collect();
    assert_eq!(vec![shown], stored(&app).await);
    assert_eq!(whole["metadata"], json!({"a": "b"}));

    let items = client.calls("responses.inputItems.list", begun["id"].clone()).await;
    assert_eq!(items["items"][0]["content"][0]["text"], "go");
    let gone = client.calls("responses.delete", begun["id"].clone()).await;
    assert_eq!(gone["deleted"], true);
    let reply = client.tries("responses.retrieve", begun["id"].clone()).await;
    assert_eq!(reply["error"]["status"], 404);
}

#[tokio::test]
async fn a_response_is_cancelled() {
    if !openai_clients::are_there() {
        return;
    }
    let app = TestApp::start().await;
    app.agent("helper", &[]).await;
    for language in LANGUAGES {
        let client = OpenAi::new(language, &app);
        app.model.script([Reply::hang_after(3)]);
        let begun = client
            .calls(
                "responses.create",
                json!({"model": "helper", "input": "go", "background": true}),
            )
            .await;
        let id = begun["id"].as_str().unwrap();
        let http = app.client();
        support::wait_for("the first words", async || {
            let (_, response) = http.get(&format!("/v1/responses/{id}")).await;
            (!output_text(&response).is_empty()).then_some(())
        })
        .await;
        let cancelled = match language {
            Language::JavaScript => client.calls("responses.cancel", json!(id)).await,
            Language::Python => client.calls("responses.cancel", json!({"response_id": id})).await,
        };
        assert_eq!(cancelled["status"], "cancelled", "{cancelled:#}");
    }
}

/// A response whose worker is killed after some words; the next one says `again`. Returns what the client shows, and its response.
async fn after_a_killed_worker(language: Language, mode: WordsMode, again: &str) -> (String, Value) {
    let mut app = TestApp::with(AppOptions {
        workers: 0,
        api: match mode {
            WordsMode::Live => |_| {},
            WordsMode::Safe => |config| config.chat.dialect_words = WordsMode::Safe,
        },
        ..AppOptions::default()
    })
    .await;
    app.agent("helper", &[]).await;
    app.model.script([Reply::hang_after(20), Reply::text(again)]);
    let client = OpenAi::new(language, &app);
    let worker = Process::worker(&app);
    let ask = json!({"model": "helper", "input": "write"});
    let (gathered, ()) = tokio::join!(client.gathers("gather", ask), async {
        support::wait_for("some words", async || {
            let tokens: i64 = sqlx::query_scalar("select count(*) from stream.events where type = 'token'")
                .fetch_one(&app.db.pool)
                .await
                .unwrap();
            (tokens > 0).then_some(())
        })
        .await;
        worker.kill();
        app.add_worker();
    });
    assert_eq!(
        vec![output_text(&gathered["final"])],
        stored(&app).await,
        "{gathered:#}"
    );
    let shown = gathered["text"].as_str().unwrap().to_owned();
    (shown, gathered["final"].clone())
}

#[tokio::test]
async fn a_killed_worker_costs_and_repeats_no_word() {
    if !openai_clients::are_there() {
        return;
    }
    // The model begins with the words that it has said before.
    let same: String = (0..30).map(|number| format!("t{number} ")).collect();
    for language in LANGUAGES {
        let (shown, response) = after_a_killed_worker(language, WordsMode::Live, &same).await;
        assert_eq!(
            (shown.as_str(), output_text(&response).as_str()),
            (same.as_str(), same.as_str())
        );
    }
    let other = words(10);
    let (shown, response) = after_a_killed_worker(Language::JavaScript, WordsMode::Safe, &other).await;
    assert_eq!(
        (shown.as_str(), output_text(&response).as_str()),
        (other.as_str(), other.as_str())
    );
    let (shown, response) = after_a_killed_worker(Language::Python, WordsMode::Live, &other).await;
    assert_eq!(output_text(&response), other);
    assert!(shown.ends_with(&other), "{shown}");
}
