//! Request slots: how many requests are processed at a time, in total, per user and per workspace. `admission` of the
//! API takes one for each request.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use uuid::Uuid;

use crate::problem::Problem;

/// Retry delay of a request without a slot, in seconds.
const RETRY_AFTER_S: u64 = 1;
/// The largest shares of the slots, in percent.
#[derive(Debug, Clone, Copy)]
pub struct Shares {
    pub user_percent: u8,
    pub workspace_percent: u8,
}

/// Maximum number of requests at a time: in all, of one user, and of one workspace.
pub struct ConcurrencyLimits {
    all: Arc<Semaphore>,
    max_per_user: usize,
    max_per_workspace: usize,
    taken: Mutex<HashMap<Uuid, usize>>,
}

/// One request's slot, released when dropped.
pub struct Slot {
    slots: Arc<ConcurrencyLimits>,
    _permit: OwnedSemaphorePermit,
    counted: Option<(Uuid, Uuid)>,
}

impl ConcurrencyLimits {
    /// This number of slots.
    pub fn new(slots: usize, shares: Shares) -> Arc<Self> {
        let share = |percent: u8| (slots * usize::from(percent)).div_ceil(100).max(1);
        Arc::new(Self {
            all: Arc::new(Semaphore::new(slots)),
            max_per_user: share(shares.user_percent),
            max_per_workspace: share(shares.workspace_percent),
            taken: Mutex::default(),
        })
    }

    /// Takes a slot for a user's request in a workspace.
    pub fn take_for(self: &Arc<Self>, user: Uuid, workspace: Uuid) -> Result<Slot, Problem> {
        let mut slot = self.take()?;
        slot.count_for(user, workspace)?;
        Ok(slot)
    }

    /// Takes a slot that is not counted for anyone yet.
    pub fn take(self: &Arc<Self>) -> Result<Slot, Problem> {
        let permit = self.all.clone().try_acquire_owned().map_err(|_| {
            metrics::counter!("rejoin_requests_shed_total").increment(1);
            Problem::overloaded(RETRY_AFTER_S)
        })?;
        Ok(Slot {
            slots: self.clone(),
            _permit: permit,
            counted: None,
        })
    }

    fn taken(&self) -> MutexGuard<'_, HashMap<Uuid, usize>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slot {
    /// Counts the slot for a user and a workspace.
    pub fn count_for(&mut self, user: Uuid, workspace: Uuid) -> Result<(), Problem> {
        let mut taken = self.slots.taken();
        for (id, max, whose) in [
            (user, self.slots.max_per_user, "user"),
            (workspace, self.slots.max_per_workspace, "project"),
        ] {
            if taken.get(&id).copied().unwrap_or_default() >= max {
                let detail = format!(
                    "this {whose} has {max} active requests, its share of the server; wait for their responses"
                );
                return Err(Problem::too_many(detail, RETRY_AFTER_S));
            }
        }
        for id in [user, workspace] {
            *taken.entry(id).or_default() += 1;
        }
        drop(taken);
        self.counted = Some((user, workspace));
        Ok(())
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let Some((user, workspace)) = self.counted else { return };
        let mut taken = self.slots.taken();
        for id in [user, workspace] {
            if let Some(count) = taken.get_mut(&id) {
                *count -= 1;
                if *count == 0 {
                    taken.remove(&id);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_and_workspaces_take_shares_of_places_and_return_them() {
        let shares = Shares {
            user_percent: 25,
            workspace_percent: 50,
        };
        let slots = ConcurrencyLimits::new(8, shares);
        let [ann, bob, carl, workspace, another] = [(); 5].map(|()| Uuid::now_v7());
        let take = |user: Uuid, workspace: Uuid| {
            let mut slot = slots.take()?;
            slot.count_for(user, workspace).map(|()| slot)
        };
        let mut held: Vec<Slot> = [ann, ann, bob, bob]
            .map(|user| take(user, workspace).ok().unwrap())
            .into();
        for (user, whose) in [(ann, "this user has 2 "), (carl, "this project has 4 ")] {
            let refused = take(user, workspace).err().unwrap();
            assert!(refused.detail.starts_with(whose), "{}", refused.detail);
            assert_eq!((refused.code, refused.retry_after_s), ("too_many_requests", Some(1)));
        }
        held.push(take(carl, another).ok().unwrap());
        held.remove(0);
        held.push(take(ann, workspace).ok().unwrap());
        drop(held);
        assert!(slots.taken().is_empty());
        assert_eq!(slots.all.available_permits(), 8);
    }
}
