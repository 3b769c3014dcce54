//! The claim cursor of a queue: round-robin position, and the low watermark of each lane (workspace, priority).
//!
//! Index entries of deleted jobs stay until vacuumed, which an open transaction may prevent for hours. A claim that
//! starts at the beginning of its lanes scans all of them; watermarks avoid that. Jobs that become claimable below a
//! watermark (a late commit, a held job) are found by the next full scan. A full scan is due when its cost is
//! negligible: if it is cheap, with each claim of a queue without a backlog; else after [`SCAN_PAUSE_FACTOR`] times its
//! duration.

use std::collections::BTreeMap;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use tokio::time::Instant;
use uuid::Uuid;

/// The pause after a full scan, as a multiple of its duration: full scans are a twentieth of a worker's claims.
const SCAN_PAUSE_FACTOR: u32 = 20;
/// The maximum pause between full scans.
const MAX_SCAN_PAUSE: Duration = Duration::from_secs(3);
/// A full scan up to this duration is repeated with each claim: most of it is the round trip and the commit.
const CHEAP_SCAN: Duration = Duration::from_millis(3);
/// Number of remembered full scans; the cheapest of them gives the cost, whatever delayed the others.
const REMEMBERED_SCANS: usize = 3;
/// Jobs of a queue without a backlog become visible within this time, except for longer transactions.
const LATE_COMMIT: TimeDelta = TimeDelta::milliseconds(100);
/// Maximum number of remembered lanes, if the queue has no backlog.
const MAX_LANES: usize = 256;

type Lane = (Uuid, i16);
/// (run_at, id): the order of jobs within a lane.
type LanePosition = (DateTime<Utc>, i64);

/// The claim cursor: one per worker and queue.
#[derive(Debug, Clone)]
pub struct ClaimCursor {
    /// The workspace served last.
    last_workspace: Uuid,
    /// The low watermarks: the position of the last claimed job, by lane.
    low_watermarks: BTreeMap<Lane, LanePosition>,
    /// The server's clock at the last claim of a job.
    claimed_at: DateTime<Utc>,
    scanned_at: Instant,
    /// The durations of the last full scans.
    scan_durations: [Duration; REMEMBERED_SCANS],
}

/// The low watermarks as columns, in order of lane.
#[derive(Debug, Default)]
pub(super) struct LowWatermarks {
    pub workspaces: Vec<Uuid>,
    pub priorities: Vec<i16>,
    pub run_ats: Vec<DateTime<Utc>>,
    pub ids: Vec<i64>,
}

impl Default for ClaimCursor {
    fn default() -> Self {
        Self {
            last_workspace: Uuid::nil(),
            low_watermarks: BTreeMap::new(),
            claimed_at: DateTime::UNIX_EPOCH,
            scanned_at: Instant::now(),
            scan_durations: [Duration::ZERO; REMEMBERED_SCANS],
        }
    }
}

impl ClaimCursor {
    /// The cursor after `project` was served.
    pub fn after(workspace: Uuid) -> Self {
        Self {
            last_workspace: workspace,
            ..Self::default()
        }
    }

    /// A cursor whose full scans took this long.
    pub fn with_scans_of(duration: Duration) -> Self {
        Self {
            scan_durations: [duration; REMEMBERED_SCANS],
            ..Self::default()
        }
    }

    /// When the next full scan is due for jobs that claims may have skipped. None: there are none.
    pub fn next_scan_at(&self) -> Option<Instant> {
        (!self.low_watermarks.is_empty()).then(|| self.scanned_at + self.scan_pause())
    }

    /// Merges the result of a concurrent claim that began from the same cursor.
    pub fn merge(&mut self, other: ClaimCursor) {
        for (lane, position) in other.low_watermarks {
            self.raise_watermark(lane, position);
        }
        self.claimed_at = self.claimed_at.max(other.claimed_at);
    }

    /// The workspace served last.
    pub(super) fn last_workspace(&self) -> Uuid {
        self.last_workspace
    }

    /// The round-robin position of a workspace, counted from the one served last.
    pub(super) fn round_robin_key(&self, workspace: Uuid) -> (bool, Uuid) {
        (workspace <= self.last_workspace, workspace)
    }

    /// Returns whether the next claim is a full scan.
    pub(super) fn is_full_scan_due(&self) -> bool {
        self.next_scan_at().is_none_or(|at| at <= Instant::now())
    }

    pub(super) fn low_watermarks(&self) -> LowWatermarks {
        let mut low_watermarks = LowWatermarks::default();
        for ((workspace, priority), (run_at, id)) in &self.low_watermarks {
            low_watermarks.workspaces.push(*workspace);
            low_watermarks.priorities.push(*priority);
            low_watermarks.run_ats.push(*run_at);
            low_watermarks.ids.push(*id);
        }
        low_watermarks
    }

    /// Records a full scan that began at this time.
    pub(super) fn record_full_scan(&mut self, began: Instant) {
        self.scanned_at = Instant::now();
        self.scan_durations.rotate_right(1);
        self.scan_durations[0] = began.elapsed();
    }

    /// Records a claimed job.
    pub(super) fn record_claimed(&mut self, lane: Lane, position: LanePosition, now: DateTime<Utc>) {
        self.raise_watermark(lane, position);
        self.last_workspace = lane.0;
        self.claimed_at = now;
    }

