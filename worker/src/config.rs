//! Settings of a worker process.

use std::net::SocketAddr;
use std::time::Duration;

use clap::Args;
use rejoin_embeddings::EmbeddingsArgs;
use rejoin_outside::WebArgs;
use rejoin_outside::calendar::google::GoogleArgs;
use rejoin_shared::config::DatabaseArgs;
use rejoin_shared::events::writer::WriterOptions;
use rejoin_shared::files::FilesArgs;
use rejoin_shared::horizon;
use rejoin_shared::queue::lease;
use rejoin_sources::SourceArgs;

use crate::mcp::McpArgs;

/// What providers take in one request, as base64, is some tens of megabytes.
const MODEL_FILES_BYTES: u64 = 40 * 1024 * 1024;

/// Dollars that all runs of a tree may cost together, unless the deployment says otherwise.
pub(crate) const TREE_COST_USD: f64 = 25.0;

#[derive(Debug, Clone, Args)]
pub struct WorkerConfig {
    #[command(flatten)]
    pub database: DatabaseArgs,

    #[command(flatten)]
    pub embeddings: EmbeddingsArgs,

    /// Runs at a time
    #[arg(long, env = "REJOIN_SLOTS", default_value_t = 50)]
    pub slots: usize,

    /// Jobs that one claim takes, and one statement settles, at most
    #[arg(long, env = "REJOIN_CLAIM_BATCH", default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..))]
    pub claim_batch: u16,

    /// Queues to serve, separated by commas
    #[arg(long, env = "REJOIN_QUEUES", value_delimiter = ',', default_value = "default")]
    pub queues: Vec<String>,

    /// A worker that gives no sign of life for this long loses its jobs [milliseconds]
    #[arg(long, env = "REJOIN_LEASE_MS", default_value_t = lease::LEASE.as_millis() as u64)]
    pub lease_ms: u64,

    /// Between two signs of life [milliseconds]
    #[arg(long, env = "REJOIN_HEARTBEAT_MS", default_value_t = lease::HEARTBEAT.as_millis() as u64)]
    pub heartbeat_ms: u64,

    /// Messages of a conversation that the model is given, the new one included
    #[arg(long, env = "REJOIN_HISTORY_MESSAGES", default_value_t = 10)]
    pub history_messages: i64,

    /// Hits of the graph search that a plain conversation's prompt holds
    #[arg(long, env = "REJOIN_SEARCH_HITS", default_value_t = 8)]
    pub search_hits: i64,

    /// A run whose definition gives no timeout ends after this [seconds]
    #[arg(long, env = "REJOIN_RUN_TIMEOUT_S", default_value_t = 300)]
    pub run_timeout_s: u64,

    /// Model calls of a turn in which agents may hand over, where their definitions give no maxSteps
    #[arg(long, env = "REJOIN_HANDOFF_STEPS", default_value_t = 20, value_parser = clap::value_parser!(i32).range(1..))]
    pub handoff_steps: i32,

    /// Times that a run may change hands in one turn
    #[arg(long, env = "REJOIN_HANDOFFS", default_value_t = 5)]
    pub handoffs: usize,

    /// From the timeout until the hard stop: time to sum up [seconds]
    #[arg(long, env = "REJOIN_RUN_GRACE_S", default_value_t = 30)]
    pub run_grace_s: u64,

    /// All runs of a tree of agents together sum up after this, without the time in which a person was asked [seconds]
    #[arg(long, env = "REJOIN_TREE_TIMEOUT_S", default_value_t = 3600)]
    pub tree_timeout_s: u64,

    /// Tokens that all runs of a tree may use together, input and output
    #[arg(long, env = "REJOIN_TREE_TOKENS", default_value_t = 5_000_000)]
    pub tree_tokens: u64,

    /// Dollars that all runs of a tree may cost together, by the prices that are known
    #[arg(long, env = "REJOIN_TREE_COST_USD", default_value_t = TREE_COST_USD)]
    pub tree_cost_usd: f64,

    /// Sub-agents that a tree starts at most, from its beginning to its end
    #[arg(long, env = "REJOIN_TREE_RUNS", default_value_t = 200)]
    pub tree_runs: i32,

    /// Sub-agents of one project that have not ended, at most
    #[arg(long, env = "REJOIN_PARALLEL_SUB_AGENTS", default_value_t = 1_000)]
    pub parallel_sub_agents: i64,

    /// A question that nobody has answered expires after this [hours]; 0: never
    #[arg(long, env = "REJOIN_QUESTION_EXPIRES_H", default_value_t = 24.0 * 30.0, value_parser = hours)]
    pub question_expires_h: f64,

    /// A tool call that takes longer is ended with an error [seconds]
    #[arg(long, env = "REJOIN_TOOL_TIMEOUT_S", default_value_t = 60)]
    pub tool_timeout_s: u64,

    /// On SIGTERM, tool calls that can't be repeated may go on for this long [seconds]
    #[arg(long, env = "REJOIN_DRAIN_S", default_value_t = 25)]
    pub drain_s: u64,

