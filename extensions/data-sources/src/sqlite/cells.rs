//! Transfer of values to and from SQLite's process. Called by `tables`, `child` and `process`.
//!
//! Invariant: a number arrives unchanged. JSON's parser rounds floating-point numbers of many digits, so their bits are
//! sent.

use rusqlite::types::Value as Cell;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::source::{Column, Rows};

/// A SQLite value as JSON. Binary data are already text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Sent {
    Null,
    Whole(i64),
    Real { bits: u64 },
    Text(String),
}

/// Booleans become 1 and 0, lists and documents JSON, integers beyond SQLite's range their digits.
impl From<&Value> for Sent {
    fn from(value: &Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(is_true) => Self::Whole(i64::from(*is_true)),
            Value::Number(number) => match (number.as_i64(), number.is_f64(), number.as_f64()) {
                (Some(whole), _, _) => Self::Whole(whole),
                (None, true, Some(real)) => Self::Real { bits: real.to_bits() },
                (None, _, _) => Self::Text(number.to_string()),
            },
            Value::String(text) => Self::Text(text.clone()),
            Value::Array(_) | Value::Object(_) => Self::Text(value.to_string()),
        }
    }
}

impl From<&Sent> for Cell {
    fn from(sent: &Sent) -> Self {
        match sent {
            Sent::Null => Self::Null,
            Sent::Whole(number) => Self::Integer(*number),
            Sent::Real { bits } => Self::Real(f64::from_bits(*bits)),
            Sent::Text(text) => Self::Text(text.clone()),
        }
    }
}

impl From<Sent> for Value {
    fn from(sent: Sent) -> Self {
        match sent {
            Sent::Null => Self::Null,
            Sent::Whole(number) => number.into(),
            Sent::Real { bits } => f64::from_bits(bits).into(),
            Sent::Text(text) => text.into(),
        }
    }
}

/// A result.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Answer {
    columns: Vec<Column>,
    rows: Vec<Vec<Sent>>,
    truncated: bool,
    affected_rows: Option<u64>,
}

impl From<Rows> for Answer {
    fn from(rows: Rows) -> Self {
        Self {
            columns: rows.columns,
            rows: rows
                .rows
                .iter()
                .map(|row| row.iter().map(Sent::from).collect())
                .collect(),
            truncated: rows.truncated,
            affected_rows: rows.affected_rows,
        }
    }
}

impl From<Answer> for Rows {
    fn from(answer: Answer) -> Self {
        Self {
            columns: answer.columns,
            rows: answer
                .rows
                .into_iter()
                .map(|row| row.into_iter().map(Value::from).collect())
                .collect(),
            truncated: answer.truncated,
            affected_rows: answer.affected_rows,
            bytes_billed: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_value_arrives_as_it_was() {
        let rows = Rows {
            columns: vec![Column {
                name: "a".to_owned(),
                type_name: String::new(),
            }],
            rows: [
                json!(null),
                json!(i64::MIN),
                json!(i64::MAX),
                json!(0.1 + 0.2),
                json!(5e-324),
                json!(f64::MAX),
                json!(-0.0),
                json!(1.0),
                json!("5"),
                json!("{\"bits\": 5}"),
                json!(""),
            ]
            .map(|value| vec![value])
            .to_vec(),
            truncated: true,
            affected_rows: Some(3),
            bytes_billed: None,
        };
        let text = serde_json::to_string(&Answer::from(rows.clone())).unwrap();
        let arrived = Rows::from(serde_json::from_str::<Answer>(&text).unwrap());
        assert_eq!(arrived, rows);
        assert_eq!(json!(arrived.rows).to_string(), json!(rows.rows).to_string());
    }
}
