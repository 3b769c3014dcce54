//! The fields allowed in requests and their types: the providers' reference pages as data.
//!
//! A protocol describes its fields as [`Kind`]s; [`check`] finds the first field that is unknown, missing or of a wrong
//! type. An optional field may also be `null`, as with all four providers.

use serde_json::Value;

/// The allowed type of a value.
pub(super) enum Kind {
    Any,
    Text,
    Number,
    Integer,
    Flag,
    /// Any object.
    Map,
    /// An object with exactly these fields.
    Object(&'static [Field]),
    List(&'static Kind),
    /// An object whose fields depend on the value of this one field.
    Tagged(&'static str, &'static [(&'static str, &'static [Field])]),
    /// One of these, distinguished by JSON type.
    Either(&'static [&'static Kind]),
    /// One of these strings.
    Word(&'static [&'static str]),
    /// For recursive kinds.
    Same(&'static Kind),
}

pub(super) struct Field {
    name: &'static str,
    kind: &'static Kind,
    required: bool,
}

pub(super) const fn must(name: &'static str, kind: &'static Kind) -> Field {
    Field {
        name,
        kind,
        required: true,
    }
}

pub(super) const fn may(name: &'static str, kind: &'static Kind) -> Field {
    Field {
        name,
        kind,
        required: false,
    }
}

/// A step of a path to a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    Key(String),
    Index(usize),
}

/// The first error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Problem {
    /// The path ends with the field.
    Unknown {
        path: Vec<Step>,
    },
    Missing {
        path: Vec<Step>,
    },
    Type {
        path: Vec<Step>,
        expected: &'static str,
        got: &'static str,
    },
    Word {
        path: Vec<Step>,
        got: String,
        allowed: Vec<String>,
    },
}

/// `messages[0].content`, as OpenAI and Google write paths.
pub(super) fn bracketed(path: &[Step]) -> String {
    let mut text = String::new();
    for step in path {
        match step {
            Step::Key(key) => {
                if !text.is_empty() {
                    text.push('.');
                }
                text.push_str(key);
            }
            Step::Index(index) => text.push_str(&format!("[{index}]")),
        }
    }
    text
}

/// `messages.0.content`, as Anthropic writes paths.
pub(super) fn dotted(path: &[Step]) -> String {
    let steps: Vec<String> = path
        .iter()
        .map(|step| match step {
            Step::Key(key) => key.clone(),
            Step::Index(index) => index.to_string(),
        })
        .collect();
    steps.join(".")
}

pub(super) fn check(kind: &Kind, value: &Value) -> Result<(), Problem> {
    walk(kind, value, &mut Vec::new())
}

fn walk(kind: &Kind, value: &Value, path: &mut Vec<Step>) -> Result<(), Problem> {
    match kind {
        Kind::Any => Ok(()),
        Kind::Text => expect(value.is_string(), "a string", value, path),
        Kind::Number => expect(value.is_number(), "a decimal", value, path),
        Kind::Integer => expect(value.is_i64() || value.is_u64(), "an integer", value, path),
        Kind::Flag => expect(value.is_boolean(), "a boolean", value, path),
        Kind::Map => expect(value.is_object(), "an object", value, path),
        Kind::Same(kind) => walk(kind, value, path),
        Kind::Object(fields) => object(fields, value, path),
        Kind::List(item) => {
            let Some(items) = value.as_array() else {
                return expect(false, "an array", value, path);
            };
            for (index, value) in items.iter().enumerate() {
                path.push(Step::Index(index));
                walk(item, value, path)?;
                path.pop();
            }
            Ok(())
        }
        Kind::Tagged(tag, variants) => {
            let Some(members) = value.as_object() else {
                return expect(false, "an object", value, path);
            };
            let Some(word) = members.get(*tag) else {
                return Err(Problem::Missing { path: at(path, tag) });
            };
            let found = variants.iter().find(|(name, _)| word == name);
            let Some((_, fields)) = found else {
                return Err(Problem::Word {
                    path: at(path, tag),
                    got: word.as_str().map_or_else(|| word.to_string(), str::to_owned),
                    allowed: variants.iter().map(|(name, _)| (*name).to_owned()).collect(),
                });
            };
            tagged(tag, fields, value, path)
        }
        Kind::Either(kinds) => match kinds.iter().find(|kind| fits(kind, value)) {
            Some(kind) => walk(kind, value, path),
            None => expect(false, "another type", value, path),
        },
        Kind::Word(words) => match value.as_str() {
            Some(word) if words.contains(&word) => Ok(()),
            Some(word) => Err(Problem::Word {
                path: path.clone(),
                got: word.to_owned(),
                allowed: words.iter().map(|word| (*word).to_owned()).collect(),
            }),
            None => expect(false, "a string", value, path),
        },
    }
}

fn object(fields: &[Field], value: &Value, path: &mut Vec<Step>) -> Result<(), Problem> {
    tagged("", fields, value, path)
}

/// Validates an object with these fields and their tag.
fn tagged(tag: &str, fields: &[Field], value: &Value, path: &mut Vec<Step>) -> Result<(), Problem> {
    let Some(members) = value.as_object() else {
        return expect(false, "an object", value, path);
    };
    if let Some(unknown) = members
        .keys()
        .find(|key| *key != tag && !fields.iter().any(|field| field.name == *key))
    {
        return Err(Problem::Unknown {
            path: at(path, unknown),
        });
    }
    for field in fields {
        match members.get(field.name) {
            None if field.required => {
                return Err(Problem::Missing {
                    path: at(path, field.name),
                });
            }
            None => {}
            Some(Value::Null) if !field.required => {}
            Some(value) => {
                path.push(Step::Key(field.name.to_owned()));
                walk(field.kind, value, path)?;
                path.pop();
            }
        }
    }
    Ok(())
}

/// Returns whether the value's JSON type matches this kind.
fn fits(kind: &Kind, value: &Value) -> bool {
    match kind {
        Kind::Any => true,
        Kind::Text | Kind::Word(_) => value.is_string(),
        Kind::Number | Kind::Integer => value.is_number(),
        Kind::Flag => value.is_boolean(),
        Kind::Map | Kind::Object(_) => value.is_object(),
        Kind::Tagged(tag, _) => value.get(tag).is_some(),
        Kind::List(_) => value.is_array(),
        Kind::Either(kinds) => kinds.iter().any(|kind| fits(kind, value)),
        Kind::Same(kind) => fits(kind, value),
    }
}

fn at(path: &[Step], key: &str) -> Vec<Step> {
    let mut path = path.to_vec();
    path.push(Step::Key(key.to_owned()));
    path
}

fn expect(holds: bool, expected: &'static str, value: &Value, path: &[Step]) -> Result<(), Problem> {
    if holds {
        return Ok(());
    }
    Err(Problem::Type {
        path: path.to_vec(),
        expected,
        got: match value {
            Value::Null => "null",
            Value::Bool(_) => "a boolean",
            Value::Number(_) => "a number",
            Value::String(_) => "a string",
            Value::Array(_) => "an array",
            Value::Object(_) => "an object",
        },
    })
}
