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
//! - `similar` objects like a given one

mod similar;
mod terms;

pub use similar::similar;

use sqlx::{AssertSqlSafe, FromRow as _, PgConnection, PgPool, Row as _};
use uuid::Uuid;

use self::terms::{NEAR, Reach, Terms};
use super::Error;
use super::objects::{COLUMNS, Object};
use super::query::Query;
use super::scope::Scope;

/// Maximum number of objects in a result.
pub const MAX_LIMIT: i64 = 100;
/// Candidates per source, its best first: twice the requested number, within these limits.
const MIN_CANDIDATES: i64 = 100;
const MAX_CANDIDATES: i64 = 300;
/// Maximum number of matching objects that are ranked. If more match, an arbitrary subset: their ranks hardly differ.
const MAX_RANKED: i64 = 2_000;

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
    run(pool, workspace_id, &query, scope, limit, Reach::Near).await
}

/// Searches as far as `reach`, or less far: without pg_trgm.
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
    let trigrams = prepare(&mut tx).await.map_err(Error::database(attempted))?;
    let reach = if trigrams { reach } else { Reach::Words };
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

/// Sets up the transaction for a search, and returns whether the trigram operators are on its search path.
///
/// Forces the use of text indexes: for words without statistics, the planner would prefer a sequential scan because of
/// the limit, which takes seconds in a large graph. JIT compilation would take longer than running the statement.
async fn prepare(db: &mut PgConnection) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar!(
        r#"with settings as materialized (
               select set_config('enable_seqscan', 'off', true), set_config('enable_indexscan', 'off', true),
                      set_config('jit', 'off', true), set_config('pg_trgm.word_similarity_threshold', $1, true)
           )
           select to_regoperator('<%(text,text)') is not null as "there!" from settings"#,
        NEAR.to_string()
    )
    .fetch_one(db)
    .await
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
