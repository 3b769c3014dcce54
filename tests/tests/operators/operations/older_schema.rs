//! The schema of a made-up older release, for tests of upgrades with rows from before: the newest schema without what a migration of the
//! tests (`older_schema/`) adds. [`upgraded`] applies it as `rejoin migrate up` applies ours, by the same migrator.
//!
//! Invariant: the upgraded schema is the one that our migrations make; [`upgraded`] asserts it.

use std::path::Path;

use sqlx::migrate::Migrator;
use sqlx::{Connection, PgConnection};

use super::migrations::shape;

/// What the migration of the tests adds.
pub const ADDED: &str = include_str!("older_schema/9000_of_the_release_after.up.sql");
const TAKEN: &str = include_str!("older_schema/9000_of_the_release_after.down.sql");

/// A database that was taken back to the older schema.
pub struct Older {
    /// The newest schema.
    newest: Vec<String>,
}

/// Takes a database with the newest schema back to the older one.
pub async fn back(url: &str) -> Older {
    let mut connection = PgConnection::connect(url).await.expect("a connection");
    let newest = shape(&mut connection).await;
    sqlx::raw_sql(TAKEN).execute(&mut connection).await.expect("back");
    assert_ne!(shape(&mut connection).await, newest, "the older schema is another one");
    Older { newest }
}

/// Upgrades it to the newest schema.
pub async fn upgraded(url: &str, older: Older) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/operators/operations/older_schema");
    let mut migrator = Migrator::new(folder).await.expect("the migration of the tests");
    // Ours are applied, too, and not in that folder.
    migrator.set_ignore_missing(true);
    let mut connection = PgConnection::connect(url).await.expect("a connection");
    migrator.run(&mut connection).await.expect("the upgrade");
    assert_eq!(shape(&mut connection).await, older.newest, "the newest schema");
}
