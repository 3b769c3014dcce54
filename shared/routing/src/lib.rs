//! Agent routing: chooses the agent of a new conversation by rules, before its first token and without a model. Called
//! with each message that names no agent. No I/O, takes microseconds; the caller gathers the signals.
//!
//! The first decisive signal wins, in this order: the pinned agent; the database of the first attached console; query
//! syntax in consoles; words and query syntax in the message; the project's only kind of database; the project's
//! preference; the user's earlier choices. Otherwise the triage agent takes it. Measured accuracy:
//! `docs/guide/routing.md`.
//!
//! # Layout
//! - `databases`   kinds of database, sets of them
//! - `words`       splits a text into words
//! - `vocabulary`  words of messages that indicate a kind
//! - `shapes`      query syntax that indicates a kind
//! - `evidence`    sums up all signals
//! - `rollout`     gradual rollout by conversation
//! - `choice` the result, with its reason

mod choice;
mod evidence;
mod shapes;
mod vocabulary;

pub mod databases;
pub mod rollout;
pub mod words;

pub use choice::{Choice, Confidence, Reason};
pub use databases::{Database, Databases};
pub use rollout::rolled_in;

use std::borrow::Cow;
use std::cmp::Reverse;

use uuid::Uuid;

use self::evidence::Evidence;
use self::words::Words;

/// Minimum lead of the evidence for one agent over that for any other.
const LEAD: f32 = 1.0;
/// Penalty of an agent for databases that the project, as far as known, does not have.
const ABSENT: f32 = 1.0;
/// The weight of one of an agent's own keywords.
const KEYWORD: f32 = 2.0;
/// Maximum size of a message's beginning and end, and of a console's beginning, that is examined, in bytes.
const MESSAGE_MAX_BYTES: (usize, usize) = (3_000, 1_000);
const CONSOLE_MAX_BYTES: usize = 3_000;
/// Maximum number of consoles examined.
const MAX_CONSOLES: usize = 5;
/// A habit takes this many conversations, and this share of all.
const HABIT_CONVERSATIONS: u32 = 3;
const HABIT_SHARE: f32 = 0.6;

/// An agent of the project with a specialty.
#[derive(Debug, Clone, Copy)]
pub struct Specialist<'a> {
    pub id: Uuid,
    /// For display.
    pub name: &'a str,
    pub databases: Databases,
    /// Its own keywords, [normalized](words::normal).
    pub keywords: &'a [String],
}

/// A console attached to the message.
#[derive(Debug, Clone, Copy)]
pub struct Console<'a> {
    /// The kind of its connection, if any.
    pub database: Option<Database>,
    pub content: &'a str,
}

/// The signals known when a message arrives.
#[derive(Debug, Clone, Copy, Default)]
pub struct Clues<'a> {
    pub message: &'a str,
    /// The agent set by the conversation or the caller.
    pub pinned: Option<Uuid>,
    /// In order.
    pub consoles: &'a [Console<'a>],
    /// The project's kinds of database; empty if unknown.
    pub databases: Databases,
    /// The project's preferred agent.
    pub preferred: Option<Uuid>,
    /// The number of the user's conversations by agent.
    pub history: &'a [(Uuid, u32)],
}

/// Chooses among `specialists`; among equals their order decides.
pub fn choose(specialists: &[Specialist<'_>], clues: &Clues<'_>) -> Choice {
    if let Some(agent) = clues.pinned {
        return Choice {
            agent: Some(agent),
            reason: Reason::Pinned,
            score: 1.0,
            because: "This agent is pinned to the conversation.".to_owned(),
        };
    }
    let message = both_ends(clues.message, MESSAGE_MAX_BYTES);
    let words = Words::of(&message);
    let choosing = Choosing {
        specialists,
        clues,
        words: &words,
    };
    choosing
        .by_database_of_console()
        .or_else(|| choosing.by_evidence(&message))
        .unwrap_or_else(|| Choice {
            agent: None,
            reason: Reason::Triage,
            score: 0.0,
            because: "Nothing indicates which kind of database this is about.".to_owned(),
        })
}

/// A choice in progress.
struct Choosing<'a> {
    specialists: &'a [Specialist<'a>],
    clues: &'a Clues<'a>,
    /// The message's words.
    words: &'a Words,
}

