//! The product under failure and load: crashes, database outages, many servers and readers, overload.

mod abandoned_requests;
mod cancellation;
mod crash;
mod fleet;
mod full_disk;
mod lost_connections;
mod lost_readers;
mod nats;
mod outages;
mod overload;
mod restored_database;
mod traces;
