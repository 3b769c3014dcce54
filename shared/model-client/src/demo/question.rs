//! Parses a user's question about the graph: names, search words, and direction.
//!
//! English rules only; a message that no rule matches becomes a search for its words and a summary of the results.

use super::findings::Entity;

/// Words that are never names. Longer ones would match real names, so the list stays short.
const STOP_WORDS: &[&str] = &[
    "a", "about", "all", "also", "am", "an", "and", "any", "are", "as", "at", "be", "been", "but", "by", "can",
    "could", "did", "do", "does", "else", "explain", "find", "for", "from", "get", "give", "has", "have", "hello",
    "hey", "hi", "how", "i", "if", "in", "into", "is", "it", "its", "just", "know", "list", "look", "many", "may",
    "me", "more", "my", "name", "of", "on", "one", "or", "other", "our", "please", "search", "show", "so", "some",
    "tell", "than", "thank", "thanks", "that", "the", "their", "them", "then", "there", "these", "they", "this",
    "those", "to", "up", "us", "was", "we", "were", "what", "what's", "when", "where", "which", "who", "whom", "whose",
    "why", "will", "with", "would", "you", "your",
];
/// Generic words for entities and relations: part of a query only if nothing else is left.
const GENERIC_WORDS: &[&str] = &[
    "connected",
    "connection",
    "connections",
    "data",
    "entities",
    "entity",
    "graph",
    "knowledge",
    "node",
    "nodes",
    "object",
    "objects",
    "package",
    "packages",
    "people",
    "person",
    "properties",
    "related",
    "relation",
    "relations",
    "relationship",
    "relationships",
    "thing",
    "things",
    "type",
    "types",
];
/// "A needs B": the subject precedes the verb.
const ACTIVE_VERBS: &[&str] = &[
    "depend",
    "depending",
    "depends",
    "import",
    "imports",
    "need",
    "needing",
    "needs",
    "pull",
    "pulls",
    "require",
    "requires",
    "requiring",
    "rely",
    "relies",
    "use",
    "uses",
    "using",
];
/// "B is needed (by A)".
const PASSIVE_VERBS: &[&str] = &["imported", "needed", "pulled", "required", "used"];
const OUTGOING_NOUNS: &[&str] = &["dependencies", "dependency", "prerequisites", "requirements"];
const INCOMING_NOUNS: &[&str] = &["dependents", "dependants", "rdepends", "users"];
/// How many messages back a follow-up question ("and what needs it?") looks for its subject.
const MAX_LOOK_BACK: usize = 5;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    /// The entity's needs.
    Outgoing,
    /// What needs the entity.
    Incoming,
    /// No direction: a summary.
    Both,
}

#[derive(Debug, Clone)]
pub(super) struct Question {
    words: Vec<String>,
    query: String,
    pub(super) direction: Direction,
    pub(super) asks_why: bool,
}

impl Question {
    /// Parses the last user message; earlier ones supply names if it has none.
    pub(super) fn read(messages: &[&str]) -> Self {
        let last = messages.last().copied().unwrap_or_default();
        let mut words = words(last);
        let asked = words.iter().map(|word| word.to_lowercase()).collect::<Vec<_>>();
        let mut terms = terms(last);
        let mut subject = terms
            .first()
            .and_then(|term| words.iter().position(|word| word == term));
        let refers_back = asked
            .iter()
            .any(|word| ["it", "its", "them", "they", "that", "this", "these", "those"].contains(&word.as_str()));
        if refers_back && terms.iter().all(|term| is(GENERIC_WORDS, term)) {
            let earlier = messages.iter().rev().skip(1).take(MAX_LOOK_BACK);
            if let Some(found) = earlier
                .map(|message| self::terms(message))
                .find(|terms| terms.iter().any(|term| !is(GENERIC_WORDS, term)))
            {
                terms = found;
                subject = asked
                    .iter()
                    .position(|word| ["it", "its", "that", "this", "them", "they"].contains(&word.as_str()));
                words.extend(terms.iter().cloned());
            }
        }
        Self {
            direction: direction(&asked, subject),
            asks_why: asked.iter().any(|word| word == "why"),
            query: terms.join(" "),
            words,
        }
    }

