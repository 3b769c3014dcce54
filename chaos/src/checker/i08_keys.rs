//! I8: the same idempotency key is the same run; refused requests leave nothing behind.

use std::collections::HashMap;

use super::Case;
use crate::evidence::Expected;
use crate::plan::Plan;

pub(super) fn check(case: &Case) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut runs: HashMap<String, usize> = HashMap::new();
    for run in case.runs.values() {
        if let Some(plan) = Plan::of(&run.input) {
            *runs.entry(plan.id).or_default() += 1;
        }
    }
    let mut messages: HashMap<String, usize> = HashMap::new();
    for message in case.messages.iter().filter(|message| message.role == "user") {
        if let Some(plan) = Plan::of(&message.content) {
            *messages.entry(plan.id).or_default() += 1;
        }
    }
    for post in &case.posts {
        let Some(plan) = Plan::of(&post.plan) else { continue };
        let (found, told) = (
            runs.get(&plan.id).copied().unwrap_or_default(),
            messages.get(&plan.id).copied().unwrap_or_default(),
        );
        let most = usize::from(post.expected != Expected::Refused);
        if found > most || told > most {
            wrong.push(format!(
                "{}: {found} runs and {told} messages where there may be {most}",
                post.key
            ));
        }
        if post.load != "stranger" {
            wrong.extend(
                post.contradictions
                    .iter()
                    .map(|other| format!("{} was told {:?} and also {other:?}", post.key, post.told)),
            );
        }
    }
    wrong
}
