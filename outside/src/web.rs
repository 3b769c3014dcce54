//! What a process uses of the web: made once, from the operator's settings; cheap to clone.

use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use rejoin_shared::net::Hosts;
use rejoin_shared::secrets::MasterKeys;

use crate::fetch::Fetcher;

/// Of one call, all its requests together.
const TIMEOUT_MS: u64 = 12_000;

/// How a process asks the web.
#[derive(Debug, Clone, Args)]
pub struct WebArgs {
    /// Hosts of this machine or of private networks that agents may visit and search providers may be on, also on other ports than 80 and
    /// 443: names and addresses, with globs, separated by commas
    #[arg(long, env = "REJOIN_WEB_HOSTS", value_delimiter = ',')]
    pub web_hosts: Vec<String>,

    /// A search or a visit that takes longer fails, with all its redirects [milliseconds]
    #[arg(long, env = "REJOIN_WEB_TIMEOUT_MS", default_value_t = TIMEOUT_MS, value_parser = clap::value_parser!(u64).range(100..=60_000))]
    pub web_timeout_ms: u64,
}

impl Default for WebArgs {
    fn default() -> Self {
        Self {
            web_hosts: Vec::new(),
            web_timeout_ms: TIMEOUT_MS,
        }
    }
}

/// The web as a process may ask it.
#[derive(Clone)]
pub struct Web {
    pub(crate) fetcher: Arc<Fetcher>,
    /// Open the secrets that hold providers' keys.
    pub(crate) keys: Option<Arc<MasterKeys>>,
}

impl Web {
    pub fn new(args: &WebArgs, keys: Option<Arc<MasterKeys>>) -> Self {
        let hosts = Hosts::new("REJOIN_WEB_HOSTS", &args.web_hosts);
        Self {
            fetcher: Arc::new(Fetcher::new(hosts, Duration::from_millis(args.web_timeout_ms))),
            keys,
        }
    }
}
