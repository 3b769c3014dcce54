//! Decides whether a paused run can be resumed.

use super::{Run, RunState};

/// Maximum number of steps of a run over all its turns (requirement C43).
pub const MAX_TOTAL_STEPS: i32 = 500;

/// Returns why a run can't be resumed, in words for its user.
pub fn may_be_resumed(run: &Run) -> Result<(), String> {
    if run.state() != RunState::Paused {
        return Err(format!("only paused runs can be resumed; this one is {}", run.state));
    }
    if run.total_steps >= MAX_TOTAL_STEPS {
        return Err(format!(
            "the run has taken {} steps over all its turns, the maximum",
            run.total_steps
        ));
    }
    Ok(())
}
