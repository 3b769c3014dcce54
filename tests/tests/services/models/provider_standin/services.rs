//! Azure, OpenRouter, Vertex AI and Ollama, and the keys of all services: what each refuses that the provider of the protocol does not, or in other words.

use rejoin_provider_stand_in::{
    AZURE_KEY, BEDROCK_KEY, OPENROUTER_KEY, Protocol, Providers, Service, Turn, VERTEX_KEY, hello, message_of,
};
use serde_json::{Value, json};

use super::{merge, refuses_at, schema, send_to};

pub(super) const BEDROCK: (Service, Protocol) = (Service::Bedrock, Protocol::Converse);
const OPENROUTER: (Service, Protocol) = (Service::OpenRouter, Protocol::Chat);
const VERTEX: (Service, Protocol) = (Service::Vertex, Protocol::Gemini);
const VERTEX_CLAUDE: (Service, Protocol) = (Service::Vertex, Protocol::Messages);
const OLLAMA: (Service, Protocol) = (Service::Ollama, Protocol::Ollama);
pub(super) const CLAUDE: &str = "us.anthropic.claude-haiku-4-5-20251001-v1:0";

/// A request with a valid key that is answered whole.
pub(super) fn request(
    client: &reqwest::Client,
    server: &Providers,
    (service, protocol): (Service, Protocol),
    model: &str,
) -> reqwest::RequestBuilder {
    let path = match protocol {
        Protocol::Chat => "chat/completions",
        Protocol::Responses => "responses",
        Protocol::Messages => "rawPredict",
        Protocol::Gemini => "generateContent",
        Protocol::Converse => "converse",
        Protocol::Ollama => "api/chat",
    };
    match service {
        Service::Azure => client
            .post(format!("{}/openai/v1/{path}", server.url()))
            .header("api-key", AZURE_KEY),
        Service::OpenRouter => client
            .post(format!("{}/{path}", server.openrouter_url()))
            .bearer_auth(OPENROUTER_KEY),
        Service::Vertex => {
            let publisher = if protocol == Protocol::Messages {
                "anthropic"
            } else {
                "google"
            };
            let url = format!("{}/publishers/{publisher}/models/{model}:{path}", server.vertex_url());
            client.post(url).bearer_auth(VERTEX_KEY)
        }
        Service::Bedrock => client
            .post(format!("{}/model/{model}/{path}", server.url()))
            .bearer_auth(BEDROCK_KEY),
        Service::OpenAi | Service::Anthropic | Service::Gemini | Service::Ollama => {
            client.post(format!("{}/{path}", server.url()))
        }
    }
}

/// A wrong key, none, and an unknown model.
#[tokio::test]
async fn keys_and_names_are_refused_in_each_services_words() {
    let server = Providers::start().await.expect("a stand-in");
    let client = reqwest::Client::new();
    let azure = (Service::Azure, Protocol::Chat);
    for (place, model, wrong, missing, unknown) in [
        (
            azure,
            "gpt-5.2",
            401,
            401,
            (404, "API deployment for this resource does not exist"),
        ),
        (
            OPENROUTER,
            "openai/gpt-5.2",
            401,
            401,
            (400, "no/such is not a valid model ID"),
        ),
        (
            VERTEX,
            "gemini-3.8-flash",
            401,
            401,
            (404, "was not found or your project does not have access"),
        ),
        (
            BEDROCK,
            CLAUDE,
            403,
            403,
            (400, "The provided model identifier is invalid."),
        ),
    ] {
        let body = hello(place.1, model);
        for (key, status) in [(Some("wrong"), wrong), (None, missing)] {
            let mut asked = request(&client, &server, place, model)
                .json(&body)
                .build()
                .expect("a request");
            for header in ["authorization", "api-key"] {
                let valid = asked.headers_mut().remove(header);
                if let (Some(key), Some(_)) = (key, valid) {
                    let key = if header == "api-key" {
                        key.to_owned()
                    } else {
                        format!("Bearer {key}")
                    };
                    asked.headers_mut().insert(header, key.parse().expect("a header"));
                }
            }
            let answer = client.execute(asked).await.expect("an answer");
            assert_eq!(answer.status(), status, "{place:?} {key:?}");
        }
        let no_such = if place == OPENROUTER { "no/such" } else { "no-such" };
        let (status, answer) = send_to(&server, place, no_such, &hello(place.1, no_such)).await;
        assert_eq!(status, unknown.0, "{place:?}: {answer}");
        assert!(message_of(&answer).contains(unknown.1), "{place:?}: {answer}");
    }
}

