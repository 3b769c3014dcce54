//! What benchmarks have measured: tables of values, their plots and their printed form; and the clock that all use. It measures nothing.
//!
//! # Layout
//! - `results`  tables of values, claims, plots; read and written as JSON
//! - `machine`  the machine's description
//! - `here`     this machine, the commit and the date
//! - `print`    tables for a terminal
//! - `svg`      plots
//! - `report`   docs/reports/performance.md, generated from the results
//! - `capacity` a model of large fleets from measured costs
//! - `compare`  compares two results
//! - `load`     latency histograms, and the monotonic clock that all processes share
#![expect(
    clippy::print_stdout,
    reason = "a part of a command-line program: its tables go to stdout"
)]

pub mod capacity;
pub mod compare;
pub mod here;
pub mod load;
pub mod machine;
pub mod print;
pub mod report;
pub mod results;
pub mod svg;
