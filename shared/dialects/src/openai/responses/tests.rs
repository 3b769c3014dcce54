//! Recorded logs of runs, rendered as Responses: whole, and continued after each frame.

use super::*;
use crate::live::render_live;
use crate::openai::fold::continuation;
use crate::openai::settings::{self, Settings};

/// The events of a run, numbered from 3.
struct Log {
    run: Uuid,
    events: Vec<Value>,
}

impl Log {
    fn new(settings: &Settings) -> Self {
        let run = Uuid::now_v7();
        let context = json!({ settings::FIELD: settings });
        let mut log = Self { run, events: vec![] };
        log.add(
            json!({"type": "message", "message": {"id": Uuid::now_v7(), "role": "user", "content": "Hi",
            "createdAt": "2026-11-25T10:00:00Z", "attachedContext": context}}),
        );
        log.add(json!({"type": "meta", "conversationId": Uuid::now_v7(), "agent": "helper", "model": "m", "citations": [], "attempt": 1}))
    }

    fn add(&mut self, mut event: Value) -> Self {
        event["runId"] = json!(self.run);
        self.events.push(event);
        Self {
            run: self.run,
            events: self.events.clone(),
        }
    }

    fn tokens(&mut self, text: &str) {
        for token in text.split_inclusive(' ') {
            self.add(json!({"type": "token", "token": token}));
        }
    }

    fn usage(&mut self, input: u64, output: u64) {
        self.add(json!({"type": "usage", "inputTokens": input, "outputTokens": output, "totalTokens": input + output, "steps": 1}));
    }

    /// Discards what follows the last event that is no token.
    fn reset(&mut self) {
        let last = self.events.iter().rposition(|event| event["type"] != "token").unwrap();
        self.add(json!({"type": "reset", "discardAfter": last + 3, "attempt": 2, "reason": "worker lost"}));
    }

    fn done(&mut self, stored: &str) {
        self.add(
            json!({"type": "message", "message": {"id": Uuid::now_v7(), "role": "assistant", "content": stored,
            "createdAt": "2026-11-25T10:00:05Z"}}),
        );
        self.add(json!({"type": "done", "status": "completed"}));
    }

    fn ask_function(&mut self, question: Uuid) {
        self.add(json!({"type": "mcp_tool", "callId": "c1", "tool": "look", "status": "started", "input": {"n": 1}}));
        self.add(json!({"type": "question", "questionId": question, "question": "…", "options": [], "interactionType": "client_tool",
            "callId": "c1", "tool": "look", "input": {"n": 1}}));
    }

    fn wait(&mut self, questions: u64) {
        self.add(json!({"type": "agent_state", "state": "waiting_on_user", "details": {"agents": 0, "questions": questions, "dags": 0}}));
    }

    /// The frames after `after`, and the last response.
    fn frames(&self, id: ResponseId, words: WordsMode, after: i64) -> Vec<Value> {
        let mut out = Vec::new();
        let mut renderer = Responses::new(id, None, words, Form::Stream { after });
        let silent_through = ids::whole_through(after);
        for (event, seq) in self.events.iter().zip(3..) {
            let mut frames = Vec::new();
            render_live(&mut renderer, seq, event, &mut frames);
            if seq > silent_through {
                out.extend(frames);
            }
            if renderer.is_over() {
                break;
            }
        }
        let text = String::from_utf8(out).unwrap();
        let frames = text.split("\n\n").filter(|frame| !frame.is_empty());
        let mut events = Vec::new();
        for frame in frames {
            match frame.split_once("\ndata: ") {
                Some((kind, data)) => {
                    let event: Value = serde_json::from_str(data).unwrap();
                    assert_eq!(kind, format!("event: {}", event["type"].as_str().unwrap()));
                    events.push(event);
                }
                None => assert_eq!(frame, "data: [DONE]"),
            }
        }
        assert!(text.is_empty() || !renderer.is_over() || text.ends_with("data: [DONE]\n\n"));
        events
    }

    fn all(&self, words: WordsMode) -> Vec<Value> {
        self.frames(ResponseId::of_run(self.run), words, -1)
    }

    fn document(&self, id: ResponseId) -> Value {
        let mut renderer = Responses::new(id, None, WordsMode::Live, Form::Document);
        let mut out = Vec::new();
        for (event, seq) in self.events.iter().zip(3..) {
            renderer.render(seq, event, &mut out);
        }
        serde_json::from_slice(&out).unwrap()
    }
}

fn kinds(events: &[Value]) -> Vec<&str> {
    let mut kinds: Vec<&str> = events
        .iter()
        .map(|event| event["type"].as_str().unwrap().trim_start_matches("response."))
        .collect();
    kinds.dedup();
    kinds
}

