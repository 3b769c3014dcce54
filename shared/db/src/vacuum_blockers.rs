//! Finds what blocks VACUUM: long-running and prepared transactions. The queue and the log stay fast despite them
//! (claims skip dead rows), but tables grow until they end.
//!
//! Called by each worker's maintenance, which logs and counts them, and by `rejoin doctor`. Other users' transactions
//! are visible to roles with `pg_read_all_stats`; without it, only our own.

use std::time::Duration;

use sqlx::{Connection, PgConnection, Row};

/// Default age from which a transaction is reported.
pub const OLD: Duration = Duration::from_secs(300);

/// The oldest vacuum blocker.
#[derive(Debug, Clone, PartialEq)]
pub struct Blocker {
    /// Its owner, in words for an operator.
    pub what: String,
    pub age_s: f64,
}

/// Returns the oldest transaction that blocks VACUUM in this database. None: there is none but ours.
pub async fn oldest(db: &mut PgConnection) -> Result<Option<Blocker>, sqlx::Error> {
    // With the login role: the workers' role cannot see other sessions.
    let mut as_login = db.begin().await?;
    sqlx::query("set local role none").execute(&mut *as_login).await?;
    let row = sqlx::query(
        "select what, extract(epoch from now() - since)::float8 as age_s from (
             select format('pid %s (%s, user %s, %s)', pid, coalesce(nullif(application_name, ''), 'no name'), usename, state) as what,
                    xact_start as since
             from pg_stat_activity
             where datname = current_database() and pid <> pg_backend_pid() and xact_start is not null
               -- one that has neither a snapshot nor a number holds nothing back
               and (backend_xmin is not null or backend_xid is not null)
               and backend_type = 'client backend'
             union all
             select format('prepared transaction %L of user %s', gid, owner), prepared
             from pg_prepared_xacts where database = current_database()
         ) held
         order by since limit 1",
    )
    .fetch_optional(&mut *as_login)
    .await?;
    as_login.commit().await?;
    row.map(|row| {
        Ok(Blocker {
            what: row.try_get("what")?,
            age_s: row.try_get("age_s")?,
        })
    })
    .transpose()
}
