//! Where workspaces live, as this process last read it in the directory. In memory, so that a request asks no database.
//!
//! Invariant: what is older than `REJOIN_CELLS_STALE_MS` is not used: a workspace may have moved since.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use rejoin_identity::cells::{Placement, PlacementState};
use uuid::Uuid;

/// Where a workspace lives.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Place {
    /// None: the directory.
    pub cell: Option<Arc<str>>,
    /// It is being moved.
    pub is_held: bool,
    /// The version of its identity.
    pub version: i64,
}

/// The places of all workspaces that are not simply in the directory.
#[derive(Debug)]
pub struct Placements {
    known: RwLock<Known>,
    stale_after: Duration,
}

#[derive(Debug, Default)]
struct Known {
    places: HashMap<Uuid, Place>,
    version: i64,
    read_at: Option<Instant>,
}

impl Placements {
    pub fn new(stale_after: Duration) -> Self {
        Self {
            known: RwLock::default(),
            stale_after,
        }
    }

    /// Returns where a workspace lives. None: what was read is too old.
    pub fn of(&self, workspace_id: Uuid) -> Option<Place> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let is_current = known.read_at.is_some_and(|at| at.elapsed() <= self.stale_after);
        is_current.then(|| known.places.get(&workspace_id).cloned().unwrap_or_default())
    }

    /// The newest version that was read.
    pub fn version(&self) -> i64 {
        self.known.read().unwrap_or_else(PoisonError::into_inner).version
    }

    /// Takes over what was read from `asked_at` on. Returns the workspaces that live elsewhere now, with the cell that they have left.
    pub fn apply(&self, changes: Vec<Placement>, asked_at: Instant) -> Vec<(Uuid, Option<Arc<str>>)> {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        known.read_at = Some(asked_at);
        let mut left = Vec::new();
        for change in changes {
            known.version = known.version.max(change.version);
            let place = Place {
                cell: change.cell.map(Arc::from),
                is_held: change.state == PlacementState::Held,
                version: change.version,
            };
            let cell = place.cell.clone();
            let old = known.places.insert(change.workspace_id, place).unwrap_or_default();
            if old.cell != cell {
                left.push((change.workspace_id, old.cell));
            }
        }
        left
    }

    /// Returns the workspaces of a cell, with the versions of their identity.
    pub fn on(&self, cell: &str) -> Vec<(Uuid, i64)> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let there = known
            .places
            .iter()
            .filter(|(_, place)| place.cell.as_deref() == Some(cell));
        there.map(|(id, place)| (*id, place.version)).collect()
    }

    /// Returns the number of workspaces by cell.
    pub fn counts(&self) -> BTreeMap<String, usize> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let mut counts = BTreeMap::new();
        for cell in known.places.values().filter_map(|place| place.cell.as_deref()) {
            *counts.entry(cell.to_owned()).or_default() += 1;
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placement(id: u128, cell: Option<&str>, version: i64) -> Placement {
        Placement {
            workspace_id: Uuid::from_u128(id),
            cell: cell.map(str::to_owned),
            state: PlacementState::Placed,
            epoch: version,
            version,
        }
    }

    #[test]
    fn a_workspace_without_a_placement_lives_in_the_directory() {
        let placements = Placements::new(Duration::from_secs(60));
        assert_eq!(placements.of(Uuid::from_u128(1)), None, "nothing was read yet");
        assert!(placements.apply(vec![], Instant::now()).is_empty());
        assert_eq!(placements.of(Uuid::from_u128(1)), Some(Place::default()));
    }

    #[test]
    fn a_workspace_that_moves_leaves_its_cell_once() {
        let placements = Placements::new(Duration::from_secs(60));
        let id = Uuid::from_u128(1);
        let left = placements.apply(vec![placement(1, Some("b"), 7)], Instant::now());
        assert_eq!(left, [(id, None)]);
        let left = placements.apply(vec![placement(1, Some("b"), 7)], Instant::now());
        assert!(left.is_empty(), "{left:?}");
        let left = placements.apply(vec![placement(1, None, 9)], Instant::now());
        assert_eq!(left, [(id, Some("b".into()))]);
        assert!(placements.on("b").is_empty());
        assert_eq!(placements.version(), 9);
    }

    #[test]
    fn what_is_old_is_not_used() {
        let placements = Placements::new(Duration::ZERO);
        placements.apply(vec![], Instant::now());
        assert_eq!(placements.of(Uuid::from_u128(1)), None);
    }
}
