//! Who sees the rows of each table.

use Rule::{As, ConversationOrMaker, Owner as By, OwnerOrNone, Project};
use rejoin_types::owner::Owner;
use uuid::Uuid;

/// The audience of a row: a user in a project, or (None) each of its members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Audience {
    pub(super) project: Uuid,
    pub(super) user: Option<Uuid>,
}

impl Audience {
    pub(super) fn has(self, caller: Owner) -> bool {
        self.project == caller.workspace_id && self.user.is_none_or(|user| user == caller.user_id)
    }
}

/// How a table's rows determine their audience.
#[derive(Clone, Copy)]
pub(super) enum Rule {
    /// By `project_id`.
    Project,
    /// By `project_id` and this column.
    Owner(&'static str),
    /// The same; rows without an owner are the project's.
    OwnerOrNone(&'static str),
    /// As the conversation, whatever `user_id` is; without one, as `OwnerOrNone("user_id")`.
    ConversationOrMaker,
    /// As the rows referred to by these columns, all of them: (column, table, the column there).
    As(&'static [(&'static str, &'static str, &'static str)]),
}

const CONVERSATION: Rule = As(&[("conversation_id", "kb.chat_conversations", "id")]);
const RUN: Rule = As(&[("run_id", "kb.agent_runs", "id")]);

/// All tables with rows visible to the API's role, parents first.
pub(super) const TABLES: [(&str, Rule); 69] = [
    ("kb.chat_conversations", By("owner_user_id")),
    ("kb.agent_runs", ConversationOrMaker),
    ("kb.agent_plans", ConversationOrMaker),
    ("kb.calendars", By("owner_user_id")),
    ("kb.consoles", By("owner_user_id")),
    ("kb.files", OwnerOrNone("owner_user_id")),
    ("kb.google_links", By("owner_user_id")),
    ("kb.project_mcp_servers", Project),
    ("kb.chat_messages", CONVERSATION),
    ("kb.calendar_events", As(&[("calendar_id", "kb.calendars", "id")])),
    ("audit.entries", Project),
    ("kb.agent_definitions", Project),
    ("kb.agent_versions", Project),
    ("kb.agent_plan_versions", As(&[("plan_id", "kb.agent_plans", "id")])),
    ("kb.agent_run_messages", RUN),
    ("kb.agent_run_tool_calls", RUN),
    (
        "kb.calendar_event_entities",
        As(&[("event_id", "kb.calendar_events", "id")]),
    ),
    ("kb.calendar_feeds", By("owner_user_id")),
    ("kb.chat_branches", CONVERSATION),
    ("kb.chat_compressions", CONVERSATION),
    ("kb.chat_context_cache", Project),
    ("kb.chat_folders", By("owner_user_id")),
    ("kb.conversation_shares", By("owner_user_id")),
    ("kb.console_versions", As(&[("console_id", "kb.consoles", "id")])),
    ("kb.data_source_schemas", Project),
    ("kb.data_sources", Project),
    ("kb.evaluation_cases", Project),
    ("kb.evaluation_sets", Project),
    ("kb.evaluations", Project),
    ("kb.file_chunks", As(&[("file_id", "kb.files", "id")])),
    ("kb.google_consents", By("owner_user_id")),
    (
        "kb.google_events",
        As(&[("calendar_id", "kb.google_links", "calendar_id")]),
    ),
    ("kb.graph_changes", Project),
    ("kb.idempotency_keys", By("user_id")),
    ("kb.mcp_accounts", By("user_id")),
    ("kb.mcp_consents", By("user_id")),
    ("kb.mcp_sessions", By("user_id")),
    ("kb.mcp_tools", As(&[("server_id", "kb.project_mcp_servers", "id")])),
    ("kb.message_feedback", By("user_id")),
    (
        "kb.message_files",
        As(&[("message_id", "kb.chat_messages", "id"), ("file_id", "kb.files", "id")]),
    ),
    ("kb.model_prices", Project),
    ("kb.products", Project),
    ("kb.project_contexts", Project),
    ("kb.project_prompts", Project),
    ("kb.query_patterns", By("user_id")),
    ("kb.questions", RUN),
    // A program serves the calls of all users of its project.
    ("kb.remote_calls", Project),
    ("kb.remote_signals", RUN),
    ("kb.remote_steps", Project),
    ("kb.remote_texts", Project),
    ("kb.remote_tools", Project),
    ("kb.remote_worker_tools", Project),
    ("kb.remote_workers", Project),
    ("kb.routing", Project),
    ("kb.routing_controls", Project),
    ("kb.run_inbox", RUN),
    ("kb.run_options", RUN),
    ("kb.schedules", Project),
    ("kb.search_settings", Project),
    ("kb.secrets", Project),
    ("kb.stream_tickets", By("user_id")),
    ("kb.task_dags", Project),
    ("kb.tasks", Project),
    ("kb.user_prompts", By("user_id")),
    ("kb.web_settings", Project),
    ("kb.webhook_endpoints", Project),
    ("kb.webhook_deliveries", Project),
    ("kb.webhook_secrets", Project),
    ("stream.archives", Project),
];
