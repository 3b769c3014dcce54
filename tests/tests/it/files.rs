//! Files: sent to the API and to models, stored in the database or an object store, and refused.

mod kept;
mod objects;
mod refused;
pub mod round_trip;
