//! Files for the tests of attachments, and what a scripted model received of them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rejoin_worker::WorkerConfig;
use reqwest::{Method, StatusCode};
use serde_json::Value;

use crate::app::TestApp;
use crate::client::{Client, answer};

/// An image of one pixel.
const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

/// A debug build takes long for a request of 20 MB: the run must not be taken over.
pub fn patient(config: &mut WorkerConfig) {
    (config.lease_ms, config.heartbeat_ms) = (30_000, 5_000);
}

pub fn png() -> Vec<u8> {
    STANDARD.decode(PNG).expect("an image")
}

pub fn pdf() -> Vec<u8> {
    b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n2 0 obj<</Type/Pages/Kids[]/Count 0>>endobj\ntrailer<</Root 1 0 R>>\n%%EOF\n".to_vec()
}

/// Incompressible sound, so that each byte is unique.
pub fn wav(bytes: usize) -> Vec<u8> {
    let mut file = b"RIFF\0\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0\x40\x1f\0\0\x40\x1f\0\0\x01\0\x08\0data".to_vec();
    let mut state: u64 = 1;
    while file.len() < bytes {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        file.extend_from_slice(&state.to_be_bytes()[..4]);
    }
    file.truncate(bytes);
    file
}

pub async fn upload(client: &Client, name: &str, media_type: Option<&str>, content: Vec<u8>) -> (StatusCode, Value) {
    let name: String = url::form_urlencoded::byte_serialize(name.as_bytes()).collect();
    let mut request = client.request(Method::POST, &format!("/api/files?name={name}"));
    if let Some(media_type) = media_type {
        request = request.header("content-type", media_type);
    }
    answer(request.body(content).send().await.expect("an answer")).await
}

pub async fn stored(client: &Client, name: &str, content: Vec<u8>) -> String {
    let (status, file) = upload(client, name, None, content).await;
    assert_eq!(status, StatusCode::CREATED, "{file}");
    file["id"].as_str().expect("an id").to_owned()
}

pub async fn content(client: &Client, id: &str) -> Vec<u8> {
    let request = client.request(Method::GET, &format!("/api/files/{id}/content"));
    let response = request.send().await.expect("an answer");
    assert_eq!(response.status(), StatusCode::OK);
    response.bytes().await.expect("a body").to_vec()
}

/// The parts of the last user message of the newest request to the model.
pub fn parts(app: &TestApp) -> Vec<Value> {
    let requests = app.model.requests();
    let messages = requests.last().expect("a request")["messages"].as_array().cloned();
    let messages = messages.expect("messages");
    let last = messages.iter().rfind(|message| message["role"] == "user");
    last.and_then(|message| message["content"].as_array().cloned())
        .unwrap_or_default()
}

pub fn decoded(part: &Value) -> Vec<u8> {
    let data = match part["type"].as_str() {
        Some("image_url") => part["image_url"]["url"].as_str(),
        Some("file") => part["file"]["file_data"].as_str(),
        Some("input_audio") => part["input_audio"]["data"].as_str(),
        _ => None,
    };
    let data = data.unwrap_or_else(|| panic!("no file: {part}"));
    let data = data.split_once("base64,").map_or(data, |(_, data)| data);
    STANDARD.decode(data).expect("base64")
}
