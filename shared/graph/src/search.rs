//! Lexical search over live objects, and objects like a given one. Called by the search tools and routes.
//!
//! Candidates come from four sources: exact matches of keys and names with the query or one of its words, full text
//! with all words, full text with any word (only if the former found too little), and full text with similar words from
//! keys and names, for rare words: typos and parts of names (`terms`). All are scored by one formula, 0 to 1: 0.8 x the
//! mean word score + 0.2 x text rank. A word scores 1 if it equals the key or name, up to 0.9 if it is similar, 0.6 if
//! it is in the text. A key or name equal to the whole query scores 1. Types and labels filter before any limit.
//! Without pg_trgm there are no similar words.
//!
//! - `terms`  expansion of words; common words

use std::collections::{HashMap, HashSet};

use serde_json::Value;
use sqlx::{AssertSqlSafe, FromRow as _, PgConnection, PgPool, Row as _};
use uuid::Uuid;

use super::bounds;
use super::objects::{self, COLUMNS, Object};
use super::query::Query;
use super::query_vector::QueryVector;
use super::scope::Scope;
use super::vectors;
use super::{Error, relationships, traverse};
use terms::{NEAR, Reach, Terms};

mod terms;

/// Maximum number of objects in a result.
pub const MAX_LIMIT: i64 = 100;
/// Candidates per source, its best first: twice the requested number, within these limits.
const MIN_CANDIDATES: i64 = 100;
const MAX_CANDIDATES: i64 = 300;
/// Maximum number of matching objects that are ranked. If more match, an arbitrary subset: their ranks hardly differ.
const MAX_RANKED: i64 = 2_000;
/// Maximum number of an object's edges, per direction, that [`similar`] examines.
const MAX_NEIGHBOURS: i64 = 30;
/// Maximum number of its edges, per direction, that are sorted for that: a hub has more.
const ORDERED_EDGES: i64 = 2_000;
/// A neighbour with more edges than this is no evidence of similarity (everything depends on libc6).
const HUB_EDGES: i64 = 60;
/// Maximum size of a text property from which [`similar`] takes words, in bytes; longer ones are prose.
const MAX_SIMILAR_TEXT_BYTES: usize = 300;

