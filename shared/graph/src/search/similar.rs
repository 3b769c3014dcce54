//! Objects like a given one: by its text, and by shared neighbours.

use std::collections::{HashMap, HashSet};

use serde_json::Value;
use sqlx::{AssertSqlSafe, FromRow as _, PgPool, Row as _};
use uuid::Uuid;

use super::terms::Reach;
use super::{Hit, MAX_CANDIDATES, MAX_LIMIT, run};
use crate::objects::{self, COLUMNS, Object};
use crate::query::Query;
use crate::query_vector::QueryVector;
use crate::scope::Scope;
use crate::{Error, bounds, relationships, traverse, vectors};

/// Maximum number of an object's edges, per direction, that [`similar`] examines.
const MAX_NEIGHBOURS: i64 = 30;
/// Maximum number of its edges, per direction, that are sorted for that: a hub has more.
const ORDERED_EDGES: i64 = 2_000;
/// A neighbour with more edges than this is no evidence of similarity (everything depends on libc6).
const HUB_EDGES: i64 = 60;
/// Maximum size of a text property from which [`similar`] takes words, in bytes; longer ones are prose.
const MAX_SIMILAR_TEXT_BYTES: usize = 300;

/// Returns objects similar to this one: by meaning, if it has a vector of this model, else by the words of its name and
/// short texts (0.6); by shared neighbours (0.3); by labels (0.1). Never the object itself. Also returns whether it
/// went by meaning.
pub async fn similar(
    pool: &PgPool,
    workspace_id: Uuid,
    id: Uuid,
    model: Option<&str>,
    scope: &Scope,
    limit: i64,
) -> Result<(Vec<Hit>, bool), Error> {
    let limit = limit.clamp(1, MAX_LIMIT);
    let object = objects::get(pool, workspace_id, id).await?;
    let by_neighbours = shared_neighbours(pool, workspace_id, id, scope).await?;
    let vector = match model {
        Some(model) => vectors::of(pool, workspace_id, id, model).await?,
        None => None,
    };
    let alike = match &vector {
        Some(vector) => near(pool, workspace_id, vector, scope, &by_neighbours).await?,
        None => {
            let query = Query::parse(&own_text(&object));
            run(pool, workspace_id, &query, scope, MAX_LIMIT, Reach::Words)
                .await?
                .hits
        }
    };

    let mut found: HashMap<Uuid, Hit> = HashMap::new();
    for hit in alike {
        found.insert(
            hit.object.id,
            Hit {
                score: 0.6 * hit.score,
                ..hit
            },
        );
    }
    for (other, share) in by_neighbours {
        let object = other.id;
        found
            .entry(object)
            .or_insert(Hit {
                object: other,
                score: 0.0,
            })
            .score += 0.3 * share;
    }
    found.remove(&id);
    let mut hits: Vec<Hit> = found.into_values().collect();
    for hit in &mut hits {
        let shared = hit
            .object
            .labels
            .iter()
            .filter(|label| object.labels.contains(label))
            .count();
        let all = object.labels.len() + hit.object.labels.len() - shared;
        if all > 0 {
            hit.score += 0.1 * shared as f64 / all as f64;
        }
    }
    hits.sort_by(|a, b| b.score.total_cmp(&a.score).then_with(|| a.object.id.cmp(&b.object.id)));
    hits.truncate(limit as usize);
    Ok((hits, vector.is_some()))
}

/// Returns the nearest objects with their similarity.
async fn near(
    pool: &PgPool,
    workspace_id: Uuid,
    vector: &QueryVector,
    scope: &Scope,
    others: &[(Object, f64)],
) -> Result<Vec<Hit>, Error> {
    let mut near = vectors::nearest(pool, workspace_id, vector, scope, MAX_LIMIT + 1).await?;
    let mut objects: HashMap<Uuid, Object> = others.iter().map(|(other, _)| (other.id, other.clone())).collect();
    let known: HashSet<Uuid> = near.iter().map(|near| near.id).collect();
    let unknown: Vec<Uuid> = objects.keys().copied().filter(|id| !known.contains(id)).collect();
    near.extend(vectors::cosines(pool, workspace_id, vector, &unknown).await?);
    let missing: Vec<Uuid> = known.into_iter().filter(|id| !objects.contains_key(id)).collect();
    objects.extend(traverse::by_ids(pool, workspace_id, &missing).await?);
    let hits = near.into_iter().filter_map(|near| {
        Some(Hit {
            object: objects.remove(&near.id)?,
            score: near.cosine.clamp(0.0, 1.0),
        })
    });
    Ok(hits.collect())
}

