//! `rejoin doctor --fleet`: what it finds of processes by their metrics, of workers and of the server in the database.

use std::process::Stdio;

use rejoin_tests::app::{AppOptions, Process, TestApp, binary};
use rejoin_tests::support::wait_for;
use serde_json::Value;
use tokio::process::Command;

/// Whether it is content, and its findings: their verdicts and what was found.
async fn doctor(app: &TestApp, processes: &[&str]) -> (bool, Vec<(String, String)>) {
    let output = Command::new(binary())
        .args(["doctor", "--fleet", "--json"])
        .env("DATABASE_URL", &app.db.url)
        .env("REJOIN_DOCTOR_PROCESSES", processes.join(","))
        .stdin(Stdio::null())
        .output()
        .await
        .expect("it runs");
    let findings = String::from_utf8(output.stdout).expect("text");
    let findings = findings.lines().map(|line| {
        let finding: Value = serde_json::from_str(line).expect("a finding on each line");
        let text = |field: &str| finding[field].as_str().expect("text").to_owned();
        (text("verdict"), text("found"))
    });
    (output.status.success(), findings.collect())
}

/// Returns the verdict on the finding with these words.
fn verdict<'a>(findings: &'a [(String, String)], words: &str) -> &'a str {
    let found = findings.iter().find(|(_, found)| found.contains(words));
    &found.unwrap_or_else(|| panic!("{words}: {findings:#?}")).0
}

#[tokio::test]
async fn doctor_compares_the_processes_of_a_fleet() {
    let app = TestApp::with(AppOptions {
        workers: 0,
        ..AppOptions::default()
    })
    .await;
    let (healthy, findings) = doctor(&app, &[&app.url()]).await;
    assert!(!healthy);
    assert_eq!(verdict(&findings, "no worker is live"), "bad");
    let worker = Process::worker(&app);
    wait_for("a fleet without a fault", async || {
        doctor(&app, &[&app.url()]).await.0.then_some(())
    })
    .await;
    let (_, findings) = doctor(&app, &[&app.url()]).await;
    for words in [
        "processes that respond, with the same settings: 1",
        "workers that send heartbeats: 1",
        "the pools of 1 processes may open",
        "notifications arrive at the connections of DATABASE_URL",
        "migrations are applied",
    ] {
        assert_eq!(verdict(&findings, words), "good", "{words}");
    }
    assert_eq!(verdict(&findings, "no standby is connected"), "note");

    // An address without a process, a worker of another version, and one that is silent.
    sqlx::query(
        "insert into queue.workers (id, hostname, pid, version, queues, slots, seen_at)
         values (gen_random_uuid(), 'older', 7, '0.0.1', '{default}', 1, now() + interval '10 s'),
                (gen_random_uuid(), 'quiet', 8, '0.0.1', '{default}', 1, now() - interval '16 s')",
    )
    .execute(&app.db.pool)
    .await
    .expect("two rows");
    let (healthy, findings) = doctor(&app, &[&app.url(), "127.0.0.1:1"]).await;
    assert!(!healthy);
    assert_eq!(verdict(&findings, "no metrics of a process at 127.0.0.1:1"), "bad");
    assert_eq!(verdict(&findings, "the worker on quiet (pid 8)"), "bad");
    let versions = "processes have different versions: 0.0.1 at the worker on older (pid 7); ";
    assert_eq!(verdict(&findings, versions), "note");
    drop(worker);
}
