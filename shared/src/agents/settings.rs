//! The known entries of a definition's `config`: calls that need confirmation, the agents of a flow, handover targets,
//! limits of the run tree, and the agent's purpose. Other entries are kept for their owner and ignored.

use serde::Deserialize;
use serde_json::Value;
use uuid::Uuid;

use crate::outputs;
use crate::routing::{Database, Specialist, words};

/// Sub-agents that a flow may name.
const FLOW_MAX_AGENTS: usize = 20;
/// Rounds of a `loop` that sets no limit.
pub const LOOP_ITERATIONS: u32 = 5;
/// Rounds that one may ask for.
const LOOP_MAX_ITERATIONS: u32 = 100;
/// Share of the votes that settles a discussion which sets none.
pub const DISCUSSION_THRESHOLD: f64 = 0.7;
/// Rounds of arguments of a discussion that sets none.
pub const DISCUSSION_ROUNDS: u32 = 1;
const DISCUSSION_MAX_ROUNDS: u32 = 10;
/// Agents that a definition may hand over to.
const HANDOFFS_MAX: usize = 20;
/// Of the word behind `transfer_to_`: providers take names of 64 characters.
const HANDOFF_WORD_MAX_CHARS: usize = 48;
/// Words of its own that a specialist may name, and the length of each [characters].
const SPECIALTY_MAX_KEYWORDS: usize = 50;
const KEYWORD_MAX_CHARS: usize = 60;

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Settings {
    /// Tools, with globs, whose calls a person approves before they act.
    pub confirm: Vec<String>,
    pub flow: Flow,
    pub limits: TreeSettings,
    /// Agents that may take a run over from one of this definition.
    pub handoffs: Vec<Handoff>,
    pub specialty: Specialty,
    /// Questions that a run may ask with `ask_user`; none: any number.
    pub questions: Option<u32>,
    /// Which of its tools the model is shown.
    #[serde(alias = "toolSelection")]
    pub tool_selection: ToolSelection,
    pub planning: Planning,
    /// The JSON schema that answers have to fit.
    #[serde(rename = "outputSchema")]
    pub output_schema: Option<Value>,
}

/// Of an agent that plans.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Planning {
    /// The agent that does steps, by name; none: `executor`.
    pub executor: Option<String>,
    /// The agent that reviews plans which are to be reviewed; none: rules do.
    pub reviewer: Option<String>,
}

/// Which of its tools an agent is shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolSelection {
    #[default]
    All,
    /// Those that what the conversation is about calls for.
    Context,
}

/// An agent that may take a run over: its name, or `{"agent": name, "as": word}` for a tool of another name.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(from = "HandoffForm")]
pub struct Handoff {
    pub agent: String,
    /// The tool is called `transfer_to_` and this.
    pub word: String,
}

#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "a handoff must be an agent's name, or {\"agent\": name, \"as\": word}"
)]
enum HandoffForm {
    Name(String),
    Named { agent: String, r#as: Option<String> },
}

impl From<HandoffForm> for Handoff {
    fn from(form: HandoffForm) -> Self {
        let (agent, word) = match form {
            HandoffForm::Name(agent) => (agent, None),
            HandoffForm::Named { agent, r#as } => (agent, r#as),
        };
        let word = word.unwrap_or_else(|| word_of(&agent));
        Self { agent, word }
    }
}

/// An agent's name as part of a tool's.
fn word_of(agent: &str) -> String {
    let word: String = agent
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() {
                c.to_ascii_lowercase()
            } else {
                '_'
            }
        })
        .collect();
    word.chars().take(HANDOFF_WORD_MAX_CHARS).collect()
}

/// What the agent is for, so that new conversations about it come to it (`docs/guide/routing.md`).
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Specialty {
    /// The kinds of database that it knows.
    pub databases: Vec<Database>,
    /// Words and phrases of its own, as whole words; [`Settings::of`] brings them into their [normal](words::normal) form.
    pub keywords: Vec<String>,
}

