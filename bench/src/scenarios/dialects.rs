//! `dialects`: what a reader costs that is sent another program's format, beside a native reader in the same run.

use std::time::Duration;

use anyhow::{Context as _, Result};
use async_trait::async_trait;
use serde_json::json;
use uuid::Uuid;

use crate::fleet;
use crate::paced::{self, Load};
use crate::part::{Part, Role};
use crate::posted;
use crate::print::count;
use crate::process::Process;
use crate::producer;
use crate::product::ONE_USER_PLAYS_ALL;
use crate::results::{Better, Claim, Column, Of, Size, Table};
use crate::scenario::{Context, Recorder, Scenario};
use crate::server::Database;

pub struct Dialects;

const PER_LOG_PER_S: f64 = 20.0;
const WARM_UP: Duration = Duration::from_millis(500);
/// The most that a dialect's reader may cost, relative to a native one.
const BOUND: f64 = 1.3;

/// Readers of runs: (readers, runs).
type Crowd = (usize, usize);

/// One reader for each run, as most runs have; and many of a few.
fn crowds(size: Size) -> [Crowd; 2] {
    match size {
        Size::Smoke => [(20, 20), (40, 2)],
        Size::Full | Size::Large => [(200, 200), (1_000, 20)],
    }
}

/// The columns of a crowd: (its own, the native reader's).
const COLUMNS: [(&str, &str); 2] = [("one", "native-one"), ("many", "native-many")];

const NATIVE: &str = "native";
const DIALECTS: [&str; 5] = ["Durable Streams", "OpenAI Responses", "AI SDK", "AG-UI", "A2A"];

/// Returns the head of a request for the events of a run.
fn request(dialect: &str, log: Uuid, run: Uuid, key: &str) -> String {
    let head = |line: String| format!("{line} HTTP/1.1\r\nHost: rejoin\r\nAuthorization: Bearer {key}\r\n");
    let get = |path: String| format!("{}\r\n", head(format!("GET {path}")));
    match dialect {
        "Durable Streams" => get(format!("/api/durable-streams/runs/{run}?offset=now&live=sse")),
        "OpenAI Responses" => get(format!("/v1/responses/resp_{}?stream=true", run.simple())),
        "AI SDK" => get(format!("/api/ai/chat/{log}/stream")),
        "AG-UI" => get(format!("/api/ag-ui/threads/{log}/events")),
        "A2A" => {
            let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "SubscribeToTask", "params": { "id": run } });
            let call = call.to_string();
            let head = head("POST /api/a2a".to_owned());
            format!(
                "{head}A2A-Version: 1.0\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{call}",
                call.len()
            )
        }
        _ => get(format!("/api/runs/{run}/events")),
    }
}

