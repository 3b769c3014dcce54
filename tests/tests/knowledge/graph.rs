//! The knowledge graph: its objects, HTTP API, tools, imports and exports, template packs, and search by meaning.

pub mod api;
mod api_refusals;
mod embeddings;
mod filtered_search;
mod focus;
mod packs;
mod search;
mod store;
mod tools;
mod tools_in_runs;
mod transfer;
