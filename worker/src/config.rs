//! Settings of a worker process.

use std::net::SocketAddr;
use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use rejoin_archive::ArchiveArgs;
use rejoin_calendar::google::GoogleArgs;
use rejoin_data_sources::SourceArgs;
use rejoin_db::config::DatabaseArgs;
use rejoin_db::vacuum_blockers;
use rejoin_embeddings::EmbeddingsArgs;
use rejoin_event_log::group_commit::WriterOptions;
use rejoin_files::FilesArgs;
use rejoin_mcp_client::McpArgs;
use rejoin_model_client::{ModelError, name};
use rejoin_models::DEFAULT_MODEL;
use rejoin_queue::lease;
use rejoin_remote_tools::RemoteToolArgs;
use rejoin_telemetry::TelemetryArgs;
use rejoin_web_search::web::WebArgs;
use rejoin_webhooks::WebhookArgs;

/// Providers accept some tens of megabytes per request, as base64.
const MODEL_FILES_BYTES: u64 = 40 * 1024 * 1024;

/// Default maximum cost of all runs of a tree, in dollars.
pub(crate) const TREE_COST_USD: f64 = 25.0;

/// Most calls of quick functions end within it. The time counts as the run's, unlike that of a suspension.
const REMOTE_HOLD_MS: u64 = 250;
const REMOTE_SLOW_S: u64 = 60;

#[derive(Debug, Clone, Args)]
pub struct WorkerConfig {
    #[command(flatten)]
    pub database: DatabaseArgs,

    #[command(flatten)]
    pub embeddings: EmbeddingsArgs,

    /// Maximum number of concurrent runs
    #[arg(long, env = "REJOIN_SLOTS", default_value_t = 50)]
    pub slots: usize,

    /// Maximum number of jobs per claim, and per statement that completes jobs
    #[arg(long, env = "REJOIN_CLAIM_BATCH", default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..))]
    pub claim_batch: u16,

    /// Queues to serve, separated by commas
    #[arg(long, env = "REJOIN_QUEUES", value_delimiter = ',', default_value = "default")]
    pub queues: Vec<String>,

    /// Lease duration: a worker without a heartbeat for this long loses its jobs, in milliseconds
    #[arg(long, env = "REJOIN_LEASE_MS", default_value_t = lease::LEASE.as_millis() as u64)]
    pub lease_ms: u64,

    /// Interval between heartbeats, in milliseconds
    #[arg(long, env = "REJOIN_HEARTBEAT_MS", default_value_t = lease::HEARTBEAT.as_millis() as u64)]
    pub heartbeat_ms: u64,

    /// Maximum number of messages of a conversation in the prompt, including the new one
    #[arg(long, env = "REJOIN_HISTORY_MESSAGES", default_value_t = 10)]
    pub history_messages: i64,

    /// The model that writes titles of conversations, such as openai:gpt-6-luna; `default`: the conversation's own; `off`: a title is the beginning of the first message
    #[arg(long, env = "REJOIN_TITLE_MODEL", default_value = "off")]
    pub title_model: TitleModel,

    /// Maximum number of graph search results in the prompt of a plain conversation
    #[arg(long, env = "REJOIN_SEARCH_HITS", default_value_t = 8)]
    pub search_hits: i64,

    /// Timeout of a run whose definition sets none, in seconds
    #[arg(long, env = "REJOIN_RUN_TIMEOUT_S", default_value_t = 300)]
    pub run_timeout_s: u64,

    /// Maximum number of model calls in a turn with handovers, if the definitions set no maxSteps
    #[arg(long, env = "REJOIN_HANDOFF_STEPS", default_value_t = 20, value_parser = clap::value_parser!(i32).range(1..))]
    pub handoff_steps: i32,

    /// Maximum number of handovers per turn
    #[arg(long, env = "REJOIN_HANDOFFS", default_value_t = 5)]
    pub handoffs: usize,

    /// Time from the timeout until the hard stop, in which a run sums up, in seconds
    #[arg(long, env = "REJOIN_RUN_GRACE_S", default_value_t = 30)]
    pub run_grace_s: u64,