#[async_trait]
impl Scenario for Dialects {
    fn name(&self) -> &'static str {
        "dialects"
    }

    fn about(&self) -> &'static str {
        "readers of other programs' formats, 20 events/s a run: CPU per delivered event beside native readers"
    }

    fn tables(&self) -> Vec<Table> {
        let [(one, native_one), (many, native_many)] = COLUMNS;
        let lower = |key: &str, title: &str, of| Column::new(key, title, "µs", Better::Lower, of);
        let columns = vec![
            lower(one, "one reader a run: CPU an event", Of::Rejoin).ratio_to(native_one),
            lower(native_one, "a native one", Of::Limit),
            lower(many, "50 readers a run: CPU an event", Of::Rejoin).ratio_to(native_many),
            lower(native_many, "a native one", Of::Limit),
        ];
        let ratios = COLUMNS.map(|(key, _)| Column::new(key, key, "x", Better::Lower, Of::Rejoin));
        vec![
            Table::new(
                "dialects",
                "Readers x 20 events/s a run: the API process",
                "dialect",
                columns,
            ),
            Table::new("ratios", "Relative to native readers", "dialect", ratios.to_vec()),
        ]
    }

    async fn prepare(&self, _size: Size, out: &mut Recorder) -> Result<()> {
        out.note(
            "CPU an event: CPU time of the API process (user and system, with the kernel's work for loopback TCP), over the events that its \
             readers read meanwhile. Native readers are measured right before each dialect",
        );
        Ok(())
    }

    async fn measure(&self, context: &Context, out: &mut Recorder) -> Result<()> {
        for dialect in DIALECTS {
            for (crowd, (column, native_column)) in crowds(context.size).into_iter().zip(COLUMNS) {
                let native = cpu_us(context, NATIVE, crowd, out).await?;
                let cpu = cpu_us(context, dialect, crowd, out).await?;
                out.record("dialects", dialect, native_column, native);
                out.record("dialects", dialect, column, cpu);
                out.record("ratios", dialect, column, cpu / native);
            }
        }
        Ok(())
    }

    fn claims(&self, found: &Recorder) -> Vec<Claim> {
        let claims = DIALECTS.iter().flat_map(|dialect| {
            COLUMNS.map(|(column, _)| Claim {
                what: format!(
                    "{dialect}, {} a run: CPU per delivered event relative to a native reader",
                    if column == "one" { "one reader" } else { "50 readers" }
                ),
                unit: "x".to_owned(),
                bound: BOUND,
                better: Better::Lower,
                values: found.table("ratios").values(dialect, column).to_vec(),
                why_not: None,
            })
        });
        claims.collect()
    }
}

/// Gives each run the event with which a worker begins.
async fn add_meta(database: &Database, runs: &[(Uuid, Uuid)]) -> Result<()> {
    let (logs, runs): (Vec<Uuid>, Vec<Uuid>) = runs.iter().copied().unzip();
    let sql = "select count(stream.append(t.log_id, t.run_id, array['meta'], array[
                   json_build_object('type', 'meta', 'runId', t.run_id, 'conversationId', t.log_id, 'model', 'openai:bench',
                                     'citations', json_build_array(), 'attempt', 1)::text]))
               from unnest($1::uuid[], $2::uuid[]) t(log_id, run_id)";
    sqlx::query(sql)
        .bind(logs)
        .bind(runs)
        .execute(&database.db.pool_sqlx)
        .await
        .context("appending the first event")?;
    Ok(())
}

/// Returns the CPU time of the API per event that a reader of the dialect was sent, in µs.
async fn cpu_us(context: &Context, dialect: &str, (readers, runs): Crowd, out: &mut Recorder) -> Result<f64> {
    let database = context.server.database().await?;
    let posted = posted::begin(&database, runs).await?;
    add_meta(&database, &posted).await?;
    context.server.settle().await?;
    let (api, url) = Process::api(&database.url, &ONE_USER_PLAYS_ALL).await?;
    let requests = posted
        .iter()
        .map(|(log, run)| request(dialect, *log, *run, &database.api_key));
    let settings = fleet::Settings {
        readers,
        ..fleet::Settings::of(url.trim_start_matches("http://").parse()?, requests.collect())
    };
    let mut fleet = Part::start(Role::Fleet, &settings).await?;
    let to = producer::Settings::Rejoin {
        database_url: database.url.clone(),
        runs: posted,
    };
    let mut producer = producer::start(&to).await?;
    paced::live(&mut fleet).await?;
    let load = Load {
        logs: runs,
        per_log_per_s: PER_LOG_PER_S,
        readers,
        warm_up: WARM_UP,
        // The system tells CPU time in steps of 10 ms.
        measured: Duration::from_secs(if context.size == Size::Smoke { 1 } else { 8 }),
    };
    let measured = paced::run(&mut producer, &mut fleet, load, &[&|| api.usage()]).await?;
    if let Some(trouble) = measured.trouble() {
        out.note(format!("{dialect}, {} readers: {trouble}", count(readers)));
    }
    let cpu = measured.us_per_event(0);
    drop((fleet, producer));
    drop(api);
    context.server.drop(database).await?;
    Ok(cpu)
}
