//! Parses results of BigQuery's API: numbers in strings, cells by column type, errors. Called by `bigquery`.

use serde_json::{Value, json};

use crate::source::{COLUMNS_MAX, SourceError};

pub(super) fn whole(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
}

pub(super) fn message(error: &Value) -> String {
    error["message"]
        .as_str()
        .unwrap_or("rejected without a reason")
        .to_owned()
}

/// Returns a job's error. Some servers respond with 200 anyway.
pub(super) fn fault_of(answer: &Value) -> Option<SourceError> {
    let result = &answer["status"]["errorResult"];
    if !result.is_null() {
        return Some(SourceError::Failed(message(result)));
    }
    let first = answer["errors"].as_array().and_then(|errors| errors.first());
    first.map(|error| SourceError::Failed(message(error)))
}

/// Converts a cell by its column's type. Numbers that JSON parsers would round stay strings.
pub(super) fn cell(value: &Value, field: &Value) -> Value {
    if field["mode"] == "REPEATED"
        && let Value::Array(items) = value
    {
        let mut one = field.clone();
        one["mode"] = Value::Null;
        return items.iter().map(|item| cell(&item["v"], &one)).collect();
    }
    match (field["type"].as_str().unwrap_or_default(), value) {
        (_, Value::Null) => Value::Null,
        ("RECORD" | "STRUCT", record) => {
            let fields = field["fields"].as_array().map(Vec::as_slice).unwrap_or_default();
            let cells = record["f"].as_array().map(Vec::as_slice).unwrap_or_default();
            let named = fields.iter().zip(cells).map(|(field, item)| {
                (
                    field["name"].as_str().unwrap_or_default().to_owned(),
                    cell(&item["v"], field),
                )
            });
            Value::Object(named.collect())
        }
        ("INTEGER" | "INT64", Value::String(text)) => text.parse::<i64>().map_or_else(|_| value.clone(), Value::from),
        ("FLOAT" | "FLOAT64", Value::String(text)) => text.parse::<f64>().map_or_else(|_| value.clone(), Value::from),
        ("BOOLEAN" | "BOOL", Value::String(text)) => (text == "true").into(),
        ("JSON", Value::String(text)) => serde_json::from_str(text).unwrap_or_else(|_| value.clone()),
        _ => value.clone(),
    }
}

pub(super) fn columns_of(fields: &[Value], above: &str, columns: &mut Vec<Value>) {
    for field in fields {
        if columns.len() > COLUMNS_MAX {
            return;
        }
        let name = format!("{above}{}", field["name"].as_str().unwrap_or_default());
        columns.push(json!({
            "name": name, "type": field["type"], "mode": field["mode"], "nullable": field["mode"] != "REQUIRED",
            "comment": field["description"],
        }));
        if let Some(below) = field["fields"].as_array() {
            columns_of(below, &format!("{name}."), columns);
        }
    }
}
