//! Integration tests of the queue, the event log and its store of old logs, task DAGs and schedules, connections to the database, and what happens when parts fail.
//! Each folder is a subject, each file a part of it, each test a sentence.

mod archive;
mod connections;
mod events;
mod queue;
mod reliability;
mod tasks;