    /// Time limit of a whole tree of agents, after which its runs sum up, in seconds; waits for people are not counted
    #[arg(long, env = "REJOIN_TREE_TIMEOUT_S", default_value_t = 3600)]
    pub tree_timeout_s: u64,

    /// Token budget of a whole tree of agents, input and output
    #[arg(long, env = "REJOIN_TREE_TOKENS", default_value_t = 5_000_000)]
    pub tree_tokens: u64,

    /// Cost budget of a whole tree of agents, in dollars, based on known prices
    #[arg(long, env = "REJOIN_TREE_COST_USD", default_value_t = TREE_COST_USD)]
    pub tree_cost_usd: f64,

    /// Maximum number of sub-agents that a tree may start in total
    #[arg(long, env = "REJOIN_TREE_RUNS", default_value_t = 200)]
    pub tree_runs: i32,

    /// Maximum number of active sub-agents per project
    #[arg(long, env = "REJOIN_PARALLEL_SUB_AGENTS", default_value_t = 1_000)]
    pub parallel_sub_agents: i64,

    /// Time after which an unanswered question expires, in hours; 0: never
    #[arg(long, env = "REJOIN_QUESTION_EXPIRES_H", default_value_t = 24.0 * 30.0, value_parser = hours)]
    pub question_expires_h: f64,

    /// Timeout of a tool call, in seconds
    #[arg(long, env = "REJOIN_TOOL_TIMEOUT_S", default_value_t = 60)]
    pub tool_timeout_s: u64,

    /// How long a run waits for a call of a user's program before it is suspended and frees its slot, in milliseconds; 0: it is suspended at once
    #[arg(long, env = "REJOIN_REMOTE_HOLD_MS", default_value_t = REMOTE_HOLD_MS)]
    pub remote_hold_ms: u64,

    /// How long runs are suspended at once for a tool of a program after one of its calls took longer than that, in seconds
    #[arg(long, env = "REJOIN_REMOTE_SLOW_S", default_value_t = REMOTE_SLOW_S)]
    pub remote_slow_s: u64,

    /// On SIGTERM, how long tool calls that cannot be repeated may continue, in seconds
    #[arg(long, env = "REJOIN_DRAIN_S", default_value_t = 25)]
    pub drain_s: u64,

    /// Minimum interval between two commits of events, in milliseconds
    #[arg(long, env = "REJOIN_FLUSH_MS", default_value_t = 5)]
    pub flush_ms: u64,

    /// Retention of completed and cancelled jobs, in hours; 0: completed jobs are deleted at once
    #[arg(long, env = "REJOIN_KEEP_JOBS_H", default_value_t = 24)]
    pub keep_jobs_h: u64,

    /// Retention of dead jobs, in hours
    #[arg(long, env = "REJOIN_KEEP_DEAD_JOBS_H", default_value_t = 24 * 30)]
    pub keep_dead_jobs_h: u64,

    /// Age at which unused temporary consoles are deleted, in days; 0: never
    #[arg(long, env = "REJOIN_KEEP_CONSOLES_D", default_value_t = 30.0, value_parser = hours)]
    pub keep_consoles_d: f64,

    /// Retention of the events of ended runs, in hours, fractions allowed; 0: forever
    #[arg(long, env = "REJOIN_KEEP_EVENTS_H", default_value_t = 0.0, value_parser = hours)]
    pub keep_events_h: f64,

    /// Age at which the tokens of an ended run are compacted into few rows, in seconds; 0: never
    #[arg(long, env = "REJOIN_COMPACT_EVENTS_AFTER_S", default_value_t = 3600)]
    pub compact_events_after_s: u64,

    /// Age at which an open transaction is logged because it blocks vacuum, in seconds
    #[arg(long, env = "REJOIN_OLD_TRANSACTION_S", default_value_t = vacuum_blockers::OLD.as_secs())]
    pub old_transaction_s: u64,

    /// Send readers details of tool selection, tool runs and prompts (`telemetry`, `debug_context`), for development
    #[arg(long, env = "REJOIN_DEBUG_AGENT_CONTEXT")]
    pub debug_agent_context: bool,

