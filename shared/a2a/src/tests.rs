//! Renders recorded logs.

use rejoin_sse::dialects::Renderer;
use rejoin_sse::frame::Token;
use serde_json::{Value, json};

use super::envelope::Envelope;
use super::{Begin, Context, Form, TaskRenderer};

const TASK: &str = "task";

/// Renders an event as a reader of a live log is sent it: a piece of an answer without its tree.
fn render_live(renderer: &mut TaskRenderer, seq: i64, event: &Value, out: &mut Vec<u8>) {
    let text = event.to_string();
    let token = serde_json::from_str::<Token<'_>>(&text).ok();
    let is_rendered = event["type"] == "token" && token.is_some_and(|token| renderer.render_token(seq, &token, out));
    if !is_rendered {
        renderer.render(seq, event, out);
    }
}

fn renderer(begin: Begin, form: Form) -> TaskRenderer {
    let about = Context {
        task_id: TASK.into(),
        context_id: "letter".into(),
        origin: "https://rejoin.example".into(),
    };
    TaskRenderer::new(about, begin, form, None)
}

fn event(kind: &str, more: Value) -> Value {
    let mut event = json!({"type": kind, "runId": TASK});
    for (name, value) in more.as_object().into_iter().flatten() {
        event[name] = value.clone();
    }
    event
}

fn token(text: &str) -> Value {
    event("token", json!({"token": text}))
}

fn message(role: &str, text: &str) -> Value {
    let context = json!({"a2a": {"messageId": "mine"}});
    event(
        "message",
        json!({"message": {"id": "m", "role": role, "content": text, "attachedContext": context}}),
    )
}

fn done(status: &str) -> Value {
    event("done", json!({"status": status}))
}

/// A log: events numbered from 1.
fn numbered(events: Vec<Value>) -> Vec<(i64, Value)> {
    (1..).zip(events).collect()
}

/// A run with a call, a lost worker and data.
fn long() -> Vec<(i64, Value)> {
    numbered(vec![
        message("user", "Hi"),
        event("meta", json!({"agent": "writer", "model": "m"})),
        token("I look. "),
        event("usage", json!({"inputTokens": 1, "totalTokens": 2, "steps": 1})),
        event(
            "mcp_tool",
            json!({"callId": "c", "tool": "look", "status": "started", "input": {}}),
        ),
        event(
            "mcp_tool",
            json!({"callId": "c", "tool": "look", "status": "completed", "result": 1}),
        ),
        json!({"type": "token", "runId": "child", "parentRunId": TASK, "token": "not ours"}),
        token("Lost "),
        token("words"),
        event("reset", json!({"discardAfter": 6, "attempt": 2})),
        token("Found "),
        token("words."),
        event("usage", json!({"inputTokens": 2, "totalTokens": 4, "steps": 2})),
        event("output", json!({"output": {"found": true}})),
        message("assistant", "I look. Found words."),
        done("completed"),
    ])
}

/// The frames of a response: each with its id.
fn parsed(bytes: &[u8]) -> Vec<(i64, Value)> {
    let text = std::str::from_utf8(bytes).unwrap();
    let frames = text.split("\n\n").filter(|frame| !frame.is_empty());
    frames
        .map(|frame| {
            let line = |name: &str| frame.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            (
                line("id: ").parse().unwrap(),
                serde_json::from_str(line("data: ")).unwrap(),
            )
        })
        .collect()
}

/// Reads a log as a connection does that is opened when it has `present` events.
fn read(begin: Begin, log: &[(i64, Value)], present: usize) -> Vec<(i64, Value)> {
    let mut renderer = renderer(begin, Form::Stream(Envelope::Http));
    let mut out = Vec::new();
    for (at, (seq, event)) in log.iter().enumerate() {
        render_live(&mut renderer, *seq, event, &mut out);
        if renderer.is_over() || at + 1 == present && event["type"] != "done" && renderer.caught_up(*seq, &mut out) {
            break;
        }
    }
    parsed(&out)
}

