//! `useChat` at `/api/ai/chat`: the unmodified packages `ai` and `@ai-sdk/react`.

use rejoin_chat::WordsMode;
use rejoin_tests::app::{AppOptions, Process, TestApp};
use rejoin_tests::chat_page::{self, ChatPage};
use rejoin_tests::model_server::{Reply, sent};
use rejoin_tests::support;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use uuid::Uuid;

fn words(n: usize) -> String {
    (0..n).map(|i| format!("word{i} ")).collect()
}

/// An app with an agent, and the options of a page that asks it.
async fn app_with(agent: &str, tools: &[&str]) -> (TestApp, Value) {
    let app = TestApp::start().await;
    app.agent(agent, tools).await;
    (app, json!({ "body": { "agent": agent } }))
}

/// The newest message of the assistant.
fn answer(state: &Value) -> &Value {
    let messages = state["messages"].as_array().expect("messages");
    messages
        .iter()
        .rfind(|message| message["role"] == "assistant")
        .expect("an answer")
}

fn parts<'a>(state: &'a Value, kind: &str) -> Vec<&'a Value> {
    let parts = answer(state)["parts"].as_array().expect("parts");
    parts.iter().filter(|part| part["type"] == kind).collect()
}

/// The answers that are stored in the chat.
async fn stored(app: &TestApp, chat: &str) -> Vec<String> {
    let (status, stored) = app.client().get(&format!("/api/ai/chat/{chat}")).await;
    assert_eq!(status, StatusCode::OK, "{stored}");
    let messages = stored["messages"].as_array().expect("messages");
    let answers = messages.iter().filter(|message| message["role"] == "assistant");
    answers
        .map(|message| message["parts"][0]["text"].as_str().expect("text").to_owned())
        .collect()
}

#[tokio::test]
async fn an_answer_has_metadata_and_the_next_message_continues_it() {
    if !chat_page::is_there() {
        return;
    }
    let (app, options) = app_with("speaker", &[]).await;
    app.model.script([
        Reply::text("Hello there").reasoning("A greeting."),
        Reply::text("Still here"),
    ]);
    let mut page = ChatPage::open(&app, "chat 1/ü", options).await;
    let state = page.sends("Hi").await;
    assert_eq!(
        (&state["status"], &state["text"]),
        (&json!("ready"), &json!("Hello there")),
        "{state:#}"
    );
    assert_eq!(parts(&state, "reasoning")[0]["text"], "A greeting.");
    assert_eq!(answer(&state)["metadata"]["status"], "completed");
    assert_eq!(answer(&state)["metadata"]["agent"], "speaker");
    assert_eq!(parts(&state, "data-usage").len(), 1);
    assert_eq!(page.sends("And now?").await["text"], "Still here");
    let request = app.model.requests().pop().expect("a request");
    let given: Vec<&str> = request["messages"]
        .as_array()
        .expect("messages")
        .iter()
        .filter(|message| message["role"] != "system")
        .filter_map(|message| message["content"].as_str())
        .collect();
    assert_eq!(given, ["Hi", "Hello there", "And now?"]);
}

#[tokio::test]
async fn the_servers_tools_are_shown_and_not_executed_by_the_client() {
    if !chat_page::is_there() {
        return;
    }
    let (app, mut options) = app_with("finder", &["list_entity_types"]).await;
    options["outputs"] = json!({ "list_entity_types": "never" });
    app.model.script([
        Reply::text("Let me look.").then_tool("list_entity_types", json!({})),
        Reply::text("Nothing yet."),
    ]);
    let mut page = ChatPage::open(&app, "tools", options).await;
    let state = page.sends("What is there?").await;
    assert_eq!(state["text"], "Let me look.\n\nNothing yet.", "{state:#}");
    let calls = parts(&state, "dynamic-tool");
    assert_eq!(calls.len(), 1);
    assert_eq!(
        (&calls[0]["toolName"], &calls[0]["state"]),
        (&json!("list_entity_types"), &json!("output-available"))
    );
    assert_ne!(calls[0]["output"], "never");
    assert_eq!(parts(&state, "step-start").len(), 2);
    assert_eq!(stored(&app, "tools").await, ["Let me look.\n\nNothing yet."]);
}

