//! Web search: common code of providers. Called by `web_search`, and by the test of a provider.
//!
//! - `tavily` `brave` `searxng`   one file per provider
//!
//! Invariant: any provider's results are bounded, and name only hosts allowed by the workspace and the request.

use async_trait::async_trait;
use rejoin_integrations::web_settings::{Provider, WebSettings, is_within};
use rejoin_secrets::{Plaintext, SecretError};
use reqwest::header::RETRY_AFTER;
use serde::Serialize;
use serde::de::DeserializeOwned;
use sqlx::PgPool;
use url::Url;
use uuid::Uuid;

use crate::web::Web;
use rejoin_egress::fetch::{Answer, FetchError, Fetcher};

pub mod brave;
pub mod searxng;
pub mod tavily;

/// Maximum length of one text, in characters.
const TITLE_MAX_CHARS: usize = 300;
const URL_MAX_CHARS: usize = 2_000;
const CONTENT_MAX_CHARS: usize = 2_000;
const ANSWER_MAX_CHARS: usize = 4_000;
/// Maximum length of all results' texts together, in characters.
const ALL_MAX_CHARS: usize = 16_000;

/// A search request.
#[derive(Debug, Clone, Default)]
pub struct Ask {
    pub query: String,
    /// More thorough, if the provider supports it.
    pub is_advanced: bool,
    pub max_results: usize,
    /// Requests an answer by the provider, if supported.
    pub include_answer: bool,
    /// Only these domains and their subdomains; empty: all.
    pub include_domains: Vec<String>,
    pub exclude_domains: Vec<String>,
}

/// A result.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Hit {
    pub title: String,
    pub url: String,
    /// The relevant text of the page.
    pub content: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub score: Option<f64>,
}

/// A provider's results.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct SearchResults {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    pub results: Vec<Hit>,
}

