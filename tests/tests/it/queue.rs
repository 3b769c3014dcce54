//! The job queue: claims, outcomes, batches, fences, and a model of it with random histories.

mod batches;
mod fences;
pub mod jobs;
mod model;
