//! Finds live objects: lists, queries, and resolution of references. Called by the API's graph routes, the read tools
//! and the export. Invariant: superseded and deleted objects are never found.

use sqlx::{AssertSqlSafe, PgExecutor, PgPool};
use uuid::Uuid;

use super::{COLUMNS, MAX_PAGE, Object, get};
use crate::Error;
use crate::bounds::{self, Bounds};

/// Maximum number of objects listed by [`resolve`] for an ambiguous reference.
const MAX_AMBIGUOUS: i64 = 6;

/// Filters of a list of live objects. Empty lists don't filter.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    pub types: Vec<String>,
    /// Any of these labels.
    pub labels: Vec<String>,
    pub status: Option<String>,
}

rejoin_types::text_enum! {
    #[derive(Default)]
    pub enum SortBy {
        #[default]
        CreatedAt = "created_at",
        UpdatedAt = "updated_at",
        Name = "name",
    }
}

rejoin_types::text_enum! {
    #[derive(Default)]
    pub enum SortOrder {
        Asc = "asc",
        #[default]
        Desc = "desc",
    }
}

/// The result of resolving a reference.
#[derive(Debug)]
pub enum Resolved {
    One(Box<Object>),
    Nothing,
    /// Ambiguous; the first few matches.
    Several(Vec<Object>),
}

/// Returns live objects in order of creation, after the object `after`.
pub async fn list(
    db: impl PgExecutor<'_>,
    workspace_id: Uuid,
    filter: &Filter,
    after: Option<Uuid>,
    limit: i64,
) -> Result<Vec<Object>, Error> {
    sqlx::query_as!(
        Object,
        r#"select canonical_id as id, version, type as object_type, key, name, status, labels, properties, change_summary,
               schema_version, actor_type, actor_id, created_at, updated_at, deleted_at
           from kb.graph_objects
           where project_id = $1 and superseded_at is null and deleted_at is null
             and (cardinality($2::text[]) = 0 or type = any($2))
             and (cardinality($3::text[]) = 0 or labels && $3)
             and ($4::text is null or status = $4)
             and ($5::uuid is null or canonical_id > $5)
           order by canonical_id
           limit $6"#,
        workspace_id,
        &filter.types,
        &filter.labels,
        filter.status,
        after,
        limit.clamp(1, MAX_PAGE),
    )
    .fetch_all(db)
    .await
    .map_err(Error::database("list objects"))
}

/// Returns live objects of one type in the requested order, and their total number, within `bounds`.
pub async fn query(
    pool: &PgPool,
    workspace_id: Uuid,
    object_type: &str,
    bounds: Option<&Bounds>,
    sort: (SortBy, SortOrder),
    limit: i64,
    offset: i64,
) -> Result<(Vec<Object>, i64), Error> {
    let order = sort.1.as_str();
    let first = match sort.0 {
        // Ids sort by creation time, and have an index.
        SortBy::CreatedAt => String::new(),
        SortBy::UpdatedAt => format!("o.updated_at {order}, "),
        SortBy::Name => format!("lower(o.name) {order}, "),
    };
    let live = format!(
        "o.project_id = $1 and o.type = $2 and o.superseded_at is null and o.deleted_at is null {}",
        bounds::condition(bounds)
    );
    let sql = format!(
        "select {COLUMNS}
         from kb.graph_objects o
         where {live}
         order by {first}o.canonical_id {order}
         limit $3 offset $4"
    );
    // Built from constants only.
    let objects = sqlx::query_as::<_, Object>(AssertSqlSafe(sql))
        .bind(workspace_id)
        .bind(object_type)
        .bind(limit.clamp(1, MAX_PAGE))
        .bind(offset.max(0))
        .fetch_all(pool)
        .await
        .map_err(Error::database("query objects"))?;
    let count = format!("select count(*) from kb.graph_objects o where {live}");
    let total = sqlx::query_scalar(AssertSqlSafe(count))
        .bind(workspace_id)
        .bind(object_type)
        .fetch_one(pool)
        .await
        .map_err(Error::database("count objects"))?;
    Ok((objects, total))
}

/// Resolves a user's or model's reference to a live object: a canonical id, `Type:key`, a key, or a name
/// (case-insensitive). An exact key takes precedence, so that another object's name does not make it ambiguous.
pub async fn resolve(pool: &PgPool, workspace_id: Uuid, reference: &str) -> Result<Resolved, Error> {
    let reference = reference.trim();
    if let Ok(id) = Uuid::parse_str(reference) {
        return match get(pool, workspace_id, id).await {
            Ok(object) => Ok(Resolved::One(Box::new(object))),
            Err(Error::NotFound { .. }) => Ok(Resolved::Nothing),
            Err(other) => Err(other),
        };
    }
    let (type_part, key_part) = match reference.split_once(':') {
        Some((before, after)) => (before.trim(), after.trim()),
        None => ("", reference),
    };
    let mut found = sqlx::query_as!(
        Object,
        r#"select canonical_id as id, version, type as object_type, key, name, status, labels, properties, change_summary,
               schema_version, actor_type, actor_id, created_at, updated_at, deleted_at
           from kb.graph_objects
           where project_id = $1 and superseded_at is null and deleted_at is null
             and (lower(key) = lower($2) or lower(name) = lower($2)
                  or (lower(type) = lower($3) and (lower(key) = lower($4) or lower(name) = lower($4))))
           order by (key = $2) desc, (key = $4 and lower(type) = lower($3)) desc, (lower(key) = lower($2)) desc, canonical_id
           limit $5"#,
        workspace_id,
        reference,
        type_part,
        key_part,
        MAX_AMBIGUOUS,
    )
    .fetch_all(pool)
    .await
    .map_err(Error::database("find an object by its key or name"))?;
    let exact_keys = found
        .iter()
        .filter(|object| object.key == reference || object.key == key_part)
        .count();
    Ok(match (found.len(), exact_keys) {
        (0, _) => Resolved::Nothing,
        (1, _) | (_, 1) => Resolved::One(Box::new(found.swap_remove(0))),
        _ => Resolved::Several(found),
    })
}
