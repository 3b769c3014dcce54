//! Runs statements and reads their results: by a cursor, as text, or with the number of changed rows. Called by
//! `postgresql`.

use futures::TryStreamExt;
use serde_json::Value;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, SimpleQueryMessage};

use super::Postgresql;
use crate::source::{Bounds, Collected, Column, Question, Rows, SourceError};

/// Number of rows per FETCH.
const FETCH_ROWS: usize = 200;

impl Postgresql {
    /// Uses a cursor, which only a query can have.
    pub(super) async fn fetch(&self, client: &Client, question: &Question<'_>) -> Result<Rows, SourceError> {
        let bounds = question.bounds;
        let failed = |error: tokio_postgres::Error| self.failure(&error, &bounds);
        let described = client.prepare(question.query).await.map_err(failed)?;
        if !described.params().is_empty() {
            return Err(SourceError::Failed(
                "the query has parameters ($1 …); write the values into the query".to_owned(),
            ));
        }
        let columns: Vec<Column> = described
            .columns()
            .iter()
            .map(|column| Column {
                name: column.name().to_owned(),
                type_name: column.type_().name().to_owned(),
            })
            .collect();
        let types: Vec<Type> = described
            .columns()
            .iter()
            .map(|column| column.type_().clone())
            .collect();
        let declared = client
            .prepare(&format!("declare rejoin no scroll cursor for {}", question.query))
            .await
            .map_err(failed)?;
        client.execute(&declared, &[]).await.map_err(failed)?;
        let mut collected = Collected::new(bounds, columns);
        loop {
            let wanted = collected.room().min(FETCH_ROWS);
            let stream = client
                .simple_query_raw(&format!("fetch forward {wanted} from rejoin"))
                .await
                .map_err(failed)?;
            let mut stream = std::pin::pin!(stream);
            let mut came = 0;
            let mut is_full = false;
            while let Some(message) = stream.try_next().await.map_err(failed)? {
                if let SimpleQueryMessage::Row(row) = message {
                    came += 1;
                    let values = (0..row.len()).map(|at| value(row.get(at), types.get(at)));
                    // Requested rows still arrive.
                    is_full = is_full || !collected.take(values.collect());
                }
            }
            if is_full || came < wanted {
                return Ok(collected.rows);
            }
        }
    }

    /// EXPLAIN and SHOW: their results are text.
    pub(super) async fn text_rows(&self, client: &Client, sql: &str, bounds: Bounds) -> Result<Rows, SourceError> {
        let failed = |error: tokio_postgres::Error| self.failure(&error, &bounds);
        let described = client.prepare(sql).await.map_err(failed)?;
        let columns = described
            .columns()
            .iter()
            .map(|column| Column {
                name: column.name().to_owned(),
                type_name: column.type_().name().to_owned(),
            })
            .collect();
        let mut collected = Collected::new(bounds, columns);
        let stream = client
            .query_raw(&described, std::iter::empty::<&str>())
            .await
            .map_err(failed)?;
        let mut stream = std::pin::pin!(stream);
        while let Some(row) = stream.try_next().await.map_err(failed)? {
            let values = (0..row.len())
                .map(|at| {
                    let document = row.try_get::<_, Value>(at).ok();
                    document.unwrap_or_else(|| row.try_get::<_, Option<String>>(at).ok().flatten().into())
                })
                .collect();
            if !collected.take(values) {
                break;
            }
        }
        Ok(collected.rows)
    }

    /// Runs one statement that may write, checked to be a single one.
    pub(super) async fn write(&self, client: &Client, question: &Question<'_>) -> Result<Rows, SourceError> {
        let bounds = question.bounds;
        let failed = |error: tokio_postgres::Error| self.failure(&error, &bounds);
        let described = client.prepare(question.query).await.map_err(failed)?;
        let types: Vec<Type> = described
            .columns()
            .iter()
            .map(|column| column.type_().clone())
            .collect();
        let columns = described
            .columns()
            .iter()
            .map(|column| Column {
                name: column.name().to_owned(),
                type_name: column.type_().name().to_owned(),
            })
            .collect();
        let mut collected = Collected::new(bounds, columns);
        let stream = client.simple_query_raw(question.query).await.map_err(failed)?;
        let mut stream = std::pin::pin!(stream);
        while let Some(message) = stream.try_next().await.map_err(failed)? {
            match message {
                SimpleQueryMessage::Row(row) => {
                    collected.take((0..row.len()).map(|at| value(row.get(at), types.get(at))).collect());
                }
                SimpleQueryMessage::CommandComplete(rows) => collected.rows.affected_rows = Some(rows),
                _ => {}
            }
        }
        Ok(collected.rows)
    }
}

/// Converts a value in PostgreSQL's text format to JSON. Numbers that JSON parsers would round stay strings.
fn value(text: Option<&str>, kind: Option<&Type>) -> Value {
    let Some(text) = text else { return Value::Null };
    let parsed = match kind {
        Some(&Type::BOOL) => Some(Value::Bool(text == "t")),
        Some(&Type::INT2 | &Type::INT4 | &Type::INT8 | &Type::OID) => text.parse::<i64>().ok().map(Value::from),
        Some(&Type::FLOAT4 | &Type::FLOAT8) => text
            .parse::<f64>()
            .ok()
            .and_then(serde_json::Number::from_f64)
            .map(Value::Number),
        Some(&Type::JSON | &Type::JSONB) => serde_json::from_str(text).ok(),
        _ => None,
    };
    parsed.unwrap_or_else(|| Value::from(text))
}
