//! What the client of another program brings along with a message: the earlier messages of a new conversation, its
//! tools, and instructions. Validated here, whatever protocol they came with.

use sqlx::PgConnection;
use uuid::Uuid;

use super::{PostError, PostMessage};
use crate::wire_time;
use rejoin_event_log::log;
use rejoin_runs::agents::settings::Settings;
use rejoin_runs::agents::{self, AgentDefinition};
use rejoin_runs::builtin;
use rejoin_runs::client_tools::{self, INSTRUCTIONS_MAX_CHARS};
use rejoin_runs::conversations::{self, CLIENT_THREAD_MAX_BYTES};
use rejoin_runs::messages::{self, Role};
use rejoin_tools::registry::Patterns;
use rejoin_types::events::{Event, Kind, MessageBody};
use rejoin_types::ids;

/// Maximum number of earlier messages of a new conversation. Their total length is bounded by the caller.
pub const HISTORY_MAX: usize = 200;
/// Maximum number of tool names in an error.
const NAMED: usize = 5;

/// An earlier message of a new conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryMessage {
    pub role: Role,
    pub text: String,
}

impl PostMessage {
    /// Validates what needs no database.
    pub(super) fn check_client_parts(&self) -> Result<(), PostError> {
        let unfit = |code, detail: String| Err(PostError::Unfit { code, detail });
        match (&self.client_thread, self.conversation_id) {
            (Some(_), Some(_)) => {
                let detail = "a conversation is named by its id or by the client's own name, not by both".to_owned();
                return unfit("invalid_client_thread", detail);
            }
            (Some(thread), None) if thread.is_empty() || thread.len() > CLIENT_THREAD_MAX_BYTES => {
                let detail = format!("the conversation's name must have 1 to {CLIENT_THREAD_MAX_BYTES} bytes");
                return unfit("invalid_client_thread", detail);
            }
            (_, _) => {}
        }
        if self.history.len() > HISTORY_MAX {
            let detail = format!(
                "{} earlier messages are too many; the maximum is {HISTORY_MAX}. Send the newest ones",
                self.history.len()
            );
            return unfit("history_too_long", detail);
        }
        let instructions = self.instructions.as_deref().unwrap_or_default();
        let chars = instructions.chars().count();
        if chars > INSTRUCTIONS_MAX_CHARS {
            let detail = format!("the instructions have {chars} characters; the maximum is {INSTRUCTIONS_MAX_CHARS}");
            return unfit("instructions_too_long", detail);
        }
        let mut texts = self.history.iter().map(|message| message.text.as_str());
        let has_nul = |text: &str| text.contains('\0');
        if texts.any(has_nul) || has_nul(instructions) || self.client_thread.as_deref().is_some_and(has_nul) {
            let detail = "a text of the request contains a NUL character".to_owned();
            return unfit("invalid_text", detail);
        }
        client_tools::check(&self.client_tools).or_else(|detail| unfit("invalid_client_tool", detail))
    }

    /// Refuses client tools that are named like a tool of the agent. Tools that the project gets later are not known
    /// here: the client's tool then takes the place of the agent's.
    pub(super) async fn check_tool_names(
        &self,
        db: &mut PgConnection,
        definition_id: Option<Uuid>,
    ) -> Result<(), PostError> {
        let Some(id) = definition_id.filter(|_| !self.client_tools.is_empty()) else {
            return Ok(());
        };
        let Some(definition) = agents::get(db, self.owner.workspace_id, id).await? else {
            return Ok(());
        };
        let names: Vec<String> = self.client_tools.iter().map(|tool| tool.name.clone()).collect();
        let offered = client_tools::of_servers(db, self.owner.workspace_id, &names).await?;
        let taken = self.taken(&definition, &offered);
        if taken.is_empty() {
            return Ok(());
        }
        Err(PostError::Unfit {
            code: "client_tool_name_taken",
            detail: format!(
                "the agent {} already has tools named {}; give the client's tools other names",
                definition.name,
                taken.join(", ")
            ),
        })
    }

    /// Returns the names of client tools that the agent's own tools have.
    fn taken(&self, definition: &AgentDefinition, offered: &[String]) -> Vec<&str> {
        let granted = Patterns::new(&definition.tools);
        let builtin = builtin::tools();
        let hands_over = Settings::of(&definition.config).is_ok_and(|settings| !settings.handoffs.is_empty());
        let exists = |name: &str| {
            builtin.get(name).is_some()
                || builtin::COORDINATION.contains(&name)
                || offered.iter().any(|known| known == name)
                || self.extension_tools.iter().any(|known| known == name)
                // Named in full: whatever offers it.
                || definition.tools.iter().any(|tool| tool == name)
        };
        let names = self.client_tools.iter().map(|tool| tool.name.as_str());
        names
            .filter(|&name| {
                granted.is_match(name) && exists(name) || hands_over && name.starts_with(builtin::HANDOFF_PREFIX)
            })
            .take(NAMED)
            .collect()
    }

    /// Stores the earlier messages of the conversation that this message begins, with their events.
    pub(super) async fn store_history(&self, db: &mut PgConnection, conversation_id: Uuid) -> Result<(), sqlx::Error> {
        if self.history.is_empty() {
            return Ok(());
        }
        let now = sqlx::query_scalar!(r#"select now() as "now!""#)
            .fetch_one(&mut *db)
            .await?;
        let ids: Vec<Uuid> = self.history.iter().map(|_| ids::new()).collect();
        let events: Vec<Event> = self
            .history
            .iter()
            .zip(&ids)
            .map(|(earlier, id)| Event {
                kind: Kind::Message {
                    message: MessageBody {
                        id: *id,
                        role: earlier.role.as_str().to_owned(),
                        content: earlier.text.clone(),
                        created_at: wire_time(now),
                        attached_context: None,
                        attachments: Vec::new(),
                        citations: None,
                    },
                },
                // No run answers it.
                run_id: None,
                agent: None,
                parent_run_id: None,
                source: None,
                step_number: None,
            })
            .collect();
        let last = log::append(db, conversation_id, None, &events).await?;
        let earlier: Vec<(Role, &str)> = self
            .history
            .iter()
            .map(|earlier| (earlier.role, earlier.text.as_str()))
            .collect();
        messages::insert_history(db, conversation_id, &ids, &earlier, last).await
    }

    /// Returns the text that names the conversation: what its user said first.
    pub(super) fn first_words(&self) -> &str {
        let first = self.history.iter().find(|earlier| earlier.role == Role::User);
        first.map_or(self.message.as_str(), |earlier| earlier.text.as_str())
    }

    /// Returns the conversation that the message names.
    pub(super) async fn named(&self, db: &mut PgConnection) -> Result<Option<Uuid>, sqlx::Error> {
        match &self.client_thread {
            Some(thread) => {
                let known = conversations::by_client_thread(db, self.owner, thread).await?;
                Ok(known.map(|known| known.id))
            }
            None => Ok(self.conversation_id),
        }
    }
}
