//! Who calls, and what they may do: workspaces with their members, API keys, sessions, identities from elsewhere, and the audit log.
//!
//! # Layout
//! - `auth`       keys and tokens: checked, with what they allow
//! - `keys`       API keys of a workspace
//! - `sessions`   browser sessions
//! - `open_workspaces` the workspaces that a caller's credential opens
//! - `sign_in`    one-time sign-in codes
//! - `identities` external identities of users
//! - `sso`        signing browsers in at the identity provider
//! - `invitations` links with which users join a workspace
//! - `projects`   workspaces: members, roles, quotas
//! - `initiators` in whose name runs, DAGs and schedules work, and whether they still may
//! - `cells`      several databases, and on which of them a workspace lives
//! - `audit`      the audit log: one chain of entries, appended within the transaction of the act

pub mod audit;
pub mod auth;
pub mod cells;
pub mod identities;
pub mod initiators;
pub mod invitations;
pub mod keys;
pub mod open_workspaces;
pub mod sessions;
pub mod sign_in;
pub mod sso;
pub mod workspaces;
