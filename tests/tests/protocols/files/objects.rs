//! Files in an object store: Ceph's gateway, a real S3 server, from the packages of `scripts/setup-object-store.sh`.
//!
//! All tests of this file share one server. Objects are named after projects, and each test has its own project.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use futures::stream;
use rejoin_files::objects::{self, ObjectStore, ObjectStoreArgs, ObjectStoreError, SweepError};
use rejoin_files::{FileStore, FilesArgs, Produced};
use rejoin_tests::app::{AppOptions, TestApp};
use rejoin_tests::client::{Client, answer, text};
use rejoin_tests::model_server::Reply;
use rejoin_tests::object_store::{self, ObjectServer};
use rejoin_tests::support::wait_for;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use sqlx::PgPool;
use uuid::Uuid;

use rejoin_tests::files::{content, decoded, parts, png, stored, upload, wav};

/// More than two parts of a multipart upload.
const LARGE_BYTES: usize = 15_000_000;

fn args(endpoint: &str) -> ObjectStoreArgs {
    ObjectStoreArgs {
        files_url: format!("s3://{}/kept/here", object_store::BUCKET).parse().ok(),
        files_endpoint: endpoint.parse().ok(),
        files_access_key_id: Some(object_store::ACCESS_KEY.to_owned()),
        files_secret_access_key: object_store::SECRET_KEY.parse().ok(),
        ..ObjectStoreArgs::default()
    }
}

pub(super) async fn app(endpoint: &str) -> TestApp {
    TestApp::with(AppOptions {
        object_store: args(endpoint),
        worker: rejoin_tests::files::patient,
        ..AppOptions::default()
    })
    .await
}

/// Returns the app's objects, and unfinished uploads.
async fn kept(server: &ObjectServer, app: &TestApp) -> (Vec<String>, Vec<String>) {
    let of_project = format!("kept/here/{}/", app.db.workspace_id);
    let mut uploads = server.uploads().await;
    uploads.retain(|key| key.starts_with(&of_project));
    (server.keys(&of_project).await, uploads)
}

/// Runs the workers' maintenance; `at_once`: including uploads that may still be active.
async fn sweep(app: &TestApp, endpoint: &str, at_once: bool) {
    if at_once {
        let due = "update kb.file_objects_left set due_at = now()";
        sqlx::query(due).execute(&app.db.pool).await.expect("they are due");
    }
    let store = ObjectStore::of(&args(endpoint)).expect("settings").expect("a store");
    while objects::sweep(&app.db.pool, Some(&store)).await.expect("a sweep") {}
}

pub(super) async fn count(pool: &PgPool, table: &'static str) -> i64 {
    let sql = sqlx::AssertSqlSafe(format!("select count(*) from {table}"));
    sqlx::query_scalar(sql).fetch_one(pool).await.expect("a count")
}

#[tokio::test]
async fn files_in_an_object_store_come_back_byte_for_byte() {
    let Some(server) = ObjectServer::shared().await else {
        return;
    };
    let app = app(&server.endpoint).await;
    let client = app.client();
    let agent = app.agent("seer", &[]).await;
    let (small, large) = (png(), wav(LARGE_BYTES));
    let ids = [
        stored(&client, "photo.png", small.clone()).await,
        stored(&client, "talk.wav", large.clone()).await,
    ];
    assert_eq!(
        count(&app.db.pool, "kb.file_chunks").await,
        0,
        "PostgreSQL has no content"
    );
    let (keys, uploads) = kept(server, &app).await;
    let mut expected: Vec<String> = ids
        .iter()
        .map(|id| format!("kept/here/{}/{id}", app.db.workspace_id))
        .collect();
    expected.sort();
    assert_eq!(keys, expected);
    assert_eq!(uploads, Vec::<String>::new());
    assert!(server.get(&expected[0]).await == small || server.get(&expected[0]).await == large);
    assert!(content(&client, &ids[0]).await == small);
    assert!(content(&client, &ids[1]).await == large);
    let range = client
        .request(Method::GET, &format!("/api/files/{}/content", ids[1]))
        .header("range", "bytes=786000-7000000");
    let response = range.send().await.expect("an answer");
    assert_eq!(response.status(), StatusCode::PARTIAL_CONTENT);
    assert!(response.bytes().await.expect("a body")[..] == large[786_000..=7_000_000]);

    let attachments: Vec<Value> = ids.iter().map(|id| json!({ "fileId": id })).collect();
    app.model.script([Reply::text("A pixel and a noise.")]);
    let body = json!({"message": "What are these?", "agentDefinitionId": agent, "attachments": attachments});
    let frames = client.chat(body).await;
    assert_eq!(text(&frames), "A pixel and a noise.");
    let parts = parts(&app);
    assert!(
        decoded(&parts[2]) == small && decoded(&parts[4]) == large,
        "the model is given them"
    );
    assert_eq!(app.model.violations(), Vec::<String>::new());
}

