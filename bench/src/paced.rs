//! One paced load over live readers: warm-up, then a window in which latencies and CPU time count.

use std::time::Duration;

use anyhow::Result;
use tokio::time::sleep;

use crate::fleet::{Live, Report, Window};
use crate::load::now_us;
use crate::part::Part;
use crate::process::Usage;
use crate::producer::{Produced, Schedule};

/// Delay before the first event, for all readers to be notified.
const LEAD: Duration = Duration::from_millis(200);
/// Time after the last event at which unread ones count as missing.
const PATIENCE: Duration = Duration::from_secs(5);
/// Timeout of a part's answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, Copy)]
pub struct Load {
    pub logs: usize,
    pub per_log_per_s: f64,
    /// Reading readers, over all logs.
    pub readers: usize,
    pub warm_up: Duration,
    pub measured: Duration,
}

pub struct Measured {
    pub report: Report,
    pub produced: Produced,
    /// Expected deliveries.
    pub expected: u64,
    pub seconds: f64,
    /// CPU seconds per second of each watched process.
    pub cores: Vec<f64>,
    /// Usage of each watched process at the window's end.
    pub at_end: Vec<Usage>,
}

impl Measured {
    /// CPU time of the `index`th watched process per delivered event, in µs.
    pub fn us_per_event(&self, index: usize) -> f64 {
        self.cores[index] * self.seconds * 1e6 / self.report.meanwhile.max(1) as f64
    }

    /// Returns a note for the tables, if anything went wrong.
    pub fn trouble(&self) -> Option<String> {
        let report = &self.report;
        let missing = self.expected.saturating_sub(report.delivered);
        let said = [
            (
                missing > 0,
                format!("{missing} of {} events were not read within 5 s", self.expected),
            ),
            (report.gaps > 0, format!("{} gaps", report.gaps)),
            (report.lost > 0, format!("{} readers were cut off", report.lost)),
            (
                self.produced.late_p99_ms > 10.0,
                format!("the producer was late (p99 {:.0} ms)", self.produced.late_p99_ms),
            ),
        ];
        let said: Vec<String> = said.into_iter().filter(|(is, _)| *is).map(|(_, what)| what).collect();
        (!said.is_empty()).then(|| said.join("; "))
    }
}

/// Waits until the fleet's readers are live.
pub async fn live(fleet: &mut Part) -> Result<Live> {
    let live: Live = fleet.hear(ANSWER_LIMIT).await?;
    if let Some(failure) = &live.failure {
        anyhow::bail!("{} readers did not come to life: {failure}", live.failed);
    }
    Ok(live)
}

pub async fn run(
    producer: &mut Part,
    fleet: &mut Part,
    load: Load,
    watched: &[&(dyn Fn() -> Result<Usage> + Sync)],
) -> Result<Measured> {
    run_over(producer, std::slice::from_mut(fleet), load, watched).await
}

/// The same with readers in several fleets, the same number in each.
pub async fn run_over(
    producer: &mut Part,
    fleets: &mut [Part],
    load: Load,
    watched: &[&(dyn Fn() -> Result<Usage> + Sync)],
) -> Result<Measured> {
    let begin_us = now_us() + micros(LEAD);
    let per_s = load.per_log_per_s * load.logs as f64;
    let warm_up = (load.warm_up.as_secs_f64() * per_s).round();
    let events = warm_up + (load.measured.as_secs_f64() * per_s).round();
    let schedule = Schedule {
        begin_us,
        per_log_per_s: load.per_log_per_s,
        events: events as u64,
    };
    // The window begins and ends between two events, so that its events are unambiguous.
    let from_us = begin_us + ((warm_up - 0.5) / per_s * 1e6) as u64;
    let to_us = begin_us + ((events - 0.5) / per_s * 1e6) as u64;
    let of_fleet = (events - warm_up) as u64 * (load.readers / fleets.len() / load.logs) as u64;
    let expected = of_fleet * fleets.len() as u64;
    let deadline_us = to_us + micros(PATIENCE);
    let window = Window {
        from_us,
        to_us,
        expected: of_fleet,
        deadline_us,
    };
    for fleet in fleets.iter_mut() {
        fleet.tell(&window).await?;
    }
    producer.tell(&schedule).await?;
    let sample = || watched.iter().map(|usage| usage()).collect::<Result<Vec<Usage>>>();
    sleep(Duration::from_micros(from_us.saturating_sub(now_us()))).await;
    let (first, first_us) = (sample()?, now_us());
    sleep(Duration::from_micros(to_us.saturating_sub(now_us()))).await;
    let (last, last_us) = (sample()?, now_us());
    let mut reports = Vec::new();
    for fleet in fleets.iter_mut() {
        reports.push(fleet.hear::<Report>(ANSWER_LIMIT).await?);
    }
    let report = together(reports);
    let produced: Produced = producer.hear(ANSWER_LIMIT).await?;
    let seconds = (last_us - first_us) as f64 / 1e6;
    let cores = first
        .iter()
        .zip(&last)
        .map(|(first, last)| (last.cpu_us - first.cpu_us) as f64 / 1e6 / seconds);
    Ok(Measured {
        report,
        produced,
        expected,
        seconds,
        cores: cores.collect(),
        at_end: last,
    })
}

/// Sums of all fleets, and the quantiles of the slowest one.
fn together(reports: Vec<Report>) -> Report {
    let mut reports = reports.into_iter();
    let first = reports.next().expect("a load has readers");
    reports.fold(first, |sum, one| Report {
        delivered: sum.delivered + one.delivered,
        meanwhile: sum.meanwhile + one.meanwhile,
        p50_ms: sum.p50_ms.max(one.p50_ms),
        p99_ms: sum.p99_ms.max(one.p99_ms),
        p999_ms: sum.p999_ms.max(one.p999_ms),
        max_ms: sum.max_ms.max(one.max_ms),
        gaps: sum.gaps + one.gaps,
        lost: sum.lost + one.lost,
    })
}

fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}
