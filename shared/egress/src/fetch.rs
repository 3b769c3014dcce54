//! The guarded HTTP client. Called by the web tools (`visit`, the search providers), by calendars, and by webhooks.
//!
//! Invariants: every URL is checked before it is requested, including redirects; a name is resolved once, and the
//! connection goes to one of the checked addresses; no proxy, no cookies, no credentials in URLs; nothing is read
//! beyond [`MAX_BYTES`], compressed or not, nor awaited beyond the process's limit.

use std::io::Read;
use std::net::SocketAddr;
use std::time::Duration;

use flate2::read::MultiGzDecoder;
use moka::future::Cache;
use reqwest::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, LOCATION};
use reqwest::{Client, RequestBuilder, Response, StatusCode};
use tokio::time::timeout;
use url::{Host, Url};

use crate::robots::Robots;
use crate::ssrf_guard::Hosts;
use crate::tls;

/// The User-Agent header.
pub const USER_AGENT: &str = concat!("RejoinBot/", env!("CARGO_PKG_VERSION"));
/// Maximum size of a decompressed response, in bytes.
pub const MAX_BYTES: usize = 2 * 1024 * 1024;
pub const MAX_REDIRECTS: usize = 5;
/// Maximum length of a URL, in bytes.
const URL_MAX_BYTES: usize = 4_000;
/// Number of sites whose rules are cached, and their lifetime.
const ROBOTS_KEPT: u64 = 10_000;
const ROBOTS_KEPT_FOR: Duration = Duration::from_secs(3_600);
/// Time for the body of a response to a delivery, after its head.
const DELIVERY_BODY_LIMIT: Duration = Duration::from_secs(2);

/// The error of a request, worded for a model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    /// The URL is not allowed.
    #[error("{0}")]
    Refused(String),
    #[error("{0} cannot be reached")]
    Unreachable(String),
    #[error("the request timed out after {} ms", .0.as_millis())]
    TooSlow(Duration),
    #[error("the response is larger than {} MiB", MAX_BYTES / 1024 / 1024)]
    TooLarge,
    #[error("there are more than {MAX_REDIRECTS} redirects")]
    Redirects,
    #[error("the response cannot be read: {0}")]
    Broken(String),
    #[error("the site does not allow robots to read this page (robots.txt)")]
    Robots,
}

/// A complete response.
#[derive(Debug)]
pub struct Answer {
    /// Its URL after redirects.
    pub url: Url,
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

impl Answer {
    /// Returns a header's text; empty if absent.
    pub fn header(&self, name: impl reqwest::header::AsHeaderName) -> &str {
        self.headers
            .get(name)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
    }

    /// Returns the media type without parameters, in lower case.
    pub fn content_type(&self) -> String {
        let whole = self.header(CONTENT_TYPE);
        whole.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
    }
}

/// The HTTP client of a process.
pub struct Fetcher {
    hosts: Hosts,
    timeout: Duration,
    robots: Cache<String, Robots>,
}

impl Fetcher {
    pub fn new(hosts: Hosts, timeout: Duration) -> Self {
        Self {
            hosts,
            timeout,
            robots: Cache::builder()
                .max_capacity(ROBOTS_KEPT)
                .time_to_live(ROBOTS_KEPT_FOR)
                .build(),
        }
    }

    /// Fetches a page, following a limited number of redirects, if the site allows robots. `lets` checks the hosts.
    pub async fn page(
        &self,
        url: &Url,
        headers: &HeaderMap,
        lets: impl Fn(&str) -> bool + Sync,
    ) -> Result<Answer, FetchError> {
        let page = self.follow(url, headers, &lets, true);
        timeout(self.timeout, page)
            .await
            .unwrap_or(Err(FetchError::TooSlow(self.timeout)))
    }

    /// Sends one request to a service; redirects are not followed, since they would leak its key.
    pub async fn service(
        &self,
        url: &Url,
        request: impl FnOnce(Client) -> RequestBuilder,
    ) -> Result<Answer, FetchError> {
        self.judge(url)?;
        timeout(self.timeout, self.hop(url, request))
            .await
            .unwrap_or(Err(FetchError::TooSlow(self.timeout)))
    }

