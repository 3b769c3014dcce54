//! The tables of the schema, and which of their rows belong to a workspace. Read by `copying`. A test compares it with a migrated database: a
//! new table needs an entry here.
//!
//! Invariant: tables whose rows are found through another table's come before it, so that rows may be deleted in this order.

use uuid::Uuid;

/// What a move does with a table.
#[derive(Debug, Clone, Copy)]
pub enum Kept {
    /// The rows move with the workspace.
    Moves,
    /// The rows are not copied, and deleted with the workspace's others: each cell makes its own.
    Made,
    /// The table is not touched, for this reason.
    Stays(&'static str),
}

/// A table of the schema.
#[derive(Debug, Clone, Copy)]
pub struct Table {
    pub name: &'static str,
    pub kept: Kept,
    /// The condition for the rows of a workspace, in SQL; `$W` is its id.
    rows: &'static str,
    /// The column that the new cell numbers by itself, in the same order.
    pub numbered: Option<&'static str>,
    /// Columns whose values differ between the cells.
    pub changed: &'static [&'static str],
}

impl Table {
    /// The condition for the rows of a workspace.
    pub fn rows_of(&self, workspace_id: Uuid) -> String {
        // An id can be inserted safely.
        self.rows.replace("$W", &format!("'{workspace_id}'"))
    }

    const fn moves(name: &'static str, rows: &'static str) -> Self {
        Self {
            name,
            kept: Kept::Moves,
            rows,
            numbered: None,
            changed: &[],
        }
    }

    const fn numbered(name: &'static str, rows: &'static str, column: &'static str) -> Self {
        Self {
            numbered: Some(column),
            ..Self::moves(name, rows)
        }
    }

    const fn made(name: &'static str, rows: &'static str) -> Self {
        Self {
            kept: Kept::Made,
            ..Self::moves(name, rows)
        }
    }

    const fn stays(name: &'static str, why: &'static str) -> Self {
        Self {
            kept: Kept::Stays(why),
            ..Self::moves(name, "false")
        }
    }
}

const PROJECT: &str = "project_id = $W";
const OF_CONVERSATION: &str = "conversation_id in (select id from kb.chat_conversations where project_id = $W)";
const OF_RUN: &str = "run_id in (select id from kb.agent_runs where project_id = $W)";
const OF_LOG: &str = "log_id in (select id from kb.chat_conversations where project_id = $W
    union select log_id from kb.agent_runs where project_id = $W
    union select log_id from kb.task_dags where project_id = $W and log_id is not null)";
const OF_CALENDAR: &str = "calendar_id in (select id from kb.calendars where project_id = $W)";
const OF_EVENT: &str = "event_id in (select e.id from kb.calendar_events e join kb.calendars c on c.id = e.calendar_id where c.project_id = $W)";
const OF_FILE: &str = "file_id in (select id from kb.files where project_id = $W)";

const IN_DIRECTORY: &str = "identity is in the directory; cells mirror what they need of it";
const OF_DATABASE: &str = "it is about the database itself";