/// A key as a token, too; dated versions not, and no other paths.
#[tokio::test]
async fn azure_has_one_version_of_its_paths() {
    let server = Providers::start().await.expect("a stand-in");
    let client = reqwest::Client::new();
    for (path, status) in [
        ("openai/v1/chat/completions", 200),
        ("openai/v1/chat/completions?api-version=preview", 200),
        ("openai/v1/chat/completions?api-version=2024-10-21", 400),
        (
            "openai/deployments/gpt-5.2/chat/completions?api-version=2024-10-21",
            404,
        ),
    ] {
        let answer = client
            .post(format!("{}/{path}", server.url()))
            .bearer_auth(AZURE_KEY)
            .json(&hello(Protocol::Chat, "gpt-5.2"))
            .send()
            .await
            .expect("an answer");
        assert_eq!(answer.status(), status, "{path}");
    }
    refuses_at(
        (Service::Azure, Protocol::Responses),
        "gpt-6-luna",
        hello(Protocol::Responses, "gpt-6-luna"),
        &[
            (json!({"temperature": 0.1}), 400, "'temperature' does not support 0.1"),
            (json!({"model": "gpt-4-32k"}), 404, "does not exist"),
        ],
    )
    .await;
}

#[tokio::test]
async fn openrouter_keeps_to_its_own_fields() {
    let model = "anthropic/claude-haiku-5.5";
    refuses_at(
        OPENROUTER,
        model,
        hello(Protocol::Chat, model),
        &[
            (json!({"reasoning": {"effort": "low", "max_tokens": 2_000}}), 400, "Only one of"),
            (json!({"reasoning": {"effort": "extreme"}}), 400, "expected one of xhigh|high"),
            (json!({"reasoning": {"level": "low"}}), 400, "Unrecognized key: \"reasoning.level\""),
            (json!({"cache_control": {"type": "forever"}}), 400, "expected one of ephemeral"),
            (json!({"model": "claude-haiku-5-5"}), 400, "is not a valid model ID"),
            (json!({"messages": [{"role": "assistant", "content": "a", "reasoning_details": [{"type": "thought"}]}]}), 400, "expected one of reasoning.summary"),
        ],
    )
    .await;
}

/// Reasoning details are altered, left away, or come back as they were.
#[tokio::test]
async fn openrouter_wants_its_reasoning_details_back() {
    for (model, without) in [
        ("anthropic/claude-haiku-5.5", 200),
        ("openai/gpt-6-luna", 200),
        ("google/gemini-3.8-flash", 400),
    ] {
        let server = Providers::start().await.expect("a stand-in");
        server.script("", [Turn::call("search", json!({"q": "a"})).reasoning("Let me look.")]);
        let mut request = hello(Protocol::Chat, model);
        request["tools"] = json!([{"type": "function", "function": {"name": "search", "parameters": schema()}}]);
        let (status, answer) = send_to(&server, OPENROUTER, model, &request).await;
        assert_eq!(status, 200, "{answer}");
        let message = &answer["choices"][0]["message"];
        let body = json!({
            "role": "assistant",
            "content": "",
            "tool_calls": message["tool_calls"],
            "reasoning_details": message["reasoning_details"],
        });
        let id = &message["tool_calls"][0]["id"];
        let next = |body: &Value| {
            let mut next = request.clone();
            let messages = next["messages"].as_array_mut().expect("messages");
            messages.extend([
                body.clone(),
                json!({"role": "tool", "tool_call_id": id, "content": "{}"}),
            ]);
            next
        };
        let (status, answer) = send_to(&server, OPENROUTER, model, &next(&body)).await;
        assert_eq!(status, 200, "{model}: {answer}");
        assert_eq!(server.losses(), Vec::<String>::new(), "{model}");
        let mut altered = body.clone();
        altered["reasoning_details"][0]["format"] = json!("other");
        assert_eq!(
            send_to(&server, OPENROUTER, model, &next(&altered)).await.0,
            400,
            "{model}"
        );
        let mut bare = body.clone();
        merge(&mut bare, &json!({"reasoning_details": null}));
        assert_eq!(
            send_to(&server, OPENROUTER, model, &next(&bare)).await.0,
            without,
            "{model}"
        );
    }
}

