//! `/mcp` with other people's clients, unmodified, each in the ways in which it connects: the protocol's own for TypeScript and for Python, and
//! FastMCP's. What the first of them alone is asked is in `endpoint` and `questions`; the command line of the MCP Inspector is in `inspector`.

use std::sync::Arc;

use rejoin_tests::app::{AppOptions, Process, TestApp};
use rejoin_tests::mcp;
use rejoin_tests::model_server::Reply;
use rejoin_tests::support::{LIMIT, wait_for};
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::endpoint::{Client, app, names};

/// Package and mode: `legacy` has a session, `auto` is the revision without one (2026-07-28).
const CLIENTS: [(&str, &str); 4] = [
    ("typescript", "legacy"),
    ("mcp", "legacy"),
    ("mcp", "auto"),
    ("fastmcp", "auto"),
];
/// Number of calls of each client whose streams are cut at random places.
const CUT_CALLS: usize = 20;

fn start((package, mode): (&str, &str), app: &TestApp, steps: Value) -> Client {
    let (url, key) = (format!("{}/mcp", app.url()), &app.db.api_key);
    match package {
        "typescript" => Client::start(&url, key, steps),
        _ => Client::in_python(package, mode, &url, key, steps),
    }
}

fn ask_of(agent: &str, message: &str) -> Value {
    json!({"call": "ask_agent", "arguments": {"message": message, "agent": agent}})
}

fn ask(message: &str) -> Value {
    ask_of("helper", message)
}

pub(super) fn words(n: usize) -> String {
    (0..n).map(|n| format!("word{n} ")).collect()
}

fn text(result: &Value) -> &str {
    result["content"][0]["text"]
        .as_str()
        .unwrap_or_else(|| panic!("{result:#}"))
}

async fn state(app: &TestApp, message: &str) -> Option<String> {
    sqlx::query_scalar("select state from kb.agent_runs where input = $1")
        .bind(message)
        .fetch_optional(&app.db.pool)
        .await
        .unwrap()
}

pub(super) async fn until(app: &TestApp, message: &str, wanted: &str) {
    wait_for(wanted, async || {
        (state(app, message).await.as_deref() == Some(wanted)).then_some(())
    })
    .await;
}

/// Waits until a run has written this number of rows of words.
pub(super) async fn rows(app: &TestApp, wanted: i64) {
    wait_for("words", async || {
        let count = sqlx::query_scalar("select count(*) from stream.events where type = 'token'");
        let rows: i64 = count.fetch_one(&app.db.pool).await.unwrap();
        (rows >= wanted).then_some(())
    })
    .await;
}