    /// Returns the search words; empty if the message names nothing ("hello").
    pub(super) fn query(&self) -> &str {
        &self.query
    }

    /// Returns whether the entity's key or name is exactly a word (or a sequence of words) of the question.
    pub(super) fn names(&self, entity: &Entity) -> bool {
        [&entity.key, &entity.name].into_iter().any(|name| self.has(name))
    }

    pub(super) fn has(&self, name: &str) -> bool {
        let wanted: Vec<String> = name.split_whitespace().map(str::to_lowercase).collect();
        !wanted.is_empty()
            && self.words.windows(wanted.len()).any(|run| {
                run.iter()
                    .zip(&wanted)
                    .all(|(word, wanted)| word.to_lowercase() == *wanted)
            })
    }
}

/// Splits the message into words without surrounding punctuation; `libssl3`, `python3-requests`, `c++` and `a.b` stay
/// whole.
fn words(text: &str) -> Vec<String> {
    text.split(|c: char| c.is_whitespace() || matches!(c, '"' | '“' | '”' | '`' | '(' | ')' | '[' | ']' | ','))
        .map(|word| {
            let word = word.trim_matches(|c: char| !c.is_alphanumeric() && !matches!(c, '+' | '_' | '@' | '/' | '.'));
            let word = word.trim_end_matches('.');
            word.strip_suffix("'s")
                .or_else(|| word.strip_suffix("’s"))
                .unwrap_or(word)
        })
        .filter(|word| word.chars().any(char::is_alphanumeric))
        .map(str::to_owned)
        .collect()
}

/// Returns the search words: possible names, else words that are neither stop words nor generic.
fn terms(text: &str) -> Vec<String> {
    let mut kept: Vec<String> = Vec::new();
    for word in words(text) {
        let filler = [
            STOP_WORDS,
            ACTIVE_VERBS,
            PASSIVE_VERBS,
            OUTGOING_NOUNS,
            INCOMING_NOUNS,
            &["directly", "reverse"],
        ]
        .iter()
        .any(|list| is(list, &word));
        if !filler && !kept.contains(&word) {
            kept.push(word);
        }
    }
    for wanted in [looks_like_a_name as fn(&str) -> bool, |word| !is(GENERIC_WORDS, word)] {
        let narrowed: Vec<String> = kept.iter().filter(|word| wanted(word)).cloned().collect();
        if !narrowed.is_empty() {
            return narrowed;
        }
    }
    kept
}

/// `libssl3`, `python3-requests`, `a.b`: ordinary words contain no digit or joint.
fn looks_like_a_name(word: &str) -> bool {
    word.chars()
        .any(|c| c.is_ascii_digit() || matches!(c, '-' | '_' | '.' | '+' | '@' | '/' | ':'))
        && word.chars().any(char::is_alphabetic)
}

fn direction(words: &[String], subject: Option<usize>) -> Direction {
    let position = |list: &[&str]| words.iter().position(|word| list.contains(&word.as_str()));
    let subject_is_before = |verb: usize| subject.is_some_and(|subject| subject < verb);
    if position(INCOMING_NOUNS).is_some() || (position(&["reverse"]).is_some() && position(OUTGOING_NOUNS).is_some()) {
        return Direction::Incoming;
    }
    if let Some(verb) = position(PASSIVE_VERBS) {
        // "what is X needed by", "why is X needed"; but "what is needed by X" asks for X's own needs.
        return if subject_is_before(verb) {
            Direction::Incoming
        } else {
            Direction::Outgoing
        };
    }
    if position(OUTGOING_NOUNS).is_some() {
        return Direction::Outgoing;
    }
    if let Some(verb) = position(ACTIVE_VERBS) {
        return if subject_is_before(verb) {
            Direction::Outgoing
        } else {
            Direction::Incoming
        };
    }
    if position(&["why"]).is_some() {
        Direction::Incoming
    } else {
        Direction::Both
    }
}

fn is(list: &[&str], word: &str) -> bool {
    list.contains(&word.to_lowercase().as_str())
}
