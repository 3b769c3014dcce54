//! Writes events like a worker: one event writer for all runs of the process, with the product's own settings: REJOIN_FLUSH_MS of
//! the environment, or its default.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use rejoin_db::config::DatabaseArgs;
use rejoin_db::{Db, Role};
use rejoin_event_log::EventWriter;
use rejoin_event_log::group_commit::WriterOptions;
use rejoin_event_log::stream::RunStream;
use rejoin_event_log::wakeup;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::Due;

pub(super) struct Sink {
    writer: EventWriter,
    streams: Vec<Arc<RunStream>>,
}

impl Sink {
    /// `runs`: log and run of each, claimed once.
    pub(super) async fn open(args: &DatabaseArgs, runs: &[(Uuid, Uuid)]) -> Result<Self> {
        let db = Db::connect_lazy(args, "rejoin-bench", Role::Login)?;
        let bus = wakeup::start(args, &db).await?;
        let streams = runs.iter().map(|&(log_id, run_id)| {
            Arc::new(RunStream {
                log_id,
                root_run_id: run_id,
                run_id,
                attempt: 1,
                lost: CancellationToken::new(),
                seen: Default::default(),
            })
        });
        Ok(Self {
            streams: streams.collect(),
            writer: EventWriter::start(db, bus, options()?),
        })
    }

    pub(super) fn logs(&self) -> usize {
        self.streams.len()
    }

    pub(super) async fn put(&mut self, due: &[Due]) -> Result<()> {
        for due in due {
            let stream = &self.streams[due.log];
            self.writer.append(stream, &due.event(stream.run_id)).await?;
        }
        Ok(())
    }

    pub(super) async fn finish(&mut self) -> Result<()> {
        for stream in &self.streams {
            self.writer.flush(stream).await?;
        }
        Ok(())
    }
}

fn options() -> Result<WriterOptions> {
    let mut options = WriterOptions::default();
    if let Ok(ms) = std::env::var("REJOIN_FLUSH_MS") {
        let ms = ms.parse().with_context(|| format!("REJOIN_FLUSH_MS={ms}"))?;
        options.flush_interval = Duration::from_millis(ms);
    }
    Ok(options)
}
