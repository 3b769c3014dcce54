//! The messages of a run and its sub-agents, folded from its events, as a client has them: what `MESSAGES_SNAPSHOT` says of this turn.
//!
//! A step of a run is one assistant message, `{run}-{step}`: its text, and the calls that it asks for. After a `reset` the step is written
//! again, under the same ids.

use std::collections::HashMap;

use serde_json::{Value, json};

use crate::pieces::Text;

/// Precedes the number in the id of a call whose own id was used before.
pub const REPEATED: char = '~';

#[derive(Debug)]
enum What {
    /// `step`: the number of the run's steps that had ended before.
    Assistant {
        step: usize,
        id: String,
        text: Text,
    },
    Reasoning {
        id: String,
        text: Text,
    },
    User {
        id: String,
        content: String,
    },
    Call(Call),
}

#[derive(Debug)]
struct Call {
    /// As its provider named it.
    call_id: String,
    /// As the client knows it.
    id: String,
    /// The message that asks for it.
    message: String,
    tool: String,
    arguments: String,
    result: Option<Outcome>,
}

/// An id that the client has heard of.
#[derive(Debug)]
struct CallId {
    run: String,
    call_id: String,
    id: String,
}

#[derive(Debug)]
struct Outcome {
    seq: i64,
    content: String,
    error: Option<String>,
}

#[derive(Debug)]
struct Item {
    run: String,
    seq: i64,
    what: What,
}

impl Item {
    /// The message with this step's text, if it is that: its id, and the text.
    fn text_of(&mut self, run: &str, now: usize) -> Option<(&str, &mut Text)> {
        match &mut self.what {
            What::Assistant { step, id, text } if *step == now && self.run == run => Some((id, text)),
            _ => None,
        }
    }
}

#[derive(Debug)]
pub struct Turn {
    root: String,
    items: Vec<Item>,
    /// The numbers of the events that ended each run's steps.
    steps: HashMap<String, Vec<i64>>,
    /// The ids of all calls, also of those that a reset has discarded.
    call_ids: Vec<CallId>,
    /// The number of items of the run's earlier turns, if it was resumed: they are another reply.
    earlier: usize,
}

impl Turn {
    pub fn of(root: &str) -> Self {
        Self {
            root: root.to_owned(),
            items: Vec::new(),
            steps: HashMap::new(),
            call_ids: Vec::new(),
            earlier: 0,
        }
    }

    fn ended_steps(&self, run: &str) -> usize {
        self.steps.get(run).map_or(0, Vec::len)
    }

    /// The id of the message that a run is writing.
    fn written(&self, run: &str) -> String {
        format!("{run}-{}", self.ended_steps(run) + 1)
    }

    /// The id of the message whose calls a run executes.
    fn executed(&self, run: &str) -> String {
        format!("{run}-{}", self.ended_steps(run).max(1))
    }

    fn push(&mut self, run: &str, seq: i64, what: What) {
        self.items.push(Item {
            run: run.to_owned(),
            seq,
            what,
        });
    }

    /// Adds a piece of text, and returns its message's id.
    pub fn text(&mut self, run: &str, seq: i64, piece: &str) -> &str {
        let now = self.ended_steps(run);
        if !self.items.iter_mut().rev().any(|item| item.text_of(run, now).is_some()) {
            let id = self.written(run);
            let text = Text::default();
            self.push(run, seq, What::Assistant { step: now, id, text });
        }
        let mut newest_first = self.items.iter_mut().rev();
        let (id, text) = newest_first
            .find_map(|item| item.text_of(run, now))
            .expect("it was there, or was just added");
        text.push(seq, piece);
        id
    }

    /// Adds a piece of reasoning, and returns its message's id.
    pub fn reasoning(&mut self, run: &str, seq: i64, piece: &str) -> String {
        let thought = format!("{}-reasoning", self.written(run));
        let mut own = self.items.iter_mut().rev().filter(|item| item.run == run);
        let known = own.find_map(|item| match &mut item.what {
            What::Reasoning { id, text } if *id == thought => Some(text),
            _ => None,
        });
        if let Some(text) = known {
            text.push(seq, piece);
        } else {
            let mut text = Text::default();
            text.push(seq, piece);
            let id = thought.clone();
            self.push(run, seq, What::Reasoning { id, text });
        }
        thought
    }

