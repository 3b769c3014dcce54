//! Expands a query's words: each word itself and, if hardly any object contains it, the most similar words of the
//! project's keys and names (`kb.graph_words`). Called by `search`.
//!
//! A word that very many objects contain is *common*: an index scan would fetch all of them before returning the first.
//! Queries consisting of common words only therefore don't use the index but scan a sample of the objects. The
//! planner's statistics decide which words are common.

use sqlx::{AssertSqlSafe, PgConnection, Row as _};
use uuid::Uuid;

use super::{MAX_RANKED, bounds};
use crate::graph::Error;
use crate::graph::query::Query;
use crate::graph::scope::Scope;

/// A word of more objects is common; the index gives so many in some milliseconds.
const COMMON: f64 = 10_000.0;
/// A word that so many objects have is no typing error: nothing near it is looked for.
const KNOWN: i64 = 20;
/// Words that are taken for one with a typing error, the nearest.
const MAX_NEAR: i64 = 12;
/// How near they must be, pg_trgm's word_similarity. Two letters that changed places in a word of eight leave 0.55.
pub(super) const NEAR: f64 = 0.45;
/// Letters that make it worth to look for what begins with a code.
const MIN_BEGINNING: i64 = 5;
/// Objects that are looked at for common words.
const MAX_SAMPLED: i64 = 5_000;
/// Objects that such a look puts up.
const MAX_FOUND: i64 = 100;

/// How far a word reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// Objects that contain it.
    Words,
    /// And objects that contain a word which is nearly it; needs pg_trgm.
    Near,
}

/// The terms of a query, word by word.
#[derive(Debug)]
pub(super) struct Terms {
    words: Vec<Vec<Term>>,
    /// What was quoted, as a query of full text; empty: nothing was.
    quoted: String,
}

/// A query of full text for one word.
#[derive(Debug, Clone)]
struct Term {
    query: String,
    common: bool,
    /// A word that is near, instead of the query's own.
    near: bool,
}

impl Terms {
    pub(super) async fn of(
        db: &mut PgConnection,
        project_id: Uuid,
        query: &Query,
        scope: &Scope,
        reach: Reach,
    ) -> Result<Self, Error> {
        let attempted = "weigh the words of a search";
        // Built from our own words only.
        let rows = sqlx::query(AssertSqlSafe(statement(reach, scope)))
            .bind(project_id)
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
        // A word of punctuation only.
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

    /// Every word; empty where that is for [`Terms::among_common`]. `narrow`: other conditions have an index, too.
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

    /// Any of the words that are near one of them, and not common.
    pub(super) fn any_near(&self, narrow: bool) -> String {
        any_of(
            self.words
                .iter()
                .flatten()
                .filter(|term| term.near && (narrow || !term.common)),
        )
    }

    /// Any of all of them.
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

    /// All words, where each is common or may stand for one that is.
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

/// $1 project, $2 words, $3 objects of a common word, $4 of a known word, $5 types, $6 labels, $7 near words, $8 letters of a beginning.
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

/// Of a part of the objects those that match, the best first.
pub(super) async fn sample(
    db: &mut PgConnection,
    project_id: Uuid,
    query: &str,
    scope: &Scope,
) -> Result<Vec<Uuid>, Error> {
    let attempted = "look for common words";
    // Along an index of objects, until there are enough: the opposite of what rare words need.
    sqlx::raw_sql("set local enable_indexscan = on; set local enable_bitmapscan = off")
        .execute(&mut *db)
        .await
        .map_err(Error::database(attempted))?;
    // In the order of an index that begins with the project: others' objects are not to be walked over.
    let (by_type, order) = match scope.types.is_empty() {
        true => ("", "order by o.canonical_id"),
        false => ("and o.type = any($4)", ""),
    };
    let bounds = bounds::condition(scope.bounds.as_ref());
    // Built from our own words only.
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
    .bind(project_id)
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