fn stream(log: &[(i64, Value)]) -> Vec<(i64, Value)> {
    read(Begin::After(0), log, 1)
}

/// What a client has of a task.
#[derive(Debug, Default, Clone, PartialEq)]
struct Client {
    state: Value,
    message: Value,
    /// Text and data of each artifact, by its id.
    artifacts: std::collections::BTreeMap<String, (String, Vec<Value>)>,
}

impl Client {
    fn artifact(&mut self, artifact: &Value, appends: bool) {
        let own = self
            .artifacts
            .entry(artifact["artifactId"].as_str().unwrap().to_owned());
        let own = own.or_default();
        if !appends {
            *own = Default::default();
        }
        for part in artifact["parts"].as_array().expect("parts") {
            own.0.push_str(part["text"].as_str().unwrap_or_default());
            own.1.extend(part.get("data").cloned());
        }
    }

    fn status(&mut self, status: &Value) {
        self.state = status["state"].clone();
        self.message = status["message"].clone();
    }

    fn take(&mut self, response: &Value) {
        if let Some(task) = response.get("task") {
            *self = Self::default();
            self.status(&task["status"]);
            for artifact in task["artifacts"].as_array().into_iter().flatten() {
                self.artifact(artifact, false);
            }
        } else if let Some(update) = response.get("statusUpdate") {
            self.status(&update["status"]);
        } else {
            let update = &response["artifactUpdate"];
            self.artifact(&update["artifact"], update["append"].as_bool().unwrap());
        }
    }

    fn of(frames: &[(i64, Value)]) -> Self {
        let mut client = Self::default();
        for (_, response) in frames {
            client.take(response);
        }
        client
    }
}

#[test]
fn a_stream_is_the_task_and_then_its_updates() {
    let frames = stream(&long());
    let kinds: Vec<&str> = frames
        .iter()
        .map(|(_, response)| response.as_object().unwrap().keys().next().unwrap().as_str())
        .collect();
    assert_eq!(kinds[..3], ["task", "statusUpdate", "artifactUpdate"]);
    assert_eq!(frames[0].1["task"]["status"]["state"], "TASK_STATE_SUBMITTED");
    assert_eq!(frames[0].1["task"]["history"][0]["messageId"], "mine");
    let client = Client::of(&frames);
    assert_eq!(client.state, "TASK_STATE_COMPLETED");
    assert_eq!(client.artifacts["answer"].0, "I look. Found words.");
    assert_eq!(client.artifacts["output"].1, [json!({"found": true})]);
    let last = &frames.last().unwrap().1["statusUpdate"];
    assert_eq!(last["metadata"]["usage"]["totalTokens"], 4);
}

#[test]
fn a_client_has_the_task_after_each_frame() {
    let log = long();
    let frames = stream(&log);
    for (at, (seq, _)) in frames.iter().enumerate() {
        let mut folded = renderer(Begin::Now, Form::AtEnd);
        for (number, event) in log.iter().take_while(|(number, _)| number <= seq) {
            folded.render(*number, event, &mut Vec::new());
        }
        let task = Client::of(&[(0, json!({ "task": folded.task() }))]);
        assert_eq!(Client::of(&frames[..=at]), task, "after event {seq}");
    }
}

#[test]
fn a_client_that_subscribes_again_has_each_word_once() {
    let log = long();
    let whole = Client::of(&stream(&log));
    for present in 1..log.len() {
        // A client that has read some of it, and one that has read nothing.
        let frames = stream(&log);
        let mut client = Client::of(&frames[..frames.len().min(present)]);
        let again = read(Begin::Now, &log, present);
        assert!(again[0].1.get("task").is_some(), "it begins with the task");
        for (_, response) in &again {
            client.take(response);
        }
        assert_eq!(client, whole, "subscribed at event {present}");
    }
}

