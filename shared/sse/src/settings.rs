//! Settings of connections and streams: command-line options of `rejoin api`, each with an environment variable.

use std::time::Duration;

use clap::Args;
use rejoin_http::proxies::Proxy;

#[derive(Debug, Clone, Args)]
pub struct StreamArgs {
    /// Trusted reverse proxies: comma-separated addresses, networks such as 10.0.0.0/8, `loopback` or `none`. Their
    /// `X-Forwarded-Host` and `X-Forwarded-Proto` are trusted, and their connections are not counted by address
    #[arg(
        long,
        env = "REJOIN_TRUSTED_PROXIES",
        value_delimiter = ',',
        default_value = "loopback"
    )]
    pub trusted_proxies: Vec<Proxy>,

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
}

impl Default for StreamArgs {
    fn default() -> Self {
        Self {
            trusted_proxies: vec![Proxy::Loopback],
            max_connections: 60_000,
            max_connections_per_address: 2_000,
            reserved_files: 256,
            head_timeout_ms: 10_000,
            keep_alive_s: 90,
            heartbeat_s: 8,
            stall_timeout_ms: 10_000,
            max_streams_per_user: 10_000,
            max_streams_per_project: 50_000,
            max_streams: 50_000,
        }
    }
}

impl StreamArgs {
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
