//! One model call, streamed. Text is passed to the callback as it arrives; while the event writer is full the callback
//! waits, and with it the model's stream.

use futures::StreamExt;
use tracing::warn;

use super::{Execution, Interrupt};
use crate::publish::StreamEvent;
use rejoin_model_client::retry::stream_with_retry;
use rejoin_model_client::{Chunk, Finish, ModelError, ModelRequest, ModelStream, Reasoning, ToolCall, Usage};
use rejoin_runs::remote_calls;
use rejoin_tools::SharedTool;
use rejoin_types::events::Kind;
use rejoin_types::text::{storable, storable_json};
use serde_json::json;

/// Between the texts of two steps.
pub const STEP_SEPARATOR: &str = "\n\n";

/// A complete answer.
pub struct Answer {
    pub text: String,
    pub calls: Vec<ToolCall>,
    pub usage: Usage,
    /// The reasoning that the provider expects back.
    pub reasoning: Option<Reasoning>,
}

pub enum AnswerError {
    /// The files of messages could not be read.
    Database(sqlx::Error),
    Interrupted(Interrupt),
    LeaseLost,
    Model(ModelError),
}

impl AnswerError {
    /// Returns its kind, for traces.
    fn kind(&self) -> &'static str {
        match self {
            AnswerError::Database(_) => "database",
            AnswerError::Interrupted(Interrupt::Cancelled) => "cancelled",
            AnswerError::Interrupted(Interrupt::Drain) => "drained",
            AnswerError::Interrupted(Interrupt::Timeout) => "timeout",
            AnswerError::Interrupted(Interrupt::LeaseLost) | AnswerError::LeaseLost => "lease_lost",
            AnswerError::Model(error) => error.code,
        }
    }
}

/// Removes characters that PostgreSQL can't store from a chunk, before it is published, recorded and sent back to the
/// model.
fn storable_chunk(chunk: Chunk) -> Chunk {
    match chunk {
        Chunk::Text(text) => Chunk::Text(storable(text)),
        Chunk::Reasoning(text) => Chunk::Reasoning(storable(text)),
        Chunk::ToolCall(call) => Chunk::ToolCall(ToolCall {
            id: storable(call.id),
            name: storable(call.name),
            arguments: storable_json(call.arguments),
        }),
        Chunk::End {
            usage,
            finish,
            reasoning,
        } => Chunk::End {
            usage,
            finish,
            reasoning: reasoning.and_then(Reasoning::storable),
        },
    }
}

impl Execution {
    /// Calls the model with the whole conversation.
    pub(super) async fn ask(&mut self, tools: &[SharedTool], withdrawn: &[SharedTool]) -> Result<Answer, AnswerError> {
        let specs = |tools: &[SharedTool]| tools.iter().map(|tool| tool.spec().clone()).collect();
        let request = ModelRequest {
            model: self.request.run.model.clone().unwrap_or_default(),
            system: self.system.clone(),
            // With their files, for each model in turn.
            messages: Vec::new(),
            tools: specs(tools),
            withdrawn_tools: specs(withdrawn),
            temperature: self.request.temperature,
            max_tokens: self.request.max_tokens,
            effort: self.request.effort,
            cache_key: Some(self.request.run.log_id.to_string()),
            output: None,
        };
        let (signals, limits) = (self.request.signals.clone(), self.request.limits.clone());
        let answer: Result<Answer, AnswerError> = tokio::select! {
            biased;
            interrupt = Self::interrupt(&signals, &limits, true) => Err(AnswerError::Interrupted(interrupt)),
            answer = async {
                let stream = self.open(request).await?;
                self.listen(stream).await
            } => answer,
        };
        if let Err(error) = &answer {
            self.spans.chat_failed(error.kind());
        }
        answer
    }

