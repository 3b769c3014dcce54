//! The owner of rows: a user in a project. Row-level security and queries are scoped by it.

use uuid::Uuid;

/// A user in a project, whose rows a query may see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    pub project_id: Uuid,
    pub user_id: Uuid,
}
