//! The fake model providers reject what the real ones reject, each violated rule with the provider's status and error
//! format, and accept what their own clients send (`clients`).

mod bedrock;
mod chat;
mod clients;
mod gemini;
mod messages;
mod responses;
mod services;

use rejoin_provider_stand_in::{
    ANTHROPIC_KEY, GEMINI_KEY, OPENAI_KEY, Outcome, Protocol, Providers, Service, Turn, hello, message_of,
};
use serde_json::{Value, json};

const CLAUDE: &str = "claude-haiku-5-5";

const OLD_CLAUDE: &str = "claude-haiku-4-5";

const GEMINI: &str = "gemini-3.8-flash";

const GPT: &str = "gpt-6-luna";

const OLD_GPT: &str = "gpt-4.1-mini";

/// Sends a request with a valid key.
async fn send(server: &Providers, protocol: Protocol, model: &str, body: &Value) -> (u16, Value) {
    send_to(server, (usual(protocol), protocol), model, body).await
}

/// The service that defined the protocol.
fn usual(protocol: Protocol) -> Service {
    match protocol {
        Protocol::Chat | Protocol::Responses => Service::OpenAi,
        Protocol::Messages => Service::Anthropic,
        Protocol::Gemini => Service::Gemini,
        Protocol::Converse => Service::Bedrock,
        Protocol::Ollama => Service::Ollama,
    }
}

async fn send_to(
    server: &Providers,
    (service, protocol): (Service, Protocol),
    model: &str,
    body: &Value,
) -> (u16, Value) {
    let client = reqwest::Client::new();
    let request = match protocol {
        _ if usual(protocol) != service => services::request(&client, server, (service, protocol), model),
        Protocol::Converse | Protocol::Ollama => services::request(&client, server, (service, protocol), model),
        Protocol::Chat => client
            .post(format!("{}/chat/completions", server.openai_url()))
            .bearer_auth(OPENAI_KEY),
        Protocol::Responses => client
            .post(format!("{}/responses", server.openai_url()))
            .bearer_auth(OPENAI_KEY),
        Protocol::Messages => client
            .post(format!("{}/v1/messages", server.anthropic_url()))
            .header("x-api-key", ANTHROPIC_KEY)
            .header("anthropic-version", "2023-06-01"),
        Protocol::Gemini => client
            .post(format!("{}/models/{model}:generateContent", server.gemini_url()))
            .header("x-goog-api-key", GEMINI_KEY),
    };
    let answer = request.json(body).send().await.expect("an answer");
    let status = answer.status().as_u16();
    (status, answer.json().await.expect("JSON"))
}

/// Asserts the provider's error format.
fn assert_shape(protocol: Protocol, status: u16, body: &Value) {
    match protocol {
        Protocol::Chat | Protocol::Responses => {
            let error = body["error"].as_object().expect("an error");
            for field in ["message", "type", "param", "code"] {
                assert!(error.contains_key(field), "{field} in {body}");
            }
        }
        Protocol::Messages => {
            assert_eq!(body["type"], "error", "{body}");
            assert!(
                body["error"]["type"].is_string() && body["request_id"].is_string(),
                "{body}"
            );
        }
        Protocol::Gemini => {
            assert_eq!(body["error"]["code"], status, "{body}");
            assert!(body["error"]["status"].is_string(), "{body}");
        }
        Protocol::Converse => assert!(body["message"].is_string(), "{body}"),
        Protocol::Ollama => assert!(body["error"].is_string(), "{body}"),
    }
}

/// Asserts that each change of a valid request is rejected with this status and text.
async fn refuses(protocol: Protocol, model: &str, base: Value, cases: &[(Value, u16, &str)]) {
    refuses_at((usual(protocol), protocol), model, base, cases).await;
}

