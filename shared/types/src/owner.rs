//! The owner of rows: a user in a project. Scopes row-level security and queries.

use uuid::Uuid;

/// A user in a project: the owner of the rows that a query may see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    pub project_id: Uuid,
    pub user_id: Uuid,
}
