//! Idle connections, by target. Used by the kinds whose drivers have no pool.
//!
//! Invariant: a connection is here only if its last result was read completely. Their number is bounded by the number
//! of concurrent queries.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Maximum idle time of a connection.
const KEPT_FOR: Duration = Duration::from_secs(120);
/// Maximum number of idle connections of one source, over all its databases.
const MAX_KEPT: usize = 8;

pub struct IdleConnections<C> {
    // No await while it is held.
    kept: Mutex<HashMap<String, Vec<(C, Instant)>>>,
}

impl<C> Default for IdleConnections<C> {
    fn default() -> Self {
        Self {
            kept: Mutex::new(HashMap::new()),
        }
    }
}

impl<C> IdleConnections<C> {
    pub fn take(&self, key: &str) -> Option<C> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let found = kept.get_mut(key)?;
        found.retain(|(_, since)| since.elapsed() < KEPT_FOR);
        found.pop().map(|(connection, _)| connection)
    }

    pub fn put(&self, key: &str, connection: C) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.values_mut()
            .for_each(|found| found.retain(|(_, since)| since.elapsed() < KEPT_FOR));
        kept.retain(|_, found| !found.is_empty());
        if kept.values().map(Vec::len).sum::<usize>() < MAX_KEPT {
            kept.entry(key.to_owned())
                .or_default()
                .push((connection, Instant::now()));
        }
    }
}
