//! `demo:graph`: a rule-based substitute for a language model, used without a key. No network, no randomness.
//!
//! `rejoin dev` falls back to it, so that a first try shows the real system around it: tools that really run, events,
//! streams, resumption. Every answer begins by saying what it is. A turn with tools searches for what the question
//! names, reads the relations of the best hit, and reports them. Invariants: the same request gives the same answer;
//! only tools of the request are called, each kind once a turn.
//!
//! - `question`  parses the question: names, search words, direction
//! - `findings`  parses the tools' JSON
//! - `answer`    the text
//! - `split`     splits a question into tasks, and joins them

mod answer;
mod findings;
mod question;
mod split;

use std::collections::VecDeque;
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt;
use serde_json::{Map, Value, json};

use self::findings::{Edges, Entity};
use self::question::Question;
use crate::{Chunk, Finish, Message, ModelError, ModelRequest, ModelStream, Provider, ToolCall, Usage};
use rejoin_tools::ToolSpec;

/// The beginning of every answer.
pub(crate) const OPENING: &str = "Demo model (rule-based, no language model): ";
/// Tools that search entities by words, best first; the first one in the request is used.
const SEARCH_TOOLS: [&str; 3] = ["hybrid_search", "search_entities", "semantic_search"];
const EDGES_TOOL: &str = "get_entity_edges";
/// Number of hits requested from a search.
const SEARCH_LIMIT: u32 = 10;

/// The demo model.
pub(crate) struct DemoGraph {
    word_pause: Duration,
}

impl DemoGraph {
    pub(crate) fn new(word_pause: Duration) -> Self {
        Self { word_pause }
    }
}

#[async_trait]
impl Provider for DemoGraph {
    async fn stream(&self, request: ModelRequest) -> Result<ModelStream, ModelError> {
        let pause = self.word_pause;
        let chunks = VecDeque::from(chunks(&request));
        let stream = futures::stream::unfold(chunks, move |mut chunks| async move {
            let chunk = chunks.pop_front()?;
            if matches!(chunk, Chunk::Text(_)) && !pause.is_zero() {
                tokio::time::sleep(pause).await;
            }
            Some((Ok(chunk), chunks))
        });
        Ok(stream.boxed())
    }
}

/// The next action of this model: a tool call, or its answer.
#[derive(Debug, Clone, PartialEq)]
enum Move {
    Call { tool: &'static str, arguments: Value },
    Answer(String),
}

fn chunks(request: &ModelRequest) -> Vec<Chunk> {
    let input_tokens = count_words(&request.system) + request.messages.iter().map(message_words).sum::<u64>();
    let end = |output_tokens, finish| Chunk::End {
        usage: Usage {
            input_tokens,
            output_tokens,
            ..Usage::default()
        },
        finish,
        reasoning: None,
    };
    match next_move(request) {
        Move::Call { tool, arguments } => {
            let calls_so_far = request
                .messages
                .iter()
                .map(|message| calls_of(message).len())
                .sum::<usize>();
            vec![
                Chunk::ToolCall(ToolCall {
                    id: format!("demo_call_{}", calls_so_far + 1),
                    name: tool.to_owned(),
                    arguments,
                }),
                end(1, Finish::ToolCalls),
            ]
        }
        Move::Answer(text) => {
            let text = format!("{OPENING}{text}");
            let mut chunks: Vec<Chunk> = text
                .split_inclusive(char::is_whitespace)
                .map(|word| Chunk::Text(word.to_owned()))
                .collect();
            chunks.push(end(count_words(&text), Finish::Stop));
            chunks
        }
    }
}

fn next_move(request: &ModelRequest) -> Move {
    let questions: Vec<&str> = request
        .messages
        .iter()
        .filter_map(|message| match message {
            Message::User { text, .. } => Some(text.as_str()),
            Message::Assistant { .. } | Message::ToolResult { .. } => None,
        })
        .collect();
    if let Some(joined) = questions.last().and_then(|message| split::joined(message)) {
        return Move::Answer(joined);
    }
    let questions: Vec<&str> = questions
        .into_iter()
        .map(|message| split::heading(message).unwrap_or(message))
        .collect();
    let question = Question::read(&questions);
    let search_tool = SEARCH_TOOLS
        .into_iter()
        .find_map(|name| offered(request, name).map(|spec| (name, spec)));
    let turn = Turn::read(&request.messages);

    if let Some(spec) = offered(request, split::TOOL).filter(|_| search_tool.is_none()) {
        return match turn.result_of(&[split::TOOL]) {
            Some(Ok(result)) => Move::Answer(split::answer(result)),
            Some(Err(error)) => Move::Answer(answer::tool_failed("split into tasks", error)),
            None => Move::Call {
                tool: split::TOOL,
                arguments: arguments(
                    spec,
                    &[
                        ("name", json!(question.query())),
                        ("tasks", split::tasks(question.query())),
                    ],
                ),
            },
        };
    }
    let Some(found) = turn.result_of(&SEARCH_TOOLS) else {
        return match search_tool {
            Some((tool, spec)) if !question.query().is_empty() => Move::Call {
                tool,
                arguments: arguments(
                    spec,
                    &[("query", json!(question.query())), ("limit", json!(SEARCH_LIMIT))],
                ),
            },
            Some(_) => Move::Answer(answer::nothing_to_search()),
            None => Move::Answer(answer::from_context(&question, &request.system)),
        };
    };
    let hits = match found {
        Ok(content) => findings::hits(content),
        Err(error) => return Move::Answer(answer::tool_failed("search", error)),
    };
    let Some((entity, others)) = choose(&question, hits) else {
        return Move::Answer(answer::nothing_found(&question));
    };
    match turn.result_of(&[EDGES_TOOL]) {
        None => match offered(request, EDGES_TOOL) {
            Some(spec) => Move::Call {
                tool: EDGES_TOOL,
                arguments: arguments(spec, &[("entity_id", json!(entity.id))]),
            },
            None => Move::Answer(answer::entity_only(&entity, &others)),
        },
        Some(Ok(content)) => match Edges::read(content) {
            Some(edges) => Move::Answer(answer::relations(&question, &entity, &edges, &others)),
            None => Move::Answer(answer::entity_only(&entity, &others)),
        },
        Some(Err(error)) => Move::Answer(answer::tool_failed("look-up of relationships", error)),
    }
}

/// Returns the hit that the question names exactly, else the best one; with the others.
fn choose(question: &Question, mut hits: Vec<Entity>) -> Option<(Entity, Vec<Entity>)> {
    let position = hits.iter().position(|hit| question.names(hit)).unwrap_or(0);
    (position < hits.len()).then(|| (hits.remove(position), hits))
}

fn offered<'a>(request: &'a ModelRequest, name: &str) -> Option<&'a ToolSpec> {
    request.tools.iter().find(|tool| tool.name == name)
}

