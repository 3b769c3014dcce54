//! The metrics recorder of a process, and the text that Prometheus reads. Installed by the API, and by a worker that serves metrics; without it,
//! recording costs next to nothing.

use std::sync::OnceLock;

use metrics::{counter, describe_counter, describe_gauge, describe_histogram, gauge};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};

use crate::catalogue::{METRICS, Process, Type};
use crate::exposition::Exposition;
use crate::process;

/// The media type of the text.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Upper bounds of the buckets of all histograms, in seconds: from a commit of events to a run of some minutes.
const BUCKETS_S: [f64; 16] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0,
];

/// The recorder of this process. Cheap to clone.
#[derive(Clone)]
pub struct Recorder {
    handle: PrometheusHandle,
    process: Process,
}

/// Installs the recorder, once: an API and a worker may run in one process, as in tests.
pub fn install(process: Process) -> Recorder {
    static HANDLE: OnceLock<PrometheusHandle> = OnceLock::new();
    let handle = HANDLE.get_or_init(|| {
        process::start();
        let builder = PrometheusBuilder::new();
        // Refused only without buckets.
        let recorder = match builder.set_buckets(&BUCKETS_S) {
            Ok(builder) => builder.build_recorder(),
            Err(_) => PrometheusBuilder::new().build_recorder(),
        };
        let handle = recorder.handle();
        // Another recorder is installed: ours stays empty.
        if metrics::set_global_recorder(recorder).is_err() {
            tracing::debug!("another metrics recorder is installed; most metrics are missing");
        }
        describe();
        handle
    });
    register(process);
    Recorder {
        handle: handle.clone(),
        process,
    }
}

fn describe() {
    for metric in METRICS {
        match metric.kind {
            Type::Counter => describe_counter!(metric.name, metric.help),
            Type::Gauge => describe_gauge!(metric.name, metric.help),
            Type::Histogram => describe_histogram!(metric.name, metric.help),
        }
    }
}

/// Exports the metrics of this kind of process that have no labels with 0, so that their first increase is seen.
fn register(process: Process) {
    let own = METRICS
        .iter()
        .filter(|metric| metric.labels.is_empty() && metric.processes.contains(&process));
    for metric in own.filter(|metric| !is_written(metric.name)) {
        match metric.kind {
            Type::Counter => counter!(metric.name).increment(0),
            Type::Gauge => gauge!(metric.name).increment(0.0),
            Type::Histogram => {}
        }
    }
}

/// Whether a metric's value is written when it is asked for, rather than recorded.
fn is_written(name: &str) -> bool {
    const WRITTEN: [&str; 9] = [
        "rejoin_clock_seconds",
        "rejoin_draining",
        "rejoin_database_up",
        "rejoin_wakeups_listening",
        "rejoin_workers_slots",
        "rejoin_worker_slots",
        "rejoin_queue_read_seconds",
        "rejoin_build_info",
        "rejoin_placements_age_seconds",
    ];
    name.starts_with("process_") || WRITTEN.contains(&name)
}

impl Recorder {
    /// Returns everything that was recorded, what is read now, and `more`.
    pub fn render(&self, mut more: Exposition) -> String {
        let labels = [
            ("version", env!("CARGO_PKG_VERSION")),
            ("component", self.process.name()),
        ];
        more.family("rejoin_build_info").sample(&labels, 1.0);
        more.value("rejoin_clock_seconds", process::clock_s());
        process::write(&mut more);
        let mut text = self.handle.render();
        text.push_str(&more.into_text());
        text
    }

    /// Sorts recorded values into their buckets. Called regularly: otherwise they gather until the next scrape.
    pub fn run_upkeep(&self) {
        self.handle.run_upkeep();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_and_help_texts_follow_the_conventions() {
        let names: BTreeSet<&str> = METRICS.iter().map(|metric| metric.name).collect();
        assert_eq!(names.len(), METRICS.len(), "a name is there twice");
        for metric in METRICS {
            assert_eq!(
                metric.name.ends_with("_total"),
                metric.kind == Type::Counter,
                "{}",
                metric.name
            );
            assert!(
                metric.kind != Type::Histogram || metric.name.ends_with("_seconds"),
                "{}",
                metric.name
            );
            assert!(
                !metric.help.is_empty() && !metric.help.ends_with('.'),
                "{}",
                metric.name
            );
        }
    }
}
