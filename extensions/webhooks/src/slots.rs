//! Bounds the concurrent deliveries of a process, in total and per endpoint, so that receivers that hang don't occupy all slots for runs.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use uuid::Uuid;

/// Maximum number of concurrent deliveries of one process.
const MAX_TOTAL: usize = 16;
/// Maximum number of concurrent deliveries of one process to one endpoint.
const MAX_PER_ENDPOINT: usize = 4;

/// The slots of a process. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct Slots(Arc<Mutex<HashMap<Uuid, usize>>>);

impl Slots {
    /// Takes a slot. None: all are in use.
    pub(crate) fn take(&self, endpoint_id: Uuid) -> Option<Slot> {
        let mut used = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (total, of_endpoint): (usize, usize) =
            (used.values().sum(), used.get(&endpoint_id).copied().unwrap_or_default());
        if total >= MAX_TOTAL || of_endpoint >= MAX_PER_ENDPOINT {
            return None;
        }
        used.insert(endpoint_id, of_endpoint + 1);
        Some(Slot {
            slots: self.clone(),
            endpoint_id,
        })
    }
}

/// A slot, given back when dropped.
#[derive(Debug)]
pub(crate) struct Slot {
    slots: Slots,
    endpoint_id: Uuid,
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut used = self.slots.0.lock().unwrap_or_else(PoisonError::into_inner);
        match used.get_mut(&self.endpoint_id) {
            Some(count) if *count > 1 => *count -= 1,
            Some(_) | None => {
                used.remove(&self.endpoint_id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_bounded_per_endpoint_and_in_total() {
        let slots = Slots::default();
        let one = Uuid::now_v7();
        let mut taken: Vec<Slot> = std::iter::from_fn(|| slots.take(one)).collect();
        assert_eq!(taken.len(), MAX_PER_ENDPOINT);
        while let Some(slot) = slots.take(Uuid::now_v7()) {
            taken.push(slot);
        }
        assert_eq!(taken.len(), MAX_TOTAL);
        taken.remove(0);
        assert!(slots.take(one).is_some(), "a slot was given back");
        drop(taken);
        assert!(slots.0.lock().expect("the slots").is_empty());
    }
}
