//! Brave Search: `GET /res/v1/web/search`, its key in `X-Subscription-Token`; domains are terms of the query,
//! `advanced` asks for more of each page (api-dashboard.search.brave.com).

use async_trait::async_trait;
use rejoin_secrets::Plaintext;
use serde::Deserialize;
use url::Url;

use super::{Ask, Hit, SearchError, SearchProvider, SearchResults, read, with_sites};
use rejoin_egress::fetch::{FetchError, Fetcher};

pub struct Brave {
    /// Ends with `/`.
    pub base: Url,
    pub key: Option<Plaintext>,
}

#[derive(Deserialize)]
struct ApiResponse {
    /// Absent if there are no results.
    web: Option<Web>,
}

#[derive(Deserialize)]
struct Web {
    #[serde(default)]
    results: Vec<Page>,
}

#[derive(Deserialize)]
struct Page {
    #[serde(default)]
    title: String,
    url: String,
    #[serde(default)]
    description: String,
    #[serde(default)]
    extra_snippets: Vec<String>,
}

#[async_trait]
impl SearchProvider for Brave {
    async fn search(&self, fetcher: &Fetcher, ask: &Ask) -> Result<SearchResults, SearchError> {
        let broken = |error: url::ParseError| FetchError::Broken(error.to_string());
        let mut url = self.base.join("res/v1/web/search").map_err(broken)?;
        url.query_pairs_mut()
            .append_pair("q", &with_sites(ask))
            .append_pair("count", &ask.max_results.to_string())
            .append_pair("text_decorations", "false")
            .append_pair("extra_snippets", if ask.is_advanced { "true" } else { "false" });
        let key = self
            .key
            .as_ref()
            .and_then(Plaintext::expose_text)
            .ok_or(SearchError::Key)?;
        let asked = url.clone();
        let answer = fetcher
            .service(&url, |client| client.get(asked).header("x-subscription-token", key))
            .await?;
        let response: ApiResponse = read(&answer)?;
        let results = response.web.map(|web| web.results).unwrap_or_default();
        let results = results.into_iter().map(|result| Hit {
            title: result.title,
            url: result.url,
            content: [vec![result.description], result.extra_snippets].concat().join("\n"),
            score: None,
        });
        Ok(SearchResults {
            answer: None,
            results: results.collect(),
        })
    }
}
