//! Conversations: posting, turns of a chat, contexts and focus, long conversations, replies to questions, and the whole story of one chat.

mod client_threads;
mod client_tools;
mod context_types;
pub mod contexts;
mod conversations;
mod memory;
mod prewarm;
mod recall;
mod replies;
mod statements;
mod story;
mod turns;
