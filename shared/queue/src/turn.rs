//! The claim cursor of a queue: round-robin position, and the low watermark of each lane (project, priority).
//!
//! Index entries of deleted jobs stay until vacuumed, which an open transaction may prevent for hours. A claim that
//! starts at the beginning of its lanes scans all of them; watermarks avoid that. Jobs that become claimable below a
//! watermark (a late commit, a held job) are found by the next full scan. A full scan is due when its cost is
//! negligible: if it is cheap, with each claim of a queue without a backlog; else after [`WALK_SHARE`] times its
//! duration.

use std::collections::BTreeMap;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use tokio::time::Instant;
use uuid::Uuid;

/// The pause after a full scan, as a multiple of its duration: full scans are a twentieth of a worker's claims.
const WALK_SHARE: u32 = 20;
/// The maximum pause between full scans.
const LONGEST_PAUSE: Duration = Duration::from_secs(3);
/// A full scan up to this duration is repeated with each claim: most of it is the round trip and the commit.
const CHEAP_WALK: Duration = Duration::from_millis(3);
/// Number of remembered full scans; the cheapest of them gives the cost, whatever delayed the others.
const WALKS: usize = 3;
/// Jobs of a queue without a backlog become visible within this time, except for longer transactions.
const LATE_COMMIT: TimeDelta = TimeDelta::milliseconds(100);
/// Maximum number of remembered lanes, if the queue has no backlog.
const MAX_LANES: usize = 256;

type Lane = (Uuid, i16);
/// (run_at, id): the order of jobs within a lane.
type Place = (DateTime<Utc>, i64);

/// The claim cursor: one per worker and queue.
#[derive(Debug, Clone)]
pub struct Turn {
    /// The project served last.
    after: Uuid,
    /// The low watermarks: the position of the last claimed job, by lane.
    floors: BTreeMap<Lane, Place>,
    /// The server's clock at the last claim of a job.
    served_at: DateTime<Utc>,
    walked_at: Instant,
    /// The durations of the last full scans.
    walks: [Duration; WALKS],
}

/// The low watermarks as columns, in order of lane.
#[derive(Debug, Default)]
pub(super) struct Floors {
    pub projects: Vec<Uuid>,
    pub priorities: Vec<i16>,
    pub run_ats: Vec<DateTime<Utc>>,
    pub ids: Vec<i64>,
}

impl Default for Turn {
    fn default() -> Self {
        Self {
            after: Uuid::nil(),
            floors: BTreeMap::new(),
            served_at: DateTime::UNIX_EPOCH,
            walked_at: Instant::now(),
            walks: [Duration::ZERO; WALKS],
        }
    }
}

impl Turn {
    /// The cursor after `project` was served.
    pub fn after(project: Uuid) -> Self {
        Self {
            after: project,
            ..Self::default()
        }
    }

    /// A cursor whose full scans took this long.
    pub fn with_walks_of(cost: Duration) -> Self {
        Self {
            walks: [cost; WALKS],
            ..Self::default()
        }
    }

    /// When the next full scan is due for jobs that claims may have skipped. None: there are none.
    pub fn look_again_at(&self) -> Option<Instant> {
        (!self.floors.is_empty()).then(|| self.walked_at + self.pause())
    }

    /// Merges the result of a concurrent claim that began from the same cursor.
    pub fn join(&mut self, other: Turn) {
        for (lane, place) in other.floors {
            self.raise(lane, place);
        }
        self.served_at = self.served_at.max(other.served_at);
    }

    /// The project served last.
    pub(super) fn last_served(&self) -> Uuid {
        self.after
    }

    /// The round-robin position of a project, counted from the one served last.
    pub(super) fn order(&self, project: Uuid) -> (bool, Uuid) {
        (project <= self.after, project)
    }

    /// Returns whether the next claim is a full scan.
    pub(super) fn is_walk_due(&self) -> bool {
        self.look_again_at().is_none_or(|at| at <= Instant::now())
    }

    pub(super) fn floors(&self) -> Floors {
        let mut floors = Floors::default();
        for ((project, priority), (run_at, id)) in &self.floors {
            floors.projects.push(*project);
            floors.priorities.push(*priority);
            floors.run_ats.push(*run_at);
            floors.ids.push(*id);
        }
        floors
    }

    /// Records a full scan that began at this time.
    pub(super) fn walked(&mut self, began: Instant) {
        self.walked_at = Instant::now();
        self.walks.rotate_right(1);
        self.walks[0] = began.elapsed();
    }