async fn refuses_at((service, protocol): (Service, Protocol), model: &str, base: Value, cases: &[(Value, u16, &str)]) {
    let server = Providers::start().await.expect("a stand-in");
    let (status, body) = send_to(&server, (service, protocol), model, &base).await;
    assert_eq!(status, 200, "the request before the change: {body}");
    for (change, wanted, words) in cases {
        let mut request = base.clone();
        merge(&mut request, change);
        let model = change["model"].as_str().unwrap_or(model);
        let (status, body) = send_to(&server, (service, protocol), model, &request).await;
        assert_eq!(status, *wanted, "{change}: {body}");
        if service == usual(protocol) {
            assert_shape(protocol, status, &body);
        }
        assert!(
            message_of(&body).contains(words),
            "{change}: `{words}` is not in {body}"
        );
    }
    assert_eq!(server.refusals().len(), cases.len());
}

/// Merges objects, replaces all else; `null` removes a field.
fn merge(target: &mut Value, change: &Value) {
    let (Some(members), Some(changes)) = (target.as_object_mut(), change.as_object()) else {
        *target = change.clone();
        return;
    };
    for (name, value) in changes {
        if value.is_null() {
            members.remove(name);
        } else if value.is_object() && members.get(name).is_some_and(Value::is_object) {
            merge(members.get_mut(name).expect("just found"), value);
        } else {
            members.insert(name.clone(), value.clone());
        }
    }
}

fn schema() -> Value {
    json!({"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"], "additionalProperties": false})
}

#[tokio::test]
async fn a_wrong_or_missing_key_is_refused_by_each() {
    let server = Providers::start().await.expect("a stand-in");
    let client = reqwest::Client::new();
    let cases = [
        (
            Protocol::Chat,
            format!("{}/chat/completions", server.openai_url()),
            "authorization",
            "Bearer wrong",
            401,
            401,
        ),
        (
            Protocol::Responses,
            format!("{}/responses", server.openai_url()),
            "authorization",
            "Bearer wrong",
            401,
            401,
        ),
        (
            Protocol::Messages,
            format!("{}/v1/messages", server.anthropic_url()),
            "x-api-key",
            "wrong",
            401,
            401,
        ),
        (
            Protocol::Gemini,
            format!("{}/models/{GEMINI}:generateContent", server.gemini_url()),
            "x-goog-api-key",
            "wrong",
            400,
            403,
        ),
    ];
    for (protocol, url, header, key, wrong, missing) in cases {
        let request = client.post(&url).json(&hello(protocol, GPT));
        let answer = request
            .try_clone()
            .expect("JSON")
            .header(header, key)
            .send()
            .await
            .expect("an answer");
        assert_eq!(answer.status(), wrong, "{protocol:?}");
        assert_shape(protocol, wrong, &answer.json().await.expect("JSON"));
        let answer = request.send().await.expect("an answer");
        assert_eq!(answer.status(), missing, "{protocol:?}");
        assert_shape(protocol, missing, &answer.json().await.expect("JSON"));
    }
    let answer = client
        .post(format!("{}/v1/messages", server.anthropic_url()))
        .header("x-api-key", ANTHROPIC_KEY)
        .json(&hello(Protocol::Messages, CLAUDE))
        .send()
        .await
        .expect("an answer");
    assert_eq!(answer.status(), 400);
    let body: Value = answer.json().await.expect("JSON");
    assert_eq!(message_of(&body), "anthropic-version: header is required");
    // The newest version accepts keys as bearer tokens, and no sampling parameters.
    for (change, status) in [(json!({}), 200), (json!({"temperature": 1.0}), 400)] {
        let mut body = hello(Protocol::Messages, OLD_CLAUDE);
        merge(&mut body, &change);
        let answer = client
            .post(format!("{}/v1/messages", server.anthropic_url()))
            .bearer_auth(ANTHROPIC_KEY)
            .header("anthropic-version", "2026-10-21")
            .json(&body)
            .send()
            .await
            .expect("an answer");
        assert_eq!(answer.status(), status, "{change}");
    }
}

#[tokio::test]
async fn an_unknown_or_retired_model_is_not_found() {
    let server = Providers::start().await.expect("a stand-in");
    for (protocol, retired) in [
        (Protocol::Chat, "gpt-4-turbo"),
        (Protocol::Responses, "o1"),
        (Protocol::Messages, "claude-3-5-haiku"),
        (Protocol::Gemini, "gemini-2.0-flash"),
    ] {
        for model in [retired, "no-such-model"] {
            let (status, body) = send(&server, protocol, model, &hello(protocol, model)).await;
            assert_eq!(status, 404, "{model}: {body}");
            assert_shape(protocol, 404, &body);
            assert!(message_of(&body).contains(model), "{body}");
        }
    }
}

