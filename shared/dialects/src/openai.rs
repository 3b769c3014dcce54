//! OpenAI's protocols: Responses and Chat Completions. A response is a run, or the part of a run between two waits for its client: for the
//! output of a function, an approval, or an answer.
//!
//! # Layout
//! - `ids`       the ids of responses, conversations, calls and files, and the numbers of frames
//! - `errors`    errors in the protocol's shape
//! - `settings`  what a request set, kept with its message, because a response repeats it
//! - `input`     the input of a request: earlier messages, the message to answer, answers to calls
//! - `request`   the requests
//! - `fold`      a run's events as what a client without retraction is shown
//! - `changes`   what events change for the client
//! - `items`     output items as JSON
//! - `responses` the renderer of Responses
//! - `chat`      the renderer of Chat Completions
//! - `routes`    the endpoints

pub mod changes;
pub mod chat;
pub mod errors;
pub mod fold;
pub mod ids;
pub mod input;
pub mod items;
pub mod request;
pub mod responses;
pub mod routes;
pub mod settings;
