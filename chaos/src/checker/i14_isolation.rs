//! I14: no row crosses a project or an owner, and a stranger learns nothing. With several databases, a project is in one of them.

use super::Case;

pub(super) fn check(case: &Case) -> Vec<String> {
    let mut wrong: Vec<String> = case
        .twice
        .iter()
        .map(|what| format!("{what} is in two databases"))
        .collect();
    for run in case.runs.values() {
        if run
            .conversation_workspace
            .is_some_and(|workspace| workspace != run.workspace_id)
        {
            wrong.push(format!("run {} is of another project than its conversation", run.id));
        }
        if run.conversation_owner.is_some() && run.conversation_owner != run.user_id {
            wrong.push(format!(
                "run {} acts for another user than its conversation's owner",
                run.id
            ));
        }
    }
    for post in case.posts.iter().filter(|post| post.load == "stranger") {
        wrong.extend(
            post.contradictions
                .iter()
                .map(|told| format!("{}: a stranger was told {told:?}", post.key)),
        );
    }
    wrong
}
