//! The limits of a run: steps, time, and repeated calls; and of its tree: tokens, money, time.

use std::time::Duration;

use rejoin_commands::SpawnLimits;
use rejoin_runs::runs::TreeUse;
use rejoin_runs::runs::resuming::MAX_TOTAL_STEPS;
use serde_json::Value;
use tokio::time::{Instant, sleep_until};

use crate::downtime::Downtime;

/// Default maximum number of a sub-agent's steps (requirement C18).
pub const SUB_AGENT_MAX_STEPS: i32 = 50;
/// Number of consecutive identical calls with the same result from which a call is refused, with a message to the
/// model.
pub const REPEATS_REFUSED: u32 = 3;
/// Number from which the run fails.
pub const REPEATS_STOPPED: u32 = 5;

/// Fields of results with the ids of runs, DAGs and plans created by a call.
const IDS_OF_CALLS: [&str; 3] = ["run_id", "dag_id", "plan_id"];

/// The limits of a whole tree.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TreeLimits {
    pub tokens: u64,
    pub cost_usd: f64,
    /// Limits of sub-agents, in the tree and concurrently in the workspace.
    pub spawning: SpawnLimits,
    /// Remaining wall-clock time.
    pub left: Duration,
}

/// Practically unlimited: for programs that execute runs themselves.
impl Default for TreeLimits {
    fn default() -> Self {
        Self {
            tokens: u64::MAX,
            cost_usd: f64::INFINITY,
            spawning: SpawnLimits {
                tree: i32::MAX,
                workspace: i64::MAX,
            },
            left: Duration::from_secs(86_400 * 365),
        }
    }
}

/// Step and time limits of one run, and of its tree. Deadlines are extended by database outages.
#[derive(Debug, Clone)]
pub struct Limits {
    downtime: Downtime,
    /// The outages before.
    downtime_before: Duration,
    max_steps: Option<i32>,
    soft_end: Instant,
    hard_end: Instant,
    tree_end: Instant,
    tree: TreeLimits,
}

rejoin_types::text_enum! {
    /// The limit that ends the run. Its text is a stable code: of the error, and the metric's label.
    pub enum StopReason {
        Steps = "step_limit",
        /// Over all of its resumptions.
        TotalSteps = "total_step_limit",
        Time = "timeout",
        TreeTime = "tree_timeout",
        TreeTokens = "token_budget",
        TreeCost = "cost_budget",
        ToolCalls = "tool_call_limit",
    }
}

impl StopReason {
    /// Returns the instruction to the model before its last call.
    pub fn instruction(self) -> String {
        let limit = match self {
            StopReason::Steps => "You have reached the maximum number of steps.",
            StopReason::TotalSteps => "You have reached the total maximum number of steps.",
            StopReason::Time => "Your time limit is reached.",
            StopReason::TreeTime => "The time limit of the whole job is reached.",
            StopReason::TreeTokens => "The token budget of the whole job is used up.",
            StopReason::TreeCost => "The cost budget of the whole job is used up.",
            StopReason::ToolCalls => "You have reached the maximum number of tool calls.",
        };
        format!(
            "{limit} Tools are disabled now. Summarize what you have found so far, say what is still open, and stop. \
            Do not request further tool calls."
        )
    }

    /// Returns the explanation for users.
    pub fn explanation(self) -> String {
        match self {
            StopReason::Steps => "the run was paused at its step limit".to_owned(),
            StopReason::TotalSteps => {
                format!("the run was paused after {MAX_TOTAL_STEPS} steps in all its turns")
            }
            StopReason::Time => "the run was paused at its timeout".to_owned(),
            StopReason::TreeTime => "the run was paused: the time limit of its tree is reached".to_owned(),
            StopReason::TreeTokens => "the run was paused: the token budget of its tree is used up".to_owned(),
            StopReason::TreeCost => "the run was paused: the cost budget of its tree is used up".to_owned(),
            StopReason::ToolCalls => "the run was paused at its limit of tool calls".to_owned(),
        }
    }
}

