//! `idle`: memory and CPU of an idle API and worker, and the start time of `rejoin dev`.

use std::io::BufRead as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use async_trait::async_trait;

use crate::process::{self, Usage};
use crate::product::Fleet;
use crate::results::{Better, Claim, Column, Of, PlotKind, Table};
use crate::scenario::{Context, Recorder, Scenario};

pub struct Idle;

const REST: &str = "rest";
const START: &str = "start";
const ALONE: &str = "no readers";
const FIRST_START: &str = "first start, in an empty folder";
const NEXT_START: &str = "next start";
/// Number of streams in the second row.
const READERS: usize = 100;

#[async_trait]
impl Scenario for Idle {
    fn name(&self) -> &'static str {
        "idle"
    }

    fn about(&self) -> &'static str {
        "idle memory and CPU of API and worker, and the startup time of `rejoin dev`"
    }

    fn tables(&self) -> Vec<Table> {
        let column = |key: &str, title: &str, unit: &str| Column::new(key, title, unit, Better::Lower, Of::Rejoin);
        let rest = vec![
            column("memory", "API + worker", "MB"),
            column("api_memory", "API", "MB"),
            column("worker_memory", "worker", "MB"),
            column("own_memory", "of both: their own", "MB"),
            column("cpu", "API + worker", "% of a core"),
            column("api_cpu", "API", "% of a core"),
            column("worker_cpu", "worker", "% of a core"),
            Column::new("postgres_cpu", "PostgreSQL", "% of a core", Better::Lower, Of::Rejoin),
        ];
        let start = vec![
            column("ready", "ready after", "s"),
            column("stop", "gone after SIGTERM", "s"),
        ];
        vec![
            Table::new(REST, "At rest", "state", rest).plot(
                PlotKind::Bars,
                &["memory", "api_memory", "worker_memory"],
                false,
            ),
            Table::new(START, "`rejoin dev`: PostgreSQL, API, worker, demo", "start", start),
        ]
    }

    async fn measure(&self, context: &Context, out: &mut Recorder) -> Result<()> {
        let fleet = Fleet::start(context, &[]).await?;
        let settle = context.sized(Duration::from_secs(2), Duration::from_millis(200));
        let span = context.sized(Duration::from_secs(6), Duration::from_millis(500));
        tokio::time::sleep(settle).await;
        rest(context, &fleet, ALONE, span, out).await?;
        let readers = open_streams(&fleet).await?;
        tokio::time::sleep(settle).await;
        rest(
            context,
            &fleet,
            &format!("{READERS} readers of a silent conversation"),
            span,
            out,
        )
        .await?;
        drop(readers);
        fleet.stop(context).await?;

        let folder = std::env::temp_dir().join(format!("rejoin-bench-dev-{}-{}", std::process::id(), context.rep));
        let started = tokio::task::spawn_blocking({
            let folder = folder.clone();
            move || Ok::<_, anyhow::Error>([dev(&folder)?, dev(&folder)?])
        });
        let [first, next] = started.await??;
        std::fs::remove_dir_all(&folder).with_context(|| format!("removing {}", folder.display()))?;
        for (row, (ready, stop)) in [(FIRST_START, first), (NEXT_START, next)] {
            out.record(START, row, "ready", ready.as_secs_f64());
            out.record(START, row, "stop", stop.as_secs_f64());
        }
        out.note(format!(
            "CPU over {} s; memory is the resident set size (RSS) at their end. Their own: without pages of files, most of which are of the program, the same for \
             both.",
            span.as_secs()
        ));
        out.note(
            "`rejoin dev --json`, from the start of the process to the line that reports readiness. The first \
                  start initializes PostgreSQL, migrates, and imports the demo graph.",
        );
        Ok(())
    }

    fn claims(&self, found: &Recorder) -> Vec<Claim> {
        let claim = |what: &str, unit: &str, bound: f64, values: &[f64]| Claim {
            what: what.to_owned(),
            unit: unit.to_owned(),
            bound,
            better: Better::Lower,
            values: values.to_vec(),
            why_not: None,
        };
        let (rest, start) = (found.table(REST), found.table(START));
        vec![
            claim("idle API and worker: memory", "MB", 60.0, rest.values(ALONE, "memory")).unless(format!(
                "{} MB of it are the processes' own. The rest are pages of the program's file, counted for each process: they share them, and \
                 the kernel drops them if it needs the memory.",
                rest.cell_text(ALONE, "own_memory")
            )),
            claim(
                "idle API and worker: CPU",
                "% of a core",
                1.0,
                rest.values(ALONE, "cpu"),
            ),
            claim(
                "`rejoin dev`, after its first start: ready",
                "s",
                3.0,
                start.values(NEXT_START, "ready"),
            ),
        ]
    }
}

