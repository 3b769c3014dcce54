//! `graph`: the duration of each graph-reading tool, on the demonstration data and on a generated graph, and the speed
//! of imports.
//!
//! - `generate`  a graph of any size, with realistic skew, as lines of an import
//! - `vectors`   vectors for its objects, and COPY as the limit of an import
//! - `reads`     the calls, with varying arguments

mod generate;
mod reads;
mod vectors;

use std::time::Instant;

use anyhow::{Result, ensure};
use async_trait::async_trait;
use rejoin_db::config::DatabaseArgs;
use rejoin_db::{Db, Role};
use rejoin_graph::import::{self, OnError};
use rejoin_graph::{Actor, ActorKind};

use super::search::import_packages;
use crate::results::{Better, Claim, Column, Of, Size, Table};
use crate::scenario::{Context, Recorder, Scenario};
use crate::server::Database;
use reads::Read;

const IMPORT: &str = "import";
const WRITES: &str = "writes";
const DEMO: &str = "demonstration graph";
/// Limit of reads at p99, in milliseconds.
const SEARCH_MS: f64 = 50.0;
const WALK_MS: f64 = 200.0;
/// Number of individually created objects.
const SINGLE_WRITES: usize = 500;

const MEDIUM: &str = "100,000 objects, 300,000 relationships";
const MILLION: &str = "1,000,000 objects, 3,000,000 relationships";
/// Timeout of an import's statement, in milliseconds.
const IMPORT_TIMEOUT_MS: u64 = 3_600_000;
const SMOKE_OBJECTS: usize = 300;

/// The demonstration graph and a generated one; or a million objects, which takes ten minutes.
pub enum Graph {
    Usual,
    Million,
}

#[async_trait]
impl Scenario for Graph {
    fn name(&self) -> &'static str {
        match self {
            Graph::Usual => "graph",
            Graph::Million => "million",
        }
    }

    fn about(&self) -> &'static str {
        match self {
            Graph::Usual => "reads of the knowledge graph, tool by tool, and imports",
            Graph::Million => "the same with a million objects; make bench-scale SCENARIO=million",
        }
    }

    fn tables(&self) -> Vec<Table> {
        let mut tables = Vec::new();
        for (key, name) in self.graphs() {
            let columns = vec![
                Column::new("p50", "p50", "ms", Better::Lower, Of::Rejoin),
                Column::new("p99", "p99", "ms", Better::Lower, Of::Rejoin),
                Column::new("max", "longest", "ms", Better::Lower, Of::Rejoin),
                Column::new("calls", "calls", "", Better::Neither, Of::Rejoin),
            ];
            tables.push(Table::new(
                key,
                &format!("Reads, one after the other: {name}"),
                "call",
                columns,
            ));
        }
        let import = vec![
            Column::new("rejoin", "import", "rows/s", Better::Higher, Of::Rejoin).ratio_to("copy"),
            Column::new("copy", "COPY of these rows", "rows/s", Better::Higher, Of::Limit),
            Column::new("again", "the same file again", "rows/s", Better::Higher, Of::Rejoin),
        ];
        let writes = vec![
            Column::new("p50", "p50", "ms", Better::Lower, Of::Rejoin),
            Column::new("p99", "p99", "ms", Better::Lower, Of::Rejoin),
        ];
        tables.push(Table::new(
            IMPORT,
            "Imports: objects and relationships",
            "graph",
            import,
        ));
        tables.push(Table::new(
            WRITES,
            "One object at a time, each a commit",
            "marks for vectors",
            writes,
        ));
        tables
    }

    async fn measure(&self, context: &Context, out: &mut Recorder) -> Result<()> {
        out.note(
            "Generated: degrees by a power law (the most connected object has about 1 % of all edges), words with the \
             frequencies of the demonstration data's summaries, eight types from 50 % to 0.1 %. Vectors are \
             synthetic, in a thousand clusters: they are suitable to measure the time of a search, not its quality. \
             The figures exclude the query's embedding (9 ms with the local model: search). Arguments change with \
             each call; half of the objects are chosen uniformly, half by their edges, including hubs. Warm: each \
             call was made a few times before.",
        );
        out.note(
            "COPY: the rows that the import wrote, copied from its tables to empty ones with the same columns, \
             indexes and generated columns, through one connection, durably. It parses no JSON, resolves no keys, \
             and compares nothing with existing rows.",
        );
        match self {
            Graph::Usual => {
                demonstration(context, out).await?;
                generated(context, out, ("medium", MEDIUM), context.sized(100_000, SMOKE_OBJECTS)).await
            }
            Graph::Million if context.size == Size::Large => {
                generated(context, out, ("million", MILLION), 1_000_000).await
            }
            Graph::Million => {
                out.note("Measured with SIZE=large only.");
                Ok(())
            }
        }
    }

    fn claims(&self, found: &Recorder) -> Vec<Claim> {
        let mut claims = Vec::new();
        for (key, name) in self.graphs() {
            let table = found.table(key);
            if table.rows.is_empty() {
                continue;
            }
            for (what, walks, bound) in [
                ("searches and edges", false, SEARCH_MS),
                ("traversals of depth 3", true, WALK_MS),
            ] {
                // The slowest of them in each repetition.
                let rows: Vec<&[f64]> = reads::ALL
                    .iter()
                    .filter(|read| read.is_walk() == walks && read.has_target())
                    .map(|read| table.values(read.name(), "p99"))
                    .filter(|values| !values.is_empty())
                    .collect();
                let reps = rows.iter().map(|values| values.len()).min().unwrap_or(0);
                let slowest = (0..reps).map(|rep| rows.iter().map(|values| values[rep]).fold(0.0, f64::max));
                claims.push(Claim {
                    what: format!("{name}, {what}: the slowest tool's p99"),
                    unit: "ms".to_owned(),
                    bound,
                    better: Better::Lower,
                    values: slowest.collect(),
                    why_not: (!walks).then(|| "docs/guide/search.md lists the tools and the reasons.".to_owned()),
                });
            }
        }
        claims
    }
}

