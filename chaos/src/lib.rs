//! Chaos: the whole product as real processes, with real load, while everything fails that can fail; and a checker that decides
//! afterwards whether the promises were kept.
//!
//! # Layout
//! - `run`       a run from its start to its verdict; `broken`: runs that must fail
//! - `soak`      an hour in which nothing is done to it; `plot`: its plots
//! - `world`     all parts of a run; `fleet`: the processes; `proxy`: what is between them and PostgreSQL
//! - `load`      what users do; `client`: how they post; `readers`: how they read; `plan`: what turns are to be
//! - `model`     the scripted model; `tools`: tools with effects on the world; `worker`: `rejoin worker` with those
//! - `mcp_server` an MCP server that hangs, dies and lies
//! - `dags`      DAGs of tasks while workers are killed at random
//! - `faults`    what is done to the system
//! - `evidence`  what the world outside the database knows; `witness`: what the database saw of its jobs
//! - `checker`   decides; one invariant a file
//! - `recovery`  how long it took to go on; `report`: what is told of a run

pub mod broken;
pub mod checker;
pub mod client;
pub mod dags;
pub mod evidence;
pub mod faults;
pub mod fleet;
pub mod load;
pub mod mcp_server;
pub mod model;
pub mod plan;
pub mod plot;
pub mod proxy;
pub mod readers;
pub mod recovery;
pub mod report;
pub mod run;
pub mod soak;
pub mod tools;
pub mod witness;
pub mod worker;
pub mod world;