/// One row: CPU time over the period, memory at its end.
async fn rest(context: &Context, fleet: &Fleet, row: &str, span: Duration, out: &mut Recorder) -> Result<()> {
    let look = || -> Result<[Usage; 3]> {
        let postgres = context.server.pid().context("PostgreSQL runs")?;
        Ok([
            fleet.apis[0].usage()?,
            fleet.workers[0].usage()?,
            process::tree_usage(postgres)?,
        ])
    };
    let (before, began) = (look()?, Instant::now());
    tokio::time::sleep(span).await;
    let (after, took_us) = (look()?, began.elapsed().as_micros() as f64);
    let cpu = |index: usize| after[index].cpu_us.saturating_sub(before[index].cpu_us) as f64 / took_us * 100.0;
    let memory = |index: usize| after[index].rss_bytes as f64 / 1_000_000.0;
    out.record(REST, row, "memory", memory(0) + memory(1));
    out.record(REST, row, "api_memory", memory(0));
    out.record(REST, row, "worker_memory", memory(1));
    let own = process::own_memory_bytes(fleet.apis[0].pid())? + process::own_memory_bytes(fleet.workers[0].pid())?;
    out.record(REST, row, "own_memory", own as f64 / 1_000_000.0);
    out.record(REST, row, "cpu", cpu(0) + cpu(1));
    out.record(REST, row, "api_cpu", cpu(0));
    out.record(REST, row, "worker_cpu", cpu(1));
    out.record(REST, row, "postgres_cpu", cpu(2));
    Ok(())
}

/// Readers of one conversation; their streams end when dropped.
async fn open_streams(fleet: &Fleet) -> Result<Vec<reqwest::Response>> {
    let client = reqwest::Client::new();
    let conversation: serde_json::Value = client
        .post(format!("{}/api/conversations", fleet.urls[0]))
        .bearer_auth(&fleet.database.api_key)
        .json(&serde_json::json!({"title": "silent"}))
        .send()
        .await?
        .error_for_status()?
        .json()
        .await?;
    let id = conversation["id"].as_str().context("a conversation has an id")?;
    let mut streams = Vec::with_capacity(READERS);
    for _ in 0..READERS {
        let request = client.get(format!("{}/api/conversations/{id}/events", fleet.urls[0]));
        streams.push(
            request
                .bearer_auth(&fleet.database.api_key)
                .send()
                .await?
                .error_for_status()?,
        );
    }
    Ok(streams)
}

/// Time of `rejoin dev` until it is ready, and until it has ended after SIGTERM.
fn dev(folder: &Path) -> Result<(Duration, Duration)> {
    let began = Instant::now();
    let mut command = Command::new(process::rejoin()?);
    command.args(["dev", "--json", "--port", "0", "--data-dir"]).arg(folder);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .env_remove("DATABASE_URL");
    let mut dev = Killed(command.spawn().context("starting rejoin dev")?);
    let stdout = dev.0.stdout.take().context("its output")?;
    let mut line = String::new();
    std::io::BufReader::new(stdout).read_line(&mut line)?;
    if !line.starts_with('{') {
        bail!("rejoin dev did not become ready");
    }
    let ready = began.elapsed();
    let began = Instant::now();
    Command::new("kill").args(["-TERM", &dev.0.id().to_string()]).status()?;
    dev.0.wait()?;
    Ok((ready, began.elapsed()))
}

/// Killed when dropped; its own watchdog ends its children.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
