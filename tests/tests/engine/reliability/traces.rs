//! Traces, as a real collector receives them: they continue over the API, the queue, sub-agents and a killed worker. A collector that does not
//! respond changes nothing, and without one there are no traces.

use std::collections::BTreeSet;
use std::net::TcpListener;

use rejoin_telemetry::TelemetryArgs;
use rejoin_tests::app::{AppOptions, Process, TestApp};
use rejoin_tests::client::{answer, json_of, of_kind};
use rejoin_tests::collector::{Collector, Received};
use rejoin_tests::model_server::Reply;
use rejoin_tests::replies::spawn;
use rejoin_tests::support;
use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const CALLER: &str = "b7ad6b7169203331";

/// The agents of these tests: `boss` calls a tool and starts `leaf`.
async fn boss(app: &TestApp) -> Uuid {
    app.agent("leaf", &[]).await;
    app.agent("boss", &["schema_version", "spawn_agents"]).await
}

/// The replies of `boss`.
fn replies() -> [Reply; 3] {
    [
        Reply::tool("schema_version", json!({})).counted(100, 10),
        spawn(&[("leaf", "part")]).counted(120, 12),
        Reply::text("A quayside.").counted(150, 15),
    ]
}

/// Posts a message with this `traceparent`.
async fn post(app: &TestApp, agent: Uuid, traceparent: Option<&str>) -> Value {
    let mut request = app
        .client()
        .request(Method::POST, "/api/chat/stream")
        .header("accept", "application/json")
        .json(&json!({"message": "What is at the harbour?", "agentDefinitionId": agent}));
    if let Some(traceparent) = traceparent {
        request = request.header("traceparent", traceparent);
    }
    let (status, posted) = answer(request.send().await.expect("an answer")).await;
    assert_eq!(status.as_u16(), 202, "{posted}");
    posted
}

/// Returns the stored `traceparent` of each run, parents first.
async fn stored(app: &TestApp) -> Vec<Option<String>> {
    sqlx::query_scalar("select traceparent from kb.agent_runs order by depth")
        .fetch_all(&app.db.pool)
        .await
        .expect("the runs")
}

fn named<'a>(spans: &'a [Received], name: &str) -> Vec<&'a Received> {
    spans.iter().filter(|span| span.name == name).collect()
}

/// Returns the only span with this name and attribute.
fn one<'a>(spans: &'a [Received], name: &str, attribute: &str, value: &str) -> &'a Received {
    let found: Vec<&Received> = named(spans, name)
        .into_iter()
        .filter(|span| span.get(attribute) == value)
        .collect();
    assert_eq!(found.len(), 1, "spans {name} with {attribute} {value}: {spans:#?}");
    found[0]
}

fn has(spans: &[Received], name: &str, outcome: &str) -> bool {
    named(spans, name)
        .iter()
        .any(|span| span.get("rejoin.outcome") == outcome)
}

