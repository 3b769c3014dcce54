//! The settings of webhooks, and what a process sends and seals with: created once, cheap to clone. The API seals secrets and checks URLs,
//! workers send.

use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use rejoin_egress::fetch::Fetcher;
use rejoin_egress::ssrf_guard::Hosts;
use rejoin_secrets::MasterKeys;
use url::Url;

use crate::slots::Slots;

/// Time until a response begins.
const TIMEOUT_MS: u64 = 15_000;
/// Delays before the second, third … attempt: the last one is after about 20 hours.
const RETRIES_S: &str = "5,30,120,600,3600,21600,43200";
/// A month.
const KEEP_H: f64 = 24.0 * 30.0;
/// Maximum delay before an attempt, in seconds: a week.
const RETRY_MAX_S: u64 = 7 * 86_400;

/// How webhooks are sent.
#[derive(Debug, Clone, Args)]
pub struct WebhookArgs {
    /// Hosts on this machine or in private networks to which webhooks may be sent, also without TLS: comma-separated names, addresses
    /// and glob patterns
    #[arg(long, env = "REJOIN_WEBHOOK_HOSTS", value_delimiter = ',')]
    pub webhook_hosts: Vec<String>,

    /// Time within which a receiver must respond, in milliseconds
    #[arg(long, env = "REJOIN_WEBHOOK_TIMEOUT_MS", default_value_t = TIMEOUT_MS, value_parser = clap::value_parser!(u64).range(100..=60_000))]
    pub webhook_timeout_ms: u64,

    /// Delays before the second, third … attempt of a delivery, in seconds, separated by commas; after the last one it is dead
    #[arg(long, env = "REJOIN_WEBHOOK_RETRIES_S", value_delimiter = ',', default_value = RETRIES_S, value_parser = clap::value_parser!(u64).range(..=RETRY_MAX_S))]
    pub webhook_retries_s: Vec<u64>,

    /// Age at which delivered and dead deliveries are deleted, in hours; 0: never
    #[arg(long, env = "REJOIN_KEEP_WEBHOOK_DELIVERIES_H", default_value_t = KEEP_H, value_parser = hours)]
    pub keep_webhook_deliveries_h: f64,
}

fn hours(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(hours) if hours.is_finite() && hours >= 0.0 => Ok(hours),
        Ok(_) | Err(_) => Err("a number of hours is required, such as 24 or 0.5".to_owned()),
    }
}

impl Default for WebhookArgs {
    fn default() -> Self {
        Self {
            webhook_hosts: Vec::new(),
            webhook_timeout_ms: TIMEOUT_MS,
            webhook_retries_s: RETRIES_S.split(',').filter_map(|delay| delay.parse().ok()).collect(),
            keep_webhook_deliveries_h: KEEP_H,
        }
    }
}

/// What a process sends and seals with.
#[derive(Clone)]
pub struct Webhooks {
    pub(crate) args: Arc<WebhookArgs>,
    pub(crate) fetcher: Arc<Fetcher>,
    pub(crate) slots: Slots,
    keys: Option<Arc<MasterKeys>>,
    hosts: Arc<Hosts>,
    /// The server's address for clients. Empty: unknown.
    pub(crate) origin: Arc<str>,
}

impl Webhooks {
    pub fn new(args: &WebhookArgs, keys: Option<Arc<MasterKeys>>) -> Self {
        let hosts = Hosts::new("REJOIN_WEBHOOK_HOSTS", &args.webhook_hosts);
        let timeout = Duration::from_millis(args.webhook_timeout_ms);
        Self {
            args: Arc::new(args.clone()),
            fetcher: Arc::new(Fetcher::new(hosts.clone(), timeout)),
            slots: Slots::default(),
            keys,
            hosts: Arc::new(hosts),
            origin: "".into(),
        }
    }

    /// With the server's address for clients, such as `https://chat.example`, which precedes paths in notifications.
    pub fn at(self, origin: &str) -> Self {
        Self {
            origin: origin.into(),
            ..self
        }
    }

    /// Returns the master keys of webhooks' secrets.
    ///
    /// # Errors
    /// This process has no master keys.
    pub fn keys(&self) -> Result<&MasterKeys, &'static str> {
        self.keys.as_deref().ok_or(
            "the secrets of webhooks need master keys; the operator must set REJOIN_SECRET_KEYS_FILE for the API and workers",
        )
    }

    /// Checks a receiver's URL. A name is judged when it is resolved.
    ///
    /// # Errors
    /// Why no webhook is sent there.
    pub fn check(&self, url: &Url) -> Result<(), String> {
        self.fetcher.judge(url).map_err(|error| error.to_string())?;
        if url.scheme() != "https" && !self.hosts.name(url) {
            return Err(
                "only https:// URLs are supported, except for hosts that the operator lists in \
                        REJOIN_WEBHOOK_HOSTS"
                    .to_owned(),
            );
        }
        Ok(())
    }

    /// Returns the delay after the failed attempt `attempt` (from 1 on). None: it was the last one.
    pub(crate) fn delay_after(&self, attempt: i32) -> Option<Duration> {
        let nth = usize::try_from(attempt).ok()?.checked_sub(1)?;
        self.args.webhook_retries_s.get(nth).copied().map(Duration::from_secs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).expect("a URL")
    }

    #[test]
    fn only_public_https_urls_are_accepted() {
        let webhooks = Webhooks::new(&WebhookArgs::default(), None);
        assert_eq!(webhooks.check(&url("https://hooks.example/in?a=1")), Ok(()));
        for refused in [
            "http://hooks.example/",
            "https://127.0.0.1/",
            "https://[::1]/",
            "https://169.254.169.254/latest",
            "https://user:password@hooks.example/",
            "ftp://hooks.example/",
        ] {
            assert!(webhooks.check(&url(refused)).is_err(), "{refused}");
        }
        let listed = Webhooks::new(
            &WebhookArgs {
                webhook_hosts: vec!["10.0.0.*".to_owned()],
                ..WebhookArgs::default()
            },
            None,
        );
        assert_eq!(listed.check(&url("http://10.0.0.7:8080/in")), Ok(()));
        assert!(listed.check(&url("http://10.0.1.7:8080/in")).is_err());
    }

    #[test]
    fn each_delay_follows_its_attempt_and_the_last_attempt_has_none() {
        let webhooks = Webhooks::new(&WebhookArgs::default(), None);
        let delays: Vec<Option<u64>> = (0..=8)
            .map(|attempt| webhooks.delay_after(attempt).map(|delay| delay.as_secs()))
            .collect();
        let mut expected = vec![None];
        expected.extend([5, 30, 120, 600, 3_600, 21_600, 43_200].map(Some));
        expected.push(None);
        assert_eq!(delays, expected);
    }
}
