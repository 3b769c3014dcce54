//! Integration tests of the protocols of other programs: their clients, files, webhooks.
//! Each folder is a subject, each file a part of it, each test a sentence.

mod clients;
mod files;
mod remote_tools;
mod webhooks;