#[tokio::test]
async fn a_trace_continues_over_sub_agents_and_a_killed_worker() {
    let Some(collector) = Collector::start().await else {
        return;
    };
    let app = TestApp::with(AppOptions {
        workers: 0,
        telemetry: TelemetryArgs::to(&collector.endpoint),
        ..AppOptions::default()
    })
    .await;
    let boss = boss(&app).await;
    app.model.on("harbour", replies());
    app.model
        .on("part", [Reply::hang_after(1), Reply::text("Found.").counted(30, 3)]);
    let variables = [("OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint.clone())];
    let victim = Process::worker_with(&app, &variables);
    let posted = post(&app, boss, Some(&format!("00-{TRACE}-{CALLER}-01"))).await;
    let leaf_speaks = app.model.wait_for(support::LIMIT, |counts| counts.requests == 3);
    leaf_speaks.await.unwrap();
    // What has ended is sent within a second; the rest is lost with the process.
    let suspended = |spans: &[Received]| has(spans, "invoke_agent boss", "Str(suspended)");
    collector.wait_for("the suspended attempt", suspended).await;
    victim.kill();
    let _heir = Process::worker_with(&app, &variables);
    app.wait_until_idle().await;
    let ended = |spans: &[Received]| {
        has(spans, "invoke_agent boss", "Str(completed)") && has(spans, "invoke_agent leaf", "Str(completed)")
    };
    let spans = collector.wait_for("the end of the run", ended).await;

    let traces: BTreeSet<&str> = spans.iter().map(|span| span.trace.as_str()).collect();
    assert_eq!(traces, BTreeSet::from([TRACE]), "{spans:#?}");
    let request = one(&spans, "POST /api/chat/stream", "http.request.method", "Str(POST)");
    assert_eq!(
        (request.parent.as_str(), request.kind.as_str(), request.service.as_str()),
        (CALLER, "SPAN_KIND_SERVER", "rejoin-api")
    );
    let run = format!("Str({})", posted["runId"].as_str().unwrap());
    let conversation = format!("Str({})", posted["conversationId"].as_str().unwrap());
    assert_eq!(request.get("rejoin.run.id"), run);

    let first = one(&spans, "invoke_agent boss", "rejoin.outcome", "Str(suspended)");
    let second = one(&spans, "invoke_agent boss", "rejoin.outcome", "Str(completed)");
    for (attempt, number) in [(first, "Int(1)"), (second, "Int(2)")] {
        assert_eq!(
            (attempt.parent.as_str(), attempt.kind.as_str(), attempt.service.as_str()),
            (request.id.as_str(), "SPAN_KIND_INTERNAL", "rejoin-worker")
        );
        assert_eq!(attempt.get("rejoin.attempt"), number);
        assert_eq!(attempt.get("rejoin.run.id"), run);
        assert_eq!(attempt.get("gen_ai.conversation.id"), conversation);
        assert_eq!(attempt.get("gen_ai.operation.name"), "Str(invoke_agent)");
        assert_eq!(attempt.get("gen_ai.agent.name"), "Str(boss)");
        assert_eq!(attempt.get("gen_ai.agent.id"), format!("Str({boss})"));
        assert_eq!(
            attempt.get("rejoin.workspace.id"),
            format!("Str({})", app.db.workspace_id)
        );
    }
    let tool = one(
        &spans,
        "execute_tool schema_version",
        "gen_ai.tool.type",
        "Str(function)",
    );
    assert_eq!(tool.parent, first.id);
    assert_eq!(tool.get("gen_ai.tool.name"), "Str(schema_version)");
    assert!(tool.get("gen_ai.tool.call.id").starts_with("Str(call_"), "{tool:?}");
    let begun = one(&spans, "execute_tool spawn_agents", "rejoin.suspended", "Bool(true)");
    let ended = one(&spans, "execute_tool spawn_agents", "rejoin.suspended", "");
    assert_eq!((&begun.parent, &ended.parent), (&first.id, &second.id));
    // The first attempt of this run is lost with its worker.
    let leaf = one(&spans, "invoke_agent leaf", "rejoin.outcome", "Str(completed)");
    assert_eq!(leaf.parent, begun.id);
    assert_ne!(leaf.get("rejoin.attempt"), "Int(1)");

    let chats = named(&spans, "chat scripted");
    let parents: Vec<&str> = chats.iter().map(|chat| chat.parent.as_str()).collect();
    for (attempt, calls) in [(first, 2), (second, 1), (leaf, 1)] {
        let of_attempt = parents.iter().filter(|parent| **parent == attempt.id).count();
        assert_eq!(of_attempt, calls, "{}: {chats:#?}", attempt.name);
    }
    for chat in &chats {
        assert_eq!(chat.kind, "SPAN_KIND_CLIENT");
        assert_eq!(chat.get("gen_ai.operation.name"), "Str(chat)");
        assert_eq!(chat.get("gen_ai.provider.name"), "Str(openai)");
        assert_eq!(chat.get("gen_ai.request.model"), "Str(scripted)");
        assert!(chat.get("gen_ai.response.time_to_first_chunk").starts_with("Double("));
    }
    let reasons: BTreeSet<&str> = chats
        .iter()
        .map(|chat| chat.get("gen_ai.response.finish_reasons"))
        .collect();
    assert_eq!(reasons, BTreeSet::from(["Slice(Str(stop))", "Slice(Str(tool_calls))"]));
    let sum = |name: &str| chats.iter().map(|chat| chat.number(name)).sum::<i64>();
    let used = (sum("gen_ai.usage.input_tokens"), sum("gen_ai.usage.output_tokens"));
    let stored_usage: (i64, i64) = sqlx::query_as(
        "select sum((usage ->> 'inputTokens')::bigint)::bigint, sum((usage ->> 'outputTokens')::bigint)::bigint from kb.agent_runs",
    )
    .fetch_one(&app.db.pool)
    .await
    .unwrap();
    assert_eq!((used, stored_usage), ((400, 40), (400, 40)));

    let output = collector.output();
    for word in ["harbour", "quayside", "Found."] {
        assert!(!output.contains(word), "a span contains a message or an answer: {word}");
    }
}

#[tokio::test]
async fn runs_without_a_stored_trace_share_one() {
    let Some(collector) = Collector::start().await else {
        return;
    };
    let app = TestApp::with(AppOptions {
        telemetry: TelemetryArgs::to(&collector.endpoint),
        api: |config| config.telemetry = TelemetryArgs::default(),
        ..AppOptions::default()
    })
    .await;
    let boss = boss(&app).await;
    app.model.on("harbour", replies());
    app.model.on("part", [Reply::text("Found.")]);
    post(&app, boss, None).await;
    app.wait_until_idle().await;
    let ended = |spans: &[Received]| has(spans, "invoke_agent boss", "Str(completed)");
    let spans = collector.wait_for("the end of the run", ended).await;
    let traces: BTreeSet<&str> = spans.iter().map(|span| span.trace.as_str()).collect();
    assert_eq!(traces.len(), 1, "{spans:#?}");
    assert_ne!(traces, BTreeSet::from([TRACE]));
    for attempt in named(&spans, "invoke_agent boss") {
        assert_eq!(attempt.parent, "", "there is no request in the trace");
    }
    let begun = one(&spans, "execute_tool spawn_agents", "rejoin.suspended", "Bool(true)");
    let leaf = one(&spans, "invoke_agent leaf", "rejoin.outcome", "Str(completed)");
    assert_eq!(leaf.parent, begun.id);
    let of_call = format!("00-{}-{}-01", begun.trace, begun.id);
    assert_eq!(stored(&app).await, [None, Some(of_call)]);
}

#[tokio::test]
async fn an_unsampled_trace_is_not_sent() {
    let Some(collector) = Collector::start().await else {
        return;
    };
    let app = TestApp::with(AppOptions {
        telemetry: TelemetryArgs::to(&collector.endpoint),
        ..AppOptions::default()
    })
    .await;
    let boss = boss(&app).await;
    app.model.on("harbour", [Reply::text("No."), Reply::text("Yes.")]);
    post(&app, boss, Some(&format!("00-{TRACE}-{CALLER}-00"))).await;
    app.wait_until_idle().await;
    // Sent after what is not sent.
    post(&app, boss, None).await;
    app.wait_until_idle().await;
    let ended = |spans: &[Received]| has(spans, "invoke_agent boss", "Str(completed)");
    let spans = collector.wait_for("the second run", ended).await;
    assert!(spans.iter().all(|span| span.trace != TRACE), "{spans:#?}");
    let of_first = stored(&app)
        .await
        .into_iter()
        .flatten()
        .find(|stored| stored.contains(TRACE));
    assert!(of_first.is_some_and(|stored| stored.ends_with("-00")));
}

#[tokio::test]
async fn without_a_collector_only_the_callers_trace_is_stored() {
    let app = TestApp::start().await;
    let boss = boss(&app).await;
    let header = format!("00-{TRACE}-{CALLER}-01");
    for (sent, kept) in [
        (None, None),
        (Some(header.as_str()), Some(header.clone())),
        (Some("00-1-2-01"), None),
    ] {
        app.model.on("harbour", replies());
        app.model.on("part", [Reply::text("Found.")]);
        post(&app, boss, sent).await;
        app.wait_until_idle().await;
        assert_eq!(stored(&app).await, [kept.clone(), kept], "{sent:?}");
        sqlx::query("delete from kb.chat_conversations")
            .execute(&app.db.pool)
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn a_collector_that_does_not_respond_changes_no_run() {
    // It accepts connections, and answers none.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent_at = format!("http://{}", silent.local_addr().unwrap());
    // Nothing listens there.
    let closed_at = "http://127.0.0.1:9".to_owned();
    for endpoint in [silent_at, closed_at] {
        let mut app = TestApp::with(AppOptions {
            telemetry: TelemetryArgs::to(endpoint.as_str()),
            ..AppOptions::default()
        })
        .await;
        let boss = boss(&app).await;
        app.model.on("harbour", replies());
        app.model.on("part", [Reply::text("Found.")]);
        let events = json_of(&app.client().ask(Some(boss), "What is at the harbour?").await);
        assert_eq!(of_kind(&events, "done")[0]["status"], "completed", "{endpoint}");
        app.wait_until_idle().await;
        // The process ends in time, without its last spans.
        let worker = app.workers.pop().expect("a worker");
        let ended = tokio::time::timeout(support::LIMIT, worker.drain()).await;
        assert!(ended.is_ok(), "{endpoint}");
    }
}