#[tokio::test]
async fn each_client_gets_tools_answers_data_and_errors() {
    if !mcp::are_there() {
        return;
    }
    let app = app().await;
    app.agent("helper", &["search_entities"]).await;
    let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": false});
    app.agent_with("places", &[], |content| {
        content.config = json!({"outputSchema": schema})
    })
    .await;
    for client in CLIENTS {
        app.model.on(
            "What does curl need?",
            [
                Reply::tool("search_entities", json!({"query": "curl"})),
                Reply::text("curl needs libssl3."),
            ],
        );
        app.model.on("Where?", [Reply::text(r#"{"city":"Oslo"}"#)]);
        app.model.on("Fail", [Reply::status(400)]);
        let mut with_a_file = ask("Read this");
        with_a_file["arguments"]["files"] = json!(["note.txt"]);
        let steps = json!([
            {"list": true},
            {"call": "search_entities", "arguments": {"query": "curl"}},
            ask("What does curl need?"),
            ask_of("places", "Where?"),
            ask("Fail"),
            ask_of("nobody", "Hello?"),
            with_a_file,
        ]);
        let mut driven = start(client, &app, steps);
        driven.next().await;
        let listed = driven.next().await;
        for tool in ["hybrid_search", "search_entities", "ask_agent"] {
            assert!(names(&listed).contains(&tool), "{client:?}: no {tool}");
        }
        let found = driven.next().await;
        assert_eq!(found["structuredContent"]["entities"][0]["key"], "curl", "{found:#}");

        let answer = driven.next().await;
        let content = &answer["structuredContent"];
        assert_eq!(
            (&content["reply"], &content["status"]),
            (&json!("curl needs libssl3."), &json!("completed")),
            "{client:?}: {answer:#}"
        );
        let progress = answer["progress"].as_array().unwrap();
        assert!(progress.contains(&json!("calls search_entities")), "{answer:#}");
        // Data is the text of the reply.
        let data = driven.next().await;
        let reply = data["structuredContent"]["reply"].as_str().unwrap_or_default();
        assert_eq!(
            serde_json::from_str::<Value>(reply).ok(),
            Some(json!({"city": "Oslo"})),
            "{data:#}"
        );

        let failed = driven.next().await;
        let content = &failed["structuredContent"];
        assert_eq!(
            (&failed["isError"], &content["status"]),
            (&json!(true), &json!("failed")),
            "{failed:#}"
        );
        assert!(content["error"].is_string(), "{failed:#}");
        for words in ["there is no agent nobody", "wrong arguments"] {
            let refused = driven.next().await;
            assert_eq!(refused["isError"], true, "{refused:#}");
            assert!(text(&refused).contains(words), "{refused:#}");
        }
    }
}

#[tokio::test]
async fn each_clients_user_answers_a_question() {
    if !mcp::are_there() {
        return;
    }
    let app = TestApp::start().await;
    app.agent("helper", &["ask_user"]).await;
    let options = json!([{"label": "Red", "value": "red"}, {"label": "Blue", "value": "blue"}]);
    for client in CLIENTS {
        app.model.script([
            Reply::tool("ask_user", json!({"question": "Which colour?", "options": options})),
            Reply::text("Blue it is."),
        ]);
        let answers = json!([{"action": "accept", "content": {"answer": "blue"}}]);
        let mut driven = start(client, &app, json!([{"answers": answers}, ask("Paint it")]));
        driven.next().await;
        let asked = driven.next().await["asked"].clone();
        assert_eq!(asked["message"], "Which colour?", "{client:?}: {asked:#}");
        let offered = &asked["requestedSchema"]["properties"]["answer"]["oneOf"];
        assert_eq!(offered[1], json!({"const": "blue", "title": "Blue"}));
        let answer = driven.next().await["structuredContent"].clone();
        assert_eq!(
            (&answer["reply"], &answer["status"]),
            (&json!("Blue it is."), &json!("completed")),
            "{client:?}: {answer:#}"
        );
    }
}

#[tokio::test]
async fn a_cancelled_call_cancels_its_run() {
    if !mcp::are_there() {
        return;
    }
    let app = app().await;
    app.agent("helper", &["search_entities"]).await;
    for client in CLIENTS {
        let message = format!("Never {client:?}");
        let search = Reply::tool("search_entities", json!({"query": "curl"}));
        app.model.on(&message, [search, Reply::hang()]);
        let mut call = ask(&message);
        call["cancelAfterProgress"] = json!(true);
        // It waits: an ending process would lose the notification that it is about to send.
        let mut driven = start(client, &app, json!([call, {"list": true}, {"wait": true}]));
        driven.next().await;
        let cancelled = driven.next().await;
        assert!(cancelled["failed"].is_string(), "{client:?}: {cancelled:#}");
        until(&app, &message, "cancelled").await;
    }
}

/// Without a session, closing the connection is how a client cancels. A server that stops closes it, too.
#[tokio::test]
async fn without_a_session_a_lost_client_cancels_a_stop_does_not() {
    if !mcp::are_there() {
        return;
    }
    let mut app = app().await;
    app.agent("helper", &["search_entities"]).await;
    let search = || Reply::tool("search_entities", json!({"query": "curl"}));
    let gate = Arc::new(Notify::new());
    app.model.on("Never", [search(), Reply::hang()]);
    app.model
        .on("Go on", [search(), Reply::text("There it is.").gate(gate.clone())]);
    let mut dies = start(("mcp", "auto"), &app, json!([ask("Never")]));
    dies.next().await;
    let asked = app.model.wait_for(LIMIT, |counts| counts.requests == 2).await;
    asked.expect("the model is asked again");
    dies.child.kill().await.unwrap();
    until(&app, "Never", "cancelled").await;

    let mut stays = start(("mcp", "auto"), &app, json!([ask("Go on")]));
    stays.next().await;
    // Its response has begun with the call of the tool.
    let asked = app.model.wait_for(LIMIT, |counts| counts.requests == 4).await;
    asked.expect("the model is asked again");
    app.restart_api().await;
    let failed = stays.next().await;
    assert!(failed["failed"].is_string(), "{failed:#}");
    gate.notify_one();
    until(&app, "Go on", "completed").await;
}

/// It says nothing before its end, which is later than other requests may take.
#[tokio::test]
async fn a_long_silent_call_is_waited_for() {
    if !mcp::are_there() {
        return;
    }
    let app = TestApp::start().await;
    app.agent("helper", &[]).await;
    app.model.script([Reply::text("Late.").delay_ms(27_000)]);
    let mut driven = start(("mcp", "auto"), &app, json!([ask("Think")]));
    driven.next().await;
    let answer = driven.next().await;
    assert_eq!(answer["structuredContent"]["reply"], "Late.", "{answer:#}");
}

#[tokio::test]
async fn a_killed_worker_costs_no_client_its_answer() {
    if !mcp::are_there() {
        return;
    }
    let whole: String = (0..30).map(|n| format!("other{n} ")).collect();
    for client in CLIENTS {
        let app = TestApp::with(AppOptions {
            workers: 0,
            ..AppOptions::default()
        })
        .await;
        app.agent("helper", &[]).await;
        app.model.script([Reply::hang_after(10), Reply::text(&whole)]);
        let victim = Process::worker(&app);
        let mut driven = start(client, &app, json!([ask("write")]));
        driven.next().await;
        rows(&app, 1).await;
        victim.kill();
        let _heir = Process::worker(&app);
        let answer = driven.next().await;
        assert_eq!(answer["structuredContent"]["reply"], whole, "{client:?}: {answer:#}");
    }
}

/// With a session, a client reads on and gets the result. Without one, its call fails, and the answer is in the conversation.
#[tokio::test]
async fn an_answer_survives_a_killed_api() {
    if !mcp::are_there() {
        return;
    }
    for client in CLIENTS {
        let mut app = TestApp::start().await;
        app.agent("helper", &[]).await;
        let api = app.api_in_a_process().await;
        app.model.script([Reply::text(words(200)).words_every(20)]);
        let mut driven = start(client, &app, json!([ask("write")]));
        driven.next().await;
        rows(&app, 10).await;
        api.kill();
        let _api = Process::api_at(&app, app.address, None, &[]).await;
        assert_eq!(state(&app, "write").await.as_deref(), Some("running"), "{client:?}");
        if client.1 == "legacy" {
            let answer = driven.next().await;
            assert_eq!(
                answer["structuredContent"]["reply"],
                words(200),
                "{client:?}: {answer:#}"
            );
        } else if let Some(answer) = driven.next_or_end().await {
            // FastMCP's client ends.
            assert!(answer["failed"].is_string(), "{client:?}: {answer:#}");
        }
        until(&app, "write", "completed").await;
        let mut lists = start(client, &app, json!([{"resources": true}]));
        lists.next().await;
        let listed = lists.next().await;
        let steps = json!([{"read": listed["resources"][0]["uri"]}]);
        let mut reader = start(client, &app, steps);
        reader.next().await;
        let read = reader.next().await;
        let document = read["contents"][0]["text"]
            .as_str()
            .unwrap_or_else(|| panic!("{client:?}: {read:#}"));
        let document: Value = serde_json::from_str(document).unwrap();
        assert_eq!(document["messages"][1]["content"], words(200), "{client:?}");
    }
}

/// Those with a session. Without one, a client that is cut off has cancelled its call.
#[tokio::test]
async fn calls_whose_streams_are_cut_get_their_results() {
    if !mcp::are_there() {
        return;
    }
    for client in CLIENTS.into_iter().filter(|(_, mode)| *mode == "legacy") {
        let app = TestApp::start().await;
        app.agent("helper", &[]).await;
        app.model.always("write", Reply::text(words(40)).words_every(20));
        let calls: Vec<Value> = (0..CUT_CALLS).map(|nth| ask(&format!("write {nth}"))).collect();
        let mut driven = start(client, &app, json!([{"cutSeed": 1}, {"together": calls}]));
        driven.next().await;
        let said = driven.next().await;
        assert_eq!(said["cuts"], CUT_CALLS, "{client:?}");
        for result in said["results"].as_array().unwrap() {
            assert_eq!(
                result["structuredContent"]["reply"],
                words(40),
                "{client:?}: {result:#}"
            );
        }
        assert_eq!(app.model.requests().len(), CUT_CALLS, "each call is one run");
    }
}
