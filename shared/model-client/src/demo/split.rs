//! Splits a question into tasks (with `create_tasks`), and joins the results of those tasks in the last one.

use serde_json::{Value, json};

use super::OPENING;

pub(super) const TOOL: &str = "create_tasks";
/// The heading of predecessors' results in a task's input.
const BEFORE: &str = "## What came before\n";
/// The default agent of every workspace.
const AGENT: &str = "graph-query-agent";

/// Four parallel questions, and one that waits for them.
pub(super) fn tasks(subject: &str) -> Value {
    let parts = [
        ("what", format!("What is {subject}?")),
        ("needs", format!("What does {subject} depend on?")),
        ("users", format!("What depends on {subject}?")),
        ("keeper", format!("Who maintains {subject}?")),
    ];
    let ids: Vec<&str> = parts.iter().map(|(id, _)| *id).collect();
    let join = json!({"id": "join", "title": format!("All about {subject}"), "description": "Put together what was found.",
        "after": ids, "agent": AGENT, "priority": null});
    let mut tasks: Vec<Value> = parts
        .iter()
        .map(|(id, title)| {
            json!({"id": id, "title": title, "description": null, "after": null, "agent": AGENT, "priority": null})
        })
        .collect();
    tasks.push(join);
    json!(tasks)
}

/// Formats the results of the tasks.
pub(super) fn answer(result: &str) -> String {
    let result: Value = serde_json::from_str(result).unwrap_or_default();
    let tasks = result["tasks"].as_array().map(Vec::as_slice).unwrap_or_default();
    let found = tasks
        .iter()
        .find(|task| task["id"] == "join")
        .and_then(|task| task["summary"].as_str());
    match found {
        Some(found) => plain(found).to_owned(),
        None => format!("the tasks are {}", result["state"].as_str().unwrap_or("not there")),
    }
}

/// Returns the title line of a task's input, if this is one.
pub(super) fn heading(message: &str) -> Option<&str> {
    message.strip_prefix("# ")?.lines().next()
}

/// Joins the results of a task's predecessors.
pub(super) fn joined(message: &str) -> Option<String> {
    heading(message)?;
    let before = &message[message.find(BEFORE)? + BEFORE.len()..];
    let found: Vec<String> = before
        .split("### ")
        .filter_map(|part| {
            let (title, found) = part.split_once('\n')?;
            let title = title.split_once(": ").map_or(title, |(_, title)| title);
            Some(format!("**{title}** {}", plain(found.trim())))
        })
        .collect();
    Some(found.join("\n\n"))
}

/// Removes the introduction of this model: it stands before the whole.
fn plain(text: &str) -> &str {
    text.strip_prefix(OPENING).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_tasks_with_a_join() {
        let tasks = tasks("apt");
        assert_eq!(tasks.as_array().unwrap().len(), 5);
        assert_eq!(tasks[4]["after"], json!(["what", "needs", "users", "keeper"]));
    }

    #[test]
    fn a_tasks_input_is_distinguished_from_a_question() {
        let input = "# All about apt\nPut together.\n\n## What came before\n### what: What is apt?\nIt is a tool.\n### users: Who?\nMany.\n";
        assert_eq!(heading(input), Some("All about apt"));
        assert_eq!(
            joined(input).as_deref(),
            Some("**What is apt?** It is a tool.\n\n**Who?** Many.")
        );
        assert_eq!(heading("What is apt?"), None);
        assert_eq!(joined("# What is apt?\n\n"), None);
    }
}
