//! The four protocols behind one type.

use axum::http::StatusCode;
use serde_json::Value;

use super::answer::Answer;
use super::ledger::Ledger;
use super::plan::{Plan, Request};
use super::refusal::Refusal;
use super::{chat, gemini, messages, openai, responses};

/// The valid keys.
pub const OPENAI_KEY: &str = "sk-standin";

pub const ANTHROPIC_KEY: &str = "sk-ant-standin";

pub const GEMINI_KEY: &str = "AIzaStandin";

/// One of the four.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    Chat,
    Responses,
    Messages,
    Gemini,
}

impl Protocol {
    /// The provider's name in the catalogue.
    pub fn provider(self) -> &'static str {
        match self {
            Self::Chat | Self::Responses => "openai",
            Self::Messages => "anthropic",
            Self::Gemini => "gemini",
        }
    }

    pub(super) fn key(self) -> &'static str {
        match self {
            Self::Chat | Self::Responses => OPENAI_KEY,
            Self::Messages => ANTHROPIC_KEY,
            Self::Gemini => GEMINI_KEY,
        }
    }

    pub(super) fn check(self, request: &Request, ledger: &Ledger) -> Result<Plan, Refusal> {
        match self {
            Self::Chat => chat::check(request),
            Self::Responses => responses::check(request, ledger),
            Self::Messages => messages::check(request, ledger),
            Self::Gemini => gemini::check(request, ledger),
        }
    }

    pub(super) fn error_body(self, refusal: &Refusal, number: u64) -> Value {
        match self {
            Self::Chat | Self::Responses => openai::error_body(refusal),
            Self::Messages => messages::error_body(refusal, number),
            Self::Gemini => gemini::error_body(refusal),
        }
    }

    pub(super) fn failure(self, status: StatusCode) -> Refusal {
        match self {
            Self::Chat | Self::Responses => openai::failure(status),
            Self::Messages => messages::failure(status),
            Self::Gemini => gemini::failure(status),
        }
    }

    pub(super) fn frames(self, answer: &Answer, body: &Value) -> Vec<String> {
        match self {
            Self::Chat => chat::frames(answer, body),
            Self::Responses => responses::frames(answer, body),
            Self::Messages => messages::frames(answer),
            Self::Gemini => gemini::frames(answer),
        }
    }

    pub(super) fn whole(self, answer: &Answer, body: &Value) -> Value {
        match self {
            Self::Chat => chat::whole(answer),
            Self::Responses => responses::whole(answer, body),
            Self::Messages => messages::whole(answer),
            Self::Gemini => gemini::whole(answer),
        }
    }

    /// The format of an error in the middle of a stream.
    pub(super) fn error_event(self, number: u64) -> String {
        let refusal = self.failure(StatusCode::SERVICE_UNAVAILABLE);
        match self {
            Self::Responses => responses::error_event(),
            Self::Messages => messages::error_event(number),
            Self::Chat | Self::Gemini => format!("data: {}\n\n", self.error_body(&refusal, number)),
        }
    }
}