fn output_text(response: &Value) -> String {
    let messages = response["output"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|item| item["type"] == "message");
    messages
        .map(|item| item["content"][0]["text"].as_str().unwrap())
        .collect()
}

fn deltas(events: &[Value]) -> String {
    let deltas = events
        .iter()
        .filter(|event| event["type"] == "response.output_text.delta");
    deltas.map(|event| event["delta"].as_str().unwrap()).collect()
}

fn settings() -> Settings {
    Settings {
        model: "helper".into(),
        tools: vec![json!({"type": "function", "name": "look"})],
        ..Settings::default()
    }
}

#[test]
fn an_answer_has_its_events_in_the_protocols_order() {
    let mut log = Log::new(&settings());
    log.add(json!({"type": "reasoning", "text": "Hm."}));
    log.tokens("Hello you");
    log.usage(7, 2);
    log.add(json!({"type": "mcp_tool", "callId": "a", "tool": "search", "status": "started", "input": {"q": "x"}}));
    log.add(json!({"type": "mcp_tool", "callId": "a", "tool": "search", "status": "completed", "result": {"n": 1}, "durationMs": 3}));
    log.tokens("\n\nFound it.");
    log.usage(20, 5);
    log.done("Hello you\n\nFound it.");
    let events = log.all(WordsMode::Live);
    assert_eq!(
        kinds(&events),
        [
            "created",
            "in_progress",
            "output_item.added",
            "reasoning_summary_part.added",
            "reasoning_summary_text.delta",
            "reasoning_summary_text.done",
            "reasoning_summary_part.done",
            "output_item.done",
            "output_item.added",
            "content_part.added",
            "output_text.delta",
            "output_text.done",
            "content_part.done",
            "output_item.done",
            "output_item.added",
            "mcp_call.in_progress",
            "mcp_call_arguments.delta",
            "mcp_call_arguments.done",
            "mcp_call.completed",
            "output_item.done",
            "output_item.added",
            "content_part.added",
            "output_text.delta",
            "output_text.done",
            "content_part.done",
            "output_item.done",
            "completed"
        ]
    );
    let numbers: Vec<i64> = events
        .iter()
        .map(|event| event["sequence_number"].as_i64().unwrap())
        .collect();
    assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
    let response = &events.last().unwrap()["response"];
    assert_eq!(output_text(response), "Hello you\n\nFound it.");
    assert_eq!(response["usage"]["total_tokens"], 25);
    assert_eq!(response["completed_at"], 1_795_600_805);
    assert_eq!(response["output"][2]["output"], r#"{"n":1}"#);
    assert_eq!(&log.document(ResponseId::of_run(log.run)), response);
}

#[test]
fn a_response_has_all_fields_that_open_responses_requires() {
    let mut log = Log::new(&Settings {
        temperature: Some(0.2),
        ..settings()
    });
    log.tokens("Hello");
    log.done("Hello");
    let response = log.document(ResponseId::of_run(log.run));
    for (name, value) in [
        ("temperature", json!(0.2)),
        ("top_p", json!(1.0)),
        ("presence_penalty", json!(0)),
        ("frequency_penalty", json!(0)),
        ("top_logprobs", json!(0)),
        ("max_tool_calls", Value::Null),
        ("service_tier", json!("default")),
        ("safety_identifier", Value::Null),
        ("prompt_cache_key", Value::Null),
    ] {
        assert_eq!(response.get(name), Some(&value), "{name}");
    }
}

#[test]
fn a_stream_continues_after_each_of_its_frames() {
    let mut log = Log::new(&settings());
    log.tokens("One two three");
    log.reset();
    log.tokens("One two four");
    log.usage(1, 1);
    log.done("One two four");
    for words in [WordsMode::Live, WordsMode::Safe] {
        let all = log.all(words);
        for (at, event) in all.iter().enumerate() {
            let after = event["sequence_number"].as_i64().unwrap();
            assert_eq!(
                log.frames(ResponseId::of_run(log.run), words, after),
                all[at + 1..],
                "after {after}"
            );
        }
    }
}

#[test]
fn words_of_a_lost_worker_are_not_repeated() {
    let mut log = Log::new(&settings());
    log.tokens("One two ");
    log.reset();
    log.tokens("One two three");
    log.usage(1, 1);
    log.done("One two three");
    let events = log.all(WordsMode::Live);
    assert_eq!(deltas(&events), "One two three");
    assert_eq!(output_text(&events.last().unwrap()["response"]), "One two three");
}

#[test]
fn a_step_in_other_words_replaces_the_abandoned_item() {
    let mut log = Log::new(&settings());
    log.tokens("One two ");
    log.reset();
    log.tokens("One ten");
    log.usage(1, 1);
    log.done("One ten");
    let events = log.all(WordsMode::Live);
    let ended: Vec<&Value> = events
        .iter()
        .filter(|event| event["type"] == "response.output_item.done")
        .collect();
    assert_eq!(
        (&ended[0]["item"]["status"], &ended[1]["item"]["status"]),
        (&json!("incomplete"), &json!("completed"))
    );
    assert_eq!(output_text(&events.last().unwrap()["response"]), "One ten");
    let safe = log.all(WordsMode::Safe);
    assert_eq!(deltas(&safe), "One ten");
}

#[test]
fn a_response_ends_with_its_calls_outputs_begin_another() {
    let question = Uuid::now_v7();
    let mut log = Log::new(&settings());
    log.tokens("Let me look.");
    log.usage(5, 3);
    log.ask_function(question);
    log.wait(1);
    log.add(json!({"type": "question_answered", "questionId": question, "status": "answered"}));
    log.add(json!({"type": "agent_state", "state": "thinking"}));
    log.add(json!({"type": "mcp_tool", "callId": "c1", "tool": "look", "status": "completed", "result": 7}));
    log.tokens("\n\nSeven.");
    log.usage(15, 4);
    log.done("Let me look.\n\nSeven.");
    let first = log.all(WordsMode::Live);
    let response = &first.last().unwrap()["response"];
    assert_eq!(response["status"], "completed");
    let call = &response["output"][1];
    assert_eq!(
        (&call["type"], &call["call_id"], &call["arguments"]),
        (
            &json!("function_call"),
            &json!(ids::call(question)),
            &json!(r#"{"n":1}"#)
        )
    );
    assert_eq!(&log.document(ResponseId::of_run(log.run)), response);

    let id = continuation(log.run, [question]);
    let second = log.frames(id, WordsMode::Live, -1);
    assert_eq!(second[0]["type"], "response.created");
    let response = &second.last().unwrap()["response"];
    assert_eq!(
        response["previous_response_id"],
        ResponseId::of_run(log.run).to_string()
    );
    assert_eq!(output_text(response), "\n\nSeven.");
    assert_eq!(response["output"].as_array().unwrap().len(), 1);
    assert_eq!(response["usage"]["input_tokens"], 10);
    assert_eq!(&log.document(id), response);
    let mut renderer = Responses::new(id, None, WordsMode::Live, Form::Document);
    for event in &log.events {
        renderer.render(1, event, &mut Vec::new());
    }
    let input = renderer.input().unwrap();
    assert_eq!(
        (&input[0]["type"], &input[0]["output"]),
        (&json!("function_call_output"), &json!("7"))
    );
    assert_eq!(
        log.frames(continuation(log.run, [Uuid::now_v7()]), WordsMode::Live, -1),
        Vec::<Value>::new()
    );
}

#[test]
fn a_run_that_fails_or_is_cancelled_says_so() {
    let mut log = Log::new(&settings());
    log.tokens("Half ");
    let mut failed =
        log.add(json!({"type": "error", "error": "no key", "code": "model_key_missing", "retryable": false}));
    failed.add(json!({"type": "done", "status": "failed"}));
    let events = failed.all(WordsMode::Live);
    let last = events.last().unwrap();
    assert_eq!(
        (&last["type"], &last["response"]["status"]),
        (&json!("response.failed"), &json!("failed"))
    );
    assert_eq!(last["response"]["error"]["message"], "no key");
    let mut log = Log::new(&settings());
    log.add(json!({"type": "done", "status": "cancelled"}));
    let events = log.all(WordsMode::Live);
    let last = events.last().unwrap();
    assert_eq!(
        (&last["type"], &last["response"]["status"]),
        (&json!("response.incomplete"), &json!("cancelled"))
    );
}

#[test]
fn an_answer_without_tokens_is_shown_from_its_message() {
    let mut log = Log::new(&settings());
    log.done("From a flow.");
    let events = log.all(WordsMode::Live);
    assert_eq!(deltas(&events), "From a flow.");
    assert_eq!(output_text(&events.last().unwrap()["response"]), "From a flow.");
}

#[test]
fn an_approval_and_a_question_end_the_response() {
    let (approval, question) = (Uuid::now_v7(), Uuid::now_v7());
    let mut log = Log::new(&settings());
    log.add(json!({"type": "question", "questionId": approval, "question": "May it pay?", "options": [], "interactionType": "confirm"}));
    log.add(
        json!({"type": "question", "questionId": question, "question": "Which one?", "interactionType": "buttons",
        "options": [{"label": "A", "value": "a"}, {"label": "B", "value": "b"}]}),
    );
    log.wait(2);
    let response = log.document(ResponseId::of_run(log.run));
    assert_eq!(response["output"][0]["type"], "mcp_approval_request");
    assert_eq!(response["output"][0]["id"], ids::approval(approval));
    assert_eq!(output_text(&response), "Which one?\n- A\n- B");
}
