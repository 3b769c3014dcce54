//! A database whose disk is full refuses writes, and goes on once there is space.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rejoin_cli::dev::postgres::{PostgresOptions, PrivatePostgres};
use rejoin_tests::app::{AppOptions, TestApp};
use rejoin_tests::support::{self, wait_for};
use reqwest::{Method, StatusCode};
use serde_json::json;
use uuid::Uuid;

use super::overload::refused_for_now;

/// A file system of this size; removed when dropped.
struct SmallDisk(PathBuf);

impl SmallDisk {
    /// None: this machine does not allow it.
    fn mount(size: &str) -> Option<Self> {
        let path = std::env::temp_dir().join(format!("rejoin-disk-{}", Uuid::now_v7().simple()));
        std::fs::create_dir(&path).expect("a folder");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={size},mode=755"), "tmpfs"])
            .arg(&path)
            .stderr(Stdio::null())
            .status();
        if mounted.is_ok_and(|status| status.success()) {
            return Some(Self(path));
        }
        std::fs::remove_dir(&path).expect("it is empty");
        None
    }

    /// Fills it except for the last bytes.
    fn fill(&self) -> PathBuf {
        let path = self.0.join("filler");
        let mut file = std::fs::File::create(&path).expect("a file");
        let block = [0_u8; 4096];
        while std::io::Write::write_all(&mut file, &block).is_ok() {}
        path
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // It may already be unmounted.
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
        let _ = std::fs::remove_dir(&self.0);
    }
}

fn settings(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

#[tokio::test]
async fn a_full_disk_is_a_refusal_that_passes() {
    let Some(disk) = SmallDisk::mount("160m") else {
        rejoin_tests::needs::skip("this machine does not let the test mount a small disk");
        return;
    };
    let options = PostgresOptions {
        extra_settings: settings(&[
            ("min_wal_size", "32MB"),
            ("max_wal_size", "32MB"),
            ("synchronous_commit", "on"),
        ]),
        ephemeral: false,
        durable: false,
        ..PostgresOptions::durable(disk.0.join("pg"))
    };
    let postgres = PrivatePostgres::start(options).await.unwrap();
    assert!(
        postgres.cluster_dir().starts_with(&disk.0),
        "{}",
        postgres.cluster_dir().display()
    );
    let database = support::on_server(&postgres).await;
    let app = TestApp::over(
        database,
        AppOptions {
            workers: 0,
            ..AppOptions::default()
        },
    )
    .await;
    let client = app.client();
    let long = "x".repeat(90_000);
    let post = |n: usize| {
        client
            .request(Method::POST, "/api/chat/stream")
            .header("accept", "application/json")
            .header("idempotency-key", format!("message-{n}"))
            // Incompressible.
            .json(&json!({"message": format!("{n} {}{long}", Uuid::now_v7())}))
            .send()
    };
    assert_eq!(post(0).await.unwrap().status(), StatusCode::ACCEPTED);
    let filler = disk.fill();
    let mut accepted = 1;
    let refusal = loop {
        let response = post(accepted).await.unwrap();
        if response.status() != StatusCode::ACCEPTED {
            break response;
        }
        accepted += 1;
        assert!(accepted < 10_000, "the disk is never full");
    };
    assert_eq!(refused_for_now(refusal).await, "database_unavailable");

    std::fs::remove_file(filler).unwrap();
    // A server that could not write its log has ended: its operator restarts it.
    if postgres.pid().is_none() {
        postgres.restart().await.unwrap();
    }
    wait_for("it to be served again", async || {
        let status = post(accepted).await.ok()?.status();
        (status == StatusCode::ACCEPTED).then_some(())
    })
    .await;
    assert_eq!(client.get("/readyz").await.0, StatusCode::OK);
    let stored: i64 = sqlx::query_scalar("select count(*) from kb.chat_messages")
        .fetch_one(&app.db.pool)
        .await
        .unwrap();
    assert_eq!(
        stored,
        i64::try_from(accepted).unwrap() + 1,
        "what was accepted is there, and nothing else"
    );
    drop(app);
    postgres.stop().await.unwrap();
    drop(disk);
}

/// A check of this file itself: the small disk is in the requested location.
#[test]
fn a_small_disk_is_small() {
    if let Some(disk) = SmallDisk::mount("1m") {
        let filler = disk.fill();
        assert!(filler.metadata().unwrap().len() <= 1024 * 1024);
        assert!(Path::new(&disk.0).exists());
    }
}
