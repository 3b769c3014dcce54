//! Nearest-neighbour search over the vectors of a workspace's live objects. Called by `hybrid_ranking` and `search`.
//!
//! Three methods, the first available one wins: the pgvector index, if the database has it; binary-quantized vectors of
//! the workspace (of large workspaces in process: `binary_index`), the best of which are ranked exactly; and, if types or labels
//! leave few objects, an exact scan of those. Filters apply before any limit: if the first method finds too few
//! matches, the last one scans all of them. Vectors have length 1, so their dot product is the cosine similarity.

use std::time::Instant;

use sqlx::postgres::PgRow;
use sqlx::{AssertSqlSafe, PgPool, Row as _};
use uuid::Uuid;

use super::Error;
use super::binary_index;
use super::query_vector::{QueryVector, signs_of};
use super::scope::Scope;

/// Maximum number of neighbours in a result.
pub const MAX_LIMIT: i64 = 200;
/// Number of candidates ranked exactly, per requested result, and at least. Measured: docs/guide/search.md.
const RESCORED_EACH: i64 = 4;
const MIN_RESCORED: i64 = 200;
/// The same with filters by type or label, which drop candidates afterwards.
const MIN_RESCORED_FILTERED: i64 = 1_000;
/// The same for labels with in-process vectors: searching for more costs little.
const MIN_KEPT_LABELLED: i64 = 5_000;
/// Dimensions of vectors with an index, as in `migrations/0007_graph.up.sql`.
const INDEXED_DIMENSIONS: [i32; 4] = [384, 768, 1024, 1536];
/// Number of candidates in an index scan, and the maximum it may visit to find enough that pass the filters.
const EF_SEARCH: i64 = 100;
const MAX_SCAN_TUPLES: i64 = 20_000;

/// An object and its cosine similarity, -1 to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Near {
    pub id: Uuid,
    pub cosine: f64,
}

/// Returns whether a workspace has any vector of this model: without one, a query needs none.
pub async fn any(pool: &PgPool, workspace_id: Uuid, model: &str) -> Result<bool, Error> {
    sqlx::query_scalar!(
        r#"select exists (select from kb.graph_embeddings where project_id = $1 and model = $2) as "any!""#,
        workspace_id,
        model,
    )
    .fetch_one(pool)
    .await
    .map_err(Error::database("look for vectors"))
}

/// Returns the vector of an object.
pub async fn of(pool: &PgPool, workspace_id: Uuid, id: Uuid, model: &str) -> Result<Option<QueryVector>, Error> {
    let numbers: Option<Vec<f32>> = sqlx::query_scalar(
        "select vector::real[] from kb.graph_embeddings where project_id = $1 and canonical_id = $2 and model = $3",
    )
    .bind(workspace_id)
    .bind(id)
    .bind(model)
    .fetch_optional(pool)
    .await
    .map_err(Error::database("read an object's vector"))?;
    Ok(numbers.map(|numbers| QueryVector::new(model, numbers)))
}

/// Returns the cosine similarities of these objects; those without a vector are omitted.
pub async fn cosines(pool: &PgPool, workspace_id: Uuid, query: &QueryVector, ids: &[Uuid]) -> Result<Vec<Near>, Error> {
    let rows: Vec<(Uuid, Vec<f32>)> = sqlx::query_as(
        "select canonical_id, vector::real[] from kb.graph_embeddings
         where project_id = $1 and model = $2 and canonical_id = any($3) and dimensions = $4",
    )
    .bind(workspace_id)
    .bind(&query.model.name)
    .bind(ids)
    .bind(query.model.dimensions)
    .fetch_all(pool)
    .await
    .map_err(Error::database("read vectors"))?;
    Ok(rows
        .into_iter()
        .map(|(id, vector)| near(id, &vector, &query.numbers))
        .collect())
}

