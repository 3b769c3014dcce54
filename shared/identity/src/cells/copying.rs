//! Copies the rows of a workspace from one database to another, in one transaction there, and verifies the copy by counts and hashes. Called
//! by `moving` while the workspace is held.
//!
//! Invariants: the new rows are committed only if they equal what the old database has after the copy as well; with them, the arrival of the
//! move is committed. Numbers of logs stay the same, and the new cell knows the epochs of the old one, so cursors stay valid.

use std::collections::BTreeMap;

use futures::TryStreamExt as _;
use rejoin_db::transactions;
use sqlx::{AssertSqlSafe, PgConnection, PgPool, Postgres, Transaction};
use uuid::Uuid;

use super::catalogue::{self, Kept, TABLES, Table};
use super::{holding, mirror};

/// How often a copy begins again because the old database has changed meanwhile.
const TRIES: u32 = 3;
/// SQLSTATE of a setting that the login may not change.
const INSUFFICIENT_PRIVILEGE: &str = "42501";
/// How values are written as text, in both databases.
const FORMATS: &str = "set local timezone = 'UTC'; set local datestyle = 'ISO'; set local intervalstyle = 'postgres'; \
    set local bytea_output = 'hex'; set local extra_float_digits = 1; set local statement_timeout = 0; set local synchronous_commit = on";

/// Why a workspace was not copied.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    #[error(
        "the table {0} is not in the catalogue of this release, so its rows would be lost; use the release of the schema"
    )]
    UnknownTable(String),
    #[error("the table {0} differs between the two databases; migrate both with this release (`rejoin migrate up`)")]
    Schema(String),
    #[error(
        "the login of the database may not switch off triggers: it must be a superuser, or (PostgreSQL 15 or newer) have been \
         granted it: grant set on parameter session_replication_role to LOGIN"
    )]
    Triggers(#[source] sqlx::Error),
    #[error("the rows of {table} differ from their copy: {expected} and {found}; nothing was moved")]
    Differs {
        table: &'static str,
        expected: Digest,
        found: Digest,
    },
    #[error("the project has changed while it was copied, {} times; nothing was moved", TRIES)]
    Changing,
    #[error("the project does not exist in the directory")]
    NoWorkspace,
    #[error("{doing} failed")]
    Database {
        doing: String,
        #[source]
        source: sqlx::Error,
    },
}

/// Wraps an error of the database.
fn failed(doing: impl Into<String>) -> impl FnOnce(sqlx::Error) -> CopyError {
    let doing = doing.into();
    move |source| CopyError::Database { doing, source }
}

/// The number of a table's rows, and the sum of their hashes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Digest {
    pub rows: i64,
    pub hash: String,
}

impl std::fmt::Display for Digest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} rows with the hash {}", self.rows, self.hash)
    }
}

/// The columns of each table: name and type. Not those that PostgreSQL computes.
type Columns = BTreeMap<String, Vec<(String, String)>>;

/// The databases of a copy.
#[derive(Debug, Clone, Copy)]
pub struct Ends<'a> {
    pub directory: &'a PgPool,
    pub from: &'a PgPool,
    pub to: &'a PgPool,
    /// Whether the new one is the directory: its identity is not a copy.
    pub to_directory: bool,
}

