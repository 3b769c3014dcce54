//! Integration tests of the knowledge graph, the work graph and calendars.
//! Each folder is a subject, each file a part of it, each test a sentence.

mod calendar;
mod graph;
mod hostile_imports;
mod work;
