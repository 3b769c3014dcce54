//! Plans: made, reviewed, carried out step by step, also while workers die.

pub mod execution;
mod launch;
mod reviews;
