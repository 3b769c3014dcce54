//! Integration tests of identity, row-level security, operations, and rules about the repository.
//! Each folder is a subject, each file a part of it, each test a sentence.

mod identity;
mod operations;
mod repository;
mod security;
