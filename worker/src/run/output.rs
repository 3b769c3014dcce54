//! Structured output: an answer as JSON that matches the run's schema.
//!
//! Providers with native support get the schema; other models get a tool, `final_answer`, whose arguments are the
//! answer. Either way the answer is validated here, and requested once more if invalid. Readers get only a valid
//! answer, so that their final text is the stored one. All decisions follow from the run's records: a new attempt
//! continues from them.

use std::sync::Arc;

use futures::StreamExt as _;
use rejoin_commands::RunError;
use rejoin_event_log::group_commit::LeaseLost;
use rejoin_model_client::{Chunk, Message, ModelRequest, Provider, ToolCall, Usage};
use rejoin_models::{Ability, catalogue};
use rejoin_runs::runs::Run;
use rejoin_tools::outputs;
use rejoin_tools::{Schema, ToolSpec};
use rejoin_types::events::DoneStatus;
use serde_json::Value;

use super::answer::Answer;
use super::{End, Execution};
use crate::publish::StreamEvent;

/// The tool that carries the answer, for models whose provider accepts no schema.
pub const FINAL_ANSWER: &str = "final_answer";
/// Maximum number of retries of an invalid answer.
const REPAIRS: usize = 1;
/// The beginning of the retry message, by which a new attempt recognizes it.
pub const REPAIR: &str = "Your answer does not match the required JSON schema: ";
/// Maximum number of violations reported to the model.
const FAULTS_TOLD: usize = 5;
const FINAL_ANSWER_WORDS: &str = "Submits the final answer of the task as data. Call it once, after everything else \
    is done; text next to it is not read.";

/// The required structured output of a run.
pub(super) struct Output {
    document: Value,
    schema: Schema,
}

/// The decision about an answer.
pub(super) enum Fit {
    /// It is valid, or any text is.
    Fits,
    /// The model is asked once more, with this message.
    Repair(String),
    Fails(RunError),
}

impl From<Value> for Output {
    fn from(document: Value) -> Self {
        Self {
            schema: Schema::from(document.clone()),
            document,
        }
    }
}

impl Output {
    /// The run's; none if any text is allowed.
    pub(super) fn of(run: &Run) -> Option<Self> {
        run.output_schema.clone().map(Self::from)
    }

    /// Asks a model for structured output outside the run's steps, and once more if the answer is invalid. Err: why
    /// there is none.
    pub(super) async fn ask_once(
        &self,
        model: &str,
        provider: Arc<dyn Provider>,
        mut request: ModelRequest,
    ) -> Result<(Value, Usage), String> {
        let mut used = Usage::default();
        let mut repairs_left = REPAIRS;
        loop {
            let mut asked = request.clone();
            self.ask(model, &mut asked);
            let mut stream = provider.stream(asked).await.map_err(|error| error.message)?;
            let mut raw = String::new();
            while let Some(chunk) = stream.next().await {
                match chunk.map_err(|error| error.message)? {
                    Chunk::Text(piece) => raw.push_str(&piece),
                    Chunk::ToolCall(call) if call.name == FINAL_ANSWER => raw = answer_in(call),
                    Chunk::End { usage, .. } => used += usage,
                    Chunk::Reasoning(_) | Chunk::ToolCall(_) => {}
                }
            }
            let faults = match outputs::read(&self.schema, &raw) {
                Ok(value) => return Ok((value, used)),
                Err(faults) => first_faults(&faults),
            };
            if repairs_left == 0 {
                return Err(format!(
                    "the model's answer does not match the schema, even after a retry: {faults}"
                ));
            }
            repairs_left -= 1;
            request.messages.push(Message::Assistant {
                text: raw,
                tool_calls: Vec::new(),
                reasoning: None,
            });
            request.messages.push(Message::user(repair(&faults)));
        }
    }

    /// Adds the structured output to a request.
    pub(super) fn ask(&self, model: &str, request: &mut ModelRequest) {
        if is_native(model, !request.tools.is_empty()) {
            request.output = Some(self.document.clone());
            return;
        }
        request.tools.push(ToolSpec {
            name: FINAL_ANSWER.to_owned(),
            description: FINAL_ANSWER_WORDS.to_owned(),
            parameters: self.schema.clone(),
            read_only: true,
            idempotent: true,
            destructive: false,
        });
        request
            .system
            .push_str("\n\nGive your final answer by calling the tool `final_answer`.");
    }

