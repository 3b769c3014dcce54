//! Conversations: posting, turns of a chat, contexts and focus, long conversations, replies to questions, and the whole story of one chat.

mod arranged_lists;
mod branches;
mod client_threads;
mod client_tools;
mod context_types;
pub mod contexts;
mod conversation_search;
mod conversations;
mod default_agent;
mod exports;
mod memory;
mod message_search;
mod outside_of_chats;
mod prewarm;
mod recall;
mod replies;
mod sharing;
mod shown_tools;
mod statements;
mod story;
mod titles;
mod turn_failures;
mod turns;
