//! Expands a query's words: each word itself and, if hardly any object contains it, the most similar words of the
//! workspace's keys and names (`kb.graph_words`). Called by `search`.
//!
//! A word that very many objects contain is *common*: an index scan would fetch all of them before returning the first.
//! Queries consisting of common words only therefore don't use the index but scan a sample of the objects. The
//! planner's statistics decide which words are common.

use sqlx::{AssertSqlSafe, PgConnection, Row as _};
use uuid::Uuid;

use super::MAX_RANKED;
use crate::query::Query;
use crate::scope::Scope;
use crate::{Error, bounds};

/// A word contained in more objects is common; the index returns this many within milliseconds.
const COMMON: f64 = 10_000.0;
/// A word contained in this many objects is no typo: it is not expanded.
const KNOWN: i64 = 20;
/// Maximum number of similar words per misspelled word, most similar first.
const MAX_NEAR: i64 = 12;
/// Minimum similarity, as pg_trgm's word_similarity. Two transposed letters in a word of eight give 0.55.
pub(super) const NEAR: f64 = 0.45;
/// Minimum length of a code for a prefix search.
const MIN_BEGINNING: i64 = 5;
/// Maximum number of objects sampled for common words.
const MAX_SAMPLED: i64 = 5_000;
/// Maximum number of candidates from a sample.
const MAX_FOUND: i64 = 100;

/// The expansion of words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// Exact words only.
    Words,
    /// Also similar words; needs pg_trgm.
    Near,
}

/// The terms of a query, by word.
#[derive(Debug)]
pub(super) struct Terms {
    words: Vec<Vec<Term>>,
    /// Quoted phrases, as a full-text query; empty: none.
    quoted: String,
}

/// A full-text query for one word.
#[derive(Debug, Clone)]
struct Term {
    query: String,
    common: bool,
    /// A similar word, instead of the query's own.
    near: bool,
}

impl Terms {
    pub(super) async fn of(
        db: &mut PgConnection,
        workspace_id: Uuid,
        query: &Query,
        scope: &Scope,
        reach: Reach,
    ) -> Result<Self, Error> {
        let attempted = "weigh the words of a search";
        // Built from constants only.
        let rows = sqlx::query(AssertSqlSafe(statement(reach, scope)))
            .bind(workspace_id)
            .bind(&query.words)
            .bind(COMMON)
            .bind(KNOWN)
            .bind(&scope.types)
            .bind(&scope.labels)
            .bind(MAX_NEAR)
            .bind(MIN_BEGINNING)
            .fetch_all(&mut *db)
            .await
            .map_err(Error::database(attempted))?;
        let mut terms = Terms {
            words: vec![Vec::new(); query.words.len()],
            quoted: String::new(),
        };
        for row in rows {
            let mut read = || {
                let place: i64 = row.try_get("place")?;
                let term = Term {
                    query: row.try_get("query")?,
                    common: row.try_get("common")?,
                    near: row.try_get("near")?,
                };
                terms.words[place as usize - 1].push(term);
                Ok(())
            };
            read().map_err(Error::database(attempted))?;
        }
        // Words of punctuation only.
        terms.words.retain(|word| !word.is_empty());
        if query.is_quoted() {
            terms.quoted = sqlx::query_scalar(
                "select case when numnode(query) > 0 then query::text else '' end
                 from websearch_to_tsquery('simple', $1) as query",
            )
            .bind(&query.text)
            .fetch_one(db)
            .await
            .map_err(Error::database(attempted))?;
        }
        Ok(terms)
    }

    /// All words; empty if [`Terms::among_common`] handles them. `narrow`: other conditions have an index, too.
    pub(super) fn every(&self, narrow: bool) -> String {
        if !self.quoted.is_empty() {
            return self.quoted.clone();
        }
        if narrow || self.words.iter().any(|word| !word.iter().any(|term| term.common)) {
            self.joined_every()
        } else {
            String::new()
        }
    }

    fn joined_every(&self) -> String {
        let words: Vec<String> = self.words.iter().map(any_of).collect();
        words.join(" & ")
    }

    /// Any of the query's own words that are not common.
    pub(super) fn any(&self, narrow: bool) -> String {
        any_of(
            self.words
                .iter()
                .flatten()
                .filter(|term| !term.near && (narrow || !term.common)),
        )
    }

    /// Any similar word that is not common.
    pub(super) fn any_near(&self, narrow: bool) -> String {
        any_of(
            self.words
                .iter()
                .flatten()
                .filter(|term| term.near && (narrow || !term.common)),
        )
    }

    /// Any word.
    pub(super) fn all(&self) -> String {
        any_of(self.words.iter().flatten())
    }

    pub(super) fn has_common(&self) -> bool {
        self.words.iter().flatten().any(|term| term.common)
    }

    /// Any of the query's own words.
    pub(super) fn own(&self) -> String {
        any_of(self.words.iter().flatten().filter(|term| !term.near))
    }

