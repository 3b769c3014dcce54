//! `search`: the quality of graph searches, on a list of queries with the expected packages
//! (`data/search-queries.tsv`), and the local model's speed. Load is measured by `graph`.

use std::io::Read as _;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use async_trait::async_trait;
use rejoin_embeddings::{Choice, Embedder, EmbeddingsArgs, Endpoints};
use rejoin_graph::embedding_backlog::{self, NewVector};
use rejoin_graph::hybrid_ranking::{self, Fusion, Mode};
use rejoin_graph::import::{self, OnError};
use rejoin_graph::query_vector::{Model, QueryVector};
use rejoin_graph::scope::Scope;
use rejoin_graph::{Actor, ActorKind};
use sqlx::PgPool;
use uuid::Uuid;

use crate::results::{Better, Claim, Column, Of, Table};
use crate::scenario::{Context, Recorder, Scenario};

/// The demonstration graph, and the queries over it.
pub const PACKAGES: &[u8] = include_bytes!("../../../data/debian-packages.ndjson.gz");
const QUERIES: &str = include_str!("../../../data/search-queries.tsv");
/// Number of judged results.
const FIRST: usize = 10;
/// Number of texts per model call.
const BATCH: usize = 32;
/// In smoke runs: lines of the graph, and queries.
const SMOKE: (usize, usize) = (150, 8);

const QUALITY: &str = "quality";
const TIMES: &str = "times";
const ALL: &str = "all";
/// (name, mode, fusion).
const WAYS: [(&str, Mode, Fusion); 10] = [
    ("lexical", Mode::Lexical, Fusion::Ranks),
    ("semantic", Mode::Semantic, Fusion::Ranks),
    ("hybrid, ranks", Mode::Hybrid, Fusion::Ranks),
    (
        "hybrid, normalised scores 0.7 : 0.3",
        Mode::Hybrid,
        Fusion::Scores { vectors: 0.3 },
    ),
    (
        "hybrid, normalised scores 0.5 : 0.5",
        Mode::Hybrid,
        Fusion::Scores { vectors: 0.5 },
    ),
    (
        "hybrid, normalised scores 0.3 : 0.7",
        Mode::Hybrid,
        Fusion::Scores { vectors: 0.7 },
    ),
    (
        "hybrid, plain scores 0.5 : 0.5",
        Mode::Hybrid,
        Fusion::Plain { vectors: 0.5 },
    ),
    (
        "hybrid, plain scores 0.4 : 0.6",
        Mode::Hybrid,
        Fusion::Plain { vectors: 0.6 },
    ),
    (
        "hybrid, plain scores 0.3 : 0.7",
        Mode::Hybrid,
        Fusion::Plain { vectors: 0.7 },
    ),
    (DEFAULT, Mode::Hybrid, Fusion::DEFAULT),
];
const DEFAULT: &str = "hybrid, as it is by default";
const KINDS: [&str; 5] = [ALL, "name", "typo", "words", "topic"];

pub struct Search;

/// A query and the keys of the expected results.
struct Query {
    kind: &'static str,
    text: &'static str,
    wanted: Vec<&'static str>,
}

fn queries() -> Result<Vec<Query>> {
    let lines = QUERIES
        .lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty());
    let queries: Vec<Query> = lines
        .map(|line| {
            let mut fields = line.split('\t');
            let mut field = || fields.next().with_context(|| format!("too few fields: {line}"));
            Ok(Query {
                kind: field()?,
                text: field()?,
                wanted: field()?.split(' ').collect(),
            })
        })
        .collect::<Result<_>>()?;
    ensure!(
        queries.iter().all(|query| KINDS.contains(&query.kind)),
        "an unknown kind of query"
    );
    Ok(queries)
}

