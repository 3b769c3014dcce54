//! The work graph: projects and their entities over HTTP and by tools.

mod arranged;
mod focus;
pub mod projects;
pub mod tools;
mod writes;
