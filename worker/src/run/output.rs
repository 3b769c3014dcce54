//! An answer as data: JSON that fits the run's schema.
//!
//! Providers that see to it themselves are given the schema; other models get a tool, `final_answer`, whose arguments are the answer. Either
//! way the answer is held against the schema here, and asked for once more where it does not fit. Readers are told of an answer that
//! fits alone, so that the text which they end with is the stored one. What was decided follows from the run's records: a new attempt
//! goes on from them.

use std::sync::Arc;

use futures::StreamExt as _;
use rejoin_shared::commands::RunError;
use rejoin_shared::events::kinds::DoneStatus;
use rejoin_shared::events::writer::LeaseLost;
use rejoin_shared::models::{Ability, catalogue};
use rejoin_shared::outputs;
use rejoin_shared::runs::Run;
use rejoin_shared::tools::{Schema, ToolSpec};
use serde_json::Value;

use super::answer::Answer;
use super::{End, Execution};
use crate::models::{Chunk, Message, ModelRequest, Provider, ToolCall, Usage};
use crate::publish::StreamEvent;

/// The tool by which models answer whose provider takes no schema.
pub const FINAL_ANSWER: &str = "final_answer";
/// Times that an answer which does not fit is asked for again.
const REPAIRS: usize = 1;
/// Begins the message that asks again; by it a new attempt knows that it was asked.
pub const REPAIR: &str = "Your answer does not match the required JSON schema: ";
/// Faults that the model is told of.
const FAULTS_TOLD: usize = 5;
const FINAL_ANSWER_WORDS: &str = "Submits the final answer of the task as data. Call it once, after everything else \
    is done; text next to it is not read.";

/// What the run's answer has to be.
pub(super) struct Output {
    document: Value,
    schema: Schema,
}

/// What is to be done with an answer.
pub(super) enum Fit {
    /// It fits, or any text does.
    Fits,
    /// The model is asked once more, with this.
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
    /// The run's; none where any text will do.
    pub(super) fn of(run: &Run) -> Option<Self> {
        run.output_schema.clone().map(Self::from)
    }

    /// Asks a model for data outside the run's own steps, and once more where its answer does not fit. Err: why there is none.
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
            let mut said = String::new();
            while let Some(chunk) = stream.next().await {
                match chunk.map_err(|error| error.message)? {
                    Chunk::Text(piece) => said.push_str(&piece),
                    Chunk::ToolCall(call) if call.name == FINAL_ANSWER => said = answer_in(call),
                    Chunk::End { usage, .. } => used += usage,
                    Chunk::Reasoning(_) | Chunk::ToolCall(_) => {}
                }
            }
            let faults = match outputs::read(&self.schema, &said) {
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
                text: said,
                tool_calls: Vec::new(),
                reasoning: None,
            });
            request.messages.push(Message::user(repair(&faults)));
        }
    }

    /// Adds to a request what makes the model answer as data.
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

    /// The answer's JSON as it is stored and told; none where it does not fit.
    fn json(&self, said: &str) -> Option<String> {
        outputs::read(&self.schema, said).ok().map(|value| value.to_string())
    }
}

/// Whether the model's provider takes a schema for an answer, beside tools where there are any.
fn is_native(model: &str, has_tools: bool) -> bool {
    let can = catalogue()
        .find(model)
        .is_some_and(|model| model.can(Ability::StructuredOutput) == Some(true));
    // Older Gemini models take a schema or tools, not both.
    let is_older_gemini = ["gemini-1", "gemini-2"].iter().any(|family| model.contains(family));
    // genai gives schemas to these providers, though not to Claude at Vertex AI.
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

/// The answer that a call of [`FINAL_ANSWER`] is.
fn answer_in(call: ToolCall) -> String {
    match call.arguments {
        Value::String(text) => text,
        arguments => arguments.to_string(),
    }
}

/// The faults of an answer that its model is told of.
fn first_faults(faults: &[String]) -> String {
    faults[..faults.len().min(FAULTS_TOLD)].join("; ")
}

/// Asks again for an answer that does not fit.
fn repair(faults: &str) -> String {
    format!("{REPAIR}{faults}. Give the complete answer again so that it matches.")
}

impl Execution {
    /// What becomes of the answer that the run has come to, the last message.
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

    /// Tells an answer that is data, whose words nobody has been told yet. What was said beside calls of tools is told as reasoning: the
    /// reply is the JSON alone.
    pub(super) async fn tell_output(&mut self, answer: &mut Answer) -> Result<(), LeaseLost> {
        let Some(output) = &self.output else { return Ok(()) };
        if let Some(at) = answer.calls.iter().position(|call| call.name == FINAL_ANSWER) {
            // Whatever else it asked for comes too late.
            let call = answer.calls.swap_remove(at);
            answer.calls.clear();
            answer.text = answer_in(call);
        }
        if !answer.calls.is_empty() {
            let text = answer.text.clone();
            return match text.is_empty() {
                true => Ok(()),
                false => self.tell(StreamEvent::ReasoningDelta { text }).await,
            };
        }
        let Some(json) = output.json(&answer.text) else {
            return Ok(());
        };
        answer.text.clone_from(&json);
        self.reply.clone_from(&json);
        self.tell(StreamEvent::TextDelta { text: json }).await
    }

    /// The run's end where its answer does not fit.
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