impl Limits {
    /// For a run with the active time `age`.
    pub fn new(
        max_steps: Option<i32>,
        timeout: Duration,
        grace: Duration,
        age: Duration,
        tree: TreeLimits,
        downtime: Downtime,
    ) -> Self {
        let soft_end = Instant::now() + timeout.saturating_sub(age);
        let late = age.saturating_sub(timeout);
        let tree_end = Instant::now() + tree.left;
        Self {
            downtime_before: downtime.total(),
            downtime,
            max_steps,
            soft_end,
            hard_end: (soft_end + grace.saturating_sub(late)).min(tree_end + grace),
            tree_end,
            tree,
        }
    }

    /// Returns whether the step after `steps` of this turn, and `total_steps` of the run, must be the last one.
    pub fn reached(&self, steps: i32, total_steps: i32, used: TreeUse) -> Option<StopReason> {
        let (now, later) = (Instant::now(), self.later_by());
        if now >= self.tree_end + later {
            Some(StopReason::TreeTime)
        } else if now >= self.soft_end + later {
            Some(StopReason::Time)
        } else if total_steps >= MAX_TOTAL_STEPS {
            Some(StopReason::TotalSteps)
        } else if self.max_steps.is_some_and(|max| steps >= max) {
            Some(StopReason::Steps)
        } else if u64::try_from(used.tokens).unwrap_or_default() >= self.tree.tokens {
            Some(StopReason::TreeTokens)
        } else if used.cost_usd >= self.tree.cost_usd {
            Some(StopReason::TreeCost)
        } else {
            None
        }
    }

    pub fn spawning(&self) -> SpawnLimits {
        self.tree.spawning
    }

    /// Returns the extension of deadlines by database outages.
    fn later_by(&self) -> Duration {
        self.downtime.total().saturating_sub(self.downtime_before)
    }

    /// Waits for the hard deadline.
    pub async fn hard_end_reached(&self) {
        loop {
            let end = self.hard_end + self.later_by();
            if Instant::now() >= end {
                return;
            }
            // An outage meanwhile extends it.
            sleep_until(end).await;
        }
    }
}

/// The decision about a repeated call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Go,
    Refuse,
    Stop,
}

/// Counts consecutive identical calls.
#[derive(Debug, Clone, Default)]
pub struct Repeats {
    last: Option<(String, Value)>,
    result: Option<String>,
    count: u32,
}

impl Repeats {
    /// Counts a call requested by the model.
    pub fn ask(&mut self, tool: &str, arguments: &Value) -> Verdict {
        let same = self
            .last
            .as_ref()
            .is_some_and(|(name, earlier)| name == tool && earlier == arguments);
        if same {
            self.count += 1;
        } else {
            *self = Self {
                last: Some((tool.to_owned(), arguments.clone())),
                result: None,
                count: 1,
            };
        }
        match self.count {
            REPEATS_STOPPED.. => Verdict::Stop,
            REPEATS_REFUSED.. => Verdict::Refuse,
            _ => Verdict::Go,
        }
    }

    /// Records the result of an executed call: a different result is progress, not a loop.
    pub fn answered(&mut self, result: &str) {
        let result = without_ids(result);
        if self.result.as_ref().is_some_and(|earlier| *earlier != result) {
            self.count = 1;
        }
        self.result = Some(result);
    }
}

