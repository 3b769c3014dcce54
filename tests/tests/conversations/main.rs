//! Integration tests of what people and agents do in a conversation.
//! Each folder is a subject, each file a part of it, each test a sentence.

mod agents;
mod chat;
mod plans;
