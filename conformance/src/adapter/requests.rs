//! The requests of a server: how a message is posted, how its stream is read, and where the stored answer is.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::yes;

/// A request.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Call {
    #[serde(default = "get")]
    pub method: String,
    pub url: String,
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    #[serde(default)]
    pub body: Option<String>,
    /// Values that later requests use: `header:NAME`, `header:NAME after TEXT`, `json:POINTER`, `frame:POINTER`.
    #[serde(default)]
    pub capture: BTreeMap<String, String>,
}

fn get() -> String {
    "GET".to_owned()
}

/// The requests of a turn.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Requests {
    /// Posts a message. Its response may be the stream.
    pub post: Call,
    /// Whether the response of `post` is the stream.
    #[serde(default = "yes")]
    pub post_streams: bool,
    /// Posts another message to the same conversation.
    #[serde(default)]
    pub follow_up: Option<Call>,
    /// Reads from the beginning.
    #[serde(default)]
    pub read: Option<Call>,
    /// Reads what follows `{{cursor}}`.
    #[serde(default)]
    pub read_from: Option<Call>,
    /// Reads the whole conversation, without an end: shows what follows the end of a turn.
    #[serde(default)]
    pub follow: Option<Call>,
    /// Reads with the credentials of another user.
    #[serde(default)]
    pub read_as_another: Option<Call>,
    #[serde(default)]
    pub cancel: Option<Call>,
    /// Returns the stored answer.
    #[serde(default)]
    pub stored: Option<Stored>,
}

/// Where the stored answer is.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stored {
    pub call: Call,
    /// The answer's text, or the list of messages.
    pub at: String,
    /// In a list: the pointer and the values of messages that are answers. The last one counts, or `all` of them.
    #[serde(default)]
    pub role: Option<String>,
    #[serde(default)]
    pub all: bool,
    #[serde(default)]
    pub roles: Vec<String>,
    /// In a message of a list: its text, or its list of parts (whose texts are at `/text`).
    #[serde(default)]
    pub text: String,
}
