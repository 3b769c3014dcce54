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

    /// Models that users may choose for a turn, by names and globs, separated by commas; the models of agents need not be among them
    #[arg(long, env = "REJOIN_USER_MODELS", value_delimiter = ',', default_value = "*")]
    pub user_models: Vec<String>,

    /// Maximum number of conversations that one request changes or deletes
    #[arg(long, env = "REJOIN_MAX_BULK_CONVERSATIONS", default_value_t = MAX_BULK, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub max_bulk_conversations: u32,

    /// Maximum number of conversation folders of one user in a project
    #[arg(long, env = "REJOIN_MAX_CONVERSATION_FOLDERS", default_value_t = MAX_FOLDERS, value_parser = clap::value_parser!(u32).range(1..))]
    pub max_conversation_folders: u32,

    /// Number of messages that a search ranks: the newest ones that match
    #[arg(long, env = "REJOIN_SEARCH_RANKED", default_value_t = SEARCH_RANKED, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub search_ranked: u32,

    /// Maximum lifetime of a link that shares a conversation, in days
    #[arg(long, env = "REJOIN_SHARE_MAX_DAYS", default_value_t = SHARE_MAX_DAYS, value_parser = clap::value_parser!(u32).range(1..=3_650))]
    pub share_max_days: u32,

    /// Maximum number of valid links of one conversation
    #[arg(long, env = "REJOIN_MAX_SHARES", default_value_t = MAX_SHARES, value_parser = clap::value_parser!(u32).range(0..=1_000))]
    pub max_shares: u32,
}

/// Defaults.
const MAX_BULK: u32 = 100;
const MAX_FOLDERS: u32 = 200;
const SEARCH_RANKED: u32 = 2_000;
const SHARE_MAX_DAYS: u32 = 365;
const MAX_SHARES: u32 = 20;

impl Default for ChatArgs {
    /// The default settings, without a model of the environment.
    fn default() -> Self {
        Self {
            files: FilesArgs::default(),
            models: Environment::default(),
            max_message_chars: CONTENT_MAX_CHARS,
            dialect_words: WordsMode::Live,
            user_models: vec!["*".to_owned()],
            max_bulk_conversations: MAX_BULK,
            max_conversation_folders: MAX_FOLDERS,
            search_ranked: SEARCH_RANKED,
            share_max_days: SHARE_MAX_DAYS,
            max_shares: MAX_SHARES,
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
