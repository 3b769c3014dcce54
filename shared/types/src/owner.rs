//! The owner of rows: a user in a workspace. Scopes row-level security and queries.

use uuid::Uuid;

/// A user in a workspace: the owner of the rows that a query may see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    pub workspace_id: Uuid,
    pub user_id: Uuid,
}
