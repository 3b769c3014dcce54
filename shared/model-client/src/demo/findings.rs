//! Parses the results of graph tools, as far as the demo model needs them.
//!
//! Lenient on purpose: an unreadable result counts as empty, never as a failure.

use std::fmt;

use serde_json::{Map, Value};

/// Maximum number of properties per edge, besides the constraint.
const MAX_EDGE_PROPERTIES: usize = 3;
/// Property names that state a relationship's constraint.
const CONSTRAINT_NAMES: [&str; 3] = ["constraint", "version_constraint", "versionConstraint"];

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Entity {
    pub(super) id: String,
    pub(super) key: String,
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) properties: Map<String, Value>,
}

impl Entity {
    fn read(value: &Value) -> Option<Self> {
        let text = |field: &str| value.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
        let id = text("id");
        let properties = value
            .get("properties")
            .and_then(Value::as_object)
            .cloned()
            .unwrap_or_default();
        let mut name = text("name");
        if name.is_empty() {
            name = properties
                .get("name")
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned();
        }
        let mut key = text("key");
        if key.is_empty() {
            key.clone_from(if name.is_empty() { &id } else { &name });
        }
        if name.is_empty() {
            name.clone_from(&key);
        }
        (!id.is_empty()).then(|| Self {
            id,
            key,
            kind: text("type"),
            name,
            properties,
        })
    }

    /// Returns `[Type:key]`, which interfaces turn into a link.
    pub(super) fn citation(&self) -> String {
        format!("[{}:{}]", self.kind, self.key)
    }

    /// Returns its properties as `name: value`, in the graph's order, without nested and empty ones.
    pub(super) fn facts(&self) -> Vec<String> {
        facts(&self.properties)
    }
}

impl fmt::Display for Entity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// Returns the entities of a search result, best first.
pub(super) fn hits(content: &str) -> Vec<Entity> {
    let Ok(value) = serde_json::from_str::<Value>(content) else {
        return Vec::new();
    };
    ["data", "entities"]
        .iter()
        .find_map(|field| value.get(field).and_then(Value::as_array))
        .into_iter()
        .flatten()
        .filter_map(|hit| Entity::read(hit.get("object").unwrap_or(hit)))
        .collect()
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Edge {
    pub(super) kind: String,
    pub(super) entity: Entity,
    properties: Map<String, Value>,
}

impl Edge {
    fn read(value: &Value) -> Option<Self> {
        Some(Self {
            kind: value.get("relationship_type")?.as_str()?.to_owned(),
            entity: Entity::read(value.get("connected_entity")?)?,
            properties: value
                .get("properties")
                .and_then(Value::as_object)
                .cloned()
                .unwrap_or_default(),
        })
    }

    /// Formats `DEPENDS_ON` for a sentence.
    pub(super) fn verb(&self) -> String {
        self.kind.to_lowercase().replace('_', " ")
    }

    /// Returns whether this kind of relationship expresses a need.
    pub(super) fn is_need(&self) -> bool {
        let kind = self.kind.to_uppercase();
        ["DEPEND", "REQUIRE", "NEED", "USES", "IMPORT"]
            .iter()
            .any(|part| kind.contains(part))
    }

    /// Returns ` (>= 3.0.9; kind: build)`, or nothing.
    pub(super) fn detail(&self) -> String {
        let mut rest = self.properties.clone();
        let constraint = CONSTRAINT_NAMES
            .iter()
            .find_map(|name| rest.remove(*name))
            .and_then(|value| scalar(&value));
        let mut parts: Vec<String> = constraint.into_iter().collect();
        parts.extend(facts(&rest).into_iter().take(MAX_EDGE_PROPERTIES));
        if parts.is_empty() {
            String::new()
        } else {
            format!(" ({})", parts.join("; "))
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Edges {
    pub(super) incoming: Vec<Edge>,
    pub(super) outgoing: Vec<Edge>,
    /// The total number, if the tool shows only some.
    pub(super) incoming_total: usize,
    pub(super) outgoing_total: usize,
}

impl Edges {
    pub(super) fn read(content: &str) -> Option<Self> {
        let value: Value = serde_json::from_str(content).ok()?;
        let side = |field: &str| {
            let mut edges: Vec<Edge> = value.get(field)?.as_array()?.iter().filter_map(Edge::read).collect();
            edges.sort_by(|a, b| (&a.kind, &a.entity.name, &a.entity.id).cmp(&(&b.kind, &b.entity.name, &b.entity.id)));
            Some(edges)
        };
        let total = |field: &str| {
            value
                .get(field)
                .and_then(Value::as_u64)
                .and_then(|n| usize::try_from(n).ok())
        };
        let (incoming, outgoing) = (side("incoming")?, side("outgoing")?);
        Some(Self {
            incoming_total: total("incoming_total").unwrap_or(incoming.len()),
            outgoing_total: total("outgoing_total").unwrap_or(outgoing.len()),
            incoming,
            outgoing,
        })
    }
}

fn facts(properties: &Map<String, Value>) -> Vec<String> {
    properties
        .iter()
        .filter(|(name, _)| *name != "name")
        .filter_map(|(name, value)| Some(format!("{}: {}", name.replace('_', " "), scalar(value)?)))
        .collect()
}

/// Formats a value on one line; none if it is empty or nested.
fn scalar(value: &Value) -> Option<String> {
    let text = match value {
        Value::String(text) => text.split_whitespace().collect::<Vec<_>>().join(" "),
        Value::Number(number) => number.to_string(),
        Value::Bool(flag) => flag.to_string(),
        Value::Null | Value::Array(_) | Value::Object(_) => return None,
    };
    (!text.is_empty()).then_some(text)
}
