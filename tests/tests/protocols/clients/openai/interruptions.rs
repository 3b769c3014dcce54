//! Responses and completions that are read again after a cut, cancelled, or continued by another worker.

use rejoin_chat::WordsMode;
use rejoin_tests::app::{AppOptions, Process, TestApp};
use rejoin_tests::model_server::Reply;
use rejoin_tests::openai_clients::{self, Language, OpenAi};
use rejoin_tests::support;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{LANGUAGES, output_text, stored, words};

/// Number of answers of each client and protocol whose streams are cut at random places.
const CUT_ANSWERS: usize = 20;

/// What a completion is asked.
fn said(text: &str) -> Value {
    json!({"model": "helper", "messages": [{"role": "user", "content": text}]})
}

#[tokio::test]
async fn a_background_response_is_read_from_every_cut() {
    if !openai_clients::are_there() {
        return;
    }
    let app = TestApp::start().await;
    app.agent("helper", &["schema_version"]).await;
    for language in LANGUAGES {
        let client = OpenAi::new(language, &app);
        app.model.script([
            Reply::text("I look it up. ").then_tool("schema_version", json!({})),
            Reply::text(words(12)),
        ]);
        let ask = json!({"model": "helper", "input": "go", "background": true, "metadata": {"a": "b"}});
        let begun = client.calls("responses.create", ask).await;
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
        // The client for JavaScript adds it.
        whole.as_object_mut().unwrap().remove("output_text");
        assert_eq!(last["response"], whole);
        let shown: String = events
            .iter()
            .filter(|event| event["type"] == "response.output_text.delta")
            .map(|event| event["delta"].as_str().unwrap())
            .collect();
        assert_eq!(stored(&app).await.last(), Some(&shown));
        assert_eq!(whole["metadata"], json!({"a": "b"}));
    }
}

