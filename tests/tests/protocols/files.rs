//! Files: sent to the API and to models, stored in the database or an object store, and refused.

mod hostile_files;
mod kept;
mod object_store_failures;
mod objects;
mod refused;
mod round_trip;
