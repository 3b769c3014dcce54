//! How the caller has arranged a conversation, as its body shows it; and the filter of lists by that.

use rejoin_http::problem::Problem;
use rejoin_runs::conversation_lists::{InFolder, ListFilter, Marks};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

/// How a conversation is arranged, and how it stands
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConversationMarks {
    pub pinned: bool,
    pub archived: bool,
    pub folder_id: Option<Uuid>,
    /// Sequence number of the last message that was marked as read; null: never marked, everything counts as read
    pub last_read_seq: Option<i64>,
    /// Sequence number of the last message; 0: there is none
    pub last_message_seq: i64,
    /// Number of answers after `lastReadSeq`, up to 100
    pub unread: i64,
    /// Whether a run is queued, is at work or waits
    pub running: bool,
    /// The version of its agent that it stays with; null: the newest
    pub agent_version: Option<i32>,
}

impl From<Marks> for ConversationMarks {
    fn from(marks: Marks) -> Self {
        Self {
            pinned: marks.is_pinned,
            archived: marks.is_archived,
            folder_id: marks.folder_id,
            last_read_seq: marks.last_read_seq,
            last_message_seq: marks.last_message_seq,
            unread: marks.unread,
            running: marks.is_running,
            agent_version: marks.agent_version,
        }
    }
}

/// Filter and order of a list of conversations
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub struct ArrangedParams {
    /// `exclude` archived conversations (default), list `only` these, or `include` both
    #[param(pattern = "^(exclude|only|include)$")]
    pub archived: Option<String>,
    /// `true`: only pinned conversations; `false`: only others
    pub pinned: Option<bool>,
    /// Only conversations of this folder, by its id; `none`: only those in no folder
    pub folder: Option<String>,
    /// `true`: only conversations with unread answers; `false`: only others
    pub unread: Option<bool>,
    /// `true`: only conversations with an active run; `false`: only others
    pub running: Option<bool>,
    /// `recent` (default): most recently used first; `priority`: pinned ones first, then those with an active run, each
    /// by their last use
    #[param(pattern = "^(recent|priority)$")]
    pub order: Option<String>,
}

fn unsupported(name: &str, value: &str, values: &str) -> Problem {
    Problem::bad_request(
        "invalid_query",
        format!("{name}={value} is not supported; use {values}"),
    )
}

impl ArrangedParams {
    /// Returns whether the request names any of them.
    pub fn is_given(&self) -> bool {
        self.archived.is_some()
            || self.pinned.is_some()
            || self.folder.is_some()
            || self.unread.is_some()
            || self.running.is_some()
            || self.order.is_some()
    }

    pub fn filter(&self) -> Result<ListFilter, Problem> {
        let archived = match self.archived.as_deref() {
            None | Some("exclude") => Some(false),
            Some("only") => Some(true),
            Some("include") => None,
            Some(other) => return Err(unsupported("archived", other, "exclude, only or include")),
        };
        let folder = match self.folder.as_deref() {
            None => None,
            Some("none") => Some(InFolder::None),
            Some(id) => {
                let id = id
                    .parse()
                    .map_err(|_| unsupported("folder", id, "a folder's id or none"))?;
                Some(InFolder::Folder(id))
            }
        };
        let priority_first = match self.order.as_deref() {
            None | Some("recent") => false,
            Some("priority") => true,
            Some(other) => return Err(unsupported("order", other, "recent or priority")),
        };
        Ok(ListFilter {
            archived,
            pinned: self.pinned,
            folder,
            unread: self.unread,
            running: self.running,
            priority_first,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn archived_conversations_are_left_out_unless_asked_for() {
        let filter = |archived: Option<&str>| {
            let params = ArrangedParams {
                archived: archived.map(str::to_owned),
                ..ArrangedParams::default()
            };
            params.filter().map(|filter| filter.archived)
        };
        assert_eq!(filter(None).unwrap(), Some(false));
        assert_eq!(filter(Some("only")).unwrap(), Some(true));
        assert_eq!(filter(Some("include")).unwrap(), None);
        assert_eq!(filter(Some("all")).unwrap_err().code, "invalid_query");
    }
}