#[derive(Debug, Clone, PartialEq)]
pub struct Hit {
    pub object: Object,
    /// 0 to 1.
    pub score: f64,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Hits {
    /// Best first.
    pub hits: Vec<Hit>,
    /// The number of scored objects.
    pub total: i64,
}

pub async fn search(pool: &PgPool, workspace_id: Uuid, text: &str, scope: &Scope, limit: i64) -> Result<Hits, Error> {
    let query = Query::parse(text);
    if query.is_empty() {
        return Ok(Hits {
            hits: Vec::new(),
            total: 0,
        });
    }
    let trigrams = has_trigrams(pool).await?;
    run(
        pool,
        workspace_id,
        &query,
        scope,
        limit,
        if trigrams { Reach::Near } else { Reach::Words },
    )
    .await
}

/// Forces the use of text indexes: for words without statistics, the planner would prefer a sequential scan because of
/// the limit, which takes seconds in a large graph. JIT compilation would take longer than running the statement.
const PLANNING: &str = "set local enable_seqscan = off; set local enable_indexscan = off; set local jit = off";

async fn run(
    pool: &PgPool,
    workspace_id: Uuid,
    query: &Query,
    scope: &Scope,
    limit: i64,
    reach: Reach,
) -> Result<Hits, Error> {
    let limit = limit.clamp(1, MAX_LIMIT);
    let attempted = "search the graph";
    let mut tx = rejoin_db::begin(pool).await.map_err(Error::database(attempted))?;
    let settings = format!("{PLANNING}; set local pg_trgm.word_similarity_threshold = {NEAR}");
    sqlx::raw_sql(AssertSqlSafe(settings))
        .execute(&mut *tx)
        .await
        .map_err(Error::database(attempted))?;
    let narrow = !scope.labels.is_empty();
    let terms = Terms::of(&mut tx, workspace_id, query, scope, reach).await?;
    let mut sampled = match terms.among_common() {
        Some(query) if !narrow => terms::sample(&mut tx, workspace_id, &query, scope).await?,
        _ => Vec::new(),
    };
    let look = async |db: &mut PgConnection, sampled: &[Uuid]| {
        // Built from constants only.
        sqlx::query(AssertSqlSafe(statement(reach, scope)))
            .bind(workspace_id)
            .bind(terms.every(narrow))
            .bind(&query.words)
            .bind(&query.text)
            .bind(&scope.types)
            .bind(&scope.labels)
            .bind(limit)
            .bind((2 * limit).clamp(MIN_CANDIDATES, MAX_CANDIDATES))
            .bind(MAX_RANKED)
            .bind(terms.any(narrow))
            .bind(terms.own())
            .bind(sampled)
            .bind(terms.any_near(narrow))
            .fetch_all(db)
            .await
            .map_err(Error::database(attempted))
    };
    let mut rows = look(&mut tx, &sampled).await?;
    if rows.is_empty() && terms.has_common() && !narrow {
        // The rarer words matched nothing.
        sampled = terms::sample(&mut tx, workspace_id, &terms.all(), scope).await?;
        rows = look(&mut tx, &sampled).await?;
    }
    let mut hits = Vec::with_capacity(rows.len());
    let mut total = 0;
    for row in &rows {
        let hit = Object::from_row(row).and_then(|object| {
            Ok(Hit {
                object,
                score: row.try_get("score")?,
            })
        });
        hits.push(hit.map_err(Error::database("read a search result"))?);
        total = row.try_get("total").map_err(Error::database("read a search result"))?;
    }
    Ok(Hits { hits, total })
}

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

/// Returns whether the trigram operators are on this connection's search path.
async fn has_trigrams(pool: &PgPool) -> Result<bool, Error> {
    sqlx::query_scalar!(r#"select to_regoperator('<%(text,text)') is not null as "there!""#)
        .fetch_one(pool)
        .await
        .map_err(Error::database("look for pg_trgm"))
}

/// $1 workspace, $2 all words, as a full-text query, $3 words, $4 whole text, $5 types, $6 labels, $7 limit, $8
/// candidates per source, $9 ranked, $10 any searchable word, $11 any word, $12 objects found already, $13 any similar
/// word.
fn statement(reach: Reach, scope: &Scope) -> String {
    let live = scope.live();
    // A match of a part of a name scores slightly less than a nearly equal name.
    let nearness = match reach {
        Reach::Near => {
            "greatest(similarity(o.key, given.word), 0.8 * word_similarity(given.word, o.key || ' ' || o.name))"
        }
        Reach::Words => "0.0",
    };
    format!(
        "with
        given as materialized (
            select word, plainto_tsquery('simple', word) as query from unnest($3::text[]) as word
        ),
        every_match as materialized (
            select o.id
            from (select o.id, o.fts
                  from kb.graph_objects o
                  where {live} and $2::text <> '' and o.fts @@ $2::text::tsquery
                  limit $9) o
            order by ts_rank(o.fts, $2::text::tsquery) desc, o.id
            limit $8
        ),
        candidates as (
            select id from every_match
            union
            select id from unnest($12::uuid[]) as id
            union
            (select o.id from kb.graph_objects o where {live} and lower(o.key) = any($3::text[] || lower($4)) limit $8)
            union
            (select o.id from kb.graph_objects o where {live} and lower(o.name) = any($3::text[] || lower($4)) limit $8)
            union
            (select o.id
             from (select o.id, o.fts
                   from kb.graph_objects o
                   where {live}
                     and $10::text <> ''
                     and (select count(*) from every_match) < $7
                     and o.fts @@ $10::text::tsquery
                   limit $9) o
             order by ts_rank(o.fts, $10::text::tsquery) desc, o.id
             limit $8)
            union
            (select o.id
             from (select o.id, o.fts
                   from kb.graph_objects o
                   where {live} and $13::text <> '' and o.fts @@ $13::text::tsquery
                   limit $9) o
             order by ts_rank(o.fts, $13::text::tsquery) desc, o.id
             limit $8)
        )
        select {COLUMNS},
            count(*) over () as total,
            (case
                when lower(o.key) = lower($4) or lower(o.name) = lower($4) then 1.0
                else least(0.99, 0.8 * words.score + 0.2 * ts_rank(o.fts, $11::text::tsquery, 32))
            end)::double precision as score
        from candidates
        join kb.graph_objects o on o.id = candidates.id
        cross join lateral (
            select avg(
                case
                    when lower(o.key) = given.word or lower(o.name) = given.word then 1.0
                    else greatest(
                        case when o.fts @@ given.query then 0.6 else 0.0 end,
                        0.9 * {nearness})
                end) as score
            from given
        ) words
        order by score desc, length(o.name), o.name, o.id
        limit $7"
    )
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