#[async_trait]
impl Scenario for Search {
    fn name(&self) -> &'static str {
        "search"
    }

    fn about(&self) -> &'static str {
        "quality of graph searches: by words, by meaning, by both"
    }

    fn tables(&self) -> Vec<Table> {
        let mut quality = Vec::new();
        for kind in KINDS {
            let column = |key: &str, title: &str| {
                Column::new(
                    &format!("{kind}-{key}"),
                    &format!("{kind}: {title}"),
                    "",
                    Better::Higher,
                    Of::Rejoin,
                )
            };
            if kind == ALL {
                quality.push(column("p", "precision@10"));
            }
            quality.push(column("r", "recall@10"));
            if kind == ALL {
                quality.push(column("rr", "reciprocal rank"));
            }
        }
        let times = vec![
            Column::new("ms", "a text", "ms", Better::Lower, Of::Rejoin),
            Column::new("texts", "texts", "", Better::Neither, Of::Rejoin),
        ];
        vec![
            Table::new(
                QUALITY,
                "The first ten of each query, means over queries",
                "searched",
                quality,
            ),
            Table::new(TIMES, "The local model, one core", "embedded", times),
        ]
    }

    async fn measure(&self, context: &Context, out: &mut Recorder) -> Result<()> {
        if context.rep > 0 {
            // Deterministic for the same data, queries and model.
            return Ok(());
        }
        let database = context.server.database().await?;
        let (pool, workspace_id) = (&database.db.pool_sqlx, database.workspace_id);
        let lines = context.sized(usize::MAX, SMOKE.0);
        import_packages(pool, workspace_id, lines).await?;
        let embedder = local();
        match embedder.model() {
            Some(_) => {
                let began = Instant::now();
                let texts = embed_all(pool, workspace_id, &embedder).await?;
                let ms = began.elapsed().as_secs_f64() * 1e3 / texts.max(1) as f64;
                out.record(TIMES, "objects, in batches, stored", "ms", ms);
                out.record(TIMES, "objects, in batches, stored", "texts", texts as f64);
            }
            None => out.note("The local embedding model is not here (make setup-search): by words only."),
        }
        let mut queries = queries()?;
        out.note(format!(
            "{} queries over the {} packages of the demonstration graph: names, typing errors, descriptions in other \
             words, topics. data/README.md describes how they were judged.",
            queries.len(),
            6_200
        ));
        queries.truncate(context.sized(usize::MAX, SMOKE.1));
        let mut vectors = Vec::new();
        let began = Instant::now();
        for query in &queries {
            vectors.push(match embedder.model() {
                Some(model) => {
                    let numbers = embedder.embed(&[query.text.to_owned()]).await?.remove(0);
                    Some(QueryVector::new(model, numbers))
                }
                None => None,
            });
        }
        if embedder.model().is_some() {
            let ms = began.elapsed().as_secs_f64() * 1e3 / queries.len() as f64;
            out.record(TIMES, "queries, one by one", "ms", ms);
            out.record(TIMES, "queries, one by one", "texts", queries.len() as f64);
        }
        for (way, mode, fusion) in WAYS {
            if mode == Mode::Lexical || embedder.model().is_some() {
                judge(pool, workspace_id, &queries, &vectors, (way, mode, fusion), out).await?;
            }
        }
        context.server.drop(database).await
    }

    fn claims(&self, found: &Recorder) -> Vec<Claim> {
        let table = found.table(QUALITY);
        let beside = |other: &str, column: &str| -> Vec<f64> {
            let pairs = table.values(DEFAULT, column).iter().zip(table.values(other, column));
            pairs.map(|(ours, other)| ours / other).collect()
        };
        let claim = |what: &str, other: &str, column: &str| Claim {
            what: format!("hybrid search, {what}"),
            unit: "x".to_owned(),
            bound: 1.0,
            better: Better::Higher,
            values: beside(other, column),
            why_not: None,
        };
        vec![
            claim("recall@10 of all queries relative to words only", "lexical", "all-r"),
            claim("recall@10 of all queries relative to meaning only", "semantic", "all-r"),
            claim("recall@10 of names relative to words only", "lexical", "name-r"),
        ]
    }
}

/// Returns the local model, if available.
pub fn local() -> Embedder {
    let args = EmbeddingsArgs {
        embeddings: Choice::Local,
        embeddings_dir: std::env::var_os("REJOIN_EMBEDDINGS_DIR").map(Into::into),
        ..EmbeddingsArgs::off()
    };
    Embedder::new(&args, &Endpoints::default())
}

