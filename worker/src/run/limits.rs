//! The limits of a run: steps, time, and the same call over and over.

use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

/// Steps over all resumes of a run (requirement C43).
pub const MAX_TOTAL_STEPS: i32 = 500;
/// The same call with the same result: from this one in a row on it is not executed, and the model is told.
pub const REPEATS_REFUSED: u32 = 3;
/// And with this one the run fails.
pub const REPEATS_STOPPED: u32 = 5;

/// Steps and time of one run.
#[derive(Debug, Clone)]
pub struct Limits {
    max_steps: Option<i32>,
    soft_end: Instant,
    hard_end: Instant,
}

/// Which limit ends the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopReason {
    Steps,
    Time,
}

impl StopReason {
    pub const ALL: [StopReason; 2] = [StopReason::Steps, StopReason::Time];

    /// Stable word: the error's code, the metric's label.
    pub fn name(self) -> &'static str {
        match self {
            StopReason::Steps => "step_limit",
            StopReason::Time => "timeout",
        }
    }

    /// What the model is told before its last call.
    pub fn instruction(self) -> String {
        let limit = match self {
            StopReason::Steps => "You have used all the steps that you may take.",
            StopReason::Time => "Your time is over.",
        };
        format!(
            "{limit} Tools are off now. Summarize what you have found so far, say what is still open, and stop. \
             Do not ask for further tool calls."
        )
    }

    /// What people are told.
    pub fn explanation(self) -> String {
        match self {
            StopReason::Steps => "the run was paused at its limit of steps".to_owned(),
            StopReason::Time => "the run was paused at its timeout".to_owned(),
        }
    }
}

impl Limits {
    /// For a run that started `age` ago.
    pub fn new(max_steps: Option<i32>, timeout: Duration, grace: Duration, age: Duration) -> Self {
        let soft_end = Instant::now() + timeout.saturating_sub(age);
        let late = age.saturating_sub(timeout);
        Self {
            max_steps,
            soft_end,
            hard_end: soft_end + grace.saturating_sub(late),
        }
    }

    /// Whether the step after `steps` must be the last one.
    pub fn reached(&self, steps: i32, total_steps: i32) -> Option<StopReason> {
        if Instant::now() >= self.soft_end {
            return Some(StopReason::Time);
        }
        let reached = self.max_steps.is_some_and(|max| steps >= max) || total_steps.max(steps) >= MAX_TOTAL_STEPS;
        reached.then_some(StopReason::Steps)
    }

    /// Everything is given up then.
    pub fn hard_end(&self) -> Instant {
        self.hard_end
    }
}

/// What to do with a call, as far as repetition is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Go,
    Refuse,
    Stop,
}

/// Counts identical calls in a row.
#[derive(Debug, Clone, Default)]
pub struct Repeats {
    last: Option<(String, Value)>,
    result: Option<String>,
    count: u32,
}

impl Repeats {
    /// The model asks for this call.
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

    /// The call was executed and gave this: a result that differs from the one before is progress, not a loop.
    pub fn answered(&mut self, result: &str) {
        if self.result.as_deref().is_some_and(|earlier| earlier != result) {
            self.count = 1;
        }
        self.result = Some(result.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_third_identical_call_is_refused_and_the_fifth_stops_the_run() {
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
    fn another_call_or_another_result_begins_anew() {
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

    #[tokio::test(start_paused = true)]
    async fn the_step_after_the_limit_is_the_last_one() {
        let limits = Limits::new(Some(2), Duration::from_secs(10), Duration::from_secs(5), Duration::ZERO);
        assert_eq!(limits.reached(1, 1), None);
        assert_eq!(limits.reached(2, 2), Some(StopReason::Steps));
        assert_eq!(limits.reached(0, MAX_TOTAL_STEPS), Some(StopReason::Steps));
        tokio::time::advance(Duration::from_secs(11)).await;
        assert_eq!(limits.reached(0, 0), Some(StopReason::Time));
    }
}
