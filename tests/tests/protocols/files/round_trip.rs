//! Transfer of files: byte for byte through the API, the command line and the database to the model and back.

use std::process::Stdio;

use rejoin_tests::app::{AppOptions, TestApp, binary};
use rejoin_tests::client::{json_of, text};
use rejoin_tests::files::{content, decoded, parts, patient, pdf, png, upload, wav};
use rejoin_tests::model_server::Reply;
use rejoin_types::digest::hex;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use uuid::Uuid;

const AUDIO_BYTES: usize = 20_000_000;

#[tokio::test]
async fn images_pdfs_and_audio_come_back_byte_for_byte() {
    let app = TestApp::with(AppOptions {
        workers: 2,
        worker: patient,
        ..AppOptions::default()
    })
    .await;
    let client = app.client();
    let agent = app.agent("seer", &[]).await;
    let files = [
        ("photo.png", "image/png", png()),
        ("report.pdf", "application/pdf", pdf()),
        ("talk.wav", "audio/wav", wav(AUDIO_BYTES)),
    ];
    let mut ids = Vec::new();
    for (name, media_type, bytes) in &files {
        let (status, file) = upload(&client, name, Some(media_type), bytes.clone()).await;
        assert_eq!(status, StatusCode::CREATED, "{file}");
        assert_eq!(
            (&file["name"], &file["mediaType"], &file["sizeBytes"], &file["sha256"]),
            (
                &json!(name),
                &json!(media_type),
                &json!(bytes.len()),
                &json!(hex(&Sha256::digest(bytes)))
            )
        );
        let id = file["id"].as_str().expect("an id").to_owned();
        assert!(content(&client, &id).await == *bytes, "{name} comes back as it was");
        ids.push(id);
    }
    let attachments: Vec<Value> = ids.iter().map(|id| json!({ "fileId": id })).collect();
    app.model.script([Reply::text("Three files.")]);
    let body = json!({"message": "What are these?", "agentDefinitionId": agent, "attachments": attachments});
    let frames = client.chat(body).await;
    assert_eq!(text(&frames), "Three files.");
    let parts = parts(&app);
    assert_eq!(parts[0]["text"], "What are these?");
    for (at, (name, _, bytes)) in files.iter().enumerate() {
        assert_eq!(parts[1 + 2 * at]["text"], format!("File `{name}`:"));
        assert!(
            decoded(&parts[2 + 2 * at]) == *bytes,
            "{name} reaches the model as it is"
        );
    }
    assert_eq!(parts[6]["input_audio"]["format"], "wav");
    // The files are in the event, the list, and the snapshot.
    let published = &json_of(&frames)[0]["message"];
    assert_eq!(published["attachments"][1]["fileId"], json!(ids[1]));
    assert_eq!(published["attachments"][1]["mediaType"], "application/pdf");
    let conversation = frames[1].json()["conversationId"].as_str().expect("an id").to_owned();
    let (_, listed) = client.get(&format!("/api/conversations/{conversation}/messages")).await;
    let listed = &listed["items"][0]["attachments"];
    assert_eq!(listed.as_array().map(Vec::len), Some(3), "{listed}");
    assert_eq!(
        (&listed[0]["type"], &listed[0]["title"], &listed[0]["url"]),
        (
            &json!("file"),
            &json!("photo.png"),
            &json!(format!("/api/files/{}/content", ids[0]))
        )
    );
    // A later turn has them, too; a deleted one is mentioned.
    assert_eq!(
        client.delete(&format!("/api/files/{}", ids[2])).await.0,
        StatusCode::NO_CONTENT
    );
    app.model.script([Reply::text("Two files.")]);
    let frames = client
        .chat(json!({"message": "And now?", "conversationId": conversation}))
        .await;
    assert_eq!(text(&frames), "Two files.");
    let request = app.model.requests().pop().expect("a request");
    let earlier = request["messages"][1]["content"].as_array().cloned().expect("parts");
    assert_eq!(
        earlier[0]["text"],
        "What are these?\n\n[The file `talk.wav` is not shown: it was deleted.]"
    );
    assert!(decoded(&earlier[2]) == png() && decoded(&earlier[4]) == pdf());
    assert_eq!(app.model.violations(), Vec::<String>::new());
}

