//! The web access of a process: created once, from the operator's settings; cheap to clone.

use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use rejoin_egress::ssrf_guard::Hosts;
use rejoin_secrets::MasterKeys;

use rejoin_egress::fetch::Fetcher;

/// Timeout of one call with all its requests.
const TIMEOUT_MS: u64 = 12_000;

/// How a process asks the web.
#[derive(Debug, Clone, Args)]
pub struct WebArgs {
    /// Hosts on this machine or in private networks that agents may visit and search providers may use, on any port,
    /// not only 80 and 443: comma-separated names, addresses and glob patterns
    #[arg(long, env = "REJOIN_WEB_HOSTS", value_delimiter = ',')]
    pub web_hosts: Vec<String>,

    /// Timeout of a search or a visit, including redirects, in milliseconds
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

/// The web access of a process.
#[derive(Clone)]
pub struct Web {
    pub(crate) fetcher: Arc<Fetcher>,
    /// Decrypt the secrets with providers' keys.
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