    #[command(flatten)]
    pub mcp: McpArgs,

    #[command(flatten)]
    pub sources: SourceArgs,

    #[command(flatten)]
    pub web: WebArgs,

    #[command(flatten)]
    pub webhooks: WebhookArgs,

    #[command(flatten)]
    pub remote_tools: RemoteToolArgs,

    #[command(flatten)]
    pub google: GoogleArgs,

    #[command(flatten)]
    pub files: FilesArgs,

    #[command(flatten)]
    pub archive: ArchiveArgs,

    #[command(flatten)]
    pub telemetry: TelemetryArgs,

    /// Age at which files that no message or run refers to are deleted, in hours
    #[arg(long, env = "REJOIN_KEEP_FILES_H", default_value_t = 24.0, value_parser = hours)]
    pub keep_files_h: f64,

    /// Maximum total size of the files in one model call, newest first, in bytes
    #[arg(long, env = "REJOIN_MODEL_FILES_BYTES", default_value_t = MODEL_FILES_BYTES)]
    pub model_files_bytes: u64,

    /// Address on which to serve Prometheus metrics and health checks, e.g. 127.0.0.1:9464
    #[arg(long, env = "REJOIN_WORKER_METRICS")]
    pub metrics: Option<SocketAddr>,
}

/// The model that writes titles.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TitleModel {
    /// None: titles are the beginnings of first messages.
    Off,
    /// The conversation's own.
    OfConversation,
    /// `provider:model`, or a bare well-known name.
    Named(String),
}

impl FromStr for TitleModel {
    type Err = ModelError;

    fn from_str(text: &str) -> Result<Self, ModelError> {
        match text.trim() {
            // Compose files set variables that they leave out to nothing.
            "" | "off" => Ok(Self::Off),
            DEFAULT_MODEL => Ok(Self::OfConversation),
            named => name::check(named).map(|()| Self::Named(named.to_owned())),
        }
    }
}

fn hours(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(hours) if hours.is_finite() && hours >= 0.0 => Ok(hours),
        Ok(_) | Err(_) => Err("a number of hours is required, such as 24 or 0.5".to_owned()),
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
            title_model: TitleModel::Off,
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
            remote_hold_ms: REMOTE_HOLD_MS,
            remote_slow_s: REMOTE_SLOW_S,
            tool_timeout_s: 60,
            drain_s: 25,
            flush_ms: 5,
            keep_jobs_h: 24,
            keep_dead_jobs_h: 24 * 30,
            keep_consoles_d: 30.0,
            keep_events_h: 0.0,
            compact_events_after_s: 3600,
            old_transaction_s: vacuum_blockers::OLD.as_secs(),
            debug_agent_context: false,
            mcp: McpArgs::default(),
            sources: SourceArgs::default(),
            web: WebArgs::default(),
            webhooks: WebhookArgs::default(),
            remote_tools: RemoteToolArgs::default(),
            google: GoogleArgs::default(),
            files: FilesArgs::default(),
            archive: ArchiveArgs::default(),
            telemetry: TelemetryArgs::default(),
            keep_files_h: 24.0,
            model_files_bytes: MODEL_FILES_BYTES,
            metrics: None,
        }
    }

    /// The settings that all workers of an installation need the same values of.
    pub(crate) fn common_settings(&self) -> Vec<(&'static str, String)> {
        let mut settings = self.database.common_settings();
        settings.push(("REJOIN_LEASE_MS", self.lease_ms.to_string()));
        settings.push(("REJOIN_HEARTBEAT_MS", self.heartbeat_ms.to_string()));
        settings
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_have_no_model_the_conversations_own_or_a_named_one() {
        for (text, model) in [
            ("", TitleModel::Off),
            ("off", TitleModel::Off),
            (" default ", TitleModel::OfConversation),
            ("openai:small", TitleModel::Named("openai:small".to_owned())),
        ] {
            assert_eq!(text.parse::<TitleModel>().expect(text), model);
        }
        let error = "mystery".parse::<TitleModel>().expect_err("an unknown model");
        assert!(error.message.contains("openai:mystery"), "{error}");
    }
}
