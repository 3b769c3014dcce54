//! Chaos tests: the whole product as real processes, under real load and fault injection; and a checker that decides
//! afterwards whether the invariants were kept.
//!
//! # Layout
//! - `run`       a run from its start to its verdict; `broken`: runs that must fail; `ha`: runs over a Patroni cluster;
//!   `cells`: runs over two databases
//! - `soak`      an hour without faults; `plot`: its plots
//! - `world`     all parts of a run; `fleet`: the processes; `proxy`: the proxies to PostgreSQL
//! - `servers`   the database servers; `cluster`: a Patroni cluster; `cell`: another database; `moves`: projects that move there and back
//! - `load`      users' load; `client`: posting; `readers`: reading; `plan`: expected turns
//! - `model`     the scripted model; `tools`: tools with external effects; `worker`: `rejoin worker` with these tools
//! - `mcp_server` an MCP server that hangs, dies and lies
//! - `programs`  users' programs that serve tools over HTTP, and fail
//! - `dags`      DAGs of tasks while workers are killed at random
//! - `faults`    fault injection; `failovers`: that of a Patroni cluster, and its times
//! - `evidence`  evidence outside the database; `witness`: the database's record of its jobs
//! - `checker`   checks the invariants; one per file
//! - `recovery`  recovery times; `report`: the report of a run

pub mod broken;
pub mod cell;
pub mod cells;
pub mod checker;
pub mod client;
pub mod cluster;
pub mod dags;
pub mod evidence;
pub mod failovers;
pub mod faults;
pub mod fleet;
pub mod ha;
pub mod held_writers;
pub mod load;
pub mod mcp_server;
pub mod model;
pub mod moves;
pub mod plan;
pub mod plot;
pub mod programs;
pub mod proxy;
pub mod readers;
pub mod recovery;
pub mod report;
pub mod run;
pub mod servers;
pub mod soak;
pub mod tools;
pub mod witness;
pub mod worker;
pub mod world;
