//! Settings of the API: command-line options of `rejoin api`, each with an environment variable.

use std::net::SocketAddr;

use clap::Args;
use rejoin_archive::ArchiveArgs;
use rejoin_calendar::google::GoogleArgs;
use rejoin_chat::ChatArgs;
use rejoin_data_sources::SourceArgs;
use rejoin_db::config::DatabaseArgs;
use rejoin_embeddings::EmbeddingsArgs;
use rejoin_http::HttpArgs;
use rejoin_http::concurrency_limits::Shares;
use rejoin_integrations::mcp::commands::CommandsArgs;
use rejoin_remote_tools::RemoteToolArgs;
use rejoin_secrets::SecretKeyArgs;
use rejoin_sse::StreamArgs;
use rejoin_telemetry::TelemetryArgs;
use rejoin_webhooks::WebhookArgs;
use url::Url;

/// Maximum size of an import, in bytes. It is streamed, so this bounds its time and its transaction, not memory.
const MAX_IMPORT_BYTES: u64 = 256 * 1024 * 1024;

/// Several databases.
#[derive(Debug, Clone, Args)]
pub struct CellArgs {
    /// Send requests to the databases on which their projects live (docs/operations/cells.md). All API processes need the same value
    #[arg(long, env = "REJOIN_CELLS")]
    pub cells: bool,

    /// Interval of reading where projects live, in milliseconds
    #[arg(long, env = "REJOIN_CELLS_REFRESH_MS", default_value_t = 500, value_parser = clap::value_parser!(u64).range(10..=60_000))]
    pub cells_refresh_ms: u64,

    /// How long this is used while the directory does not respond, in milliseconds; then requests get 503. `rejoin cells move` waits for
    /// longer (--settle-ms)
    #[arg(long, env = "REJOIN_CELLS_STALE_MS", default_value_t = 3_000, value_parser = clap::value_parser!(u64).range(10..=600_000))]
    pub cells_stale_ms: u64,
}

impl Default for CellArgs {
    fn default() -> Self {
        Self {
            cells: false,
            cells_refresh_ms: 500,
            cells_stale_ms: 3_000,
        }
    }
}

#[derive(Debug, Clone, Args)]
pub struct ApiConfig {
    #[command(flatten)]
    pub database: DatabaseArgs,

    #[command(flatten)]
    pub cells: CellArgs,

    #[command(flatten)]
    pub embeddings: EmbeddingsArgs,

    #[command(flatten)]
    pub http: HttpArgs,

    #[command(flatten)]
    pub streams: StreamArgs,

    #[command(flatten)]
    pub mcp_commands: CommandsArgs,

    #[command(flatten)]
    pub secret_keys: SecretKeyArgs,

    #[command(flatten)]
    pub sources: SourceArgs,

    #[command(flatten)]
    pub google: GoogleArgs,

    #[command(flatten)]
    pub webhooks: WebhookArgs,

    #[command(flatten)]
    pub remote_tools: RemoteToolArgs,

    #[command(flatten)]
    pub chat: ChatArgs,

    #[command(flatten)]
    pub archive: ArchiveArgs,

    #[command(flatten)]
    pub telemetry: TelemetryArgs,

    /// Address to listen on; port 0 picks a free port
    #[arg(long, env = "REJOIN_LISTEN", default_value = "127.0.0.1:7420")]
    pub listen: SocketAddr,

    /// Address on which to serve Prometheus metrics and health checks for operators, e.g. 127.0.0.1:9465 [default: on the address of the API]
    #[arg(long, env = "REJOIN_API_METRICS")]
    pub metrics: Option<SocketAddr>,

    /// Hosts for which `/mcp` responds: comma-separated names, or name:port [default: this machine's if it listens only
    /// there; otherwise any]
    #[arg(long, env = "REJOIN_MCP_HOSTS", value_delimiter = ',')]
    pub mcp_hosts: Vec<String>,

    /// Redirect URL for users who connect an account at an MCP server: the page that sends the answer to
    /// `/api/mcp-consents` [default: `/mcp/connect` at the address that the user's browser used]
    #[arg(long, env = "REJOIN_MCP_REDIRECT_URL")]
    pub mcp_redirect_url: Option<Url>,

    /// Maximum size of an upload for a graph import, in bytes
    #[arg(long, env = "REJOIN_MAX_IMPORT_BYTES", default_value_t = MAX_IMPORT_BYTES)]
    pub max_import_bytes: u64,

    /// Maximum number of concurrent requests, not counting open streams; more get 503
    #[arg(long, env = "REJOIN_MAX_IN_FLIGHT", default_value_t = 1_000)]
    pub max_in_flight: usize,

    /// Maximum number of streams that are opened at a time; more wait for their turn. After an outage all readers come back at once,
    /// and what each of them needs in memory and of the database is freed once its stream is open
    #[arg(long, env = "REJOIN_MAX_OPENING_STREAMS", default_value_t = 128, value_parser = clap::value_parser!(u16).range(1..))]
    pub max_opening_streams: u16,

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
            cells: CellArgs::default(),
            embeddings: EmbeddingsArgs::off(),
            http: HttpArgs::default(),
            streams: StreamArgs::default(),
            mcp_commands: CommandsArgs::default(),
            secret_keys: SecretKeyArgs::default(),
            sources: SourceArgs::default(),
            google: GoogleArgs::default(),
            webhooks: WebhookArgs::default(),
            remote_tools: RemoteToolArgs::default(),
            chat: ChatArgs::default(),
            archive: ArchiveArgs::default(),
            telemetry: TelemetryArgs::default(),
            mcp_hosts: Vec::new(),
            mcp_redirect_url: None,
            listen: SocketAddr::from(([127, 0, 0, 1], 7420)),
            metrics: None,
            max_import_bytes: MAX_IMPORT_BYTES,
            max_in_flight: 1_000,
            max_opening_streams: 128,
            max_in_flight_user_percent: 25,
            max_in_flight_project_percent: 50,
            drain_grace_ms: 250,
            drain_limit_ms: 10_000,
        }
    }

    /// The largest shares of slots that a user and a workspace may take.
    pub fn shares(&self) -> Shares {
        Shares {
            user_percent: self.max_in_flight_user_percent,
            workspace_percent: self.max_in_flight_project_percent,
        }
    }
}