/// Copies a workspace, and returns the number of rows of each table that has some.
pub async fn copy(ends: Ends<'_>, workspace_id: Uuid, move_id: Uuid) -> Result<BTreeMap<&'static str, i64>, CopyError> {
    for _ in 0..TRIES {
        let mut to = rejoin_db::begin(ends.to)
            .await
            .map_err(failed("connecting to the new cell"))?;
        run(&mut to, FORMATS).await.map_err(failed("setting formats"))?;
        without_triggers(&mut to).await?;
        // An earlier stay, or a copy that was not completed.
        delete(&mut to, workspace_id).await?;
        let mut from = snapshot(ends.from).await?;
        let columns = same_columns(&mut from, &mut to).await?;
        if !ends.to_directory {
            write_identity(ends, &mut from, &mut to, workspace_id).await?;
        }
        for table in moving() {
            copy_table(&mut from, &mut to, table, &columns, workspace_id).await?;
        }
        renumber(&mut to, &columns, workspace_id).await?;
        bring_epochs(&mut from, &mut to, workspace_id)
            .await
            .map_err(failed("copying the epochs"))?;
        let before = digests(&mut from, &columns, workspace_id).await?;
        let copied = digests(&mut to, &columns, workspace_id).await?;
        for (table, expected) in &before {
            let found = &copied[table];
            if expected != found {
                return Err(CopyError::Differs {
                    table,
                    expected: expected.clone(),
                    found: found.clone(),
                });
            }
        }
        drop(from);
        let mut later = snapshot(ends.from).await?;
        let after = digests(&mut later, &columns, workspace_id).await?;
        if after != before {
            continue;
        }
        arrive(&mut to, workspace_id, move_id)
            .await
            .map_err(failed("recording the arrival"))?;
        to.commit().await.map_err(failed("committing the copy"))?;
        let counts = before.into_iter().map(|(table, digest)| (table, digest.rows));
        return Ok(counts.filter(|(_, rows)| *rows > 0).collect());
    }
    Err(CopyError::Changing)
}

/// Returns whether a move's rows were committed.
pub async fn has_arrived(to: &PgPool, workspace_id: Uuid, move_id: Uuid) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar!(
        r#"select exists (select from cells.arrivals where project_id = $1 and move_id = $2) as "there!""#,
        workspace_id,
        move_id
    )
    .fetch_one(to)
    .await
}

/// Deletes the rows of a workspace that lives elsewhere. Its hold stays, so that late requests are refused.
pub async fn remove(from: &PgPool, workspace_id: Uuid, from_directory: bool) -> Result<(), CopyError> {
    let mut tx = rejoin_db::begin(from)
        .await
        .map_err(failed("connecting to the old cell"))?;
    run(&mut tx, "set local statement_timeout = 0")
        .await
        .map_err(failed("setting the timeout"))?;
    without_triggers(&mut tx).await?;
    delete(&mut tx, workspace_id).await?;
    if !from_directory {
        for statement in [
            "delete from kb.project_members where project_id = $1",
            "delete from kb.projects where id = $1",
            "delete from cells.mirrored where project_id = $1",
        ] {
            let deleted = sqlx::query(statement).bind(workspace_id).execute(&mut *tx).await;
            deleted.map_err(failed("deleting the old identity"))?;
        }
    }
    tx.commit().await.map_err(failed("committing the deletion"))
}

fn moving() -> impl Iterator<Item = &'static Table> {
    TABLES.iter().filter(|table| matches!(table.kept, Kept::Moves))
}

async fn run(db: &mut PgConnection, sql: &'static str) -> Result<(), sqlx::Error> {
    sqlx::raw_sql(sql).execute(db).await?;
    Ok(())
}

/// Triggers would announce what is copied to webhooks, and delete the objects of files that have moved. Foreign keys hold as they did.
async fn without_triggers(db: &mut PgConnection) -> Result<(), CopyError> {
    let set = run(db, "set local session_replication_role = replica").await;
    set.map_err(|error| {
        let code = error.as_database_error().and_then(|refusal| refusal.code());
        if code.as_deref() == Some(INSUFFICIENT_PRIVILEGE) {
            CopyError::Triggers(error)
        } else {
            failed("switching off triggers")(error)
        }
    })
}

/// Begins to read one state of a database.
async fn snapshot(db: &PgPool) -> Result<Transaction<'static, Postgres>, CopyError> {
    let begun = transactions::begin_with(db, "begin isolation level repeatable read").await;
    let mut tx = begun.map_err(failed("connecting to the old cell"))?;
    run(&mut tx, FORMATS).await.map_err(failed("setting formats"))?;
    Ok(tx)
}

