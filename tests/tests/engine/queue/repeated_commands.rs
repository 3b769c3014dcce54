//! A worker's command whose answer is lost is repeated: it has no further effect, in whatever order the executions arrive.

use rejoin_commands::{
    AskedCall, Begun, CancelRun, Command, EndedCall, FencedError, FinishRun, Finished, PostMessage, RecordStep,
    StartRun, Started, ToolStarted, ToolsEnded,
};
use rejoin_event_log::group_commit::Unwritten;
use rejoin_event_log::log;
use rejoin_event_log::stream::Seen;
use rejoin_runs::runs::{self, Run};
use rejoin_runs::tool_calls::CallStatus;
use rejoin_types::events::{DoneStatus, Kind};
use rejoin_types::ids;
use serde_json::{Value, json};
use uuid::Uuid;

use rejoin_tests::jobs::claim;
use rejoin_tests::support::{self, TestDatabase};

async fn execute<C: Command<Error = FencedError>>(db: &TestDatabase, command: &C) -> C::Output {
    let executed = rejoin_commands::execute_patiently(&db.pool, command).await;
    executed.expect("the lease is held")
}

/// What the log and the run's records hold.
async fn records(db: &TestDatabase, log_id: Uuid, run_id: Uuid) -> (Vec<String>, Value) {
    let events = log::read(&db.db.pool_pg, log_id, 0).await.expect("the log");
    let rows = sqlx::query_scalar(
        "select jsonb_build_object(
             'run', (select to_jsonb(r) from kb.agent_runs r where id = $1),
             'messages', (select jsonb_agg(m order by position) from kb.agent_run_messages m where run_id = $1),
             'calls', (select jsonb_agg(c) from kb.agent_run_tool_calls c where run_id = $1),
             'chat', (select jsonb_agg(m order by seq) from kb.chat_messages m where conversation_id = $2))",
    )
    .bind(run_id)
    .bind(log_id)
    .fetch_one(&db.pool)
    .await
    .expect("the records");
    (events.iter().map(|event| event.kind.to_string()).collect(), rows)
}

/// The beginning of a run.
fn start(queued: &Run, attempt: i32) -> StartRun<'_> {
    StartRun {
        run: queued,
        attempt,
        model: "openai:scripted",
        agent_name: None,
        meta: Kind::Meta {
            conversation_id: queued.conversation_id,
            agent_definition_id: None,
            agent_name: None,
            model: "openai:scripted".to_owned(),
            model_requested: None,
            model_retired_on: None,
            citations: Vec::new(),
            attempt,
        },
        initial_messages: vec![("system", json!({"text": "s"})), ("user", json!({"text": "hello"}))],
        context: None,
        part: None,
        notices: Vec::new(),
        tells_routing: false,
        reason: "",
    }
}

/// A model's answer with these calls. `usage`: an empty object.
fn step<'a>(
    run: &'a Run,
    attempt: i32,
    seen: &'a Seen,
    calls: &'a [AskedCall<'a>],
    usage: &'a Value,
) -> RecordStep<'a> {
    RecordStep {
        run,
        attempt,
        seen,
        message_id: ids::new(),
        step_number: 1,
        streamed: &[],
        injected: &[],
        assistant: usage,
        calls,
        usage: Kind::Limit {
            limit: "test".to_owned(),
            message: String::new(),
        },
        usage_json: usage,
        tokens: 10,
        cost_usd: 0.5,
        steering_messages: &[],
        publish: true,
    }
}

fn ended<'a>(id: Uuid, call_id: &'a str, output: &'a Value) -> EndedCall<'a> {
    EndedCall {
        id,
        message_id: ids::new(),
        call_id,
        tool: "tool",
        status: CallStatus::Completed,
        output: Some(output),
        published: None,
        error: None,
        duration_ms: 1,
        result_message: json!({"text": "1"}),
        announce: None,
        operation: None,
        events: Vec::new(),
        context: None,
    }
}

