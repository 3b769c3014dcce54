//! Attacks and the protections against them: hostile input, networks, prompt injection, secrets, row-level security, the audit log.

mod attacks;
mod audit;
mod audit_chain;
mod hostile_imports;
mod injections;
mod network;
mod odd_text;
mod policies;
mod rates;
mod rebinding;
pub mod row_security;
mod secrets;
mod unscoped;
