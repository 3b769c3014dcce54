//! Renders recorded logs.

use std::collections::HashSet;

use rejoin_sse::dialects::Renderer;
use serde_json::{Value, json};

use super::{AgUi, AgUiRenderer, Begin};
use crate::live::render_live;

const ROOT: &str = "root";

fn about(begin: Begin) -> AgUi {
    AgUi {
        thread_id: "t".into(),
        run_id: "r".into(),
        root: ROOT.into(),
        posted_message: Some("m1".into()),
        messages: vec![json!({"id": "u", "role": "user", "content": "Hi"})],
        state: Some(json!({"own": 1})),
        begin,
    }
}

/// A log: events numbered from 1.
fn numbered(events: Vec<Value>) -> Vec<(i64, Value)> {
    (1..).zip(events).collect()
}

fn event(kind: &str, more: Value) -> Value {
    let mut event = json!({"type": kind, "runId": ROOT});
    for (name, value) in more.as_object().into_iter().flatten() {
        event[name] = value.clone();
    }
    event
}

fn token(text: &str) -> Value {
    event("token", json!({"token": text}))
}

fn begin() -> Vec<Value> {
    vec![
        event(
            "message",
            json!({"message": {"id": "m1", "role": "user", "content": "Hi"}}),
        ),
        event("meta", json!({"agent": "writer", "model": "m", "attempt": 1})),
    ]
}

fn end(text: &str) -> Vec<Value> {
    vec![
        event(
            "usage",
            json!({"inputTokens": 3, "outputTokens": 2, "totalTokens": 5, "steps": 1}),
        ),
        event(
            "message",
            json!({"message": {"id": "m2", "role": "assistant", "content": text}}),
        ),
        event("done", json!({"status": "completed", "finalMessageId": "m2"})),
    ]
}

/// A frame's id and event.
type Sent = (Option<String>, Value);

fn parsed(bytes: &[u8]) -> Vec<Sent> {
    let text = std::str::from_utf8(bytes).unwrap();
    let frames = text.split("\n\n").filter(|frame| !frame.is_empty());
    frames
        .map(|frame| {
            let line = |name: &str| frame.lines().find_map(|line| line.strip_prefix(name));
            let data = serde_json::from_str(line("data: ").unwrap()).unwrap();
            (line("id: ").map(str::to_owned), data)
        })
        .collect()
}

/// Reads a log to the end of the response.
fn read(begin: Begin, log: &[(i64, Value)]) -> Vec<Sent> {
    let silent_through = match begin {
        Begin::ReadOn { after, .. } => after,
        Begin::After(_) | Begin::Answered(_) | Begin::Now => 0,
    };
    let mut renderer = AgUiRenderer::new(about(begin));
    let mut sent = Vec::new();
    for (seq, event) in log {
        let mut out = Vec::new();
        render_live(&mut renderer, *seq, event, &mut out);
        if *seq > silent_through {
            sent.extend(parsed(&out));
            if renderer.is_over() {
                break;
            }
        }
    }
    sent
}

fn kinds(sent: &[Sent]) -> Vec<&str> {
    sent.iter().map(|(_, event)| event["type"].as_str().unwrap()).collect()
}

fn all<'a>(sent: &'a [Sent], kind: &str) -> Vec<&'a Value> {
    let events = sent.iter().map(|(_, event)| event);
    events.filter(|event| event["type"] == kind).collect()
}

fn with_a_tool() -> Vec<(i64, Value)> {
    let mut events = begin();
    events.extend([
        event("reasoning", json!({"text": "Hm."})),
        token("Let me look."),
        event(
            "usage",
            json!({"inputTokens": 1, "outputTokens": 1, "totalTokens": 2, "steps": 1}),
        ),
        event(
            "mcp_tool",
            json!({"callId": "c", "tool": "search", "status": "started", "input": {"q": "x"}}),
        ),
        event(
            "mcp_tool",
            json!({"callId": "c", "tool": "search", "status": "completed", "result": {"hits": 1}}),
        ),
        token("\n\nIt is "),
        token("there."),
    ]);
    events.extend(end("Let me look.\n\nIt is there."));
    numbered(events)
}

