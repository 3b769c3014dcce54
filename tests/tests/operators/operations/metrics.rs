//! Metrics: the API's page with those of the fleet, its own port, and one list of names for the code, the documents, the alerts and the
//! dashboards. `scripts/test-deploy.sh` checks the latter with Prometheus' own tool.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rejoin_telemetry::catalogue::{self, METRICS, Type};
use rejoin_tests::app::{AppOptions, TestApp};
use rejoin_tests::jobs::{add, job};
use rejoin_tests::model_server::Reply;
use rejoin_tests::needs;
use reqwest::StatusCode;

/// Folders of the code that records metrics.
const CODE: [&str; 4] = ["api", "worker", "shared", "extensions"];
/// What precedes the name of a metric in the code.
const RECORDS: [&str; 6] = ["counter!(", "gauge!(", "histogram!(", ".family(", ".value(", "of_each("];
const CATALOGUE: &str = "shared/telemetry/src/catalogue.rs";
const PAGE: &str = "docs/operations/metrics.md";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(name: &str) -> String {
    std::fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Returns the text of all files below a folder whose names end like this.
fn texts(folder: &str, ending: &str) -> Vec<(String, String)> {
    let mut folders = vec![root().join(folder)];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
            let path = entry.expect("an entry").path();
            let name = path.display().to_string();
            if path.is_dir() {
                folders.push(path);
            } else if name.ends_with(ending)
                && let Ok(text) = std::fs::read_to_string(&path)
            {
                found.push((name, text));
            }
        }
    }
    assert!(!found.is_empty(), "no files *{ending} in {folder}");
    found
}

/// Returns the words of a text that begin like a metric's name.
fn names_in(text: &str) -> BTreeSet<String> {
    let is_inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    text.split(|c: char| !is_inner(c) && c != ':')
        .filter(|word| word.starts_with("rejoin_") && word.len() > "rejoin_".len() && !word.contains(':'))
        .map(str::to_owned)
        .collect()
}

/// Whether a series has this name: a metric's, or that of a part of a histogram.
fn is_series(name: &str) -> bool {
    let of_histogram = ["_bucket", "_sum", "_count"].into_iter().any(|part| {
        let metric = name.strip_suffix(part).and_then(catalogue::find);
        metric.is_some_and(|metric| metric.kind == Type::Histogram)
    });
    of_histogram || catalogue::find(name).is_some_and(|metric| metric.kind != Type::Histogram)
}

#[test]
fn the_catalogue_has_exactly_the_metrics_of_the_code() {
    let mut recorded = BTreeSet::new();
    for (file, text) in CODE.iter().flat_map(|folder| texts(folder, ".rs")) {
        if file.ends_with(CATALOGUE) {
            continue;
        }
        for before in RECORDS {
            for rest in text.split(before).skip(1) {
                let Some(rest) = rest.trim_start().strip_prefix('"') else {
                    continue;
                };
                let name = rest.split('"').next().unwrap_or_default();
                if name.starts_with("rejoin_") {
                    assert!(
                        catalogue::find(name).is_some(),
                        "{file} records {name}: it is not in {CATALOGUE}"
                    );
                    recorded.insert(name.to_owned());
                }
            }
        }
    }
    let listed = METRICS.iter().filter(|metric| metric.name.starts_with("rejoin_"));
    let unused: Vec<&str> = listed
        .map(|metric| metric.name)
        .filter(|name| !recorded.contains(*name))
        .collect();
    assert!(unused.is_empty(), "nothing records {unused:?}");
}

#[test]
fn the_page_has_each_metric_with_its_type_and_labels() {
    let page = read(PAGE);
    for metric in METRICS {
        let row = page
            .lines()
            .find(|line| line.starts_with(&format!("| `{}` |", metric.name)))
            .unwrap_or_else(|| panic!("{PAGE} has no row for {}", metric.name));
        assert!(row.contains(&format!("| {} |", metric.kind.name())), "{row}");
        for label in metric.labels {
            assert!(row.contains(&format!("`{label}`")), "the label {label}: {row}");
        }
    }
    let rows = page
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    for name in rows.filter(|name| name.starts_with("rejoin_") || name.starts_with("process_")) {
        assert!(
            catalogue::find(name).is_some(),
            "{PAGE} has a row for {name}, which does not exist"
        );
    }
}