/// The error of a search, worded for a model, without the key.
#[derive(Debug, thiserror::Error)]
pub enum SearchError {
    #[error("the search provider rejected the project's API key; an admin must check it")]
    Key,
    #[error("the search provider's rate limit was reached{}", .0.as_ref().map(|s| format!("; retry in {s} seconds")).unwrap_or_default())]
    TooOften(Option<u64>),
    #[error("the search provider responded with status {0}; retry later")]
    Status(u16),
    #[error("the search provider returned an invalid response")]
    Garbage,
    #[error("the search provider: {0}")]
    Fetch(#[from] FetchError),
    #[error("this project no longer allows agents to search the web")]
    Off,
    #[error("the search provider has no URL; an admin must set it")]
    NoAddress,
    #[error("the search provider's key cannot be decrypted; the operator must set REJOIN_SECRET_KEYS_FILE for workers")]
    NoMasterKeys,
    #[error("the search provider's key is missing; an admin must set the secret {0}")]
    KeyMissing(String),
    #[error("decrypting the search provider's key: {0}")]
    Secret(#[from] SecretError),
}

/// A web search service.
#[async_trait]
pub trait SearchProvider: Send + Sync {
    /// Searches, through the guarded HTTP client.
    async fn search(&self, fetcher: &Fetcher, ask: &Ask) -> Result<SearchResults, SearchError>;
}

/// Returns a provider at its address. None: it has none.
pub fn provider(kind: Provider, base_url: Option<&str>, key: Option<Plaintext>) -> Option<Box<dyn SearchProvider>> {
    let mut base = Url::parse(base_url.or(kind.own_url())?).ok()?;
    if !base.path().ends_with('/') {
        let path = format!("{}/", base.path());
        base.set_path(&path);
    }
    Some(match kind {
        Provider::Tavily => Box::new(tavily::Tavily { base, key }),
        Provider::Brave => Box::new(brave::Brave { base, key }),
        Provider::Searxng => Box::new(searxng::Searxng { base, key }),
    })
}

impl Web {
    /// Searches with the workspace's provider and its secret key, and returns the allowed results.
    pub async fn search(
        &self,
        db: &PgPool,
        workspace_id: Uuid,
        settings: &WebSettings,
        ask: &Ask,
    ) -> Result<SearchResults, SearchError> {
        let kind = settings.provider.ok_or(SearchError::Off)?;
        let key = match &settings.key_secret {
            None => None,
            Some(name) => {
                let keys = self.keys.as_deref().ok_or(SearchError::NoMasterKeys)?;
                let key = rejoin_secrets::open(db, keys, workspace_id, name).await?;
                Some(key.ok_or_else(|| SearchError::KeyMissing(name.clone()))?)
            }
        };
        let provider = provider(kind, settings.base_url.as_deref(), key).ok_or(SearchError::NoAddress)?;
        let found = provider.search(&self.fetcher, ask).await?;
        Ok(bounded(found, settings, ask))
    }
}

fn bounded(found: SearchResults, settings: &WebSettings, ask: &Ask) -> SearchResults {
    let cut = |text: &str, chars: usize| text.trim().chars().take(chars).collect::<String>();
    let mut left = ALL_MAX_CHARS;
    let mut results: Vec<Hit> = Vec::new();
    for hit in found.results {
        if results.len() == ask.max_results {
            break;
        }
        let Ok(url) = Url::parse(hit.url.trim()) else { continue };
        let Some(host) = url.host_str() else { continue };
        let named = |domains: &[String]| domains.iter().any(|domain| is_within(host, domain));
        let is_wanted = (ask.include_domains.is_empty() || named(&ask.include_domains)) && !named(&ask.exclude_domains);
        let is_page = matches!(url.scheme(), "http" | "https") && url.as_str().len() <= URL_MAX_CHARS;
        if !is_page || !is_wanted || !settings.lets(host) || results.iter().any(|known| known.url == url.as_str()) {
            continue;
        }
        let content = cut(&hit.content, CONTENT_MAX_CHARS.min(left));
        left -= content.chars().count();
        results.push(Hit {
            title: cut(&hit.title, TITLE_MAX_CHARS),
            url: url.into(),
            content,
            score: hit.score.filter(|score| score.is_finite()),
        });
    }
    let answer = found.answer.filter(|_| ask.include_answer);
    SearchResults {
        answer: answer
            .map(|answer| cut(&answer, ANSWER_MAX_CHARS))
            .filter(|answer| !answer.is_empty()),
        results,
    }
}

/// Parses a provider's response, or returns its error.
fn read<T: DeserializeOwned>(answer: &Answer) -> Result<T, SearchError> {
    match answer.status.as_u16() {
        200 => serde_json::from_slice(&answer.body).map_err(|_| SearchError::Garbage),
        401 | 403 => Err(SearchError::Key),
        // 432 and 433 are Tavily's: the plan's limit, and the key's own.
        429 | 432 | 433 => Err(SearchError::TooOften(answer.header(RETRY_AFTER).parse().ok())),
        other => Err(SearchError::Status(other)),
    }
}

/// Builds a query for providers that support domains as query terms only.
fn with_sites(ask: &Ask) -> String {
    let mut query = ask.query.clone();
    let sites: Vec<String> = ask
        .include_domains
        .iter()
        .map(|domain| format!("site:{domain}"))
        .collect();
    match sites.as_slice() {
        [] => {}
        [site] => query = format!("{query} {site}"),
        sites => query = format!("{query} ({})", sites.join(" OR ")),
    }
    for domain in &ask.exclude_domains {
        query = format!("{query} -site:{domain}");
    }
    query
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hit(url: &str, content: &str) -> Hit {
        Hit {
            title: "t".repeat(1_000),
            url: url.to_owned(),
            content: content.to_owned(),
            score: Some(f64::NAN),
        }
    }

    /// Requirements: E08.
    #[test]
    fn what_a_provider_sends_is_bounded_and_kept_to_what_is_let() {
        let long = "c".repeat(100_000);
        let found = SearchResults {
            answer: Some("unasked".to_owned()),
            results: vec![
                hit("javascript:alert(1)", ""),
                hit("no url", ""),
                hit("https://blocked.example/", ""),
                hit("https://excluded.example/", ""),
                hit("https://a.example/1", &long),
                hit("https://a.example/1", "again"),
                hit("https://a.example/2", "two"),
                hit("https://a.example/3", "three"),
            ],
        };
        let settings = WebSettings {
            blocked_domains: vec!["blocked.example".to_owned()],
            ..WebSettings::default()
        };
        let ask = Ask {
            max_results: 2,
            exclude_domains: vec!["excluded.example".to_owned()],
            ..Ask::default()
        };
        let bounded = bounded(found, &settings, &ask);
        let urls: Vec<&str> = bounded.results.iter().map(|hit| hit.url.as_str()).collect();
        assert_eq!(urls, ["https://a.example/1", "https://a.example/2"]);
        assert_eq!(bounded.results[0].content.len(), CONTENT_MAX_CHARS);
        assert_eq!(bounded.results[0].title.len(), TITLE_MAX_CHARS);
        assert_eq!((bounded.results[0].score, bounded.answer), (None, None));
    }

    #[test]
    fn domains_become_words_of_a_query() {
        let mut ask = Ask {
            query: "rust".to_owned(),
            include_domains: vec!["a.org".to_owned(), "b.org".to_owned()],
            exclude_domains: vec!["c.org".to_owned()],
            ..Ask::default()
        };
        assert_eq!(with_sites(&ask), "rust (site:a.org OR site:b.org) -site:c.org");
        ask.include_domains.pop();
        assert_eq!(with_sites(&ask), "rust site:a.org -site:c.org");
    }
}