/// All tables.
pub const TABLES: [Table; 106] = [
    // Jobs, with new ids: those of calls refer to them.
    Table {
        numbered: Some("id"),
        changed: &["queue"],
        ..Table::moves("queue.jobs", PROJECT)
    },
    Table::numbered("queue.finished_jobs", PROJECT, "id"),
    Table::stays("queue.queues", OF_DATABASE),
    Table::stays("queue.workers", OF_DATABASE),
    // Logs.
    Table::moves("stream.events", OF_LOG),
    Table::moves("stream.logs", OF_LOG),
    Table::moves("stream.archives", PROJECT),
    Table::stays(
        "stream.archive_leftovers",
        "the object store is shared, and the workers of any cell delete from it",
    ),
    Table::stays("stream.upkeep", OF_DATABASE),
    Table::stays("stream.epochs", OF_DATABASE),
    Table::stays("stream.hint_keys", OF_DATABASE),
    // What belongs to conversations and runs.
    Table::moves("kb.message_feedback", PROJECT),
    Table::moves("kb.message_files", OF_FILE),
    Table::moves("kb.file_chunks", OF_FILE),
    Table::moves("kb.message_words", OF_CONVERSATION),
    Table::moves("kb.chat_messages", OF_CONVERSATION),
    Table::moves("kb.chat_compressions", OF_CONVERSATION),
    Table::moves("kb.chat_branches", OF_CONVERSATION),
    Table::moves("kb.chat_folders", PROJECT),
    Table::moves("kb.conversation_shares", PROJECT),
    Table::moves("kb.search_settings", PROJECT),
    Table::moves("kb.message_words_backlog", PROJECT),
    Table::moves("kb.questions", PROJECT),
    Table::moves("kb.agent_run_tool_calls", OF_RUN),
    Table::moves("kb.agent_run_messages", OF_RUN),
    Table::numbered("kb.run_inbox", OF_RUN, "id"),
    Table::moves("kb.run_options", OF_RUN),
    Table::moves("kb.routing_controls", PROJECT),
    Table::moves("kb.idempotency_keys", PROJECT),
    Table::moves(
        "kb.agent_plan_versions",
        "plan_id in (select id from kb.agent_plans where project_id = $W)",
    ),
    Table::moves("kb.agent_plans", PROJECT),
    Table::moves("kb.evaluations", PROJECT),
    Table::moves("kb.evaluation_cases", PROJECT),
    Table::moves("kb.evaluation_sets", PROJECT),
    Table::moves("kb.tasks", PROJECT),
    Table::moves("kb.task_dags", PROJECT),
    Table::moves("kb.schedules", PROJECT),
    Table::moves("kb.query_patterns", PROJECT),
    Table::moves(
        "kb.console_versions",
        "console_id in (select id from kb.consoles where project_id = $W)",
    ),
    Table::moves("kb.consoles", PROJECT),
    // Users' programs.
    Table::moves("kb.remote_texts", PROJECT),
    Table::moves("kb.remote_steps", PROJECT),
    Table::moves("kb.remote_signals", PROJECT),
    Table {
        changed: &["job_id"],
        ..Table::moves("kb.remote_calls", PROJECT)
    },
    Table::moves("kb.remote_worker_tools", PROJECT),
    Table::moves("kb.remote_tools", PROJECT),
    Table::moves("kb.remote_workers", PROJECT),
    // Webhooks.
    Table::numbered("kb.webhook_deliveries", PROJECT, "number"),
    Table::moves("kb.webhook_secrets", PROJECT),
    Table::moves("kb.webhook_endpoints", PROJECT),
    // Files, runs, conversations, agents: others are found through them.
    Table::moves("kb.files", PROJECT),
    Table::moves("kb.agent_runs", PROJECT),
    Table::moves("kb.chat_conversations", PROJECT),
    Table::moves("kb.agent_versions", PROJECT),
    Table::moves("kb.agent_definitions", PROJECT),
    Table::stays(
        "kb.file_objects_left",
        "the object store is shared, and the workers of any cell delete from it",
    ),
    // Calendars.
    Table::moves("kb.calendar_event_entities", OF_EVENT),
    Table::moves("kb.google_events", OF_CALENDAR),
    Table::numbered("kb.google_marks", OF_CALENDAR, "id"),
    Table::moves("kb.google_links", PROJECT),
    Table::moves("kb.google_consents", PROJECT),
    Table::moves("kb.calendar_feeds", PROJECT),
    Table::moves("kb.calendar_events", OF_CALENDAR),
    Table::moves("kb.calendars", PROJECT),
    // The graph.
    Table::numbered("kb.graph_embedding_marks", PROJECT, "id"),
    Table::moves("kb.graph_embeddings", PROJECT),
    Table::moves("kb.graph_words", PROJECT),
    Table::moves("kb.graph_relationships", PROJECT),
    Table::moves("kb.graph_objects", PROJECT),
    Table::moves("kb.template_assignments", PROJECT),
    Table::moves("kb.template_packs", PROJECT),
    // Their rows name transactions of the database.
    Table::made("kb.graph_changes", PROJECT),
    Table::made("kb.chat_context_cache", PROJECT),
    // Settings.
    Table::moves("kb.secrets", PROJECT),
    Table::moves("kb.model_prices", PROJECT),
    Table::moves("kb.project_contexts", PROJECT),
    Table::moves("kb.project_prompts", PROJECT),
    Table::moves("kb.user_prompts", PROJECT),
    Table::moves("kb.routing", PROJECT),
    Table::moves("kb.data_source_schemas", PROJECT),
    Table::moves("kb.data_sources", PROJECT),
    Table::moves(
        "kb.mcp_tools",
        "server_id in (select id from kb.project_mcp_servers where project_id = $W)",
    ),
    Table::moves("kb.mcp_accounts", PROJECT),
    Table::moves("kb.mcp_consents", PROJECT),
    Table::moves("kb.project_mcp_servers", PROJECT),
    Table::moves("kb.mcp_sessions", PROJECT),
    Table::moves("kb.web_settings", PROJECT),
    Table::moves("kb.web_pages", PROJECT),
    Table::moves("kb.products", PROJECT),
    // Identity.
    Table::stays("kb.projects", IN_DIRECTORY),
    Table::stays("kb.users", IN_DIRECTORY),
    Table::stays("kb.project_members", IN_DIRECTORY),
    Table::stays("kb.api_keys", IN_DIRECTORY),
    Table::stays("kb.identities", IN_DIRECTORY),
    Table::stays("kb.stream_tickets", IN_DIRECTORY),
    Table::stays("kb.sign_in_codes", IN_DIRECTORY),
    Table::stays("kb.sso_sessions", IN_DIRECTORY),
    Table::stays("kb.invitations", IN_DIRECTORY),
    Table::stays(
        "audit.entries",
        "a chain of one database: what was done there stays on record there",
    ),
    Table::stays("cells.cells", IN_DIRECTORY),
    Table::stays("cells.placements", IN_DIRECTORY),
    Table::stays("cells.moves", IN_DIRECTORY),
    Table::stays("cells.holds", OF_DATABASE),
    Table::stays("cells.arrivals", OF_DATABASE),
    Table::stays("cells.mirrored", OF_DATABASE),
    Table::made("cells.epochs", PROJECT),
];

/// Returns a table by its name.
pub fn find(name: &str) -> Option<&'static Table> {
    TABLES.iter().find(|table| table.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_deleted_before_those_by_which_they_are_found() {
        for (at, table) in TABLES.iter().enumerate() {
            for earlier in &TABLES[..at] {
                let names = table.rows.contains(earlier.name) && table.name != earlier.name;
                assert!(
                    !names,
                    "{} is found through {}, which comes first",
                    table.name, earlier.name
                );
            }
        }
    }

    #[test]
    fn the_condition_names_the_workspace() {
        let id = Uuid::from_u128(7);
        for table in TABLES {
            let rows = table.rows_of(id);
            assert!(!rows.contains("$W"), "{rows}");
            let is_its = matches!(table.kept, Kept::Stays(_)) || rows.contains(&id.to_string());
            assert!(is_its, "{}", table.name);
        }
    }
}
