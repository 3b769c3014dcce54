//! Consoles, which users and agents edit together.

mod alone;
mod concurrent_edits;
mod edits;
mod upkeep;
