//! Client tools: functions that the client of the run's message executes. They are offered to the model beside the
//! agent's own tools. A call of one is deferred (`deferred`): the run is suspended until the client has returned the
//! output, which is the call's result as it came.
//!
//! A client's tool takes the place of an agent's tool with the same name: a message that brings one along is refused,
//! but the project may have got the tool later, and a run keeps its tools over all attempts.

use std::collections::HashSet;
use std::sync::Arc;

use async_trait::async_trait;
use rejoin_commands::DeferredWhat;
use rejoin_runs::client_tools::{ClientOutput, ClientTool, QUESTION};
use rejoin_runs::questions::{NewQuestion, Question};
use rejoin_runs::tool_calls::ToolCallRow;
use rejoin_tools::{Schema, SharedTool, Tool, ToolContext, ToolError, ToolSpec, arguments};
use rejoin_types::ids;
use serde_json::Value;

use super::act::Ended;
use super::deferred::{Answer, waited_ms};
use super::limits::Verdict;
use super::{End, Execution};

/// A client's tool, as the model sees it.
struct OfClient {
    spec: ToolSpec,
}

#[async_trait]
impl Tool for OfClient {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn call(&self, _: &ToolContext, _: Value) -> Result<Value, ToolError> {
        let message = format!("{} is executed by the client, within a run", self.spec.name);
        Err(ToolError::RespondToModel(message))
    }
}

/// The client's tools of a run.
#[derive(Default)]
pub struct ClientTools {
    names: HashSet<String>,
}

impl ClientTools {
    /// Adds the client's tools to the agent's.
    pub fn offer(described: Vec<ClientTool>, tools: &mut Vec<SharedTool>) -> Self {
        let names: HashSet<String> = described.iter().map(|tool| tool.name.clone()).collect();
        tools.retain(|tool| !names.contains(&tool.spec().name));
        tools.extend(described.into_iter().map(|tool| {
            let spec = ToolSpec {
                name: tool.name,
                description: tool.description,
                parameters: Schema::from(tool.parameters),
                read_only: false,
                idempotent: false,
                destructive: false,
            };
            let tool: SharedTool = Arc::new(OfClient { spec });
            tool
        }));
        Self { names }
    }

    pub fn has(&self, name: &str) -> bool {
        self.names.contains(name)
    }
}

impl Execution {
    /// Returns the state of a call of a client's tool. `verdict`: on repetition, for a call that has not begun.
    pub(super) async fn client_call(&self, call: &ToolCallRow, verdict: Verdict) -> Result<Answer, End> {
        if let Some(question) = self.question_about(call).await? {
            return Ok(returned(call, &question));
        }
        if verdict != Verdict::Go {
            return Ok(Answer::Repeated);
        }
        let Some(tool) = self.tool(&call.tool_name) else {
            let gone = format!("the tool {} no longer exists", call.tool_name);
            return Ok(Answer::Ended(Ended::refused(gone)));
        };
        Ok(match arguments::admit_apart(tool.spec(), &call.input).await {
            Ok(input) => Answer::Awaited(DeferredWhat::Client {
                question: question(&call.tool_name),
                input,
            }),
            Err(fault) => Answer::Ended(Ended::refused(fault)),
        })
    }
}

/// The question that stands for a call.
fn question(tool: &str) -> NewQuestion {
    NewQuestion {
        id: ids::new(),
        kind: QUESTION,
        question: format!("Waits for the client to run {tool}"),
        options: Vec::new(),
        interaction_type: QUESTION.to_owned(),
        placeholder: None,
        max_length: None,
        form_field: None,
    }
}

/// Returns the result of a call whose question was asked.
fn returned(call: &ToolCallRow, question: &Question) -> Answer {
    if question.is_pending() {
        return Answer::Awaited(DeferredWhat::Begun);
    }
    let answer = question.answer.as_ref();
    Answer::Ended(match answer.and_then(ClientOutput::of_answer) {
        Some(ClientOutput::Text(text)) => Ended::verbatim(text, waited_ms(call)),
        Some(ClientOutput::Error(why)) => Ended::failed(why.to_owned(), waited_ms(call)),
        None => Ended::failed(
            "the client did not return the output in time; continue without it, and say what it would have changed"
                .to_owned(),
            waited_ms(call),
        ),
    })
}
