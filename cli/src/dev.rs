//! `rejoin dev`: everything on one machine, with one command.
//!
//! - `postgres`   a private PostgreSQL (the integration tests start theirs with it, too)
//! - `supervise`  the API and the workers, as child processes
//! - `watchdog`   ends all of them when this process ends, however it ends
//! - `process`    signals and users
pub mod postgres;
pub mod process;
pub mod supervise;
pub mod watchdog;
