//! Old logs in object storage: a local directory here, which the product treats as any other store.

mod moving;
mod reading;
mod removal;

use std::path::{Path, PathBuf};

use rejoin_archive::{ArchiveArgs, LogArchive, moving as archive};
use rejoin_db::{Db, Role};
use rejoin_tests::app::{AppOptions, TestApp};
use rejoin_tests::client::{Client, Frame};
use rejoin_tests::model_server::Reply;
use serde_json::json;
use sqlx::PgPool;
use url::Url;
use uuid::Uuid;

/// So small that a conversation is several objects.
const OBJECT_BYTES: u64 = 1_500;

/// An app with an archive.
struct Archiving {
    app: TestApp,
    folder: PathBuf,
    archive: LogArchive,
    /// With the role of workers.
    pool: PgPool,
}

impl Archiving {
    async fn start() -> Self {
        Self::with(AppOptions::default()).await
    }

    async fn with(options: AppOptions) -> Self {
        let folder = std::env::temp_dir().join(format!("rejoin-archive-{}", Uuid::now_v7().simple()));
        std::fs::create_dir(&folder).expect("a folder");
        let args = ArchiveArgs {
            archive_url: Url::from_directory_path(&folder).ok(),
            archive_object_bytes: OBJECT_BYTES,
            // What is read twice is read from the store twice.
            archive_cache_bytes: 0,
            archive_after_days: options.archive.archive_after_days,
            ..ArchiveArgs::default()
        };
        let archive = LogArchive::open(&args).expect("settings").expect("an archive");
        let app = TestApp::with(AppOptions {
            archive: args,
            ..options
        })
        .await;
        let db = Db::connect_lazy(&app.db.args(), "rejoin-test-worker", Role::Worker).expect("a readable URL");
        Self {
            app,
            folder,
            archive,
            pool: db.pool_sqlx,
        }
    }

    /// A conversation of three ended turns. Returns its id and the last run's.
    async fn conversation(&self) -> (Uuid, Uuid) {
        let words = |turn: usize| (0..40).map(|i| format!("word{turn}.{i} ")).collect::<String>();
        self.app.model.script([
            Reply::text(words(0)).words_every(1),
            Reply::text(words(1)).words_every(1),
            Reply::text(words(2)).words_every(1),
        ]);
        let client = self.app.client();
        let frames = client.ask(None, "one").await;
        let id = frames[1].json()["conversationId"].as_str().expect("an id").to_owned();
        for message in ["two", "three"] {
            client.chat(json!({"message": message, "conversationId": id})).await;
        }
        self.app.wait_until_idle().await;
        let id: Uuid = id.parse().expect("an id");
        let last_run = "select id from kb.agent_runs where log_id = $1 order by first_seq desc limit 1";
        let run = sqlx::query_scalar(last_run).bind(id).fetch_one(&self.app.db.pool).await;
        (id, run.expect("a run"))
    }

    /// Archives all logs whose last run has ended. Returns the number of events.
    async fn archive_all(&self) -> u64 {
        let (mut events, process) = (0, Uuid::now_v7());
        loop {
            let some = archive::archive_next(&self.pool, &self.archive, 0.0, process)
                .await
                .expect("archiving works");
            events += some.events;
            if !some.more {
                return events;
            }
        }
    }

    async fn count(&self, sql: &'static str) -> i64 {
        sqlx::query_scalar(sql)
            .fetch_one(&self.app.db.pool)
            .await
            .expect("a count")
    }

    /// The numbers of the first and last events, and the names, of a log's objects.
    async fn parts(&self, log_id: Uuid) -> Vec<(i64, i64, String)> {
        let sql = "select first_seq, last_seq, name from stream.archives where log_id = $1 order by last_seq";
        sqlx::query_as(sql)
            .bind(log_id)
            .fetch_all(&self.app.db.pool)
            .await
            .expect("the parts")
    }

    /// The paths of all objects in the store.
    fn objects(&self) -> Vec<PathBuf> {
        files(&self.folder)
    }
}

impl Drop for Archiving {
    fn drop(&mut self) {
        // A folder that is left does no harm.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// Reads a conversation from a cursor to the event `last`.
async fn read_through(client: &Client, id: Uuid, cursor: i64, last: i64) -> Vec<Frame> {
    let path = format!("/api/conversations/{id}/events");
    let mut reader = client.stream_after(&path, cursor).await;
    let mut frames = Vec::new();
    let mut at = cursor;
    while at < last {
        let frame = reader.next_event().await.expect("the stream goes on");
        at = frame.id.expect("a number");
        frames.push(frame);
    }
    frames
}

/// The number of a log's newest event.
async fn end(archiving: &Archiving, id: Uuid) -> i64 {
    sqlx::query_scalar("select last_seq from stream.log_ends where log_id = $1")
        .bind(id)
        .fetch_one(&archiving.app.db.pool)
        .await
        .expect("the log")
}
