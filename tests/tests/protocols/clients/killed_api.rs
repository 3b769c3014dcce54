//! Each client while its answer is streamed by an API process that is killed, twice, and started again: its text is the stored one.

use rejoin_tests::a2a_clients::{self, A2aClient};
use rejoin_tests::app::{Process, TestApp};
use rejoin_tests::chat_page::{self, ChatPage};
use rejoin_tests::model_server::Reply;
use rejoin_tests::openai_clients::{self, Language, OpenAi};
use rejoin_tests::support;
use serde_json::{Value, json};

use super::ag_ui::{self, Page, replied};
use super::durable_streams::{LIVE, follow, result, text_of};

const KILLS: i64 = 2;
/// New rows with words before each kill.
const ROWS: i64 = 10;
const WORDS: usize = 200;
/// Pause between two words: the answer takes longer than the kills.
const WORD_EVERY_MS: u64 = 30;

fn words() -> String {
    (0..WORDS).map(|n| format!("word{n} ")).collect()
}

/// An app with an agent, whose API is a process, and whose model answers slowly.
async fn app() -> (TestApp, Process) {
    let mut app = TestApp::start().await;
    let visible = |content: &mut rejoin_runs::agents::DefinitionContent| {
        rejoin_runs::agents::EXTERNAL.clone_into(&mut content.visibility);
    };
    app.agent_with("writer", &[], visible).await;
    let api = app.api_in_a_process().await;
    app.model.script([Reply::text(words()).words_every(WORD_EVERY_MS)]);
    (app, api)
}

/// Kills the API whenever the answer has grown, and starts it again at its address.
async fn kill_again_and_again(app: &TestApp, mut api: Process) -> Process {
    for kill in 1..=KILLS {
        support::wait_for("words", async || {
            let count = sqlx::query_scalar("select count(*) from stream.events where type = 'token'");
            let rows: i64 = count.fetch_one(&app.db.pool).await.unwrap();
            (rows >= kill * ROWS).then_some(())
        })
        .await;
        api.kill();
        api = Process::api_at(app, app.address, None, &[]).await;
    }
    let sql = "select count(*) from kb.agent_runs where finished_at is null";
    let unfinished: i64 = sqlx::query_scalar(sql).fetch_one(&app.db.pool).await.unwrap();
    assert_eq!(unfinished, 1, "it was killed in the middle of the answer");
    api
}

/// The answer as it is stored.
async fn stored(app: &TestApp) -> String {
    sqlx::query_scalar("select content from kb.chat_messages where role = 'assistant'")
        .fetch_one(&app.db.pool)
        .await
        .unwrap()
}

#[tokio::test]
async fn openais_clients_go_on() {
    if !openai_clients::are_there() {
        return;
    }
    for language in [Language::JavaScript, Language::Python] {
        let (app, api) = app().await;
        let client = OpenAi::new(language, &app);
        let task = json!({"task": "resumes", "body": {"model": "writer", "input": "write"}});
        let (said, _api) = tokio::join!(client.runs(task), kill_again_and_again(&app, api));
        let shown = &said["result"];
        assert_eq!(shown["text"], words(), "{said:#}");
        assert_eq!(shown["final"]["output"][0]["content"][0]["text"], words());
        assert!(shown["breaks"].as_i64() >= Some(1), "{}", shown["breaks"]);
        assert_eq!(stored(&app).await, words());
    }
}

/// A completion has no cursor: the same request with the same key is the same completion.
#[tokio::test]
async fn openais_clients_repeat_a_completion() {
    if !openai_clients::are_there() {
        return;
    }
    for language in [Language::JavaScript, Language::Python] {
        let (app, api) = app().await;
        let client = OpenAi::new(language, &app);
        let body = json!({"model": "writer", "messages": [{"role": "user", "content": "write"}]});
        let task = json!({"task": "repeats", "body": body});
        let (said, _api) = tokio::join!(client.runs(task), kill_again_and_again(&app, api));
        assert_eq!(said["result"]["text"], words(), "{said:#}");
        assert!(said["result"]["breaks"].as_i64() >= Some(1), "{said:#}");
        assert_eq!(stored(&app).await, words());
    }
}

#[tokio::test]
async fn a_chat_page_of_the_ai_sdk_goes_on() {
    if !chat_page::is_there() {
        return;
    }
    for how in ["reload", "resume"] {
        let (app, api) = app().await;
        let mut page = ChatPage::open(&app, "killed", json!({ "body": { "agent": "writer" } })).await;
        page.does("begin", json!({ "text": "write" })).await;
        page.does("words", json!({ "atLeast": 10 })).await;
        let (_, _api) = tokio::join!(page.does("rest", json!({})), kill_again_and_again(&app, api));
        let state = page.does(how, json!({})).await;
        assert_eq!(state["everything"], words(), "{how}: {state:#}");
        assert_eq!(stored(&app).await, words());
    }
}

#[tokio::test]
async fn ag_uis_client_goes_on() {
    let (app, api) = app().await;
    let script = json!({"resumes": true, "actions": [{"message": "write"}]});
    let Some(mut page) = Page::with(&app, "writer", "killed", script) else {
        return;
    };
    let (shown, _api) = tokio::join!(page.next(), kill_again_and_again(&app, api));
    assert_eq!(replied(&shown), words(), "{shown:#}");
    // The second kill may come before it has connected again.
    assert!(shown["cuts"].as_i64() >= Some(1), "{}", shown["cuts"]);
    assert_eq!(ag_ui::stored(&app, "killed").await, words());
}

#[tokio::test]
async fn a2as_clients_go_on() {
    if !a2a_clients::are_there() {
        return;
    }
    for client in a2a_clients::CLIENTS {
        let (app, api) = app().await;
        let message = json!({"messageId": "1", "role": "ROLE_USER", "parts": [{"text": "write"}]});
        let calls = json!([{"call": "stream", "params": {"message": message}}]);
        let more = json!({"agent": "writer", "resumes": true});
        let mut client = A2aClient::start(client, &app, more, calls);
        let ((seen, said), _api) = tokio::join!(client.next(), kill_again_and_again(&app, api));
        assert_eq!(seen.answer(), words(), "{said:#}");
        assert_eq!(seen.state, "TASK_STATE_COMPLETED");
        assert!(said["result"]["cuts"].as_i64() >= Some(1), "{said:#}");
        assert_eq!(stored(&app).await, words());
    }
}

#[tokio::test]
async fn durable_streams_client_goes_on() {
    for live in LIVE {
        let (app, api) = app().await;
        let posted = app.client().post_message(json!({"message": "write"})).await;
        let run = posted["runId"].as_str().expect("an id");
        let path = format!("/api/durable-streams/runs/{run}");
        let mut task = follow(live, &json!("-1"));
        task["call"] = json!("resumes");
        let following = result(&app, &path, task);
        let (followed, _api) = tokio::join!(following, kill_again_and_again(&app, api));
        let Some(followed) = followed else { return };
        assert_eq!(text_of(&followed["items"]), words(), "{live}");
        let items = followed["items"].as_array().expect("items");
        let numbers: Vec<Option<i64>> = items.iter().map(|item: &Value| item["seq"].as_i64()).collect();
        assert!(numbers.is_sorted_by(|a, b| a < b), "{live}: {numbers:?}");
        assert_eq!(followed["closed"], true);
        assert_eq!(stored(&app).await, words());
    }
}
