//! The operator's OAuth client and Google's addresses. Used by the API, which redirects users to Google, and by
//! workers, which call it.

use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use rejoin_egress::ssrf_guard::Hosts;
use rejoin_secrets::MasterKeys;
use url::Url;

use rejoin_egress::fetch::Fetcher;

const AUTH_URL: &str = "https://accounts.google.com/o/oauth2/v2/auth";
const TOKEN_URL: &str = "https://oauth2.googleapis.com/token";
const API_URL: &str = "https://www.googleapis.com/calendar/v3";
const SYNC_S: u64 = 300;
const DAYS_BACK: u32 = 366;
const TIMEOUT_MS: u64 = 20_000;

/// The requested OAuth scopes: the list of calendars, and their events.
pub const SCOPES: [&str; 2] = [
    "https://www.googleapis.com/auth/calendar.events",
    "https://www.googleapis.com/auth/calendar.calendarlist.readonly",
];

/// How Google Calendar is reached. Without an id there is none.
#[derive(Debug, Clone, Args)]
pub struct GoogleArgs {
    /// Client id of a Google OAuth client of type "web application"; enables linking Google calendars
    #[arg(long, env = "REJOIN_GOOGLE_CLIENT_ID")]
    pub google_client_id: Option<String>,

    /// Client secret of that OAuth client; needed by workers only
    #[arg(long, env = "REJOIN_GOOGLE_CLIENT_SECRET", hide_env_values = true)]
    pub google_client_secret: Option<String>,

    /// Redirect URL of the OAuth client: this product's page followed by `/calendar/google` [default: the address that
    /// the user's browser used]
    #[arg(long, env = "REJOIN_GOOGLE_REDIRECT_URL")]
    pub google_redirect_url: Option<Url>,

    /// Google's authorization endpoint, which shows the consent page
    #[arg(long, env = "REJOIN_GOOGLE_AUTH_URL", default_value = AUTH_URL)]
    pub google_auth_url: Url,

    /// Google's token endpoint
    #[arg(long, env = "REJOIN_GOOGLE_TOKEN_URL", default_value = TOKEN_URL)]
    pub google_token_url: Url,

    /// Base URL of the Google Calendar API
    #[arg(long, env = "REJOIN_GOOGLE_API_URL", default_value = API_URL)]
    pub google_api_url: Url,

    /// Interval between two polls for changes at Google, in seconds; local changes are sent at once
    #[arg(long, env = "REJOIN_GOOGLE_SYNC_S", default_value_t = SYNC_S, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub google_sync_s: u64,

    /// Events that ended more than this many days ago are not imported when a calendar is linked
    #[arg(long, env = "REJOIN_GOOGLE_DAYS_BACK", default_value_t = DAYS_BACK)]
    pub google_days_back: u32,

    /// Timeout of a request to Google, in milliseconds
    #[arg(long, env = "REJOIN_GOOGLE_TIMEOUT_MS", default_value_t = TIMEOUT_MS, value_parser = clap::value_parser!(u64).range(100..=120_000))]
    pub google_timeout_ms: u64,
}

impl Default for GoogleArgs {
    fn default() -> Self {
        let url = |text: &str| Url::parse(text).expect("a constant of ours is a URL");
        Self {
            google_client_id: None,
            google_client_secret: None,
            google_redirect_url: None,
            google_auth_url: url(AUTH_URL),
            google_token_url: url(TOKEN_URL),
            google_api_url: url(API_URL),
            google_sync_s: SYNC_S,
            google_days_back: DAYS_BACK,
            google_timeout_ms: TIMEOUT_MS,
        }
    }
}

impl GoogleArgs {
    /// Returns whether users may link calendars.
    pub fn is_on(&self) -> bool {
        self.client_id().is_some()
    }

    pub(super) fn client_id(&self) -> Option<&str> {
        self.google_client_id.as_deref().filter(|id| !id.is_empty())
    }
}

/// A worker's dependencies for requests to Google. Cheap to clone.
#[derive(Clone)]
pub struct Google {
    pub(super) args: Arc<GoogleArgs>,
    pub(super) fetcher: Arc<Fetcher>,
    pub(super) keys: Option<Arc<MasterKeys>>,
}

impl Google {
    /// `web_hosts` are local or private hosts that may be contacted.
    pub fn new(args: &GoogleArgs, web_hosts: &[String], keys: Option<Arc<MasterKeys>>) -> Self {
        let hosts = Hosts::new("REJOIN_WEB_HOSTS", web_hosts);
        Self {
            args: Arc::new(args.clone()),
            fetcher: Arc::new(Fetcher::new(hosts, Duration::from_millis(args.google_timeout_ms))),
            keys,
        }
    }

    /// Returns the sync interval.
    pub fn every(&self) -> Duration {
        Duration::from_secs(self.args.google_sync_s)
    }
}
