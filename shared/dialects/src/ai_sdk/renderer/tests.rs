//! Recorded logs, and what a client makes of them.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::*;
use crate::live::render_live;

/// A client: it applies chunks as the AI SDK does, and is strict about their order.
#[derive(Default)]
struct Client {
    chunks: Vec<Value>,
    open: BTreeMap<String, usize>,
    /// Name, text, and whether it was abandoned.
    parts: Vec<(String, String, bool)>,
    has_ended: bool,
}

impl Client {
    fn read(&mut self, frames: &[u8]) {
        let frames = std::str::from_utf8(frames).unwrap();
        for frame in frames.split_terminator("\n\n") {
            assert!(!self.has_ended, "after the end: {frame}");
            let data = frame.strip_prefix("data: ").unwrap();
            if data == "[DONE]" {
                assert_eq!(self.open, BTreeMap::new());
                self.has_ended = true;
                continue;
            }
            let chunk: Value = serde_json::from_str(data).unwrap();
            self.apply(&chunk);
            self.chunks.push(chunk);
        }
    }

    fn apply(&mut self, chunk: &Value) {
        let kind = chunk["type"].as_str().unwrap();
        let id = chunk["id"].as_str().unwrap_or_default().to_owned();
        match kind {
            "text-start" | "reasoning-start" => {
                self.parts
                    .push((kind.trim_end_matches("-start").to_owned(), String::new(), false));
                assert_eq!(self.open.insert(id, self.parts.len() - 1), None);
            }
            "text-delta" | "reasoning-delta" => {
                let part = &mut self.parts[self.open[&id]];
                part.1.push_str(chunk["delta"].as_str().unwrap());
            }
            "text-end" | "reasoning-end" => {
                let part = self.open.remove(&id).unwrap();
                self.parts[part].2 = chunk["providerMetadata"]["rejoin"]["abandoned"] == true;
            }
            "finish-step" => assert_eq!(self.open, BTreeMap::new()),
            _ => {}
        }
    }

    fn text(&self) -> String {
        let parts = self.parts.iter().filter(|part| part.0 == "text" && !part.2);
        parts.map(|part| part.1.as_str()).collect()
    }

    /// The kinds of its chunks, without those of words.
    fn kinds(&self) -> Vec<&str> {
        let kinds = self.chunks.iter().map(|chunk| chunk["type"].as_str().unwrap());
        kinds
            .filter(|kind| !kind.starts_with("text-") && !kind.starts_with("data-"))
            .collect()
    }

    fn of(&self, kind: &str) -> Vec<&Value> {
        self.chunks.iter().filter(|chunk| chunk["type"] == kind).collect()
    }
}

fn with_run(event: &Value) -> Value {
    let mut event = event.clone();
    if event.get("runId").is_none() {
        event["runId"] = json!("run");
    }
    event
}

fn render(renderer: &mut UiMessages, events: &[Value]) -> Client {
    let mut client = Client::default();
    for (seq, event) in (1..).zip(events) {
        let mut out = Vec::new();
        render_live(renderer, seq, &with_run(event), &mut out);
        client.read(&out);
    }
    client
}

fn live(mode: WordsMode, events: &[Value]) -> Client {
    render(&mut UiMessages::live(mode, BTreeSet::new()), events)
}

/// A client that comes after the first `past` events.
fn replay(mode: WordsMode, events: &[Value], past: usize) -> Client {
    let mut renderer = UiMessages::replay(mode, BTreeSet::new());
    let mut client = render(&mut renderer, &events[..past]);
    if !client.has_ended {
        assert_eq!(client.chunks, Vec::<Value>::new(), "the past comes at once");
    }
    let mut out = Vec::new();
    renderer.caught_up(0, &mut out);
    client.read(&out);
    for event in &events[past..] {
        let mut out = Vec::new();
        renderer.render(0, &with_run(event), &mut out);
        client.read(&out);
    }
    client
}

fn user(text: &str) -> Value {
    json!({"type": "message", "message": {"id": "m1", "role": "user", "content": text}})
}

fn meta() -> Value {
    json!({"type": "meta", "conversationId": "c", "agent": "writer", "model": "m", "citations": [], "attempt": 1})
}

fn token(text: &str) -> Value {
    json!({"type": "token", "token": text})
}

fn usage() -> Value {
    json!({"type": "usage", "inputTokens": 1, "outputTokens": 1, "totalTokens": 2, "steps": 1})
}

fn reset() -> Value {
    json!({"type": "reset", "discardAfter": 2, "attempt": 2, "reason": "worker lost"})
}

fn stored(text: &str) -> Value {
    json!({"type": "message", "message": {"id": "m2", "role": "assistant", "content": text}})
}

fn done(status: &str) -> Value {
    json!({"type": "done", "status": status, "finalMessageId": "m2"})
}

fn call(status: &str, more: Value) -> Value {
    let mut event = json!({"type": "mcp_tool", "callId": "call_1", "tool": "find", "status": status});
    for (name, value) in more.as_object().unwrap() {
        event[name] = value.clone();
    }
    event
}