async fn delete(db: &mut PgConnection, workspace_id: Uuid) -> Result<(), CopyError> {
    for table in &TABLES {
        if matches!(table.kept, Kept::Stays(_)) {
            continue;
        }
        let statement = format!("delete from {} where {}", table.name, table.rows_of(workspace_id));
        let deleted = sqlx::query(AssertSqlSafe(statement)).execute(&mut *db).await;
        deleted.map_err(failed(format!("deleting the rows of {}", table.name)))?;
    }
    Ok(())
}

/// Returns the columns of all tables, if both databases have the same, and this release knows them.
async fn same_columns(from: &mut PgConnection, to: &mut PgConnection) -> Result<Columns, CopyError> {
    let (ours, theirs) = (columns(from).await?, columns(to).await?);
    if let Some(unknown) = ours.keys().find(|name| catalogue::find(name).is_none()) {
        return Err(CopyError::UnknownTable(unknown.clone()));
    }
    match moving().find(|table| !ours.contains_key(table.name) || ours.get(table.name) != theirs.get(table.name)) {
        Some(table) => Err(CopyError::Schema(table.name.to_owned())),
        None => Ok(ours),
    }
}

async fn columns(db: &mut PgConnection) -> Result<Columns, CopyError> {
    let rows: Vec<(String, String, String)> = sqlx::query_as(
        "select n.nspname || '.' || c.relname, a.attname::text, format_type(a.atttypid, a.atttypmod)
         from pg_attribute a join pg_class c on c.oid = a.attrelid join pg_namespace n on n.oid = c.relnamespace
         where c.relkind in ('r', 'p') and n.nspname not in ('information_schema', 'public') and not starts_with(n.nspname, 'pg_')
           and a.attnum > 0 and not a.attisdropped and a.attgenerated = ''
           -- not those of extensions
           and not exists (select from pg_depend d where d.classid = 'pg_class'::regclass and d.objid = c.oid and d.deptype = 'e')
         order by 1, 2",
    )
    .fetch_all(db)
    .await
    .map_err(failed("reading the schema"))?;
    let mut columns = Columns::new();
    for (table, column, kind) in rows {
        columns.entry(table).or_default().push((column, kind));
    }
    Ok(columns)
}

/// Returns the quoted columns of a table but these.
fn listed(columns: &Columns, table: &Table, without: &[&str]) -> String {
    let all = columns.get(table.name).map(Vec::as_slice).unwrap_or_default();
    let names = all.iter().map(|(name, _)| name.as_str());
    let quoted: Vec<String> = names
        .filter(|name| !without.contains(name))
        .map(|name| format!("\"{name}\""))
        .collect();
    quoted.join(", ")
}

/// The tables whose rows first go to a temporary one: their ids have no default, or others refer to them.
fn staging(table: &Table) -> Option<&'static str> {
    match table.name {
        "queue.jobs" => Some("staged_jobs"),
        "queue.finished_jobs" => Some("staged_finished_jobs"),
        _ => None,
    }
}

async fn copy_table(
    from: &mut PgConnection,
    to: &mut PgConnection,
    table: &'static Table,
    columns: &Columns,
    workspace_id: Uuid,
) -> Result<(), CopyError> {
    let doing = || format!("copying the rows of {}", table.name);
    let staged = staging(table);
    if let Some(name) = staged {
        let statement = format!(
            "create temporary table {name} on commit drop as select * from {} with no data",
            table.name
        );
        let made = sqlx::query(AssertSqlSafe(statement)).execute(&mut *to).await;
        made.map_err(failed(doing()))?;
    }
    let omitted = match staged {
        Some(_) => None,
        None => table.numbered,
    };
    let list = listed(columns, table, omitted.as_slice());
    let order = table
        .numbered
        .map(|column| format!(" order by \"{column}\""))
        .unwrap_or_default();
    let out = format!(
        "copy (select {list} from {} where {}{order}) to stdout",
        table.name,
        table.rows_of(workspace_id)
    );
    let into = format!("copy {} ({list}) from stdin", staged.unwrap_or(table.name));
    let copied = async {
        let mut sink = to.copy_in_raw(&into).await?;
        let mut pieces = from.copy_out_raw(&out).await?;
        while let Some(piece) = pieces.try_next().await? {
            sink.send(piece).await?;
        }
        drop(pieces);
        sink.finish().await
    };
    copied.await.map_err(failed(doing()))?;
    Ok(())
}

