//! Cells: several databases, each of which is home to some workspaces. One of them, the directory, has identity (users, members, keys,
//! sessions), the list of the others, and says where each workspace lives. Called by the API, which sends each request to the database of
//! its workspace, and by `rejoin cells`.
//!
//! - `catalogue` the tables of the schema, and which of their rows belong to a workspace
//! - `copying`   copies these rows, and verifies the copy
//! - `holding`   stops changes of a workspace
//! - `mirror`    what a cell has of a workspace's identity
//! - `moving`    moves a workspace, phase by phase
//!
//! Invariant: a workspace lives in one database at a time; which one changes only while it is held.

pub mod catalogue;
pub mod copying;
pub mod holding;
pub mod mirror;
pub mod moving;

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use chrono::{DateTime, Utc};
use rejoin_db::rls;
use serde::Serialize;
use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

/// The name of the directory's own database as a cell.
pub const DIRECTORY: &str = "directory";

rejoin_types::text_enum! {
    /// Whether a cell takes workspaces.
    pub enum CellState {
        Open = "open",
        /// Workspaces leave it, and none is moved to it.
        Draining = "draining",
    }
}

rejoin_types::text_enum! {
    /// Whether a workspace is being moved.
    pub enum PlacementState {
        Placed = "placed",
        /// It is being moved: nothing may be changed.
        Held = "held",
    }
}

/// Where a process finds the URL of a cell's database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UrlSource {
    /// In this environment variable.
    Variable(String),
    /// In the first line of this file.
    File(PathBuf),
}

/// The text is not a source of a URL.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} does not name a source: use env:VARIABLE, or file:/PATH for a file with the URL in its first line")]
pub struct InvalidSource(String);

/// A cell's URL can't be read.
#[derive(Debug, thiserror::Error)]
pub enum UrlError {
    #[error("the environment variable {0} is not set")]
    Variable(String),
    #[error("reading the file {} failed", .0.display())]
    File(PathBuf, #[source] std::io::Error),
    #[error("the file {} is empty", .0.display())]
    Empty(PathBuf),
}

impl FromStr for UrlSource {
    type Err = InvalidSource;

    fn from_str(text: &str) -> Result<Self, InvalidSource> {
        let is_name = |name: &str| {
            !name.is_empty()
                && !name.starts_with(|first: char| first.is_ascii_digit())
                && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        };
        match text.split_once(':') {
            Some(("env", name)) if is_name(name) => Ok(Self::Variable(name.to_owned())),
            Some(("file", path)) if path.len() > 1 && path.starts_with('/') => Ok(Self::File(path.into())),
            Some(_) | None => Err(InvalidSource(text.to_owned())),
        }
    }
}

impl fmt::Display for UrlSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Variable(name) => write!(f, "env:{name}"),
            Self::File(path) => write!(f, "file:{}", path.display()),
        }
    }
}

impl UrlSource {
    /// Reads the URL.
    pub fn read(&self) -> Result<String, UrlError> {
        match self {
            Self::Variable(name) => {
                let url = std::env::var(name).ok().filter(|url| !url.is_empty());
                url.ok_or_else(|| UrlError::Variable(name.clone()))
            }
            Self::File(path) => {
                let text = std::fs::read_to_string(path).map_err(|error| UrlError::File(path.clone(), error))?;
                let url = text.lines().next().map(str::trim).filter(|url| !url.is_empty());
                url.map(str::to_owned).ok_or_else(|| UrlError::Empty(path.clone()))
            }
        }
    }
}

/// A cell as listed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Cell {
    pub name: String,
    /// `env:VARIABLE` or `file:/PATH`.
    pub url_from: String,
    pub state: CellState,
    /// Workspaces that live there.
    #[serde(rename = "projects")]
    pub workspaces: i64,
    pub created_at: DateTime<Utc>,
}

/// Where a workspace lives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    pub workspace_id: Uuid,
    /// None: the directory.
    pub cell: Option<String>,
    pub state: PlacementState,
    /// One more with each change of cell or state.
    pub epoch: i64,
    /// The number of the last change, also of its identity.
    pub version: i64,
}

