//! Databases as data sources: access, each kind of database, joins, the limits behind the guard, and the specialists that ask them.

mod access;
mod bigquery;
mod confinement;
mod duckdb;
mod joins;
mod lookups;
mod specialist_turns;
mod specialists;
mod stand_ins;
mod tools;
mod unguarded;