/// Gives jobs the ids of the new database, and takes them out of the queues in which they waited. Maintenance of the new cell looks at the
/// runs that have come.
async fn renumber(to: &mut PgConnection, columns: &Columns, workspace_id: Uuid) -> Result<(), CopyError> {
    let jobs = catalogue::find("queue.jobs").expect("it is in the catalogue");
    let finished = catalogue::find("queue.finished_jobs").expect("it is in the catalogue");
    let of_jobs = listed(columns, jobs, &["id", "queue"]);
    let of_finished = listed(columns, finished, &["id"]);
    let parked = holding::PARKED;
    for statement in [
        "create temporary table job_numbers on commit drop as
         select id as old_id, nextval(pg_get_serial_sequence('queue.jobs', 'id')) as new_id
         from (select id from staged_jobs order by id) s"
            .to_owned(),
        format!(
            "insert into queue.jobs (id, queue, {of_jobs}) overriding system value
             select n.new_id, case when starts_with(queue, '{parked}') then substr(queue, {}) else queue end, {of_jobs}
             from staged_jobs s join job_numbers n on n.old_id = s.id",
            parked.len() + 1
        ),
        format!(
            "insert into queue.finished_jobs (id, {of_finished})
             select nextval(pg_get_serial_sequence('queue.jobs', 'id')), {of_finished}
             from (select * from staged_finished_jobs order by id) s"
        ),
        // Calls that have ended have no job.
        format!(
            "update kb.remote_calls c
             set job_id = coalesce((select n.new_id from job_numbers n where n.old_id = c.job_id), 0)
             where c.project_id = '{workspace_id}'"
        ),
        // Compaction and retention take runs in the order of their end: they begin again at the oldest one.
        format!(
            "update stream.upkeep u
             set compacted_at = least(u.compacted_at, o.oldest), trimmed_at = least(u.trimmed_at, o.oldest)
             from (select min(finished_at) - interval '1 microsecond' as oldest from kb.agent_runs
                   where project_id = '{workspace_id}') o
             where o.oldest is not null"
        ),
    ] {
        let done = sqlx::query(AssertSqlSafe(statement)).execute(&mut *to).await;
        done.map_err(failed("numbering the jobs"))?;
    }
    Ok(())
}

/// Lets readers go on that got their events in an epoch of the old cell, or of those before it.
async fn bring_epochs(from: &mut PgConnection, to: &mut PgConnection, workspace_id: Uuid) -> Result<(), sqlx::Error> {
    // As text: `infinity` has no other form.
    let epochs: Vec<(Uuid, String)> = sqlx::query_as(
        "with known as (
             select e.epoch, e.nth, 'infinity'::timestamptz as common_until from stream.epochs e
             union all
             select b.epoch, b.nth, b.common_until from cells.epochs b where b.project_id = $1)
         select k.epoch,
                least(k.common_until, (select min(later.common_until) from stream.epochs later where later.nth > k.nth))::text
         from known k",
    )
    .bind(workspace_id)
    .fetch_all(from)
    .await?;
    let (names, ends): (Vec<Uuid>, Vec<String>) = epochs.into_iter().unzip();
    // An epoch that began before the copy, and that is noted only later, would take it back.
    sqlx::query("select stream.epoch()").execute(&mut *to).await?;
    sqlx::query(
        "insert into cells.epochs (project_id, epoch, common_until, nth)
         select $1, k.epoch, k.common_until::timestamptz, (select max(nth) from stream.epochs)
         from unnest($2::uuid[], $3::text[]) k(epoch, common_until)
         where not exists (select from stream.epochs own where own.epoch = k.epoch)",
    )
    .bind(workspace_id)
    .bind(names)
    .bind(ends)
    .execute(to)
    .await?;
    Ok(())
}