    /// Calls the model and, if it can't answer, its fallbacks.
    async fn open(&mut self, request: ModelRequest) -> Result<ModelStream, AnswerError> {
        loop {
            let provider = self.request.models.current();
            let (messages, _held) = self.messages_with_files().await?;
            let mut request = ModelRequest {
                messages,
                ..request.clone()
            };
            if let Some(output) = &self.output {
                output.ask(self.request.models.name(), &mut request);
            }
            let policy = self.request.models.policy(&self.request.services.retry);
            self.spans.begin_chat(self.request.models.name());
            let chat = self.spans.chat();
            chat.set_some("gen_ai.request.temperature", request.temperature);
            chat.set_some("gen_ai.request.max_tokens", request.max_tokens.map(u64::from));
            let mut retries = 0_u64;
            let opened = stream_with_retry(provider.as_ref(), request, &policy, |retry| {
                metrics::counter!("rejoin_model_retries_total").increment(1);
                warn!(attempt = retry.attempt, error = %retry.error, "the model call failed; retrying");
                retries += 1;
            });
            let opened = opened.await;
            if retries > 0 {
                self.spans.chat().set("rejoin.retries", retries);
            }
            let error = match opened {
                Ok(stream) => return Ok(stream),
                Err(error) => error,
            };
            let Some(change) = self.request.models.fall_back(&error) else {
                return Err(AnswerError::Model(error));
            };
            self.spans.chat_failed(error.code);
            metrics::counter!("rejoin_model_fallbacks_total").increment(1);
            warn!(from = %change.from, to = %change.to, %error, "the model is unavailable; using its fallback");
            let event = Kind::Telemetry {
                name: "model_fallback".to_owned(),
                data: json!({"from": change.from, "to": change.to, "code": error.code, "reason": storable(error.message)}),
            };
            self.tell(StreamEvent::Note { event })
                .await
                .map_err(|_| AnswerError::LeaseLost)?;
        }
    }

    /// Passes the stream on until its end.
    async fn listen(&mut self, mut stream: ModelStream) -> Result<Answer, AnswerError> {
        let mut answer = Answer {
            text: String::new(),
            calls: Vec::new(),
            usage: Usage::default(),
            reasoning: None,
        };
        let mut has_begun = false;
        while let Some(chunk) = stream.next().await {
            if !has_begun {
                self.spans.first_chunk();
                has_begun = true;
            }
            let chunk = storable_chunk(chunk.map_err(AnswerError::Model)?);
            if self.request.is_function && matches!(chunk, Chunk::Text(_)) {
                // Readers have it already. The result of the function follows.
                let (db, run) = (&self.request.services.db.pool_sqlx, &self.request.run);
                let written = remote_calls::written(db, run.id, run.turn_step).await;
                answer.text = written.map_err(AnswerError::Database)?;
                self.reply.push_str(&answer.text);
            }
            match chunk {
                Chunk::Text(text) if text.is_empty() => {}
                // Published once it is known to be valid.
                Chunk::Text(text) if self.output.is_some() => answer.text.push_str(&text),
                Chunk::Text(text) => {
                    let begins = answer.text.is_empty();
                    answer.text.push_str(&text);
                    let text = if begins && !self.reply.is_empty() {
                        format!("{STEP_SEPARATOR}{text}")
                    } else {
                        text
                    };
                    self.reply.push_str(&text);
                    self.tell(StreamEvent::TextDelta { text })
                        .await
                        .map_err(|_| AnswerError::LeaseLost)?;
                }
                Chunk::Reasoning(text) => {
                    self.tell(StreamEvent::ReasoningDelta { text })
                        .await
                        .map_err(|_| AnswerError::LeaseLost)?;
                }
                Chunk::ToolCall(call) => answer.calls.push(call),
                Chunk::End {
                    usage,
                    finish,
                    reasoning,
                } => {
                    answer.usage = usage;
                    answer.reasoning = reasoning;
                    self.spans.finished(finish);
                    return match finish {
                        Finish::Stop | Finish::ToolCalls | Finish::Length => Ok(answer),
                        Finish::ContentFilter if answer.text.is_empty() => Err(AnswerError::Model(ModelError {
                            code: "model_refused",
                            message: "the provider's content filter stopped the answer; rephrase the question"
                                .to_owned(),
                            retryable: false,
                            retry_after: None,
                        })),
                        Finish::ContentFilter => Ok(answer),
                    };
                }
            }
        }
        Err(AnswerError::Model(ModelError {
            code: "model_stream_cut",
            message: "the model's answer ended early; send the message again".to_owned(),
            retryable: true,
            retry_after: None,
        }))
    }
}
