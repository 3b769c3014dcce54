//! The kill-and-resume suite: a black-box test of any server that streams answers of agents.
//!
//! It depends on nothing of the product: what it knows of a server is in the server's adapter.
//!
//! # Layout
//! - `adapter`   the description of a server, with its requests; `stream_rules`: how its streams are read; `template`, `capture`: values in requests
//! - `script`    what the model says; `scripted`: the model and the ledger; `gate`: the moments at which they wait
//! - `processes` the parts of a server; `proxy`: faults between them; `ports`: free ports; `target`: all of it, and its requests
//! - `wire`      HTTP on a bare socket; `frames`: frames of a stream; `cut`: where a connection is lost; `view`: what is shown; `reader`: all of it
//! - `plan`      the plan of a case; `cases`: all cases; `random`: numbers from a seed
//! - `play`      carries out a plan; `special`: cases that are not one turn; `judge`, `verdict`: what they have shown; `transcript`: the evidence
//! - `suite`     runs cases over a server; `shrink`: smaller plans; `broken`: builds that break a promise
//! - `results`   as JSON; `report`: as pages

pub mod adapter;
pub mod broken;
pub mod capture;
pub mod cases;
pub mod cut;
pub mod frames;
pub mod gate;
pub mod judge;
pub mod plan;
pub mod play;
pub mod ports;
pub mod processes;
pub mod proxy;
pub mod random;
pub mod reader;
pub mod report;
pub mod results;
pub mod script;
pub mod scripted;
pub mod shrink;
pub mod special;
pub mod stream_rules;
pub mod suite;
pub mod target;
pub mod template;
pub mod transcript;
pub mod verdict;
pub mod view;
pub mod wire;