    /// The run's step was stored.
    pub fn end_step(&mut self, run: &str, seq: i64) {
        self.steps.entry(run.to_owned()).or_default().push(seq);
    }

    pub fn user(&mut self, run: &str, seq: i64, id: &str, content: &str) {
        let (id, content) = (id.to_owned(), content.to_owned());
        self.push(run, seq, What::User { id, content });
    }

    /// Adds a call. Some: its id and its message's id; none: it was added before.
    pub fn call(
        &mut self,
        run: &str,
        seq: i64,
        call_id: &str,
        tool: &str,
        arguments: &str,
    ) -> Option<(String, String)> {
        if self.open_call(run, call_id).is_some() {
            return None;
        }
        let id = self.id_of_call(run, call_id);
        let message = self.executed(run);
        let call = Call {
            call_id: call_id.to_owned(),
            id: id.clone(),
            message: message.clone(),
            tool: tool.to_owned(),
            arguments: arguments.to_owned(),
            result: None,
        };
        self.push(run, seq, What::Call(call));
        Some((id, message))
    }

    /// The id by which the client is to know a new call. Some providers number the calls of each answer: a client would take a call for an
    /// earlier one, or for another agent's.
    fn id_of_call(&mut self, run: &str, call_id: &str) -> String {
        let is_there = |id: &str| {
            self.items
                .iter()
                .any(|item| matches!(&item.what, What::Call(call) if call.id == id))
        };
        let named = self.call_ids.iter().filter(|named| named.call_id == call_id);
        // A call that a reset has discarded is made once more.
        if let Some(again) = named.clone().find(|named| named.run == run && !is_there(&named.id)) {
            return again.id.clone();
        }
        let id = match named.count() {
            0 => call_id.to_owned(),
            uses => format!("{call_id}{REPEATED}{}", uses + 1),
        };
        self.call_ids.push(CallId {
            run: run.to_owned(),
            call_id: call_id.to_owned(),
            id: id.clone(),
        });
        id
    }

    /// Adds the result of a call that has none. Some: its id.
    pub fn result(&mut self, run: &str, seq: i64, call_id: &str, content: &str, error: Option<&str>) -> Option<String> {
        let call = self.open_call(run, call_id)?;
        call.result = Some(Outcome {
            seq,
            content: content.to_owned(),
            error: error.map(str::to_owned),
        });
        Some(call.id.clone())
    }

    /// The id by which the client knows an open call.
    pub fn open_call_id(&mut self, run: &str, call_id: &str) -> Option<String> {
        self.open_call(run, call_id).map(|call| call.id.clone())
    }

    fn open_call(&mut self, run: &str, call_id: &str) -> Option<&mut Call> {
        let mut own = self.items.iter_mut().rev().filter(|item| item.run == run);
        own.find_map(|item| match &mut item.what {
            What::Call(call) if call.call_id == call_id && call.result.is_none() => Some(call),
            _ => None,
        })
    }

    /// Forgets what a run wrote after `after`. True: there was something.
    pub fn reset(&mut self, run: &str, after: i64) -> bool {
        if let Some(ends) = self.steps.get_mut(run) {
            ends.retain(|seq| *seq <= after);
        }
        let mut discards = false;
        self.items.retain_mut(|item| {
            if item.run != run {
                return true;
            }
            match &mut item.what {
                What::Assistant { text, .. } => {
                    discards |= text.truncate(after);
                    !text.is_empty()
                }
                // Kept without its text: a snapshot without any reasoning would leave the client's as it is.
                What::Reasoning { text, .. } => {
                    discards |= text.truncate(after);
                    true
                }
                What::Call(call) => {
                    if call.result.as_ref().is_some_and(|result| result.seq > after) {
                        call.result = None;
                        discards = true;
                    }
                    discards |= item.seq > after;
                    item.seq <= after
                }
                What::User { .. } => true,
            }
        });
        discards
    }

