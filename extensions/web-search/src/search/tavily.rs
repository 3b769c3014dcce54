//! Tavily: `POST /search` with a bearer token; supports depths, domains and answers natively (docs.tavily.com).

use async_trait::async_trait;
use rejoin_secrets::Plaintext;
use serde::Deserialize;
use serde_json::json;
use url::Url;

use super::{Ask, Hit, SearchError, SearchProvider, SearchResults, read};
use rejoin_egress::fetch::{FetchError, Fetcher};

pub struct Tavily {
    /// Ends with `/`.
    pub base: Url,
    pub key: Option<Plaintext>,
}

#[derive(Deserialize)]
struct ApiResponse {
    answer: Option<String>,
    results: Vec<Page>,
}

#[derive(Deserialize)]
struct Page {
    #[serde(default)]
    title: String,
    url: String,
    #[serde(default)]
    content: String,
    score: Option<f64>,
}

#[async_trait]
impl SearchProvider for Tavily {
    async fn search(&self, fetcher: &Fetcher, ask: &Ask) -> Result<SearchResults, SearchError> {
        let url = self
            .base
            .join("search")
            .map_err(|error| FetchError::Broken(error.to_string()))?;
        let key = self
            .key
            .as_ref()
            .and_then(Plaintext::expose_text)
            .ok_or(SearchError::Key)?;
        let body = json!({
            "query": ask.query,
            "search_depth": if ask.is_advanced { "advanced" } else { "basic" },
            "max_results": ask.max_results,
            "include_answer": ask.include_answer,
            "include_domains": ask.include_domains,
            "exclude_domains": ask.exclude_domains,
        });
        let asked = url.clone();
        let answer = fetcher
            .service(&url, |client| client.post(asked).bearer_auth(key).json(&body))
            .await?;
        let response: ApiResponse = read(&answer)?;
        Ok(SearchResults {
            answer: response.answer,
            results: response
                .results
                .into_iter()
                .map(|result| Hit {
                    title: result.title,
                    url: result.url,
                    content: result.content,
                    score: result.score,
                })
                .collect(),
        })
    }
}
