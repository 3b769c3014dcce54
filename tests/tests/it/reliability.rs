//! The product under failure and load: crashes, database outages, many servers and readers, overload.

mod crash;
mod fleet;
mod outages;
mod overload;
