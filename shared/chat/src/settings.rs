//! Options of messages and files.

use std::fmt;
use std::str::FromStr;

use clap::Args;
use rejoin_files::FilesArgs;
use rejoin_models::answering::Environment;
use rejoin_runs::messages::CONTENT_MAX_CHARS;

#[derive(Debug, Clone, Args)]
pub struct ChatArgs {
    #[command(flatten)]
    pub files: FilesArgs,

    /// What this process's environment says of models: which one will answer a message with files
    #[arg(skip = Environment::from_env())]
    pub models: Environment,

    /// Maximum length of a chat message, in characters
    #[arg(long, env = "REJOIN_MAX_MESSAGE_CHARS", default_value_t = CONTENT_MAX_CHARS)]
    pub max_message_chars: usize,

    /// When clients that can't take words back are sent them, at `/api/ai/chat` and `/v1`: `live`, at once, or `safe`, when
    /// the words' step is stored
    #[arg(long, env = "REJOIN_DIALECT_WORDS", default_value_t = WordsMode::Live)]
    pub dialect_words: WordsMode,
}

impl Default for ChatArgs {
    /// The default settings, without a model of the environment.
    fn default() -> Self {
        Self {
            files: FilesArgs::default(),
            models: Environment::default(),
            max_message_chars: CONTENT_MAX_CHARS,
            dialect_words: WordsMode::Live,
        }
    }
}

/// When a client that can't take words back is sent the words of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WordsMode {
    /// At once. If a worker is lost and the step is written again in other words, the client has seen words that are not in the answer.
    #[default]
    Live,
    /// When the step is stored.
    Safe,
}

impl FromStr for WordsMode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "live" => Ok(Self::Live),
            "safe" => Ok(Self::Safe),
            _ => Err("use live or safe".to_owned()),
        }
    }
}

impl fmt::Display for WordsMode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Live => "live",
            Self::Safe => "safe",
        })
    }
}
