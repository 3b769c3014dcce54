//! Text that PostgreSQL can't store: NUL from a model, a tool, an MCP server, or a trigger. It must cost neither the
//! run nor a second attempt. And what the database rejects permanently must not be retried.

use std::sync::Arc;

use async_trait::async_trait;
use rejoin_tests::app::{AppOptions, TestApp};
use rejoin_tests::client::{Frame, json_of, kinds, of_kind, text};
use rejoin_tests::mcp::{self, Shop};
use rejoin_tests::model_server::Reply;
use rejoin_tools::registry::Registry;
use rejoin_tools::{Tool, ToolContext, ToolError, ToolSpec};
use serde_json::{Value, json};
use uuid::Uuid;

use rejoin_tests::support;

/// A tool that returns content of an external database.
struct Odd(ToolSpec);

impl Odd {
    fn registry() -> Registry {
        Registry::new([Arc::new(Self(ToolSpec {
            name: "odd".to_owned(),
            description: "Returns an odd text.".to_owned(),
            parameters: json!({"type": "object", "properties": {"text": {"type": "string"}}}).into(),
            read_only: true,
            idempotent: true,
            destructive: false,
        })) as Arc<dyn Tool>])
    }
}

#[async_trait]
impl Tool for Odd {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    async fn call(&self, _: &ToolContext, arguments: Value) -> Result<Value, ToolError> {
        match arguments["text"].as_str() {
            Some("fail") => Err(ToolError::RespondToModel("it \0failed".to_owned())),
            _ => Ok(json!({"key\0": ["A\0B", {"deep": "\0"}], "plain": "\u{1}\\u0000"})),
        }
    }
}

async fn app() -> (TestApp, Uuid) {
    let app = TestApp::with(AppOptions {
        tools: Odd::registry(),
        ..AppOptions::default()
    })
    .await;
    let agent = app.agent("reader", &["odd"]).await;
    (app, agent)
}

/// Posts a message, and reads its run to the end.
async fn turn(app: &TestApp, agent: Uuid) -> Vec<Frame> {
    let posted = app
        .client()
        .post_message(json!({"message": "go", "agentDefinitionId": agent}))
        .await;
    let path = format!("/api/runs/{}/events", posted["runId"].as_str().unwrap());
    app.client().stream(&path).await.rest().await
}

/// Returns the attempts and ends of all runs, and the number of model calls.
async fn attempts(app: &TestApp) -> (Vec<(i32, String)>, usize) {
    let runs = sqlx::query_as("select attempt, state from kb.agent_runs order by id")
        .fetch_all(&app.db.pool)
        .await
        .unwrap();
    (runs, app.model.requests().len())
}

fn once(state: &str) -> Vec<(i32, String)> {
    vec![(1, state.to_owned())]
}

#[tokio::test]
async fn a_nul_in_arguments_costs_neither_the_call_nor_an_attempt() {
    let (app, agent) = app().await;
    app.model
        .script([Reply::tool("odd", json!({"text": "a\0b"})), Reply::text("done")]);
    let frames = turn(&app, agent).await;
    let events = json_of(&frames);
    let started = of_kind(&events, "mcp_tool")[0];
    assert_eq!(started["input"], json!({"text": "a\u{FFFD}b"}));
    assert_eq!(text(&frames), "done");
    assert_eq!(attempts(&app).await, (once("completed"), 2));
}

#[tokio::test]
async fn a_nul_in_a_tools_result_or_error_is_replaced_wherever_it_is() {
    let (app, agent) = app().await;
    app.model.script([
        Reply::tools([("odd", json!({"text": "b"})), ("odd", json!({"text": "fail"}))]),
        Reply::text("done"),
    ]);
    let frames = turn(&app, agent).await;
    let events = json_of(&frames);
    let ends: Vec<&Value> = of_kind(&events, "mcp_tool")
        .into_iter()
        .filter(|event| event["status"] != "started")
        .collect();
    // Text that only looks like an escaped NUL stays unchanged.
    assert_eq!(
        ends[0]["result"],
        json!({"key\u{FFFD}": ["A\u{FFFD}B", {"deep": "\u{FFFD}"}], "plain": "\u{1}\\u0000"})
    );
    assert_eq!(ends[1]["error"], "it \u{FFFD}failed");
    assert_eq!(attempts(&app).await, (once("completed"), 2));
}

#[tokio::test]
async fn a_nul_from_a_model_is_replaced_in_events_and_messages() {
    let (app, agent) = app().await;
    app.model.script([
        Reply::text("one\0 two").reasoning("hm\0").then_tool("o\0dd", json!({})),
        Reply::text("thr\0ee"),
    ]);
    let frames = turn(&app, agent).await;
    let events = json_of(&frames);
    let reply = "one\u{FFFD} two\n\nthr\u{FFFD}ee";
    assert_eq!(text(&frames), reply);
    assert_eq!(of_kind(&events, "reasoning")[0]["text"], "hm\u{FFFD}");
    let last = of_kind(&events, "message").pop().unwrap();
    assert_eq!(last["message"]["content"], reply);
    let stored: Vec<String> =
        sqlx::query_scalar("select content from kb.chat_messages where role = 'assistant' order by id")
            .fetch_all(&app.db.pool)
            .await
            .unwrap();
    assert_eq!(stored, [reply]);
    assert_eq!(attempts(&app).await, (once("completed"), 2));
}

