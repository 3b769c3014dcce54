//! What the operator sets about data sources, for the API and for workers alike.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::bigquery;
use crate::source::Bounds;
use crate::sqlite::process;

/// How a process asks sources.
#[derive(Debug, Clone, Args)]
pub struct SourceArgs {
    /// Hosts of this machine or of private networks that projects' data sources may be on: names and addresses, with globs, separated by commas
    #[arg(long, env = "REJOIN_SOURCE_HOSTS", value_delimiter = ',')]
    pub source_hosts: Vec<String>,

    /// DuckDB's program, by which DuckDB files are asked; without it there are no such sources
    #[arg(long, env = "REJOIN_DUCKDB")]
    pub source_duckdb: Option<PathBuf>,

    /// Folders with a folder of each project, named by its id, whose SQLite and DuckDB files may be the project's data sources; separated by commas
    #[arg(long, env = "REJOIN_SOURCE_FOLDERS", value_delimiter = ',')]
    pub source_folders: Vec<PathBuf>,

    /// The `rejoin` that asks SQLite files, and computes joins, in processes of its own; without it, the program that runs
    #[arg(long, env = "REJOIN_SOURCE_SQLITE_PROGRAM")]
    pub source_sqlite_program: Option<PathBuf>,

    /// Processes that ask SQLite at a time, of one process of Rejoin; the next question waits
    #[arg(long, env = "REJOIN_SOURCE_SQLITE_PROCESSES", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub source_sqlite_processes: u16,

    /// Memory that one question to SQLite, or one join, may take [MiB]
    #[arg(long, env = "REJOIN_SOURCE_SQLITE_MEMORY_MB", default_value_t = 256, value_parser = clap::value_parser!(u64).range(16..=65_536))]
    pub source_sqlite_memory_mb: u64,

    /// A SQLite file that may be written to grows to this, at most [MiB]
    #[arg(long, env = "REJOIN_SOURCE_SQLITE_FILE_MB", default_value_t = 1_024, value_parser = clap::value_parser!(u64).range(1..=1_048_576))]
    pub source_sqlite_file_mb: u64,

    /// Questions that one process asks one data source at a time; each takes a connection
    #[arg(long, env = "REJOIN_SOURCE_CONNECTIONS", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=100))]
    pub source_connections: u16,

    /// A data source that nobody asks for this long is disconnected [seconds]
    #[arg(long, env = "REJOIN_SOURCE_IDLE_S", default_value_t = 300)]
    pub source_idle_s: u64,

    /// A query of a data source that takes longer is ended, on its server, too [seconds]
    #[arg(long, env = "REJOIN_SOURCE_TIMEOUT_S", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=600))]
    pub source_timeout_s: u64,

    /// Rows of a query's answer, at most
    #[arg(long, env = "REJOIN_SOURCE_MAX_ROWS", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub source_max_rows: u32,

    /// Values of a query's answer, at most [KiB]
    #[arg(long, env = "REJOIN_SOURCE_MAX_KB", default_value_t = 1_024, value_parser = clap::value_parser!(u32).range(1..=16_384))]
    pub source_max_kb: u32,

    /// What a query of BigQuery may be billed for, at most [MiB]
    #[arg(long, env = "REJOIN_SOURCE_MAX_BILLED_MB", default_value_t = 1_024)]
    pub source_max_billed_mb: u64,

    /// Where Google gives tokens to BigQuery's service accounts
    #[arg(long, env = "REJOIN_SOURCE_GOOGLE_TOKEN_URL", default_value = bigquery::TOKEN_URL)]
    pub source_google_token_url: String,

    /// A schema that was read this long ago is read again [seconds]
    #[arg(long, env = "REJOIN_SOURCE_SCHEMA_AGE_S", default_value_t = 3_600, value_parser = clap::value_parser!(i32).range(0..))]
    pub source_schema_age_s: i32,

    /// Queries that answered a question, remembered of each user of a project and told to agents with the next question; 0: none
    #[arg(long, env = "REJOIN_SOURCE_PATTERNS", default_value_t = 200, value_parser = clap::value_parser!(u32).range(0..=10_000))]
    pub source_patterns: u32,
}

impl Default for SourceArgs {
    fn default() -> Self {
        Self {
            source_hosts: Vec::new(),
            source_folders: Vec::new(),
            source_duckdb: None,
            source_sqlite_program: None,
            source_sqlite_processes: 4,
            source_sqlite_memory_mb: 256,
            source_sqlite_file_mb: 1_024,
            source_connections: 4,
            source_idle_s: 300,
            source_timeout_s: 60,
            source_max_rows: 1_000,
            source_max_kb: 1_024,
            source_max_billed_mb: 1_024,
            source_google_token_url: bigquery::TOKEN_URL.to_owned(),
            source_schema_age_s: 3_600,
            source_patterns: 200,
        }
    }
}

impl SourceArgs {
    /// What SQLite's processes may use.
    pub(super) fn sqlite(&self) -> process::Allowed {
        let bytes = |mib: u64| mib.saturating_mul(1024 * 1024);
        process::Allowed {
            processes: usize::from(self.source_sqlite_processes),
            memory_bytes: bytes(self.source_sqlite_memory_mb),
            file_bytes: bytes(self.source_sqlite_file_mb),
        }
    }

    /// What the operator allows; a source's own limits may be narrower.
    pub(super) fn bounds(&self) -> Bounds {
        let whole = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
        Bounds {
            timeout: Duration::from_secs(self.source_timeout_s),
            max_rows: whole(self.source_max_rows),
            max_bytes: whole(self.source_max_kb).saturating_mul(1024),
            max_bytes_billed: self.source_max_billed_mb.saturating_mul(1024 * 1024),
        }
    }
}
