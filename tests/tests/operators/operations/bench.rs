//! The benchmarks work: each scenario runs at its smallest size, without peers, and its results can be reported and
//! compared. Speed is not asserted.

use std::path::Path;
use std::process::Command;

use rejoin_tests::app::bench_binary;
use serde_json::Value;

/// Scenarios that run at once: at their smallest size, most of each is waiting.
const AT_ONCE: usize = 4;

#[test]
fn every_benchmark_scenario_runs_and_is_reported() {
    let folder = std::env::temp_dir().join(format!("rejoin-bench-smoke-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let results = folder.join("results.json");
    let listed = said(Command::new(bench_binary()).arg("list"));
    let names: Vec<&str> = listed
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert!(!names.is_empty(), "{listed}");
    let said_by_run = run_all(&names, &folder, &results);
    said(
        Command::new(bench_binary())
            .arg("report")
            .arg(&results)
            .arg("--docs")
            .arg(&folder),
    );
    said(Command::new(bench_binary()).arg("compare").arg(&results).arg(&results));

    let measured: Value = serde_json::from_slice(&std::fs::read(&results).expect("results")).expect("JSON");
    let page = std::fs::read_to_string(folder.join("performance.md")).expect("the report");
    std::fs::remove_dir_all(&folder).expect("a folder of ours");
    for name in names {
        let tables = measured["scenarios"][name]["tables"].as_array();
        let tables = tables.unwrap_or_else(|| panic!("{name} left no result: {said_by_run}"));
        assert!(page.contains(&format!("\n## {name}\n")), "{name} is not in the report");
        // A scenario that only compares peers has nothing to show without them.
        for row in tables.iter().flat_map(|table| table["rows"].as_array().expect("rows")) {
            let cells = row["cells"].as_object().expect("cells");
            assert!(!cells.is_empty(), "{name}: {row}");
            for value in cells.values().flat_map(|values| values.as_array().expect("values")) {
                assert!(value.as_f64().is_some_and(f64::is_finite), "{name}: {row}");
            }
        }
    }
}

/// Runs these scenarios, some at once, and puts all results into one file. Returns what the runs have printed.
fn run_all(names: &[&str], folder: &Path, results: &Path) -> String {
    let parts: Vec<_> = (0..AT_ONCE).map(|part| folder.join(format!("{part}.json"))).collect();
    let printed = std::thread::scope(|scope| {
        let runs: Vec<_> = parts
            .iter()
            .enumerate()
            .map(|(part, out)| {
                let mut run = Command::new(bench_binary());
                run.args(["run", "--size", "smoke", "--no-peers", "--out"]).arg(out);
                run.args(names.iter().skip(part).step_by(AT_ONCE));
                scope.spawn(move || said(&mut run))
            })
            .collect();
        let printed = runs.into_iter().map(|run| run.join().expect("scenarios that run"));
        printed.collect::<Vec<_>>().join("\n")
    });
    let read = |part: &std::path::PathBuf| -> Value {
        serde_json::from_slice(&std::fs::read(part).expect("results")).expect("JSON")
    };
    let mut whole = read(&parts[0]);
    for part in &parts[1..] {
        let mut more = read(part);
        let scenarios = more["scenarios"].as_object_mut().expect("scenarios");
        whole["scenarios"].as_object_mut().expect("scenarios").append(scenarios);
    }
    std::fs::write(results, whole.to_string()).expect("the results are written");
    printed
}

#[test]
fn the_capacity_report_is_what_its_inputs_give() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let folder = std::env::temp_dir().join(format!("rejoin-bench-capacity-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let mut capacity = Command::new(bench_binary());
    capacity.current_dir(&root).args(["capacity", "--docs"]).arg(&folder);
    said(&mut capacity);
    let page = std::fs::read_to_string(folder.join("capacity.md")).expect("the report");
    std::fs::remove_dir_all(&folder).expect("a folder of ours");
    let written = root.join("docs/reports/capacity.md");
    if std::env::var("INSTA_UPDATE").is_ok_and(|update| update == "always") {
        std::fs::write(written, page).expect("the page is written");
    } else {
        let text = std::fs::read_to_string(written).expect("the page");
        assert!(
            text == page,
            "docs/reports/capacity.md is out of date: run this test with INSTA_UPDATE=always"
        );
    }
}

/// Returns the output of a program, which must succeed.
fn said(command: &mut Command) -> String {
    let output = command.output().expect("the program starts");
    let text = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(output.status.success(), "{command:?}: {text}");
    text
}
