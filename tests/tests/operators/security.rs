//! Attacks and the protections against them: hostile input, networks, prompt injection, secrets, row-level security, the audit log.

mod abandoned_transactions;
mod attacks;
mod audit;
mod audit_chain;
mod dns_rebinding;
mod injections;
mod network;
mod nul_text;
mod policies;
mod rate_limits;
pub mod row_security;
mod secret_encryption;
mod secrets;
mod unscoped;
