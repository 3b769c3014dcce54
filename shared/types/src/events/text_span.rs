//! The position of a delta's text in its JSON: consecutive deltas are merged without parsing them.

use super::{Event, Kind};

/// The position of a delta's text in its JSON, with its escapes. Concatenating two such texts gives the JSON of both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextSpan {
    pub start: usize,
    pub end: usize,
}

impl TextSpan {
    pub fn len(self) -> usize {
        self.end - self.start
    }

    pub fn is_empty(self) -> bool {
        self.end == self.start
    }

    /// Splits into what precedes the text, the text, and what follows.
    pub fn split(self, json: &str) -> (&str, &str, &str) {
        (&json[..self.start], &json[self.start..self.end], &json[self.end..])
    }

    /// The span of a text extended by `bytes`.
    pub fn longer_by(self, bytes: usize) -> Self {
        Self {
            end: self.end + bytes,
            ..self
        }
    }
}

impl Event {
    /// The position of a delta's text in its own `json`. None: the event is no delta.
    pub fn text_span(&self, json: &str) -> Option<TextSpan> {
        let before = match self.kind {
            Kind::Token { .. } => r#"{"type":"token","token":""#,
            Kind::Reasoning { .. } => r#"{"type":"reasoning","text":""#,
            Kind::Message { .. }
            | Kind::Meta { .. }
            | Kind::McpTool { .. }
            | Kind::Reset { .. }
            | Kind::AgentState { .. }
            | Kind::Usage { .. }
            | Kind::Handoff { .. }
            | Kind::ConsoleCreation { .. }
            | Kind::ConsoleModification { .. }
            | Kind::Question { .. }
            | Kind::QuestionAnswered { .. }
            | Kind::SubAgent { .. }
            | Kind::Telemetry { .. }
            | Kind::ContextUsage { .. }
            | Kind::FocusActive { .. }
            | Kind::FocusChanged { .. }
            | Kind::LastTurnContext { .. }
            | Kind::Operation { .. }
            | Kind::ContextShift { .. }
            | Kind::PlanCreated { .. }
            | Kind::PlanReadyForReview { .. }
            | Kind::PlanReview { .. }
            | Kind::StepStart { .. }
            | Kind::StepComplete { .. }
            | Kind::ExecutorSpawned { .. }
            | Kind::ExecutorResult { .. }
            | Kind::ClarifyingQuestions { .. }
            | Kind::DebugContext { .. }
            | Kind::Limit { .. }
            | Kind::Output { .. }
            | Kind::Custom { .. }
            | Kind::Error { .. }
            | Kind::Done { .. }
            | Kind::Unknown => return None,
        };
        let text = json.strip_prefix(before)?;
        let mut escaped = false;
        let quote = text.bytes().position(|byte| {
            let ends = byte == b'"' && !escaped;
            escaped = byte == b'\\' && !escaped;
            ends
        })?;
        let start = before.len();
        Some(TextSpan {
            start,
            end: start + quote,
        })
    }
}
