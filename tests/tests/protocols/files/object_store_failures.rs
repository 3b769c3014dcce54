//! An object store that is unavailable, refuses the key, or returns changed objects.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rejoin_tests::app::binary;
use rejoin_tests::client::{json_of, of_kind, text};
use rejoin_tests::files::{stored, upload};
use rejoin_tests::model_server::Reply;
use rejoin_tests::object_store::{self, ObjectServer};
use rejoin_tests::support::wait_for;
use reqwest::{Method, StatusCode};
use serde_json::json;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::process::Command;
use tokio::sync::watch;

use super::objects::{app, count};

/// A connection to the object store that can be interrupted.
struct Gate {
    endpoint: String,
    is_open: watch::Sender<bool>,
    /// Connections during the interruption.
    refused: Arc<AtomicUsize>,
}

impl Gate {
    async fn before(server: &ObjectServer) -> Self {
        let behind = server.endpoint.trim_start_matches("http://").to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let endpoint = format!("http://{}", listener.local_addr().expect("an address"));
        let (is_open, mut state) = watch::channel(true);
        let refused = Arc::new(AtomicUsize::new(0));
        let counted = refused.clone();
        tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                let behind = behind.clone();
                let mut state = state.clone();
                if !*state.borrow_and_update() {
                    counted.fetch_add(1, Ordering::Relaxed);
                    continue;
                }
                tokio::spawn(async move {
                    let mut server = TcpStream::connect(behind).await.expect("the object store");
                    tokio::select! {
                        _ = copy_bidirectional(&mut client, &mut server) => {}
                        _ = state.changed() => {}
                    }
                });
            }
            let _ = state.changed().await;
        });
        Self {
            endpoint,
            is_open,
            refused,
        }
    }
}

#[tokio::test]
async fn an_unavailable_store_is_a_503_and_awaited_by_runs() {
    let Some(server) = ObjectServer::shared().await else {
        return;
    };
    let gate = Gate::before(server).await;
    let app = app(&gate.endpoint).await;
    let client = app.client();
    let agent = app.agent("reader", &[]).await;
    let note = stored(&client, "note.txt", b"the word is fish".to_vec()).await;
    gate.is_open.send_replace(false);
    let (status, problem) = upload(&client, "late.txt", None, b"late".to_vec()).await;
    assert_eq!(
        (status.as_u16(), &problem["code"]),
        (503, &json!("files_unavailable")),
        "{problem}"
    );
    assert_eq!(count(&app.db.pool, "kb.files").await, 1, "nothing is left of it");
    let request = client.request(Method::GET, &format!("/api/files/{note}/content"));
    assert_eq!(
        request.send().await.expect("an answer").status(),
        StatusCode::SERVICE_UNAVAILABLE
    );

    app.model.script([Reply::text("fish")]);
    let body = json!({"message": "Which word?", "agentDefinitionId": agent, "attachments": [{"fileId": note}]});
    let posted = client.post_message(body).await;
    let before = gate.refused.load(Ordering::Relaxed);
    // More than one read of the file, with the client's own retries, was refused.
    wait_for("a run that waits", async || {
        (gate.refused.load(Ordering::Relaxed) > before + 8).then_some(())
    })
    .await;
    assert_eq!(app.model.counts().requests, 0);
    gate.is_open.send_replace(true);
    let path = format!("/api/runs/{}/events", posted["runId"].as_str().expect("an id"));
    let frames = client.stream(&path).await.rest().await;
    assert_eq!(text(&frames), "fish");
    assert!(app.model.requests()[0].to_string().contains("the word is fish"));
}

#[tokio::test]
async fn an_object_that_was_changed_is_no_file_of_ours() {
    let Some(server) = ObjectServer::shared().await else {
        return;
    };
    let app = app(&server.endpoint).await;
    let client = app.client();
    let agent = app.agent("reader", &[]).await;
    let note = stored(&client, "note.txt", b"pay ten".to_vec()).await;
    let key = format!("kept/here/{}/{note}", app.db.workspace_id);
    server.put(&key, b"pay ONE").await;
    let body = json!({"message": "How much?", "agentDefinitionId": agent, "attachments": [{"fileId": note}]});
    let events = json_of(&client.chat(body).await);
    assert_eq!(of_kind(&events, "error")[0]["code"], "file_damaged");
    assert_eq!(
        app.model.counts().requests,
        0,
        "the model is given nothing else than what was sent"
    );
    server.put(&key, b"pay").await;
    let path = format!("/api/files/{note}/content");
    let (status, problem) = client.get(&path).await;
    assert_eq!((status.as_u16(), &problem["code"]), (500, &json!("file_damaged")));
    server.delete(&key).await;
    assert_eq!(client.get(&path).await.0, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn doctor_says_whether_the_object_store_takes_the_key() {
    let Some(server) = ObjectServer::shared().await else {
        return;
    };
    let doctor = async |secret: &str, url: &str| {
        let output = Command::new(binary())
            .args(["doctor", "--only", "files"])
            .env("REJOIN_FILES_URL", url)
            .env("REJOIN_FILES_ENDPOINT", &server.endpoint)
            .env("REJOIN_FILES_ACCESS_KEY_ID", object_store::ACCESS_KEY)
            .env("REJOIN_FILES_SECRET_ACCESS_KEY", secret)
            .output()
            .await
            .expect("it runs");
        (output.status.code(), String::from_utf8(output.stdout).expect("text"))
    };
    let url = format!("s3://{}/kept", object_store::BUCKET);
    let (code, said) = doctor(object_store::SECRET_KEY, &url).await;
    assert_eq!(
        (code, said.trim()),
        (
            Some(0),
            format!("ok    the object store for files is reachable: {url}").as_str()
        )
    );
    let (code, said) = doctor("wrong-secret", &url).await;
    assert!(
        code != Some(0) && said.contains("rejected the access key") && said.contains("s3:PutObject"),
        "{said}"
    );
    assert!(!said.contains("wrong-secret"));
    let (code, said) = doctor(object_store::SECRET_KEY, "s3://no-such-bucket").await;
    assert!(code != Some(0) && said.contains("check REJOIN_FILES_URL"), "{said}");
    let (code, said) = doctor(object_store::SECRET_KEY, "file:///tmp").await;
    assert!(code != Some(0) && said.contains("s3://BUCKET"), "{said}");
}
