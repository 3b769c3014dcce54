//! The spans of Rejoin, with the names and attributes of OpenTelemetry's conventions for HTTP and for generative AI; `rejoin.` precedes what these
//! do not have. Called by the API (`server`) and by the worker.
//!
//! Invariant: no parameter here is a prompt, an answer, an argument or a result.

use opentelemetry::trace::SpanKind;
use uuid::Uuid;

use crate::context::{Parent, TraceContext};
use crate::span::{Attribute, Span};
use crate::tracer::Telemetry;

/// One attempt of one agent at a run.
#[derive(Debug, Clone, Copy)]
pub struct Attempt<'a> {
    /// The run.
    pub run_id: Uuid,
    /// Its number, from 1.
    pub number: i32,
    /// The workspace of the run.
    pub workspace_id: Uuid,
    /// The conversation, if it belongs to one.
    pub conversation_id: Option<Uuid>,
    /// The agent's definition. None: a conversation without an agent.
    pub agent_id: Option<Uuid>,
    /// The agent's name.
    pub agent_name: Option<&'a str>,
    /// Its model, as `provider:model`.
    pub model: &'a str,
}

/// The tokens of a model call.
#[derive(Debug, Clone, Copy, Default)]
pub struct TokensUsed {
    /// The whole prompt.
    pub input: u64,
    /// The whole answer.
    pub output: u64,
    /// Of the prompt: read from the provider's cache.
    pub cache_read: u64,
    /// Of the prompt: written to the provider's cache.
    pub cache_write: u64,
    /// Of the answer: reasoning.
    pub reasoning: u64,
}

impl Telemetry {
    /// Opens the span of a request. `parent`: the client's span.
    pub fn server(&self, parent: Option<TraceContext>, method: &str, route: Option<&str>) -> Span {
        let parent = parent.map_or(Parent::None, Parent::Remote);
        let mut span = self.open(parent, SpanKind::Server, || match route {
            Some(route) => format!("{method} {route}"),
            None => method.to_owned(),
        });
        span.set("http.request.method", method);
        span.set_some("http.route", route);
        span
    }

    /// Opens the span of an attempt.
    pub fn invoke_agent(&self, parent: Parent, attempt: &Attempt<'_>) -> Span {
        let mut span = self.open(parent, SpanKind::Internal, || match attempt.agent_name {
            Some(name) => format!("invoke_agent {name}"),
            None => "invoke_agent".to_owned(),
        });
        span.set("gen_ai.operation.name", "invoke_agent");
        span.set_some("gen_ai.agent.id", attempt.agent_id);
        span.set_some("gen_ai.agent.name", attempt.agent_name);
        span.set_some("gen_ai.conversation.id", attempt.conversation_id);
        span.model(attempt.model);
        span.set("rejoin.run.id", attempt.run_id);
        span.set("rejoin.attempt", u64::try_from(attempt.number).unwrap_or_default());
        span.set("rejoin.workspace.id", attempt.workspace_id);
        span
    }

    /// Opens the span of a model call. `model`: as `provider:model`.
    pub fn chat(&self, attempt: Option<TraceContext>, model: &str) -> Span {
        let Some(attempt) = attempt else {
            return Span::none();
        };
        let mut span = self.open(Parent::Local(attempt), SpanKind::Client, || {
            format!("chat {}", split(model).1)
        });
        span.set("gen_ai.operation.name", "chat");
        span.model(model);
        span.set("gen_ai.request.stream", true);
        span
    }

    /// Opens the span of a tool call.
    pub fn execute_tool(&self, attempt: Option<TraceContext>, tool: &str, call_id: &str) -> Span {
        let Some(attempt) = attempt else {
            return Span::none();
        };
        let mut span = self.open(Parent::Local(attempt), SpanKind::Internal, || {
            format!("execute_tool {tool}")
        });
        span.set("gen_ai.operation.name", "execute_tool");
        span.set("gen_ai.tool.name", tool);
        span.set("gen_ai.tool.call.id", call_id);
        span.set("gen_ai.tool.type", "function");
        span
    }
}

impl Span {
    /// Sets the model that is asked, `provider:model`.
    fn model(&mut self, model: &str) {
        let (provider, name) = split(model);
        self.set("gen_ai.provider.name", provider_name(provider));
        self.set("gen_ai.request.model", name);
    }