#[tokio::test]
async fn a_repeated_command_has_no_further_effect() {
    let db = support::database().await;
    let posted = rejoin_commands::execute(&db.pool, &PostMessage::new(db.owner(), "hello"))
        .await
        .expect("it is posted");
    let job = claim(&db, 1).await.remove(0);
    let queued = runs::get(&db.pool, posted.run_id)
        .await
        .expect("a read")
        .expect("a run");
    let kept = async || records(&db, posted.conversation_id, posted.run_id).await;

    let start = start(&queued, job.attempt);
    let Begun { started, run, .. } = execute(&db, &start).await;
    assert_eq!((started, run.safe_seq), (Started::Fresh, Some(2)));
    let before = kept().await;
    assert_eq!(execute(&db, &start).await.run.safe_seq, Some(2));
    assert_eq!(kept().await, before, "StartRun");

    let seen = Seen::through(2);
    let (call, other) = (ids::new(), ids::new());
    let input = json!({});
    let asked = [(call, "c1"), (other, "c2")].map(|(id, call_id)| AskedCall {
        id,
        call_id,
        tool_name: "tool",
        input: &input,
    });
    let usage = json!({});
    let step = step(&run, job.attempt, &seen, &asked, &usage);
    assert_eq!(execute(&db, &step).await.tree.tokens, 10);
    let before = kept().await;
    assert_eq!(execute(&db, &step).await.tree.tokens, 10);
    assert_eq!(kept().await, before, "RecordStep");

    let begins = ToolStarted {
        run: &run,
        attempt: job.attempt,
        seen: &seen,
        id: call,
        call_id: "c1",
        tool: "tool",
        input: &input,
        operation: None,
        publish: true,
    };
    assert!(execute(&db, &begins).await.0);
    let before = kept().await;
    assert!(execute(&db, &begins).await.0);
    assert_eq!(kept().await, before, "ToolStarted");

    let output = json!(1);
    let ends = |calls| ToolsEnded {
        run: &run,
        attempt: job.attempt,
        seen: &seen,
        step_number: 1,
        calls,
        publish: true,
    };
    let one = [ended(call, "c1", &output)];
    execute(&db, &ends(&one)).await;
    let before = kept().await;
    execute(&db, &ends(&one)).await;
    assert_eq!(kept().await, before, "ToolsEnded");
    // One of these has ended before.
    let both = [ended(call, "c1", &output), ended(other, "c2", &output)];
    execute(&db, &ends(&both)).await;
    let after = kept().await;
    assert_eq!(after.0.len(), before.0.len() + 1, "{:?}", after.0);
    let added = |records: &Value| records["messages"].as_array().map_or(0, Vec::len);
    assert_eq!(added(&after.1), added(&before.1) + 1, "{}", after.1["messages"]);
    let before = after;
    execute(&db, &ends(&both)).await;
    assert_eq!(kept().await, before, "ToolsEnded, of two calls");
    execute(&db, &begins).await;
    assert_eq!(kept().await, before, "a start that arrives after the end");

    let finish = FinishRun {
        run: &run,
        attempt: job.attempt,
        seen: &seen,
        message_id: ids::new(),
        status: DoneStatus::Completed,
        text: "answer",
        citations: &[],
        error: None,
        usage: &json!({}),
        last_step: None,
        output: None,
    };
    assert!(matches!(execute(&db, &finish).await, Finished::Ended(_)));
    let before = kept().await;
    assert_eq!(
        before.0,
        [
            "message", "meta", "limit", "mcp_tool", "mcp_tool", "mcp_tool", "message", "done"
        ]
    );
    assert!(matches!(execute(&db, &finish).await, Finished::Ended(_)));
    assert_eq!(kept().await, before, "FinishRun");

    let late = rejoin_commands::execute_patiently(&db.pool, &step).await;
    assert!(matches!(late, Err(FencedError::LeaseLost)));
    assert_eq!(kept().await, before, "a step that arrives after the end");
}

#[tokio::test]
async fn a_command_writes_nothing_to_a_log_that_lost_its_end() {
    let db = support::database().await;
    let posted = rejoin_commands::execute(&db.pool, &PostMessage::new(db.owner(), "hello"))
        .await
        .expect("it is posted");
    let job = claim(&db, 1).await.remove(0);
    let run = runs::get(&db.pool, posted.run_id)
        .await
        .expect("a read")
        .expect("a run");
    let before = records(&db, posted.conversation_id, posted.run_id).await;
    let finish = FinishRun {
        run: &run,
        attempt: job.attempt,
        seen: &Seen::through(2),
        message_id: ids::new(),
        status: DoneStatus::Completed,
        text: "answer",
        citations: &[],
        error: None,
        usage: &json!({}),
        last_step: None,
        output: None,
    };
    let lost = rejoin_commands::execute_patiently(&db.pool, &finish).await;
    assert!(matches!(lost, Err(FencedError::LeaseLost)));
    assert_eq!(records(&db, posted.conversation_id, posted.run_id).await, before);
}

