//! The work graph: projects and their entities over HTTP and by tools.

mod arranged;
mod focus;
mod project_access;
mod projects;
pub mod tools;
mod tools_in_runs;
mod writes;
