//! The operator's settings of data sources, for the API and for workers.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::source::Bounds;
#[cfg(feature = "sqlite")]
use crate::sqlite::process;

/// The token endpoint of Google's service accounts.
const GOOGLE_TOKEN_URL: &str = "https://oauth2.googleapis.com/token";

/// How a process asks sources.
#[derive(Debug, Clone, Args)]
pub struct SourceArgs {
    /// Hosts on this machine or in private networks that data sources may use: comma-separated names, addresses and
    /// glob patterns
    #[arg(long, env = "REJOIN_SOURCE_HOSTS", value_delimiter = ',')]
    pub source_hosts: Vec<String>,

    /// Path of the DuckDB program, which runs queries on DuckDB files; without it, DuckDB sources are not available
    #[arg(long, env = "REJOIN_DUCKDB")]
    pub source_duckdb: Option<PathBuf>,

    /// Comma-separated folders that contain one folder per project, named by the project's id, whose SQLite and DuckDB
    /// files may be used as data sources
    #[arg(long, env = "REJOIN_SOURCE_FOLDERS", value_delimiter = ',')]
    pub source_folders: Vec<PathBuf>,

    /// Path of the `rejoin` program that is run as a child process for SQLite files and joins [default: the running
    /// program]
    #[arg(long, env = "REJOIN_SOURCE_SQLITE_PROGRAM")]
    pub source_sqlite_program: Option<PathBuf>,

    /// Maximum number of concurrent SQLite child processes per Rejoin process; further queries wait
    #[arg(long, env = "REJOIN_SOURCE_SQLITE_PROCESSES", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub source_sqlite_processes: u16,

    /// Memory limit of one SQLite query or one join, in MiB
    #[arg(long, env = "REJOIN_SOURCE_SQLITE_MEMORY_MB", default_value_t = 256, value_parser = clap::value_parser!(u64).range(16..=65_536))]
    pub source_sqlite_memory_mb: u64,

    /// Maximum size of a writable SQLite file, in MiB
    #[arg(long, env = "REJOIN_SOURCE_SQLITE_FILE_MB", default_value_t = 1_024, value_parser = clap::value_parser!(u64).range(1..=1_048_576))]
    pub source_sqlite_file_mb: u64,

    /// Maximum number of concurrent queries, and so connections, per data source and process
    #[arg(long, env = "REJOIN_SOURCE_CONNECTIONS", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=100))]
    pub source_connections: u16,

    /// Time after which an unused connection to a data source is closed, in seconds
    #[arg(long, env = "REJOIN_SOURCE_IDLE_S", default_value_t = 300)]
    pub source_idle_s: u64,

    /// Timeout of a query, in seconds; the query is also cancelled on its server
    #[arg(long, env = "REJOIN_SOURCE_TIMEOUT_S", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=600))]
    pub source_timeout_s: u64,

    /// Maximum number of rows in a query's result
    #[arg(long, env = "REJOIN_SOURCE_MAX_ROWS", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub source_max_rows: u32,

    /// Maximum size of the values in a query's result, in KiB
    #[arg(long, env = "REJOIN_SOURCE_MAX_KB", default_value_t = 1_024, value_parser = clap::value_parser!(u32).range(1..=16_384))]
    pub source_max_kb: u32,

    /// Maximum data a BigQuery query may be billed for, in MiB
    #[arg(long, env = "REJOIN_SOURCE_MAX_BILLED_MB", default_value_t = 1_024)]
    pub source_max_billed_mb: u64,

    /// Google's token endpoint for BigQuery service accounts
    #[arg(long, env = "REJOIN_SOURCE_GOOGLE_TOKEN_URL", default_value = GOOGLE_TOKEN_URL)]
    pub source_google_token_url: String,

    /// Time after which a cached schema is read again, in seconds
    #[arg(long, env = "REJOIN_SOURCE_SCHEMA_AGE_S", default_value_t = 3_600, value_parser = clap::value_parser!(i32).range(0..))]
    pub source_schema_age_s: i32,

    /// Successful queries remembered per user and project, which agents see with the next question; 0: none
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
            source_google_token_url: GOOGLE_TOKEN_URL.to_owned(),
            source_schema_age_s: 3_600,
            source_patterns: 200,
        }
    }
}

impl SourceArgs {
    /// Returns the limits of SQLite's processes.
    #[cfg(feature = "sqlite")]
    pub(super) fn sqlite(&self) -> process::Allowed {
        let bytes = |mib: u64| mib.saturating_mul(1024 * 1024);
        process::Allowed {
            processes: usize::from(self.source_sqlite_processes),
            memory_bytes: bytes(self.source_sqlite_memory_mb),
            file_bytes: bytes(self.source_sqlite_file_mb),
        }
    }

    /// Returns the operator's limits; a source's own may be lower.
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