#[tokio::test]
async fn a_call_begun_before_its_run_was_cancelled_has_begun() {
    let db = support::database().await;
    let posted = rejoin_commands::execute(&db.pool, &PostMessage::new(db.owner(), "hello"))
        .await
        .expect("it is posted");
    let job = claim(&db, 1).await.remove(0);
    let queued = runs::get(&db.pool, posted.run_id)
        .await
        .expect("a read")
        .expect("a run");
    let Begun { run, .. } = execute(&db, &start(&queued, job.attempt)).await;
    let (seen, input, usage) = (Seen::through(2), json!({}), json!({}));
    let asked = ["c1", "c2", "c3"].map(|call_id| AskedCall {
        id: ids::new(),
        call_id,
        tool_name: "tool",
        input: &input,
    });
    execute(&db, &step(&run, job.attempt, &seen, &asked, &usage)).await;
    let begins = |call: &AskedCall<'_>, publish: bool| {
        let (id, call_id) = (call.id, call.call_id.to_owned());
        let (db, run, seen, input) = (&db, &run, &seen, &input);
        async move {
            let begins = ToolStarted {
                run,
                attempt: job.attempt,
                seen,
                id,
                call_id: &call_id,
                tool: "tool",
                input,
                operation: None,
                publish,
            };
            execute(db, &begins).await.0
        }
    };
    assert!(begins(&asked[0], true).await);
    assert!(begins(&asked[1], false).await);
    rejoin_commands::execute(&db.pool, &CancelRun { run_id: run.id })
        .await
        .expect("it is cancelled");
    let before = records(&db, posted.conversation_id, posted.run_id).await;
    assert!(begins(&asked[0], true).await, "readers have its start, so it must end");
    assert!(!begins(&asked[1], false).await, "readers have nothing of it");
    assert!(!begins(&asked[2], true).await, "it has not begun");
    assert_eq!(records(&db, posted.conversation_id, posted.run_id).await, before);
}

/// Steered at the last moment, the run goes on: the step alone is recorded.
#[tokio::test]
async fn the_last_step_is_recorded_with_the_end() {
    for is_steered in [false, true] {
        let db = support::database().await;
        let posted = rejoin_commands::execute(&db.pool, &PostMessage::new(db.owner(), "hello"))
            .await
            .expect("it is posted");
        let job = claim(&db, 1).await.remove(0);
        let queued = runs::get(&db.pool, posted.run_id)
            .await
            .expect("a read")
            .expect("a run");
        let Begun { run, .. } = execute(&db, &start(&queued, job.attempt)).await;
        if is_steered {
            sqlx::query("insert into kb.run_inbox (run_id, content) values ($1, 'and faster')")
                .bind(run.id)
                .execute(&db.pool)
                .await
                .expect("it is steered");
        }
        let (seen, usage) = (Seen::through(2), json!({}));
        let streamed = ["ans", "wer"].map(|token| Unwritten {
            kind: "token",
            data: json!({ "token": token }).to_string(),
        });
        let step = RecordStep {
            streamed: &streamed,
            ..step(&run, job.attempt, &seen, &[], &usage)
        };
        let finish = FinishRun {
            run: &run,
            attempt: job.attempt,
            seen: &seen,
            message_id: ids::new(),
            status: DoneStatus::Completed,
            text: "answer",
            citations: &[],
            error: None,
            usage: &usage,
            last_step: Some(&step),
            output: None,
        };
        let ended = execute(&db, &finish).await;
        assert_eq!(ended == Finished::HasPending, is_steered);
        let before = records(&db, posted.conversation_id, posted.run_id).await;
        let last: &[&str] = if is_steered { &[] } else { &["message", "done"] };
        assert_eq!(
            before.0,
            [&["message", "meta", "token", "token", "limit"][..], last].concat()
        );
        assert_eq!(before.1["run"]["step_count"], 1);
        let messages = before.1["messages"].as_array().map(Vec::len);
        assert_eq!(messages, Some(3), "system, user, and the step's");
        assert_eq!(execute(&db, &finish).await == Finished::HasPending, is_steered);
        assert_eq!(records(&db, posted.conversation_id, posted.run_id).await, before);
    }
}
