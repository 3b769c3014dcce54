//! An in-process cache of slow counts. Called by `schema`: counting a large graph takes seconds and its result hardly
//! changes; small graphs are counted each time.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

use uuid::Uuid;

use super::{LabelCount, RelationshipCount, TypeCount};
use crate::Error;

/// Faster counts are not cached.
const LONG: Duration = Duration::from_millis(100);
/// Lifetime of cached counts. Clients may cache as long: `cache_hint_ttl` of the tool `schema_version`.
pub const KEPT: Duration = Duration::from_secs(300);
/// Maximum number of workspaces with cached counts of one kind; beyond it, the cache is cleared.
const MAX_WORKSPACES: usize = 1_000;

/// Counts of one kind by workspace, with their time.
pub(super) type Counts<T> = LazyLock<Mutex<HashMap<Uuid, (Instant, Vec<T>)>>>;

pub(super) static TYPES: Counts<TypeCount> = LazyLock::new(Mutex::default);
pub(super) static RELATIONSHIPS: Counts<RelationshipCount> = LazyLock::new(Mutex::default);
pub(super) static LABELS: Counts<LabelCount> = LazyLock::new(Mutex::default);

/// Returns counts cached at most [`KEPT`] ago, else counts now and caches slow results.
pub(super) async fn kept<T: Clone>(
    counts: &Counts<T>,
    workspace_id: Uuid,
    count: impl Future<Output = Result<Vec<T>, Error>>,
) -> Result<Vec<T>, Error> {
    let known = |began: Instant| {
        let counts = counts.lock().unwrap_or_else(PoisonError::into_inner);
        let (at, counted) = counts.get(&workspace_id)?;
        (began.duration_since(*at) < KEPT).then(|| counted.clone())
    };
    let began = Instant::now();
    if let Some(counted) = known(began) {
        return Ok(counted);
    }
    let counted = count.await?;
    let mut counts = counts.lock().unwrap_or_else(PoisonError::into_inner);
    if began.elapsed() < LONG {
        counts.remove(&workspace_id);
    } else {
        if counts.len() >= MAX_WORKSPACES {
            counts.clear();
        }
        counts.insert(workspace_id, (began, counted.clone()));
    }
    Ok(counted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_what_took_long_is_kept() {
        let counts: Counts<u32> = LazyLock::new(Mutex::default);
        let workspace = Uuid::now_v7();
        let count = |number: u32, takes: Duration| {
            kept(&counts, workspace, async move {
                tokio::time::sleep(takes).await;
                Ok(vec![number])
            })
        };
        assert_eq!(count(1, Duration::ZERO).await.unwrap(), [1]);
        assert_eq!(count(2, LONG).await.unwrap(), [2]);
        assert_eq!(count(3, Duration::ZERO).await.unwrap(), [2]);
    }
}
