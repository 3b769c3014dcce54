//! Selects a task's agent: the one that it names, else the first matching rule, else the best match by the agents' own
//! keywords. Ties are decided by an agent (`selector_agent`), if the DAG has one, else by a model, if the workspace has
//! one for that ([`agent_assignment`](rejoin_runs::agent_assignment)). The reason of each choice is stored.

use std::collections::BTreeSet;

use regex::Regex;
use serde::Deserialize;
use serde_json::{Value, json};

use super::spec::SelectRule;
use super::{Dag, DagTask};
use rejoin_runs::agents::AgentDefinition;
use rejoin_tools::outputs;

/// Minimum length of significant words, in characters.
const WORD_MIN_CHARS: usize = 4;
/// Maximum number of agents listed in the schema of a selector's answer; beyond it any name is accepted. Providers
/// limit the values of an `enum` (OpenAI: 1,000).
const NAMES_IN_SCHEMA_MAX: usize = 200;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Choice {
    /// By name, with the reason.
    Agent { name: String, because: String },
    /// Rules and keywords don't decide: this agent is asked.
    Ask { selector: String },
    /// Several match equally, and the DAG names no selector.
    Tie {
        among: Vec<String>,
        /// The default unless a model decides otherwise, with the reason.
        else_agent: String,
        because: String,
    },
    /// There is none; the reason.
    None(String),
}

/// Selects among the workspace's agents.
pub fn choose(dag: &Dag, task: &DagTask, agents: &[AgentDefinition]) -> Choice {
    let known = |name: &str| agents.iter().any(|agent| agent.name == name);
    if let Some(wanted) = &task.wanted_agent {
        return if known(wanted) {
            chosen(wanted, "named by the task")
        } else {
            Choice::None(format!("there is no agent {wanted}"))
        };
    }
    let rules = Vec::<SelectRule>::deserialize(&dag.rules).unwrap_or_default();
    if let Some((nth, rule)) = (1..).zip(&rules).find(|(_, rule)| fits(rule, task)) {
        return if known(&rule.agent) {
            chosen(&rule.agent, &format!("rule {nth}: {}", described(rule)))
        } else {
            Choice::None(format!("rule {nth} selects {}, which does not exist", rule.agent))
        };
    }
    let deciders: Vec<&String> = [&dag.selector_agent, &dag.judge_agent, &dag.triage_agent]
        .into_iter()
        .flatten()
        .collect();
    let words = words_of(&format!("{} {}", task.title, task.description));
    let mut scored: Vec<(usize, &AgentDefinition)> = agents
        .iter()
        .filter(|agent| !deciders.contains(&&agent.name))
        .map(|agent| {
            let own = words_of(&format!(
                "{} {}",
                agent.name.replace(['-', '_'], " "),
                agent.description
            ));
            (own.intersection(&words).count(), agent)
        })
        .collect();
    scored.sort_by(|(a, one), (b, other)| b.cmp(a).then_with(|| one.name.cmp(&other.name)));
    match (scored.as_slice(), &dag.selector_agent) {
        ([], _) => Choice::None("the project has no agents".to_owned()),
        ([(_, only)], _) => chosen(&only.name, "it is the only agent"),
        ([(best, first), (second, _), ..], _) if *best > *second => {
            chosen(&first.name, &format!("it shares the most words with the task: {best}"))
        }
        (_, Some(selector)) if known(selector) => Choice::Ask {
            selector: selector.clone(),
        },
        (all, _) => {
            let best = all[0].0;
            let (agent, because) = match all.iter().find(|(_, agent)| agent.is_default) {
                Some((_, agent)) => (agent, "several match equally; it is the project's default"),
                None => (&all[0].1, "several match equally; it is the first by name"),
            };
            Choice::Tie {
                among: all
                    .iter()
                    .filter(|(score, _)| *score == best)
                    .map(|(_, agent)| agent.name.clone())
                    .collect(),
                else_agent: agent.name.clone(),
                because: because.to_owned(),
            }
        }
    }
}

/// The schema of a selector's answer.
pub fn answer_schema<'a>(names: impl Iterator<Item = &'a str>) -> Value {
    let names: Vec<&str> = names.collect();
    let description = "Name of the agent that shall do the task";
    let agent = match names.len() {
        1..=NAMES_IN_SCHEMA_MAX => outputs::one_of(&names, description),
        _ => json!({"type": "string", "description": description}),
    };
    outputs::object(
        &["agent"],
        json!({"agent": agent, "reason": {"type": "string", "description": "Reason, in one sentence"}}),
    )
}

/// Returns the agent named by a selector's answer. None: unknown.
pub fn answered(answer: &str, agents: &[AgentDefinition]) -> Option<String> {
    let read: Value = serde_json::from_str(answer).unwrap_or_default();
    let named = read["agent"].as_str()?.trim();
    let agent = agents.iter().find(|agent| agent.name == named)?;
    Some(agent.name.clone())
}

fn chosen(name: &str, because: &str) -> Choice {
    Choice::Agent {
        name: name.to_owned(),
        because: because.to_owned(),
    }
}

