//! The jobs that this worker holds.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use rejoin_extension::Signals;
use uuid::Uuid;

/// A job held by this worker.
pub struct Held {
    pub attempt: i32,
    pub run_id: Option<Uuid>,
    pub signals: Signals,
}

/// The jobs held by this worker, by id. A std Mutex: no await while it is locked.
#[derive(Clone, Default)]
pub struct Jobs(Arc<Mutex<HashMap<i64, Held>>>);

impl Jobs {
    pub fn with<T>(&self, f: impl FnOnce(&mut HashMap<i64, Held>) -> T) -> T {
        f(&mut self.0.lock().expect("no holder of this lock panics"))
    }
}