#[test]
fn a_step_is_a_message_with_its_calls() {
    let sent = read(Begin::After(0), &with_a_tool());
    let expected = [
        "RUN_STARTED",
        "STATE_SNAPSHOT",
        "STATE_DELTA",
        "STATE_DELTA",
        "CUSTOM",
        "REASONING_START",
        "REASONING_MESSAGE_START",
        "REASONING_MESSAGE_CONTENT",
        "REASONING_MESSAGE_END",
        "REASONING_END",
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_END",
        "TOOL_CALL_START",
        "TOOL_CALL_ARGS",
        "TOOL_CALL_END",
        "TOOL_CALL_RESULT",
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_END",
        "RUN_FINISHED",
    ];
    assert_eq!(kinds(&sent), expected);
    let call = all(&sent, "TOOL_CALL_START")[0];
    let text = all(&sent, "TEXT_MESSAGE_START")[0];
    assert_eq!(call["parentMessageId"], text["messageId"]);
    assert_eq!(all(&sent, "TOOL_CALL_RESULT")[0]["content"], "{\"hits\":1}");
    let snapshot = all(&sent, "STATE_SNAPSHOT")[0];
    assert_eq!(snapshot["snapshot"], json!({"own": 1, "rejoin": {}}));
    let finished = all(&sent, "RUN_FINISHED")[0];
    assert_eq!(
        (&finished["outcome"], &finished["usage"]),
        (
            &json!({"type": "success"}),
            &json!([{"model": "m", "inputTokens": 3, "outputTokens": 2, "totalTokens": 5}])
        )
    );
    // The frames of one event: the last one has its number.
    assert_eq!((sent[0].0.as_deref(), sent[1].0.as_deref()), (Some("1.1"), Some("1")));
}

fn with_a_lost_step() -> Vec<(i64, Value)> {
    let mut events = begin();
    events.extend([
        token("One "),
        event("usage", json!({"steps": 1})),
        event(
            "mcp_tool",
            json!({"callId": "c", "tool": "search", "status": "started"}),
        ),
        event(
            "mcp_tool",
            json!({"callId": "c", "tool": "search", "status": "error", "error": "no"}),
        ),
        event("reasoning", json!({"text": "Lost."})),
        token("lost "),
        token("words"),
        event(
            "reset",
            json!({"discardAfter": 6, "attempt": 2, "reason": "worker lost"}),
        ),
        token("two"),
    ]);
    events.extend(end("One two"));
    numbered(events)
}

#[test]
fn lost_words_are_taken_back_and_stored_steps_stay() {
    let sent = read(Begin::After(0), &with_a_lost_step());
    let snapshot = all(&sent, "MESSAGES_SNAPSHOT")[0];
    assert_eq!(
        snapshot["messages"],
        json!([
            {"id": "u", "role": "user", "content": "Hi"},
            {"id": "root-1", "role": "assistant", "content": "One ",
                "toolCalls": [{"id": "c", "type": "function", "function": {"name": "search", "arguments": "{}"}}]},
            {"id": "c-result", "role": "tool", "toolCallId": "c", "content": "no", "error": "no"},
            {"id": "root-2-reasoning", "role": "reasoning", "content": ""},
        ])
    );
    let at = kinds(&sent)
        .iter()
        .position(|kind| *kind == "MESSAGES_SNAPSHOT")
        .unwrap();
    assert_eq!(sent[at - 1].1["type"], "TEXT_MESSAGE_END");
    assert_eq!(sent.last().unwrap().1["type"], "RUN_FINISHED");
}

#[test]
fn an_event_of_a_program_has_its_own_name() {
    let mut events = begin();
    events.extend([
        token("One"),
        event(
            "custom",
            json!({"name": "progress", "data": {"done": 1}, "callId": "c"}),
        ),
    ]);
    events.extend(end("One"));
    let sent = read(Begin::After(0), &numbered(events));
    let emitted = json!({"type": "CUSTOM", "name": "progress", "value": {"done": 1}});
    assert!(all(&sent, "CUSTOM").contains(&&emitted), "{sent:?}");
}

fn question(id: &str, more: Value) -> Value {
    let mut asked = event(
        "question",
        json!({"questionId": id, "question": "Which?", "options": [], "interactionType": "text"}),
    );
    for (name, value) in more.as_object().into_iter().flatten() {
        asked[name] = value.clone();
    }
    asked
}

fn answered(id: &str) -> Value {
    event(
        "question_answered",
        json!({"questionId": id, "status": "answered", "answer": "x"}),
    )
}

