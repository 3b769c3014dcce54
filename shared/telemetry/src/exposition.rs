//! Text in Prometheus' format, for values that are known only when the metrics are asked for: those of the process, of its pools, of the fleet.
//! Called by `recorder`, by the API and by the worker. Unlike a recorder's gauges, such a value leaves nothing behind when its label is gone.

use std::fmt::Write as _;

use crate::catalogue;

/// The use of a pool of database connections.
#[derive(Debug, Clone, Copy)]
pub struct PoolUse {
    /// Its name.
    pub name: &'static str,
    /// Open connections.
    pub open: usize,
    /// Those of them that are idle.
    pub idle: usize,
    /// Maximum number of connections.
    pub max: usize,
    /// Callers that wait for one.
    pub waiting: usize,
}

/// Metrics as text.
#[derive(Debug, Default)]
pub struct Exposition(String);

impl Exposition {
    /// Begins a metric of the catalogue: its help and its type.
    pub fn family(&mut self, name: &'static str) -> Family<'_> {
        let metric = catalogue::find(name);
        debug_assert!(metric.is_some(), "{name} is not in the catalogue");
        if let Some(metric) = metric {
            let (kind, help) = (metric.kind.name(), metric.help);
            self.line(format_args!("# HELP {name} {help}\n# TYPE {name} {kind}\n"));
        }
        Family { text: self, name }
    }

    /// A metric with one value and no labels.
    pub fn value(&mut self, name: &'static str, value: f64) {
        self.family(name).sample(&[], value);
    }

    /// Settings that all processes of an installation need the same values of: their names, and their values here.
    pub fn settings(&mut self, settings: &[(&str, String)]) {
        let mut family = self.family("rejoin_setting_info");
        for (setting, value) in settings {
            family.sample(&[("setting", setting), ("value", value)], 1.0);
        }
    }

    /// The connections of pools.
    pub fn pools(&mut self, pools: &[PoolUse]) {
        let mut connections = self.family("rejoin_database_connections");
        for pool in pools {
            let in_use = pool.open.saturating_sub(pool.idle);
            connections.sample(&[("pool", pool.name), ("state", "idle")], pool.idle as f64);
            connections.sample(&[("pool", pool.name), ("state", "in_use")], in_use as f64);
        }
        let mut max = self.family("rejoin_database_connections_max");
        for pool in pools {
            max.sample(&[("pool", pool.name)], pool.max as f64);
        }
        let mut waiting = self.family("rejoin_database_waiting");
        for pool in pools {
            waiting.sample(&[("pool", pool.name)], pool.waiting as f64);
        }
    }

    pub(crate) fn into_text(self) -> String {
        self.0
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        // Writing to a string does not fail.
        let _ = self.0.write_fmt(line);
    }
}

/// A metric whose values are being written.
pub struct Family<'a> {
    text: &'a mut Exposition,
    name: &'static str,
}

impl Family<'_> {
    /// Adds a value.
    pub fn sample(&mut self, labels: &[(&str, &str)], value: f64) {
        let name = self.name;
        if labels.is_empty() {
            return self.text.line(format_args!("{name} {value}\n"));
        }
        let labels: Vec<String> = labels
            .iter()
            .map(|(label, text)| format!("{label}=\"{}\"", escaped(text)))
            .collect();
        self.text.line(format_args!("{name}{{{}}} {value}\n", labels.join(",")));
    }
}

/// Escapes the value of a label.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metric_has_its_help_its_type_and_its_values() {
        let mut text = Exposition::default();
        text.value("rejoin_draining", 1.0);
        let mut jobs = text.family("rejoin_queue_dead_jobs");
        jobs.sample(&[("queue", "a \"b\"\\\n")], 2.5);
        jobs.sample(&[("queue", "default")], 0.0);
        assert_eq!(
            text.into_text(),
            "# HELP rejoin_draining 1 while the process shuts down\n\
             # TYPE rejoin_draining gauge\n\
             rejoin_draining 1\n\
             # HELP rejoin_queue_dead_jobs Jobs that failed permanently and are kept\n\
             # TYPE rejoin_queue_dead_jobs gauge\n\
             rejoin_queue_dead_jobs{queue=\"a \\\"b\\\"\\\\\\n\"} 2.5\n\
             rejoin_queue_dead_jobs{queue=\"default\"} 0\n"
        );
    }
}
