//! One model call, streamed: this is where a token is born. Text goes to the callback as it arrives; while the event writer is
//! full the callback waits, and with it the model's stream.

use futures::StreamExt;
use tracing::warn;

use super::{Execution, Interrupt};
use crate::models::retry::stream_with_retry;
use crate::models::{Chunk, Finish, ModelError, ModelRequest, ModelStream, ToolCall, Usage};
use crate::publish::StreamEvent;
use rejoin_shared::text::{storable, storable_json};
use rejoin_shared::tools::SharedTool;

/// Between the texts of two steps.
pub const STEP_SEPARATOR: &str = "\n\n";

/// A complete answer.
pub struct Answer {
    pub text: String,
    pub calls: Vec<ToolCall>,
    pub usage: Usage,
}

pub enum AnswerError {
    /// The files of messages could not be read.
    Database(sqlx::Error),
    Interrupted(Interrupt),
    LeaseLost,
    Model(ModelError),
}

/// What the model said, as it is told, recorded and given back to the model: without what PostgreSQL can't store.
fn storable_chunk(chunk: Chunk) -> Chunk {
    match chunk {
        Chunk::Text(text) => Chunk::Text(storable(text)),
        Chunk::Reasoning(text) => Chunk::Reasoning(storable(text)),
        Chunk::ToolCall(call) => Chunk::ToolCall(ToolCall {
            id: storable(call.id),
            name: storable(call.name),
            arguments: storable_json(call.arguments),
        }),
        Chunk::End { .. } => chunk,
    }
}

impl Execution {
    /// Asks the model with all that was said so far.
    pub(super) async fn ask(&mut self, tools: &[SharedTool]) -> Result<Answer, AnswerError> {
        let (signals, limits) = (self.request.signals.clone(), self.request.limits.clone());
        let (provider, policy) = (self.request.provider.clone(), self.request.services.retry.clone());
        tokio::select! {
            biased;
            interrupt = Self::interrupt(&signals, &limits, true) => Err(AnswerError::Interrupted(interrupt)),
            answer = async {
                let (messages, held) = self.messages_with_files().await?;
                let request = ModelRequest {
                    model: self.request.run.model.clone().unwrap_or_default(),
                    system: self.system.clone(),
                    messages,
                    tools: tools.iter().map(|tool| tool.spec().clone()).collect(),
                    temperature: self.request.temperature,
                    max_tokens: self.request.max_tokens,
                };
                let opened = stream_with_retry(provider.as_ref(), request, &policy, |retry| {
                    metrics::counter!("rejoin_model_retries_total").increment(1);
                    warn!(attempt = retry.attempt, error = %retry.error, "the model call failed; trying again");
                });
                let stream = opened.await.map_err(AnswerError::Model)?;
                drop(held);
                self.listen(stream).await
            } => answer,
        }
    }

    /// Passes the stream on until its end.
    async fn listen(&mut self, mut stream: ModelStream) -> Result<Answer, AnswerError> {
        let mut answer = Answer {
            text: String::new(),
            calls: Vec::new(),
            usage: Usage::default(),
        };
        while let Some(chunk) = stream.next().await {
            match storable_chunk(chunk.map_err(AnswerError::Model)?) {
                Chunk::Text(text) if text.is_empty() => {}
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
                Chunk::End { usage, finish } => {
                    answer.usage = usage;
                    return match finish {
                        Finish::Stop | Finish::ToolCalls | Finish::Length => Ok(answer),
                        Finish::ContentFilter if answer.text.is_empty() => Err(AnswerError::Model(ModelError {
                            code: "model_refused",
                            message: "the provider's filter stopped the answer; put the question in other words"
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
            message: "the model's answer broke off; send the message again".to_owned(),
            retryable: true,
            retry_after: None,
        }))
    }
}