    /// The text of the run's own agent.
    pub fn reply(&self) -> String {
        let own = self.items.iter().skip(self.earlier);
        own.filter(|item| item.run == self.root)
            .filter_map(|item| match &item.what {
                What::Assistant { text, .. } => Some(text.as_str()),
                _ => None,
            })
            .collect()
    }

    /// Returns whether the turn has this user's message.
    pub fn has(&self, message: &str) -> bool {
        self.items
            .iter()
            .any(|item| matches!(&item.what, What::User { id, .. } if id == message))
    }

    /// The reply is another text than its pieces. Returns its message's id.
    pub fn replace_reply(&mut self, seq: i64, reply: &str) -> String {
        let root = self.root.clone();
        let turn = self.items.split_off(self.earlier.min(self.items.len()));
        self.items.extend(
            turn.into_iter()
                .filter(|item| item.run != root || !matches!(item.what, What::Assistant { .. })),
        );
        let mut text = Text::default();
        text.push(seq, reply);
        let id = self.executed(&root);
        let step = self.ended_steps(&root).saturating_sub(1);
        self.push(
            &root,
            seq,
            What::Assistant {
                step,
                id: id.clone(),
                text,
            },
        );
        id
    }

    /// The turn has ended; what follows is another one of the same run.
    pub fn end(&mut self) {
        self.earlier = self.items.len();
    }

    /// The messages, in order.
    pub fn messages(&self) -> Vec<Value> {
        let mut messages: Vec<Value> = Vec::new();
        let mut of_id: HashMap<&str, usize> = HashMap::new();
        // Behind the messages that ask for them.
        let mut results: Vec<(usize, Value)> = Vec::new();
        for item in &self.items {
            let owned = |mut message: Value| {
                if item.run != self.root {
                    message["subagentRunId"] = item.run.as_str().into();
                }
                message
            };
            match &item.what {
                What::Assistant { id, text, .. } => {
                    if let Some(at) = of_id.get(id.as_str()) {
                        messages[*at]["content"] = text.as_str().into();
                    } else {
                        of_id.insert(id, messages.len());
                        messages.push(owned(json!({"id": id, "role": "assistant", "content": text.as_str()})));
                    }
                }
                What::Reasoning { id, text } => {
                    messages.push(owned(json!({"id": id, "role": "reasoning", "content": text.as_str()})));
                }
                What::User { id, content } => messages.push(json!({"id": id, "role": "user", "content": content})),
                What::Call(call) => {
                    let at = *of_id.entry(&call.message).or_insert_with(|| {
                        messages.push(owned(json!({"id": call.message, "role": "assistant"})));
                        messages.len() - 1
                    });
                    let asked = json!({
                        "id": call.id, "type": "function",
                        "function": {"name": call.tool, "arguments": call.arguments},
                    });
                    match messages[at]["toolCalls"].as_array_mut() {
                        Some(calls) => calls.push(asked),
                        None => messages[at]["toolCalls"] = json!([asked]),
                    }
                    if let Some(result) = &call.result {
                        let mut message = json!({
                            "id": result_id(&call.id), "role": "tool", "toolCallId": call.id, "content": result.content,
                        });
                        if let Some(error) = &result.error {
                            message["error"] = error.as_str().into();
                        }
                        results.push((at, owned(message)));
                    }
                }
            }
        }
        let mut ordered = Vec::with_capacity(messages.len() + results.len());
        for (at, message) in messages.into_iter().enumerate() {
            ordered.push(message);
            ordered.extend(
                results
                    .iter()
                    .filter(|(of, _)| *of == at)
                    .map(|(_, result)| result.clone()),
            );
        }
        ordered
    }
}

/// The id of the message that holds a call's result.
pub fn result_id(call_id: &str) -> String {
    format!("{call_id}-result")
}
