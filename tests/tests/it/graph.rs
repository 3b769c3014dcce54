//! The knowledge graph: its objects, HTTP API, tools, imports and exports, template packs, and search by meaning.

pub mod api;
mod embeddings;
mod focus;
mod packs;
mod store;
mod tools;
mod tools_in_runs;
mod transfer;
