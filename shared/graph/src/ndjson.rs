//! One line of an import or export: an object or a relationship as JSON. Called by `import` and `export`; no SQL.
//!
//! ```json
//! {"kind":"object","type":"Package","key":"libssl3","name":"libssl3","labels":["lib"],"status":null,"properties":{}}
//! {"kind":"relationship","type":"DEPENDS_ON","source":{"type":"Package","key":"curl"},"target":{"type":"Package","key":"libssl3"}}
//! ```
//!
//! `id`, and `source_id` and `target_id` in the place of `source` and `target`, name objects of the same file or of the
//! workspace. Invariant: the result of `parse` can be stored; every invalid line is rejected here, except for missing
//! ends.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

use super::{MAX_KEY_BYTES, MAX_TYPE_BYTES, checked_labels, checked_properties, checked_time, checked_word};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Line {
    Object(ObjectLine),
    Relationship(RelationshipLine),
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ObjectLine {
    /// The id used by other lines of the file; in the exporting workspace, the canonical id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<Uuid>,
    #[serde(rename = "type")]
    pub object_type: String,
    /// Absent: the id serves as key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Equivalent to a property `name`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    #[serde(default, deserialize_with = "null_as_default")]
    pub properties: Map<String, Value>,
    /// The schema of the properties, as `pack@version`. Absent: the installed pack.
    #[serde(default, alias = "schemaVersion", skip_serializing_if = "Option::is_none")]
    pub schema_version: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RelationshipLine {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<Uuid>,
    #[serde(rename = "type")]
    pub relationship_type: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<End>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<End>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_id: Option<Uuid>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_id: Option<Uuid>,
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "Map::is_empty")]
    pub properties: Map<String, Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub valid_from: Option<DateTime<Utc>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub valid_to: Option<DateTime<Utc>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct End {
    #[serde(rename = "type")]
    pub object_type: String,
    pub key: String,
}

/// A relationship's reference to one of its ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reference {
    Key(End),
    Id(Uuid),
}

impl Reference {
    /// The type of the end, if given.
    pub fn object_type(&self) -> Option<&str> {
        match self {
            Reference::Key(end) => Some(&end.object_type),
            Reference::Id(_) => None,
        }
    }
}

/// A valid line.
#[derive(Debug, Clone, PartialEq)]
pub enum Parsed {
    Object {
        id: Option<Uuid>,
        object_type: String,
        key: String,
        status: Option<String>,
        labels: Vec<String>,
        properties: Value,
        schema_version: Option<String>,
    },
    Relationship {
        relationship_type: String,
        source: Reference,
        target: Reference,
        properties: Value,
        weight: Option<f64>,
        valid_from: Option<DateTime<Utc>>,
        valid_to: Option<DateTime<Utc>>,
    },
}

/// Parses a line without its line break; the error is the reason of its rejection, for the file's author.
pub fn parse(line: &[u8]) -> Result<Parsed, String> {
    let line = serde_json::from_slice::<Line>(line).map_err(|error| match error.classify() {
        serde_json::error::Category::Data => error.to_string(),
        _ => format!("not JSON: {error}"),
    })?;
    match line {
        Line::Object(object) => parse_object(object),
        Line::Relationship(relationship) => parse_relationship(relationship),
    }
}

fn parse_object(line: ObjectLine) -> Result<Parsed, String> {
    checked_word("type", &line.object_type, MAX_TYPE_BYTES)?;
    let key = match (line.key, line.id) {
        (Some(key), _) => key,
        (None, Some(id)) => id.to_string(),
        (None, None) => return Err("an object needs a key (or an id)".to_owned()),
    };
    checked_word("key", &key, MAX_KEY_BYTES)?;
    if let Some(status) = &line.status {
        checked_word("status", status, MAX_TYPE_BYTES)?;
    }
    if let Some(version) = &line.schema_version {
        checked_word("schema_version", version, MAX_KEY_BYTES)?;
    }
    let labels = checked_labels(&line.labels)?;
    let mut properties = line.properties;
    if let Some(name) = line.name {
        properties.insert("name".to_owned(), Value::String(name));
    }
    checked_properties(&properties)?;
    Ok(Parsed::Object {
        id: line.id,
        object_type: line.object_type,
        key,
        status: line.status,
        labels,
        properties: Value::Object(properties),
        schema_version: line.schema_version,
    })
}

fn parse_relationship(line: RelationshipLine) -> Result<Parsed, String> {
    checked_word("type", &line.relationship_type, MAX_TYPE_BYTES)?;
    checked_properties(&line.properties)?;
    checked_time("valid_from", line.valid_from)?;
    checked_time("valid_to", line.valid_to)?;
    Ok(Parsed::Relationship {
        relationship_type: line.relationship_type,
        source: reference("source", line.source, line.source_id)?,
        target: reference("target", line.target, line.target_id)?,
        properties: Value::Object(line.properties),
        weight: line.weight,
        valid_from: line.valid_from,
        valid_to: line.valid_to,
    })
}

fn reference(which: &str, end: Option<End>, id: Option<Uuid>) -> Result<Reference, String> {
    match (end, id) {
        (Some(end), _) => {
            checked_word(&format!("the {which}'s type"), &end.object_type, MAX_TYPE_BYTES)?;
            checked_word(&format!("the {which}'s key"), &end.key, MAX_KEY_BYTES)?;
            Ok(Reference::Key(end))
        }
        (None, Some(id)) => Ok(Reference::Id(id)),
        (None, None) => Err(format!("a relationship needs a {which} {{type, key}} or a {which}_id")),
    }
}

/// Programs write null for absent fields.
fn null_as_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn reason(line: &str) -> String {
        parse(line.as_bytes()).unwrap_err()
    }

    #[test]
    fn an_object_takes_its_name_into_its_properties() {
        let line = br#"{"kind":"object","type":"T","key":"k","name":"N","labels":["b","a"],"properties":{"x":1}}"#;
        let expected = Parsed::Object {
            id: None,
            object_type: "T".to_owned(),
            key: "k".to_owned(),
            status: None,
            labels: vec!["a".to_owned(), "b".to_owned()],
            properties: json!({"name": "N", "x": 1}),
            schema_version: None,
        };
        assert_eq!(parse(line).unwrap(), expected);
    }

    #[test]
    fn a_relationship_names_its_ends_by_key_or_by_id() {
        let id = Uuid::from_u128(7);
        let line =
            format!(r#"{{"kind":"relationship","type":"R","source":{{"type":"T","key":"a"}},"target_id":"{id}"}}"#);
        let Parsed::Relationship { source, target, .. } = parse(line.as_bytes()).unwrap() else {
            panic!("an object")
        };
        assert_eq!(
            source,
            Reference::Key(End {
                object_type: "T".to_owned(),
                key: "a".to_owned()
            })
        );
        assert_eq!(target, Reference::Id(id));
    }

    #[test]
    fn a_refused_line_says_why() {
        assert!(reason("{").starts_with("not JSON"));
        assert!(reason(r#"{"kind":"thing"}"#).contains("unknown variant `thing`"));
        assert!(reason(r#"{"kind":"object","type":"T"}"#).contains("needs a key"));
        assert!(reason(r#"{"kind":"object","type":" ","key":"k"}"#).contains("type is empty"));
        assert!(reason(r#"{"kind":"object","type":"T","key":"k","propertes":{}}"#).contains("propertes"));
        assert!(reason(r#"{"kind":"object","type":"T","key":"k","properties":{"a":"\u0000"}}"#).contains("NUL"));
        assert!(reason(r#"{"kind":"relationship","type":"R","source_id":null}"#).contains("needs a source"));
    }
}
