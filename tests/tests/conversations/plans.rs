//! Plans: made, reviewed, carried out step by step, also while workers die.

pub mod execution;
mod failed_steps;
mod launch;
mod reviews;