    /// Returns the answer's JSON as stored and published; none if it is invalid.
    fn json(&self, raw: &str) -> Option<String> {
        outputs::read(&self.schema, raw).ok().map(|value| value.to_string())
    }
}

/// Returns whether the model's provider accepts a schema for an answer, together with tools if there are any.
fn is_native(model: &str, has_tools: bool) -> bool {
    let can = catalogue()
        .find(model)
        .is_some_and(|model| model.can(Ability::StructuredOutput) == Some(true));
    // Older Gemini models accept a schema or tools, not both.
    let is_older_gemini = ["gemini-1", "gemini-2"].iter().any(|family| model.contains(family));
    // genai sends schemas to these providers, but not to Claude on Vertex AI.
    let is_sent = [
        "openai:",
        "openai-responses:",
        "azure:",
        "anthropic:",
        "gemini:",
        "vertex:",
    ]
    .iter()
    .any(|provider| model.starts_with(provider));
    let is_sent = is_sent && !model.starts_with("vertex:claude");
    can && is_sent && !(has_tools && is_older_gemini)
}

/// Returns the answer in a call of [`FINAL_ANSWER`].
fn answer_in(call: ToolCall) -> String {
    match call.arguments {
        Value::String(text) => text,
        arguments => arguments.to_string(),
    }
}

/// Returns the violations reported to the model.
fn first_faults(faults: &[String]) -> String {
    faults[..faults.len().min(FAULTS_TOLD)].join("; ")
}

/// Returns the message that asks again after an invalid answer.
fn repair(faults: &str) -> String {
    format!("{REPAIR}{faults}. Give the complete answer again so that it matches.")
}

impl Execution {
    /// Decides about the run's answer, the last message.
    pub(super) fn fit(&self) -> Fit {
        let (Some(output), Some(Message::Assistant { text, .. })) = (&self.output, self.messages.last()) else {
            return Fit::Fits;
        };
        let faults = match outputs::read(&output.schema, text) {
            Ok(_) => return Fit::Fits,
            Err(faults) => faults,
        };
        let faults = first_faults(&faults);
        let asked = self
            .messages
            .iter()
            .filter(|message| matches!(message, Message::User { text, .. } if text.starts_with(REPAIR)))
            .count();
        if asked < REPAIRS {
            return Fit::Repair(repair(&faults));
        }
        Fit::Fails(RunError {
            code: "output_invalid".to_owned(),
            message: format!(
                "the model's answer does not match outputSchema, even after a retry: {faults}. Simplify the schema, \
                or choose a model with structured output (`rejoin models`)"
            ),
            retryable: true,
        })
    }

    /// Publishes a structured answer, whose text was not published yet. Text beside tool calls is published as
    /// reasoning: the reply is the JSON alone.
    pub(super) async fn tell_output(&mut self, answer: &mut Answer) -> Result<(), LeaseLost> {
        let Some(output) = &self.output else { return Ok(()) };
        if let Some(at) = answer.calls.iter().position(|call| call.name == FINAL_ANSWER) {
            // Other requested calls come too late.
            let call = answer.calls.swap_remove(at);
            answer.calls.clear();
            answer.text = answer_in(call);
        }
        if !answer.calls.is_empty() {
            let text = answer.text.clone();
            return if text.is_empty() {
                Ok(())
            } else {
                self.tell(StreamEvent::ReasoningDelta { text }).await
            };
        }
        let Some(json) = output.json(&answer.text) else {
            return Ok(());
        };
        answer.text.clone_from(&json);
        self.reply.clone_from(&json);
        self.tell(StreamEvent::TextDelta { text: json }).await
    }

    /// Returns the end of a run whose answer is invalid.
    pub(super) fn unfit(&self, error: RunError) -> End {
        self.finished(DoneStatus::Failed, Some(error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_goes_to_providers_that_take_one() {
        assert!(is_native("openai:gpt-6-luna", true));
        assert!(is_native("anthropic:claude-haiku-5-5", true));
        assert!(is_native("gemini:gemini-3.8-flash", true));
        assert!(is_native("gemini:gemini-2.5-flash", false));
        assert!(!is_native("gemini:gemini-2.5-flash", true));
        assert!(!is_native("openai:some-local-model", false));
        assert!(!is_native("ollama:llama3.2", false));
    }
}
