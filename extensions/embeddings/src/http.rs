//! Embeddings from a server with OpenAI's embeddings API: OpenAI, Ollama, and many others. Called by
//! [`super::Embedder`], which limits the time and validates the result. Does not retry: the caller does.

use rejoin_db::config::Secret;
use serde::{Deserialize, Serialize};

use crate::EmbedError;
use crate::settings::Endpoints;

const OPENAI: &str = "https://api.openai.com/v1";
const OLLAMA_PORT: u16 = 11_434;
/// Maximum size of a response, in bytes: 256 vectors of 4,000 numbers of 12 digits take less.
const MAX_ANSWER_BYTES: usize = 16 * 1024 * 1024;
/// Maximum length of a rejection quoted in an error, in characters.
const MAX_SAID_CHARS: usize = 300;

#[derive(Debug)]
pub struct Http {
    client: reqwest::Client,
    url: String,
    key: Option<Secret>,
    model: String,
    dimensions: Option<usize>,
    name: String,
}

#[derive(Serialize)]
struct Request<'a> {
    model: &'a str,
    input: &'a [String],
    encoding_format: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    dimensions: Option<usize>,
}

#[derive(Deserialize)]
struct Answer {
    data: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    #[serde(default)]
    index: Option<usize>,
    embedding: Vec<f32>,
}

impl Http {
    pub(crate) fn openai(model: &str, dimensions: Option<usize>, endpoints: &Endpoints) -> Self {
        let base = endpoints.openai_base_url.as_deref().unwrap_or(OPENAI);
        let suffix = dimensions.map_or_else(String::new, |count| format!("@{count}"));
        Self {
            client: client(),
            url: format!("{}/embeddings", base.trim_end_matches('/')),
            key: endpoints.openai_key.clone(),
            model: model.to_owned(),
            dimensions,
            name: format!("openai:{model}{suffix}"),
        }
    }

    pub(crate) fn ollama(model: &str, endpoints: &Endpoints) -> Self {
        Self {
            client: client(),
            url: format!("{}/v1/embeddings", ollama_url(endpoints.ollama_host.as_deref())),
            key: None,
            model: model.to_owned(),
            dimensions: None,
            name: format!("ollama:{model}"),
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn dimensions(&self) -> Option<usize> {
        self.dimensions
    }

    pub(crate) async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, EmbedError> {
        let mut request = self.client.post(&self.url).json(&Request {
            model: &self.model,
            input: texts,
            encoding_format: "float",
            dimensions: self.dimensions,
        });
        if let Some(key) = self.key.as_ref().map(Secret::expose) {
            request = request.bearer_auth(key);
        }
        let without_url = |error: reqwest::Error| EmbedError::Unreachable(error.without_url());
        let mut response = request.send().await.map_err(without_url)?;
        let status = response.status();
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(without_url)? {
            body.extend_from_slice(&chunk);
            if body.len() > MAX_ANSWER_BYTES {
                return Err(EmbedError::Malformed(format!("more than {MAX_ANSWER_BYTES} bytes")));
            }
        }
        if !status.is_success() {
            let reason = String::from_utf8_lossy(&body).chars().take(MAX_SAID_CHARS).collect();
            return Err(EmbedError::Refused {
                status: status.as_u16(),
                reason,
            });
        }
        let answer: Answer = serde_json::from_slice(&body)
            .map_err(|error| EmbedError::Malformed(format!("no list of vectors: {error}")))?;
        let mut items = answer.data;
        // In the order of the texts, which a server may not keep.
        items.sort_by_key(|item| item.index);
        Ok(items.into_iter().map(|item| item.embedding).collect())
    }
}

/// Without redirects: a key must not be sent elsewhere.
fn client() -> reqwest::Client {
    rejoin_egress::tls::http_client()
        .redirect(reqwest::redirect::Policy::none())
        .build()
        .expect("the TLS library is there")
}

/// `OLLAMA_HOST` is also the server's listen address: it may lack scheme and port, and be 0.0.0.0.
fn ollama_url(host: Option<&str>) -> String {
    let host = host.unwrap_or("127.0.0.1").trim().trim_end_matches('/');
    let (scheme, rest) = host.split_once("://").unwrap_or(("http", host));
    let rest = rest.replacen("0.0.0.0", "127.0.0.1", 1);
    let has_port = rest
        .rsplit_once(':')
        .is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    if has_port || scheme == "https" {
        format!("{scheme}://{rest}")
    } else {
        format!("{scheme}://{rest}:{OLLAMA_PORT}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ollamas_host_is_read_as_ollama_does() {
        for (host, url) in [
            (None, "http://127.0.0.1:11434"),
            (Some("0.0.0.0"), "http://127.0.0.1:11434"),
            (Some("box:8000"), "http://box:8000"),
            (Some("https://o.example/"), "https://o.example"),
        ] {
            assert_eq!(ollama_url(host), url);
        }
    }
}
