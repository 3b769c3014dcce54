//! SearXNG, self-hosted: `GET /search?format=json`, which its settings must allow. Domains are terms of the query; an
//! optional key is sent as a bearer token, for a proxy in front of it (docs.searxng.org).

use async_trait::async_trait;
use rejoin_secrets::Plaintext;
use serde::Deserialize;
use serde_json::Value;
use url::Url;

use super::{Ask, Hit, SearchError, SearchProvider, SearchResults, read, with_sites};
use rejoin_egress::fetch::{FetchError, Fetcher};

pub struct Searxng {
    /// Ends with `/`.
    pub base: Url,
    pub key: Option<Plaintext>,
}

#[derive(Deserialize)]
struct ApiResponse {
    results: Vec<Page>,
    /// Strings; in newer versions objects that contain one.
    #[serde(default)]
    answers: Vec<Value>,
}

#[derive(Deserialize)]
struct Page {
    #[serde(default)]
    title: String,
    url: String,
    content: Option<String>,
    score: Option<f64>,
}

#[async_trait]
impl SearchProvider for Searxng {
    async fn search(&self, fetcher: &Fetcher, ask: &Ask) -> Result<SearchResults, SearchError> {
        let broken = |error: url::ParseError| FetchError::Broken(error.to_string());
        let mut url = self.base.join("search").map_err(broken)?;
        url.query_pairs_mut()
            .append_pair("q", &with_sites(ask))
            .append_pair("format", "json");
        let key = self.key.as_ref().and_then(Plaintext::expose_text);
        let asked = url.clone();
        let answer = fetcher
            .service(&url, |client| match key {
                Some(key) => client.get(asked).bearer_auth(key),
                None => client.get(asked),
            })
            .await?;
        let response: ApiResponse = read(&answer)?;
        let first = response.answers.first();
        let answer = first.and_then(|answer| answer.as_str().or(answer["answer"].as_str()));
        Ok(SearchResults {
            answer: answer.map(str::to_owned),
            results: response
                .results
                .into_iter()
                .map(|result| Hit {
                    title: result.title,
                    url: result.url,
                    content: result.content.unwrap_or_default(),
                    score: result.score,
                })
                .collect(),
        })
    }
}