#[tokio::test]
async fn a_tool_of_the_client_is_executed_there() {
    if !chat_page::is_there() {
        return;
    }
    let (app, mut options) = app_with("guide", &[]).await;
    options["outputs"] = json!({ "where_am_i": { "city": "Paris" } });
    options["body"]["clientTools"] = json!([{
        "name": "where_am_i", "description": "Returns the user's place.",
        "inputSchema": { "type": "object", "properties": { "exactly": { "type": "boolean" } } },
    }]);
    app.model.script([
        Reply::text("One moment.").then_tool("where_am_i", json!({ "exactly": true })),
        Reply::text("You are in Paris."),
    ]);
    let mut page = ChatPage::open(&app, "client tool", options).await;
    let state = page.sends("Where am I?").await;
    assert_eq!(state["text"], "One moment.\n\nYou are in Paris.", "{state:#}");
    assert_eq!(state["errors"], json!([]));
    let call = parts(&state, "tool-where_am_i")[0];
    assert_eq!(call["output"], json!({ "city": "Paris" }));
    assert_eq!(call["input"], json!({ "exactly": true }));
    assert_eq!(state["messages"].as_array().expect("messages").len(), 2);
    let request = app.model.requests().pop().expect("a request").to_string();
    assert!(request.contains("Paris"), "{request}");
    assert_eq!(
        stored(&app, "client%20tool").await,
        ["One moment.\n\nYou are in Paris."]
    );
}

#[tokio::test]
async fn a_question_of_the_agent_is_shown_and_answered() {
    if !chat_page::is_there() {
        return;
    }
    let (app, options) = app_with("asker", &["ask_user"]).await;
    let choice = json!([{ "label": "Red", "value": "red" }, { "label": "Blue", "value": "blue" }]);
    app.model.script([
        Reply::text("Well. ").then_tool("ask_user", json!({ "question": "Which colour?", "options": choice })),
        Reply::text("Blue it is."),
    ]);
    let mut page = ChatPage::open(&app, "question", options).await;
    let state = page.sends("Paint it").await;
    assert_eq!(
        (&state["status"], &state["errors"]),
        (&json!("ready"), &json!([])),
        "{state:#}"
    );
    // A page that is opened meanwhile is asked, too.
    for state in [state, page.does("reload", json!({})).await] {
        let questions = parts(&state, "data-question");
        assert_eq!(questions.len(), 1, "{state:#}");
        assert_eq!(
            (&questions[0]["data"]["question"], &questions[0]["data"]["options"]),
            (&json!("Which colour?"), &choice)
        );
    }
    let state = page.sends("Blue").await;
    assert!(
        state["text"].as_str().expect("text").ends_with("Blue it is."),
        "{state:#}"
    );
    assert_eq!(state["errors"], json!([]));
    assert_eq!(stored(&app, "question").await, ["Well. \n\nBlue it is."]);
    let request = app.model.requests().pop().expect("a request");
    let given = sent(&request);
    assert!(
        given.iter().any(|(role, text)| role == "tool" && text.contains("blue")),
        "{given:#?}"
    );
    app.wait_until_idle().await;
}

#[tokio::test]
async fn a_call_is_approved_or_refused_on_the_page() {
    if !chat_page::is_there() {
        return;
    }
    let app = TestApp::start().await;
    app.agent_with("careful", &["schema_version"], |content| {
        content.config = json!({ "confirm": ["schema_version"] });
    })
    .await;
    for approve in [true, false] {
        app.model
            .script([Reply::tool("schema_version", json!({})), Reply::text("Done.")]);
        let options = json!({ "body": { "agent": "careful" }, "approve": approve });
        let mut page = ChatPage::open(&app, &format!("approved {approve}"), options).await;
        let state = page.sends("Which version?").await;
        assert_eq!(
            parts(&state, "dynamic-tool")[0]["state"],
            "approval-requested",
            "{state:#}"
        );
        let state = page.does("decide", json!({})).await;
        let ended = if approve { "output-available" } else { "output-denied" };
        assert_eq!(parts(&state, "dynamic-tool")[0]["state"], ended, "{state:#}");
        assert!(state["text"].as_str().expect("text").ends_with("Done."), "{state:#}");
        assert_eq!(state["errors"], json!([]));
    }
}

