//! Processes of the fleet by their metrics: their versions, settings, clocks, pools and wake-ups. Called by `whole_fleet`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use futures::future::join_all;

use super::{ANSWER_LIMIT, Check, Finding, good, lacking};

/// Maximum number of processes that are asked at a time.
const AT_ONCE: usize = 16;
/// Difference of clocks from which it is reported, in seconds.
const CLOCKS_OFF_S: f64 = 1.0;
/// Maximum number of names in one finding.
const NAMED: usize = 5;

/// The state of a process, by its metrics.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct ProcessState {
    /// The address at which it was asked.
    pub(super) address: String,
    pub(super) version: String,
    /// `api` or `worker`.
    component: String,
    settings: BTreeMap<String, String>,
    /// How far its clock is ahead of this machine's, in seconds.
    clock_ahead_s: Option<f64>,
    /// Maximum number of connections of its pools.
    connections_max: f64,
    /// Callers that wait for a connection.
    waiting: f64,
    /// None: it polls.
    is_listening: Option<bool>,
    reaches_database: bool,
    is_draining: bool,
}

/// One line of metrics: a name, its labels and a value.
struct Sample<'a> {
    name: &'a str,
    labels: BTreeMap<&'a str, &'a str>,
    value: f64,
}

impl<'a> Sample<'a> {
    /// Parses a line. None: a comment, or something else. (Labels that matter here contain no quotes and no commas.)
    fn parse(line: &'a str) -> Option<Self> {
        if line.starts_with('#') {
            return None;
        }
        let (series, value) = line.rsplit_once(' ')?;
        let (name, labels) = series.split_once('{').unwrap_or((series, ""));
        let labels = labels.strip_suffix('}').unwrap_or(labels);
        let label = |pair: &'a str| {
            let (label, text) = pair.split_once('=')?;
            Some((label, text.trim_matches('"')))
        };
        Some(Self {
            name,
            labels: labels.split(',').filter_map(label).collect(),
            value: value.parse().ok()?,
        })
    }

    fn label(&self, name: &str) -> String {
        self.labels.get(name).copied().unwrap_or_default().to_owned()
    }
}

impl ProcessState {
    /// Reads the text of its metrics, which were written when this machine's clock showed `at_s`.
    fn read(address: &str, text: &str, at_s: f64) -> Result<Self> {
        let mut state = Self {
            address: address.to_owned(),
            ..Self::default()
        };
        for sample in text.lines().filter_map(Sample::parse) {
            match sample.name {
                "rejoin_build_info" => {
                    state.version = sample.label("version");
                    state.component = sample.label("component");
                }
                "rejoin_setting_info" => {
                    state.settings.insert(sample.label("setting"), sample.label("value"));
                }
                "rejoin_clock_seconds" => state.clock_ahead_s = Some(sample.value - at_s),
                "rejoin_database_connections_max" => state.connections_max += sample.value,
                "rejoin_database_waiting" => state.waiting += sample.value,
                "rejoin_wakeups_listening" => state.is_listening = Some(sample.value > 0.0),
                "rejoin_database_up" => state.reaches_database = sample.value > 0.0,
                "rejoin_draining" => state.is_draining = sample.value > 0.0,
                _ => {}
            }
        }
        ensure!(
            !state.version.is_empty(),
            "these are not the metrics of a process of Rejoin"
        );
        Ok(state)
    }

    /// Maximum number of its connections to PostgreSQL.
    pub(super) fn connections(&self) -> f64 {
        let listens = self.settings.get("REJOIN_BUS").is_some_and(|bus| bus == "postgres");
        self.connections_max + if listens { 1.0 } else { 0.0 }
    }

    fn name(&self) -> String {
        format!("{} ({})", self.address, self.component)
    }
}

/// This machine's clock, in seconds since the Unix epoch.
pub(super) fn clock_s() -> f64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_secs_f64()
}

/// The URL of a process's metrics.
fn metrics_url(address: &str) -> String {
    let address = address.trim_end_matches('/');
    let with_scheme = if address.contains("://") {
        address.to_owned()
    } else {
        format!("http://{address}")
    };
    if with_scheme.ends_with("/metrics") {
        with_scheme
    } else {
        format!("{with_scheme}/metrics")
    }
}

async fn ask(client: &reqwest::Client, address: &str) -> Result<ProcessState> {
    let began_s = clock_s();
    let response = client.get(metrics_url(address)).send().await?;
    let answered_s = clock_s();
    ensure!(
        response.status().is_success(),
        "it responds with status {}",
        response.status()
    );
    let text = response.text().await.context("reading its metrics failed")?;
    // They were written in between.
    ProcessState::read(address, &text, f64::midpoint(began_s, answered_s))
}

