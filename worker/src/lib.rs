//! The worker: claims jobs from the queue and runs agents. Stateless; any number of them share one database.
pub mod models;
pub mod tools;
