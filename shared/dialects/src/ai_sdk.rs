//! The AI SDK's UI message stream, version 1: what `useChat` with its `DefaultChatTransport` sends, and the chunks that it reads.
//!
//! - `request`  the body of `POST /api/ai/chat`, and what it asks for
//! - `renderer` the chunks of a turn
//! - `chunks`   chunks as frames
//! - `words`    the text and the reasoning of a step
//! - `data`     events that become `data-*` parts
//! - `stored`   stored messages
//! - `routes`   the endpoints
//!
//! A user's message is answered by one UI message, whose id is derived from it: a stream that is opened again replays that message from its
//! beginning, under the same id, and the client replaces what it had. The protocol has no cursor, and no chunk that takes words back.

mod chunks;
mod data;
pub mod renderer;
pub mod request;
pub mod routes;
mod stored;
mod words;

pub use self::renderer::UiMessages;
pub use self::request::{Answer, ChatBody, Output, Refusal, Sent, SentFile, Turn};
pub use self::stored::StoredMessage;

/// The header that names the protocol, and its version.
pub const STREAM_HEADER: &str = "x-vercel-ai-ui-message-stream";
pub const STREAM_VERSION: &str = "v1";
