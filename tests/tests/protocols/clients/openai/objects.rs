//! Objects of OpenAI's protocols other than answers: conversations, models, files; keys, and long waits.

use std::time::Duration;

use rejoin_tests::app::TestApp;
use rejoin_tests::model_server::Reply;
use rejoin_tests::openai_clients::{self, Language, OpenAi};
use reqwest::{Method, StatusCode};
use serde_json::json;

use super::output_text;

#[tokio::test]
async fn conversations_models_and_files_are_the_servers_own() {
    if !openai_clients::are_there() {
        return;
    }
    let app = TestApp::start().await;
    let agent = app.agent("helper", &[]).await;
    app.agent("other", &[]).await;
    let client = OpenAi::new(Language::JavaScript, &app);
    let models = client.calls("models.list", json!({})).await;
    let names: Vec<&str> = models["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|model| model["id"].as_str())
        .collect();
    assert!(names.contains(&"helper") && names.contains(&"other"), "{names:?}");
    assert_eq!(client.calls("models.retrieve", json!(agent)).await["object"], "model");

    let conversation = client
        .calls("conversations.create", json!({"metadata": {"topic": "demo"}}))
        .await;
    let id = &conversation["id"];
    assert_eq!(conversation["metadata"]["topic"], "demo");
    app.model.script([Reply::text("One."), Reply::text("Two.")]);
    // A dot of one pixel.
    let png = "data:image/gif;base64,R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7";
    let input = json!([{"role": "user", "content": [{"type": "input_text", "text": "first"}, {"type": "input_image", "image_url": png}]}]);
    let response = client
        .calls(
            "responses.create",
            json!({"model": agent, "input": input, "conversation": id}),
        )
        .await;
    assert_eq!(
        (&response["conversation"]["id"], output_text(&response).as_str()),
        (id, "One.")
    );
    let wrong = client
        .tries(
            "responses.create",
            json!({"model": "other", "input": "x", "conversation": id}),
        )
        .await;
    assert_eq!(wrong["error"]["code"], "model_differs", "{wrong:#}");
    client
        .calls(
            "responses.create",
            json!({"model": "helper", "input": "second", "conversation": id}),
        )
        .await;
    let (_, items) = app
        .client()
        .get(&format!(
            "/v1/conversations/{}/items?order=asc&limit=3",
            id.as_str().unwrap()
        ))
        .await;
    let roles: Vec<&str> = items["data"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|item| item["role"].as_str())
        .collect();
    assert_eq!(
        (roles, &items["has_more"]),
        (vec!["user", "assistant", "user"], &json!(true))
    );
    assert_eq!(items["data"][0]["content"][1]["type"], "input_image");
    let refused = client.tries("responses.delete", response["id"].clone()).await;
    assert_eq!(refused["error"]["code"], "response_not_alone");
    let updated = app
        .client()
        .post(
            &format!("/v1/conversations/{}", id.as_str().unwrap()),
            json!({"metadata": {"topic": "new"}}),
        )
        .await;
    assert_eq!(updated.1["metadata"]["topic"], "new");
    assert_eq!(client.calls("conversations.delete", id.clone()).await["deleted"], true);
}

#[tokio::test]
async fn the_same_key_is_the_same_response() {
    let app = TestApp::start().await;
    app.agent("helper", &[]).await;
    app.model.script([Reply::text("Once.")]);
    let http = app.client();
    let mut ids = Vec::new();
    for _ in 0..2 {
        let request = http
            .request(Method::POST, "/v1/responses")
            .header("idempotency-key", "k1")
            .json(&json!({"model": "helper", "input": "go"}));
        let (status, response) = rejoin_tests::client::answer(request.send().await.unwrap()).await;
        assert_eq!((status, output_text(&response).as_str()), (StatusCode::OK, "Once."));
        ids.push(response["id"].clone());
    }
    assert_eq!(ids[0], ids[1]);
    let other = http
        .request(Method::POST, "/v1/responses")
        .header("idempotency-key", "k1")
        .json(&json!({"model": "helper", "input": "other"}));
    let (status, said) = rejoin_tests::client::answer(other.send().await.unwrap()).await;
    assert_eq!(
        (status, said["error"]["code"].as_str()),
        (StatusCode::UNPROCESSABLE_ENTITY, Some("idempotency_key_reused"))
    );
}

/// A run that takes longer than a request may take is waited for all the same.
#[tokio::test]
async fn a_long_answer_is_waited_for() {
    let app = TestApp::start().await;
    app.agent("helper", &[]).await;
    app.model.script([Reply::text("Late.").delay_ms(27_000)]);
    let request = app
        .client()
        .request(Method::POST, "/v1/responses")
        .timeout(Duration::from_secs(60))
        .json(&json!({"model": "helper", "input": "go"}));
    let (status, response) = rejoin_tests::client::answer(request.send().await.unwrap()).await;
    assert_eq!((status, output_text(&response).as_str()), (StatusCode::OK, "Late."));
}
