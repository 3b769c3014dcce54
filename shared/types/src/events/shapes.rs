//! Schemas of the objects within events that their writers, in higher crates, compose as JSON. Nothing here is
//! instantiated: a test validates recorded events against these schemas.

use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::file_ref::FileRef;

/// The author of a message.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum MessageRole {
    User,
    Assistant,
    System,
}

/// The component from which an event comes.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum EventSource {
    Agent,
    Planner,
    PlanStep,
    SubAgent,
}

/// The state of an agent.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AgentState {
    Thinking,
    ExecutingPlan,
    WaitingOnUser,
    WaitingOnAgents,
}

/// The state of a tool's operation.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum OperationStatus {
    Start,
    Success,
    Error,
}

/// How a question ended.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum QuestionOutcome {
    Answered,
    Expired,
    Cancelled,
}

/// The state of a sub-agent.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SubAgentStatus {
    Started,
    Completed,
    Failed,
    Cancelled,
    Paused,
}

/// The result of a plan's review.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum PlanVerdict {
    Approved,
    ChangesRequested,
    Rejected,
}

/// Sums over a run. Empty, if no model was called.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct UsageTotals {
    #[schema(nullable = false)]
    pub input_tokens: Option<u64>,
    #[schema(nullable = false)]
    pub output_tokens: Option<u64>,
    #[schema(nullable = false)]
    pub total_tokens: Option<u64>,
    /// The input of the last model call.
    #[schema(nullable = false)]
    pub context_tokens: Option<u64>,
    /// Input tokens read from the provider's prompt cache.
    #[schema(nullable = false)]
    pub cached_tokens: Option<u64>,
    /// Input tokens written to the provider's prompt cache.
    #[schema(nullable = false)]
    pub cache_write_tokens: Option<u64>,
    /// Output tokens spent on reasoning.
    #[schema(nullable = false)]
    pub reasoning_tokens: Option<u64>,
    #[schema(nullable = false)]
    pub cost_usd: Option<f64>,
    #[schema(nullable = false)]
    pub steps: Option<i32>,
}

/// A possible answer to a question.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct QuestionOption {
    pub label: String,
    pub value: String,
    #[schema(nullable = false)]
    pub description: Option<String>,
}

/// An agent's plan.
#[derive(Serialize, ToSchema)]
#[schema(as = EventPlan)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    pub id: Uuid,
    pub conversation_id: Option<Uuid>,
    /// The run that created it.
    pub run_id: Uuid,
    /// The plan that it replaces.
    #[schema(required)]
    pub revises_plan_id: Option<Uuid>,
    pub objective: String,
    #[schema(nullable = false)]
    pub user_message: Option<String>,
    /// `planner_stream`, `ask_clarifying_questions` or `project_creation`.
    #[schema(nullable = false)]
    pub strategy: Option<String>,
    pub execution_mode: ExecutionMode,
    /// `pending`, `pending_review`, `executing`, `completed`, `completed_with_errors` or `failed`.
    pub status: String,
    pub version: i32,
    pub steps: Vec<PlanStep>,
    /// The task DAG that executes it.
    pub dag_id: Option<Uuid>,
    #[schema(value_type = Object, nullable = false)]
    pub metadata: Option<Value>,
}

/// When the steps of a plan are executed: at once, not at all, or after a review.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ExecutionMode {
    AutoExecute,
    DraftOnly,
    AgentReview,
}

/// A step of a plan.
#[derive(Serialize, ToSchema)]
#[schema(as = EventPlanStep)]
#[serde(rename_all = "camelCase")]
pub struct PlanStep {
    pub step_number: i32,
    /// The kind of work, such as `research` or `action`.
    #[serde(rename = "type")]
    pub kind: String,
    pub description: String,
    /// Whether a separate run executes it.
    pub executor_required: bool,
    /// Names and globs of tools.
    pub tools: Vec<String>,
    /// The numbers of the steps before it.
    pub depends_on: Vec<i32>,
    pub status: PlanStepStatus,
    #[schema(nullable = false)]
    pub result: Option<String>,
    #[schema(nullable = false)]
    pub error: Option<String>,
}

/// The state of a plan's step.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum PlanStepStatus {
    Pending,
    Executing,
    Completed,
    Failed,
    Skipped,
}

/// A step of a plan as its execution begins or ends.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProgressStep {
    #[serde(flatten)]
    pub step: PlanStep,
    pub plan_id: Uuid,
    #[schema(nullable = false)]
    pub attempt: Option<i32>,
}

/// What a separate run executes of a plan.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct StepTask {
    pub plan_id: Uuid,
    pub step_number: i32,
    pub description: String,
    pub tools: Option<Vec<String>>,
    pub agent: Option<String>,
}

/// The result of a separate run for a step.
#[derive(Serialize, ToSchema)]
pub struct ExecutorResult {
    pub success: bool,
    pub summary: Option<String>,
    pub error: Option<String>,
}

/// How full the model's context window is.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContextUsage {
    pub estimated_tokens: u64,
    /// Recommended maximum size of a turn's context, in tokens.
    pub token_budget: u64,
    /// At most 999.
    pub usage_percent: u64,
    pub tokens_remaining: u64,
    pub status: ContextUsageStatus,
    /// The size of the model's context window, if it is known.
    #[schema(nullable = false)]
    pub model_context_tokens: Option<u64>,
    /// When the history was last compressed.
    pub last_compressed_at: Option<String>,
    #[schema(value_type = Option<Object>)]
    pub last_compression: Option<Value>,
}

/// How the context relates to its budget.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ContextUsageStatus {
    Ok,
    NearLimit,
    OverBudget,
}

/// A change of a conversation's context. (Its field names are those known to such chat pages.)
#[derive(Serialize, ToSchema)]
pub struct ContextShift {
    pub new_context: String,
    pub entity_id: String,
    pub entity_name: String,
    pub entity_type: String,
    pub message: String,
}

/// The value of a snapshot's `type`.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SnapshotType {
    Snapshot,
}

/// A message in a snapshot.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SnapshotMessage {
    pub id: Uuid,
    pub role: MessageRole,
    pub content: String,
    /// RFC 3339.
    #[schema(format = DateTime)]
    pub created_at: String,
    #[schema(nullable = false)]
    pub attachments: Option<Vec<FileRef>>,
    pub citations: Option<Vec<Value>>,
    /// Of an assistant's message; its `agent_run_id` is the run that wrote it.
    #[schema(value_type = Option<Object>)]
    pub retrieval_context: Option<Value>,
    /// Of a user's message: the run that answers it.
    pub run_id: Option<Uuid>,
    /// The state of that run.
    pub run_state: Option<AnsweringState>,
    /// The number of its event.
    pub seq: i64,
}

/// The state of a run.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AnsweringState {
    Queued,
    Running,
    Waiting,
    Paused,
    Completed,
    Failed,
    Cancelled,
}
