//! Events that become `data-*` parts: what the protocol has no chunk for. Its `data` is the event's, with the spelling of the native
//! events; parts of one thing have one id, so that the newer replaces the older.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// Fields that every event has, and those that say the same as the part's type.
const OF_ALL: [&str; 2] = ["type", "stepNumber"];

/// The parts so far that have an id, each with its data: what an event does not repeat stays.
#[derive(Debug, Default)]
pub(super) struct DataParts {
    known: BTreeMap<(&'static str, String), Map<String, Value>>,
    /// The numbers of the events of programs.
    emitted: Vec<i64>,
}

impl DataParts {
    /// Whether there is a part about the event's thing.
    pub fn has(&self, event: &Value) -> bool {
        match named(event) {
            Some((name, Some(id))) => self.known.contains_key(&(name, id)),
            Some((_, None)) | None => false,
        }
    }

    /// Returns the part of an event that a program has emitted, as a chunk: with the program's own name and data. An event that is emitted again
    /// after a `reset` has the id of the one in its place, so that it replaces it.
    pub fn emitted(&mut self, seq: i64, event: &Value) -> Value {
        self.emitted.push(seq);
        let name = event["name"].as_str().unwrap_or_default();
        let id = format!("custom-{}", self.emitted.len());
        json!({ "type": format!("data-{name}"), "id": id, "data": event["data"] })
    }

    /// Discards the events of programs after this number.
    pub fn reset(&mut self, after: i64) {
        self.emitted.retain(|seq| *seq <= after);
    }

    /// Returns the part of an event, as a chunk. None: it has none.
    pub fn chunk(&mut self, event: &Value) -> Option<Value> {
        let (name, id) = named(event)?;
        let mut data = Map::new();
        for (field, value) in event.as_object()? {
            if !OF_ALL.contains(&field.as_str()) {
                data.insert(field.clone(), value.clone());
            }
        }
        let kind = format!("data-{name}");
        let Some(id) = id else {
            return Some(json!({ "type": kind, "data": data }));
        };
        let known = self.known.entry((name, id.clone())).or_default();
        known.extend(data);
        Some(json!({ "type": kind, "id": id, "data": known }))
    }
}

/// Returns the name of an event's part, and its id, if later events say more about the same thing.
fn named(event: &Value) -> Option<(&'static str, Option<String>)> {
    let id = |value: &Value| value.as_str().map(str::to_owned);
    Some(match event["type"].as_str()? {
        "question" | "question_answered" => ("question", id(&event["questionId"])),
        "sub_agent" => ("sub-agent", id(&event["runId"])),
        "plan_created" | "plan_ready_for_review" | "plan_review" => ("plan", id(&event["plan"]["id"])),
        "step_start" | "step_complete" => ("plan-step", id(&event["step"]["id"])),
        "executor_spawned" | "executor_result" => ("executor", id(&event["executorId"])),
        "usage" => ("usage", Some("usage".to_owned())),
        "context_usage" => ("context-usage", Some("context-usage".to_owned())),
        "focus_active" | "focus_changed" => ("focus", Some("focus".to_owned())),
        "console_creation" | "console_modification" => ("console", None),
        "handoff" => ("handoff", None),
        "operation" => ("operation", None),
        "context_shift" => ("context-shift", None),
        "limit" => ("limit", None),
        "output" => ("output", None),
        _ => return None,
    })
}

/// Returns the source of a citation.
pub(super) fn source(citation: &Value, position: usize) -> Value {
    let text = |name: &str| citation[name].as_str().map(str::to_owned);
    let id = text("id").unwrap_or_else(|| format!("source-{position}"));
    let title = ["title", "name", "key", "id"].into_iter().find_map(text);
    match text("url") {
        Some(url) => match title {
            Some(title) => json!({ "type": "source-url", "sourceId": id, "url": url, "title": title }),
            None => json!({ "type": "source-url", "sourceId": id, "url": url }),
        },
        None => json!({
            "type": "source-document", "sourceId": id, "mediaType": "application/json",
            "title": title.unwrap_or_else(|| format!("Source {position}")),
            "providerMetadata": { "rejoin": { "citation": citation } },
        }),
    }
}
