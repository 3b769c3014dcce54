//! Identifiers: UUIDv7, so that they sort by the time of their making and index well.

use uuid::Uuid;

/// A fresh id.
pub fn new() -> Uuid {
    Uuid::now_v7()
}