/// A turn with a tool, whose second step is written twice.
fn turn(again: &[&str]) -> Vec<Value> {
    let text = format!("Let me look.\n\n{}", again.concat());
    let mut events = vec![
        user("Hi"),
        meta(),
        json!({"type": "reasoning", "text": "Hm."}),
        token("Let me "),
        token("look."),
        usage(),
        call("started", json!({"input": {"q": 1}})),
        call("completed", json!({"result": {"found": 2}})),
        token("\n\nIt "),
        token("is here"),
        reset(),
    ];
    events.extend(
        again
            .iter()
            .map(|piece| token(&format!("{}{piece}", if *piece == again[0] { "\n\n" } else { "" }))),
    );
    events.extend([usage(), stored(&text), done("completed")]);
    events
}

#[test]
fn a_turn_is_a_message_with_its_steps() {
    let client = live(WordsMode::Live, &turn(&["It is ", "here."]));
    assert_eq!(
        client.kinds(),
        [
            "start",
            "message-metadata",
            "start-step",
            "reasoning-start",
            "reasoning-delta",
            "reasoning-end",
            "tool-input-start",
            "tool-input-available",
            "tool-output-available",
            "finish-step",
            "start-step",
            "finish-step",
            "finish",
        ]
    );
    assert_eq!(client.text(), "Let me look.\n\nIt is here.");
    assert_eq!(client.chunks[0]["messageId"], "answer-m1");
    assert_eq!(client.of("tool-output-available")[0]["output"], json!({"found": 2}));
    assert_eq!(client.of("tool-input-available")[0]["providerExecuted"], true);
    assert_eq!(client.of("finish")[0]["finishReason"], "stop");
    assert_eq!(client.of("finish")[0]["messageMetadata"]["finalMessageId"], "m2");
    assert!(client.has_ended);
}

#[test]
fn words_come_once_from_wherever_a_client_comes() {
    for again in [
        &["It is ", "here."][..],
        &["It", " is he", "re"],
        &["Something else."],
        &["It "],
        &["I", "t ", "was."],
    ] {
        let events = turn(again);
        let text = format!("Let me look.\n\n{}", again.concat());
        for mode in [WordsMode::Live, WordsMode::Safe] {
            assert_eq!(live(mode, &events).text(), text);
            for past in 1..=events.len() {
                let client = replay(mode, &events, past);
                assert_eq!(client.text(), text, "after {past} events");
                assert!(client.has_ended);
                let is_clean = mode == WordsMode::Safe || past > 10;
                assert!(
                    !is_clean || client.parts.iter().all(|part| !part.2),
                    "after {past} events"
                );
            }
        }
    }
}

#[test]
fn an_answer_that_was_not_streamed_comes_with_its_message() {
    let client = live(WordsMode::Live, &[user("Hi"), stored("{\"a\":1}"), done("completed")]);
    assert_eq!(client.text(), "{\"a\":1}");
    let client = live(
        WordsMode::Safe,
        &[
            user("Hi"),
            token("Half an ans"),
            stored("Half an ans"),
            done("cancelled"),
        ],
    );
    assert_eq!(client.text(), "Half an ans");
    assert_eq!(client.of("abort").len(), 1);
}

#[test]
fn an_error_comes_before_the_end() {
    let error = json!({"type": "error", "error": "No key.", "code": "model_key_missing", "retryable": false});
    let client = live(WordsMode::Live, &[user("Hi"), meta(), error, done("failed")]);
    assert_eq!(client.kinds(), ["start", "message-metadata", "error", "finish"]);
    assert_eq!(client.of("finish")[0]["finishReason"], "error");
}

fn wait(question: Value) -> Vec<Value> {
    vec![
        user("Where am I?"),
        token("One moment."),
        usage(),
        call("started", json!({"input": {}})),
        question,
        json!({"type": "agent_state", "state": "waiting_on_user", "details": {"questions": 1}}),
    ]
}

fn client_tool() -> Value {
    json!({"type": "question", "questionId": "q", "question": "", "options": [], "interactionType": "client_tool",
           "callId": "call_1", "tool": "find", "input": {}})
}