/// Returns the nearest live objects in scope, nearest first.
pub async fn nearest(
    pool: &PgPool,
    workspace_id: Uuid,
    query: &QueryVector,
    scope: &Scope,
    limit: i64,
) -> Result<Vec<Near>, Error> {
    let limit = limit.clamp(1, MAX_LIMIT);
    let filtered = !scope.types.is_empty() || !scope.labels.is_empty() || scope.bounds.is_some();
    let look = Look {
        pool,
        workspace_id,
        query,
        scope,
        filtered,
    };
    let mut found = if INDEXED_DIMENSIONS.contains(&query.model.dimensions) && has_index(pool).await? {
        look.by_index(limit).await?
    } else {
        look.by_signs(limit).await?
    };
    if filtered && (found.len() as i64) < limit {
        found = look.among_filtered(limit).await?;
    }
    found.sort_by(|a, b| b.cosine.total_cmp(&a.cosine).then_with(|| a.id.cmp(&b.id)));
    found.truncate(limit as usize);
    Ok(found)
}

/// Returns whether the vectors are stored in pgvector's type.
pub async fn has_index(pool: &PgPool) -> Result<bool, Error> {
    sqlx::query_scalar!(
        r#"select exists (
               select from pg_attribute
               where attrelid = 'kb.graph_embeddings'::regclass and attname = 'vector' and atttypid = to_regtype('halfvec')
           ) as "there!""#
    )
    .fetch_one(pool)
    .await
    .map_err(Error::database("look for pgvector"))
}

struct Look<'a> {
    pool: &'a PgPool,
    workspace_id: Uuid,
    query: &'a QueryVector,
    scope: &'a Scope,
    filtered: bool,
}