#[tokio::test]
async fn failures_that_a_script_wants_have_their_providers_shape() {
    let server = Providers::start().await.expect("a stand-in");
    for (protocol, model, status, kind) in [
        (Protocol::Chat, GPT, 429, "requests"),
        (Protocol::Responses, GPT, 500, "server_error"),
        (Protocol::Messages, CLAUDE, 529, "overloaded_error"),
        (Protocol::Gemini, GEMINI, 503, "UNAVAILABLE"),
    ] {
        server.script("", [Turn::status(status)]);
        let (got, body) = send(&server, protocol, model, &hello(protocol, model)).await;
        assert_eq!(got, status);
        assert_shape(protocol, status, &body);
        let error = &body["error"];
        assert!(error["type"] == kind || error["status"] == kind, "{body}");
    }
}

#[tokio::test]
async fn prompts_are_cached_and_priced_by_each_providers_rules() {
    let long = "A tool that answers questions about packages. ".repeat(200);
    let server = Providers::start().await.expect("a stand-in");
    let system = json!([{"type": "text", "text": long, "cache_control": {"type": "ephemeral"}}]);
    let mut request = hello(Protocol::Messages, CLAUDE);
    for cached in [false, true] {
        if cached {
            request["system"] = system.clone();
        } else {
            request["system"] = json!(long);
        }
        for _ in 0..2 {
            send(&server, Protocol::Messages, CLAUDE, &request).await;
        }
    }
    for _ in 0..2 {
        let mut request = hello(Protocol::Gemini, GEMINI);
        request["systemInstruction"] = json!({"parts": [{"text": long.repeat(3)}]});
        send(&server, Protocol::Gemini, GEMINI, &request).await;
    }
    for (explicit, model) in [(false, GPT), (true, GPT), (false, OLD_GPT)] {
        for _ in 0..2 {
            let mut request = json!({"model": model, "instructions": long, "input": "hello"});
            if explicit {
                request["prompt_cache_options"] = json!({"mode": "explicit"});
            }
            send(&server, Protocol::Responses, model, &request).await;
        }
    }
    let calls: Vec<(u64, u64, f64)> = server
        .recorded()
        .iter()
        .map(|call| match &call.outcome {
            Outcome::Answered { tokens, usd, .. } => (tokens.cached, tokens.cache_write, usd.expect("a price")),
            other => panic!("{other:?}"),
        })
        .collect();
    let hits: Vec<(bool, bool)> = calls
        .iter()
        .map(|(read, written, _)| (*read > 0, *written > 0))
        .collect();
    assert_eq!(
        hits,
        [
            // Anthropic: only with a breakpoint is the cache written and read.
            (false, false),
            (false, false),
            (false, true),
            (true, false),
            // Gemini: automatic, free of charge.
            (false, false),
            (true, false),
            // OpenAI since 5.6: automatic, unless the mode is explicit and nothing is marked; before, automatic and
            // free.
            (false, true),
            (true, false),
            (false, false),
            (false, false),
            (false, false),
            (true, false),
        ]
    );
    let usd = |call: usize| calls[call].2;
    assert!(usd(2) > usd(0) && usd(3) < usd(0) / 3.0, "{calls:?}");
}

#[tokio::test]
async fn conversations_that_run_in_parallel_keep_their_turns() {
    let server = Providers::start().await.expect("a stand-in");
    for name in ["first", "second"] {
        server.script(name, (0..3).map(|turn| Turn::text(format!("{name} {turn}"))));
    }
    let ask = async |name: &str, turn: usize| {
        let body =
            json!({"model": GPT, "messages": [{"role": "system", "content": name}, {"role": "user", "content": "go"}]});
        let (_, answer) = send(&server, Protocol::Chat, GPT, &body).await;
        assert_eq!(answer["choices"][0]["message"]["content"], format!("{name} {turn}"));
    };
    for turn in 0..3 {
        tokio::join!(ask("first", turn), ask("second", turn));
    }
    assert_eq!(server.left(), 0);
}