    /// At most one commit of events in this time [milliseconds]
    #[arg(long, env = "REJOIN_FLUSH_MS", default_value_t = 5)]
    pub flush_ms: u64,

    /// Completed and cancelled jobs are kept this long [hours]; 0: completed ones are not kept at all
    #[arg(long, env = "REJOIN_KEEP_JOBS_H", default_value_t = 24)]
    pub keep_jobs_h: u64,

    /// Dead jobs are kept this long [hours]
    #[arg(long, env = "REJOIN_KEEP_DEAD_JOBS_H", default_value_t = 24 * 30)]
    pub keep_dead_jobs_h: u64,

    /// Temporary consoles that nobody has touched for this long are removed; 0: never [days]
    #[arg(long, env = "REJOIN_KEEP_CONSOLES_D", default_value_t = 30.0, value_parser = hours)]
    pub keep_consoles_d: f64,

    /// Events of runs that have ended are kept this long [hours, also parts of one]; 0: for ever
    #[arg(long, env = "REJOIN_KEEP_EVENTS_H", default_value_t = 0.0, value_parser = hours)]
    pub keep_events_h: f64,

    /// The tokens of runs that ended this long ago are stored together in few rows [seconds]; 0: never
    #[arg(long, env = "REJOIN_COMPACT_EVENTS_AFTER_S", default_value_t = 3600)]
    pub compact_events_after_s: u64,

    /// A transaction of anybody's that is open for longer is told in the log: it keeps dead rows from being removed [seconds]
    #[arg(long, env = "REJOIN_OLD_TRANSACTION_S", default_value_t = horizon::OLD.as_secs())]
    pub old_transaction_s: u64,

    /// Tell readers how tools were chosen and run, and what the model was given (`telemetry`, `debug_context`): for development
    #[arg(long, env = "REJOIN_DEBUG_AGENT_CONTEXT")]
    pub debug_agent_context: bool,

    #[command(flatten)]
    pub mcp: McpArgs,

    #[command(flatten)]
    pub sources: SourceArgs,

    #[command(flatten)]
    pub web: WebArgs,

    #[command(flatten)]
    pub google: GoogleArgs,

    #[command(flatten)]
    pub files: FilesArgs,

    /// Files that no message and no run names are removed after this [hours]
    #[arg(long, env = "REJOIN_KEEP_FILES_H", default_value_t = 24.0, value_parser = hours)]
    pub keep_files_h: f64,

    /// Files that one model call is given, the newest first [bytes]
    #[arg(long, env = "REJOIN_MODEL_FILES_BYTES", default_value_t = MODEL_FILES_BYTES)]
    pub model_files_bytes: u64,

    /// Serve Prometheus metrics here, e.g. 127.0.0.1:9464
    #[arg(long, env = "REJOIN_WORKER_METRICS")]
    pub metrics: Option<SocketAddr>,
}

fn hours(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(hours) if hours.is_finite() && hours >= 0.0 => Ok(hours),
        Ok(_) | Err(_) => Err("a number of hours is needed, as 24 or 0.5".to_owned()),
    }
}

impl WorkerConfig {
    /// The defaults, for a database at `url`; without embeddings.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            database: DatabaseArgs::new(url),
            embeddings: EmbeddingsArgs::off(),
            slots: 50,
            claim_batch: 100,
            queues: vec!["default".to_owned()],
            lease_ms: lease::LEASE.as_millis() as u64,
            heartbeat_ms: lease::HEARTBEAT.as_millis() as u64,
            history_messages: 10,
            search_hits: 8,
            run_timeout_s: 300,
            handoff_steps: 20,
            handoffs: 5,
            run_grace_s: 30,
            tree_timeout_s: 3600,
            tree_tokens: 5_000_000,
            tree_cost_usd: TREE_COST_USD,
            tree_runs: 200,
            parallel_sub_agents: 1_000,
            question_expires_h: 24.0 * 30.0,
            tool_timeout_s: 60,
            drain_s: 25,
            flush_ms: 5,
            keep_jobs_h: 24,
            keep_dead_jobs_h: 24 * 30,
            keep_consoles_d: 30.0,
            keep_events_h: 0.0,
            compact_events_after_s: 3600,
            old_transaction_s: horizon::OLD.as_secs(),
            debug_agent_context: false,
            mcp: McpArgs::default(),
            sources: SourceArgs::default(),
            web: WebArgs::default(),
            google: GoogleArgs::default(),
            files: FilesArgs::default(),
            keep_files_h: 24.0,
            model_files_bytes: MODEL_FILES_BYTES,
            metrics: None,
        }
    }

    pub fn lease(&self) -> Duration {
        Duration::from_millis(self.lease_ms)
    }

    pub fn heartbeat(&self) -> Duration {
        Duration::from_millis(self.heartbeat_ms)
    }

    pub fn writer(&self) -> WriterOptions {
        WriterOptions {
            flush_interval: Duration::from_millis(self.flush_ms),
            ..WriterOptions::default()
        }
    }
}