    /// Records a claimed job.
    pub(super) fn served(&mut self, lane: Lane, place: Place, now: DateTime<Utc>) {
        self.raise(lane, place);
        self.after = lane.0;
        self.served_at = now;
    }

    /// Records that a claim got all visible jobs. Skipped jobs should not wait for the next full scan, unless full
    /// scans are expensive.
    pub(super) fn ran_dry(&mut self) {
        if self.cost() <= CHEAP_WALK || self.floors.len() > MAX_LANES {
            return self.forget();
        }
        let seen = (self.served_at - LATE_COMMIT, 0);
        for place in self.floors.values_mut() {
            *place = seen.min(*place);
        }
    }

    pub(super) fn forget(&mut self) {
        self.floors.clear();
    }

    fn raise(&mut self, lane: Lane, place: Place) {
        let floor = self.floors.entry(lane).or_insert(place);
        *floor = place.max(*floor);
    }

    fn cost(&self) -> Duration {
        self.walks.iter().min().copied().unwrap_or_default()
    }

    fn pause(&self) -> Duration {
        (self.cost() * WALK_SHARE).min(LONGEST_PAUSE)
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
    fn where_walks_are_cheap_a_queue_that_ran_dry_has_no_floors() {
        let mut turn = Turn::with_walks_of(CHEAP_WALK);
        assert!(turn.is_walk_due());
        turn.served(LANE, (at(10), 3), at(100));
        assert!(!turn.is_walk_due(), "a queue that is backed up goes on");
        turn.ran_dry();
        assert!(turn.is_walk_due());
        assert_eq!(turn.look_again_at(), None);
    }

    #[test]
    fn with_dear_walks_floors_stay_behind_open_commits() {
        let mut turn = Turn::with_walks_of(Duration::from_millis(50));
        turn.served(LANE, (at(10), 3), at(100));
        turn.served((LANE.0, 1), (at(100), 4), at(100));
        turn.ran_dry();
        let floors = turn.floors();
        assert_eq!(floors.run_ats, [at(10), at(100) - LATE_COMMIT]);
        assert_eq!(floors.ids, [3, 0]);
        assert!(!turn.is_walk_due());
        assert_eq!(
            turn.look_again_at(),
            Some(turn.walked_at + Duration::from_secs(1)),
            "a twentieth of the time is for walks"
        );
    }

    #[test]
    fn one_walk_that_had_to_wait_is_no_dear_one() {
        let mut turn = Turn::with_walks_of(Duration::from_millis(1));
        turn.walked(Instant::now() - Duration::from_secs(1));
        turn.served(LANE, (at(10), 3), at(100));
        turn.ran_dry();
        assert_eq!(turn.look_again_at(), None);
    }

    #[test]
    fn claims_beside_each_other_share_what_they_served() {
        let mut one = Turn::with_walks_of(Duration::from_millis(50));
        let mut other = one.clone();
        one.served(LANE, (at(10), 3), at(100));
        other.served(LANE, (at(11), 4), at(101));
        other.served((LANE.0, 1), (at(9), 1), at(101));
        one.join(other);
        assert_eq!(one.floors().ids, [4, 1]);
    }

    #[test]
    fn concurrent_claims_share_the_latest_moment_served() {
        let mut one = Turn::with_walks_of(Duration::from_millis(50));
        let mut other = one.clone();
        other.served(LANE, (at(200), 4), at(100));
        one.join(other);
        one.ran_dry();
        assert_eq!(one.floors().run_ats, [at(100) - LATE_COMMIT]);
    }

    #[test]
    fn with_dear_walks_the_number_of_remembered_lanes_is_bounded() {
        let with_lanes = |lanes: usize| {
            let mut turn = Turn::with_walks_of(Duration::from_secs(1));
            for n in 0..lanes {
                turn.served((Uuid::from_u128(n as u128), 0), (at(10), 3), at(100));
            }
            turn.ran_dry();
            turn.floors().ids.len()
        };
        assert_eq!(with_lanes(MAX_LANES), MAX_LANES);
        assert_eq!(with_lanes(MAX_LANES + 1), 0);
    }

    #[test]
    fn projects_come_round_after_the_one_that_was_served_last() {
        let project = Uuid::from_u128;
        let mut turn = Turn::after(project(2));
        assert_eq!(turn.last_served(), project(2));
        let mut projects = [1, 2, 3, 4].map(project);
        projects.sort_by_key(|project| turn.order(*project));
        assert_eq!(projects, [3, 4, 1, 2].map(project));
        turn.served((project(3), 0), (at(10), 3), at(100));
        assert_eq!(turn.last_served(), project(3));
    }
}
