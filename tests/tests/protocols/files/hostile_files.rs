//! Hostile files are refused with a reason, or made harmless.

use rejoin_tests::app::{AppOptions, TestApp};
use rejoin_tests::client::text;
use rejoin_tests::model_server::Reply;
use rejoin_tests::support::wait_for;
use reqwest::{Method, StatusCode};
use serde_json::json;

use rejoin_tests::files::{pdf, png, upload, wav};

/// A file's name, declared type, content, and the expected status and code of its rejection.
type Refused = (&'static str, Option<&'static str>, Vec<u8>, u16, &'static str);

#[tokio::test]
async fn hostile_files_are_refused_in_words_or_made_harmless() {
    let app = TestApp::with(AppOptions {
        api: |config| config.chat.files.max_file_bytes = 2_000_000,
        ..AppOptions::default()
    })
    .await;
    let client = app.client();
    let bomb = |width: u32, height: u32| {
        let mut bytes = png();
        bytes[16..20].copy_from_slice(&width.to_be_bytes());
        bytes[20..24].copy_from_slice(&height.to_be_bytes());
        bytes
    };
    let mut half_text = vec![b'a'; rejoin_files::CHUNK_BYTES];
    half_text.extend([0xff, 0x00, 0x01]);
    let zip = b"PK\x03\x04\x14\0\0\0".to_vec();
    let refused: [Refused; 10] = [
        ("nothing.png", Some("image/png"), Vec::new(), 400, "file_empty"),
        (
            "page.png",
            Some("image/png"),
            b"<html><script>alert(1)</script>".to_vec(),
            415,
            "file_type_disagrees",
        ),
        ("photo.jpg", Some("image/jpeg"), png(), 415, "file_type_disagrees"),
        ("notes.txt", Some("text/plain"), pdf(), 415, "file_type_disagrees"),
        (
            "bomb.png",
            Some("image/png"),
            bomb(60_000, 60_000),
            400,
            "invalid_image",
        ),
        ("flat.png", None, bomb(0, 7), 400, "invalid_image"),
        ("archive.docx", None, zip, 415, "file_type_not_taken"),
        (
            "program",
            None,
            b"\x7fELF\x02\x01\x01\0".to_vec(),
            415,
            "file_type_not_taken",
        ),
        (
            "text-then-bytes.txt",
            Some("text/plain"),
            half_text,
            415,
            "file_type_disagrees",
        ),
        ("huge.wav", Some("audio/wav"), wav(2_000_001), 413, "file_too_large"),
    ];
    for (name, media_type, bytes, status, code) in refused {
        let (got, problem) = upload(&client, name, media_type, bytes).await;
        assert_eq!(
            (got.as_u16(), &problem["code"]),
            (status, &json!(code)),
            "{name}: {problem}"
        );
        assert!(
            problem["detail"].as_str().is_some_and(|detail| detail.len() > 10),
            "{problem}"
        );
    }
    // An endless stream without a declared length.
    let endless = futures::stream::repeat_with(|| Ok::<_, std::io::Error>(vec![b'a'; 65_536]));
    let request = client.request(Method::POST, "/api/files?name=endless.txt");
    let request = request.body(reqwest::Body::wrap_stream(endless));
    if let Ok(response) = request.send().await {
        assert_eq!(response.status(), StatusCode::PAYLOAD_TOO_LARGE);
    }
    wait_for("nothing of them to be left", async || {
        let left: i64 =
            sqlx::query_scalar("select (select count(*) from kb.files) + (select count(*) from kb.file_chunks)")
                .fetch_one(&app.db.pool)
                .await
                .expect("a count");
        (left == 0).then_some(())
    })
    .await;

    // Paths and characters that hide an extension are removed.
    let (status, file) = upload(&client, "../../etc/pass\u{202e}wd\n.txt", None, b"root".to_vec()).await;
    assert_eq!((status.as_u16(), &file["name"]), (201, &json!("passwd.txt")), "{file}");
    // An SVG is text, and is never rendered as a page of this server.
    let svg = "<svg xmlns=\"http://www.w3.org/2000/svg\"><script>alert(1)</script></svg>";
    let (status, file) = upload(&client, "a.svg", Some("image/svg+xml"), svg.into()).await;
    assert_eq!((status.as_u16(), &file["kind"]), (201, &json!("text")), "{file}");
    let id = file["id"].as_str().expect("an id");
    let request = client.request(Method::GET, &format!("/api/files/{id}/content"));
    let response = request.send().await.expect("an answer");
    let header = |name: &str| response.headers()[name].to_str().expect("text").to_owned();
    assert_eq!(header("content-type"), "text/plain; charset=utf-8");
    assert_eq!(
        header("content-disposition"),
        "attachment; filename=\"a.svg\"; filename*=UTF-8''a.svg"
    );
    assert_eq!(header("x-content-type-options"), "nosniff");
    assert_eq!(header("content-security-policy"), "sandbox; default-src 'none'");
    app.model.script([Reply::text("An SVG.")]);
    let frames = client
        .chat(json!({"message": "Look.", "attachments": [{"fileId": id}]}))
        .await;
    assert_eq!(text(&frames), "An SVG.");
    let request = app.model.requests().pop().expect("a request");
    let asked = request["messages"]
        .as_array()
        .and_then(|messages| messages.last().cloned());
    let asked = asked.expect("a message");
    assert_eq!(
        asked["content"],
        format!("Look.\n\nFile `a.svg`:\n```\n{svg}\n```"),
        "as text, not as an image"
    );
}
