//! Hybrid search: lexical, semantic, or both. Called by the search tools and the API's search route, which embed the
//! query if they can; without a vector, every mode is lexical.
//!
//! Both sides return their best results, which [`Fusion`] combines into one ranking; the method was chosen by
//! measurement (docs/guide/search.md). Filters apply before any limit on both sides.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use sqlx::PgPool;
use uuid::Uuid;

use super::objects::Object;
use super::query_vector::QueryVector;
use super::scope::Scope;
use super::search;
use super::vectors;
use super::{Error, traverse};

/// Number of candidates per side.
const SIDE: i64 = 100;
/// The constant of reciprocal rank fusion, which reduces the difference between the first ranks: the customary value.
const RANK_OFFSET: f64 = 60.0;
/// Cosine similarities of unrelated texts reach about this value; lower ones are meaningless.
const UNRELATED: f64 = 0.1;

/// The kind of a search.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    Lexical,
    Semantic,
    #[default]
    Hybrid,
}

/// A method of combining two rankings.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Fusion {
    /// Sum of 1 / (60 + rank) over both lists, normalized by the maximum possible.
    Ranks,
    /// Weighted sum of both scores, each divided by the best of its list; `vectors` is the weight of the semantic side.
    Scores { vectors: f64 },
    /// The same with the raw scores, 0 to 1: a side without good results has little influence.
    Plain { vectors: f64 },
}

impl Fusion {
    /// The best on the labelled queries: docs/guide/search.md.
    pub const DEFAULT: Self = Self::Plain { vectors: 0.6 };
}

#[derive(Debug, Clone, PartialEq)]
pub struct Hit {
    pub object: Object,
    /// 0 to 1.
    pub score: f64,
    /// The lexical score; None: not among this side's candidates.
    pub lexical: Option<f64>,
    /// The cosine similarity; None as above.
    pub vector: Option<f64>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Hits {
    /// Best first.
    pub hits: Vec<Hit>,
    /// The number of scored objects.
    pub total: i64,
}

/// Returns the best objects for a query. `vector` is the query's; without it, the search is lexical in every mode.
pub async fn find(
    pool: &PgPool,
    workspace_id: Uuid,
    text: &str,
    vector: Option<&QueryVector>,
    mode: Mode,
    scope: &Scope,
    limit: i64,
) -> Result<Hits, Error> {
    find_by(pool, workspace_id, text, vector, (mode, Fusion::DEFAULT), scope, limit).await
}

/// The same with a given fusion, for measurements.
pub async fn find_by(
    pool: &PgPool,
    workspace_id: Uuid,
    text: &str,
    vector: Option<&QueryVector>,
    (mode, fusion): (Mode, Fusion),
    scope: &Scope,
    limit: i64,
) -> Result<Hits, Error> {
    let limit = limit.clamp(1, search::MAX_LIMIT);
    let Some(vector) = vector.filter(|_| mode != Mode::Lexical) else {
        let found = search::search(pool, workspace_id, text, scope, limit).await?;
        let hits = found.hits.into_iter().map(|hit| Hit {
            score: hit.score,
            lexical: Some(hit.score),
            vector: None,
            object: hit.object,
        });
        return Ok(Hits {
            hits: hits.collect(),
            total: found.total,
        });
    };
    let near = vectors::nearest(pool, workspace_id, vector, scope, SIDE.max(limit));
    let (words, near) = match mode {
        Mode::Semantic => (Vec::new(), near.await?),
        Mode::Lexical | Mode::Hybrid => {
            let words = search::search(pool, workspace_id, text, scope, SIDE.max(limit));
            let (words, near) = tokio::try_join!(words, near)?;
            (words.hits, near)
        }
    };
    let mut objects: HashMap<Uuid, Object> = HashMap::new();
    let mut candidates: HashMap<Uuid, Candidate> = HashMap::new();
    for (rank, hit) in words.into_iter().enumerate() {
        candidates.entry(hit.object.id).or_default().lexical = Some((rank, hit.score));
        objects.insert(hit.object.id, hit.object);
    }
    for (rank, near) in near.into_iter().enumerate() {
        candidates.entry(near.id).or_default().vector = Some((rank, near.cosine));
    }
    let total = candidates.len() as i64;
    let best = candidates.values().fold((0.0, 0.0), |best: (f64, f64), candidate| {
        (
            best.0.max(candidate.lexical.map_or(0.0, |(_, score)| score)),
            best.1.max(candidate.vector.map_or(0.0, |(_, cosine)| cosine)),
        )
    });
    let mut ranked: Vec<(Uuid, f64, Candidate)> = candidates
        .into_iter()
        .map(|(id, candidate)| (id, score(&candidate, mode, fusion, best), candidate))
        .collect();
    ranked.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    ranked.truncate(limit as usize);
    let missing: Vec<Uuid> = ranked
        .iter()
        .map(|(id, ..)| *id)
        .filter(|id| !objects.contains_key(id))
        .collect();
    if !missing.is_empty() {
        objects.extend(traverse::by_ids(pool, workspace_id, &missing).await?);
    }
    let hits = ranked.into_iter().filter_map(|(id, score, candidate)| {
        Some(Hit {
            // Skips objects deleted since their vector was read.
            object: objects.remove(&id)?,
            score,
            lexical: candidate.lexical.map(|(_, score)| score),
            vector: candidate.vector.map(|(_, cosine)| cosine),
        })
    });
    Ok(Hits {
        hits: hits.collect(),
        total,
    })
}

/// Rank (from 0) and score on each side.
#[derive(Debug, Clone, Copy, Default)]
struct Candidate {
    lexical: Option<(usize, f64)>,
    vector: Option<(usize, f64)>,
}

fn score(candidate: &Candidate, mode: Mode, fusion: Fusion, best: (f64, f64)) -> f64 {
    let cosine = candidate.vector.map_or(0.0, |(_, cosine)| cosine);
    if mode == Mode::Semantic {
        return cosine.clamp(0.0, 1.0);
    }
    let words = candidate.lexical.map_or(0.0, |(_, score)| score);
    let meaning = ((cosine - UNRELATED) / (1.0 - UNRELATED)).max(0.0);
    match fusion {
        Fusion::Ranks => {
            let of = |side: Option<(usize, f64)>| side.map_or(0.0, |(rank, _)| 1.0 / (RANK_OFFSET + 1.0 + rank as f64));
            (of(candidate.lexical) + of(candidate.vector)) * (RANK_OFFSET + 1.0) / 2.0
        }
        Fusion::Scores { vectors } => {
            let share = |score: f64, best: f64| if best > 0.0 { (score / best).max(0.0) } else { 0.0 };
            (1.0 - vectors) * share(words, best.0) + vectors * share(cosine, best.1)
        }
        Fusion::Plain { vectors } => (1.0 - vectors) * words + vectors * meaning,
    }
}