#[tokio::test]
async fn a_response_has_its_input_until_it_is_deleted() {
    if !openai_clients::are_there() {
        return;
    }
    let app = TestApp::start().await;
    app.agent("helper", &[]).await;
    let client = OpenAi::new(Language::JavaScript, &app);
    app.model.script([Reply::text("Here.")]);
    let begun = client
        .calls("responses.create", json!({"model": "helper", "input": "go"}))
        .await;
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

/// The digits of its id are those of a response, which can be cancelled.
#[tokio::test]
async fn a_completion_is_cancelled_as_a_response() {
    if !openai_clients::are_there() {
        return;
    }
    let app = TestApp::start().await;
    app.agent("helper", &[]).await;
    for language in LANGUAGES {
        let client = OpenAi::new(language, &app);
        app.model.script([Reply::hang_after(3)]);
        let (gathered, run) = tokio::join!(client.gathers("gatherChat", said("go")), async {
            let run: Uuid = support::wait_for("the run", async || {
                sqlx::query_scalar("select id from kb.agent_runs where state = 'running'")
                    .fetch_optional(&app.db.pool)
                    .await
                    .unwrap()
            })
            .await;
            let http = app.client();
            let response = format!("/v1/responses/resp_{}", run.simple());
            support::wait_for("the first words", async || {
                let (_, response) = http.get(&response).await;
                (!output_text(&response).is_empty()).then_some(())
            })
            .await;
            let (_, cancelled) = http.post(&format!("{response}/cancel"), json!({})).await;
            assert_eq!(cancelled["status"], "cancelled", "{cancelled:#}");
            run
        });
        let completion = &gathered["final"];
        assert_eq!(completion["id"], format!("chatcmpl-{}", run.simple()));
        assert_eq!(completion["choices"][0]["finish_reason"], "stop", "{completion:#}");
    }
}

/// An answer whose worker is killed after some words; the next one says `again`. Returns what the client shows, and the response or completion.
async fn after_a_killed_worker(
    language: Language,
    (task, ask): (&str, Value),
    mode: WordsMode,
    again: &str,
) -> (String, Value) {
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
    let (gathered, ()) = tokio::join!(client.gathers(task, ask), async {
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
    assert_eq!(stored(&app).await, [again], "{gathered:#}");
    let shown = gathered["text"].as_str().unwrap().to_owned();
    (shown, gathered["final"].clone())
}

#[tokio::test]
async fn a_killed_worker_costs_and_repeats_no_word() {
    if !openai_clients::are_there() {
        return;
    }
    let response = || ("gather", json!({"model": "helper", "input": "write"}));
    // The model begins with the words that it has said before.
    let same: String = (0..30).map(|number| format!("t{number} ")).collect();
    for language in LANGUAGES {
        let (shown, response) = after_a_killed_worker(language, response(), WordsMode::Live, &same).await;
        assert_eq!(
            (shown.as_str(), output_text(&response).as_str()),
            (same.as_str(), same.as_str())
        );
    }
    let other = words(10);
    let (shown, whole) = after_a_killed_worker(Language::JavaScript, response(), WordsMode::Safe, &other).await;
    assert_eq!(
        (shown.as_str(), output_text(&whole).as_str()),
        (other.as_str(), other.as_str())
    );
    let (shown, whole) = after_a_killed_worker(Language::Python, response(), WordsMode::Live, &other).await;
    assert_eq!(output_text(&whole), other);
    assert!(shown.ends_with(&other), "{shown}");
}

#[tokio::test]
async fn a_killed_worker_costs_a_completion_no_word() {
    if !openai_clients::are_there() {
        return;
    }
    let completion = || ("gatherChat", said("write"));
    let content = |whole: &Value| whole["choices"][0]["message"]["content"].as_str().unwrap().to_owned();
    let same: String = (0..30).map(|number| format!("t{number} ")).collect();
    for language in LANGUAGES {
        let (shown, whole) = after_a_killed_worker(language, completion(), WordsMode::Live, &same).await;
        assert_eq!((&shown, &content(&whole)), (&same, &same));
    }
    let other = words(10);
    let (shown, whole) = after_a_killed_worker(Language::JavaScript, completion(), WordsMode::Safe, &other).await;
    assert_eq!((&shown, &content(&whole)), (&other, &other));
    // The protocol can't take words back: those of the lost worker stay, and an empty line follows.
    let (shown, whole) = after_a_killed_worker(Language::Python, completion(), WordsMode::Live, &other).await;
    assert!(shown.ends_with(&format!("\n\n{other}")), "{shown}");
    assert_eq!(content(&whole), shown);
}

/// Has answers whose streams are cut at random places; each of them is the stored one.
async fn with_cut_streams(language: Language, task: &str, body: Value) -> Vec<Value> {
    let app = TestApp::start().await;
    app.agent("helper", &["schema_version"]).await;
    for _ in 0..CUT_ANSWERS {
        app.model.script([
            Reply::text("Let me see. ").then_tool("schema_version", json!({})),
            Reply::text(words(40)).words_every(2),
        ]);
    }
    let task = json!({"task": task, "cutSeed": 1, "times": CUT_ANSWERS, "body": body});
    let said = OpenAi::new(language, &app).runs(task).await;
    let shown = said["result"].as_array().unwrap_or_else(|| panic!("{said:#}"));
    let whole = format!("Let me see. \n\n{}", words(40));
    assert_eq!(stored(&app).await, vec![whole.as_str(); CUT_ANSWERS]);
    for answer in shown {
        assert_eq!(answer["text"], whole, "{language:?}: {answer:#}");
    }
    let breaks: u64 = shown.iter().filter_map(|answer| answer["breaks"].as_u64()).sum();
    assert!(breaks > CUT_ANSWERS as u64, "{language:?}: {breaks} breaks");
    shown.clone()
}

#[tokio::test]
async fn responses_that_are_cut_are_read_on() {
    if !openai_clients::are_there() {
        return;
    }
    for language in LANGUAGES {
        for answer in with_cut_streams(language, "resumes", json!({"model": "helper", "input": "go"})).await {
            assert_eq!(json!(output_text(&answer["final"])), answer["text"]);
        }
    }
}

/// Their chunks have no numbers: the same request with the same key is the same completion, from its beginning.
#[tokio::test]
async fn completions_that_are_cut_are_repeated() {
    if !openai_clients::are_there() {
        return;
    }
    for language in LANGUAGES {
        for answer in with_cut_streams(language, "repeats", said("go")).await {
            assert_eq!(answer["finish"], "stop");
        }
    }
}
