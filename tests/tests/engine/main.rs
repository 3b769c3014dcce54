//! Integration tests of the queue, the event log, and what happens when parts fail.
//! Each folder is a subject, each file a part of it, each test a sentence.

mod events;
mod queue;
mod reliability;
