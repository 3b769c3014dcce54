//! Documents as JSON, as rows, and as the fields of a sample. Called by `mongodb`.

use mongodb::bson::{Bson, Document};
use serde_json::{Map, Value, json};

use crate::source::{Bounds, COLUMNS_MAX, Collected, Column, hex};

/// Maximum nesting of objects in a schema.
const SCHEMA_DEPTH: usize = 4;

/// Converts a value to JSON: values without a JSON equivalent become text.
pub(super) fn value(bson: Bson) -> Value {
    match bson {
        Bson::Double(number) => number.into(),
        Bson::String(text) => text.into(),
        Bson::Array(items) => items.into_iter().map(value).collect(),
        Bson::Document(fields) => object(fields),
        Bson::Boolean(is) => is.into(),
        Bson::Null | Bson::Undefined => Value::Null,
        Bson::Int32(number) => number.into(),
        Bson::Int64(number) => number.into(),
        Bson::ObjectId(id) => id.to_hex().into(),
        Bson::DateTime(at) => at.try_to_rfc3339_string().unwrap_or_else(|_| at.to_string()).into(),
        Bson::Decimal128(number) => number.to_string().into(),
        Bson::Binary(binary) => hex(&binary.bytes).into(),
        other => other.to_string().into(),
    }
}

pub(super) fn object(document: Document) -> Value {
    let fields: Map<String, Value> = document.into_iter().map(|(name, bson)| (name, value(bson))).collect();
    Value::Object(fields)
}

pub(super) fn kind_of(bson: &Bson) -> &'static str {
    match bson {
        Bson::Double(_) => "double",
        Bson::String(_) => "string",
        Bson::Array(_) => "array",
        Bson::Document(_) => "object",
        Bson::Boolean(_) => "bool",
        Bson::Null | Bson::Undefined => "null",
        Bson::Int32(_) => "int",
        Bson::Int64(_) => "long",
        Bson::ObjectId(_) => "objectId",
        Bson::DateTime(_) => "date",
        Bson::Decimal128(_) => "decimal",
        Bson::Binary(_) => "binData",
        Bson::RegularExpression(_) => "regex",
        _ => "other",
    }
}

/// Converts documents to rows: a column for each field of any of them, in order of appearance.
pub(super) fn rows(bounds: Bounds, documents: Vec<Document>) -> Collected {
    let mut columns: Vec<Column> = Vec::new();
    for (name, bson) in documents.iter().flatten() {
        match columns.iter().position(|column| column.name == *name) {
            None if columns.len() < COLUMNS_MAX => columns.push(Column {
                name: name.clone(),
                type_name: kind_of(bson).to_owned(),
            }),
            Some(at) if columns[at].type_name == "null" => columns[at].type_name = kind_of(bson).to_owned(),
            None | Some(_) => {}
        }
    }
    let names: Vec<String> = columns.iter().map(|column| column.name.clone()).collect();
    let mut collected = Collected::new(bounds, columns);
    for mut document in documents {
        let row = names
            .iter()
            .map(|name| document.remove(name).map_or(Value::Null, value));
        if !collected.take(row.collect()) {
            break;
        }
    }
    collected
}

/// Returns the fields of documents, including nested ones: their types, and the number of documents with each.
pub(super) fn fields(documents: &[Document]) -> Vec<Value> {
    let mut found: Vec<(String, Vec<&'static str>, usize)> = Vec::new();
    fn walk(found: &mut Vec<(String, Vec<&'static str>, usize)>, above: &str, document: &Document, depth: usize) {
        for (name, bson) in document {
            let path = if above.is_empty() {
                name.clone()
            } else {
                format!("{above}.{name}")
            };
            let at = match found.iter().position(|(known, _, _)| *known == path) {
                Some(at) => at,
                None if found.len() > COLUMNS_MAX => continue,
                None => {
                    found.push((path.clone(), Vec::new(), 0));
                    found.len() - 1
                }
            };
            let (_, kinds, count) = &mut found[at];
            *count += 1;
            if !kinds.contains(&kind_of(bson)) {
                kinds.push(kind_of(bson));
            }
            if let Bson::Document(below) = bson
                && depth < SCHEMA_DEPTH
            {
                walk(found, &path, below, depth + 1);
            }
        }
    }
    for document in documents {
        walk(&mut found, "", document, 1);
    }
    let all = documents.len();
    found
        .into_iter()
        .map(|(name, kinds, count)| {
            json!({ "name": name, "type": kinds.join(" | "), "nullable": count < all || kinds.contains(&"null"), "presentIn": count })
        })
        .collect()
}

/// Estimates the size as JSON, in bytes.
pub(super) fn weight(bson: &Bson) -> usize {
    match bson {
        Bson::String(text) => text.len() + 2,
        Bson::Array(items) => items.iter().map(|item| weight(item) + 1).sum::<usize>() + 2,
        Bson::Document(fields) => {
            fields
                .iter()
                .map(|(name, value)| name.len() + 4 + weight(value))
                .sum::<usize>()
                + 2
        }
        Bson::Binary(binary) => binary.bytes.len() * 2,
        _ => 12,
    }
}