#[tokio::test]
async fn an_answer_that_matches_a_schema_is_data() {
    if !chat_page::is_there() {
        return;
    }
    let app = TestApp::start().await;
    let schema = json!({ "type": "object", "properties": { "city": { "type": "string" } }, "required": ["city"], "additionalProperties": false });
    app.agent_with("places", &[], |content| {
        content.config = json!({ "outputSchema": schema })
    })
    .await;
    app.model.script([Reply::text(r#"{"city":"Oslo"}"#)]);
    let mut page = ChatPage::open(&app, "data", json!({ "body": { "agent": "places" } })).await;
    let state = page.sends("Where?").await;
    let output = json!({ "city": "Oslo" });
    assert_eq!(parts(&state, "data-output")[0]["data"]["output"], output, "{state:#}");
    let text = state["text"].as_str().expect("text");
    assert_eq!(serde_json::from_str::<Value>(text).expect("JSON"), output);
    assert_eq!(stored(&app, "data").await, [text]);
}

#[tokio::test]
async fn a_failed_run_is_an_error_of_the_chat() {
    if !chat_page::is_there() {
        return;
    }
    let (app, options) = app_with("unlucky", &[]).await;
    app.model.script([Reply::status(401)]);
    let mut page = ChatPage::open(&app, "errors", options).await;
    let state = page.sends("Hi").await;
    assert_eq!(state["status"], "error");
    assert_eq!(state["errors"].as_array().expect("errors").len(), 1, "{state:#}");
    // What the server can't do, it says.
    let state = page.does("regenerate", json!({})).await;
    let why = state["errors"][1].as_str().expect("an error");
    assert!(why.contains("regenerate_not_supported"), "{why}");
}

#[tokio::test]
async fn a_cancelled_run_ends_the_message_a_stopped_page_does_not() {
    if !chat_page::is_there() {
        return;
    }
    let (app, options) = app_with("writer", &[]).await;
    app.model.script([
        Reply::text(words(400)).words_every(20),
        Reply::text(words(40)).words_every(20),
    ]);
    let mut page = ChatPage::open(&app, "stop", options.clone()).await;
    page.does("begin", json!({ "text": "Write" })).await;
    let state = page.does("words", json!({ "atLeast": 20 })).await;
    let run = answer(&state)["metadata"]["runId"].as_str().expect("a run").to_owned();
    let (status, _) = app.client().post(&format!("/api/runs/{run}/cancel"), json!({})).await;
    assert_eq!(status, StatusCode::ACCEPTED);
    let state = page.does("rest", json!({})).await;
    assert_eq!(state["status"], "ready", "{state:#}");
    assert_eq!(answer(&state)["metadata"]["status"], "cancelled");
    assert_eq!(stored(&app, "stop").await, [state["text"].as_str().expect("text")]);

    let mut page = ChatPage::open(&app, "stop 2", options).await;
    page.does("begin", json!({ "text": "Write again" })).await;
    page.does("words", json!({ "atLeast": 20 })).await;
    let state = page.does("stop", json!({})).await;
    assert!(state["text"].as_str().expect("text").len() < words(40).len());
    let state = page.does("reload", json!({})).await;
    assert_eq!(state["text"], json!(words(40)));
}

#[tokio::test]
async fn files_of_a_message_are_stored_and_read() {
    if !chat_page::is_there() {
        return;
    }
    let (app, options) = app_with("reader", &[]).await;
    app.model.script([Reply::text("It says hello.")]);
    let mut page = ChatPage::open(&app, "files", options).await;
    let file = json!({
        "type": "file", "mediaType": "text/plain", "filename": "note.txt", "url": "data:text/plain;base64,aGVsbG8gZnJvbSBhIGZpbGU=",
    });
    let state = page
        .does("send", json!({ "text": "What does it say?", "files": [file] }))
        .await;
    assert_eq!(state["text"], "It says hello.", "{state:#}");
    let request = app.model.requests().pop().expect("a request").to_string();
    assert!(request.contains("hello from a file"), "{request}");
    let elsewhere = json!({ "type": "file", "mediaType": "image/png", "url": "https://example.com/a.png" });
    let state = page
        .does("send", json!({ "text": "And this?", "files": [elsewhere] }))
        .await;
    let why = state["errors"][0].as_str().expect("an error");
    assert!(why.contains("invalid_file"), "{why}");
}

#[tokio::test]
async fn a_page_reloaded_anywhere_ends_with_the_stored_text() {
    if !chat_page::is_there() {
        return;
    }
    let (app, options) = app_with("writer", &["list_entity_types"]).await;
    let (first, second) = (words(25), words(25));
    let whole = format!("{first}\n\n{second}");
    for cut in 0..20 {
        app.model.script([
            Reply::text(&first)
                .words_every(4)
                .then_tool("list_entity_types", json!({})),
            Reply::text(&second).words_every(4),
        ]);
        let chat = format!("cut-{cut}");
        let mut page = ChatPage::open(&app, &chat, options.clone()).await;
        page.does("begin", json!({ "text": "Write" })).await;
        // Not before the first word: the page would leave before its message was sent.
        let at = 1 + usize::from(Uuid::now_v7().as_bytes()[15]) * (whole.len() - 1) / 256;
        page.does("words", json!({ "atLeast": at })).await;
        let state = page.does("reload", json!({})).await;
        assert_eq!(state["everything"], json!(whole), "cut at {at}: {state:#}");
        assert_eq!(stored(&app, &chat).await, [whole.as_str()], "cut at {at}");
        assert_eq!(
            state["messages"].as_array().expect("messages").len(),
            2,
            "cut at {at}: {state:#}"
        );
        // Nothing is active any more.
        assert_eq!(page.does("resume", json!({})).await["everything"], json!(whole));
    }
}

/// A worker is killed in mid-answer; its successor writes the same words, or others.
async fn after_a_killed_worker(mode: WordsMode, again: &str) -> (Value, String) {
    let app = TestApp::with(AppOptions {
        workers: 0,
        api: match mode {
            WordsMode::Live => |_| {},
            WordsMode::Safe => |config| config.chat.dialect_words = WordsMode::Safe,
        },
        ..AppOptions::default()
    })
    .await;
    app.agent("writer", &[]).await;
    app.model.script([Reply::hang_after(10), Reply::text(again)]);
    let victim = Process::worker(&app);
    let mut page = ChatPage::open(&app, "crash", json!({ "body": { "agent": "writer" } })).await;
    page.does("begin", json!({ "text": "Write" })).await;
    match mode {
        WordsMode::Live => {
            page.does("words", json!({ "atLeast": 10 })).await;
        }
        WordsMode::Safe => {
            let begun = app.model.wait_for(support::LIMIT, |counts| counts.requests == 1).await;
            begun.expect("the model is asked");
        }
    }
    victim.kill();
    let _heir = Process::worker(&app);
    let state = page.does("rest", json!({})).await;
    let stored = stored(&app, "crash").await.remove(0);
    (state, stored)
}

#[tokio::test]
async fn words_are_shown_once_after_a_killed_worker() {
    if !chat_page::is_there() {
        return;
    }
    // The words of `hang_after`, and more.
    let whole: String = (0..30).map(|number| format!("t{number} ")).collect();
    let (state, stored) = after_a_killed_worker(WordsMode::Live, &whole).await;
    assert_eq!((&state["everything"], &stored), (&json!(whole), &whole), "{state:#}");
}

#[tokio::test]
async fn other_words_than_those_of_a_killed_worker_replace_them() {
    if !chat_page::is_there() {
        return;
    }
    let (state, stored) = after_a_killed_worker(WordsMode::Live, "Something else").await;
    assert_eq!(
        (&state["text"], stored.as_str()),
        (&json!("Something else"), "Something else")
    );
    assert_ne!(state["everything"], state["text"]);
    let (state, stored) = after_a_killed_worker(WordsMode::Safe, "Something else").await;
    assert_eq!(
        (&state["everything"], stored.as_str()),
        (&json!("Something else"), "Something else")
    );
}

#[tokio::test]
async fn the_protocol_is_followed_on_the_wire() {
    let (app, options) = app_with("speaker", &[]).await;
    app.model.script([Reply::text("Hello")]);
    let id = Uuid::now_v7().to_string();
    let body = json!({
        "id": id, "trigger": "submit-message", "agent": options["body"]["agent"],
        "messages": [{ "id": "m1", "role": "user", "parts": [{ "type": "text", "text": "Hi" }] }],
    });
    let post = || app.client().request(Method::POST, "/api/ai/chat").json(&body).send();
    let response = post().await.expect("a response");
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(response.headers()["x-vercel-ai-ui-message-stream"], "v1");
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let run = response.headers()["x-run-id"].clone();
    let text = response.text().await.expect("a body");
    assert!(text.ends_with("data: [DONE]\n\n"), "{text}");
    // The same message again: the same run.
    let again = post().await.expect("a response");
    assert_eq!(again.headers()["x-run-id"], run);
    assert!(again.text().await.expect("a body").contains("Hello"));
    assert_eq!(app.model.requests().len(), 1);
    for chat in [id.as_str(), "unknown"] {
        let path = format!("/api/ai/chat/{chat}/stream");
        let response = app
            .client()
            .request(Method::GET, &path)
            .send()
            .await
            .expect("a response");
        assert_eq!(response.status(), StatusCode::NO_CONTENT, "{path}");
    }
}