fn waiting() -> Value {
    event("agent_state", json!({"state": "waiting_on_user"}))
}

fn answers(ids: &[&str]) -> Begin {
    Begin::Answered(ids.iter().map(|id| (*id).to_owned()).collect::<HashSet<_>>())
}

fn with_two_questions() -> Vec<(i64, Value)> {
    let mut events = begin();
    events.extend([
        token("Well."),
        event(
            "usage",
            json!({"inputTokens": 1, "outputTokens": 1, "totalTokens": 2, "steps": 1}),
        ),
        question("q1", json!({})),
        question("q2", json!({"interactionType": "confirm"})),
        waiting(),
        answered("q1"),
        answered("q2"),
        event("agent_state", json!({"state": "thinking"})),
        token("Done."),
    ]);
    events.extend(end("Well.Done."));
    numbered(events)
}

#[test]
fn a_question_ends_the_clients_run_and_its_answer_begins_one() {
    let log = with_two_questions();
    let first = read(Begin::After(0), &log);
    let outcome = &first.last().unwrap().1["outcome"];
    assert_eq!(outcome["type"], "interrupt");
    assert_eq!(outcome["interrupts"].as_array().unwrap().len(), 2);
    assert_eq!(outcome["interrupts"][1]["reason"], "confirmation");
    let both = read(answers(&["q1", "q2"]), &log);
    assert_eq!(kinds(&both)[0], "RUN_STARTED");
    assert_eq!(all(&both, "TEXT_MESSAGE_CONTENT").len(), 1);
    assert_eq!(both.last().unwrap().1["outcome"]["type"], "success");
    // Only the calls of this run of the client.
    assert_eq!(both.last().unwrap().1["usage"][0]["totalTokens"], 3);
    let one = read(answers(&["q1"]), &log);
    assert_eq!(kinds(&one), ["RUN_STARTED", "STATE_SNAPSHOT", "RUN_FINISHED"]);
    assert_eq!(one[2].1["outcome"]["interrupts"][0]["id"], "q2");
}

#[test]
fn a_clients_tool_is_pending_and_its_result_is_not_sent_back() {
    let mut events = begin();
    let call = json!({"callId": "c", "tool": "locate", "input": {}});
    events.extend([
        event("usage", json!({"steps": 1})),
        event(
            "mcp_tool",
            json!({"callId": "c", "tool": "locate", "status": "started", "input": {}}),
        ),
        question("q", json!({"interactionType": "client_tool", "callId": call["callId"]})),
        waiting(),
        answered("q"),
        event(
            "mcp_tool",
            json!({"callId": "c", "tool": "locate", "status": "completed", "result": "here"}),
        ),
        token("Here."),
    ]);
    events.extend(end("Here."));
    let log = numbered(events);
    let first = read(Begin::After(0), &log);
    assert_eq!(
        first.last().unwrap().1["outcome"],
        json!({"type": "success", "pendingToolCallIds": ["c"]})
    );
    let mut renderer = AgUiRenderer::new(AgUi {
        messages: vec![json!({"id": "x", "role": "tool", "toolCallId": "c", "content": "here"})],
        ..about(answers(&["q"]))
    });
    let mut out = Vec::new();
    for (seq, event) in &log {
        renderer.render(*seq, event, &mut out);
    }
    let sent = parsed(&out);
    assert_eq!(all(&sent, "TOOL_CALL_RESULT"), Vec::<&Value>::new());
    assert_eq!(sent.last().unwrap().1["type"], "RUN_FINISHED");
}

#[test]
fn a_client_reads_on_after_any_frame() {
    for log in [with_a_tool(), with_a_lost_step()] {
        let whole = read(Begin::After(0), &log);
        for cut in 1..whole.len() {
            let id = whole[cut - 1].0.as_deref().unwrap();
            let (after, frames) = match id.split_once('.') {
                None => (id.parse().unwrap(), 0),
                Some((seq, frames)) => (seq.parse::<i64>().unwrap() - 1, frames.parse().unwrap()),
            };
            let rest = read(Begin::ReadOn { after, frames }, &log);
            let without_state = |sent: &[Sent]| {
                let kept = sent
                    .iter()
                    .filter(|(_, event)| event["type"] != "STATE_SNAPSHOT" && event["type"] != "STATE_DELTA");
                kept.cloned().collect::<Vec<_>>()
            };
            assert_eq!(without_state(&rest), without_state(&whole[cut..]), "after {id}");
        }
    }
}