/// Returns the cells, without the directory, by name.
pub async fn list(db: &mut PgConnection) -> Result<Vec<Cell>, sqlx::Error> {
    let rows = sqlx::query!(
        r#"select c.name, c.url_from, c.state, c.created_at,
                  (select count(*) from cells.placements p where p.cell = c.name) as "workspaces!"
           from cells.cells c order by c.name"#
    )
    .fetch_all(db)
    .await?;
    let cells = rows.into_iter().map(|row| Cell {
        name: row.name,
        url_from: row.url_from,
        state: row.state.parse().unwrap_or(CellState::Draining),
        workspaces: row.workspaces,
        created_at: row.created_at,
    });
    Ok(cells.collect())
}

/// Adds a cell, or changes where its URL is found.
pub async fn add(db: &mut PgConnection, name: &str, url_from: &UrlSource) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "insert into cells.cells (name, url_from) values ($1, $2)
         on conflict (name) do update set url_from = excluded.url_from",
        name,
        url_from.to_string()
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Sets whether a cell takes workspaces; false if it does not exist.
pub async fn set_state(db: &mut PgConnection, name: &str, state: CellState) -> Result<bool, sqlx::Error> {
    let set = sqlx::query!(
        "update cells.cells set state = $2 where name = $1",
        name,
        state.as_str()
    );
    Ok(set.execute(db).await?.rows_affected() > 0)
}

/// Returns what tells a database from all others, whatever its URL.
pub async fn database_id(db: &PgPool) -> Result<String, sqlx::Error> {
    sqlx::query_scalar!(
        r#"select (select system_identifier from pg_control_system())::text || '/'
                  || (select oid from pg_database where datname = current_database())::text as "id!""#
    )
    .fetch_one(db)
    .await
}

/// Returns whether `name` can be the name of a cell.
pub fn is_name(name: &str) -> bool {
    let mut letters = name.chars();
    name != DIRECTORY
        && name.len() <= 32
        && letters.next().is_some_and(|first| first.is_ascii_lowercase())
        && letters.all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
}

/// Returns the workspaces that live on a cell, oldest first. None: on the directory.
pub async fn workspaces_of(db: &mut PgConnection, cell: Option<&str>) -> Result<Vec<Uuid>, sqlx::Error> {
    sqlx::query_scalar!(
        "select w.id from kb.projects w left join cells.placements p on p.project_id = w.id
         where p.cell is not distinct from $1 order by w.created_at, w.id",
        cell
    )
    .fetch_all(db)
    .await
}

/// What a process of the API reads again and again: as the role that finds out who calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changes {
    /// All cells: name and the source of the URL.
    pub cells: Vec<(String, String)>,
    /// Placements with a newer version, and those of the last minute.
    pub placements: Vec<Placement>,
}

/// Returns what has changed after a version.
pub async fn changes(db: &PgPool, after: i64) -> Result<Changes, sqlx::Error> {
    let mut db = rls::begin(db, rls::Scope::Login).await?;
    let cells = sqlx::query!("select name, url_from from cells.cells order by name")
        .fetch_all(&mut *db)
        .await?;
    // Versions are taken before their commit: a newer one may be seen earlier than an older one.
    let rows = sqlx::query!(
        "select project_id, cell, state, epoch, version from cells.placements
         where version > $1 or changed_at > now() - interval '1 minute' order by version",
        after
    )
    .fetch_all(&mut *db)
    .await?;
    let placements = rows.into_iter().map(|row| Placement {
        workspace_id: row.project_id,
        cell: row.cell,
        state: row.state.parse().unwrap_or(PlacementState::Held),
        epoch: row.epoch,
        version: row.version,
    });
    Ok(Changes {
        cells: cells.into_iter().map(|row| (row.name, row.url_from)).collect(),
        placements: placements.collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_names_a_variable_or_a_file() {
        for text in ["env:CELL_B_URL", "file:/run/secrets/cell-b"] {
            let source: UrlSource = text.parse().expect("a source");
            assert_eq!(source.to_string(), text);
        }
        for text in [
            "",
            "env:",
            "env:1A",
            "env:A B",
            "file:",
            "file:/",
            "file:b",
            "postgres://u:p@h/d",
        ] {
            assert!(text.parse::<UrlSource>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_cell_has_a_short_plain_name() {
        for name in ["b", "cell-2", "eu-west-1"] {
            assert!(is_name(name), "{name}");
        }
        for name in ["", "directory", "B", "2b", "a_b", "a b", &"a".repeat(33)] {
            assert!(!is_name(name), "{name}");
        }
    }
}