#[tokio::test]
async fn what_is_deleted_is_removed_from_the_object_store() {
    let Some(server) = ObjectServer::shared().await else {
        return;
    };
    let app = app(&server.endpoint).await;
    let client = app.client();
    let deleted = stored(&client, "deleted.txt", b"deleted".to_vec()).await;
    let named = stored(&client, "named.txt", b"named".to_vec()).await;
    let left = stored(&client, "left.txt", b"left".to_vec()).await;
    client
        .post_message(json!({"message": "x", "attachments": [{"fileId": named}]}))
        .await;
    app.wait_until_idle().await;
    for id in [&deleted, &named] {
        let path = format!("/api/files/{id}");
        assert_eq!(client.delete(&path).await.0, StatusCode::NO_CONTENT);
        let request = client.request(Method::GET, &format!("{path}/content"));
        assert_eq!(request.send().await.expect("an answer").status(), StatusCode::NOT_FOUND);
    }
    sweep(&app, &server.endpoint, false).await;
    let key = format!("kept/here/{}/{left}", app.db.workspace_id);
    assert_eq!(kept(server, &app).await.0, [key]);
    // A whole workspace, after the references to its files.
    sqlx::query("delete from kb.chat_conversations")
        .execute(&app.db.pool)
        .await
        .expect("they go");
    sqlx::query("delete from kb.projects where id = $1")
        .bind(app.db.workspace_id)
        .execute(&app.db.pool)
        .await
        .expect("it goes");
    sweep(&app, &server.endpoint, false).await;
    assert_eq!(kept(server, &app).await.0, Vec::<String>::new());
    assert_eq!(count(&app.db.pool, "kb.file_objects_left").await, 0);
}

#[tokio::test]
async fn nothing_is_left_of_uploads_that_break_off_or_are_refused() {
    let Some(server) = ObjectServer::shared().await else {
        return;
    };
    let app = app(&server.endpoint).await;
    let client = app.client();
    // Text with a binary end.
    let mut late = vec![b'a'; 8_000_000];
    late.push(0);
    let (status, problem) = upload(&client, "late.txt", None, late).await;
    assert_eq!(
        (status.as_u16(), &problem["code"]),
        (415, &json!("file_type_not_taken"))
    );
    let none = (Vec::<String>::new(), Vec::<String>::new());
    assert_eq!(kept(server, &app).await, none);
    assert_eq!(count(&app.db.pool, "kb.files").await, 0);

    // A sender that disconnects midway.
    let sent = Arc::new(AtomicBool::new(false));
    let sender = stream::unfold((0, sent.clone()), async |(at, sent)| {
        if at == 10 {
            sent.store(true, Ordering::Relaxed);
            std::future::pending::<()>().await;
        }
        let piece = Ok::<_, Infallible>(Bytes::from(vec![b'a'; 1_000_000]));
        Some((piece, (at + 1, sent)))
    });
    let request = client
        .request(Method::POST, "/api/files?name=cut.txt")
        .body(reqwest::Body::wrap_stream(sender));
    let sending = tokio::spawn(request.send());
    wait_for("an upload in parts", async || {
        let noted: Option<Uuid> = sqlx::query_scalar("select id from kb.files where upload_id is not null")
            .fetch_optional(&app.db.pool)
            .await
            .expect("a row");
        (noted.is_some() && !kept(server, &app).await.1.is_empty()).then_some(())
    })
    .await;
    sending.abort();
    let old = "update kb.files set created_at = now() - interval '7 hours'";
    sqlx::query(old).execute(&app.db.pool).await.expect("it is old");
    while rejoin_files::sweep(&app.db.pool, 24.0 * 3600.0).await.expect("a sweep") {}
    sweep(&app, &server.endpoint, true).await;
    assert_eq!(kept(server, &app).await, none);
    assert_eq!(count(&app.db.pool, "kb.files").await, 0);
}

