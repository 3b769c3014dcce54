//! Settings of the API: command-line options of `rejoin api`, each with an environment variable.

use std::net::SocketAddr;
use std::time::Duration;

use clap::Args;
use rejoin_calendar::google::GoogleArgs;
use rejoin_data_sources::SourceArgs;
use rejoin_db::config::DatabaseArgs;
use rejoin_embeddings::EmbeddingsArgs;
use rejoin_files::FilesArgs;
use rejoin_http::HttpArgs;
use rejoin_http::proxies::Proxy;
use rejoin_integrations::mcp::commands::CommandsArgs;
use rejoin_models::answering::Environment;
use rejoin_secrets::SecretKeyArgs;

/// Maximum size of an import, in bytes. It is streamed, so this bounds its time and its transaction, not memory.
const MAX_IMPORT_BYTES: u64 = 256 * 1024 * 1024;
/// A week.
const SESSION_HOURS: u32 = 168;

#[derive(Debug, Clone, Args)]
pub struct ApiConfig {
    #[command(flatten)]
    pub database: DatabaseArgs,

    #[command(flatten)]
    pub embeddings: EmbeddingsArgs,

    #[command(flatten)]
    pub http: HttpArgs,

    #[command(flatten)]
    pub mcp_commands: CommandsArgs,

    #[command(flatten)]
    pub secret_keys: SecretKeyArgs,

    #[command(flatten)]
    pub sources: SourceArgs,

    #[command(flatten)]
    pub google: GoogleArgs,

    #[command(flatten)]
    pub files: FilesArgs,

    /// What this process's environment says of models: which one will answer a message with files
    #[arg(skip = Environment::from_env())]
    pub models: Environment,

    /// Address to listen on; port 0 picks a free port
    #[arg(long, env = "REJOIN_LISTEN", default_value = "127.0.0.1:7420")]
    pub listen: SocketAddr,

    /// Trusted reverse proxies: comma-separated addresses, networks such as 10.0.0.0/8, `loopback` or `none`. Their
    /// `X-Forwarded-Host` and `X-Forwarded-Proto` are trusted, and their connections are not counted by address
    #[arg(
        long,
        env = "REJOIN_TRUSTED_PROXIES",
        value_delimiter = ',',
        default_value = "loopback"
    )]
    pub trusted_proxies: Vec<Proxy>,

    /// Hosts for which `/mcp` responds: comma-separated names, or name:port [default: this machine's if it listens only
    /// there; otherwise any]
    #[arg(long, env = "REJOIN_MCP_HOSTS", value_delimiter = ',')]
    pub mcp_hosts: Vec<String>,

    /// Maximum duration of a browser session, in hours; never longer than the credential it signed in with is valid
    #[arg(long, env = "REJOIN_SESSION_HOURS", default_value_t = SESSION_HOURS, value_parser = clap::value_parser!(u32).range(1..=8_760))]
    pub session_hours: u32,

    /// Maximum number of open connections of this process; lower if the limit of open files is lower
    #[arg(long, env = "REJOIN_MAX_CONNECTIONS", default_value_t = 60_000)]
    pub max_connections: usize,

    /// Maximum number of open connections per address (for IPv6 per /64 network), not for trusted proxies; at most a
    /// quarter of all
    #[arg(long, env = "REJOIN_MAX_CONNECTIONS_PER_ADDRESS", default_value_t = 2_000)]
    pub max_connections_per_address: usize,

    /// File descriptors reserved for the database, files and outgoing requests; at most half of all
    #[arg(long, env = "REJOIN_RESERVED_FILES", default_value_t = 256)]
    pub reserved_files: usize,

    /// Timeout for receiving the head of a request, in milliseconds
    #[arg(long, env = "REJOIN_HEAD_TIMEOUT_MS", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub head_timeout_ms: u64,

    /// Timeout of an idle connection between two requests, in seconds
    #[arg(long, env = "REJOIN_KEEP_ALIVE_S", default_value_t = 90, value_parser = clap::value_parser!(u64).range(1..))]
    pub keep_alive_s: u64,

    /// Maximum size of an upload for a graph import, in bytes
    #[arg(long, env = "REJOIN_MAX_IMPORT_BYTES", default_value_t = MAX_IMPORT_BYTES)]
    pub max_import_bytes: u64,

    /// Maximum length of a chat message, in characters
    #[arg(long, env = "REJOIN_MAX_MESSAGE_CHARS", default_value_t = rejoin_runs::messages::CONTENT_MAX_CHARS)]
    pub max_message_chars: usize,

    /// Interval of keep-alive comments on an idle stream, in seconds
    #[arg(long, env = "REJOIN_HEARTBEAT_S", default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..=10))]
    pub heartbeat_s: u64,

    /// Time after which a connection whose peer does not read is closed, in milliseconds
    #[arg(long, env = "REJOIN_STALL_TIMEOUT_MS", default_value_t = 10_000)]
    pub stall_timeout_ms: u64,

    /// Maximum number of open streams per user in this process
    #[arg(long, env = "REJOIN_MAX_STREAMS_PER_USER", default_value_t = 10_000)]
    pub max_streams_per_user: usize,

    /// Maximum number of open streams per project in this process
    #[arg(long, env = "REJOIN_MAX_STREAMS_PER_PROJECT", default_value_t = 50_000)]
    pub max_streams_per_project: usize,

    /// Maximum number of open streams of this process; more get 503
    #[arg(long, env = "REJOIN_MAX_STREAMS", default_value_t = 50_000)]
    pub max_streams: usize,

    /// Maximum number of concurrent requests, not counting open streams; more get 503
    #[arg(long, env = "REJOIN_MAX_IN_FLIGHT", default_value_t = 1_000)]
    pub max_in_flight: usize,

    /// Maximum share of these per user, in percent; more get 429
    #[arg(long, env = "REJOIN_MAX_IN_FLIGHT_USER_PERCENT", default_value_t = 25, value_parser = clap::value_parser!(u8).range(1..=100))]
    pub max_in_flight_user_percent: u8,

    /// Maximum share of these per project, in percent; more get 429
    #[arg(long, env = "REJOIN_MAX_IN_FLIGHT_PROJECT_PERCENT", default_value_t = 50, value_parser = clap::value_parser!(u8).range(1..=100))]
    pub max_in_flight_project_percent: u8,

    /// On shutdown, how long to report not ready but still accept requests, so that load balancers stop sending them,
    /// in milliseconds
    #[arg(long, env = "REJOIN_DRAIN_GRACE_MS", default_value_t = 250)]
    pub drain_grace_ms: u64,

    /// On shutdown, how long to wait for unfinished requests, in milliseconds
    #[arg(long, env = "REJOIN_DRAIN_LIMIT_MS", default_value_t = 10_000)]
    pub drain_limit_ms: u64,
}