impl Choosing<'_> {
    fn by_database_of_console(&self) -> Option<Choice> {
        let databases = self.clues.consoles.iter().filter_map(|console| console.database);
        let (database, agent) = databases
            .map(Databases::just)
            .find_map(|database| Some((database, self.first_for(database, |_| true)?)))?;
        Some(Choice {
            agent: Some(agent.id),
            reason: Reason::ConsoleDatabase,
            score: 0.95,
            because: format!(
                "The attached console uses {}, the specialty of {}.",
                names(database),
                agent.name
            ),
        })
    }

    /// Considers consoles first, then these with the message, then whatever is not excluded by either.
    fn by_evidence(&self, message: &str) -> Option<Choice> {
        let mut evidence = Evidence::default();
        for console in self.clues.consoles.iter().take(MAX_CONSOLES) {
            let content = both_ends(console.content, (CONSOLE_MAX_BYTES, 0));
            shapes::read(&content, &Words::of(&content), true, &mut evidence);
            if let Some(choice) = self.leader(&evidence, Reason::ConsoleContent) {
                return Some(choice);
            }
        }
        vocabulary::read(self.words, &mut evidence);
        shapes::read(message, self.words, false, &mut evidence);
        self.leader(&evidence, Reason::Message)
            .or_else(|| self.by_only_database(&evidence))
            .or_else(|| self.by_preference(&evidence))
            .or_else(|| self.by_history(&evidence))
    }

    /// Returns the evidence for an agent.
    fn weight(&self, agent: &Specialist<'_>, evidence: &Evidence, reason: Reason) -> f32 {
        let absent = !self.clues.databases.is_empty() && !self.clues.databases.meets(agent.databases);
        let own = match reason {
            Reason::ConsoleContent => 0.0,
            _ => self.own_keywords(agent),
        };
        evidence.about(agent.databases) + own - if absent { ABSENT } else { 0.0 }
    }

    fn own_keywords(&self, agent: &Specialist<'_>) -> f32 {
        let found = agent.keywords.iter().any(|keyword| self.words.have(keyword));
        if found { KEYWORD } else { 0.0 }
    }

    /// Returns the agent favoured by the evidence, if it leads all agents for other kinds of database, and topics
    /// without an agent.
    fn leader(&self, evidence: &Evidence, reason: Reason) -> Option<Choice> {
        let weights = || {
            self.specialists
                .iter()
                .map(|agent| (agent, self.weight(agent, evidence, reason)))
        };
        let rank = |(agent, weight): (&Specialist<'_>, f32)| (weight, Reverse(agent.databases.len()));
        let (leader, most) = weights().reduce(|best, next| if rank(next) > rank(best) { next } else { best })?;
        let without = evidence.only_about(self.unserved()).max(0.0);
        let next = weights()
            .filter(|(agent, _)| is_rival(leader, agent, evidence))
            .fold(without, |next, (_, weight)| next.max(weight));
        let lead = most - next;
        if lead < LEAD {
            return None;
        }
        let equal = |agent: &Specialist<'_>| agent.databases == leader.databases && !is_rival(leader, agent, evidence);
        let leader = self.first_for(leader.databases, equal).unwrap_or(leader);
        let term = evidence.loudest(leader.databases).unwrap_or(leader.name);
        let place = match reason {
            Reason::ConsoleContent => "The attached console",
            _ => "The message",
        };
        Some(Choice {
            agent: Some(leader.id),
            reason,
            score: lead / (lead + LEAD),
            because: format!("{place} matches the specialty of {} (“{term}”).", leader.name),
        })
    }

    /// Returns kinds of database without an agent, and topics without one.
    fn unserved(&self) -> Databases {
        let all: Databases = Database::ALL.into_iter().collect();
        self.specialists
            .iter()
            .fold(all.and(Databases::ELSEWHERE), |left, agent| {
                left.without(agent.databases)
            })
    }

    /// Returns whether the evidence does not exclude this agent.
    fn is_plausible(&self, agent: &Specialist<'_>, evidence: &Evidence) -> bool {
        let weight = |agent| self.weight(agent, evidence, Reason::Message);
        let most = self.specialists.iter().map(weight).fold(f32::MIN, f32::max);
        let least = if most >= LEAD { most - LEAD } else { -ABSENT };
        let weight = weight(agent);
        weight > least || (most < LEAD && weight >= least)
    }

    fn by_only_database(&self, evidence: &Evidence) -> Option<Choice> {
        let databases = self.clues.databases;
        let is_left = |database: &Database| {
            let mut agents = self
                .specialists
                .iter()
                .filter(|agent| agent.databases.has(*database))
                .peekable();
            agents.peek().is_none() || agents.any(|agent| self.is_plausible(agent, evidence))
        };
        let mut left = databases.iter().filter(is_left).map(Databases::just);
        let (Some(only), None) = (left.next(), left.next()) else {
            return None;
        };
        let agent = self.first_for(only, |agent| self.is_plausible(agent, evidence))?;
        let because = if databases == only {
            format!("The project has only {}, the specialty of {}.", names(only), agent.name)
        } else {
            format!(
                "Of the project's databases only {} fits, the specialty of {}.",
                names(only),
                agent.name
            )
        };
        Some(Choice {
            agent: Some(agent.id),
            reason: Reason::OnlyDatabase,
            score: 0.5,
            because,
        })
    }

    fn by_preference(&self, evidence: &Evidence) -> Option<Choice> {
        let preferred = self.clues.preferred?;
        // An agent without a specialty may be for anything.
        let known = self.specialists.iter().find(|agent| agent.id == preferred);
        known
            .is_none_or(|agent| self.is_plausible(agent, evidence))
            .then(|| Choice {
                agent: Some(preferred),
                reason: Reason::Preference,
                score: 0.4,
                because: "The project prefers this agent.".to_owned(),
            })
    }

    fn by_history(&self, evidence: &Evidence) -> Option<Choice> {
        let times = |agent: &Specialist<'_>| -> u32 {
            let past = self.clues.history.iter().filter(|(id, _)| *id == agent.id);
            past.map(|(_, times)| *times).sum()
        };
        let plausible = || {
            self.specialists
                .iter()
                .filter(|agent| self.is_plausible(agent, evidence))
        };
        let total: u32 = plausible().map(times).sum();
        let (agent, most) = plausible()
            .map(|agent| (agent, times(agent)))
            .reduce(|best, next| if next.1 > best.1 { next } else { best })?;
        #[expect(clippy::cast_precision_loss, reason = "shares of a few conversations")]
        let share = most as f32 / total.max(1) as f32;
        (most >= HABIT_CONVERSATIONS && share >= HABIT_SHARE).then(|| Choice {
            agent: Some(agent.id),
            reason: Reason::History,
            score: share * 0.4,
            because: format!("{} answered most of this user's conversations.", agent.name),
        })
    }

    /// Of several agents for the same kinds: the one with a matching keyword, the preferred one, the user's most
    /// frequent one, the one with the fewest kinds, the first one.
    fn first_for(&self, databases: Databases, fits: impl Fn(&Specialist<'_>) -> bool) -> Option<&Specialist<'_>> {
        let rank = |agent: &Specialist<'_>| {
            let times = self.clues.history.iter().filter(|(id, _)| *id == agent.id);
            (
                self.own_keywords(agent) > 0.0,
                self.clues.preferred == Some(agent.id),
                times.map(|(_, times)| *times).max().unwrap_or(0),
                Reverse(agent.databases.len()),
            )
        };
        self.specialists
            .iter()
            .filter(|agent| agent.databases.meets(databases) && fits(agent))
            .reduce(|best, next| if rank(next) > rank(best) { next } else { best })
    }
}

/// Returns whether this other agent could be meant as well. One for the same kinds is equally good, and one for more
/// kinds is not meant without evidence for those.
fn is_rival(leader: &Specialist<'_>, other: &Specialist<'_>, evidence: &Evidence) -> bool {
    if other.id == leader.id {
        return false;
    }
    if leader.databases.is_empty() || !leader.databases.without(other.databases).is_empty() {
        return true;
    }
    let more = other.databases.without(leader.databases);
    !more.is_empty() && evidence.about(more) > evidence.about(leader.databases) - LEAD
}

fn names(databases: Databases) -> String {
    databases.iter().map(Database::name).collect::<Vec<_>>().join(", ")
}

/// Returns a text's beginning and end, cut at character boundaries.
fn both_ends(text: &str, (beginning, end): (usize, usize)) -> Cow<'_, str> {
    if text.len() <= beginning + end {
        return text.into();
    }
    let boundary = |at: usize| (at..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(at);
    let (until, from) = (boundary(beginning), boundary(text.len() - end));
    format!("{}\n{}", &text[..until], &text[from..]).into()
}

#[cfg(test)]
mod tests;