    /// Sends one request whose response matters by its status; redirects are not followed. The body is returned as far as it arrives
    /// within two seconds after the head, up to `max_body_bytes`, as it was sent.
    pub async fn deliver(
        &self,
        url: &Url,
        request: impl FnOnce(Client) -> RequestBuilder,
        max_body_bytes: usize,
    ) -> Result<Answer, FetchError> {
        self.judge(url)?;
        let sending = async { self.send(url, request(self.client(url).await?)).await };
        let sent = timeout(self.timeout, sending).await;
        let mut response = sent.unwrap_or(Err(FetchError::TooSlow(self.timeout)))?;
        let (status, headers) = (response.status(), response.headers().clone());
        let mut body = Vec::new();
        let reading = async {
            while let Ok(Some(chunk)) = response.chunk().await {
                let room = max_body_bytes - body.len();
                body.extend_from_slice(&chunk[..chunk.len().min(room)]);
                if chunk.len() >= room {
                    break;
                }
            }
        };
        // A body that is late or too long changes nothing.
        let _ = timeout(DELIVERY_BODY_LIMIT, reading).await;
        Ok(Answer {
            url: url.clone(),
            status,
            headers,
            body,
        })
    }

    async fn send(&self, url: &Url, request: RequestBuilder) -> Result<Response, FetchError> {
        request.send().await.map_err(|error| unreachable(url, &error))
    }

    async fn follow(
        &self,
        url: &Url,
        headers: &HeaderMap,
        lets: &(impl Fn(&str) -> bool + Sync),
        as_robot: bool,
    ) -> Result<Answer, FetchError> {
        let mut url = url.clone();
        for _ in 0..=MAX_REDIRECTS {
            self.judge(&url)?;
            self.judge_port(&url)?;
            let host = url.host_str().unwrap_or_default();
            if !lets(host) {
                return Err(FetchError::Refused(format!(
                    "this project does not allow agents to visit {host}"
                )));
            }
            if as_robot && !self.robots(&url).await?.allow(&url) {
                return Err(FetchError::Robots);
            }
            let asked = url.clone();
            let answer = self
                .hop(&url, |client| client.get(asked).headers(headers.clone()))
                .await?;
            let next = match answer.status.as_u16() {
                301 | 302 | 303 | 307 | 308 => answer.header(LOCATION),
                _ => "",
            };
            if next.is_empty() {
                return Ok(answer);
            }
            url = url
                .join(next)
                .map_err(|error| FetchError::Broken(format!("the redirect target is not a valid URL: {error}")))?;
        }
        Err(FetchError::Redirects)
    }

    /// Returns a site's robots.txt, cached for an hour.
    async fn robots(&self, url: &Url) -> Result<Robots, FetchError> {
        let site = url.origin().ascii_serialization();
        if let Some(known) = self.robots.get(&site).await {
            return Ok(known);
        }
        let Ok(file) = url.join("/robots.txt") else {
            return Ok(Robots::none());
        };
        // Its own redirects are followed as usual, without checking robots.txt.
        let no_headers = HeaderMap::new();
        let everywhere = |_: &str| true;
        let asked = Box::pin(self.follow(&file, &no_headers, &everywhere, false)).await;
        let rules = match asked {
            Ok(answer) if answer.status.is_success() => Robots::parse(&String::from_utf8_lossy(&answer.body)),
            // RFC 9309, 2.3.1.3: there are no rules. 2.3.1.4: a site with a server error is not visited, for now.
            Ok(answer) if answer.status.is_server_error() => return Ok(Robots::all()),
            Ok(_) | Err(FetchError::TooLarge | FetchError::Redirects | FetchError::Broken(_)) => Robots::none(),
            Err(error) => return Err(error),
        };
        self.robots.insert(site, rules.clone()).await;
        Ok(rules)
    }

