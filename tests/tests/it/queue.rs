//! The job queue: claims, outcomes, batches, fences, and a model of it with random histories.

mod batches;
pub mod jobs;
mod lease_fencing;
mod model;
mod presence;
mod repeated_commands;