/// Asks processes for their metrics, and reports those that do not respond.
pub(super) async fn ask_all(addresses: &[String]) -> (Vec<ProcessState>, Vec<Finding>) {
    let client = match reqwest::Client::builder().timeout(ANSWER_LIMIT).no_proxy().build() {
        Ok(client) => client,
        Err(error) => {
            let found = format!("processes cannot be asked: {error}");
            return (
                Vec::new(),
                vec![lacking(
                    Check::Fleet,
                    true,
                    found,
                    "check the TLS setup of this machine",
                )],
            );
        }
    };
    let (mut states, mut findings) = (Vec::new(), Vec::new());
    for addresses in addresses.chunks(AT_ONCE) {
        let answers = join_all(addresses.iter().map(|address| ask(&client, address))).await;
        for (address, answer) in addresses.iter().zip(answers) {
            match answer {
                Ok(state) => states.push(state),
                Err(error) => {
                    let found = format!("no metrics of a process at {address}: {}", error.root_cause());
                    let todo = "is it running, and is this its --metrics address (or an API's own, without --metrics)? \
                        docs/operations/metrics.md";
                    findings.push(lacking(Check::Fleet, true, found, todo));
                }
            }
        }
    }
    (states, findings)
}

/// Compares processes with each other, and their clocks with the database's, which is `database_ahead_s` ahead of this machine's.
pub(super) fn compare(states: &[ProcessState], database_ahead_s: Option<f64>) -> Vec<Finding> {
    if states.is_empty() {
        return Vec::new();
    }
    let mut findings = settings(states);
    let affected = |is: fn(&ProcessState) -> bool| {
        let names: Vec<String> = states
            .iter()
            .filter(|state| is(state))
            .map(ProcessState::name)
            .collect();
        (!names.is_empty()).then(|| listed(&names))
    };
    if let Some(names) = affected(|state| !state.reaches_database) {
        let found = format!("the database does not respond to {names}");
        let todo = "look at their logs, their network, and max_connections of PostgreSQL";
        findings.push(lacking(Check::Fleet, true, found, todo));
    }
    if let Some(names) = affected(|state| state.is_listening == Some(false)) {
        let found = format!("wake-ups do not reach {names}: they find changes by polling");
        let todo = "does their connection for LISTEN go through a pooler in transaction mode (docs/operations/poolers.md), \
                    or is NATS unreachable (docs/operations/bus.md)?";
        findings.push(lacking(Check::Fleet, true, found, todo));
    }
    if let Some(names) = affected(|state| state.waiting > 0.0) {
        let found = format!("callers wait for a connection to the database in {names}");
        let todo = "look for slow statements in pg_stat_activity; otherwise raise REJOIN_DB_CONNECTIONS or \
                    REJOIN_DB_HOT_CONNECTIONS, within max_connections";
        findings.push(lacking(Check::Fleet, false, found, todo));
    }
    if let Some(names) = affected(|state| state.is_draining) {
        let found = format!("{names} drain: they hand over their work, and end");
        findings.push(lacking(
            Check::Fleet,
            false,
            found,
            "fine while they are being replaced",
        ));
    }
    if let Some(database_ahead_s) = database_ahead_s {
        findings.extend(clocks(states, database_ahead_s));
    }
    if findings.is_empty() {
        let found = format!("processes that respond, with the same settings: {}", states.len());
        findings.push(good(Check::Fleet, found));
    }
    findings
}

/// Settings of which processes have different values.
fn settings(states: &[ProcessState]) -> Vec<Finding> {
    let mut values: BTreeMap<&str, BTreeMap<&str, Vec<String>>> = BTreeMap::new();
    for state in states {
        for (setting, value) in &state.settings {
            let of_value = values.entry(setting).or_default().entry(value).or_default();
            of_value.push(state.name());
        }
    }
    let differ = values.into_iter().filter(|(_, values)| values.len() > 1);
    differ
        .map(|(setting, values)| {
            let each: Vec<String> = values
                .iter()
                .map(|(value, names)| format!("{value} at {}", listed(names)))
                .collect();
            let found = format!("processes have different values of {setting}: {}", each.join("; "));
            lacking(
                Check::Fleet,
                true,
                found,
                "give all processes of the installation the same value",
            )
        })
        .collect()
}

fn clocks(states: &[ProcessState], database_ahead_s: f64) -> Option<Finding> {
    let off: Vec<String> = states
        .iter()
        .filter_map(|state| {
            let ahead_s = state.clock_ahead_s? - database_ahead_s;
            (ahead_s.abs() > CLOCKS_OFF_S).then(|| format!("{} by {ahead_s:+.1} s", state.name()))
        })
        .collect();
    (!off.is_empty()).then(|| {
        let found = format!("clocks differ from the database's: {}", listed(&off));
        let todo = "set up NTP. Rejoin uses the database's time for leases and schedules, but signed tokens and webhooks \
                    are checked by the process's";
        lacking(Check::Fleet, false, found, todo)
    })
}