#[test]
fn a_cursor_continues_a_stream_without_a_frame_twice() {
    let log = long();
    let frames = stream(&log);
    for at in 1..frames.len() {
        let after = frames[at - 1].0;
        let rest = read(Begin::ReadOn(after), &log, log.len() - 1);
        assert_eq!(rest, frames[at..], "after {after}");
    }
}

#[test]
fn a_question_ends_the_stream_and_its_answer_continues_the_task() {
    let question =
        json!({"questionId": "q", "question": "Which?", "options": [{"value": "a"}], "interactionType": "buttons"});
    let mut events = vec![
        message("user", "paint"),
        event("meta", json!({"agent": "painter"})),
        token("Well. "),
        event("question", question),
        event(
            "agent_state",
            json!({"state": "waiting_on_user", "details": {"questions": 1}}),
        ),
    ];
    let frames = stream(&numbered(events.clone()));
    let (_, last) = frames.last().unwrap();
    let status = &last["statusUpdate"]["status"];
    assert_eq!(status["state"], "TASK_STATE_INPUT_REQUIRED");
    assert_eq!(status["message"]["parts"][0]["text"], "Which?");
    assert_eq!(status["message"]["parts"][1]["data"]["questionId"], "q");
    // A client that subscribes meanwhile is asked, too.
    let log = numbered(events.clone());
    let mut subscription = renderer(Begin::Now, Form::Subscription(Envelope::Http));
    let mut out = Vec::new();
    for (seq, event) in &log {
        subscription.render(*seq, event, &mut out);
    }
    assert!(!subscription.caught_up(5, &mut out), "it goes on after the answer");
    let asked = parsed(&out);
    assert_eq!((asked.len(), &asked[0].1["task"]["status"]), (1, status));

    events.extend([
        message("user", "a"),
        event(
            "question_answered",
            json!({"questionId": "q", "status": "answered", "answer": "a"}),
        ),
        token("Done."),
        message("assistant", "Well. Done."),
        done("completed"),
    ]);
    let log = numbered(events);
    for (seq, event) in &log[5..] {
        subscription.render(*seq, event, &mut out);
    }
    assert!(subscription.is_over());
    assert_eq!(Client::of(&parsed(&out)).state, "TASK_STATE_COMPLETED");
    let frames = read(Begin::After(5), &log, 7);
    assert_eq!(frames[1].1["statusUpdate"]["status"]["state"], "TASK_STATE_WORKING");
    let client = Client::of(&frames);
    assert_eq!(client.artifacts["answer"].0, "Well. Done.");
    let mut task = renderer(Begin::Now, Form::AtEnd);
    for (seq, event) in &log {
        task.render(*seq, event, &mut Vec::new());
    }
    let task = task.task();
    let roles: Vec<&str> = task["history"]
        .as_array()
        .unwrap()
        .iter()
        .map(|m| m["role"].as_str().unwrap())
        .collect();
    assert_eq!(roles, ["ROLE_USER", "ROLE_AGENT", "ROLE_USER"]);
}

#[test]
fn a_task_of_which_a_part_was_answered_still_waits() {
    let question = |id: &str| {
        event(
            "question",
            json!({"questionId": id, "question": id, "interactionType": "text"}),
        )
    };
    let log = numbered(vec![
        message("user", "paint"),
        question("q1"),
        question("q2"),
        event("agent_state", json!({"state": "waiting_on_user"})),
        event("question_answered", json!({"questionId": "q1", "status": "answered"})),
    ]);
    let frames = read(Begin::After(4), &log, 5);
    let client = Client::of(&frames);
    assert_eq!(client.state, "TASK_STATE_INPUT_REQUIRED");
    assert_eq!(client.message["parts"][0]["text"], "q2");
    // The document of a request that waits is the same.
    let mut waits = renderer(Begin::After(4), Form::AtRest);
    let mut out = Vec::new();
    for (seq, event) in &log {
        waits.render(*seq, event, &mut out);
    }
    assert!(out.is_empty());
    assert!(waits.caught_up(5, &mut out));
    let document: Value = serde_json::from_slice(&out).unwrap();
    assert_eq!(document["task"]["status"]["state"], "TASK_STATE_INPUT_REQUIRED");
}

