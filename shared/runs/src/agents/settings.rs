//! The known entries of a definition's `config`: calls that need confirmation, the agents of a flow, handover targets,
//! limits of the run tree, and the agent's purpose. Other entries are kept for their owner and ignored.

use serde::Deserialize;
use serde_json::Value;
use uuid::Uuid;

use rejoin_routing::{Database, Specialist, words};
use rejoin_tools::outputs;

/// Maximum number of sub-agents in a flow.
const FLOW_MAX_AGENTS: usize = 20;
/// Default maximum number of rounds of a `loop`.
pub const LOOP_ITERATIONS: u32 = 5;
/// Largest allowed maximum number of rounds.
const LOOP_MAX_ITERATIONS: u32 = 100;
/// Default share of the votes that settles a discussion.
pub const DISCUSSION_THRESHOLD: f64 = 0.7;
/// Default number of argument rounds in a discussion.
pub const DISCUSSION_ROUNDS: u32 = 1;
const DISCUSSION_MAX_ROUNDS: u32 = 10;
/// Maximum number of handoff targets of a definition.
const HANDOFFS_MAX: usize = 20;
/// Maximum length of the suffix of `transfer_to_`, in characters: providers accept names of 64 characters.
const HANDOFF_WORD_MAX_CHARS: usize = 48;
/// Maximum number of a specialist's keywords, and the maximum length of each, in characters.
const SPECIALTY_MAX_KEYWORDS: usize = 50;
const KEYWORD_MAX_CHARS: usize = 60;

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Settings {
    /// Tools, with globs, whose calls need a user's approval.
    pub confirm: Vec<String>,
    pub flow: Flow,
    pub limits: TreeSettings,
    /// Agents that may take over a run of this definition.
    pub handoffs: Vec<Handoff>,
    pub specialty: Specialty,
    /// Maximum number of questions that a run may ask with `ask_user`; none: unlimited.
    pub questions: Option<u32>,
    /// Selects which tools are shown to the model.
    #[serde(alias = "toolSelection")]
    pub tool_selection: ToolSelection,
    pub planning: Planning,
    /// The JSON Schema that answers must match.
    #[serde(rename = "outputSchema")]
    pub output_schema: Option<Value>,
}

/// Settings of a planning agent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Planning {
    /// The agent that executes steps, by name; default: `executor`.
    pub executor: Option<String>,
    /// The agent that reviews plans; none: rules do.
    pub reviewer: Option<String>,
}

/// Selects which tools are shown to an agent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolSelection {
    #[default]
    All,
    /// Those relevant to the conversation.
    Context,
}

/// A handoff target: its name, or `{"agent": name, "as": word}` for another tool name.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(from = "HandoffForm")]
pub struct Handoff {
    pub agent: String,
    /// The suffix of the tool's name after `transfer_to_`.
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

/// Converts an agent's name to a part of a tool's name.
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

/// The agent's specialty, used to route new conversations to it (`docs/guide/routing.md`).
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Specialty {
    /// The kinds of database that it handles.
    pub databases: Vec<Database>,
    /// Additional keywords and phrases, matched as whole words; [`Settings::of`] [normalizes](words::normal) them.
    pub keywords: Vec<String>,
}

impl Specialty {
    /// None: the agent declares no specialty, and is never chosen by a conversation's subject.
    pub fn specialist<'a>(&'a self, id: Uuid, name: &'a str) -> Option<Specialist<'a>> {
        (*self != Self::default()).then(|| Specialist {
            id,
            name,
            databases: self.databases.iter().copied().collect(),
            keywords: &self.keywords,
        })
    }

    /// Validates it. The error is a message for the author.
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

/// Settings of the flows sequential, loop, parallel, discussion and function.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct Flow {
    /// Agents by name, in order.
    pub agents: Vec<String>,
    /// Maximum number of rounds of a loop.
    #[serde(alias = "max_iterations")]
    pub max_iterations: Option<u32>,
    /// A loop ends when the last agent's answer contains this.
    #[serde(alias = "exit_when")]
    pub exit_when: Option<String>,
    /// The share of the votes that settles a discussion, above 0 and at most 1.
    pub threshold: Option<f64>,
    /// The number of argument rounds of a discussion, between proposals and votes.
    pub rounds: Option<u32>,
    /// The tool of a user's program that executes the turns of a `function`.
    pub tool: Option<String>,
}

/// Limits of a whole run tree; the smaller of these and the deployment's applies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct TreeSettings {
    /// Maximum input and output tokens of all runs.
    pub tokens: Option<u64>,
    #[serde(alias = "cost_usd")]
    pub cost_usd: Option<f64>,
    /// Maximum number of sub-agents over the tree's lifetime.
    pub runs: Option<i32>,
    /// Wall-clock limit, excluding the time spent waiting for users.
    pub seconds: Option<u64>,
}

impl Settings {
    /// Err: what is wrong, for the author.
    pub fn of(config: &Value) -> Result<Self, String> {
        let mut settings = Self::deserialize(config).map_err(|error| format!("config: {error}"))?;
        settings.specialty.normalize()?;
        if let Some(schema) = &settings.output_schema {
            outputs::check(schema).map_err(|why| format!("config.{why}"))?;
        }
        let flow = &settings.flow;
        if flow.tool.as_ref().is_some_and(|tool| tool.trim().is_empty()) {
            return Err("config.flow.tool must not be empty".to_owned());
        }
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

    /// Requirements: D17.
    #[test]
    fn a_handoff_is_named_by_its_agent_or_its_own_name() {
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
