//! Names of types, and values as JSON.

use mysql_async::Value as Cell;
use mysql_async::consts::{ColumnFlags, ColumnType};
use serde_json::Value;

use crate::source::hex;

fn is_text(column: &mysql_async::Column) -> bool {
    /// The character set of binary data.
    const BINARY: u16 = 63;
    column.character_set() != BINARY
}

pub(super) fn type_name(column: &mysql_async::Column) -> String {
    use ColumnType::*;
    let name = match column.column_type() {
        MYSQL_TYPE_TINY | MYSQL_TYPE_SHORT | MYSQL_TYPE_LONG | MYSQL_TYPE_INT24 => "int",
        MYSQL_TYPE_LONGLONG => "bigint",
        MYSQL_TYPE_FLOAT => "float",
        MYSQL_TYPE_DOUBLE => "double",
        MYSQL_TYPE_DECIMAL | MYSQL_TYPE_NEWDECIMAL => "decimal",
        MYSQL_TYPE_DATE | MYSQL_TYPE_NEWDATE => "date",
        MYSQL_TYPE_DATETIME | MYSQL_TYPE_DATETIME2 => "datetime",
        MYSQL_TYPE_TIMESTAMP | MYSQL_TYPE_TIMESTAMP2 => "timestamp",
        MYSQL_TYPE_TIME | MYSQL_TYPE_TIME2 => "time",
        MYSQL_TYPE_YEAR => "year",
        MYSQL_TYPE_JSON => "json",
        MYSQL_TYPE_BIT => "bit",
        MYSQL_TYPE_NULL => "null",
        MYSQL_TYPE_TINY_BLOB | MYSQL_TYPE_MEDIUM_BLOB | MYSQL_TYPE_LONG_BLOB | MYSQL_TYPE_BLOB if !is_text(column) => {
            "blob"
        }
        _ if column.flags().contains(ColumnFlags::ENUM_FLAG) => "enum",
        _ if is_text(column) => "text",
        _ => "binary",
    };
    name.to_owned()
}

/// Converts a cell to JSON. Numbers that JSON parsers would round stay strings.
pub(super) fn value(cell: Cell, column: &mysql_async::Column) -> Value {
    match cell {
        Cell::NULL => Value::Null,
        Cell::Int(number) => number.into(),
        Cell::UInt(number) => number.into(),
        Cell::Float(number) => f64::from(number).into(),
        Cell::Double(number) => number.into(),
        Cell::Date(year, month, day, 0, 0, 0, 0) if column.column_type() == ColumnType::MYSQL_TYPE_DATE => {
            format!("{year:04}-{month:02}-{day:02}").into()
        }
        Cell::Date(year, month, day, hour, minute, second, micros) => {
            let fraction = if micros == 0 {
                String::new()
            } else {
                format!(".{micros:06}")
            };
            format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}{fraction}").into()
        }
        Cell::Time(is_negative, days, hours, minutes, seconds, _) => {
            let sign = if is_negative { "-" } else { "" };
            let hours = u64::from(days) * 24 + u64::from(hours);
            format!("{sign}{hours:02}:{minutes:02}:{seconds:02}").into()
        }
        Cell::Bytes(bytes) => match String::from_utf8(bytes) {
            Ok(text) if column.column_type() == ColumnType::MYSQL_TYPE_JSON => {
                serde_json::from_str(&text).unwrap_or_else(|_| text.into())
            }
            Ok(text) => text.into(),
            Err(error) => hex(error.as_bytes()).into(),
        },
    }
}