    /// All words, if each is common or may be replaced by a common one.
    pub(super) fn among_common(&self) -> Option<String> {
        (!self.words.is_empty() && self.every(false).is_empty()).then(|| self.joined_every())
    }
}

fn any_of<'a>(terms: impl IntoIterator<Item = &'a Term>) -> String {
    let terms: Vec<String> = terms.into_iter().map(|term| format!("({})", term.query)).collect();
    if terms.is_empty() {
        return String::new();
    }
    format!("({})", terms.join(" | "))
}

/// $1 workspace, $2 words, $3 object count of a common word, $4 of a known word, $5 types, $6 labels, $7 similar words,
/// $8 prefix length.
fn statement(reach: Reach, scope: &Scope) -> String {
    let live = scope.live();
    let near = match reach {
        Reach::Near => format!(
            ",
            unknown as materialized (
                select place, word, query
                from own
                where not common
                  and (select count(*)
                       from (select from kb.graph_objects o where {live} and o.fts @@ own.query limit $4) known) < $4
            ),
            near as materialized (
                select unknown.place, plainto_tsquery('simple', nearest.word) as query, common.lexeme is not null as common
                from unknown
                cross join lateral (
                    -- The same word may be there twice.
                    select distinct similarity(w.word, unknown.word) as nearness, w.word
                    from (
                        -- By themselves, so that the trigrams' index is asked: of a project's few thousand words the planner
                        -- would compare each, in 20 ms instead of 2.
                        select project_id, word from kb.graph_words where unknown.word <% word offset 0
                    ) w
                    where w.project_id = $1
                    order by nearness desc, w.word
                    limit $7
                ) nearest
                left join common on common.lexeme = nearest.word
                where nearest.word <> unknown.word
            )"
        ),
        Reach::Words => String::new(),
    };
    let and_near = match reach {
        Reach::Near => {
            "union all
            select place, query::text, common, true from near where numnode(query) > 0
            union all
            -- Nothing is near it: a code, perhaps the beginning of one.
            select place, query::text || ':*', false, true
            from unknown
            where numnode(query) = 1 and length(word) >= $8 and place not in (select place from near)"
        }
        Reach::Words => "",
    };
    format!(
        "with
        common as materialized (
            select e.lexeme
            from pg_stats s
            join pg_class c on c.oid = 'kb.graph_objects'::regclass
            cross join lateral unnest(s.most_common_elems::text::text[], s.most_common_elem_freqs) as e (lexeme, share)
            where s.schemaname = 'kb' and s.tablename = 'graph_objects' and s.attname = 'fts'
              and e.share * c.reltuples > $3
        ),
        -- Of several lexemes in one word, one that is not common is enough.
        own as materialized (
            select given.place, given.word, plainto_tsquery('simple', given.word) as query,
                not exists (
                    select from unnest(tsvector_to_array(to_tsvector('simple', given.word))) as part
                    where part not in (select lexeme from common where lexeme is not null)
                ) as common
            from unnest($2::text[]) with ordinality as given (word, place)
        ){near}
        select place, query::text as query, common, false as near from own where numnode(query) > 0
        {and_near}
        order by place"
    )
}

/// Returns matches among a sample of the objects, best first.
pub(super) async fn sample(
    db: &mut PgConnection,
    workspace_id: Uuid,
    query: &str,
    scope: &Scope,
) -> Result<Vec<Uuid>, Error> {
    let attempted = "look for common words";
    // Scans an index of objects until enough are found: the opposite of what rare words need.
    sqlx::raw_sql("set local enable_indexscan = on; set local enable_bitmapscan = off")
        .execute(&mut *db)
        .await
        .map_err(Error::database(attempted))?;
    // In the order of an index that begins with the workspace, so that other workspaces' objects are not scanned.
    let (by_type, order) = if scope.types.is_empty() {
        ("", "order by o.canonical_id")
    } else {
        ("and o.type = any($4)", "")
    };
    let bounds = bounds::condition(scope.bounds.as_ref());
    // Built from constants only.
    let found = sqlx::query_scalar(AssertSqlSafe(format!(
        "select o.id
         from (select o.id, o.fts
               from (select o.id, o.fts
                     from kb.graph_objects o
                     where o.project_id = $1 and o.superseded_at is null and o.deleted_at is null {by_type}
                       and cardinality($4::text[]) >= 0 {bounds}
                     {order} limit $3) o
               where o.fts @@ $2::text::tsquery
               limit $5) o
         order by ts_rank(o.fts, $2::text::tsquery) desc, o.id
         limit $6"
    )))
    .bind(workspace_id)
    .bind(query)
    .bind(MAX_SAMPLED)
    .bind(&scope.types)
    .bind(MAX_RANKED)
    .bind(MAX_FOUND)
    .fetch_all(&mut *db)
    .await
    .map_err(Error::database(attempted))?;
    sqlx::raw_sql("set local enable_indexscan = off; set local enable_bitmapscan = on")
        .execute(db)
        .await
        .map_err(Error::database(attempted))?;
    Ok(found)
}
