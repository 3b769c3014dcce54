//! The API's own settings: command-line options of `rejoin api`, each with an environment variable.

use std::net::SocketAddr;
use std::time::Duration;

use clap::Args;
use rejoin_embeddings::EmbeddingsArgs;
use rejoin_outside::calendar::google::GoogleArgs;
use rejoin_shared::config::DatabaseArgs;
use rejoin_shared::mcp::commands::CommandsArgs;
use rejoin_shared::secrets::SecretKeyArgs;
use rejoin_sources::SourceArgs;

use crate::oidc::settings::OidcArgs;

/// An import is streamed, so this bounds its time and its transaction, not memory [bytes].
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
    pub oidc: OidcArgs,

    #[command(flatten)]
    pub mcp_commands: CommandsArgs,

    #[command(flatten)]
    pub secret_keys: SecretKeyArgs,

    #[command(flatten)]
    pub sources: SourceArgs,

    #[command(flatten)]
    pub google: GoogleArgs,

    /// Address to listen on; port 0 takes a free one
    #[arg(long, env = "REJOIN_LISTEN", default_value = "127.0.0.1:7420")]
    pub listen: SocketAddr,

    /// Hosts under which `/mcp` answers: names, or name:port, separated by commas [default: this machine's, if it listens there only; else any]
    #[arg(long, env = "REJOIN_MCP_HOSTS", value_delimiter = ',')]
    pub mcp_hosts: Vec<String>,

    /// Requests a second that one API key, or one user with tokens, may make; twice as many in a burst
    #[arg(long, env = "REJOIN_RATE_PER_S", default_value_t = 2_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub rate_per_s: u32,

    /// The same of one user, over all of its keys
    #[arg(long, env = "REJOIN_USER_RATE_PER_S", default_value_t = 4_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub user_rate_per_s: u32,

    /// The same of one project, over all of its users
    #[arg(long, env = "REJOIN_PROJECT_RATE_PER_S", default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub project_rate_per_s: u32,

    /// A browser that signs in stays so for this long, or as long as the key or token it signed in with [hours]
    #[arg(long, env = "REJOIN_SESSION_HOURS", default_value_t = SESSION_HOURS, value_parser = clap::value_parser!(u32).range(1..=8_760))]
    pub session_hours: u32,

    /// Largest request body [bytes]
    #[arg(long, env = "REJOIN_MAX_BODY_BYTES", default_value_t = 1024 * 1024)]
    pub max_body_bytes: usize,

    /// Largest upload of an import into the graph [bytes]
    #[arg(long, env = "REJOIN_MAX_IMPORT_BYTES", default_value_t = MAX_IMPORT_BYTES)]
    pub max_import_bytes: u64,

    /// Longest chat message [characters]
    #[arg(long, env = "REJOIN_MAX_MESSAGE_CHARS", default_value_t = rejoin_shared::messages::CONTENT_MAX_CHARS)]
    pub max_message_chars: usize,

    /// A silent stream says that it is alive this often [seconds]
    #[arg(long, env = "REJOIN_HEARTBEAT_S", default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..=10))]
    pub heartbeat_s: u64,

    /// A connection whose peer takes nothing for this long is cut [milliseconds]
    #[arg(long, env = "REJOIN_STALL_TIMEOUT_MS", default_value_t = 10_000)]
    pub stall_timeout_ms: u64,

    /// Streams that one user may have open at this process
    #[arg(long, env = "REJOIN_MAX_STREAMS_PER_USER", default_value_t = 10_000)]
    pub max_streams_per_user: usize,

    /// Streams that one project may have open at this process
    #[arg(long, env = "REJOIN_MAX_STREAMS_PER_PROJECT", default_value_t = 50_000)]
    pub max_streams_per_project: usize,

    /// Streams that this process has open at a time; then 503
    #[arg(long, env = "REJOIN_MAX_STREAMS", default_value_t = 50_000)]
    pub max_streams: usize,

    /// Requests that are worked on at a time, those that only open a stream not counted; then 503
    #[arg(long, env = "REJOIN_MAX_IN_FLIGHT", default_value_t = 1_000)]
    pub max_in_flight: usize,

    /// Items of a list's page, unless the request says otherwise
    #[arg(long, env = "REJOIN_PAGE_SIZE", default_value_t = 50)]
    pub page_size: u32,

    /// Items of a list's page, at most
    #[arg(long, env = "REJOIN_MAX_PAGE_SIZE", default_value_t = 200)]
    pub max_page_size: u32,

    /// When stopping: not ready, but still taking requests, so that a load balancer can look away [milliseconds]
    #[arg(long, env = "REJOIN_DRAIN_GRACE_MS", default_value_t = 250)]
    pub drain_grace_ms: u64,

    /// When stopping: requests that are not finished after this are cut [milliseconds]
    #[arg(long, env = "REJOIN_DRAIN_LIMIT_MS", default_value_t = 10_000)]
    pub drain_limit_ms: u64,
}

impl ApiConfig {
    /// The defaults, over `database`.
    pub fn new(database: DatabaseArgs) -> Self {
        Self {
            database,
            embeddings: EmbeddingsArgs::off(),
            oidc: OidcArgs::default(),
            mcp_commands: CommandsArgs::default(),
            secret_keys: SecretKeyArgs::default(),
            sources: SourceArgs::default(),
            google: GoogleArgs::default(),
            mcp_hosts: Vec::new(),
            listen: SocketAddr::from(([127, 0, 0, 1], 7420)),
            rate_per_s: 2_000,
            user_rate_per_s: 4_000,
            project_rate_per_s: 20_000,
            session_hours: SESSION_HOURS,
            max_body_bytes: 1024 * 1024,
            max_import_bytes: MAX_IMPORT_BYTES,
            max_message_chars: rejoin_shared::messages::CONTENT_MAX_CHARS,
            heartbeat_s: 8,
            stall_timeout_ms: 10_000,
            max_streams_per_user: 10_000,
            max_streams_per_project: 50_000,
            max_streams: 50_000,
            max_in_flight: 1_000,
            page_size: 50,
            max_page_size: 200,
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
}
