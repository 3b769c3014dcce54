//! Who calls: API keys, tickets, sessions, members, invitations, and users and tokens of identity providers.

mod auth;
mod browser;
mod browser_sessions;
mod credentials;
mod invitations;
mod key_limits;
mod keys;
mod members;
pub mod oidc;
mod oidc_access;
mod oidc_confusion;
mod oidc_provider;
mod session_list;
mod sign_in;
mod sso;
mod sso_access;
mod sso_provider;
mod switching;
