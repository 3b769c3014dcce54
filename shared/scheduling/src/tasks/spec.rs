//! The definition of a task DAG and its validation: parsed from JSON (the API, the tool `create_tasks`) or YAML (the
//! command line). Nothing is stored before all of it is valid.

use std::collections::HashMap;

use regex::Regex;
use serde::{Deserialize, Serialize};

/// Maximum number of tasks in one DAG.
pub const MAX_TASKS: usize = 20_000;
/// Maximum length of a title, in characters.
const TITLE_MAX_CHARS: usize = 500;
/// Maximum length of a description, in characters.
const DESCRIPTION_MAX_CHARS: usize = 50_000;
/// Maximum length of a task's name in its DAG, in characters.
pub const REF_MAX_CHARS: usize = 200;
const MAX_RULES: usize = 200;
const MAX_RETRIES: i32 = 20;
/// Default number of retries of a task.
pub const RETRIES: i32 = 1;
/// Default maximum number of concurrent tasks of a DAG.
pub const MAX_CONCURRENCY: i32 = 5;

/// The definition of a DAG.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DagSpec {
    pub name: String,
    pub tasks: Vec<TaskSpec>,
    /// Maximum number of concurrent tasks (5).
    #[serde(default, alias = "max_concurrency")]
    pub max_concurrency: Option<i32>,
    /// `skip` (the successors of a failed task) or `stop` (the whole DAG).
    #[serde(default, alias = "on_failure")]
    pub on_failure: OnFailure,
    /// Selects the agent of tasks that name none: the first matching rule.
    #[serde(default)]
    pub rules: Vec<SelectRule>,
    /// Selects the agent of tasks without a matching rule; absent: by the agents' own keywords.
    #[serde(default, alias = "selector_agent")]
    pub selector_agent: Option<String>,
    /// An agent that accepts outputs or sends them back.
    #[serde(default, alias = "judge_agent")]
    pub judge_agent: Option<String>,
    /// An agent that decides about failed tasks.
    #[serde(default, alias = "triage_agent")]
    pub triage_agent: Option<String>,
}

rejoin_types::text_enum! {
    #[derive(Default)]
    pub enum OnFailure {
        #[default]
        Skip = "skip",
        Stop = "stop",
    }
}

#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TaskSpec {
    /// Its name in the DAG.
    pub id: String,
    /// None: its agent gets the description alone, without a heading.
    #[serde(default)]
    pub title: Option<String>,
    #[serde(default)]
    pub description: String,
    /// Tasks that must end before it starts.
    #[serde(default)]
    pub after: Vec<String>,
    #[serde(default)]
    pub agent: Option<String>,
    #[serde(default)]
    pub priority: Priority,
    /// 1 to 10.
    #[serde(default)]
    pub complexity: Option<i32>,
    #[serde(default, alias = "max_retries")]
    pub max_retries: Option<i32>,
    #[serde(default, alias = "requires_collaboration")]
    pub requires_collaboration: bool,
}

impl TaskSpec {
    pub fn title(&self) -> &str {
        self.title.as_deref().unwrap_or(&self.id)
    }
}

rejoin_types::text_enum! {
    #[derive(Default)]
    pub enum Priority {
        Low = "low",
        #[default]
        Medium = "medium",
        High = "high",
        Critical = "critical",
    }
}

impl Priority {
    /// Most urgent first.
    pub fn rank(self) -> i16 {
        match self {
            Priority::Critical => 0,
            Priority::High => 1,
            Priority::Medium => 2,
            Priority::Low => 3,
        }
    }
}

/// A selection rule: by a pattern over title and description, or by a field of the task.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SelectRule {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
    /// `priority` or `id`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    pub agent: String,
}

/// A valid DAG: its tasks in topological order.
#[derive(Debug, Clone)]
pub struct Ordered {
    /// Indexes into the spec's tasks.
    pub order: Vec<usize>,
    /// For each task, the indexes of its predecessors.
    pub after: Vec<Vec<usize>>,
}

impl DagSpec {
    /// The names of all its agents, possibly repeated.
    pub fn agents(&self) -> impl Iterator<Item = &str> {
        let deciders = [&self.selector_agent, &self.judge_agent, &self.triage_agent];
        let of_tasks = self.tasks.iter().filter_map(|task| task.agent.as_deref());
        let of_rules = self.rules.iter().map(|rule| rule.agent.as_str());
        of_tasks
            .chain(of_rules)
            .chain(deciders.into_iter().filter_map(|agent| agent.as_deref()))
    }

    /// Err: what is wrong, for the author; of a cycle, its tasks.
    pub fn check(&self) -> Result<Ordered, String> {
        if self.name.trim().is_empty() || self.name.chars().count() > REF_MAX_CHARS {
            return Err(format!("name must have 1 to {REF_MAX_CHARS} characters"));
        }
        if self.tasks.is_empty() || self.tasks.len() > MAX_TASKS {
            return Err(format!(
                "tasks must have 1 to {MAX_TASKS} items; it has {}",
                self.tasks.len()
            ));
        }
        if self.max_concurrency.is_some_and(|most| most <= 0) {
            return Err("maxConcurrency must be greater than 0".to_owned());
        }
        if self.rules.len() > MAX_RULES {
            return Err(format!("rules must have at most {MAX_RULES} items"));
        }
        for rule in &self.rules {
            match (&rule.pattern, &rule.field, &rule.value) {
                (Some(pattern), None, None) => {
                    Regex::new(pattern)
                        .map_err(|error| format!("the pattern {pattern} of a rule is invalid: {error}"))?;
                }
                (None, Some(field), Some(_)) if ["priority", "id"].contains(&field.as_str()) => {}
                _ => {
                    return Err(
                        "a rule must have a pattern, or a field (priority, id) with a value; and an agent".to_owned(),
                    );
                }
            }
        }
        let mut known = HashMap::with_capacity(self.tasks.len());
        for (index, task) in self.tasks.iter().enumerate() {
            task.check()?;
            if known.insert(task.id.as_str(), index).is_some() {
                return Err(format!("two tasks have the id {}", task.id));
            }
        }
        let mut after = Vec::with_capacity(self.tasks.len());
        for task in &self.tasks {
            let mut before = Vec::with_capacity(task.after.len());
            for name in &task.after {
                let index = known
                    .get(name.as_str())
                    .ok_or_else(|| format!("the task {} comes after {name}, which does not exist", task.id))?;
                if !before.contains(index) {
                    before.push(*index);
                }
            }
            after.push(before);
        }
        let order = sorted(&after).map_err(|cycle| {
            let named: Vec<&str> = cycle.iter().map(|index| self.tasks[*index].id.as_str()).collect();
            format!("the tasks form a cycle: {}", named.join(" -> "))
        })?;
        Ok(Ordered { order, after })
    }
}

