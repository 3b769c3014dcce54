//! Runs a join: checks all statements, queries the sources, and reads their results in SQLite. Called by `join`'s callers as
//! [`Sources::join`].

use std::collections::HashSet;
use std::time::{Duration, Instant};

use futures::future::{join_all, try_join_all};
use rejoin_db::rls;
use rejoin_integrations::data_sources::Kind;
use serde_json::Value;
use sqlx::PgPool;

use super::{JOINED_COLUMNS_MAX, Join, JoinBounds, JoinError, Joined, NAME_MAX_BYTES, Part, QUERIES_MAX, QUERIES_MIN};
use crate::guard;
use crate::source::{Access, Bounds, Column, Rows, SourceError};
use crate::sources::{Ask, Opened, Sources};
use crate::sqlite::cells::Sent;
use crate::sqlite::engine::On;
use crate::sqlite::process::Statement;
use crate::sqlite::tables::Table;

/// Timeout of the joining statement alone.
const TIMEOUT: Duration = Duration::from_secs(10);

impl Sources {
    /// Queries several sources concurrently, and joins their results by a reading SQLite statement.
    ///
    /// # Errors
    /// One of the statements is refused or fails: then the others are ended.
    pub async fn join(
        &self,
        db: &PgPool,
        scope: rls::Scope,
        parts: &[Part<'_>],
        sql: &str,
        wanted: JoinBounds,
    ) -> Result<Join, JoinError> {
        let begun = Instant::now();
        check_names(parts).map_err(|fault| JoinError::new("queries", SourceError::Refused(fault)))?;
        guard::check(Kind::Sqlite, sql).map_err(|fault| JoinError::of_sql(SourceError::Refused(fault)))?;
        let mut opened = Vec::with_capacity(parts.len());
        for (part, source) in parts
            .iter()
            .zip(join_all(parts.iter().map(|part| self.open(db, scope, part.source))).await)
        {
            let source = source.map_err(|error| JoinError::of_query(part.name, error))?;
            source
                .guarded(part.database, part.query)
                .map_err(|error| JoinError::of_query(part.name, error))?;
            opened.push(source);
        }
        let asked = parts
            .iter()
            .zip(&opened)
            .map(|(part, source)| ask(part, source, wanted.timeout));
        let (queries, tables): (Vec<Joined>, Vec<Rows>) = try_join_all(asked).await?.into_iter().unzip();

        let statement = Statement {
            on: On::Tables(named(&queries, tables)),
            query: sql.to_owned(),
            arguments: Vec::new(),
            access: Access::Reads,
            bounds: self.join_bounds(wanted, begun),
            value_max_bytes: self.means.bounds.max_bytes,
        };
        let rows = self.means.drivers.sqlite.ask(statement).await;
        let note = note(&queries);
        Ok(Join {
            rows: rows.map_err(JoinError::of_sql)?,
            partial: note.is_some(),
            note,
            queries,
            elapsed_ms: millis(begun.elapsed()),
        })
    }

    /// Returns the limits of the joining statement.
    fn join_bounds(&self, wanted: JoinBounds, begun: Instant) -> Bounds {
        let most = self.means.bounds;
        let rows = |rows: u32| usize::try_from(rows).unwrap_or(usize::MAX);
        let left = wanted
            .timeout
            .map_or(TIMEOUT, |all| all.saturating_sub(begun.elapsed()));
        Bounds {
            timeout: left.min(TIMEOUT),
            max_rows: wanted
                .max_rows
                .map_or(most.max_rows, |own| rows(own).min(most.max_rows)),
            max_bytes: wanted.max_bytes.map_or(most.max_bytes, |own| own.min(most.max_bytes)),
            max_bytes_billed: 0,
        }
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

async fn ask(part: &Part<'_>, source: &Opened, timeout: Option<Duration>) -> Result<(Joined, Rows), JoinError> {
    let failed = |error| JoinError::of_query(part.name, error);
    let ask = Ask {
        timeout,
        ..Ask::reading(part.database, part.query)
    };
    let answer = source.query(ask).await.map_err(failed)?;
    let rows = answer.rows;
    let columns = columns(&rows).map_err(|fault| failed(SourceError::Failed(fault)))?;
    let joined = Joined {
        name: part.name.to_owned(),
        source: part.source.content.name.clone(),
        columns,
        rows: rows.rows.len(),
        truncated: rows.truncated,
        elapsed_ms: answer.elapsed_ms,
        bytes_billed: rows.bytes_billed,
    };
    Ok((joined, rows))
}

/// Err: what is wrong with the names.
fn check_names(parts: &[Part<'_>]) -> Result<(), String> {
    if !(QUERIES_MIN..=QUERIES_MAX).contains(&parts.len()) {
        return Err(format!(
            "a join needs {QUERIES_MIN} to {QUERIES_MAX} queries, not {}",
            parts.len()
        ));
    }
    let mut taken = HashSet::new();
    for part in parts {
        let name = part.name.to_ascii_lowercase();
        let is_plain = name.starts_with(|first: char| first.is_ascii_alphabetic())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
            && name.len() <= NAME_MAX_BYTES;
        if !is_plain {
            return Err(format!(
                "{:?} is not a valid query name; use letters, digits and _, start with a letter, at most \
                {NAME_MAX_BYTES}",
                part.name
            ));
        }
        if name.starts_with("sqlite_") || name.starts_with("pragma_") || guard::hides_sqlite(&name) {
            return Err(format!("the name {} is reserved by SQLite; choose another", part.name));
        }
        if !taken.insert(name) {
            return Err(format!(
                "two queries are named {}; each query becomes a table and needs a unique name",
                part.name
            ));
        }
    }
    Ok(())
}

/// Returns the columns of a table, with unique names, and the types by which SQLite compares them.
fn columns(rows: &Rows) -> Result<Vec<Column>, String> {
    if rows.columns.is_empty() {
        return Err(
            "its result has no columns, so there is nothing to join: the query found no documents, or returns no rows"
                .to_owned(),
        );
    }
    if rows.columns.len() > JOINED_COLUMNS_MAX {
        return Err(format!(
            "it has more than {JOINED_COLUMNS_MAX} columns; select only the ones you need"
        ));
    }
    let mut taken = HashSet::new();
    let column = |(at, column): (usize, &Column)| {
        let wanted = match column.name.trim() {
            "" => format!("column_{}", at + 1),
            name => name.replace('\0', ""),
        };
        let mut name = wanted.clone();
        let mut number = 1;
        while !taken.insert(name.to_lowercase()) {
            number += 1;
            name = format!("{wanted}_{number}");
        }
        let type_name = affinity(&column.type_name, rows.rows.iter().map(|row| &row[at])).to_owned();
        Column { name, type_name }
    };
    Ok(rows.columns.iter().enumerate().map(column).collect())
}

/// Types of numbers sent as text, since JSON parsers would round them: SQLite treats them as numbers, as exactly as
/// possible.
const NUMBERS: [&str; 6] = ["int", "bigint", "numeric", "decimal", "bignumeric", "number"];

/// Returns SQLite's type affinity: by the values, since databases have many names for a type. Empty: none.
fn affinity<'a>(type_name: &str, values: impl Iterator<Item = &'a Value>) -> &'static str {
    let type_name = type_name.to_ascii_lowercase();
    let word = type_name
        .split(|c: char| !c.is_ascii_alphabetic())
        .next()
        .unwrap_or_default();
    if NUMBERS.contains(&word) {
        return "numeric";
    }
    let (mut whole, mut broken, mut text) = (false, false, false);
    for value in values {
        match Sent::from(value) {
            Sent::Null => {}
            Sent::Whole(_) => whole = true,
            Sent::Real { .. } => broken = true,
            Sent::Text(_) => text = true,
        }
    }
    match (text, broken, whole) {
        (false, true, _) => "real",
        (false, false, true) => "integer",
        (true, false, false) => "text",
        (true, _, _) | (false, false, false) => "",
    }
}

/// Returns the results as tables, by their queries' names.
fn named(queries: &[Joined], answers: Vec<Rows>) -> Vec<Table> {
    let table = |(query, answer): (&Joined, Rows)| Table {
        name: query.name.clone(),
        columns: query.columns.clone(),
        rows: answer
            .rows
            .iter()
            .map(|row| row.iter().map(Sent::from).collect())
            .collect(),
    };
    queries.iter().zip(answers).map(table).collect()
}

/// Returns the note about truncated queries.
fn note(queries: &[Joined]) -> Option<String> {
    let cut: Vec<String> = queries
        .iter()
        .filter(|query| query.truncated)
        .map(|query| format!("the first {} rows of `{}`", query.rows, query.name))
        .collect();
    (!cut.is_empty()).then(|| {
        format!(
            "This result is partial: only {} were joined, and there are more. Rows may be missing, and counts and \
            sums may be too small. Filter or aggregate in the queries and try again.",
            cut.join(" and ")
        )
    })
}

#[cfg(test)]
mod tests;