    /// Records that a claim got all visible jobs. Skipped jobs should not wait for the next full scan, unless full
    /// scans are expensive.
    pub(super) fn record_drained(&mut self) {
        if self.scan_cost() <= CHEAP_SCAN || self.low_watermarks.len() > MAX_LANES {
            return self.clear();
        }
        let seen = (self.claimed_at - LATE_COMMIT, 0);
        for position in self.low_watermarks.values_mut() {
            *position = seen.min(*position);
        }
    }

    pub(super) fn clear(&mut self) {
        self.low_watermarks.clear();
    }

    fn raise_watermark(&mut self, lane: Lane, position: LanePosition) {
        let low_watermark = self.low_watermarks.entry(lane).or_insert(position);
        *low_watermark = position.max(*low_watermark);
    }

    fn scan_cost(&self) -> Duration {
        self.scan_durations.iter().min().copied().unwrap_or_default()
    }

    fn scan_pause(&self) -> Duration {
        (self.scan_cost() * SCAN_PAUSE_FACTOR).min(MAX_SCAN_PAUSE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LANE: Lane = (Uuid::nil(), 0);

    fn at(s: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(s, 0).expect("a moment")
    }

    #[test]
    fn where_scans_are_cheap_a_drained_queue_has_no_low_watermarks() {
        let mut cursor = ClaimCursor::with_scans_of(CHEAP_SCAN);
        assert!(cursor.is_full_scan_due());
        cursor.record_claimed(LANE, (at(10), 3), at(100));
        assert!(!cursor.is_full_scan_due(), "a queue that is backed up goes on");
        cursor.record_drained();
        assert!(cursor.is_full_scan_due());
        assert_eq!(cursor.next_scan_at(), None);
    }

    #[test]
    fn with_dear_walks_floors_stay_behind_open_commits() {
        let mut cursor = ClaimCursor::with_scans_of(Duration::from_millis(50));
        cursor.record_claimed(LANE, (at(10), 3), at(100));
        cursor.record_claimed((LANE.0, 1), (at(100), 4), at(100));
        cursor.record_drained();
        let low_watermarks = cursor.low_watermarks();
        assert_eq!(low_watermarks.run_ats, [at(10), at(100) - LATE_COMMIT]);
        assert_eq!(low_watermarks.ids, [3, 0]);
        assert!(!cursor.is_full_scan_due());
        assert_eq!(
            cursor.next_scan_at(),
            Some(cursor.scanned_at + Duration::from_secs(1)),
            "a twentieth of the time is for full scans"
        );
    }

    #[test]
    fn one_slow_scan_does_not_make_scans_expensive() {
        let mut cursor = ClaimCursor::with_scans_of(Duration::from_millis(1));
        cursor.record_full_scan(Instant::now() - Duration::from_secs(1));
        cursor.record_claimed(LANE, (at(10), 3), at(100));
        cursor.record_drained();
        assert_eq!(cursor.next_scan_at(), None);
    }

    #[test]
    fn concurrent_claims_share_their_low_watermarks() {
        let mut one = ClaimCursor::with_scans_of(Duration::from_millis(50));
        let mut other = one.clone();
        one.record_claimed(LANE, (at(10), 3), at(100));
        other.record_claimed(LANE, (at(11), 4), at(101));
        other.record_claimed((LANE.0, 1), (at(9), 1), at(101));
        one.merge(other);
        assert_eq!(one.low_watermarks().ids, [4, 1]);
    }

    #[test]
    fn concurrent_claims_share_the_latest_moment_served() {
        let mut one = ClaimCursor::with_scans_of(Duration::from_millis(50));
        let mut other = one.clone();
        other.record_claimed(LANE, (at(200), 4), at(100));
        one.merge(other);
        one.record_drained();
        assert_eq!(one.low_watermarks().run_ats, [at(100) - LATE_COMMIT]);
    }

    #[test]
    fn with_dear_walks_the_number_of_remembered_lanes_is_bounded() {
        let with_lanes = |lanes: usize| {
            let mut cursor = ClaimCursor::with_scans_of(Duration::from_secs(1));
            for n in 0..lanes {
                cursor.record_claimed((Uuid::from_u128(n as u128), 0), (at(10), 3), at(100));
            }
            cursor.record_drained();
            cursor.low_watermarks().ids.len()
        };
        assert_eq!(with_lanes(MAX_LANES), MAX_LANES);
        assert_eq!(with_lanes(MAX_LANES + 1), 0);
    }

    #[test]
    fn workspaces_take_turns_after_the_last_one() {
        let workspace = Uuid::from_u128;
        let mut cursor = ClaimCursor::after(workspace(2));
        assert_eq!(cursor.last_workspace(), workspace(2));
        let mut workspaces = [1, 2, 3, 4].map(workspace);
        workspaces.sort_by_key(|workspace| cursor.round_robin_key(*workspace));
        assert_eq!(workspaces, [3, 4, 1, 2].map(workspace));
        cursor.record_claimed((workspace(3), 0), (at(10), 3), at(100));
        assert_eq!(cursor.last_workspace(), workspace(3));
    }
}