impl TaskSpec {
    fn check(&self) -> Result<(), String> {
        let id = &self.id;
        if id.trim().is_empty() || id.chars().count() > REF_MAX_CHARS {
            return Err(format!("a task's id must have 1 to {REF_MAX_CHARS} characters"));
        }
        if self.title().trim().is_empty() || self.title().chars().count() > TITLE_MAX_CHARS {
            return Err(format!(
                "the title of task {id} must have 1 to {TITLE_MAX_CHARS} characters"
            ));
        }
        if self.description.chars().count() > DESCRIPTION_MAX_CHARS {
            return Err(format!(
                "the description of task {id} must have at most {DESCRIPTION_MAX_CHARS} characters"
            ));
        }
        if self
            .complexity
            .is_some_and(|complexity| !(1..=10).contains(&complexity))
        {
            return Err(format!("the complexity of task {id} must be between 1 and 10"));
        }
        if self
            .max_retries
            .is_some_and(|retries| !(0..=MAX_RETRIES).contains(&retries))
        {
            return Err(format!("maxRetries of task {id} must be between 0 and {MAX_RETRIES}"));
        }
        Ok(())
    }
}

/// Sorts topologically. Err: a cycle, in its order.
fn sorted(after: &[Vec<usize>]) -> Result<Vec<usize>, Vec<usize>> {
    let mut waits: Vec<usize> = after.iter().map(Vec::len).collect();
    let mut behind = vec![Vec::new(); after.len()];
    for (index, before) in after.iter().enumerate() {
        for one in before {
            behind[*one].push(index);
        }
    }
    let mut order: Vec<usize> = (0..after.len()).filter(|index| waits[*index] == 0).collect();
    let mut next = 0;
    while let Some(&index) = order.get(next) {
        next += 1;
        for &later in &behind[index] {
            waits[later] -= 1;
            if waits[later] == 0 {
                order.push(later);
            }
        }
    }
    if order.len() == after.len() {
        return Ok(order);
    }
    // Every remaining task waits for a remaining one: following predecessors ends in a cycle.
    let mut path = Vec::new();
    let mut at = (0..after.len()).find(|index| waits[*index] > 0);
    while let Some(index) = at {
        if let Some(begin) = path.iter().position(|seen| *seen == index) {
            let mut cycle: Vec<usize> = path.split_off(begin);
            cycle.reverse();
            cycle.push(cycle[0]);
            return Err(cycle);
        }
        path.push(index);
        at = after[index].iter().copied().find(|before| waits[*before] > 0);
    }
    Err(path)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn spec(tasks: serde_json::Value) -> DagSpec {
        serde_json::from_value(json!({"name": "dag", "tasks": tasks})).unwrap()
    }

    /// Requirements: C46.
    #[test]
    fn a_cycle_is_refused_and_named() {
        let error = spec(json!([
            {"id": "start"}, {"id": "a", "after": ["start", "c"]}, {"id": "b", "after": ["a"]}, {"id": "c", "after": ["b"]},
            {"id": "end", "after": ["c"]},
        ]))
        .check()
        .unwrap_err();
        assert!(
            ["a -> b -> c -> a", "b -> c -> a -> b", "c -> a -> b -> c"]
                .iter()
                .any(|cycle| error.contains(cycle)),
            "{error}"
        );
        let own = spec(json!([{"id": "a", "after": ["a"]}])).check().unwrap_err();
        assert!(own.contains("a -> a"), "{own}");
    }

    #[test]
    fn tasks_come_after_what_they_wait_for() {
        let spec = spec(json!([{"id": "join", "after": ["b", "a", "a"]}, {"id": "a"}, {"id": "b", "after": ["a"]}]));
        let ordered = spec.check().unwrap();
        assert_eq!(ordered.order, [1, 2, 0]);
        assert_eq!(ordered.after, [vec![2, 1], vec![], vec![1]]);
    }

    #[test]
    fn mistakes_are_named() {
        for (tasks, word) in [
            (json!([]), "1 to"),
            (json!([{"id": "a"}, {"id": "a"}]), "two tasks"),
            (json!([{"id": "a", "after": ["x"]}]), "does not exist"),
            (json!([{"id": "a", "complexity": 11}]), "complexity"),
        ] {
            let error = spec(tasks).check().unwrap_err();
            assert!(error.contains(word), "{error}");
        }
        let mut broken = spec(json!([{"id": "a"}]));
        broken.rules = vec![SelectRule {
            pattern: Some("(".to_owned()),
            field: None,
            value: None,
            agent: "x".to_owned(),
        }];
        assert!(broken.check().unwrap_err().contains("is invalid"));
    }
}
