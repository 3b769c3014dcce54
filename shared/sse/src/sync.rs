//! Synchronization primitives of the hub: locks, atomics, and time.
//!
//! In this crate's unit tests they are those of `rejoin-interleave`, whose scheduler decides at each of them which task
//! continues: so `model` runs the real hub and readers in thousands of interleavings.

#[cfg(not(test))]
pub use std::sync::{Mutex, MutexGuard, PoisonError, atomic};
#[cfg(not(test))]
pub use tokio::time::{Instant, sleep, sleep_until, timeout};

#[cfg(test)]
pub use rejoin_interleave::sync::{Mutex, MutexGuard, PoisonError, atomic};
#[cfg(test)]
pub use rejoin_interleave::time::{Instant, sleep, sleep_until, timeout};