/// Reports several versions among processes, with how many have each: those of `versions` are known from elsewhere.
pub(super) fn versions(versions: &[(String, String)]) -> Option<Finding> {
    let distinct: BTreeSet<&str> = versions.iter().map(|(version, _)| version.as_str()).collect();
    (distinct.len() > 1).then(|| {
        let each: Vec<String> = distinct
            .iter()
            .map(|distinct| {
                let names: Vec<String> = versions
                    .iter()
                    .filter(|(version, _)| version == distinct)
                    .map(|(_, name)| name.clone())
                    .collect();
                format!("{distinct} at {}", listed(&names))
            })
            .collect();
        let found = format!("processes have different versions: {}", each.join("; "));
        let todo = "fine during a rolling upgrade; otherwise replace the older ones (docs/operations/fleet.md)";
        lacking(Check::Fleet, false, found, todo)
    })
}

/// The first names, and how many others there are.
pub(super) fn listed(names: &[String]) -> String {
    let mut text = names.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
    if names.len() > NAMED {
        text.push_str(&format!(" and {} others", names.len() - NAMED));
    }
    text
}

/// The versions of these processes, with their names.
pub(super) fn versions_of(states: &[ProcessState]) -> Vec<(String, String)> {
    states
        .iter()
        .map(|state| (state.version.clone(), state.name()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::*;

    const METRICS: &str = "# HELP rejoin_build_info Always 1\n# TYPE rejoin_build_info gauge\n\
        rejoin_build_info{version=\"0.1.0\",component=\"worker\"} 1\n\
        rejoin_setting_info{setting=\"REJOIN_BUS\",value=\"postgres\"} 1\n\
        rejoin_setting_info{setting=\"REJOIN_LEASE_MS\",value=\"15000\"} 1\n\
        rejoin_clock_seconds 1007.5\n\
        rejoin_database_connections_max{pool=\"queries\"} 10\n\
        rejoin_database_connections_max{pool=\"streams\"} 6\n\
        rejoin_database_waiting{pool=\"queries\"} 0\n\
        rejoin_wakeups_listening 1\nrejoin_database_up 1\nrejoin_draining 0\n";

    fn state(change: impl Fn(&str) -> String) -> ProcessState {
        ProcessState::read("w:9464", &change(METRICS), 1000.0).unwrap()
    }

    fn found(states: &[ProcessState]) -> Vec<(Verdict, String)> {
        let findings = compare(states, Some(7.4));
        findings
            .into_iter()
            .map(|finding| (finding.verdict, finding.found))
            .collect()
    }

    #[test]
    fn a_process_is_read_from_its_metrics() {
        let one = state(str::to_owned);
        assert_eq!((one.version.as_str(), one.connections()), ("0.1.0", 17.0));
        assert_eq!((one.clock_ahead_s, one.is_listening), (Some(7.5), Some(true)));
        assert!(ProcessState::read("x", "up 1\n", 0.0).is_err());
        let same = (
            Verdict::Good,
            "processes that respond, with the same settings: 2".to_owned(),
        );
        assert_eq!(found(&[one.clone(), one]), [same]);
    }

    #[test]
    fn what_is_different_or_broken_is_named() {
        let one = state(str::to_owned);
        let polls = state(|text| text.replace("\"postgres\"", "\"poll\""));
        let all = found(&[one.clone(), polls]);
        let [(verdict, text)] = &all[..] else {
            panic!("one finding");
        };
        assert!(
            *verdict == Verdict::Bad && text.contains("REJOIN_BUS: poll at w:9464 (worker); postgres at w:9464"),
            "{text}"
        );
        let broken = state(|text| {
            text.replace("rejoin_wakeups_listening 1", "rejoin_wakeups_listening 0")
                .replace("rejoin_database_up 1", "rejoin_database_up 0")
                .replace("{pool=\"queries\"} 0", "{pool=\"queries\"} 3")
                .replace("rejoin_draining 0", "rejoin_draining 1")
                .replace("1007.5", "1009.5")
        });
        let all = found(&[one, broken]);
        let verdicts: Vec<Verdict> = all.iter().map(|(verdict, _)| *verdict).collect();
        assert_eq!(
            verdicts,
            [Verdict::Bad, Verdict::Bad, Verdict::Note, Verdict::Note, Verdict::Note]
        );
        assert!(all[4].1.contains("w:9464 (worker) by +2.1 s"), "{all:?}");
    }

    #[test]
    fn several_versions_are_named_with_their_processes() {
        let version = |version: &str, name: &str| (version.to_owned(), name.to_owned());
        assert!(versions(&[version("0.1.0", "a"), version("0.1.0", "b")]).is_none());
        let found = versions(&[version("0.1.0", "a"), version("0.2.0", "b")]).unwrap().found;
        assert!(found.ends_with("0.1.0 at a; 0.2.0 at b"), "{found}");
    }
}
