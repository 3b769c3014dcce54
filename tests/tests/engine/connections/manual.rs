//! The manual's commands for operators of a fleet, as docs/operations/fleet.md and backup.md have them, over real servers and real processes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use rejoin_cli::dev::postgres::{PostgresOptions, PrivatePostgres, binaries};
use rejoin_tests::app::{Process, binary};
use rejoin_tests::client::text;
use rejoin_tests::documents;
use rejoin_tests::model_server::Reply;
use rejoin_tests::needs;
use rejoin_tests::ports::free_address;
use rejoin_tests::support::{self, wait_for};
use tokio::process::Command;

use super::failover::{host, promote, servers, url};
use super::{api, run, without_processes};

const FLEET: &str = "docs/operations/fleet.md";
const BACKUP: &str = "docs/operations/backup.md";

/// The variables of an operator's shell.
type Shell = BTreeMap<&'static str, String>;

/// Executes a block of the manual as it is, and returns what it prints.
async fn execute(block: &str, shell: &Shell) -> String {
    let output = Command::new("bash")
        .args(["-euo", "pipefail", "-c", block])
        .envs(shell)
        .stdin(Stdio::null())
        .output()
        .await
        .expect("bash(1)");
    let said = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(output.status.success(), "{block}\n{said}");
    said
}

/// A PATH with the product, and with these programs of PostgreSQL. None: one is missing.
fn path_with(programs: &[&str]) -> Option<String> {
    let found = binaries::find(None, None, None).expect("server programs");
    let mut folders: Vec<PathBuf> = vec![binary().parent().expect("a folder").to_owned()];
    for program in programs {
        match found.extra_program(program) {
            Ok(file) => folders.push(file.parent().expect("a folder").to_owned()),
            Err(error) => {
                needs::skip(&format!("{error:#}: the commands of the manual are not tried"));
                return None;
            }
        }
    }
    folders.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
    Some(std::env::join_paths(folders).ok()?.to_string_lossy().into_owned())
}

#[tokio::test]
async fn a_fleet_is_run_over_a_failover_by_its_page() {
    let Some((primary, standby, database)) = servers().await else {
        return;
    };
    let Some(path) = path_with(&[]) else { return };
    let app = without_processes(database).await;
    let agent = app.agent("answerer", &[]).await;
    app.model.always("Is it so?", Reply::text("Yes."));
    let both = url(&[host(&primary), host(&standby)]);
    let (of_api, of_worker) = (free_address().to_string(), free_address().to_string());
    let (_api, client) = api(
        &app,
        &[("DATABASE_URL", both.as_str()), ("REJOIN_API_METRICS", of_api.as_str())],
    )
    .await;
    let start_worker = || {
        Process::worker_with(
            &app,
            &[
                ("DATABASE_URL", both.clone()),
                ("REJOIN_WORKER_METRICS", of_worker.clone()),
            ],
        )
    };
    let mut worker = start_worker();
    let shell = Shell::from([
        ("PATH", path),
        ("DATABASE_URL", both.clone()),
        ("REJOIN_DOCTOR_PROCESSES", format!("http://{of_api},http://{of_worker}")),
        ("REJOIN_URL", client.url.clone()),
        ("WORKER_PID", worker.id().to_string()),
    ]);
    let block = |words: &str| documents::block_with(FLEET, "sh", words);
    let said = execute(&block("rejoin migrate status"), &shell).await;
    assert!(said.contains("event_log"), "{said}");
    wait_for("the worker's heartbeat", async || {
        let seen: bool = sqlx::query_scalar("select exists (select from queue.workers)")
            .fetch_one(&app.db.pool)
            .await
            .ok()?;
        let ready = reqwest::get(format!("http://{of_worker}/readyz")).await.ok()?;
        (seen && ready.status().is_success()).then_some(())
    })
    .await;
    let check = documents::blocks(FLEET, "sh")
        .into_iter()
        .find(|block| block.trim() == "rejoin doctor --fleet");
    let said = execute(&check.expect("the check of the fleet"), &shell).await;
    for words in [
        "processes that respond, with the same settings: 2",
        "workers that send heartbeats: 1",
        "standbys: 1, synchronous ones among them: 1",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }

    primary.stop_immediate().await.unwrap();
    promote(&standby).await;
    wait_for("the fleet to find the new primary", async || {
        let ready = reqwest::get(format!("{}/readyz", client.url)).await.ok()?;
        ready.status().is_success().then_some(())
    })
    .await;
    let frames = client.ask(Some(agent), "Is it so?").await;
    assert_eq!(text(&frames), "Yes.");
    wait_for("both to know the new primary", async || {
        for address in [&of_api, &of_worker] {
            let metrics = reqwest::get(format!("http://{address}/metrics")).await.ok()?;
            let text = metrics.text().await.ok()?;
            for line in ["rejoin_wakeups_listening 1", "rejoin_database_up 1"] {
                text.lines().find(|found| *found == line)?;
            }
        }
        Some(())
    })
    .await;
    let said = execute(&block("rejoin queue stats"), &shell).await;
    assert!(said.contains("no standby is connected"), "{said}");

    execute(&block("kill -TERM"), &shell).await;
    assert!(worker.wait().success(), "it hands over, and ends");
    let worker = start_worker();
    let frames = client.ask(Some(agent), "Is it so?").await;
    assert_eq!(text(&frames), "Yes.");
    drop((worker, app));
    standby.stop().await.unwrap();
}

/// A folder of a test; removed when dropped.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        let path = std::env::temp_dir().join(format!("rejoin-manual-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What is left is below the temporary folder.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[tokio::test]
async fn a_backup_is_made_and_tried_by_its_page() {
    let Some(path) = path_with(&["pg_dump", "pg_restore", "psql", "pg_basebackup", "pg_verifybackup"]) else {
        return;
    };
    let (postgres, database) = support::own_server_database().await;
    let empty = PrivatePostgres::start(PostgresOptions::ephemeral())
        .await
        .expect("an empty server");
    run(&database.pool, "create table kept as select 1 as n").await;
    let folder = Folder::new();
    let shell = Shell::from([
        ("PATH", path),
        ("DATABASE_URL", database.url.clone()),
        ("BACKUPS", folder.path().display().to_string()),
        ("NEW", empty.url()),
    ]);
    let blocks = documents::blocks(BACKUP, "sh");
    assert_eq!(blocks.len(), 3, "a dump, a base backup, and their test");
    let mut said = String::new();
    for block in &blocks {
        said = execute(block, &shell).await;
    }
    assert!(said.contains("with row-level security"), "{said}");
    assert!(folder.path().join("base/backup_manifest").is_file());
    let restored = sqlx::PgPool::connect(&empty.url())
        .await
        .expect("the restored database");
    let kept: i32 = sqlx::query_scalar("select n from kept")
        .fetch_one(&restored)
        .await
        .expect("its row");
    assert_eq!(kept, 1);
    restored.close().await;
    drop(database);
    empty.stop().await.unwrap();
    postgres.stop().await.unwrap();
}
