//! The job queue, `queue.jobs`.
//!
//! - `enqueue`   within any open transaction (the SQL function `queue.enqueue` serves other programs)
//! - `claim`     batches of due jobs, round-robin between workspaces; increments the attempt and takes a lease
//! - `claim_cursor` the claim cursor: round-robin position and low watermarks of each lane
//! - `fencing`   the fence of a command: it writes only under its attempt
//! - `lease`     one heartbeat statement per worker; the fleet's rows
//! - `presence` workers' session locks: the death of a process is noticed at once
//! - `settle`    the outcomes: complete, retry, snooze, fail, cancel, release
//! - `settler`   a worker's outcomes in batches, until the database answers
//! - `sweep`     expired leases, orphaned keys, retention
//! - `stats`     figures for operators; pause, resume, dead jobs
//!
//! State machine of a job: available -> running -> (available ->)* completed | failed | cancelled; finished jobs leave
//! the table. A job with a concurrency key is `held` while another live job of that key is before it.
//!
//! Its README says how a program uses it without the rest of Rejoin; `examples/` do so.

pub mod claim;
pub mod claim_cursor;
pub mod enqueue;
pub mod fencing;
pub mod lease;
pub mod presence;
pub mod settle;
pub mod settler;
pub mod stats;
pub mod sweep;

pub use claim::{ClaimedJob, claim};
pub use claim_cursor::ClaimCursor;
pub use enqueue::{NewJob, enqueue, enqueue_many};
pub use settle::{Outcome, Settled, Settlement, settle};
pub use settler::{Settler, SettlerOptions};

/// The queue of agent runs.
pub const DEFAULT_QUEUE: &str = "default";
/// The kind of job that executes a run: its `run_id` names it.
pub const KIND_RUN: &str = "run";

/// Maximum number of attempts of a run: more than of other jobs, since a lost worker or a restarted database is not the
/// run's fault, and every finished step is kept. A run that itself kills workers still ends.
pub const RUN_MAX_ATTEMPTS: i32 = 12;

/// The concurrency key that lets one run of a conversation be active at a time.
pub fn conversation_key(conversation_id: uuid::Uuid) -> String {
    format!("conversation:{conversation_id}")
}