fn fits(rule: &SelectRule, task: &DagTask) -> bool {
    match (&rule.pattern, rule.field.as_deref(), &rule.value) {
        (Some(pattern), _, _) => Regex::new(pattern)
            .is_ok_and(|pattern| pattern.is_match(&task.title) || pattern.is_match(&task.description)),
        (None, Some("id"), Some(value)) => task.r#ref == *value,
        (None, Some("priority"), Some(value)) => {
            let names = ["critical", "high", "medium", "low"];
            usize::try_from(task.priority).ok().and_then(|rank| names.get(rank)) == Some(&value.as_str())
        }
        _ => false,
    }
}

fn described(rule: &SelectRule) -> String {
    match (&rule.pattern, &rule.field, &rule.value) {
        (Some(pattern), _, _) => format!("matches {pattern}"),
        (None, Some(field), Some(value)) => format!("{field} is {value}"),
        _ => String::new(),
    }
}

fn words_of(text: &str) -> BTreeSet<String> {
    text.split(|c: char| !c.is_alphanumeric())
        .filter(|word| word.chars().count() >= WORD_MIN_CHARS)
        .map(str::to_lowercase)
        .collect()
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;
    use serde_json::json;
    use uuid::Uuid;

    use super::*;
    use rejoin_runs::agents::DefinitionContent;

    fn agent(name: &str, description: &str) -> AgentDefinition {
        let blank = DefinitionContent::blank();
        AgentDefinition {
            id: Uuid::nil(),
            workspace_id: Uuid::nil(),
            name: name.to_owned(),
            description: description.to_owned(),
            system_prompt: blank.system_prompt,
            model: None,
            tools: vec![],
            flow_type: blank.flow_type,
            is_default: false,
            max_steps: None,
            default_timeout: None,
            visibility: blank.visibility,
            max_depth: None,
            config: json!({}),
            version: 1,
            created_at: DateTime::UNIX_EPOCH,
            updated_at: DateTime::UNIX_EPOCH,
        }
    }

    fn dag(rules: Value, selector: Option<&str>) -> Dag {
        Dag {
            id: Uuid::nil(),
            workspace_id: Uuid::nil(),
            user_id: None,
            name: "dag".to_owned(),
            state: "active".to_owned(),
            max_concurrency: 1,
            on_failure: "skip".to_owned(),
            rules,
            selector_agent: selector.map(str::to_owned),
            judge_agent: None,
            triage_agent: None,
            waiting_run_id: None,
            waiting_call_id: None,
            plan_id: None,
            log_id: None,
            created_at: DateTime::UNIX_EPOCH,
            finished_at: None,
        }
    }

    fn task(title: &str, wanted: Option<&str>) -> DagTask {
        DagTask {
            id: Uuid::nil(),
            dag_id: Uuid::nil(),
            workspace_id: Uuid::nil(),
            r#ref: "a".to_owned(),
            title: title.to_owned(),
            description: String::new(),
            state: "pending".to_owned(),
            priority: 2,
            waits_for: 0,
            wanted_agent: wanted.map(str::to_owned),
            assigned_agent: None,
            assigned_because: None,
            run_id: None,
            role: None,
            retry_count: 0,
            max_retries: 1,
            failure_context: None,
            summary: None,
            created_at: DateTime::UNIX_EPOCH,
            started_at: None,
            finished_at: None,
        }
    }

    fn name(choice: Choice) -> String {
        match choice {
            Choice::Agent { name, .. } => name,
            Choice::Ask { selector } => format!("ask {selector}"),
            Choice::Tie { among, else_agent, .. } => format!("{else_agent} of {}", among.join(", ")),
            Choice::None(why) => format!("none: {why}"),
        }
    }

    /// Requirements: C12.
    #[test]
    fn rules_go_first_and_an_agent_is_asked_in_unclear_cases() {
        let agents = [
            agent("poet", "writes verses"),
            agent("digger", "searches the graph"),
            agent("chooser", ""),
        ];
        let rules = json!([{"pattern": "(?i)rhyme", "agent": "poet"}, {"field": "priority", "value": "high", "agent": "digger"}]);
        let none = dag(json!([]), None);
        let with = dag(rules, Some("chooser"));
        assert_eq!(name(choose(&none, &task("x", Some("poet")), &agents)), "poet");
        assert!(name(choose(&none, &task("x", Some("ghost")), &agents)).starts_with("none"));
        assert_eq!(name(choose(&with, &task("A Rhyme", None), &agents)), "poet");
        let urgent = DagTask {
            priority: 1,
            ..task("x", None)
        };
        assert_eq!(name(choose(&with, &urgent, &agents)), "digger");
        assert_eq!(
            name(choose(&with, &task("searches in the graph", None), &agents)),
            "digger"
        );
        assert_eq!(
            name(choose(&with, &task("something else", None), &agents)),
            "ask chooser"
        );
        assert_eq!(
            name(choose(&none, &task("something else", None), &agents)),
            "chooser of chooser, digger, poet",
            "the first by name, unless a model says otherwise"
        );
    }

    #[test]
    fn a_selectors_answer_is_read_as_json_or_as_a_name() {
        let agents = [agent("poet", ""), agent("digger", "")];
        assert_eq!(
            answered("{\"agent\": \"poet\", \"reason\": \"\"}", &agents).as_deref(),
            Some("poet")
        );
        assert_eq!(answered("I would take digger.", &agents), None);
        assert_eq!(answered("{\"agent\": \"nobody\"}", &agents), None);
    }
}
