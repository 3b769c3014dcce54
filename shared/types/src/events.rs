//! The event types of the wire: `{"type": …, "runId": …, …}`. Their JSON is defined in this one place; it is encoded
//! once and stored as text.
//!
//! - `schema`    their schemas in the OpenAPI document
//! - `shapes`    objects within them that their writers compose as JSON
//! - `text_span` the position of a delta's text in its JSON

pub mod schema;
pub mod shapes;
mod text_span;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::file_ref::FileRef;
use crate::focus::Focus;

use self::shapes::{
    AgentState, ContextShift, ContextUsage, ExecutorResult, MessageRole, Plan, PlanVerdict, ProgressStep,
    QuestionOption, QuestionOutcome, StepTask, SubAgentStatus, UsageTotals,
};

pub use self::text_span::TextSpan;

/// The planning tool.
pub const PLAN_TOOL: &str = "agent_create_plan";

/// An event with the fields common to all events.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    #[serde(flatten)]
    pub kind: Kind,
    /// The run that it comes from. None on a message that no run answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<Uuid>,
    /// The agent's name, on events of sub-agents and plan steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_run_id: Option<Uuid>,
    /// `agent`, `planner`, `plan_step` or `sub_agent`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_number: Option<i32>,
}

impl Event {
    pub fn of(run_id: Uuid, kind: Kind) -> Self {
        Self {
            kind,
            run_id: Some(run_id),
            agent: None,
            parent_run_id: None,
            source: None,
            step_number: None,
        }
    }

    /// The JSON text that is stored and sent.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("an event is plain data")
    }
}

/// A chat message on the wire.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = EventMessage)]
#[serde(rename_all = "camelCase")]
pub struct MessageBody {
    pub id: Uuid,
    #[schema(value_type = MessageRole)]
    pub role: String,
    pub content: String,
    /// RFC 3339.
    #[schema(format = DateTime)]
    pub created_at: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attached_context: Option<Value>,
    /// The attached files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<FileRef>,
    #[schema(value_type = Vec<Value>)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub citations: Option<Value>,
}

/// The state of a tool call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolStatus {
    Started,
    Completed,
    Error,
}

crate::text_enum! {
    /// How a turn ended.
    pub enum DoneStatus {
        Completed = "completed",
        Failed = "failed",
        Cancelled = "cancelled",
        Paused = "paused",
    }
}

/// A tool's operation on an entity, in words for users. (Its field names are those known to such chat pages.)
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Operation {
    /// `list`, `search`, `read`, `create`, `update` or `delete`.
    pub action: String,
    /// `document`, `task`, `goal`, `plan`, `project`, `milestone`, `risk` or `requirement`.
    pub entity_type: String,
    /// The entity's name, or the search terms; never empty.
    pub entity_name: String,
    /// `start`, `success` or `error`.
    #[schema(value_type = shapes::OperationStatus)]
    pub status: String,
    #[schema(nullable = false)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entity_id: Option<Uuid>,
}