#[tokio::test]
async fn half_a_surrogate_pair_in_arguments_costs_no_attempt() {
    let (app, agent) = app().await;
    app.model
        .script([Reply::tool_text("odd", r#"{"text": "\ud800"}"#), Reply::text("done")]);
    let frames = turn(&app, agent).await;
    assert_eq!(text(&frames), "done");
    assert_eq!(attempts(&app).await, (once("completed"), 2));
}

#[tokio::test]
async fn a_nul_in_an_mcp_servers_answer_is_replaced() {
    if !mcp::are_there() {
        return;
    }
    let shop = Shop::open().await;
    let ledger = mcp::ledger();
    shop.add_odd(&ledger).await;
    let agent = shop.app.agent("user", &["odd_*"]).await;
    let called = shop.call(agent, "odd_big", json!({"bytes": 0})).await;
    assert_eq!(
        (called.status.as_str(), &called.output),
        ("completed", &json!("A\u{FFFD}B"))
    );
    assert_eq!(attempts(&shop.app).await, (once("completed"), 2));
}

#[tokio::test]
async fn a_nul_in_a_triggers_input_is_replaced() {
    let (app, agent) = app().await;
    for (input, stored) in [
        (json!("a\0b"), "a\u{FFFD}b"),
        (json!({"k": "a\0"}), "{\"k\":\"a\u{FFFD}\"}"),
    ] {
        app.model.script([Reply::text("done")]);
        let path = format!("/api/projects/{}/agents/{agent}/trigger", app.db.workspace_id);
        let (status, triggered) = app.client().post(&path, json!({"input": input})).await;
        assert_eq!(status, 202, "{triggered}");
        let run: Uuid = triggered["runId"].as_str().unwrap().parse().unwrap();
        let frames = app
            .client()
            .stream(&format!("/api/runs/{run}/events"))
            .await
            .rest()
            .await;
        assert_eq!(text(&frames), "done");
        let row: (i32, String) = sqlx::query_as("select attempt, input from kb.agent_runs where id = $1")
            .bind(run)
            .fetch_one(&app.db.pool)
            .await
            .unwrap();
        assert_eq!(row, (1, stored.to_owned()));
    }
}

/// Makes the database reject this for a run, permanently.
async fn refuse(app: &TestApp, table: &str, when: &str) {
    let sql = format!(
        "create function refuse() returns trigger language plpgsql as $$
         begin raise exception 'value too long for its column' using errcode = '22001'; end $$;
         create trigger refuse before insert or update on {table} for each row when ({when}) execute function refuse()"
    );
    sqlx::raw_sql(sqlx::AssertSqlSafe(sql))
        .execute(&app.db.pool)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_permanent_database_refusal_ends_the_run_at_once() {
    let (app, agent) = app().await;
    refuse(&app, "kb.agent_run_messages", "new.role = 'assistant'").await;
    app.model.script([Reply::text("never stored")]);
    let frames = turn(&app, agent).await;
    assert_eq!(
        kinds(&frames),
        ["message", "meta", "token", "error", "message", "done"],
        "what was streamed stays"
    );
    let events = json_of(&frames);
    let error = of_kind(&events, "error")[0];
    assert_eq!(
        (&error["code"], &error["retryable"]),
        (&json!("refused_by_database"), &json!(false))
    );
    assert!(error["error"].as_str().unwrap().contains("value too long"), "{error}");
    assert_eq!(frames.last().unwrap().json()["status"], "failed");
    assert_eq!(attempts(&app).await, (once("failed"), 1));
    app.wait_until_idle().await;
}

#[tokio::test]
async fn an_answer_that_cannot_be_stored_is_left_out() {
    let (app, agent) = app().await;
    refuse(&app, "kb.chat_messages", "new.role = 'assistant'").await;
    app.model.script([Reply::text("never stored")]);
    let frames = turn(&app, agent).await;
    assert_eq!(kinds(&frames), ["message", "meta", "token", "usage", "error", "done"]);
    assert_eq!(frames.last().unwrap().json()["status"], "failed");
    assert_eq!(attempts(&app).await, (once("failed"), 1));
    app.wait_until_idle().await;
    support::wait_for("the run's error", async || {
        let error: Option<String> = sqlx::query_scalar("select error_code from kb.agent_runs")
            .fetch_one(&app.db.pool)
            .await
            .unwrap();
        (error.as_deref() == Some("refused_by_database")).then_some(())
    })
    .await;
}