impl Look<'_> {
    /// pgvector's index continues until enough objects pass the filters, up to its own limit.
    async fn by_index(&self, limit: i64) -> Result<Vec<Near>, Error> {
        let (dimensions, live) = (self.query.model.dimensions, self.scope.live());
        let sql = format!(
            "select e.canonical_id, 1 - (e.vector::halfvec({dimensions}) <=> $4::real[]::halfvec({dimensions})) as cosine
             from kb.graph_embeddings e
             where e.project_id = $1 and e.model = $2 and e.dimensions = {dimensions} and e.dimensions = $3
               and exists (select from kb.graph_objects o where o.canonical_id = e.canonical_id and {live})
             order by e.vector::halfvec({dimensions}) <=> $4::real[]::halfvec({dimensions})
             limit $7"
        );
        let attempted = "look for near vectors in the index";
        let mut tx = rejoin_db::begin(self.pool).await.map_err(Error::database(attempted))?;
        let settings = format!(
            "set local hnsw.iterative_scan = relaxed_order; set local hnsw.ef_search = {EF_SEARCH};
             set local hnsw.max_scan_tuples = {MAX_SCAN_TUPLES}"
        );
        sqlx::raw_sql(AssertSqlSafe(settings))
            .execute(&mut *tx)
            .await
            .map_err(Error::database(attempted))?;
        // Built from constants and a number from a fixed list.
        let rows: Vec<(Uuid, f64)> = sqlx::query_as(AssertSqlSafe(sql))
            .bind(self.workspace_id)
            .bind(&self.query.model.name)
            .bind(dimensions)
            .bind(&self.query.numbers)
            .bind(&self.scope.types)
            .bind(&self.scope.labels)
            .bind(limit)
            .fetch_all(&mut *tx)
            .await
            .map_err(Error::database(attempted))?;
        Ok(rows.into_iter().map(|(id, cosine)| Near { id, cosine }).collect())
    }

    /// Ranks the vectors with the smallest Hamming distance exactly. Uses the in-process vectors or, if they are not
    /// loaded, an index of the workspace, about 100 bytes per vector.
    async fn by_signs(&self, limit: i64) -> Result<Vec<Near>, Error> {
        let compared = (limit * RESCORED_EACH).max(MIN_RESCORED);
        // There, types are filtered before the limit.
        let kept = if self.scope.labels.is_empty() && self.scope.bounds.is_none() {
            compared
        } else {
            MIN_KEPT_LABELLED
        };
        if let Some(ids) =
            binary_index::nearest(self.pool, self.workspace_id, self.query, &self.scope.types, kept).await?
        {
            return self.among(&ids, compared).await;
        }
        let candidates = if self.filtered {
            compared.max(MIN_RESCORED_FILTERED)
        } else {
            compared
        };
        let live = self.scope.live();
        let sql = format!(
            "with near as materialized (
                 select e.canonical_id
                 from kb.graph_embeddings e
                 where e.project_id = $1 and e.model = $2 and e.dimensions = $3
                 order by bit_count(e.signs # $4::text::varbit), e.canonical_id
                 limit $7
             )
             select e.canonical_id, e.vector::real[]
             from near
             join kb.graph_embeddings e on e.project_id = $1 and e.model = $2 and e.canonical_id = near.canonical_id
             where exists (select from kb.graph_objects o where o.canonical_id = near.canonical_id and {live})"
        );
        let began = Instant::now();
        let found = self.compared(&sql, candidates).await?;
        if began.elapsed() > binary_index::SLOW_SCAN {
            binary_index::load_in_background(self.pool, self.workspace_id, self.query);
        }
        Ok(found)
    }

    /// Ranks the first of these objects that pass the filters exactly.
    async fn among(&self, ids: &[Uuid], candidates: i64) -> Result<Vec<Near>, Error> {
        let live = self.scope.live();
        let sql = format!(
            "with near as materialized (
                 select near.id
                 from unnest($4::uuid[]) with ordinality as near (id, place)
                 where exists (select from kb.graph_objects o where o.canonical_id = near.id and {live})
                 order by near.place
                 limit $7
             )
             select e.canonical_id, e.vector::real[]
             from near
             join kb.graph_embeddings e on e.project_id = $1 and e.model = $2 and e.canonical_id = near.id and e.dimensions = $3"
        );
        // Built from constants only.
        let rows = sqlx::query(AssertSqlSafe(sql))
            .bind(self.workspace_id)
            .bind(&self.query.model.name)
            .bind(self.query.model.dimensions)
            .bind(ids)
            .bind(&self.scope.types)
            .bind(&self.scope.labels)
            .bind(candidates)
            .fetch_all(self.pool)
            .await
            .map_err(Error::database("compare near vectors"))?;
        self.cosines_of(&rows)
    }

    /// Scans all vectors of the objects that pass the filters, by binary distance first.
    async fn among_filtered(&self, limit: i64) -> Result<Vec<Near>, Error> {
        let live = self.scope.live();
        let sql = format!(
            "with near as materialized (
                 select e.canonical_id
                 from kb.graph_objects o
                 join kb.graph_embeddings e on e.project_id = $1 and e.model = $2 and e.canonical_id = o.canonical_id
                 where {live} and e.dimensions = $3
                 order by bit_count(e.signs # $4::text::varbit), e.canonical_id
                 limit $7
             )
             select e.canonical_id, e.vector::real[]
             from near
             join kb.graph_embeddings e on e.project_id = $1 and e.model = $2 and e.canonical_id = near.canonical_id"
        );
        self.compared(&sql, (limit * RESCORED_EACH).max(MIN_RESCORED)).await
    }

    async fn compared(&self, sql: &str, candidates: i64) -> Result<Vec<Near>, Error> {
        // Built from constants only.
        let rows = sqlx::query(AssertSqlSafe(sql.to_owned()))
            .bind(self.workspace_id)
            .bind(&self.query.model.name)
            .bind(self.query.model.dimensions)
            .bind(signs_of(&self.query.numbers))
            .bind(&self.scope.types)
            .bind(&self.scope.labels)
            .bind(candidates)
            .fetch_all(self.pool)
            .await
            .map_err(Error::database("look for near vectors"))?;
        self.cosines_of(&rows)
    }

    fn cosines_of(&self, rows: &[PgRow]) -> Result<Vec<Near>, Error> {
        rows.iter()
            .map(|row| {
                Ok(near(
                    row.try_get(0)?,
                    &row.try_get::<Vec<f32>, _>(1)?,
                    &self.query.numbers,
                ))
            })
            .collect::<Result<_, sqlx::Error>>()
            .map_err(Error::database("read near vectors"))
    }
}

fn near(id: Uuid, vector: &[f32], query: &[f32]) -> Near {
    let cosine: f32 = vector.iter().zip(query).map(|(a, b)| a * b).sum();
    Near {
        id,
        cosine: f64::from(cosine),
    }
}
