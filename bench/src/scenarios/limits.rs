//! `limits`: the limits of the machine and PostgreSQL, to put other figures into perspective.

use std::time::Duration;

use anyhow::Result;
use async_trait::async_trait;

use crate::limits;
use crate::results::{Better, Column, Of, PlotKind, Table};
use crate::scenario::{Context, Recorder, Scenario};

pub struct Limits;

#[async_trait]
impl Scenario for Limits {
    fn name(&self) -> &'static str {
        "limits"
    }

    fn about(&self) -> &'static str {
        "raw limits: disk, commits, COPY, loopback"
    }

    fn tables(&self) -> Vec<Table> {
        let column = Column::new("rate", "rate", "1/s", Better::Higher, Of::Limit);
        let table = Table::new("limits", "Raw limits of this machine", "what", vec![column]);
        vec![table.plot(PlotKind::Bars, &["rate"], true)]
    }

    async fn measure(&self, context: &Context, out: &mut Recorder) -> Result<()> {
        let span = context.sized(Duration::from_secs(1), Duration::from_millis(100));
        let database = context.server.database().await?;
        let rows = context.sized(200_000, 5_000);
        let mut limit = |what: &str, rate: f64| out.record("limits", what, "rate", rate);
        limit("fdatasync of 8 kB", limits::fsyncs_per_s(span).await?);
        limit(
            "one-row insert + commit, one connection",
            limits::commits_per_s(&database, span).await?,
        );
        limit(
            "COPY into a table like the event log, 120 bytes of data",
            limits::copy_rows_per_s(&database, rows, 120).await?,
        );
        limit(
            "loopback round trip of 200 bytes",
            limits::loopback_round_trips_per_s(span).await?,
        );
        context.server.drop(database).await
    }
}