/// The type of an event, with its own fields.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = EventKind)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum Kind {
    /// A message was stored: the user's immediately, the assistant's at the end.
    Message { message: MessageBody },
    /// The turn begins.
    #[schema(rename_all = "camelCase")]
    Meta {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        conversation_id: Option<Uuid>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        agent_definition_id: Option<Uuid>,
        #[serde(default, rename = "agent", skip_serializing_if = "Option::is_none")]
        agent_name: Option<String>,
        /// The answering model.
        model: String,
        /// The definition's model, if another one answers.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model_requested: Option<String>,
        /// The day on which its provider retired that model.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model_retired_on: Option<String>,
        citations: Vec<Value>,
        attempt: i32,
    },
    /// A part of the reply; the increment only.
    Token { token: String },
    /// A part of the model's reasoning.
    Reasoning { text: String },
    /// A tool call begins or ends. `started` precedes the call.
    #[schema(rename_all = "camelCase")]
    McpTool {
        call_id: String,
        tool: String,
        status: ToolStatus,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        input: Option<Value>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        result: Option<Value>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        duration_ms: Option<i64>,
    },
    /// Discard this run's events after the number `discardAfter` and before this one: the step is written again.
    #[schema(rename_all = "camelCase")]
    Reset {
        discard_after: i64,
        attempt: i32,
        reason: String,
    },
    /// The agent begins to think, or waits.
    #[schema(rename_all = "camelCase")]
    AgentState {
        /// `thinking`, `executing_plan`, `waiting_on_user` or `waiting_on_agents`.
        #[schema(value_type = AgentState)]
        state: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        context_type: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        details: Option<Value>,
    },
    /// Sent after each model call: sums over the run so far.
    #[schema(rename_all = "camelCase")]
    Usage {
        input_tokens: u64,
        output_tokens: u64,
        total_tokens: u64,
        /// Input tokens read from the provider's prompt cache.
        #[serde(default, skip_serializing_if = "is_zero")]
        cached_tokens: u64,
        /// Input tokens written to the provider's prompt cache.
        #[serde(default, skip_serializing_if = "is_zero")]
        cache_write_tokens: u64,
        /// Output tokens spent on reasoning.
        #[serde(default, skip_serializing_if = "is_zero")]
        reasoning_tokens: u64,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cost_usd: Option<f64>,
        steps: i32,
    },
    /// Another agent continues the run.
    #[schema(rename_all = "camelCase")]
    Handoff {
        from: String,
        to: String,
        /// The definition of the new agent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        agent_definition_id: Option<Uuid>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// An agent has opened a console.
    #[schema(rename_all = "camelCase")]
    ConsoleCreation {
        console_id: Uuid,
        title: String,
        content: String,
        version: i32,
    },
    /// An agent has changed a console's text, which now has this version.
    #[schema(rename_all = "camelCase")]
    ConsoleModification {
        console_id: Uuid,
        /// {action `replace` | `insert` | `append` | `patch`, content, position?, startLine?, endLine?}
        #[schema(value_type = Object)]
        modification: Value,
        version: i32,
    },
    /// The run waits for a person, or for its client.
    #[schema(rename_all = "camelCase")]
    Question {
        question_id: Uuid,
        question: String,
        #[schema(value_type = Vec<QuestionOption>)]
        options: Vec<Value>,
        /// `buttons`, `select`, `multi_select`, `text`, `confirm` or `client_tool`.
        interaction_type: String,
        /// Also contained in `clarifying_questions`.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        clarifying: bool,
        /// The call that waits: of a client's tool for its output (interaction type `client_tool`), or for an approval.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        call_id: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tool: Option<String>,
        /// The arguments of that call.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        input: Option<Value>,
    },
    /// A question was answered, expired or was cancelled.
    #[schema(rename_all = "camelCase")]
    QuestionAnswered {
        question_id: Uuid,
        /// `answered`, `expired` or `cancelled`.
        #[schema(value_type = QuestionOutcome)]
        status: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        answer: Option<Value>,
    },
    /// A sub-agent was started or has ended: `runId` is the sub-agent's. The turn continues.
    SubAgent {
        /// `started`, `completed`, `failed`, `cancelled` or `paused`.
        #[schema(value_type = SubAgentStatus)]
        status: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        task: Option<String>,
        /// A summary of the result.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        summary: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        code: Option<String>,
        #[schema(value_type = Option<UsageTotals>)]
        #[serde(default, skip_serializing_if = "Option::is_none")]
        usage: Option<Value>,
    },
    /// How something was decided: `routing` describes the assignment of the conversation's agent.
    Telemetry { name: String, data: Value },
    /// How full the model's context window is: an estimate at the start of the turn, the actual figure at its end.
    ContextUsage {
        #[schema(value_type = ContextUsage)]
        usage: Value,
    },
    /// The conversation's context at the start of the turn.
    FocusActive {
        #[schema(value_type = Focus)]
        focus: Value,
    },
    /// The conversation's context changes. Null: it has none.
    FocusChanged {
        #[schema(value_type = Option<Focus>, required)]
        focus: Option<Value>,
    },
    /// The context of the previous turn; at the end of a turn, of this one.
    LastTurnContext {
        #[schema(value_type = Object)]
        context: Value,
    },
    /// A tool's operation on an entity, for users: by name, never by id alone.
    Operation { operation: Operation },
    /// A tool has changed the conversation's context.
    #[schema(rename_all = "camelCase")]
    ContextShift {
        #[schema(value_type = ContextShift)]
        #[serde(rename = "context_shift")]
        context_shift: Value,
    },
    /// An agent has made a plan.
    PlanCreated {
        #[schema(value_type = Plan)]
        plan: Value,
    },
    /// A draft plan waits for the user's approval.
    PlanReadyForReview {
        #[schema(value_type = Plan)]
        plan: Value,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        summary: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        recommendations: Option<Vec<String>>,
    },
    /// A draft plan was reviewed.
    PlanReview {
        #[schema(value_type = Plan)]
        plan: Value,
        /// `approved`, `changes_requested` or `rejected`.
        #[schema(value_type = PlanVerdict)]
        verdict: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        notes: Option<String>,
        /// `user`, or the name of the reviewing agent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reviewer: Option<String>,
    },
    /// A step of the plan begins.
    StepStart {
        #[schema(value_type = ProgressStep)]
        step: Value,
    },
    /// A step of the plan has ended.
    StepComplete {
        #[schema(value_type = ProgressStep)]
        step: Value,
    },
    /// A separate run executes a step of a plan: `executorId` is its id.
    #[schema(rename_all = "camelCase")]
    ExecutorSpawned {
        executor_id: Uuid,
        #[schema(value_type = StepTask)]
        task: Value,
    },
    /// The result of that run.
    #[schema(rename_all = "camelCase")]
    ExecutorResult {
        executor_id: Uuid,
        #[schema(value_type = ExecutorResult)]
        result: Value,
    },
    /// All questions of a step to its user. Each is answered individually, or all of them by the user's next message.
    ClarifyingQuestions {
        #[schema(value_type = Vec<Object>)]
        questions: Vec<Value>,
    },
    /// The model's input, if the operator has enabled it.
    DebugContext {
        #[schema(value_type = Object)]
        debug: Value,
    },
    /// A limit was reached.
    Limit {
        /// A stable code.
        limit: String,
        message: String,
    },
    /// The structured output, if a JSON Schema requires it. Precedes the assistant's message, whose text is the same as
    /// JSON.
    Output { output: Value },
    /// An event of a user's program, which it has emitted while it executed a tool or the turn of an agent.
    #[schema(rename_all = "camelCase")]
    Custom {
        /// 1 to 64 letters, digits, `_`, `.`, `:` and `-`.
        name: String,
        /// Any JSON.
        data: Value,
        /// The call of the tool. None: the turn of an agent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        call_id: Option<String>,
    },
    /// Always before `done`.
    Error {
        error: String,
        code: String,
        retryable: bool,
    },
    /// Exactly one per turn; no event of that turn follows it.
    #[schema(rename_all = "camelCase")]
    Done {
        status: DoneStatus,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        final_message_id: Option<Uuid>,
        #[schema(value_type = Option<UsageTotals>)]
        #[serde(default, skip_serializing_if = "Option::is_none")]
        usage: Option<Value>,
    },
    /// A kind unknown to this version: newer writers may be running.
    #[serde(other)]
    Unknown,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks by reference")]
fn is_zero(tokens: &u64) -> bool {
    *tokens == 0
}

impl Kind {
    /// The value of `type`.
    pub fn name(&self) -> &'static str {
        match self {
            Kind::Message { .. } => "message",
            Kind::Meta { .. } => "meta",
            Kind::Token { .. } => "token",
            Kind::Reasoning { .. } => "reasoning",
            Kind::McpTool { .. } => "mcp_tool",
            Kind::Reset { .. } => "reset",
            Kind::AgentState { .. } => "agent_state",
            Kind::Usage { .. } => "usage",
            Kind::Handoff { .. } => "handoff",
            Kind::ConsoleCreation { .. } => "console_creation",
            Kind::ConsoleModification { .. } => "console_modification",
            Kind::Question { .. } => "question",
            Kind::QuestionAnswered { .. } => "question_answered",
            Kind::SubAgent { .. } => "sub_agent",
            Kind::Telemetry { .. } => "telemetry",
            Kind::ContextUsage { .. } => "context_usage",
            Kind::FocusActive { .. } => "focus_active",
            Kind::FocusChanged { .. } => "focus_changed",
            Kind::LastTurnContext { .. } => "last_turn_context",
            Kind::Operation { .. } => "operation",
            Kind::ContextShift { .. } => "context_shift",
            Kind::PlanCreated { .. } => "plan_created",
            Kind::PlanReadyForReview { .. } => "plan_ready_for_review",
            Kind::PlanReview { .. } => "plan_review",
            Kind::StepStart { .. } => "step_start",
            Kind::StepComplete { .. } => "step_complete",
            Kind::ExecutorSpawned { .. } => "executor_spawned",
            Kind::ExecutorResult { .. } => "executor_result",
            Kind::ClarifyingQuestions { .. } => "clarifying_questions",
            Kind::DebugContext { .. } => "debug_context",
            Kind::Limit { .. } => "limit",
            Kind::Output { .. } => "output",
            Kind::Custom { .. } => "custom",
            Kind::Error { .. } => "error",
            Kind::Done { .. } => "done",
            Kind::Unknown => "unknown",
        }
    }
}

#[cfg(test)]
mod tests;
