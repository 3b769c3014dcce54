//! Tables of extensions. `rejoin migrate up` applies what is missing, each migration in a transaction, and remembers it with its checksum
//! in `rejoin.extension_migrations`.

use sha2::{Digest, Sha256};
use sqlx::{AssertSqlSafe, Connection, PgConnection};

use crate::Extensions;

/// A step of an extension's schema.
#[derive(Debug, Clone, Copy)]
pub struct Migration {
    /// 1, 2, 3 …
    pub version: i32,
    pub sql: &'static str,
}

/// Why the tables of extensions could not be brought up to date.
#[derive(Debug, thiserror::Error)]
pub enum MigrationError {
    #[error(
        "migration {version} of the extension {extension} was changed after it had been applied; add another one instead"
    )]
    Changed { extension: &'static str, version: i32 },
    #[error("migration {version} of the extension {extension} failed")]
    Failed {
        extension: &'static str,
        version: i32,
        #[source]
        source: sqlx::Error,
    },
    #[error("reading the migrations of extensions failed")]
    Database(#[from] sqlx::Error),
}

/// Applies the migrations of all extensions that are missing, and returns how many. One process at a time: others wait.
pub async fn migrate(db: &mut PgConnection, extensions: &Extensions) -> Result<usize, MigrationError> {
    let wanted: usize = extensions.iter().map(|extension| extension.migrations().len()).sum();
    if wanted == 0 {
        return Ok(0);
    }
    let mut tx = db.begin().await?;
    // A transaction that waits for the lock sees what the one before it has applied.
    sqlx::raw_sql(
        "select pg_advisory_xact_lock(hashtext('rejoin.extension_migrations'));
         create schema if not exists rejoin;
         create table if not exists rejoin.extension_migrations (
             extension text not null,
             version int not null,
             checksum bytea not null,
             applied_at timestamptz not null default now(),
             primary key (extension, version))",
    )
    .execute(&mut *tx)
    .await?;
    let mut applied = 0;
    for extension in extensions.iter() {
        let name = extension.name();
        for migration in extension.migrations() {
            let version = migration.version;
            let checksum = Sha256::digest(migration.sql).to_vec();
            let known: Option<Vec<u8>> = sqlx::query_scalar(
                "select checksum from rejoin.extension_migrations where extension = $1 and version = $2",
            )
            .bind(name)
            .bind(version)
            .fetch_optional(&mut *tx)
            .await?;
            match known {
                Some(known) if known == checksum => continue,
                Some(_) => {
                    return Err(MigrationError::Changed {
                        extension: name,
                        version,
                    });
                }
                None => {}
            }
            let failed = |source| MigrationError::Failed {
                extension: name,
                version,
                source,
            };
            sqlx::raw_sql(AssertSqlSafe(migration.sql))
                .execute(&mut *tx)
                .await
                .map_err(failed)?;
            sqlx::query("insert into rejoin.extension_migrations (extension, version, checksum) values ($1, $2, $3)")
                .bind(name)
                .bind(version)
                .bind(&checksum)
                .execute(&mut *tx)
                .await?;
            applied += 1;
        }
    }
    tx.commit().await?;
    Ok(applied)
}
