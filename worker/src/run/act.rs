//! Executes one tool call, raced against all stop signals.

use std::panic::AssertUnwindSafe;
use std::time::{Duration, Instant};

use futures::FutureExt as _;
use rejoin_extension::Signals;
use rejoin_models::catalogue;
use rejoin_runs::runs::Run;
use rejoin_runs::tool_calls::CallStatus;
use rejoin_telemetry::labels;
use rejoin_tools::input::{InputGiven, InputNeeded};
use rejoin_tools::{SharedTool, ToolContext, ToolError};
use rejoin_types::events::Operation;
use rejoin_types::text::{storable, storable_json};
use serde_json::Value;
use tracing::{error, warn};

use super::limits::Limits;
use super::{Execution, Interrupt};

/// Maximum length of a result given to the model, in characters; the whole is stored with the call.
const RESULT_MAX_CHARS: usize = 60_000;

/// Maximum size of a stored result, in bytes of JSON: it is a row, and a message to PostgreSQL.
const OUTPUT_MAX_BYTES: usize = 16 * 1024 * 1024;

/// The end of a call.
pub(super) struct Ended {
    pub status: CallStatus,
    pub output: Option<Value>,
    pub error: Option<String>,
    pub duration_ms: i64,
    /// Whether its start was not published, since it never acted.
    pub unannounced: bool,
    /// The operation shown to users.
    pub operation: Option<Operation>,
    /// The text for the model, if it is not the output as JSON.
    pub text: Option<String>,
}

impl Ended {
    /// The end of a call whose output came as text, JSON or not: the model gets it as it came.
    pub fn verbatim(text: &str, duration_ms: i64) -> Self {
        let output = serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()));
        Self {
            text: Some(text.to_owned()),
            ..Self::completed(storable_json(output), duration_ms)
        }
    }

    pub fn completed(output: Value, duration_ms: i64) -> Self {
        Self {
            status: CallStatus::Completed,
            output: Some(output),
            error: None,
            duration_ms,
            unannounced: false,
            operation: None,
            text: None,
        }
    }

    /// The end with a tool's output, if it is not too large.
    fn bounded(tool: &str, output: Value, duration_ms: i64) -> Self {
        let bytes = output.to_string().len();
        if bytes > OUTPUT_MAX_BYTES {
            let most = OUTPUT_MAX_BYTES / (1024 * 1024);
            let message = format!("{tool} returned {bytes} bytes; the maximum is {most} MiB. Narrow the call down");
            Self::failed(message, duration_ms)
        } else {
            Self::completed(output, duration_ms)
        }
    }

    /// The end of a call that did not act.
    pub fn refused(error: String) -> Self {
        Self {
            status: CallStatus::Error,
            output: None,
            error: Some(error),
            duration_ms: 0,
            unannounced: true,
            operation: None,
            text: None,
        }
    }

    /// Sets whether an earlier attempt has published its start.
    pub fn announced(self, is_announced: bool) -> Self {
        Self {
            unannounced: !is_announced,
            ..self
        }
    }

    /// The end of a call that acted and failed.
    pub fn failed(error: String, duration_ms: i64) -> Self {
        Self {
            status: CallStatus::Error,
            output: None,
            error: Some(error),
            duration_ms,
            unannounced: false,
            operation: None,
            text: None,
        }
    }

    /// The end of a call that may have acted, and will not be repeated.
    pub fn unknown() -> Self {
        Self {
            status: CallStatus::OutcomeUnknown,
            output: None,
            error: Some(
                "outcome unknown: the worker died during this call, which may have taken effect. It was not repeated. \
                Check whether it took effect before you call it again."
                    .to_owned(),
            ),
            duration_ms: 0,
            unannounced: false,
            operation: None,
            text: None,
        }
    }

    /// Removes characters that PostgreSQL can't store, before the output is published, recorded and given to the model.
    fn storable(self) -> Self {
        Self {
            output: self.output.map(storable_json),
            error: self.error.map(storable),
            ..self
        }
    }

    /// Returns the text for the run's model.
    pub fn content(&self, run: &Run) -> String {
        let max_chars = result_max_chars(run.model.as_deref());
        let text = match (&self.output, &self.error, &self.text) {
            (_, Some(error), _) => format!("Error: {error}"),
            (_, None, Some(text)) => text.clone(),
            (Some(output), None, None) => output.to_string(),
            (None, None, None) => "null".to_owned(),
        };
        match text.char_indices().nth(max_chars) {
            None => text,
            Some((at, _)) => format!(
                "{}\n[truncated: {} of {} characters are shown; narrow the call down or page through the result]",
                &text[..at],
                max_chars,
                text.chars().count()
            ),
        }
    }
}

