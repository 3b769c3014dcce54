//! Who calls, and what they may do: workspaces with their members, API keys, sessions, identities from elsewhere, and the audit log.
//!
//! # Layout
//! - `auth`       keys and tokens: checked, with what they allow
//! - `keys`       API keys of a workspace
//! - `sessions`   browser sessions
//! - `sign_in`    signing in by an external identity
//! - `identities` external identities of users
//! - `projects`   workspaces: members, roles, quotas
//! - `initiators` in whose name runs, DAGs and schedules work, and whether they still may
//! - `cells`      several databases, and on which of them a workspace lives
//! - `audit`      the audit log: one chain of entries, appended within the transaction of the act

pub mod audit;
pub mod auth;
pub mod cells;
pub mod identities;
pub mod initiators;
pub mod keys;
pub mod sessions;
pub mod sign_in;
pub mod workspaces;