#[test]
fn alerts_dashboards_and_scalers_name_series_that_exist() {
    let mut count = 0;
    for ending in [".yml", ".yaml", ".json"] {
        for (file, text) in texts("deploy", ending) {
            for name in names_in(&text) {
                // Roles of the database.
                if ["rejoin_app", "rejoin_gate", "rejoin_worker", "rejoin_scaler"].contains(&name.as_str()) {
                    continue;
                }
                assert!(is_series(&name), "{file} names {name}, which does not exist");
                count += 1;
            }
        }
    }
    assert!(count > 40, "only {count} names were found: are they read?");
}

#[tokio::test]
async fn the_api_describes_each_metric_and_counts_the_fleet() {
    let app = TestApp::with(AppOptions {
        workers: 0,
        ..AppOptions::default()
    })
    .await;
    add(&app.db, job("due")).await;
    let text = app.client().metrics().await;
    let mut described = BTreeSet::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').expect("a name and a type");
            let metric = catalogue::find(name).unwrap_or_else(|| panic!("{name} is not in the catalogue"));
            assert_eq!(kind, metric.kind.name(), "{name}");
            assert!(text.contains(&format!("# HELP {name} {}\n", metric.help)), "{name}");
            assert!(described.insert(name.to_owned()), "{name} is there twice");
        }
    }
    for name in ["rejoin_build_info", "process_open_fds", "rejoin_open_streams"] {
        assert!(described.contains(name), "{name}: {described:?}");
    }
    for line in [
        "rejoin_database_up 1",
        "rejoin_draining 0",
        "rejoin_queue_jobs{queue=\"default\",state=\"available\"} 1",
        "rejoin_queue_jobs{queue=\"default\",state=\"running\"} 0",
        "rejoin_queue_dead_jobs{queue=\"default\"} 0",
        "rejoin_workers{state=\"live\"} 0",
        "rejoin_database_connections_max{pool=\"streams\"} ",
        "rejoin_database_waiting{pool=\"queries\"} ",
        "rejoin_database_waiting{pool=\"streams\"} ",
    ] {
        assert!(text.lines().any(|found| found.starts_with(line)), "{line}:\n{text}");
    }
}

/// Returns Prometheus' promtool, if it is here.
fn promtool() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain([root().join(".cache/promtool")]);
    folders
        .map(|folder| folder.join("promtool"))
        .find(|program| program.is_file())
}

#[tokio::test]
async fn promtool_finds_no_fault_in_the_metrics() {
    let Some(promtool) = promtool() else {
        return needs::skip("there is no promtool: scripts/setup-promtool.sh fetches it");
    };
    let app = TestApp::start().await;
    let agent = app.agent("asker", &[]).await;
    app.model.script([Reply::text("Yes.")]);
    app.client().ask(Some(agent), "Is it so?").await;
    let text = app.client().metrics().await;
    for metric in [
        "rejoin_job_wait_seconds_bucket",
        "rejoin_message_first_token_seconds_bucket",
        "rejoin_model_calls_total",
        "rejoin_event_flush_seconds_bucket",
    ] {
        assert!(text.contains(metric), "{metric}:\n{text}");
    }
    let mut check = Command::new(promtool)
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool starts");
    let mut input = check.stdin.take().expect("its input");
    input.write_all(text.as_bytes()).expect("it reads");
    drop(input);
    let output = check.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{said}");
}

#[tokio::test]
async fn metrics_with_their_own_port_are_served_there_only() {
    let app = TestApp::with(AppOptions {
        workers: 0,
        api: |config| config.metrics = Some(SocketAddr::from(([127, 0, 0, 1], 0))),
        ..AppOptions::default()
    })
    .await;
    let operators = app
        .server
        .as_ref()
        .and_then(|server| server.metrics_addr)
        .expect("a port");
    let get = async |address: SocketAddr, path: &str| {
        let response = reqwest::get(format!("http://{address}{path}"))
            .await
            .expect("an answer");
        let status = response.status();
        (status, response.text().await.expect("text"))
    };
    for path in ["/livez", "/readyz"] {
        for address in [app.address, operators] {
            assert_eq!(get(address, path).await.0, StatusCode::OK, "{path}");
        }
    }
    let (status, text) = get(operators, "/metrics").await;
    assert_eq!(status, StatusCode::OK);
    assert!(text.contains("rejoin_build_info{"), "{text}");
    assert_eq!(get(app.address, "/metrics").await.0, StatusCode::NOT_FOUND);
    assert_eq!(get(operators, "/api/me").await.0, StatusCode::NOT_FOUND);
}
