//! Questions of a run as interrupts of the protocol, and a client's answers to them.
//!
//! A call of a client's own tool is a question, too, but no interrupt: the client's run ends as completed, and the call is among the
//! pending ones.

use serde_json::{Value, json};

use super::request::{ResumeEntry, ResumeStatus};

/// The interaction type of a question that stands for a call of a client's tool.
pub const CLIENT_TOOL: &str = "client_tool";
/// The interaction type of an approval.
pub const CONFIRM: &str = "confirm";

/// An open question.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    /// The run that asks.
    pub run: String,
    pub seq: i64,
    /// The `question` event.
    pub event: Value,
}

impl Question {
    pub fn id(&self) -> &str {
        self.event["questionId"].as_str().unwrap_or_default()
    }

    /// The call that waits for the client's own tool; none: a question to a person.
    pub fn client_call(&self) -> Option<&str> {
        (self.event["interactionType"] == CLIENT_TOOL).then(|| self.event["callId"].as_str().unwrap_or_default())
    }

    /// The interrupt of a question to a person.
    pub fn interrupt(&self, root: &str) -> Value {
        let kind = self.event["interactionType"].as_str().unwrap_or_default();
        let options = &self.event["options"];
        let reason = if kind == CONFIRM {
            "confirmation"
        } else {
            "input_required"
        };
        let mut interrupt = json!({
            "id": self.id(), "reason": reason, "responseSchema": schema(kind, options),
            "metadata": {"interactionType": kind, "options": options},
        });
        if let Some(text) = self.event["question"].as_str() {
            interrupt["message"] = text.into();
        }
        if let Some(call) = self.event["callId"].as_str() {
            interrupt["toolCallId"] = call.into();
        }
        if self.run != root {
            interrupt["subagentRunId"] = self.run.as_str().into();
        }
        interrupt
    }
}

/// The JSON Schema of an answer.
fn schema(kind: &str, options: &Value) -> Value {
    let values: Vec<&Value> = options
        .as_array()
        .into_iter()
        .flatten()
        .map(|option| &option["value"])
        .collect();
    match kind {
        CONFIRM => json!({
            "type": "object", "required": ["approved"],
            "properties": {"approved": {"type": "boolean"}, "editedArgs": {"type": "object"}},
        }),
        "multi_select" => json!({"type": "array", "items": {"type": "string", "enum": values}}),
        "buttons" | "select" => json!({"type": "string", "enum": values}),
        _ => json!({"type": "string"}),
    }
}

/// What an entry of `resume` says to a question.
#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    Answer {
        answer: Value,
        /// The changed arguments of an approved call.
        input: Option<Value>,
    },
    /// It is closed without an answer.
    Abandon,
}

impl Reply {
    /// Reads an entry for a question of this interaction type. Err: what is wrong with it, for the client.
    pub fn of(entry: &ResumeEntry, kind: &str) -> Result<Self, String> {
        let refused = || Self::Answer {
            answer: json!("refuse"),
            input: None,
        };
        if entry.status == ResumeStatus::Cancelled {
            return Ok(if kind == CONFIRM { refused() } else { Self::Abandon });
        }
        let payload = match &entry.payload {
            // What a form makes of one question.
            Value::Object(fields) if fields.len() == 1 && fields.contains_key("answer") => &fields["answer"],
            payload => payload,
        };
        if payload.is_null() {
            return Err(format!(
                "the resume entry of {} has no payload; send the answer as payload, or the status cancelled",
                entry.interrupt_id
            ));
        }
        if kind != CONFIRM {
            return Ok(Self::Answer {
                answer: payload.clone(),
                input: None,
            });
        }
        let approved = payload.as_bool().or_else(|| payload["approved"].as_bool());
        let edited = payload.get("editedArgs").filter(|edited| !edited.is_null());
        Ok(match (approved, edited) {
            (Some(true), Some(edited)) => Self::Answer {
                answer: json!("edit"),
                input: Some(edited.clone()),
            },
            (Some(true), None) => Self::Answer {
                answer: json!("approve"),
                input: None,
            },
            (Some(false), _) => refused(),
            // `approve` or `refuse`, as on the native API.
            (None, _) if payload.is_string() => Self::Answer {
                answer: payload.clone(),
                input: None,
            },
            (None, _) => {
                return Err(format!(
                    "the payload of {} must be {{\"approved\": true or false, \"editedArgs\"?: object}}",
                    entry.interrupt_id
                ));
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(status: ResumeStatus, payload: Value) -> ResumeEntry {
        ResumeEntry {
            interrupt_id: "q".into(),
            status,
            payload,
        }
    }

    fn answer(answer: &str, input: Option<Value>) -> Reply {
        Reply::Answer {
            answer: json!(answer),
            input,
        }
    }

    #[test]
    fn an_approval_takes_the_protocols_form_and_ours() {
        let resolved = |payload| Reply::of(&entry(ResumeStatus::Resolved, payload), CONFIRM);
        assert_eq!(resolved(json!({"approved": true})), Ok(answer("approve", None)));
        assert_eq!(
            resolved(json!({"approved": true, "editedArgs": {"a": 1}})),
            Ok(answer("edit", Some(json!({"a": 1}))))
        );
        assert_eq!(resolved(json!({"approved": false})), Ok(answer("refuse", None)));
        assert_eq!(resolved(json!(true)), Ok(answer("approve", None)));
        assert_eq!(resolved(json!("approve")), Ok(answer("approve", None)));
        assert!(resolved(json!({"ok": 1})).is_err());
        assert!(resolved(Value::Null).is_err());
        let cancelled = Reply::of(&entry(ResumeStatus::Cancelled, Value::Null), CONFIRM);
        assert_eq!(cancelled, Ok(answer("refuse", None)));
    }

    #[test]
    fn other_answers_are_taken_as_they_are() {
        let resolved = |payload| Reply::of(&entry(ResumeStatus::Resolved, payload), "text");
        assert_eq!(resolved(json!("Paris")), Ok(answer("Paris", None)));
        assert_eq!(resolved(json!({"answer": "Paris"})), Ok(answer("Paris", None)));
        let cancelled = Reply::of(&entry(ResumeStatus::Cancelled, json!("x")), "text");
        assert_eq!(cancelled, Ok(Reply::Abandon));
    }

    #[test]
    fn an_interrupt_says_what_it_takes() {
        let question = Question {
            run: "child".into(),
            seq: 1,
            event: json!({
                "type": "question", "questionId": "q", "question": "Which?", "interactionType": "select",
                "options": [{"label": "A", "value": "a"}],
            }),
        };
        let interrupt = question.interrupt("root");
        assert_eq!(interrupt["responseSchema"], json!({"type": "string", "enum": ["a"]}));
        assert_eq!(interrupt["reason"], "input_required");
        assert_eq!(interrupt["subagentRunId"], "child");
        assert_eq!(question.client_call(), None);
    }
}