#[tokio::test]
async fn vertex_has_projects_roles_and_no_ids_of_calls() {
    let server = Providers::start().await.expect("a stand-in");
    let client = reqwest::Client::new();
    let url = server.vertex_url().replace("standin-project", "another");
    let answer = client
        .post(format!(
            "{url}/publishers/google/models/gemini-3.8-flash:generateContent"
        ))
        .bearer_auth(VERTEX_KEY)
        .json(&hello(Protocol::Gemini, ""))
        .send()
        .await
        .expect("an answer");
    assert_eq!(answer.status(), 403);
    let call = |id: Value| {
        json!({"contents": [
            {"role": "user", "parts": [{"text": "hi"}]},
            {"role": "model", "parts": [{"functionCall": {"name": "search", "args": {}, "id": id}}]},
            {"role": "user", "parts": [{"functionResponse": {"name": "search", "response": {}}}]},
        ]})
    };
    refuses_at(
        VERTEX,
        "gemini-3.8-flash",
        hello(Protocol::Gemini, ""),
        &[
            (
                json!({"contents": [{"parts": [{"text": "hi"}]}]}),
                400,
                "Please use a valid role",
            ),
            (
                call(json!("a")),
                400,
                "Unknown name \"id\" at 'contents[1].parts[0].functionCall'",
            ),
            (call(Value::Null), 400, "missing a thought_signature"),
        ],
    )
    .await;
}

#[tokio::test]
async fn vertex_has_the_model_of_claude_in_its_path() {
    let mut base = hello(Protocol::Messages, "");
    merge(
        &mut base,
        &json!({"model": null, "anthropic_version": "vertex-2023-10-16"}),
    );
    refuses_at(
        VERTEX_CLAUDE,
        "claude-haiku-5-5",
        base,
        &[
            (
                json!({"anthropic_version": null}),
                400,
                "anthropic_version: Field required",
            ),
            (
                json!({"anthropic_version": "2023-06-01"}),
                400,
                "anthropic_version: Invalid value",
            ),
            (
                json!({"thinking": {"type": "enabled", "budget_tokens": 2_000}, "max_tokens": 4_000}),
                400,
                "is not supported for this model",
            ),
        ],
    )
    .await;
    let server = Providers::start().await.expect("a stand-in");
    let mut named = hello(Protocol::Messages, "claude-haiku-5-5");
    named["anthropic_version"] = json!("vertex-2023-10-16");
    let (status, answer) = send_to(&server, VERTEX_CLAUDE, "claude-haiku-5-5", &named).await;
    assert_eq!(
        (status, message_of(&answer)),
        (400, "model: Extra inputs are not permitted")
    );
}

#[tokio::test]
async fn ollama_refuses_what_its_models_cannot_do() {
    refuses_at(
        OLLAMA,
        "qwen3:8b",
        hello(Protocol::Ollama, "qwen3:8b"),
        &[
            (json!({"model": "no-such"}), 404, "model 'no-such' not found"),
            (json!({"model": null}), 400, "model is required"),
            (json!({"model": "llama3.1", "think": true}), 400, "does not support thinking"),
            (json!({"model": "gemma3:4b", "tools": [{"type": "function", "function": {"name": "a", "parameters": schema()}}]}), 400, "does not support tools"),
            (json!({"think": "extreme"}), 400, "invalid think value: \"extreme\""),
            (json!({"messages": [{"role": "user", "content": "a", "images": ["AA=="]}]}), 400, "image input"),
            (json!({"messages": [{"role": "assistant", "tool_calls": [{"function": {"name": "a", "arguments": "{}"}}]}]}), 400, "cannot unmarshal a string"),
            (json!({"messages": [{"role": "developer", "content": "a"}]}), 400, "invalid messages[0].role value"),
        ],
    )
    .await;
}
