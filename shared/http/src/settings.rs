//! Settings of HTTP endpoints: command-line options of `rejoin api`, each with an environment variable.

use std::time::Duration;

use clap::Args;

use crate::oidc::settings::OidcArgs;

/// A week.
const SESSION_HOURS: u32 = 168;

#[derive(Debug, Clone, Args)]
pub struct HttpArgs {
    #[command(flatten)]
    pub oidc: OidcArgs,

    /// Base URL under which clients reach the API, e.g. `https://chat.example`, for links in responses [default: what a
    /// trusted proxy says, or the request's]
    #[arg(long, env = "REJOIN_PUBLIC_URL", value_parser = rejoin_egress::origin::parse)]
    pub public_url: Option<String>,

    /// Maximum duration of a browser session, in hours; never longer than the credential it signed in with is valid
    #[arg(long, env = "REJOIN_SESSION_HOURS", default_value_t = SESSION_HOURS, value_parser = clap::value_parser!(u32).range(1..=8_760))]
    pub session_hours: u32,

    /// Maximum number of valid invitations of a project
    #[arg(long, env = "REJOIN_MAX_INVITATIONS", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub max_invitations: u32,

    /// Maximum lifetime of an invitation, in days
    #[arg(long, env = "REJOIN_INVITATION_MAX_DAYS", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=365))]
    pub invitation_max_days: u32,

    /// Maximum number of requests per second of one API key, or of one user with tokens; bursts may be twice as large
    #[arg(long, env = "REJOIN_RATE_PER_S", default_value_t = 2_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub rate_per_s: u32,

    /// Maximum number of requests per second of one user, over all of its keys
    #[arg(long, env = "REJOIN_USER_RATE_PER_S", default_value_t = 4_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub user_rate_per_s: u32,

    /// Maximum number of requests per second of one project, over all of its users
    #[arg(long, env = "REJOIN_PROJECT_RATE_PER_S", default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub project_rate_per_s: u32,

    /// Maximum number of audited changes per user and minute, and per burst
    #[arg(long, env = "REJOIN_AUDITED_PER_MINUTE", default_value_t = 300, value_parser = clap::value_parser!(u32).range(1..))]
    pub audited_per_minute: u32,

    /// Maximum number of requests per second through one link that shares a conversation; bursts may be twice as large
    #[arg(long, env = "REJOIN_SHARE_RATE_PER_S", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    pub share_rate_per_s: u32,

    /// Timeout for receiving a request body, in milliseconds
    #[arg(long, env = "REJOIN_BODY_TIMEOUT_MS", default_value_t = 25_000)]
    pub body_timeout_ms: u64,

    /// Minimum rate at which a request body must arrive after its grace period, in bytes per second
    #[arg(long, env = "REJOIN_BODY_MIN_BYTES_PER_S", default_value_t = 1_024, value_parser = clap::value_parser!(u32).range(1..))]
    pub body_min_bytes_per_s: u32,

    /// Grace period of a request body, in milliseconds
    #[arg(long, env = "REJOIN_BODY_GRACE_MS", default_value_t = 5_000)]
    pub body_grace_ms: u64,

    /// Maximum size of a request body, in bytes
    #[arg(long, env = "REJOIN_MAX_BODY_BYTES", default_value_t = 1024 * 1024)]
    pub max_body_bytes: usize,

    /// Default number of items in a list's page
    #[arg(long, env = "REJOIN_PAGE_SIZE", default_value_t = 50)]
    pub page_size: u32,

    /// Maximum number of items in a list's page
    #[arg(long, env = "REJOIN_MAX_PAGE_SIZE", default_value_t = 200)]
    pub max_page_size: u32,
}

impl Default for HttpArgs {
    fn default() -> Self {
        Self {
            oidc: OidcArgs::default(),
            public_url: None,
            session_hours: SESSION_HOURS,
            max_invitations: 100,
            invitation_max_days: 30,
            rate_per_s: 2_000,
            user_rate_per_s: 4_000,
            project_rate_per_s: 20_000,
            audited_per_minute: 300,
            share_rate_per_s: 20,
            body_timeout_ms: 25_000,
            body_min_bytes_per_s: 1_024,
            body_grace_ms: 5_000,
            max_body_bytes: 1024 * 1024,
            page_size: 50,
            max_page_size: 200,
        }
    }
}

impl HttpArgs {
    pub fn body_timeout(&self) -> Duration {
        Duration::from_millis(self.body_timeout_ms)
    }

    /// The maximum duration of a browser session, in seconds.
    pub fn session_s(&self) -> i64 {
        i64::from(self.session_hours) * 60 * 60
    }

    pub fn body_grace(&self) -> Duration {
        Duration::from_millis(self.body_grace_ms)
    }
}