/// Tools require every property of their schema, with null for absent ones.
fn arguments(spec: &ToolSpec, given: &[(&str, Value)]) -> Value {
    let mut arguments = Map::new();
    let known = spec.parameters.document().get("properties").and_then(Value::as_object);
    for name in known.into_iter().flat_map(Map::keys) {
        arguments.insert(name.clone(), Value::Null);
    }
    for (name, value) in given {
        if known.is_none_or(|known| known.contains_key(*name)) {
            arguments.insert((*name).to_owned(), value.clone());
        }
    }
    Value::Object(arguments)
}

/// The tool results since the user's last message.
struct Turn<'a> {
    results: Vec<(&'a str, Result<&'a str, &'a str>)>,
}

impl<'a> Turn<'a> {
    fn read(messages: &'a [Message]) -> Self {
        let start = messages
            .iter()
            .rposition(|message| matches!(message, Message::User { .. }))
            .map_or(0, |last| last + 1);
        let results = messages[start..]
            .iter()
            .filter_map(|message| match message {
                Message::ToolResult {
                    tool,
                    content,
                    is_error,
                    ..
                } => Some((
                    tool.as_str(),
                    if *is_error {
                        Err(content.as_str())
                    } else {
                        Ok(content.as_str())
                    },
                )),
                Message::User { .. } | Message::Assistant { .. } => None,
            })
            .collect();
        Self { results }
    }

    fn result_of(&self, tools: &[&str]) -> Option<Result<&'a str, &'a str>> {
        self.results
            .iter()
            .rev()
            .find(|(tool, _)| tools.contains(tool))
            .map(|(_, result)| *result)
    }
}

fn calls_of(message: &Message) -> &[ToolCall] {
    match message {
        Message::Assistant { tool_calls, .. } => tool_calls,
        Message::User { .. } | Message::ToolResult { .. } => &[],
    }
}

fn message_words(message: &Message) -> u64 {
    match message {
        Message::User { text, .. } | Message::Assistant { text, .. } => count_words(text),
        Message::ToolResult { content, .. } => count_words(content),
    }
}

/// This model counts words as tokens.
fn count_words(text: &str) -> u64 {
    text.split_whitespace().count() as u64
}

#[cfg(test)]
mod tests;
