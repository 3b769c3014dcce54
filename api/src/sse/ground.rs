//! What the hub's concurrency stands on: locks, atomics, and time.
//!
//! In the unit tests of this crate they are those of `rejoin-interleave`, at each of which its scheduler decides who goes on: so `model`
//! runs the hub and its readers as they are, in thousands of orders.

#[cfg(not(test))]
pub use std::sync::{Mutex, MutexGuard, PoisonError, atomic};
#[cfg(not(test))]
pub use tokio::time::{Instant, sleep, sleep_until, timeout};

#[cfg(test)]
pub use rejoin_interleave::sync::{Mutex, MutexGuard, PoisonError, atomic};
#[cfg(test)]
pub use rejoin_interleave::time::{Instant, sleep, sleep_until, timeout};