/// Removes the ids of created items from a result: they differ with each call, and are no progress.
fn without_ids(result: &str) -> String {
    fn strip(value: &mut Value) {
        match value {
            Value::Object(object) => {
                object.retain(|name, _| !IDS_OF_CALLS.contains(&name.as_str()));
                object.values_mut().for_each(strip);
            }
            Value::Array(items) => items.iter_mut().for_each(strip),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    // Few results have such ids, and some are long.
    if !IDS_OF_CALLS.iter().any(|name| result.contains(name)) {
        return result.to_owned();
    }
    match serde_json::from_str(result) {
        Ok(mut value) => {
            strip(&mut value);
            value.to_string()
        }
        Err(_) => result.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_third_identical_call_is_refused_the_fifth_stops_it() {
        let mut repeats = Repeats::default();
        let mut verdicts = Vec::new();
        for _ in 0..5 {
            let verdict = repeats.ask("search", &json!({"query": "a"}));
            if verdict == Verdict::Go {
                repeats.answered("nothing");
            }
            verdicts.push(verdict);
        }
        assert_eq!(
            verdicts,
            [
                Verdict::Go,
                Verdict::Go,
                Verdict::Refuse,
                Verdict::Refuse,
                Verdict::Stop
            ]
        );
    }

    #[test]
    fn another_call_or_another_result_resets_the_count() {
        let mut repeats = Repeats::default();
        for round in 0..10 {
            assert_eq!(repeats.ask("poll", &json!({})), Verdict::Go);
            repeats.answered(&format!("{round} done"));
        }
        repeats.ask("a", &json!({}));
        repeats.answered("x");
        repeats.ask("a", &json!({}));
        repeats.answered("x");
        repeats.ask("b", &json!({}));
        repeats.answered("x");
        assert_eq!(repeats.ask("a", &json!({})), Verdict::Go);
    }

    #[test]
    fn the_id_of_a_new_run_is_no_new_result() {
        let mut repeats = Repeats::default();
        let mut verdicts = Vec::new();
        for run in ["a", "b", "c"] {
            let verdict = repeats.ask("spawn_agents", &json!({}));
            if verdict == Verdict::Go {
                repeats.answered(&json!({"results": [{"run_id": run, "summary": "nothing"}]}).to_string());
            }
            verdicts.push(verdict);
        }
        assert_eq!(verdicts, [Verdict::Go, Verdict::Go, Verdict::Refuse]);
    }

    fn tree() -> TreeLimits {
        TreeLimits {
            tokens: 100,
            cost_usd: 1.0,
            spawning: SpawnLimits {
                tree: 10,
                workspace: 10,
            },
            left: Duration::from_secs(20),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_step_after_the_limit_is_the_last_one() {
        let limits = Limits::new(
            Some(2),
            Duration::from_secs(10),
            Duration::from_secs(5),
            Duration::ZERO,
            tree(),
            Downtime::default(),
        );
        let none = TreeUse::default();
        assert_eq!(limits.reached(1, 1, none), None);
        assert_eq!(limits.reached(2, 2, none), Some(StopReason::Steps));
        assert_eq!(limits.reached(0, MAX_TOTAL_STEPS, none), Some(StopReason::TotalSteps));
        tokio::time::advance(Duration::from_secs(11)).await;
        assert_eq!(limits.reached(0, 0, none), Some(StopReason::Time));
        tokio::time::advance(Duration::from_secs(10)).await;
        assert_eq!(limits.reached(0, 0, none), Some(StopReason::TreeTime));
    }

    #[tokio::test(start_paused = true)]
    async fn time_in_which_the_database_was_away_does_not_count() {
        let (timeout, grace) = (Duration::from_secs(10), Duration::from_secs(5));
        let downtime = Downtime::default();
        let mut observer = downtime.observe();
        let limits = Limits::new(None, timeout, grace, Duration::ZERO, TreeLimits::default(), downtime);
        observer.record_failure();
        tokio::time::advance(Duration::from_secs(60)).await;
        observer.record_answer();
        assert_eq!(limits.reached(0, 0, TreeUse::default()), None);
        let began = Instant::now();
        limits.hard_end_reached().await;
        assert_eq!(began.elapsed(), Duration::from_secs(15));
    }

    #[tokio::test]
    async fn a_tree_has_a_budget() {
        let (timeout, none) = (Duration::from_secs(10), Duration::ZERO);
        let limits = Limits::new(None, timeout, none, none, tree(), Downtime::default());
        let used = |tokens, cost_usd| TreeUse { tokens, cost_usd };
        assert_eq!(limits.reached(0, 0, used(99, 0.9)), None);
        assert_eq!(limits.reached(0, 0, used(100, 0.9)), Some(StopReason::TreeTokens));
        assert_eq!(limits.reached(0, 0, used(99, 1.0)), Some(StopReason::TreeCost));
    }
}
