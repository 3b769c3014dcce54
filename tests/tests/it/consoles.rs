//! Consoles, which users and agents edit together.

mod alone;
mod edits;
mod upkeep;