#[test]
fn ends_are_states_with_their_reasons() {
    for (status, state, words) in [
        ("completed", "TASK_STATE_COMPLETED", None),
        ("cancelled", "TASK_STATE_CANCELED", None),
        ("failed", "TASK_STATE_FAILED", Some("no key")),
        ("paused", "TASK_STATE_INPUT_REQUIRED", Some("A limit")),
    ] {
        let log = numbered(vec![
            message("user", "Hi"),
            token("Half"),
            event("error", json!({"error": "no key", "code": "model_key_missing"})),
            done(status),
        ]);
        let client = Client::of(&stream(&log));
        assert_eq!(client.state, state);
        let said = client.message["parts"][0]["text"].as_str();
        assert_eq!(said.is_some(), words.is_some(), "{status}");
        assert!(
            said.unwrap_or_default().starts_with(words.unwrap_or_default()),
            "{said:?}"
        );
        assert_eq!(client.artifacts["answer"].0, "Half");
    }
}

#[test]
fn a_resumed_run_writes_another_answer() {
    let log = numbered(vec![
        message("user", "Hi"),
        token("One"),
        done("paused"),
        message("user", "go on"),
        event("meta", json!({"agent": "writer"})),
        token("Two"),
        message("assistant", "Two"),
        done("completed"),
    ]);
    let frames = read(Begin::After(3), &log, 4);
    let client = Client::of(&frames);
    assert_eq!(client.artifacts["answer"].0, "One");
    assert_eq!(client.artifacts["answer-2"].0, "Two");
    assert_eq!(client.state, "TASK_STATE_COMPLETED");
}

#[test]
fn a_reply_without_tokens_and_one_with_files_are_artifacts() {
    let file = "0192c7a0-0000-7000-8000-000000000000";
    let mut stored = message("assistant", "Here.");
    stored["message"]["attachments"] = json!([{"fileId": file, "name": "a.png", "mediaType": "image/png"}]);
    for (first, reply, parts) in [
        (message("user", "Hi"), message("assistant", "Here."), 1),
        (token("Here."), stored, 2),
    ] {
        let frames = stream(&numbered(vec![message("user", "Hi"), first, reply, done("completed")]));
        let update = &frames.iter().rev().nth(1).unwrap().1["artifactUpdate"];
        assert_eq!((&update["append"], &update["lastChunk"]), (&json!(false), &json!(true)));
        assert_eq!(update["artifact"]["parts"].as_array().unwrap().len(), parts);
        if let Some(url) = update["artifact"]["parts"][1]["url"].as_str() {
            assert_eq!(url, format!("https://rejoin.example/api/files/{file}/content"));
        }
        assert_eq!(Client::of(&frames).artifacts["answer"].0, "Here.");
    }
}

#[test]
fn frames_of_json_rpc_have_the_id_of_the_request() {
    let mut renderer = renderer(Begin::After(0), Form::Stream(Envelope::JsonRpc(json!("r7"))));
    let mut out = Vec::new();
    renderer.render(1, &message("user", "Hi"), &mut out);
    let frame = &parsed(&out)[0].1;
    assert_eq!((&frame["jsonrpc"], &frame["id"]), (&json!("2.0"), &json!("r7")));
    assert_eq!(frame["result"]["task"]["id"], TASK);
}

#[test]
fn a_document_is_written_once_when_the_task_rests() {
    let mut renderer = renderer(Begin::After(0), Form::AtRest);
    let mut out = Vec::new();
    for (seq, event) in long() {
        renderer.render(seq, &event, &mut out);
    }
    let document: Value = serde_json::from_slice(&out).unwrap();
    assert_eq!(document["task"]["status"]["state"], "TASK_STATE_COMPLETED");
    assert!(renderer.is_over());
}