#[tokio::test]
async fn the_command_line_attaches_files_and_gets_them_back() {
    let app = TestApp::with(AppOptions {
        worker: patient,
        ..AppOptions::default()
    })
    .await;
    let folder = std::env::temp_dir().join(format!("rejoin-files-{}", Uuid::now_v7().simple()));
    std::fs::create_dir(&folder).expect("a folder");
    let files = [
        ("a.png", png()),
        ("b.pdf", pdf()),
        ("c.wav", wav(AUDIO_BYTES)),
        ("d.md", b"# Notes\n".to_vec()),
    ];
    for (name, bytes) in &files {
        std::fs::write(folder.join(name), bytes).expect("a file");
    }
    // Choosing an agent by its name needs no more.
    let keys = format!("/api/admin/projects/{}/keys", app.db.workspace_id);
    let scopes = json!({"name": "files", "scopes": ["read", "write"]});
    let (status, key) = app.client().post(&keys, scopes).await;
    assert_eq!(status, StatusCode::CREATED, "{key}");
    let key = key["key"].as_str().expect("a key").to_owned();
    let rejoin = async |words: &[&str]| {
        let output = tokio::process::Command::new(binary())
            .args(words)
            .current_dir(&folder)
            .env("REJOIN_URL", app.url())
            .env("REJOIN_API_KEY", &key)
            .env("REJOIN_PROJECT_ID", app.db.workspace_id.to_string())
            .stdin(Stdio::null())
            .output()
            .await
            .expect("it runs");
        (
            output.status.success(),
            output.stdout,
            String::from_utf8_lossy(&output.stderr).into_owned(),
        )
    };
    app.agent("seer", &[]).await;
    app.model.script([Reply::text("I see.")]);
    let attach = [
        "--attach", "a.png", "--attach", "b.pdf", "--attach", "c.wav", "--attach", "d.md",
    ];
    let words = [&["chat", "--agent", "seer", "Look at these."][..], &attach[..]].concat();
    let (ok, said, complaint) = rejoin(&words).await;
    assert!(ok && String::from_utf8_lossy(&said).contains("I see."), "{complaint}");
    let parts = parts(&app);
    for (at, (name, bytes)) in files.iter().take(3).enumerate() {
        assert!(decoded(&parts[2 + 2 * at]) == *bytes, "{name}");
    }
    assert_eq!(parts[0]["text"], "Look at these.\n\nFile `d.md`:\n```\n# Notes\n```");
    let (ok, listed, complaint) = rejoin(&["--json", "files", "list"]).await;
    assert!(ok, "{complaint}");
    let listed = String::from_utf8(listed).expect("JSON");
    for (name, bytes) in &files {
        let file = listed
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        let file = file
            .into_iter()
            .find(|file| file["name"] == *name)
            .expect("it is listed");
        let id = file["id"].as_str().expect("an id").to_owned();
        let (ok, got, complaint) = rejoin(&["files", "get", &id, "-"]).await;
        assert!(ok && got == *bytes, "{name}: {complaint}");
        // Existing files are not overwritten.
        let (ok, _, complaint) = rejoin(&["files", "get", &id]).await;
        assert!(!ok && complaint.contains("writing"), "{complaint}");
        assert!(rejoin(&["files", "rm", &id]).await.0);
    }
    let (ok, _, complaint) = rejoin(&["chat", "--agent", "none", "x", "--attach", "missing.png"]).await;
    assert!(!ok && complaint.contains("reading missing.png failed"), "{complaint}");
    std::fs::remove_dir_all(&folder).expect("it is there");
}

#[tokio::test]
async fn a_form_uploads_a_file_and_downloads_take_ranges_and_tags() {
    let app = TestApp::start().await;
    let client = app.client();
    let sound = wav(rejoin_files::CHUNK_BYTES * 2 + 5);
    let form = |name: &str, field: &str| {
        let mut body = format!(
            "--XX\r\ncontent-disposition: form-data; name=\"note\"\r\n\r\nhello\r\n--XX\r\ncontent-disposition: form-data; \
             name=\"{field}\"; filename=\"{name}\"\r\ncontent-type: audio/x-wav\r\n\r\n"
        )
        .into_bytes();
        body.extend(&sound);
        body.extend(b"\r\n--XX--\r\n");
        body
    };
    let kind = Some("multipart/form-data; boundary=XX");
    let (status, file) = upload(&client, "ignored", kind, form("a.wav", "file")).await;
    assert_eq!(
        (status.as_u16(), &file["name"], &file["mediaType"]),
        (201, &json!("a.wav"), &json!("audio/wav")),
        "{file}"
    );
    let (status, problem) = upload(&client, "a", kind, b"--XX--\r\n".to_vec()).await;
    assert_eq!((status.as_u16(), &problem["code"]), (400, &json!("file_missing")));
    let (status, problem) = upload(&client, "a", kind, b"nonsense".to_vec()).await;
    assert_eq!((status.as_u16(), &problem["code"]), (400, &json!("invalid_form")));
    let path = format!("/api/files/{}/content", file["id"].as_str().expect("an id"));
    let get = async |name: &str, value: &str| {
        let request = client.request(Method::GET, &path).header(name, value);
        request.send().await.expect("an answer")
    };
    let whole = get("accept", "*/*").await;
    let tag = whole.headers()["etag"].to_str().expect("text").to_owned();
    assert_eq!(
        whole.headers()["content-length"].to_str().unwrap(),
        sound.len().to_string()
    );
    assert!(whole.bytes().await.expect("a body") == sound);
    assert_eq!(get("if-none-match", &tag).await.status(), StatusCode::NOT_MODIFIED);
    for (range, from, to) in [
        ("bytes=0-9", 0, 10),
        ("bytes=-5", sound.len() - 5, sound.len()),
        ("bytes=786430-786440", 786_430, 786_441),
    ] {
        let part = get("range", range).await;
        assert_eq!(part.status(), StatusCode::PARTIAL_CONTENT);
        assert_eq!(
            part.headers()["content-range"].to_str().unwrap(),
            format!("bytes {from}-{}/{}", to - 1, sound.len())
        );
        assert!(part.bytes().await.expect("a body") == sound[from..to], "{range}");
    }
    assert_eq!(
        get("range", "bytes=99999999-").await.status(),
        StatusCode::RANGE_NOT_SATISFIABLE
    );
}