/// Returns the words that describe an object: its key, name and short texts, without addresses.
fn own_text(object: &Object) -> String {
    let mut text = format!("{} {}", object.key, object.name);
    for value in object
        .properties
        .as_object()
        .into_iter()
        .flat_map(|properties| properties.values())
    {
        if let Value::String(value) = value
            && value.len() <= MAX_SIMILAR_TEXT_BYTES
            && value.contains(' ')
            && !value.contains("://")
        {
            text.push(' ');
            text.push_str(value);
        }
    }
    text.replace('"', " ")
}

/// Returns objects connected to the same objects in the same direction and by the same type, with the shared fraction
/// of the object's significant neighbours.
async fn shared_neighbours(
    pool: &PgPool,
    workspace_id: Uuid,
    id: Uuid,
    scope: &Scope,
) -> Result<Vec<(Object, f64)>, Error> {
    let (filtered, bounds) = (
        !scope.types.is_empty() || scope.bounds.is_some(),
        bounds::condition(scope.bounds.as_ref()),
    );
    let sql = format!(
        "with
        -- Of a hub's edges some: all of them would have to be put in order.
        neighbours as materialized (
            (select neighbour, type, true as outgoing from (
                 select target_id as neighbour, type, canonical_id from kb.graph_relationships
                 where project_id = $1 and source_id = $2 and superseded_at is null and deleted_at is null
                 limit $7) as looked_at
             order by canonical_id limit $4)
            union all
            (select neighbour, type, false from (
                 select source_id as neighbour, type, canonical_id from kb.graph_relationships
                 where project_id = $1 and target_id = $2 and superseded_at is null and deleted_at is null
                 limit $7) as looked_at
             order by canonical_id limit $4)
        ),
        -- Each neighbour's other edges of the same type and direction, one more than a hub has.
        theirs as materialized (
            select n.neighbour, n.type, n.outgoing, others.other, count(*) over (partition by n.neighbour, n.type, n.outgoing) as edges
            from neighbours n
            cross join lateral (
                (select r.source_id as other
                 from kb.graph_relationships r
                 where n.outgoing and r.project_id = $1 and r.target_id = n.neighbour and r.type = n.type
                   and r.superseded_at is null and r.deleted_at is null
                 limit $5 + 1)
                union all
                (select r.target_id
                 from kb.graph_relationships r
                 where not n.outgoing and r.project_id = $1 and r.source_id = n.neighbour and r.type = n.type
                   and r.superseded_at is null and r.deleted_at is null
                 limit $5 + 1)
            ) others
        ),
        telling as (
            select greatest(1, count(distinct (neighbour, type, outgoing))) as count from theirs where edges <= $5
        ),
        shared as (
            select other, count(distinct (neighbour, type, outgoing)) as count
            from theirs
            where edges <= $5 and other <> $2
            group by other
        ),
        -- Where something filters, any of them may be the best one.
        best as (
            select other, count from shared order by count desc, other
            limit case when not $8 then 2 * $6::bigint end
        )
        select {COLUMNS}, best.count::double precision / telling.count as share
        from best
        cross join telling
        join kb.graph_objects o
          on o.canonical_id = best.other and o.project_id = $1 and o.superseded_at is null and o.deleted_at is null
        where (cardinality($3::text[]) = 0 or o.type = any($3)) {bounds}
        order by best.count desc, o.canonical_id
        limit $6"
    );
    let rows = sqlx::query(AssertSqlSafe(sql))
        .bind(workspace_id)
        .bind(id)
        .bind(&scope.types)
        .bind(MAX_NEIGHBOURS)
        .bind(HUB_EDGES)
        .bind(relationships::MAX_PAGE.min(MAX_CANDIDATES))
        .bind(ORDERED_EDGES)
        .bind(filtered)
        .fetch_all(pool)
        .await
        .map_err(Error::database("look for shared neighbours"))?;
    rows.iter()
        .map(|row| Ok((Object::from_row(row)?, row.try_get("share")?)))
        .collect::<Result<_, sqlx::Error>>()
        .map_err(Error::database("read shared neighbours"))
}
