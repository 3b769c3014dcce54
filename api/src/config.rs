//! The API's own settings: command-line options of `rejoin api`, each with an environment variable.

use std::net::SocketAddr;
use std::time::Duration;

use clap::Args;
use rejoin_embeddings::EmbeddingsArgs;
use rejoin_outside::calendar::google::GoogleArgs;
use rejoin_shared::config::DatabaseArgs;
use rejoin_shared::files::FilesArgs;
use rejoin_shared::mcp::commands::CommandsArgs;
use rejoin_shared::models::answering::Environment;
use rejoin_shared::secrets::SecretKeyArgs;
use rejoin_sources::SourceArgs;

use crate::oidc::settings::OidcArgs;
use crate::proxies::Proxy;

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

    #[command(flatten)]
    pub files: FilesArgs,

    /// What this process's environment says of models: which one will answer a message with files
    #[arg(skip = Environment::from_env())]
    pub models: Environment,

    /// Address to listen on; port 0 takes a free one
    #[arg(long, env = "REJOIN_LISTEN", default_value = "127.0.0.1:7420")]
    pub listen: SocketAddr,

    /// Address under which browsers and other programs reach the API, as `https://chat.example`; for links in answers [default: what a
    /// trusted proxy says, or the caller]
    #[arg(long, env = "REJOIN_PUBLIC_URL", value_parser = public_url)]
    pub public_url: Option<String>,

    /// Reverse proxies: addresses, networks as 10.0.0.0/8, `loopback` or `none`, separated by commas. Their `X-Forwarded-Host` and
    /// `X-Forwarded-Proto` are believed, and their connections are not counted by address
    #[arg(
        long,
        env = "REJOIN_TRUSTED_PROXIES",
        value_delimiter = ',',
        default_value = "loopback"
    )]
    pub trusted_proxies: Vec<Proxy>,

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

    /// Maximum number of audited changes that one user may make a minute, as many in a burst
    #[arg(long, env = "REJOIN_AUDITED_PER_MINUTE", default_value_t = 300, value_parser = clap::value_parser!(u32).range(1..))]
    pub audited_per_minute: u32,

    /// Connections that this process has open at a time; fewer where the limit of open files is lower
    #[arg(long, env = "REJOIN_MAX_CONNECTIONS", default_value_t = 60_000)]
    pub max_connections: usize,

    /// The same of one address (of IPv6: of one /64 network), trusted proxies not counted; at most a quarter of all
    #[arg(long, env = "REJOIN_MAX_CONNECTIONS_PER_ADDRESS", default_value_t = 2_000)]
    pub max_connections_per_address: usize,

    /// File descriptors that connections leave to the database, to files and to requests of our own; at most half of all
    #[arg(long, env = "REJOIN_RESERVED_FILES", default_value_t = 256)]
    pub reserved_files: usize,

    /// A connection that has not sent the head of its request by then is closed [milliseconds]
    #[arg(long, env = "REJOIN_HEAD_TIMEOUT_MS", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub head_timeout_ms: u64,

    /// A connection between two requests is closed after this [seconds]
    #[arg(long, env = "REJOIN_KEEP_ALIVE_S", default_value_t = 90, value_parser = clap::value_parser!(u64).range(1..))]
    pub keep_alive_s: u64,

    /// A request body that has not arrived by then is given up [milliseconds]
    #[arg(long, env = "REJOIN_BODY_TIMEOUT_MS", default_value_t = 25_000)]
    pub body_timeout_ms: u64,

    /// A request body has to arrive at this rate at least, once its time of grace is over [bytes a second]
    #[arg(long, env = "REJOIN_BODY_MIN_BYTES_PER_S", default_value_t = 1_024, value_parser = clap::value_parser!(u32).range(1..))]
    pub body_min_bytes_per_s: u32,

    /// A request body's time of grace [milliseconds]
    #[arg(long, env = "REJOIN_BODY_GRACE_MS", default_value_t = 5_000)]
    pub body_grace_ms: u64,

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

    /// How many of these one user may have [percent]; then 429
    #[arg(long, env = "REJOIN_MAX_IN_FLIGHT_USER_PERCENT", default_value_t = 25, value_parser = clap::value_parser!(u8).range(1..=100))]
    pub max_in_flight_user_percent: u8,

    /// How many of these one project may have [percent]; then 429
    #[arg(long, env = "REJOIN_MAX_IN_FLIGHT_PROJECT_PERCENT", default_value_t = 50, value_parser = clap::value_parser!(u8).range(1..=100))]
    pub max_in_flight_project_percent: u8,

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
            files: FilesArgs::default(),
            models: Environment::default(),
            public_url: None,
            trusted_proxies: vec![Proxy::Loopback],
            mcp_hosts: Vec::new(),
            listen: SocketAddr::from(([127, 0, 0, 1], 7420)),
            rate_per_s: 2_000,
            user_rate_per_s: 4_000,
            project_rate_per_s: 20_000,
            session_hours: SESSION_HOURS,
            audited_per_minute: 300,
            max_connections: 60_000,
            max_connections_per_address: 2_000,
            reserved_files: 256,
            head_timeout_ms: 10_000,
            keep_alive_s: 90,
            body_timeout_ms: 25_000,
            body_min_bytes_per_s: 1_024,
            body_grace_ms: 5_000,
            max_body_bytes: 1024 * 1024,
            max_import_bytes: MAX_IMPORT_BYTES,
            max_message_chars: rejoin_shared::messages::CONTENT_MAX_CHARS,
            heartbeat_s: 8,
            stall_timeout_ms: 10_000,
            max_streams_per_user: 10_000,
            max_streams_per_project: 50_000,
            max_streams: 50_000,
            max_in_flight: 1_000,
            max_in_flight_user_percent: 25,
            max_in_flight_project_percent: 50,
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

    pub fn head_timeout(&self) -> Duration {
        Duration::from_millis(self.head_timeout_ms)
    }

    pub fn keep_alive(&self) -> Duration {
        Duration::from_secs(self.keep_alive_s)
    }

    pub fn body_timeout(&self) -> Duration {
        Duration::from_millis(self.body_timeout_ms)
    }

    pub fn body_grace(&self) -> Duration {
        Duration::from_millis(self.body_grace_ms)
    }
}

/// Scheme and host, and nothing behind them that links of ours would have to know of.
fn public_url(text: &str) -> Result<String, String> {
    let wrong = || format!("{text} is not a valid origin; use e.g. https://chat.example");
    let url = url::Url::parse(text).map_err(|_| wrong())?;
    let is_plain = matches!(url.scheme(), "http" | "https")
        && url.has_host()
        && url.username().is_empty()
        && url.path() == "/"
        && url.query().is_none()
        && url.fragment().is_none();
    if is_plain {
        Ok(text.trim_end_matches('/').to_owned())
    } else {
        Err(wrong())
    }
}
