//! Runs that no chat follows: in batch without a callback, and triggered with a log of their own.

use rejoin_runs::{agents, builtin};
use rejoin_tests::app::{AppOptions, TestApp};
use rejoin_tests::client::kinds;
use rejoin_tests::model_server::Reply;
use reqwest::StatusCode;
use serde_json::json;
use uuid::Uuid;

use super::turns::rows;
use rejoin_tests::support;

/// Requirements: B10.
#[tokio::test]
async fn without_a_callback_the_executor_emits_nothing() {
    use rejoin_event_log::stream::RunStream;
    use rejoin_extension::Signals;
    use rejoin_model_client::fallback::{Candidate, Candidates};
    use rejoin_model_client::name::ModelSettings;
    use rejoin_runs::runs::TreeUse;
    use rejoin_tools::registry::Patterns;
    use rejoin_worker::run::limits::TreeLimits;
    use rejoin_worker::run::{End, ExecuteRequest, Execution, Limits, history};
    use rejoin_worker::{Services, WorkerConfig};
    use std::sync::Arc;
    use std::time::Duration;
    use tokio_util::sync::CancellationToken;

    let app = TestApp::with(AppOptions {
        workers: 0,
        ..AppOptions::default()
    })
    .await;
    let agent = app.agent("batch", &["schema_version"]).await;
    app.model.script([
        Reply::text("thinking").then_tool("schema_version", json!({})),
        Reply::text("done"),
    ]);
    let posted = app
        .client()
        .post_message(json!({"message": "hi", "agentDefinitionId": agent}))
        .await;
    let run_id: Uuid = posted["runId"].as_str().unwrap().parse().unwrap();
    let bus = rejoin_event_log::wakeup::polling();
    let settings = ModelSettings::openai_compatible(app.model.base_url());
    let services = Services::with(
        WorkerConfig::new(&app.db.url),
        app.db.db.clone(),
        bus,
        settings,
        builtin::tools(),
    )
    .unwrap();
    rejoin_queue::claim(
        &app.db.db.pool_pg,
        "default",
        Uuid::now_v7(),
        Duration::from_secs(15),
        1,
        &mut rejoin_queue::ClaimCursor::default(),
    )
    .await
    .unwrap();
    let run = rejoin_runs::runs::get(&app.db.pool, run_id).await.unwrap().unwrap();
    let definition = agents::find_by_name(&app.db.pool, app.db.workspace_id, "batch")
        .await
        .unwrap();
    let records = rejoin_worker::run::history::records_of(&services, &run).await.unwrap();
    let opening = rejoin_worker::run::history::initial_messages(&services, &run, definition.as_ref(), &records)
        .await
        .unwrap();
    for (role, content) in &opening.messages {
        let mut connection = app.db.pool.acquire().await.unwrap();
        let id = Uuid::now_v7();
        rejoin_runs::run_messages::append(&mut connection, run.id, id, role, content, 0)
            .await
            .unwrap();
    }
    let signals = Signals {
        cancel: CancellationToken::new(),
        lost: CancellationToken::new(),
        drain: CancellationToken::new(),
    };
    let request = ExecuteRequest {
        run: run.clone(),
        attempt: 1,
        tools: services
            .pools
            .resolve(run.workspace_id, &["schema_version".to_owned()])
            .await
            .unwrap(),
        models: Candidates::new(
            Candidate {
                model: services.models.resolve(Some("openai:scripted")).unwrap(),
                price: None,
            },
            [],
        ),
        temperature: None,
        max_tokens: None,
        effort: None,
        limits: Limits::new(
            None,
            Duration::from_secs(60),
            Duration::ZERO,
            Duration::ZERO,
            TreeLimits::default(),
            Default::default(),
        ),
        handoffs: Vec::new(),
        is_function: false,
        selection: Default::default(),
        client_tools: Default::default(),
        planning: Default::default(),
        tool_calls: None,
        may_repeat_calls: false,
        questions: None,
        confirm: Arc::new(Patterns::new(&[])),
        tree: TreeUse::default(),
        stream: Arc::new(RunStream {
            log_id: run.log_id,
            root_run_id: run.id,
            run_id: run.id,
            attempt: 1,
            lost: signals.lost.clone(),
            seen: Default::default(),
        }),
        signals,
        trace: None,
        callback: None,
        services,
    };
    let stored = history::rebuild(&request.services.db.pool_sqlx, &request.run)
        .await
        .unwrap();
    let end = Execution::of(request, stored, true).run().await;
    let End::Finished { text, .. } = end else {
        panic!("{end:?}")
    };
    assert_eq!(text, "thinking\n\ndone");
    let types = rows(&app, "select to_jsonb(type) from stream.each_event order by seq").await;
    assert_eq!(types, [json!("message")], "only what the post itself has told");
    let calls = rows(&app, "select to_jsonb(status) from kb.agent_run_tool_calls").await;
    assert_eq!(
        calls,
        [json!("completed")],
        "persistence is the executor's own, with or without a callback"
    );
}

#[tokio::test]
async fn a_triggered_run_has_its_own_log() {
    let app = TestApp::start().await;
    let agent = app.agent("nightly", &[]).await;
    app.model.script([Reply::text("report")]);
    let path = format!("/api/projects/{}/agents/{agent}/trigger", app.db.workspace_id);
    let (status, body) = app.client().post(&path, json!({"input": "go"})).await;
    assert_eq!((status, &body["cursor"]), (StatusCode::ACCEPTED, &json!(0)), "{body}");
    let run = body["runId"].as_str().unwrap();
    let frames = app
        .client()
        .stream(&format!("/api/runs/{run}/events"))
        .await
        .rest()
        .await;
    assert_eq!(kinds(&frames), ["meta", "token", "usage", "done"]);
    assert_eq!(frames[0].id, Some(1));
    support::wait_for("the end on record", async || {
        let (_, run) = app
            .client()
            .get(&format!("/api/projects/{}/agent-runs/{run}", app.db.workspace_id))
            .await;
        (run["state"] == "completed").then_some(())
    })
    .await;
}
