//! Integration tests of the services that an agent uses (models, MCP servers, data sources, the web), and of projects on several databases.
//! Each folder is a subject, each file a part of it, each test a sentence.

mod cells;
mod consoles;
mod data_sources;
mod mcp;
mod models;
mod web_tools;
