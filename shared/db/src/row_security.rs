//! Verifies row-level security: roles, policies, grants. A backup restored on a server without the roles lacks all of
//! it without any error. Checked once when a process starts, and by `rejoin doctor`.
//!
//! `row_security.txt` lists what the migrations create; a test compares it with a migrated database, and
//! `INSTA_UPDATE=always` rewrites it.

use std::collections::BTreeSet;

use sqlx::PgConnection;

/// Everything created by the migrations, one per line.
pub const EXPECTED: &str = include_str!("row_security.txt");
/// The roles of the API and workers.
const ROLES: [&str; 3] = ["rejoin_app", "rejoin_gate", "rejoin_worker"];
/// Maximum number of missing lines listed in a message.
const NAMED: usize = 3;

/// What is missing in a database.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Lacking {
    #[error("the server lacks the roles {}, so row-level security is not enforced: a backup was restored here without \
        them", .0.join(", "))]
    Roles(Vec<String>),
    #[error("the roles {} are superusers or bypass row-level security", .0.join(", "))]
    Mighty(Vec<String>),
    #[error("{count} of the policies and grants of row-level security are missing, among them: {}", .named.join(", "))]
    Rules { count: usize, named: Vec<String> },
}

impl Lacking {
    /// Returns how to fix it.
    pub fn advice(&self) -> &'static str {
        match self {
            Lacking::Roles(_) => {
                "create role rejoin_app; create role rejoin_gate; create role rejoin_worker; then restore the backup again into an \
                 empty database: without the roles, its policies and grants were skipped (docs/operations/recovery.md)"
            }
            Lacking::Mighty(_) => "alter role … nosuperuser nobypassrls",
            Lacking::Rules { .. } => {
                "if a backup was restored before the roles existed, restore it again into an empty database now that \
                they do (docs/operations/recovery.md); otherwise find out who dropped them, and create them again as in \
                migrations/"
            }
        }
    }
}

/// Compares the database with the migrations. None: nothing is missing.
pub async fn lacking(db: &mut PgConnection) -> Result<Option<Lacking>, sqlx::Error> {
    let missing: Vec<String> = sqlx::query_scalar(
        "select role from unnest($1::text[]) role where not exists (select from pg_roles where rolname = role)",
    )
    .bind(&ROLES[..])
    .fetch_all(&mut *db)
    .await?;
    if !missing.is_empty() {
        return Ok(Some(Lacking::Roles(missing)));
    }
    let mighty: Vec<String> =
        sqlx::query_scalar("select rolname::text from pg_roles where rolname = any($1) and (rolsuper or rolbypassrls)")
            .bind(&ROLES[..])
            .fetch_all(&mut *db)
            .await?;
    if !mighty.is_empty() {
        return Ok(Some(Lacking::Mighty(mighty)));
    }
    let there: BTreeSet<String> = present(db).await?.into_iter().collect();
    let missing: Vec<&str> = EXPECTED.lines().filter(|line| !there.contains(*line)).collect();
    Ok((!missing.is_empty()).then(|| Lacking::Rules {
        count: missing.len(),
        named: missing.iter().take(NAMED).map(|line| (*line).to_owned()).collect(),
    }))
}

/// Returns what exists, in the format and order of [`EXPECTED`].
pub async fn present(db: &mut PgConnection) -> Result<Vec<String>, sqlx::Error> {
    sqlx::query_scalar(
        r#"with tables as (
               select c.oid, n.nspname || '.' || c.relname as name, c.relrowsecurity, c.relacl
               from pg_class c join pg_namespace n on n.oid = c.relnamespace
               where n.nspname in ('kb', 'queue', 'stream', 'audit') and c.relkind in ('r', 'p', 'v'))
           select line collate "C" from (
               select 'row level security on ' || name from tables where relrowsecurity
               union all
               select format('policy %s on %s to %s', p.polname, t.name, coalesce(r.rolname, 'public'))
               from pg_policy p join tables t on t.oid = p.polrelid
               cross join unnest(p.polroles) role left join pg_roles r on r.oid = role
               union all
               select format('grant %s on %s to %s', lower(a.privilege_type), t.name, r.rolname)
               from tables t cross join lateral aclexplode(t.relacl) a join pg_roles r on r.oid = a.grantee
               where r.rolname = any($1)
           ) lines(line)
           order by 1"#,
    )
    .bind(&ROLES[..])
    .fetch_all(db)
    .await
}
