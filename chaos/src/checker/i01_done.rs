//! I1: every accepted message gets exactly one `done`, and unstopped turns end successfully. Where commits may be lost, so may messages.

use super::Case;
use crate::evidence::Expected;

pub(super) fn check(case: &Case) -> Vec<String> {
    let mut wrong = Vec::new();
    // A sub-agent has none: I12.
    for run in case.runs.values().filter(|run| run.parent_run_id.is_none()) {
        let dones: Vec<i64> = case
            .events_of(run)
            .iter()
            .filter(|event| event.kind == "done")
            .map(|event| event.seq)
            .collect();
        if dones.len() != 1 {
            wrong.push(format!(
                "run {} ({}) has {} done events",
                run.id,
                run.state,
                dones.len()
            ));
        } else if run.done_seq != Some(dones[0]) {
            wrong.push(format!(
                "run {} says its done is {:?}, its log {}",
                run.id, run.done_seq, dones[0]
            ));
        }
    }
    for (post, _, run_id) in case.accepted_posts() {
        let Some(run) = case.runs.get(&run_id) else {
            if case.notes.may_lose_commits {
                continue;
            }
            wrong.push(format!(
                "{}: its run {run_id} was acknowledged and is not there",
                post.key
            ));
            continue;
        };
        if case.expected(post, run) == Expected::Whole && run.state != "completed" {
            let error = run.error.as_deref().unwrap_or_default();
            wrong.push(format!(
                "{}: run {run_id} is {} after {} attempts: {error}",
                post.key, run.state, run.attempt
            ));
        }
    }
    for post in case.posts.iter().filter(|post| post.told.is_none()) {
        wrong.push(format!("{} was told nothing in {} tries", post.key, post.tries));
    }
    wrong.extend(
        case.notes
            .model_refusals
            .iter()
            .map(|refusal| format!("a provider would have refused: {refusal}")),
    );
    wrong.extend(case.notes.ended.iter().cloned());
    wrong
}