async fn demonstration(context: &Context, out: &mut Recorder) -> Result<()> {
    let demo = context.server.database().await?;
    let lines = context.sized(usize::MAX, 700);
    for column in ["rejoin", "again"] {
        let began = Instant::now();
        let lines = import_packages(&demo.db.pool_sqlx, demo.workspace_id, lines).await?;
        out.record(IMPORT, DEMO, column, lines as f64 / began.elapsed().as_secs_f64());
    }
    let copy = vectors::copy_rows_per_s(&demo).await?;
    out.record(IMPORT, DEMO, "copy", copy);
    read(context, out, &demo, "demo").await?;
    writes(context, out, &demo).await?;
    context.server.drop(demo).await
}

async fn generated(context: &Context, out: &mut Recorder, (key, name): (&str, &str), objects: usize) -> Result<()> {
    let database = context.server.database().await?;
    let began = Instant::now();
    let rows = import_generated(&database, objects).await?;
    println!("   {name}: imported in {:.0} s", began.elapsed().as_secs_f64());
    out.record(IMPORT, name, "rejoin", rows as f64 / began.elapsed().as_secs_f64());
    context.server.settle().await?;
    let copy = vectors::copy_rows_per_s(&database).await?;
    out.record(IMPORT, name, "copy", copy);
    read(context, out, &database, key).await?;
    context.server.drop(database).await
}

async fn import_generated(database: &Database, objects: usize) -> Result<u64> {
    let actor = Actor {
        kind: ActorKind::Import,
        id: None,
    };
    let source = generate::source(objects)?;
    // Like over HTTP: an import's connection allows long statements.
    let arguments = DatabaseArgs {
        db_statement_timeout_ms: IMPORT_TIMEOUT_MS,
        ..DatabaseArgs::new(&database.url)
    };
    let db = Db::connect_lazy(&arguments, "rejoin-bench-import", Role::Login)?;
    let (pool, workspace_id) = (&db.pool_sqlx, database.workspace_id);
    let report = import::import(pool, workspace_id, source, OnError::Refuse, actor, |_| ()).await?;
    ensure!(report.imported, "bad lines: {:?}", report.bad.first());
    Ok(report.objects.created + report.relationships.created)
}

async fn read(context: &Context, out: &mut Recorder, database: &Database, table: &str) -> Result<()> {
    let began = Instant::now();
    vectors::fill(database).await?;
    println!("   vectors in {:.0} s", began.elapsed().as_secs_f64());
    // Autovacuum does this within minutes: counts can then be read from the indexes.
    for table in ["graph_objects", "graph_relationships", "graph_embeddings"] {
        let sql = format!("vacuum analyze kb.{table}");
        sqlx::query(sqlx::AssertSqlSafe(sql))
            .execute(&database.db.pool_sqlx)
            .await?;
    }
    context.server.settle().await?;
    let arguments = reads::Arguments::draw(database, context.sized(256, 12)).await?;
    for read in reads::ALL {
        let latencies = reads::measure(database, &arguments, read, context.size).await?;
        println!(
            "   {}: p50 {:.1} ms, p99 {:.1} ms",
            read.name(),
            latencies.quantile_ms(0.5),
            latencies.quantile_ms(0.99)
        );
        out.record(table, read.name(), "p50", latencies.quantile_ms(0.5));
        out.record(table, read.name(), "p99", latencies.quantile_ms(0.99));
        out.record(table, read.name(), "max", latencies.max_ms());
        out.record(table, read.name(), "calls", latencies.count() as f64);
    }
    Ok(())
}

/// The trigger's cost for individual writes.
async fn writes(context: &Context, out: &mut Recorder, database: &Database) -> Result<()> {
    let count = context.sized(SINGLE_WRITES, 10);
    // The first writes after a checkpoint write full pages: they don't count.
    vectors::single_writes(database, 2 * count, true).await?;
    for (row, marks) in [("with", true), ("without", false)] {
        let latencies = vectors::single_writes(database, count, marks).await?;
        out.record(WRITES, row, "p50", latencies.quantile_ms(0.5));
        out.record(WRITES, row, "p99", latencies.quantile_ms(0.99));
    }
    Ok(())
}

impl Graph {
    /// Keys and names of the tables.
    fn graphs(&self) -> Vec<(&'static str, &'static str)> {
        match self {
            Graph::Usual => vec![("demo", DEMO), ("medium", MEDIUM)],
            Graph::Million => vec![("million", MILLION)],
        }
    }
}

impl Read {
    /// Whether there is a claim about it.
    fn has_target(self) -> bool {
        !matches!(
            self,
            Read::Types | Read::Tags | Read::Path | Read::Query | Read::Relationships
        )
    }

    fn is_walk(self) -> bool {
        matches!(self, Read::Walk(_))
    }
}
