//! The embedding model of a process: options and environment variables, flattened into those of the API and the worker.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use rejoin_db::config::Secret;

/// Settings of embeddings. All processes of a fleet must have the same.
#[derive(Debug, Clone, Args)]
pub struct EmbeddingsArgs {
    /// Embedding model for graph objects and queries: local, openai:MODEL, openai:MODEL@DIMENSIONS, ollama:MODEL, or
    /// off
    #[arg(long, env = "REJOIN_EMBEDDINGS", default_value = "local")]
    pub embeddings: Choice,

    /// Directory of the local model's files [default: the usual places]
    #[arg(long, env = "REJOIN_EMBEDDINGS_DIR")]
    pub embeddings_dir: Option<PathBuf>,

    /// Base URL of the embedding server (with its /v1), if it is not the chat models' server; it then also needs its
    /// own key
    #[arg(long, env = "REJOIN_EMBEDDINGS_URL")]
    pub embeddings_url: Option<String>,

    /// API key of that server
    #[arg(long, env = "REJOIN_EMBEDDINGS_KEY", hide_env_values = true)]
    pub embeddings_key: Option<Secret>,

    /// Timeout of a request to the embedding server, in milliseconds
    #[arg(long, env = "REJOIN_EMBEDDINGS_TIMEOUT_MS", default_value_t = 30_000)]
    pub embeddings_timeout_ms: u64,
}

impl EmbeddingsArgs {
    /// Without embeddings: the default of unrelated tests and benchmarks.
    pub fn off() -> Self {
        Self {
            embeddings: Choice::Off,
            embeddings_dir: None,
            embeddings_url: None,
            embeddings_key: None,
            embeddings_timeout_ms: 30_000,
        }
    }

    pub fn timeout(&self) -> Duration {
        Duration::from_millis(self.embeddings_timeout_ms)
    }
}

/// The provider of vectors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Choice {
    Off,
    /// The local model.
    Local,
    /// OpenAI, or any compatible server.
    OpenAi {
        model: String,
        /// The dimension requested from the server; None: the model's default.
        dimensions: Option<usize>,
    },
    Ollama {
        model: String,
    },
}

impl FromStr for Choice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        match text.split_once(':') {
            None if text == "off" => Ok(Self::Off),
            None if text == "local" => Ok(Self::Local),
            Some(("openai", model)) if !model.is_empty() => match model.rsplit_once('@') {
                None => Ok(Self::OpenAi {
                    model: model.to_owned(),
                    dimensions: None,
                }),
                Some((model, dimensions)) => match dimensions.parse() {
                    Ok(count) if (1..=crate::MAX_DIMENSIONS).contains(&count) && !model.is_empty() => {
                        Ok(Self::OpenAi {
                            model: model.to_owned(),
                            dimensions: Some(count),
                        })
                    }
                    Ok(_) | Err(_) => Err(format!(
                        "after @ there must be 1 to {} dimensions",
                        crate::MAX_DIMENSIONS
                    )),
                },
            },
            Some(("ollama", model)) if !model.is_empty() => Ok(Self::Ollama {
                model: model.to_owned(),
            }),
            Some(_) | None => {
                Err("use local, off, openai:MODEL (e.g. openai:text-embedding-3-small) or ollama:MODEL".to_owned())
            }
        }
    }
}

/// Addresses and keys of servers, from the variables shared with the chat models.
#[derive(Debug, Clone, Default)]
pub struct Endpoints {
    pub openai_key: Option<Secret>,
    /// Including `/v1`.
    pub openai_base_url: Option<String>,
    /// In the formats that Ollama itself accepts.
    pub ollama_host: Option<String>,
}

impl Endpoints {
    pub fn from_env() -> Self {
        let var = |name: &str| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
        Self {
            openai_key: var("OPENAI_API_KEY").map(Secret::new),
            openai_base_url: var("OPENAI_BASE_URL"),
            ollama_host: var("OLLAMA_HOST"),
        }
    }

    /// Applies the embedding server's settings: a key of one server is never sent to another.
    pub(crate) fn or(&self, args: &EmbeddingsArgs) -> Self {
        match &args.embeddings_url {
            Some(url) => Self {
                openai_key: args.embeddings_key.clone(),
                openai_base_url: Some(url.clone()),
                ollama_host: Some(url.trim_end_matches('/').trim_end_matches("/v1").to_owned()),
            },
            None => self.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_is_read_from_words_and_a_wrong_one_is_explained() {
        let openai = |model: &str, dimensions| Choice::OpenAi {
            model: model.to_owned(),
            dimensions,
        };
        assert_eq!("off".parse(), Ok(Choice::Off));
        assert_eq!(" local ".parse(), Ok(Choice::Local));
        assert_eq!("openai:m".parse(), Ok(openai("m", None)));
        assert_eq!("openai:org/m@512".parse(), Ok(openai("org/m", Some(512))));
        let ollama = Choice::Ollama {
            model: "all-minilm:22m".to_owned(),
        };
        assert_eq!("ollama:all-minilm:22m".parse(), Ok(ollama));
        for wrong in [
            "",
            "openai",
            "openai:",
            "openai:m@0",
            "openai:m@x",
            "openai:@5",
            "ollama:",
            "other:m",
        ] {
            assert!(wrong.parse::<Choice>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_own_server_gets_its_own_key() {
        let theirs = Endpoints {
            openai_key: Some(Secret::new("sk-secret")),
            ..Endpoints::default()
        };
        let mut args = EmbeddingsArgs::off();
        assert!(theirs.or(&args).openai_key.is_some());
        args.embeddings_url = Some("http://box/v1".to_owned());
        assert!(theirs.or(&args).openai_key.is_none());
        assert_eq!(theirs.or(&args).ollama_host.as_deref(), Some("http://box"));
    }

    #[test]
    fn the_debug_form_holds_no_key() {
        let endpoints = Endpoints {
            openai_key: Some(Secret::new("sk-secret")),
            ..Endpoints::default()
        };
        assert!(!format!("{endpoints:?}").contains("secret"));
    }
}
