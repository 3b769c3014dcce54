//! The protocols behind one type.

use axum::http::StatusCode;
use serde_json::Value;

use super::answer::Answer;
use super::ledger::Ledger;
use super::plan::{Plan, Request};
use super::refusal::Refusal;
use super::service::Service;
use super::{azure, chat, converse, gemini, messages, ollama, openai, openrouter, responses, vertex};

/// One of the six. OpenAI's are also spoken by Azure and OpenRouter, those of Anthropic and Gemini by Vertex AI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    Chat,
    Responses,
    Messages,
    Gemini,
    /// Amazon Bedrock's.
    Converse,
    /// Ollama's own.
    Ollama,
}

impl Protocol {
    pub(super) fn check(self, request: &Request, ledger: &Ledger) -> Result<Plan, Refusal> {
        match self {
            Self::Chat if request.service == Service::OpenRouter => openrouter::check(request, ledger),
            Self::Chat => chat::check(request),
            Self::Responses => responses::check(request, ledger),
            Self::Messages if request.service == Service::Vertex => vertex::check_messages(request, ledger),
            Self::Messages => messages::check(request, ledger),
            Self::Gemini => gemini::check(request, ledger),
            Self::Converse => converse::check(request, ledger),
            Self::Ollama => ollama::check(request),
        }
    }

    pub(super) fn content_type(self) -> &'static str {
        match self {
            Self::Converse => "application/vnd.amazon.eventstream",
            Self::Ollama => "application/x-ndjson",
            Self::Chat | Self::Responses | Self::Messages | Self::Gemini => "text/event-stream; charset=utf-8",
        }
    }

    /// A frame as it is written on the connection.
    pub(super) fn encode(self, frame: String) -> Vec<u8> {
        match self {
            Self::Converse => converse::encode(&frame),
            Self::Chat | Self::Responses | Self::Messages | Self::Gemini | Self::Ollama => frame.into_bytes(),
        }
    }

    pub(super) fn error_body(self, service: Service, refusal: &Refusal, number: u64) -> Value {
        match (self, service) {
            (Self::Chat, Service::OpenRouter) => openrouter::error_body(refusal),
            (Self::Chat | Self::Responses, Service::Azure) if azure::is_gateways(refusal) => azure::error_body(refusal),
            (Self::Chat | Self::Responses, _) => openai::error_body(refusal),
            (Self::Messages, Service::Vertex) if vertex::is_googles(refusal) => gemini::error_body(refusal),
            (Self::Messages, _) => messages::error_body(refusal, number),
            (Self::Gemini, _) => gemini::error_body(refusal),
            (Self::Converse, _) => converse::error_body(refusal),
            (Self::Ollama, _) => ollama::error_body(refusal),
        }
    }

    pub(super) fn failure(self, service: Service, status: StatusCode) -> Refusal {
        match self {
            Self::Chat if service == Service::OpenRouter => openrouter::failure(status),
            Self::Chat | Self::Responses => openai::failure(status),
            Self::Messages => messages::failure(status),
            Self::Gemini => gemini::failure(status),
            Self::Converse => converse::failure(status),
            Self::Ollama => ollama::failure(status),
        }
    }

    pub(super) fn frames(self, service: Service, answer: &Answer, body: &Value) -> Vec<String> {
        match self {
            Self::Chat if service == Service::OpenRouter => openrouter::frames(answer, body),
            Self::Chat if service == Service::Azure => azure::annotated(chat::frames(answer, body)),
            Self::Chat => chat::frames(answer, body),
            Self::Responses => responses::frames(answer, body),
            Self::Messages => messages::frames(answer),
            Self::Gemini => gemini::frames(answer),
            Self::Converse => converse::frames(answer),
            Self::Ollama => ollama::frames(answer),
        }
    }

    pub(super) fn whole(self, service: Service, answer: &Answer, body: &Value) -> Value {
        match self {
            Self::Chat if service == Service::OpenRouter => openrouter::whole(answer),
            Self::Chat => chat::whole(answer),
            Self::Responses => responses::whole(answer, body),
            Self::Messages => messages::whole(answer),
            Self::Gemini => gemini::whole(answer),
            Self::Converse => converse::whole(answer),
            Self::Ollama => ollama::whole(answer),
        }
    }

    /// The format of an error within a stream.
    pub(super) fn error_event(self, service: Service, number: u64) -> String {
        let refusal = self.failure(service, StatusCode::SERVICE_UNAVAILABLE);
        match self {
            Self::Chat if service == Service::OpenRouter => openrouter::error_event(&refusal),
            Self::Responses => responses::error_event(),
            Self::Messages => messages::error_event(number),
            Self::Chat | Self::Gemini => {
                format!("data: {}\n\n", self.error_body(service, &refusal, number))
            }
            Self::Converse => converse::error_event(&refusal),
            Self::Ollama => format!("{}\n", self.error_body(service, &refusal, number)),
        }
    }
}