/// Counts and hashes of the tables that move.
async fn digests(
    db: &mut PgConnection,
    columns: &Columns,
    workspace_id: Uuid,
) -> Result<BTreeMap<&'static str, Digest>, CopyError> {
    let mut digests = BTreeMap::new();
    for table in moving() {
        let without: Vec<&str> = table
            .numbered
            .into_iter()
            .chain(table.changed.iter().copied())
            .collect();
        let list = listed(columns, table, &without);
        let statement = format!(
            "select count(*),
                    coalesce(sum(('x' || left(encode(sha256(convert_to(t::text, 'UTF8')), 'hex'), 15))::bit(60)::bigint), 0)::text
             from (select {list} from {} where {}) t",
            table.name,
            table.rows_of(workspace_id)
        );
        let read = sqlx::query_as(AssertSqlSafe(statement)).fetch_one(&mut *db).await;
        let (rows, hash): (i64, String) = read.map_err(failed(format!("reading the rows of {}", table.name)))?;
        digests.insert(table.name, Digest { rows, hash });
    }
    Ok(digests)
}

/// Writes the identity that a cell needs: of the members, and of the other users to whom rows refer.
async fn write_identity(
    ends: Ends<'_>,
    from: &mut PgConnection,
    to: &mut PgConnection,
    workspace_id: Uuid,
) -> Result<(), CopyError> {
    let doing = "copying the identity";
    let users = users_of_rows(from, workspace_id).await.map_err(failed(doing))?;
    let mut directory = rejoin_db::begin(ends.directory).await.map_err(failed(doing))?;
    let version = sqlx::query_scalar!(
        "select version from cells.placements where project_id = $1",
        workspace_id
    )
    .fetch_optional(&mut *directory)
    .await
    .map_err(failed(doing))?;
    let identity = mirror::read(&mut directory, workspace_id, &users)
        .await
        .map_err(failed(doing))?;
    let (Some(version), Some(identity)) = (version, identity) else {
        return Err(CopyError::NoWorkspace);
    };
    // It is written whatever was there before.
    sqlx::query!("delete from cells.mirrored where project_id = $1", workspace_id)
        .execute(&mut *to)
        .await
        .map_err(failed(doing))?;
    mirror::write(to, version, &identity).await.map_err(failed(doing))?;
    Ok(())
}

/// The users to whom rows refer by a foreign key: also those who have left.
async fn users_of_rows(from: &mut PgConnection, workspace_id: Uuid) -> Result<Vec<Uuid>, sqlx::Error> {
    let references: Vec<(String, String)> = sqlx::query_as(
        "select n.nspname || '.' || c.relname, a.attname::text
         from pg_constraint k join pg_class c on c.oid = k.conrelid join pg_namespace n on n.oid = c.relnamespace
         join pg_attribute a on a.attrelid = k.conrelid and a.attnum = k.conkey[1]
         where k.contype = 'f' and k.confrelid = 'kb.users'::regclass
         order by 1, 2",
    )
    .fetch_all(&mut *from)
    .await?;
    let selects: Vec<String> = references
        .iter()
        .filter_map(|(name, column)| {
            let table = catalogue::find(name).filter(|table| matches!(table.kept, Kept::Moves))?;
            let rows = table.rows_of(workspace_id);
            Some(format!(
                "select \"{column}\" from {name} where \"{column}\" is not null and {rows}"
            ))
        })
        .collect();
    if selects.is_empty() {
        return Ok(Vec::new());
    }
    sqlx::query_scalar(AssertSqlSafe(selects.join(" union ")))
        .fetch_all(from)
        .await
}

/// Records that the rows are there, with them. The workspace is not held here.
async fn arrive(to: &mut PgConnection, workspace_id: Uuid, move_id: Uuid) -> Result<(), sqlx::Error> {
    sqlx::query!("delete from cells.holds where project_id = $1", workspace_id)
        .execute(&mut *to)
        .await?;
    sqlx::query!(
        "insert into cells.arrivals (project_id, move_id) values ($1, $2)
         on conflict (project_id) do update set move_id = excluded.move_id, arrived_at = now()",
        workspace_id,
        move_id
    )
    .execute(to)
    .await?;
    Ok(())
}
