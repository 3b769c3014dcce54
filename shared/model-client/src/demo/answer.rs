//! The demo model's sentences. Each one cites its source as `[Type:key]` and states only what a tool found.

use std::collections::BTreeMap;

use super::findings::{Edge, Edges, Entity};
use super::question::{Direction, Question};

/// Maximum number of lines in a list; the rest is counted.
const MAX_LINES: usize = 25;
/// Maximum number of names after a count in a summary.
const MAX_NAMES: usize = 5;
/// Maximum number of other hits named at the end.
const MAX_OTHERS: usize = 5;
/// Maximum number of an entity's properties in a summary.
const MAX_FACTS: usize = 12;
/// Maximum length of a quoted tool error, in characters.
const MAX_ERROR_CHARS: usize = 200;
/// The heading and line prefix of search results in the system prompt of a plain conversation.
const CONTEXT_HEADING: &str = "Context from the knowledge graph";
const CONTEXT_LINE: &str = "- [";
/// Maximum number of context lines reported.
const MAX_CONTEXT_LINES: usize = 10;

const SUGGESTION: &str = "Ask for something by its name, for example “Which packages need libssl3, and why?”, “What does \
                          openssl depend on?” or “Tell me about curl”. A real model answers freely: set OPENAI_API_KEY, \
                          ANTHROPIC_API_KEY or GEMINI_API_KEY.";

pub(super) fn nothing_to_search() -> String {
    format!("I look up what your message names in the knowledge graph, and this one names nothing. {SUGGESTION}")
}

pub(super) fn nothing_found(question: &Question) -> String {
    format!(
        "the knowledge graph has nothing that fits “{}”. {SUGGESTION}",
        question.query()
    )
}

pub(super) fn tool_failed(what: &str, error: &str) -> String {
    let error: String = error.chars().take(MAX_ERROR_CHARS).collect();
    format!("the {what} failed, so I can tell nothing: {error}")
}

/// Describes a hit whose relations could not be read.
pub(super) fn entity_only(entity: &Entity, others: &[Entity]) -> String {
    let mut text = introduction(entity);
    text.push_str(&also(others));
    text
}

/// Describes the entity and its relations in the requested direction.
pub(super) fn relations(question: &Question, entity: &Entity, edges: &Edges, others: &[Entity]) -> String {
    let mut text = String::new();
    if !question.names(entity) {
        text.push_str(&format!(
            "nothing is called exactly “{}”; the closest match is {entity} {}.\n\n",
            question.query(),
            entity.citation()
        ));
    }
    match question.direction {
        Direction::Incoming => {
            one_direction(&mut text, question, entity, &edges.incoming, Direction::Incoming);
            text.push_str(&cut(edges.incoming.len(), edges.incoming_total, "incoming"));
        }
        Direction::Outgoing => {
            one_direction(&mut text, question, entity, &edges.outgoing, Direction::Outgoing);
            text.push_str(&cut(edges.outgoing.len(), edges.outgoing_total, "outgoing"));
        }
        Direction::Both => {
            text.push_str(&introduction(entity));
            text.push_str(&summary("\n\nWhat it points to:", &edges.outgoing));
            text.push_str(&summary("\n\nWhat points to it:", &edges.incoming));
            if edges.outgoing.is_empty() && edges.incoming.is_empty() {
                text.push_str("\n\nIt has no relationships in the graph.");
            }
        }
    }
    if !question.names(entity) {
        text.push_str(&also(others));
    }
    text
}

/// Answers without tools, from the system prompt.
pub(super) fn from_context(question: &Question, system: &str) -> String {
    let lines: Vec<&str> = system
        .lines()
        .skip_while(|line| !line.contains(CONTEXT_HEADING))
        .skip(1)
        .map(str::trim)
        .take_while(|line| line.is_empty() || line.starts_with('-'))
        .filter(|line| line.starts_with(CONTEXT_LINE))
        .collect();
    if lines.is_empty() {
        return format!("nothing in the knowledge graph fitted this message, and I have no tools here. {SUGGESTION}");
    }
    // Named ones first; the sort is stable, so that the rest keeps the order of the search.
    let mut lines: Vec<(bool, &str)> = lines
        .into_iter()
        .map(|line| {
            let key = line[CONTEXT_LINE.len()..]
                .split(']')
                .next()
                .and_then(|citation| citation.split_once(':'));
            (key.is_some_and(|(_, key)| question.has(key)), line)
        })
        .collect();
    lines.sort_by_key(|(named, _)| !named);
    let shown: Vec<&str> = lines.iter().take(MAX_CONTEXT_LINES).map(|(_, line)| *line).collect();
    let rest = lines.len() - shown.len();
    let mut text = format!(
        "this is what the knowledge graph holds that fits your message:\n\n{}",
        shown.join("\n")
    );
    if rest > 0 {
        text.push_str(&format!("\n\n… and {rest} more."));
    }
    text
}