#[test]
fn a_client_that_connects_gets_the_state_so_far_and_goes_on() {
    let log = with_a_lost_step();
    let mut renderer = AgUiRenderer::new(about(Begin::Now));
    let mut out = Vec::new();
    for (seq, event) in &log[..8] {
        renderer.render(*seq, event, &mut out);
    }
    assert_eq!(out, b"");
    assert!(!renderer.caught_up(8, &mut out));
    let sent = parsed(&out);
    let expected = [
        "RUN_STARTED",
        "STATE_SNAPSHOT",
        "MESSAGES_SNAPSHOT",
        "TEXT_MESSAGE_START",
    ];
    assert_eq!(kinds(&sent), expected);
    assert_eq!(sent[2].1["messages"].as_array().unwrap().len(), 5);
    assert_eq!((sent[2].0.as_deref(), sent[3].0.as_deref()), (None, Some("8")));
    out.clear();
    for (seq, event) in &log[8..] {
        renderer.render(*seq, event, &mut out);
    }
    assert_eq!(kinds(&parsed(&out))[0], "TEXT_MESSAGE_CONTENT");
    // While it waits.
    let log = with_two_questions();
    let mut renderer = AgUiRenderer::new(about(Begin::Now));
    let mut out = Vec::new();
    for (seq, event) in &log[..7] {
        renderer.render(*seq, event, &mut out);
    }
    assert!(renderer.caught_up(7, &mut out));
    assert_eq!(parsed(&out).last().unwrap().1["outcome"]["type"], "interrupt");
}

#[test]
fn sub_agents_write_under_their_own_names() {
    let child = |kind: &str, more: Value| {
        let mut event = event(kind, more);
        event["runId"] = "child".into();
        event["parentRunId"] = ROOT.into();
        event["agent"] = "helper".into();
        event
    };
    let mut events = begin();
    events.extend([
        child("sub_agent", json!({"status": "started", "task": "Look."})),
        child("token", json!({"token": "found"})),
        child("sub_agent", json!({"status": "failed", "error": "broken", "code": "x"})),
        token("Sorry."),
    ]);
    events.extend(end("Sorry."));
    let sent = read(Begin::After(0), &numbered(events));
    let agent = all(&sent, "SUBAGENT_STARTED")[0];
    assert_eq!(
        (&agent["name"], &agent["subagentRunId"]),
        (&json!("helper"), &json!("child"))
    );
    assert_eq!(all(&sent, "TEXT_MESSAGE_START")[0]["subagentRunId"], "child");
    assert_eq!(all(&sent, "SUBAGENT_ERROR")[0]["message"], "broken");
    assert_eq!(all(&sent, "TEXT_MESSAGE_START")[1].get("subagentRunId"), None);
}

#[test]
fn a_failed_run_is_an_error_and_a_cancelled_one_is_not() {
    let mut events = begin();
    events.push(event(
        "error",
        json!({"error": "no key", "code": "model_key_missing", "retryable": false}),
    ));
    events.push(event("done", json!({"status": "failed"})));
    let sent = read(Begin::After(0), &numbered(events));
    let last = &sent.last().unwrap().1;
    assert_eq!(
        (&last["type"], &last["message"], &last["code"]),
        (&json!("RUN_ERROR"), &json!("no key"), &json!("model_key_missing"))
    );
    let mut events = begin();
    events.push(token("half"));
    events.push(event("done", json!({"status": "cancelled"})));
    let sent = read(Begin::After(0), &numbered(events));
    assert_eq!(sent.last().unwrap().1["outcome"], json!({"type": "cancelled"}));
}

#[test]
fn a_reply_that_was_not_streamed_is_sent_at_the_end() {
    let mut events = begin();
    events.extend(end("All at once."));
    let sent = read(Begin::After(0), &numbered(events));
    assert_eq!(all(&sent, "TEXT_MESSAGE_CONTENT")[0]["delta"], "All at once.");
    let mut events = begin();
    events.push(token("Other words"));
    events.extend(end("The words."));
    let sent = read(Begin::After(0), &numbered(events));
    let messages = all(&sent, "MESSAGES_SNAPSHOT")[0]["messages"].as_array().unwrap();
    assert_eq!(messages.last().unwrap()["content"], "The words.");
}
