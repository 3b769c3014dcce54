//! DuckDB: a file in its workspace's folder, queried by DuckDB's own program, one process per query. Its library takes
//! very long to compile; its program is small, and can be confined: it opens the file read-only, and its safe mode
//! locks the settings, opens no other file, loads no extension and starts no program. Called by `sources`.
//!
//! - `output` reads what the program writes
//!
//! Invariant: the process ends with its query: when it is answered, when enough rows were read, and when the caller
//! stops waiting.

mod output;

use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;

use async_trait::async_trait;
use rejoin_integrations::data_sources::Settings;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::Command;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use self::output::{MARK, columns, fault, rows, text};
use crate::folders::Folder;
use crate::source::{
    Access, Bounds, COLUMNS_MAX, LISTED_MAX, Question, Rows, Source, SourceError, Table, Tested, no_table, table_schema,
};

/// Maximum number of concurrent DuckDB processes; the next query waits.
const AT_A_TIME: usize = 4;
/// Memory and thread limits of each. Nothing is spilled to disk.
const LIMITS: &str = "set memory_limit = '512MB'; set threads = 2; set temp_directory = '';";

/// Maximum size of the program's error message, in bytes.
const FAULT_MAX_BYTES: u64 = 4 * 1024;

/// DuckDB's program, as configured by the operator.
#[derive(Clone)]
pub struct Program {
    path: Option<PathBuf>,
    places: Arc<Semaphore>,
}

impl Program {
    /// None: not configured, which DuckDB sources report.
    pub fn new(path: Option<PathBuf>) -> Self {
        Self {
            path: path.filter(|path| !path.as_os_str().is_empty()),
            places: Arc::new(Semaphore::new(AT_A_TIME)),
        }
    }
}

pub struct Duckdb {
    settings: Settings,
    program: Program,
    folder: Arc<Folder>,
    /// Limits of metadata queries.
    look: Bounds,
}

/// The program's output: lines of a result, or text.
enum OutputKind {
    Rows,
    Text,
}

impl Duckdb {
    pub fn new(settings: Settings, program: Program, folder: Arc<Folder>, look: Bounds) -> Self {
        Self {
            settings,
            program,
            folder,
            look,
        }
    }

    /// Runs a query within the limits. The program rejects multiple or writing statements.
    async fn ask(&self, query: &str, output: OutputKind, bounds: Bounds) -> Result<Rows, SourceError> {
        let asking = self.process(query, output, bounds);
        let late = || SourceError::TimedOut(u64::try_from(bounds.timeout.as_millis()).unwrap_or(u64::MAX));
        timeout(bounds.timeout, asking).await.unwrap_or_else(|_| Err(late()))
    }

    async fn process(&self, query: &str, output: OutputKind, bounds: Bounds) -> Result<Rows, SourceError> {
        let program = self.program.path.as_deref().ok_or_else(|| {
            SourceError::Unconfigured(
                "DuckDB sources need the DuckDB program; the operator must install it and set REJOIN_DUCKDB for the \
                API and workers"
                    .to_owned(),
            )
        })?;
        let file = self.folder.file(self.settings.path.as_deref().unwrap_or_default())?;
        // The semaphore is never closed.
        let _place = self.program.places.acquire().await;
        let unstarted = |error: std::io::Error| {
            SourceError::Unconfigured(format!(
                "running the DuckDB program {} failed: {error}",
                program.display()
            ))
        };
        let mut child = Command::new(program)
            .args(["-readonly", "-jsonlines", "-no-init", "-batch", "-bail"])
            .args(["-cmd", LIMITS, "-cmd", ".safe_mode"])
            .arg(file)
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(unstarted)?;
        let (Some(mut stdin), Some(stdout), Some(stderr)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(SourceError::Failed(
                "the pipes to the DuckDB process are not available".to_owned(),
            ));
        };
        // On a separate line: the query may end with a comment.
        let query = query.trim().trim_end_matches(';');
        let script = match output {
            OutputKind::Rows => format!("describe {query}\n;\n.print {MARK}\n{query}\n;\n"),
            OutputKind::Text => format!(".print {MARK}\n{query}\n;\n"),
        };
        let feed = async move {
            // A program that has ended explains why itself.
            let _ended = stdin.write_all(script.as_bytes()).await;
        };
        let complaint = async move {
            let mut text = Vec::new();
            let _read = stderr.take(FAULT_MAX_BYTES).read_to_end(&mut text).await;
            String::from_utf8_lossy(&text).trim().to_owned()
        };
        let answer = async {
            let mut lines = BufReader::new(stdout);
            let columns = columns(&mut lines).await?;
            match output {
                OutputKind::Rows => rows(&mut lines, columns, bounds).await,
                OutputKind::Text => text(&mut lines, bounds).await,
            }
        };
        let fed = async {
            let ((), answered) = tokio::join!(feed, answer);
            match answered {
                // Enough rows were read.
                Ok(answered) if answered.truncated => Some(Ok(answered)),
                Err(error) => {
                    // Its output so far is still read.
                    let _ended = child.start_kill();
                    Some(Err(error))
                }
                Ok(answered) => {
                    let ended = child.wait().await.is_ok_and(|status| status.success());
                    ended.then_some(Ok(answered))
                }
            }
        };
        let mut complaint = std::pin::pin!(complaint);
        let mut fed = std::pin::pin!(fed);
        tokio::select! {
            biased;
            answered = &mut fed => match answered {
                Some(Ok(answered)) => Ok(answered),
                Some(Err(error @ SourceError::TooLarge(_))) => Err(error),
                // Its own message says more than the missing result.
                Some(Err(error)) => Err(fault(&complaint.await).unwrap_or(error)),
                None => Err(fault(&complaint.await).unwrap_or_else(silent)),
            },
            complaint_text = &mut complaint => match fed.await {
                Some(Ok(answered)) => Ok(answered),
                Some(Err(error)) => Err(fault(&complaint_text).unwrap_or(error)),
                None => Err(fault(&complaint_text).unwrap_or_else(silent)),
            },
        }
    }
}