impl ApiConfig {
    /// The default settings for `database`.
    pub fn new(database: DatabaseArgs) -> Self {
        Self {
            database,
            embeddings: EmbeddingsArgs::off(),
            http: HttpArgs::default(),
            mcp_commands: CommandsArgs::default(),
            secret_keys: SecretKeyArgs::default(),
            sources: SourceArgs::default(),
            google: GoogleArgs::default(),
            files: FilesArgs::default(),
            models: Environment::default(),
            trusted_proxies: vec![Proxy::Loopback],
            mcp_hosts: Vec::new(),
            listen: SocketAddr::from(([127, 0, 0, 1], 7420)),
            session_hours: SESSION_HOURS,
            max_connections: 60_000,
            max_connections_per_address: 2_000,
            reserved_files: 256,
            head_timeout_ms: 10_000,
            keep_alive_s: 90,
            max_import_bytes: MAX_IMPORT_BYTES,
            max_message_chars: rejoin_runs::messages::CONTENT_MAX_CHARS,
            heartbeat_s: 8,
            stall_timeout_ms: 10_000,
            max_streams_per_user: 10_000,
            max_streams_per_project: 50_000,
            max_streams: 50_000,
            max_in_flight: 1_000,
            max_in_flight_user_percent: 25,
            max_in_flight_project_percent: 50,
            drain_grace_ms: 250,
            drain_limit_ms: 10_000,
        }
    }

    pub fn heartbeat(&self) -> Duration {
        Duration::from_secs(self.heartbeat_s)
    }

    pub fn stall_timeout(&self) -> Duration {
        Duration::from_millis(self.stall_timeout_ms)
    }

    pub fn head_timeout(&self) -> Duration {
        Duration::from_millis(self.head_timeout_ms)
    }

    pub fn keep_alive(&self) -> Duration {
        Duration::from_secs(self.keep_alive_s)
    }
}
