//! The job queue: claims, outcomes, batches, fences, and a model of it with random histories.

mod batches;
mod concurrency_keys;
pub mod jobs;
mod lease_fencing;
mod model;
mod presence;
mod repeated_commands;
mod writer_fencing;
