//! Conversations, agents and runs: types and their SQL. Verbs over several of them are in `rejoin-commands`.
//!
//! # Layout
//! - `conversations` `messages` `answers` `feedback`   chats, their messages, how answers came about, users' feedback
//! - `titles`      titles of conversations that a model writes
//! - `conversation_lists` `folders` `message_search`   how a user arranges and finds them
//! - `branches` `shares`   versions of a message, in other conversations; links by which others read one
//! - `agents` `prompts`   agent definitions; instructions for all agents
//! - `runs` `run_messages` `tool_calls`   a run, its transcript, its calls
//! - `run_dependencies` `questions` `steering`   what a run waits for; its questions to users; messages to a running run
//! - `forms`       what a tool asks its user in the middle of a call, a question for each field
//! - `question_forms`   a question as a form, by which a program asks its user
//! - `agent_assignment` which agent takes a new conversation: `rejoin-routing`, with the clues that the database has
//! - `contexts` `attachments` `compressions`   what a conversation is about, what is attached, what was summarized
//! - `consoles`    texts that users and agents write together, with their versions, and the tools over them
//! - `turn_records` what a turn begins with, in one query
//! - `prices`      a workspace's own prices of models
//! - `builtin`     the tools that need nothing but the database
//! - `client_tools` `client_calls`   functions that a run's client executes; their calls
//! - `remote_calls`   calls of functions in users' own programs
//! - `remote_steps`   steps of those calls
//! - `model_calls`    what those calls ask language models

pub mod agent_assignment;
pub mod agents;
pub mod answers;
pub mod attachments;
pub mod branches;
pub mod builtin;
pub mod client_calls;
pub mod client_tools;
pub mod compressions;
pub mod consoles;
pub mod contexts;
pub mod conversation_lists;
pub mod conversations;
pub mod feedback;
pub mod folders;
pub mod forms;
pub mod message_search;
pub mod messages;
pub mod model_calls;
pub mod prices;
pub mod prompts;
pub mod question_forms;
pub mod questions;
pub mod remote_calls;
pub mod remote_steps;
pub mod run_dependencies;
pub mod run_messages;
pub mod runs;
pub mod shares;
pub mod steering;
pub mod titles;
pub mod tool_calls;
pub mod turn_records;