impl Specialty {
    /// None: the agent says nothing of what it is for, and is not chosen for a conversation by what that is about.
    pub fn specialist<'a>(&'a self, id: Uuid, name: &'a str) -> Option<Specialist<'a>> {
        (*self != Self::default()).then(|| Specialist {
            id,
            name,
            databases: self.databases.iter().copied().collect(),
            keywords: &self.keywords,
        })
    }

    /// Err: what is wrong, for whoever wrote it.
    fn normalize(&mut self) -> Result<(), String> {
        let is_fit = |keyword: &String| !keyword.is_empty() && keyword.chars().count() <= KEYWORD_MAX_CHARS;
        for keyword in &mut self.keywords {
            *keyword = words::normal(keyword);
        }
        if self.keywords.len() > SPECIALTY_MAX_KEYWORDS || !self.keywords.iter().all(is_fit) {
            return Err(format!(
                "config.specialty.keywords must be at most {SPECIALTY_MAX_KEYWORDS}, each of 1 to {KEYWORD_MAX_CHARS} characters with a letter or digit"
            ));
        }
        Ok(())
    }
}

/// Of the flows sequential, loop, parallel and discussion.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct Flow {
    /// By name, in order.
    pub agents: Vec<String>,
    /// Rounds of a loop.
    #[serde(alias = "max_iterations")]
    pub max_iterations: Option<u32>,
    /// A loop ends when the last agent's answer holds this.
    #[serde(alias = "exit_when")]
    pub exit_when: Option<String>,
    /// Of a discussion: the share of the votes that settles it, above 0 and at most 1.
    pub threshold: Option<f64>,
    /// Of a discussion: rounds of arguments between proposals and votes.
    pub rounds: Option<u32>,
}

/// Limits of a whole tree of runs, where they differ from the deployment's; the smaller one counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct TreeSettings {
    /// Input and output tokens of all runs.
    pub tokens: Option<u64>,
    #[serde(alias = "cost_usd")]
    pub cost_usd: Option<f64>,
    /// Sub-agents that are started from its beginning to its end.
    pub runs: Option<i32>,
    /// Wall clock, without the time in which a person was asked.
    pub seconds: Option<u64>,
}

impl Settings {
    /// Err: what is wrong, for whoever wrote it.
    pub fn of(config: &Value) -> Result<Self, String> {
        let mut settings = Self::deserialize(config).map_err(|error| format!("config: {error}"))?;
        settings.specialty.normalize()?;
        if let Some(schema) = &settings.output_schema {
            outputs::check(schema).map_err(|why| format!("config.{why}"))?;
        }
        let flow = &settings.flow;
        if flow.agents.len() > FLOW_MAX_AGENTS || flow.agents.iter().any(|name| name.trim().is_empty()) {
            return Err(format!(
                "config.flow.agents must have at most {FLOW_MAX_AGENTS} names, none of them empty"
            ));
        }
        if flow
            .max_iterations
            .is_some_and(|rounds| !(1..=LOOP_MAX_ITERATIONS).contains(&rounds))
        {
            return Err(format!(
                "config.flow.maxIterations must be between 1 and {LOOP_MAX_ITERATIONS}"
            ));
        }
        if flow
            .threshold
            .is_some_and(|threshold| !(threshold > 0.0 && threshold <= 1.0))
        {
            return Err("config.flow.threshold must be greater than 0 and at most 1".to_owned());
        }
        if flow.rounds.is_some_and(|rounds| rounds > DISCUSSION_MAX_ROUNDS) {
            return Err(format!("config.flow.rounds must be at most {DISCUSSION_MAX_ROUNDS}"));
        }
        check_handoffs(&settings.handoffs)?;
        if settings
            .limits
            .cost_usd
            .is_some_and(|usd| !usd.is_finite() || usd <= 0.0)
        {
            return Err("config.limits.costUsd must be greater than 0".to_owned());
        }
        Ok(settings)
    }
}

