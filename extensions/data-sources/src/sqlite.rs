//! SQLite: a file in its workspace's folder, queried in a separate process. Called by `sources`.
//!
//! - `process`  starts that process, sends it the task, and ends it
//! - `child`    the process: system limits, then the task
//! - `engine`   SQLite itself, confined
//! - `tables`   the tables of a join
//! - `cells`    transfer of values
//!
//! Invariant: this process opens no database. No query can exhaust its memory or write a file in its name.

use std::sync::Arc;

use async_trait::async_trait;
use rejoin_integrations::data_sources::Settings;
use serde_json::{Value, json};

pub(crate) mod cells;
pub mod child;
pub(crate) mod engine;
pub(crate) mod process;
pub(crate) mod tables;

use self::engine::On;
use self::process::{Program, Statement};
use crate::folders::Folder;
use crate::source::{Access, Bounds, Question, Rows, Source, SourceError, Table, Tested, no_table, table_schema};

pub struct Sqlite {
    settings: Settings,
    program: Program,
    folder: Arc<Folder>,
    /// Limits of metadata queries.
    look: Bounds,
}

impl Sqlite {
    pub(crate) fn new(settings: Settings, program: Program, folder: Arc<Folder>, look: Bounds) -> Self {
        Self {
            settings,
            program,
            folder,
            look,
        }
    }

    async fn ask(
        &self,
        access: Access,
        bounds: Bounds,
        query: &str,
        arguments: Vec<String>,
    ) -> Result<Rows, SourceError> {
        let path = self.folder.file(self.settings.path.as_deref().unwrap_or_default())?;
        let statement = Statement {
            on: On::File(path),
            query: query.to_owned(),
            arguments,
            access,
            bounds,
            value_max_bytes: bounds.max_bytes,
        };
        self.program.ask(statement).await
    }

    /// Runs a metadata statement of ours.
    async fn look(&self, query: &str, arguments: Vec<String>) -> Result<Rows, SourceError> {
        self.ask(Access::Reads, self.look, query, arguments).await
    }
}

#[async_trait]
impl Source for Sqlite {
    async fn test(&self) -> Result<Tested, SourceError> {
        let rows = self
            .look("select sqlite_version(), count(*) from sqlite_schema", Vec::new())
            .await?;
        let version = rows.rows.first().and_then(|row| row[0].as_str()).unwrap_or_default();
        Ok(Tested {
            server: format!("SQLite {version}"),
            warnings: Vec::new(),
        })
    }

    async fn databases(&self) -> Result<Vec<String>, SourceError> {
        Ok(vec!["main".to_owned()])
    }

    async fn tables(&self, _: Option<&str>) -> Result<Vec<Table>, SourceError> {
        const TABLES: &str = "select name, type from sqlite_schema where type in ('table', 'view') and name not like 'sqlite_%' order by name limit 5000";
        let rows = self.look(TABLES, Vec::new()).await?;
        let table = |row: &Vec<Value>| Table {
            name: row[0].as_str().unwrap_or_default().to_owned(),
            kind: row[1].as_str().unwrap_or_default().to_owned(),
            rows: None,
        };
        Ok(rows.rows.iter().map(table).collect())
    }

    async fn schema(&self, _: Option<&str>, table: &str) -> Result<Value, SourceError> {
        const COLUMNS: &str = "
            select c.name, c.type, c.\"notnull\", c.pk, group_concat(distinct f.\"table\")
            from pragma_table_xinfo(?1) c left join pragma_foreign_key_list(?1) f on f.\"from\" = c.name
            group by c.cid order by c.cid limit 1001";
        let rows = self.look(COLUMNS, vec![table.trim_matches('"').to_owned()]).await?;
        let is = |value: &Value| value.as_i64().is_some_and(|number| number > 0);
        let column = |row: Vec<Value>| {
            let [name, kind, not_null, key, references] = <[Value; 5]>::try_from(row).unwrap_or_default();
            json!({
                "name": name, "type": kind, "nullable": !is(&not_null), "primaryKey": is(&key), "comment": null,
                "references": references,
            })
        };
        if rows.rows.is_empty() {
            Err(no_table(table))
        } else {
            Ok(table_schema(table, rows.rows.into_iter().map(column).collect()))
        }
    }

    async fn execute(&self, question: &Question<'_>) -> Result<Rows, SourceError> {
        self.ask(question.access, question.bounds, question.query, Vec::new())
            .await
    }

    async fn explain(&self, question: &Question<'_>) -> Result<Value, SourceError> {
        let query = format!("explain query plan {}", question.query);
        let rows = self.ask(Access::Reads, question.bounds, &query, Vec::new()).await?;
        let lines = rows.rows.iter().filter_map(|row| row.last().cloned());
        Ok(json!({ "plan": lines.collect::<Vec<Value>>() }))
    }
}
