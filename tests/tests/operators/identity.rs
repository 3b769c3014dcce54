//! Who calls: API keys, tickets, sessions, members, and tokens of identity providers.

mod auth;
mod browser_sessions;
mod credentials;
mod key_limits;
mod keys;
mod members;
pub mod oidc;
mod oidc_access;
mod oidc_confusion;
mod oidc_provider;
mod sign_in;