#[test]
fn a_call_of_the_client_ends_the_response() {
    let mut events = wait(client_tool());
    let tools = BTreeSet::from(["find".to_owned()]);
    let mut renderer = UiMessages::live(WordsMode::Live, tools.clone());
    let client = render(&mut renderer, &events);
    assert!(renderer.is_over() && client.has_ended);
    let available = client.of("tool-input-available")[0];
    assert_eq!(
        (available.get("dynamic"), available.get("providerExecuted")),
        (None, None)
    );
    assert_eq!(client.of("finish")[0]["finishReason"], "tool-calls");
    // One that comes meanwhile sees the same.
    assert_eq!(replay(WordsMode::Live, &events, 6).kinds(), client.kinds());

    events.extend([
        json!({"type": "question_answered", "questionId": "q", "status": "answered", "answer": {"output": "Paris"}}),
        call("completed", json!({"result": "Paris"})),
        token("\n\nIn Paris."),
        usage(),
        stored("One moment.\n\nIn Paris."),
        done("completed"),
    ]);
    let rest = render(&mut renderer, &events[6..]);
    assert_eq!(
        rest.kinds(),
        ["tool-output-available", "start-step", "finish-step", "finish"]
    );
    assert_eq!(rest.text(), "\n\nIn Paris.");
    for past in 7..events.len() {
        let mut renderer = UiMessages::replay(WordsMode::Live, tools.clone());
        let mut client = render(&mut renderer, &events[..past]);
        let mut out = Vec::new();
        renderer.caught_up(0, &mut out);
        assert!(!renderer.is_over());
        client.read(&out);
        for event in &events[past..] {
            let mut out = Vec::new();
            renderer.render(0, &with_run(event), &mut out);
            client.read(&out);
        }
        assert_eq!(client.text(), "One moment.\n\nIn Paris.", "after {past} events");
        assert_eq!(client.of("start").len(), 1);
    }
}

#[test]
fn an_approval_is_asked_for_and_a_refusal_shown() {
    let question = json!({"type": "question", "questionId": "q", "question": "Pay?", "options": [], "interactionType": "confirm",
                          "callId": "call_2", "tool": "pay", "input": {"amount": 1}});
    let mut renderer = UiMessages::live(WordsMode::Live, BTreeSet::new());
    let client = render(&mut renderer, &wait(question));
    assert_eq!(
        client.of("tool-approval-request"),
        [&json!({"type": "tool-approval-request", "approvalId": "q", "toolCallId": "call_2"})]
    );
    let answered =
        json!({"type": "question_answered", "questionId": "q", "status": "answered", "answer": {"decision": "refuse"}});
    let mut failed = call("error", json!({"error": "refused"}));
    failed["callId"] = json!("call_2");
    let rest = render(&mut renderer, &[answered, failed]);
    assert_eq!(rest.kinds(), ["tool-output-denied"]);
}

#[test]
fn a_question_is_answered_by_the_next_message() {
    let question =
        json!({"type": "question", "questionId": "q", "question": "Which?", "options": [], "interactionType": "text"});
    let mut events = wait(question);
    let client = live(WordsMode::Live, &events);
    assert_eq!(client.of("data-question")[0]["data"]["question"], "Which?");
    assert!(client.has_ended);
    let reply = json!({"type": "message", "message": {"id": "m3", "role": "user", "content": "That one"}});
    events.extend([
        reply,
        json!({"type": "question_answered", "questionId": "q", "status": "answered", "answer": "That one"}),
        call("completed", json!({"result": "That one"})),
        token("Good."),
        usage(),
        stored("One moment.Good."),
        done("completed"),
    ]);
    for client in [live(WordsMode::Live, &events[6..]), replay(WordsMode::Live, &events, 9)] {
        assert_eq!(
            (client.chunks[0]["messageId"].as_str(), client.text().as_str()),
            (Some("answer-m3"), "Good.")
        );
        assert_eq!(client.of("tool-output-available").len(), 0);
        assert!(client.has_ended);
    }
}

#[test]
fn a_sub_agents_words_are_not_the_answer() {
    let of_child = |mut event: Value| {
        event["parentRunId"] = json!("run");
        event["runId"] = json!("child");
        event
    };
    let client = live(
        WordsMode::Live,
        &[
            user("Hi"),
            of_child(json!({"type": "sub_agent", "status": "started", "task": "Look"})),
            of_child(token("noise")),
            of_child(json!({"type": "error", "error": "x", "code": "y", "retryable": false})),
            of_child(json!({"type": "sub_agent", "status": "completed", "summary": "Found"})),
            token("Done."),
            stored("Done."),
            done("completed"),
        ],
    );
    assert_eq!(client.text(), "Done.");
    let parts = client.of("data-sub-agent");
    assert_eq!(parts[1]["data"]["task"], "Look");
    assert_eq!(
        (&parts[1]["data"]["summary"], &parts[1]["id"]),
        (&json!("Found"), &json!("child"))
    );
}

#[test]
fn an_event_emitted_again_replaces_the_one_that_was_lost() {
    let emitted = |name: &str, data: i64| json!({"type": "custom", "name": name, "data": data});
    let events = [
        user("Hi"),
        meta(),
        emitted("progress", 1),
        token("Lost"),
        emitted("progress", 2),
        json!({"type": "reset", "discardAfter": 3, "attempt": 2, "reason": "worker lost"}),
        emitted("progress", 3),
        token("Done."),
        usage(),
        stored("Done."),
        done("completed"),
    ];
    let client = live(WordsMode::Live, &events);
    let parts: Vec<(&Value, &Value)> = client
        .of("data-progress")
        .into_iter()
        .map(|part| (&part["id"], &part["data"]))
        .collect();
    assert_eq!(
        parts,
        [
            (&json!("custom-1"), &json!(1)),
            (&json!("custom-2"), &json!(2)),
            (&json!("custom-2"), &json!(3))
        ]
    );
    assert_eq!(client.text(), "Done.");
}
