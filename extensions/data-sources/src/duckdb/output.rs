//! Reads what DuckDB's program writes: columns, rows, and errors.

use serde::Deserialize;
use serde::de::{MapAccess, Visitor};
use serde_json::Value;
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt};

use crate::source::{Bounds, COLUMNS_MAX, Collected, Column, Rows, SourceError};

/// Separates the columns of a result from its rows: no row is equal to it, since each is an object.
pub(super) const MARK: &str = "rows";

/// Maximum size of a line that describes a column, in bytes.
const COLUMN_MAX_BYTES: usize = 64 * 1024;

/// Returns the program's error. None: there is none.
pub(super) fn fault(complaint_text: &str) -> Option<SourceError> {
    let text = complaint_text.to_owned();
    match complaint_text {
        "" => None,
        _ if complaint_text.contains("Permission Error")
            || complaint_text.contains("read-only mode")
            || complaint_text.contains("safe mode") =>
        {
            Some(SourceError::Refused(format!("{text}: this source is read-only")))
        }
        _ if complaint_text.contains("IO Error") => Some(SourceError::Unreachable(text)),
        _ => Some(SourceError::Failed(text)),
    }
}

/// Reads a line without its end; None: there are no more.
async fn line(lines: &mut (impl AsyncBufRead + Unpin), largest: usize) -> Result<Option<Vec<u8>>, SourceError> {
    let most = u64::try_from(largest).unwrap_or(u64::MAX).saturating_add(1);
    let mut line = Vec::new();
    lines
        .take(most)
        .read_until(b'\n', &mut line)
        .await
        .map_err(|error| SourceError::Failed(error.to_string()))?;
    match line.last() {
        None => Ok(None),
        Some(b'\n') => {
            line.pop();
            Ok(Some(line))
        }
        Some(_) if line.len() > largest => Err(SourceError::too_large(largest)),
        Some(_) => Ok(Some(line)),
    }
}

/// Reads the output before the mark.
pub(super) async fn columns(lines: &mut (impl AsyncBufRead + Unpin)) -> Result<Vec<Column>, SourceError> {
    #[derive(Deserialize)]
    struct Described {
        column_name: String,
        column_type: String,
    }
    let unread = || SourceError::Failed("only a single statement that reads and returns columns is allowed".to_owned());
    let mut columns = Vec::new();
    while let Some(line) = line(lines, COLUMN_MAX_BYTES).await? {
        match line.as_slice() {
            mark if mark == MARK.as_bytes() => return Ok(columns),
            [] => {}
            line => {
                let Described {
                    column_name,
                    column_type,
                } = serde_json::from_slice(line).map_err(|_| unread())?;
                columns.push(Column {
                    name: column_name,
                    type_name: column_type.to_ascii_lowercase(),
                });
            }
        }
        if columns.len() > COLUMNS_MAX {
            return Err(SourceError::TooLarge(format!(
                "the result has more than {COLUMNS_MAX} columns; select only the ones you need"
            )));
        }
    }
    Err(unread())
}

pub(super) async fn rows(
    lines: &mut (impl AsyncBufRead + Unpin),
    columns: Vec<Column>,
    bounds: Bounds,
) -> Result<Rows, SourceError> {
    let width = columns.len();
    // Of a row as text: names are in each, and quotes are escaped.
    let names: usize = columns.iter().map(|column| column.name.len() * 2 + 4).sum();
    let largest = bounds.max_bytes.saturating_mul(2).saturating_add(names);
    let mut collected = Collected::new(bounds, columns);
    while let Some(line) = line(lines, largest).await? {
        if line.is_empty() {
            continue;
        }
        let Cells(row) = serde_json::from_slice(&line).map_err(|_| {
            SourceError::Failed(
                "a row contains a value that JSON cannot represent, such as Infinity or NaN; cast it to text"
                    .to_owned(),
            )
        })?;
        if row.len() != width {
            return Err(SourceError::Failed(
                "only one statement at a time is allowed; send the statements one after the other".to_owned(),
            ));
        }
        if !collected.take(row) {
            if collected.rows.rows.is_empty() && bounds.max_rows > 0 {
                return Err(SourceError::too_large(bounds.max_bytes));
            }
            break;
        }
    }
    Ok(collected.rows)
}

/// Reads a plan, one row per line.
pub(super) async fn text(lines: &mut (impl AsyncBufRead + Unpin), bounds: Bounds) -> Result<Rows, SourceError> {
    let column = Column {
        name: "plan".to_owned(),
        type_name: "varchar".to_owned(),
    };
    let mut collected = Collected::new(bounds, vec![column]);
    while let Some(line) = line(lines, bounds.max_bytes).await? {
        if !collected.take(vec![String::from_utf8_lossy(&line).into_owned().into()]) {
            break;
        }
    }
    Ok(collected.rows)
}

/// The values of an object in order: two columns may share a name.
struct Cells(Vec<Value>);

impl<'de> Deserialize<'de> for Cells {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;
        impl<'de> Visitor<'de> for Object {
            type Value = Cells;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("a row")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Cells, A::Error> {
                let mut cells = Vec::new();
                while let Some((_, value)) = map.next_entry::<String, Value>()? {
                    cells.push(value);
                }
                Ok(Cells(cells))
            }
        }
        deserializer.deserialize_map(Object)
    }
}