fn check_handoffs(handoffs: &[Handoff]) -> Result<(), String> {
    if handoffs.len() > HANDOFFS_MAX || handoffs.iter().any(|handoff| handoff.agent.trim().is_empty()) {
        return Err(format!(
            "config.handoffs must have at most {HANDOFFS_MAX} agents, each with a name"
        ));
    }
    let is_word = |word: &str| {
        (1..=HANDOFF_WORD_MAX_CHARS).contains(&word.len())
            && word
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
    };
    for (at, handoff) in handoffs.iter().enumerate() {
        let (agent, word) = (&handoff.agent, &handoff.word);
        if !is_word(word) {
            return Err(format!(
                "config.handoffs: the word for {agent} must be 1 to {HANDOFF_WORD_MAX_CHARS} of a-z, 0-9 and _; it is {word:?}"
            ));
        }
        if handoffs[..at].iter().any(|earlier| earlier.word == *word) {
            return Err(format!(
                "config.handoffs: two agents would both be transfer_to_{word}; give one of them another word with \
                \"as\""
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_runs_heed_is_read_and_the_rest_is_the_owners() {
        let config = json!({
            "confirm": ["delete_*"], "flow": {"agents": ["a", "b"], "max_iterations": 3, "exitWhen": "DONE"},
            "limits": {"tokens": 1000}, "colour": "green",
            "specialty": {"databases": ["postgresql", "mariadb"], "keywords": ["Past-due Invoices"]},
        });
        let settings = Settings::of(&config).unwrap();
        assert_eq!(settings.confirm, ["delete_*"]);
        assert_eq!(settings.flow.max_iterations, Some(3));
        assert_eq!(settings.limits.tokens, Some(1000));
        let specialist = settings.specialty.specialist(Uuid::nil(), "billing").unwrap();
        assert!(specialist.databases.has(Database::PostgreSql) && specialist.databases.has(Database::MySql));
        assert_eq!(specialist.keywords, ["past due invoices"]);
        assert!(Specialty::default().specialist(Uuid::nil(), "anything").is_none());
        assert_eq!(Settings::of(&json!({})), Ok(Settings::default()));
    }

    #[test]
    fn d17_a_handoff_is_named_by_its_agent_or_by_a_word_of_its_own() {
        let config = json!({"handoffs": ["Postgres Analyst", {"agent": "mongodb-analyst", "as": "mongodb"}]});
        let words: Vec<_> = Settings::of(&config)
            .unwrap()
            .handoffs
            .into_iter()
            .map(|h| h.word)
            .collect();
        assert_eq!(words, ["postgres_analyst", "mongodb"]);
    }

    #[test]
    fn a_mistake_is_named() {
        for (config, word) in [
            (json!({"flow": {"agent": ["a"]}}), "agent"),
            (json!({"flow": {"agents": [" "]}}), "agents"),
            (json!({"flow": {"maxIterations": 0}}), "maxIterations"),
            (json!({"flow": {"threshold": 1.1}}), "threshold"),
            (json!({"flow": {"rounds": 11}}), "rounds"),
            (json!({"limits": {"costUsd": 0}}), "costUsd"),
            (json!({"handoffs": [7]}), "a handoff must be"),
            (json!({"handoffs": [" "]}), "handoffs"),
            (json!({"handoffs": ["a-b", "a b"]}), "transfer_to_a_b"),
            (json!({"handoffs": [{"agent": "a", "as": "Ü"}]}), "a-z"),
            (json!({"confirm": "delete_*"}), "config"),
            (json!({"toolSelection": "some"}), "context"),
            (json!({"outputSchema": {"type": "array"}}), "outputSchema"),
            (json!({"specialty": {"databases": ["oracle"]}}), "postgresql"),
            (json!({"specialty": {"keywords": ["a", " - "]}}), "keywords"),
            (json!({"specialty": {"keywords": vec!["a"; 51]}}), "keywords"),
            (json!({"specialty": {"database": "mysql"}}), "databases"),
        ] {
            let error = Settings::of(&config).unwrap_err();
            assert!(error.contains(word), "{error}");
        }
    }
}