/// Describes what the tool omitted.
fn cut(shown: usize, total: usize, direction: &str) -> String {
    if total <= shown {
        return String::new();
    }
    format!("\n\nThe graph holds {total} {direction} relationships in all; the tool showed me {shown} of them.")
}

fn one_direction(text: &mut String, question: &Question, entity: &Entity, edges: &[Edge], direction: Direction) {
    // A question about needs is answered by relationships that express a need, if there are any; the others are
    // counted.
    let (listed, rest): (Vec<&Edge>, Vec<&Edge>) = if edges.iter().any(Edge::is_need) {
        edges.iter().partition(|edge| edge.is_need())
    } else {
        (edges.iter().collect(), Vec::new())
    };
    let citation = entity.citation();
    let incoming = direction == Direction::Incoming;
    let Some(first) = listed.first() else {
        let side = if incoming { "points to" } else { "is pointed to by" };
        text.push_str(&format!("in the knowledge graph, nothing {side} {entity} {citation}."));
        return;
    };
    let count = listed.len();
    let same_kind = listed.iter().all(|edge| edge.kind == first.kind);
    let relation = if same_kind { first.kind.as_str() } else { "different" };
    let relationships = if count == 1 { "relationship" } else { "relationships" };
    text.push_str(&if incoming {
        format!("{entity} {citation} has {count} incoming {relation} {relationships}:\n")
    } else {
        format!("{entity} {citation} has {count} outgoing {relation} {relationships}:\n")
    });
    for edge in listed.iter().take(MAX_LINES) {
        let (verb, detail, other) = (edge.verb(), edge.detail(), &edge.entity);
        let other_citation = other.citation();
        text.push_str(&if incoming {
            format!("\n- {other} {verb} {entity}{detail} {other_citation}")
        } else {
            format!("\n- {entity} {verb} {other}{detail} {other_citation}")
        });
    }
    if count > MAX_LINES {
        text.push_str(&format!("\n\n… and {} more.", count - MAX_LINES));
    }
    if question.asks_why {
        text.push_str(
            "\n\nWhy: each line is a relationship that the graph holds; what stands in brackets is how it was declared.",
        );
    }
    if !rest.is_empty() {
        let side = if incoming {
            "also points to it"
        } else {
            "is also pointed to by it"
        };
        text.push_str(&summary(&format!("\n\nWhat {side}:"), rest));
    }
}

fn introduction(entity: &Entity) -> String {
    let kind = if entity.kind.is_empty() { "entity" } else { &entity.kind };
    let mut text = format!("{entity} is of type {kind} {}.", entity.citation());
    for fact in entity.facts().iter().take(MAX_FACTS) {
        text.push_str(&format!("\n- {fact}"));
    }
    text
}

/// Counts by kind, with the first names of each.
fn summary<'a>(heading: &str, edges: impl IntoIterator<Item = &'a Edge>) -> String {
    let mut kinds: BTreeMap<&str, Vec<&Edge>> = BTreeMap::new();
    for edge in edges {
        kinds.entry(&edge.kind).or_default().push(edge);
    }
    if kinds.is_empty() {
        return String::new();
    }
    let mut text = heading.to_owned();
    for (kind, edges) in kinds {
        let names: Vec<String> = edges
            .iter()
            .take(MAX_NAMES)
            .map(|edge| format!("{}{} {}", edge.entity, edge.detail(), edge.entity.citation()))
            .collect();
        let rest = edges.len() - names.len();
        let more = if rest > 0 {
            format!(" and {rest} more")
        } else {
            String::new()
        };
        text.push_str(&format!("\n- {} × {kind}: {}{more}", edges.len(), names.join(", ")));
    }
    text
}

fn also(others: &[Entity]) -> String {
    if others.is_empty() {
        return String::new();
    }
    let named: Vec<String> = others
        .iter()
        .take(MAX_OTHERS)
        .map(|other| format!("{other} {}", other.citation()))
        .collect();
    format!("\n\nAlso found: {}.", named.join(", "))
}