fn silent() -> SourceError {
    SourceError::Failed("the DuckDB process ended without output".to_owned())
}

fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

fn word(row: &[Value], at: usize) -> String {
    row.get(at).and_then(Value::as_str).unwrap_or_default().to_owned()
}

#[async_trait]
impl Source for Duckdb {
    async fn test(&self) -> Result<Tested, SourceError> {
        let rows = self.ask("select version()", OutputKind::Rows, self.look).await?;
        let version = rows.rows.first().map(|row| word(row, 0)).unwrap_or_default();
        Ok(Tested {
            server: format!("DuckDB {version}"),
            warnings: Vec::new(),
        })
    }

    async fn databases(&self) -> Result<Vec<String>, SourceError> {
        Ok(vec!["main".to_owned()])
    }

    async fn tables(&self, _: Option<&str>) -> Result<Vec<Table>, SourceError> {
        let query = format!(
            "select case table_schema when 'main' then table_name else table_schema || '.' || table_name end,
                    case table_type when 'VIEW' then 'view' else 'table' end
             from information_schema.tables where table_catalog = current_database() order by 1 limit {LISTED_MAX}"
        );
        let rows = self.ask(&query, OutputKind::Rows, self.look).await?;
        let table = |row: &Vec<Value>| Table {
            name: word(row, 0),
            kind: word(row, 1),
            rows: None,
        };
        Ok(rows.rows.iter().map(table).collect())
    }

    async fn schema(&self, _: Option<&str>, table: &str) -> Result<Value, SourceError> {
        let plain = table.replace('"', "");
        let (schema, name) = plain.split_once('.').unwrap_or(("main", &plain));
        let (schema, name) = (literal(schema), literal(name));
        let query = format!(
            "select c.column_name, lower(c.data_type), c.is_nullable, coalesce(list_contains(k.constraint_column_names, c.column_name), false), c.comment
             from duckdb_columns() c left join duckdb_constraints() k
               on k.table_oid = c.table_oid and k.database_oid = c.database_oid and k.constraint_type = 'PRIMARY KEY'
             where c.database_name = current_database() and c.schema_name = {schema} and c.table_name = {name}
             order by c.column_index limit {}",
            COLUMNS_MAX + 1
        );
        let rows = self.ask(&query, OutputKind::Rows, self.look).await?;
        let column = |row: Vec<Value>| {
            let [name, kind, nullable, key, comment] = <[Value; 5]>::try_from(row).unwrap_or_default();
            json!({ "name": name, "type": kind, "nullable": nullable, "primaryKey": key, "comment": comment, "references": null })
        };
        let columns: Vec<Value> = rows.rows.into_iter().map(column).collect();
        if columns.is_empty() {
            Err(no_table(table))
        } else {
            Ok(table_schema(table, columns))
        }
    }

    async fn execute(&self, question: &Question<'_>) -> Result<Rows, SourceError> {
        if question.access == Access::Writes {
            return Err(SourceError::Refused("a DuckDB source is read-only".to_owned()));
        }
        self.ask(question.query, OutputKind::Rows, question.bounds).await
    }

    async fn explain(&self, question: &Question<'_>) -> Result<Value, SourceError> {
        let query = format!("explain {}", question.query);
        let rows = self.ask(&query, OutputKind::Text, question.bounds).await?;
        let lines: Vec<String> = rows.rows.iter().map(|row| word(row, 0)).collect();
        Ok(json!({ "plan": lines.join("\n") }))
    }
}