    /// Sets the time since the span began as that until the first part of the answer.
    pub fn first_chunk(&mut self) {
        let elapsed = self.elapsed();
        self.set_some(
            "gen_ai.response.time_to_first_chunk",
            elapsed.map(|elapsed| elapsed.as_secs_f64()),
        );
    }

    /// Sets why the model has stopped.
    pub fn finish_reason(&mut self, reason: &str) {
        self.set("gen_ai.response.finish_reasons", Attribute::List(reason));
    }

    /// Sets what a model call has used. `cost_usd`: if it is known.
    pub fn used(&mut self, tokens: &TokensUsed, cost_usd: Option<f64>) {
        self.set("gen_ai.usage.input_tokens", tokens.input);
        self.set("gen_ai.usage.output_tokens", tokens.output);
        for (name, tokens) in [
            ("gen_ai.usage.cache_read.input_tokens", tokens.cache_read),
            ("gen_ai.usage.cache_creation.input_tokens", tokens.cache_write),
            ("gen_ai.usage.reasoning.output_tokens", tokens.reasoning),
        ] {
            if tokens > 0 {
                self.set(name, tokens);
            }
        }
        self.set_some("rejoin.cost_usd", cost_usd);
    }
}

fn split(model: &str) -> (&str, &str) {
    model.split_once(':').unwrap_or(("", model))
}

/// Returns the conventions' name of a provider.
fn provider_name(provider: &str) -> &str {
    match provider {
        "openai-responses" => "openai",
        "azure" => "azure.ai.openai",
        "gemini" => "gcp.gemini",
        "vertex" => "gcp.vertex_ai",
        "bedrock" => "aws.bedrock",
        // Flows over agents, and conversations without a provider.
        "flow" | "" => "rejoin",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn providers_have_the_names_of_the_conventions() {
        for (model, provider, name) in [
            ("openai:gpt-6-luna", "openai", "gpt-6-luna"),
            ("openai-responses:gpt-6-luna", "openai", "gpt-6-luna"),
            ("ollama:llama3.2:3b", "ollama", "llama3.2:3b"),
            ("bedrock:anthropic.claude", "aws.bedrock", "anthropic.claude"),
            ("flow:parallel", "rejoin", "parallel"),
        ] {
            let (of, rest) = split(model);
            assert_eq!((provider_name(of), rest), (provider, name), "{model}");
        }
    }

    #[test]
    fn without_a_collector_there_are_no_spans() {
        let telemetry = Telemetry::off();
        assert!(!telemetry.is_on());
        let parent = TraceContext::parse("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
        let mut span = telemetry.server(parent, "POST", None);
        span.error("anything");
        assert_eq!((span.context(), span.traceparent(), span.elapsed()), (None, None, None));
        assert_eq!(telemetry.chat(span.context(), "openai:gpt").context(), None);
        assert_eq!(telemetry.execute_tool(parent, "search", "call_1").context(), None);
    }

    #[tokio::test]
    async fn spans_continue_the_trace_and_the_decision_of_their_parent() {
        // Nothing listens there.
        let args = crate::TelemetryArgs::to("http://127.0.0.1:9");
        let telemetry = Telemetry::start(&args, "rejoin-test").unwrap();
        let header = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let caller = TraceContext::parse(header);
        let span = telemetry.server(caller, "POST", Some("/api/chat/stream"));
        let context = span.context().unwrap();
        assert_eq!(context.trace_id(), "0af7651916cd43dd8448eb211c80319c");
        assert_ne!(span.traceparent().as_deref(), Some(header));
        let unsampled = TraceContext::parse(&header.replace("-01", "-00"));
        let span = telemetry.server(unsampled, "POST", None);
        assert!(!span.context().unwrap().is_sampled());
        assert_eq!(span.elapsed(), None, "it is not recorded");
        let chat = telemetry.chat(span.context(), "openai:gpt-6-luna");
        assert!(!chat.context().unwrap().is_sampled());
        let run = rejoin_types::ids::new();
        let [one, other] = [(); 2].map(|()| telemetry.open(Parent::Run(run), SpanKind::Internal, String::new));
        let [one, other] = [one.context().unwrap(), other.context().unwrap()];
        assert_eq!(one.trace_id(), other.trace_id());
        assert_ne!(one, other);
    }
}