/// Imports this many lines of the demonstration graph, objects first.
pub async fn import_packages(pool: &PgPool, workspace_id: Uuid, lines: usize) -> Result<u64> {
    let mut text = String::new();
    flate2::read::GzDecoder::new(PACKAGES).read_to_string(&mut text)?;
    let some: String = text.split_inclusive('\n').take(lines).collect();
    let actor = Actor {
        kind: ActorKind::Import,
        id: None,
    };
    let report = import::import(pool, workspace_id, some.as_bytes(), OnError::Skip, actor, |_| ()).await?;
    Ok(report.lines)
}

/// Embeds all objects, without the worker's pauses.
async fn embed_all(pool: &PgPool, workspace_id: Uuid, embedder: &Embedder) -> Result<u64> {
    let name = embedder.model().context("there is a model")?;
    let mut stored = 0;
    let mut after = None;
    loop {
        let page = embedding_backlog::page(pool, workspace_id, name, after).await?;
        for batch in page.objects.chunks(BATCH) {
            let texts: Vec<String> = batch.iter().map(|due| due.text.clone()).collect();
            let vectors = embedder.embed(&texts).await?;
            let model = Model {
                name: name.to_owned(),
                dimensions: vectors[0].len() as i32,
            };
            let made: Vec<NewVector> = batch
                .iter()
                .zip(vectors)
                .map(|(due, vector)| NewVector {
                    id: due.id,
                    content_hash: due.content_hash.clone(),
                    vector,
                })
                .collect();
            stored += embedding_backlog::put(pool, workspace_id, &model, &made, &[], &[]).await?;
        }
        after = page.next;
        if after.is_none() {
            return Ok(stored);
        }
    }
}

async fn judge(
    pool: &PgPool,
    workspace_id: Uuid,
    queries: &[Query],
    vectors: &[Option<QueryVector>],
    (way, mode, fusion): (&str, Mode, Fusion),
    out: &mut Recorder,
) -> Result<()> {
    let scope = Scope {
        types: vec!["Package".to_owned()],
        ..Scope::default()
    };
    let mut judged: Vec<(&str, [f64; 3])> = Vec::new();
    for (query, vector) in queries.iter().zip(vectors) {
        let found = hybrid_ranking::find_by(
            pool,
            workspace_id,
            query.text,
            vector.as_ref(),
            (mode, fusion),
            &scope,
            FIRST as i64,
        )
        .await?;
        let fits: Vec<bool> = found
            .hits
            .iter()
            .map(|hit| query.wanted.contains(&hit.object.key.as_str()))
            .collect();
        let good = fits.iter().filter(|fits| **fits).count() as f64;
        let rank = fits.iter().position(|fits| *fits);
        if std::env::var_os("BENCH_SEARCH_VERBOSE").is_some() {
            let keys: Vec<&str> = found.hits.iter().map(|hit| hit.object.key.as_str()).collect();
            println!(
                "{way} | {} | {good} of {} | {}",
                query.text,
                query.wanted.len(),
                keys.join(" ")
            );
        }
        judged.push((
            query.kind,
            [
                good / FIRST as f64,
                good / query.wanted.len().min(FIRST) as f64,
                rank.map_or(0.0, |rank| 1.0 / (rank + 1) as f64),
            ],
        ));
    }
    for kind in KINDS {
        let of: Vec<&[f64; 3]> = judged
            .iter()
            .filter(|(its, _)| kind == ALL || *its == kind)
            .map(|(_, figures)| figures)
            .collect();
        for (index, key) in ["p", "r", "rr"].into_iter().enumerate() {
            if !of.is_empty() && (kind == ALL || key == "r") {
                let mean = of.iter().map(|figures| figures[index]).sum::<f64>() / of.len() as f64;
                out.record(QUALITY, way, &format!("{kind}-{key}"), mean);
            }
        }
    }
    Ok(())
}
