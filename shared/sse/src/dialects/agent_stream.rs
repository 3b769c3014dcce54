//! The dialect of `/api/agent/stream`: `session`, `agent_mode`, `text`, `tool_call`, `tool_result`, `handoff`, `clarifying_questions`,
//! `timeout`, `error`, `done`. Events that mean the same in both keep their shape.

use bytes::Bytes;
use serde_json::{Value, json};

use crate::frame::Frame;

/// Fields shared with the native event, whatever its type.
const BASE: [&str; 5] = ["runId", "agent", "parentRunId", "source", "stepNumber"];

/// The operation types known to pages of this dialect, and the fallback for others.
const OPERATION_TYPES: [&str; 8] = [
    "document",
    "task",
    "goal",
    "plan",
    "project",
    "milestone",
    "risk",
    "requirement",
];
const OTHER_TYPE: &str = "document";

pub fn render(frame: &Frame) -> Bytes {
    let events = frame.json().map(|event| translate(&event)).unwrap_or_default();
    let mut out = Vec::new();
    let last = events.len().saturating_sub(1);
    for (at, event) in events.iter().enumerate() {
        // The cursor advances with the last one: a reader disconnected in between gets all of them again.
        let cursor = if at == last { frame.seq } else { frame.seq - 1 };
        out.extend_from_slice(format!("id: {cursor}\ndata: {event}\n\n").as_bytes());
    }
    out.into()
}

fn translate(event: &Value) -> Vec<Value> {
    let with_base = |mut translated: Value| {
        for name in BASE {
            if translated.get(name).is_none() && !event[name].is_null() {
                translated[name] = event[name].clone();
            }
        }
        translated
    };
    let events = match event["type"].as_str().unwrap_or_default() {
        // The client knows them from its own request, and from `text`.
        "message" | "usage" => vec![],
        // Of sub-agents: their text is not the answer.
        "token" | "reasoning" | "meta" if !event["parentRunId"].is_null() => vec![],
        "meta" => {
            let id = &event["conversationId"];
            let session = json!({"type": "session", "sessionId": id, "session": {"id": id}});
            let mode = json!({"type": "agent_mode", "mode": event["agent"]});
            if event["agent"].is_null() {
                vec![session]
            } else {
                vec![session, mode]
            }
        }
        "token" => vec![json!({"type": "text", "content": event["token"]})],
        "mcp_tool" if event["status"] == "started" => vec![json!({
            "type": "tool_call",
            "tool_call": {
                "id": event["callId"], "type": "function",
                "function": {"name": event["tool"], "arguments": event["input"].to_string()},
            },
        })],
        "mcp_tool" => vec![json!({
            "type": "tool_result",
            "result": {
                "tool_call_id": event["callId"], "toolName": event["tool"], "success": event["status"] == "completed",
                "data": event["result"], "error": event["error"], "durationMs": event["durationMs"],
            },
        })],
        "handoff" => vec![
            json!({"type": "handoff", "agent": event["to"], "from": event["from"], "message": event["reason"]}),
            json!({"type": "agent_mode", "mode": event["to"]}),
        ],
        // It is sent together with the others of its step.
        "question" if event["clarifying"] == true => vec![],
        // Not a question to a person: the call itself was sent.
        "question" if event["interactionType"] == "client_tool" => vec![],
        // An approval, or a question in a log written before they were combined.
        "question" => vec![json!({
            "type": "clarifying_questions",
            "questions": [{
                "id": event["questionId"], "question": event["question"], "options": event["options"],
                "interactionType": event["interactionType"],
            }],
        })],
        // Pages of this dialect know three states: a run that waits for its plan's steps, or for other agents, is
        // executing.
        "agent_state" if event["state"] == "waiting_on_agents" => {
            let mut state = event.clone();
            state["state"] = json!("executing_plan");
            vec![state]
        }
        "operation" => {
            let mut translated = event.clone();
            let kind = translated["operation"]["entity_type"]
                .as_str()
                .unwrap_or_default()
                .to_lowercase();
            let known = OPERATION_TYPES.contains(&kind.as_str());
            translated["operation"]["entity_type"] = json!(if known { kind.as_str() } else { OTHER_TYPE });
            vec![translated]
        }
        "limit" if event["limit"] == "timeout" => vec![json!({"type": "timeout", "message": event["message"]})],
        "error" => vec![json!({
            "type": "error", "error": event["error"], "message": event["error"], "code": event["code"],
            "retryable": event["retryable"],
        })],
        "done" => vec![json!({"type": "done", "finished_reason": event["status"], "usage": event["usage"]})],
        _ => return vec![event.clone()],
    };
    events.into_iter().map(with_base).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn types(event: Value) -> Vec<String> {
        let events = translate(&event);
        events
            .iter()
            .map(|event| event["type"].as_str().unwrap().to_owned())
            .collect()
    }

    /// Requirements: D60.
    #[test]
    fn events_are_spelt_as_the_dialect_has_them() {
        assert_eq!(
            types(json!({"type": "meta", "conversationId": "c", "agent": "triage"})),
            ["session", "agent_mode"]
        );
        assert_eq!(
            types(json!({"type": "handoff", "from": "a", "to": "b"})),
            ["handoff", "agent_mode"]
        );
        assert_eq!(types(json!({"type": "message"})), Vec::<String>::new());
        assert_eq!(
            types(json!({"type": "token", "token": "a", "source": "plan_step", "parentRunId": "p"})),
            Vec::<String>::new()
        );
        assert_eq!(types(json!({"type": "limit", "limit": "timeout"})), ["timeout"]);
        assert_eq!(types(json!({"type": "reset", "discardAfter": 4})), ["reset"]);
        assert_eq!(types(json!({"type": "console_modification"})), ["console_modification"]);
        assert_eq!(
            types(json!({"type": "question", "clarifying": true})),
            Vec::<String>::new()
        );
        assert_eq!(
            types(json!({"type": "question", "interactionType": "client_tool"})),
            Vec::<String>::new()
        );
        assert_eq!(types(json!({"type": "question"})), ["clarifying_questions"]);
        let call = &translate(
            &json!({"type": "mcp_tool", "status": "started", "callId": "1", "tool": "t", "input": {"a": 1}, "runId": "r"}),
        )[0];
        assert_eq!(
            call["tool_call"]["function"],
            json!({"name": "t", "arguments": "{\"a\":1}"})
        );
        assert_eq!(call["runId"], "r");
    }

    /// Requirements: E17.
    #[test]
    fn pages_get_states_that_they_know() {
        for (native, here) in [
            ("thinking", "thinking"),
            ("executing_plan", "executing_plan"),
            ("waiting_on_agents", "executing_plan"),
            ("waiting_on_user", "waiting_on_user"),
        ] {
            let translated = translate(&json!({"type": "agent_state", "state": native, "details": {"agents": 1}}));
            assert_eq!(
                translated,
                [json!({"type": "agent_state", "state": here, "details": {"agents": 1}})]
            );
        }
    }

    /// Requirements: E22.
    #[test]
    fn pages_get_types_of_objects_that_they_know() {
        for (native, here) in [
            ("task", "task"),
            ("Task", "task"),
            ("event", "document"),
            ("Package", "document"),
        ] {
            let translated =
                translate(&json!({"type": "operation", "operation": {"entity_type": native, "action": "read"}}));
            let operation = json!({"entity_type": here, "action": "read"});
            assert_eq!(translated, [json!({"type": "operation", "operation": operation})]);
        }
    }
}