    /// Err: why this URL is refused. A name is judged when it is resolved.
    pub fn judge(&self, url: &Url) -> Result<(), FetchError> {
        let refused = |why: &str| Err(FetchError::Refused(why.to_owned()));
        if !matches!(url.scheme(), "http" | "https") {
            return refused("only http:// and https:// URLs are supported");
        }
        if !url.username().is_empty() || url.password().is_some() {
            return refused("the URL contains credentials; remove them");
        }
        if url.as_str().len() > URL_MAX_BYTES {
            return Err(FetchError::Refused(format!(
                "a URL can have at most {URL_MAX_BYTES} bytes"
            )));
        }
        self.hosts.judge(url).map_err(FetchError::Refused)
    }

    fn judge_port(&self, url: &Url) -> Result<(), FetchError> {
        match url.port_or_known_default() {
            Some(80 | 443) => Ok(()),
            Some(_) if self.hosts.name(url) => Ok(()),
            Some(port) => Err(FetchError::Refused(format!(
                "only ports 80 and 443 are allowed, not {port}"
            ))),
            None => Err(FetchError::Refused("the URL has no port".to_owned())),
        }
    }

    /// Sends one request to a checked URL.
    async fn hop(&self, url: &Url, request: impl FnOnce(Client) -> RequestBuilder) -> Result<Answer, FetchError> {
        let client = self.client(url).await?;
        let request = request(client).header(ACCEPT_ENCODING, "gzip");
        let mut response = self.send(url, request).await?;
        if response
            .content_length()
            .is_some_and(|length| length > MAX_BYTES as u64)
        {
            return Err(FetchError::TooLarge);
        }
        let (status, headers) = (response.status(), response.headers().clone());
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| unreachable(url, &error))? {
            if body.len() + chunk.len() > MAX_BYTES {
                return Err(FetchError::TooLarge);
            }
            body.extend_from_slice(&chunk);
        }
        let encoding = headers.get(CONTENT_ENCODING).and_then(|value| value.to_str().ok());
        Ok(Answer {
            url: url.clone(),
            status,
            body: unpacked(encoding.unwrap_or_default(), body)?,
            headers,
        })
    }

    /// Creates a client for one request, which connects to a checked address only.
    async fn client(&self, url: &Url) -> Result<Client, FetchError> {
        let builder = tls::http_client()
            .user_agent(USER_AGENT)
            .redirect(reqwest::redirect::Policy::none())
            // A proxy would resolve names itself, unchecked.
            .no_proxy()
            .pool_max_idle_per_host(0);
        let builder = match url.host() {
            Some(Host::Domain(name)) => {
                let port = url.port_or_known_default().unwrap_or_default();
                let judged: Vec<SocketAddr> = self.hosts.resolve(name, port).await.map_err(FetchError::Refused)?;
                builder.resolve_to_addrs(name, &judged)
            }
            // Checked as a literal address.
            Some(Host::Ipv4(_) | Host::Ipv6(_)) | None => builder,
        };
        builder
            .build()
            .map_err(|error| FetchError::Broken(format!("creating the HTTP client failed: {error}")))
    }
}

fn unreachable(url: &Url, error: &reqwest::Error) -> FetchError {
    tracing::debug!(%error, "a web request failed");
    FetchError::Unreachable(url.host_str().unwrap_or_default().to_owned())
}

/// Decompresses a body, up to the maximum size.
fn unpacked(encoding: &str, body: Vec<u8>) -> Result<Vec<u8>, FetchError> {
    match encoding.trim().to_ascii_lowercase().as_str() {
        "" | "identity" => Ok(body),
        "gzip" | "x-gzip" => {
            let mut plain = Vec::new();
            MultiGzDecoder::new(body.as_slice())
                .take(MAX_BYTES as u64 + 1)
                .read_to_end(&mut plain)
                .map_err(|error| FetchError::Broken(format!("the body is not valid gzip: {error}")))?;
            if plain.len() > MAX_BYTES {
                Err(FetchError::TooLarge)
            } else {
                Ok(plain)
            }
        }
        other => Err(FetchError::Broken(format!(
            "the content encoding {other} is not supported"
        ))),
    }
}

#[cfg(test)]
mod tests;
