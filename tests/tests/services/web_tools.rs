//! Tools for the web: search, and pages.

mod pages;
mod search;