#[tokio::test]
async fn files_of_tools_are_stored_there_and_removed_with_their_row() {
    let Some(server) = ObjectServer::shared().await else {
        return;
    };
    let app = app(&server.endpoint).await;
    let limits = FilesArgs {
        object_store: args(&server.endpoint),
        ..FilesArgs::default()
    };
    let store = FileStore::of(&limits).expect("a store");
    let sound = wav(8_000_000);
    let mut produced = Produced {
        workspace_id: app.db.workspace_id,
        owner_user_id: Some(app.db.user_id),
        made_by: None,
        name: "sound.wav",
        media_type: "audio/wav",
        content: &sound,
    };
    let file = store.store(&app.db.pool, &produced).await.expect("it is stored");
    assert!(file.in_object_store);
    assert!(content(&app.client(), &file.id.to_string()).await == sound);

    // The row is deleted, as with its workspace, before the file is complete.
    let vanish = "create function public.vanish() returns trigger language plpgsql as $$
             begin delete from kb.files where id = new.id; return null; end $$;
         create trigger vanish before update of media_type on kb.files for each row execute function public.vanish()";
    sqlx::raw_sql(vanish).execute(&app.db.pool).await.expect("a trigger");
    let small = png();
    for (media_type, content) in [("image/png", &small), ("audio/wav", &sound)] {
        produced.content = content;
        produced.media_type = media_type;
        assert!(store.store(&app.db.pool, &produced).await.is_err());
    }
    let only = vec![format!("kept/here/{}/{}", app.db.workspace_id, file.id)];
    assert_eq!(kept(server, &app).await, (only, Vec::new()));
}

#[tokio::test]
async fn a_file_whose_commits_answer_was_lost_stays() {
    let Some(server) = ObjectServer::shared().await else {
        return;
    };
    let app = app(&server.endpoint).await;
    let client = app.client();
    let id = stored(&client, "note.txt", b"whole".to_vec()).await;
    // What an upload does when it does not know whether it was stored.
    let mut db = app.db.pool.acquire().await.expect("a connection");
    let is_gone = rejoin_files::discard(&mut db, id.parse().expect("an id")).await;
    assert!(!is_gone.expect("an answer"), "its object must stay");
    assert_eq!(content(&client, &id).await, b"whole");
    let is_gone = rejoin_files::discard(&mut db, Uuid::now_v7()).await;
    assert!(is_gone.expect("an answer"));
}

#[tokio::test]
async fn each_file_is_read_where_it_is_whatever_is_set_now() {
    let Some(server) = ObjectServer::shared().await else {
        return;
    };
    let before = TestApp::start().await;
    let in_rows = stored(&before.client(), "rows.txt", b"in rows".to_vec()).await;
    let (db, key) = (before.db.args(), before.db.api_key.clone());
    let with_store = api(db, args(&server.endpoint)).await;
    let client = Client::new(format!("http://{}", with_store.addr), &key);
    assert_eq!(content(&client, &in_rows).await, b"in rows");
    let as_object = stored(&client, "object.txt", b"an object".to_vec()).await;
    assert_eq!(content(&client, &as_object).await, b"an object");

    // A process without the store configured.
    let path = format!("/api/files/{as_object}/content");
    let request = before.client().request(Method::GET, &path);
    let response = request.send().await.expect("an answer");
    assert!(response.headers().contains_key("retry-after"));
    let (status, problem) = answer(response).await;
    assert_eq!((status.as_u16(), &problem["code"]), (503, &json!("files_unavailable")));
    // Deleted there, the object waits for a process with the store.
    assert_eq!(
        before.client().delete(&format!("/api/files/{as_object}")).await.0,
        StatusCode::NO_CONTENT
    );
    let swept = objects::sweep(&before.db.pool, None).await;
    assert!(
        matches!(swept, Err(SweepError::ObjectStore(ObjectStoreError::NotSet))),
        "{swept:?}"
    );
    sweep(&before, &server.endpoint, false).await;
    assert_eq!(kept(server, &before).await.0, Vec::<String>::new());
    with_store.stop().await.expect("it stops");
}

async fn api(db: rejoin_db::config::DatabaseArgs, object_store: ObjectStoreArgs) -> rejoin_api::Server {
    let mut config = rejoin_api::ApiConfig::new(db);
    config.listen = ([127, 0, 0, 1], 0).into();
    config.drain_grace_ms = 0;
    config.chat.files.object_store = object_store;
    let server = rejoin_api::Server::start(config, tokio_util::sync::CancellationToken::new()).await;
    server.expect("the API starts")
}