/// Maximum length of a result for the model, in characters: about a quarter of the model's context window, if that is
/// less.
fn result_max_chars(model: Option<&str>) -> usize {
    let known = model
        .and_then(|model| catalogue().find(model))
        .and_then(|model| model.context);
    let quarter = known
        .and_then(|tokens| usize::try_from(tokens).ok())
        .unwrap_or(RESULT_MAX_CHARS);
    quarter.min(RESULT_MAX_CHARS)
}

/// How a call that has acted goes on. Err: its tool asks the user first.
pub(super) type Acted = Result<Ended, Box<InputNeeded>>;

/// A call recorded as running.
pub(super) struct Doing {
    pub tool: SharedTool,
    pub context: ToolContext,
    pub arguments: Value,
    /// The answers to what the call has asked before.
    pub given: Option<InputGiven>,
    /// The operation shown to users, once determined.
    pub operation: Option<Operation>,
    pub signals: Signals,
    pub limits: Limits,
    /// Timeout of the call.
    pub limit: Duration,
}

impl Doing {
    /// Determines the call's operation before it acts.
    pub async fn look(&mut self) {
        let mut operation = self.tool.operation(&self.context, &self.arguments).await;
        if let Some(operation) = &mut operation {
            operation.status = "start".to_owned();
        }
        self.operation = operation;
    }

    /// Runs it, with its operation.
    pub async fn done(mut self) -> Result<Acted, Interrupt> {
        let operation = self.operation.take();
        let mut ended = match self.acted().await? {
            Ok(ended) => ended.storable(),
            Err(needed) => return Ok(Err(needed)),
        };
        ended.operation = operation.map(|begun| {
            let made = ended.output.as_ref().and_then(|output| output["id"].as_str());
            Operation {
                status: if ended.error.is_none() { "success" } else { "error" }.to_owned(),
                entity_id: begun.entity_id.or(made.and_then(|id| id.parse().ok())),
                ..begun
            }
        });
        Ok(Ok(ended))
    }

    /// Runs it, raced against all stop signals.
    async fn acted(self) -> Result<Acted, Interrupt> {
        let spec = self.tool.spec();
        // Repeated by another attempt, it would ask the user again.
        let repeatable = self.given.is_none() && (spec.read_only || spec.idempotent);
        let began = Instant::now();
        let acting = match self.given {
            Some(given) => self.tool.resume(&self.context, self.arguments, given),
            None => self.tool.call(&self.context, self.arguments),
        };
        // A panic in a tool's code only fails the call.
        let acting = AssertUnwindSafe(acting).catch_unwind();
        let outcome = tokio::select! {
            biased;
            interrupt = Execution::interrupt(&self.signals, &self.limits, repeatable) => return Err(interrupt),
            result = tokio::time::timeout(self.limit, acting) => result,
        };
        let duration_ms = i64::try_from(began.elapsed().as_millis()).unwrap_or(i64::MAX);
        metrics::histogram!("rejoin_tool_call_seconds", "tool" => labels::bounded("tool", &spec.name))
            .record(began.elapsed().as_secs_f64());
        let error = match outcome {
            Ok(Ok(Ok(output))) => {
                return Ok(Ok(Ended::bounded(&spec.name, output, duration_ms)));
            }
            Ok(Ok(Err(ToolError::NeedsInput(needed)))) => return Ok(Err(needed)),
            Ok(Ok(Err(ToolError::RespondToModel(message)))) => message,
            Ok(Ok(Err(ToolError::Internal { attempted, source }))) => {
                error!(tool = spec.name, attempted, error = source.to_string(), "a tool failed");
                format!("{attempted} failed; the cause is in the server's log. Retrying later may help.")
            }
            Ok(Err(_)) => {
                error!(tool = spec.name, "a tool panicked");
                format!(
                    "{} crashed; the cause is in the server's log. It is unknown whether the call took effect.",
                    spec.name
                )
            }
            Err(_) => {
                let limit_s = self.limit.as_secs();
                warn!(tool = spec.name, limit_s, "a tool call timed out");
                format!("{} did not respond within {limit_s} s", spec.name)
            }
        };
        Ok(Ok(Ended::failed(error, duration_ms)))
    }
}
