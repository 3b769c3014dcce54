//! The model layer against a scripted server: what the executor receives when a provider answers, stumbles or dies.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use rejoin_model_client::name::{ModelSettings, Secret};
use rejoin_model_client::registry::Models;
use rejoin_model_client::retry::{RetryPolicy, stream_with_retry};
use rejoin_model_client::{
    Chunk, Finish, Message, ModelError, ModelRequest, ModelStream, Provider, Reasoning, ReasoningPart, ToolCall, Usage,
};
use rejoin_tests::model_server::{ModelServer, Reply};
use rejoin_tools::ToolSpec;
use serde_json::json;
use tokio::sync::Notify;

const MODEL: &str = "openai:scripted-medium";
const LIMIT: Duration = Duration::from_secs(10);

fn provider(settings: ModelSettings) -> Arc<dyn Provider> {
    let models = Models::new(settings).expect("the models");
    models.resolve(Some(MODEL)).expect("the scripted model").provider
}

fn request(text: &str) -> ModelRequest {
    ModelRequest {
        model: MODEL.to_owned(),
        system: "You test.".to_owned(),
        messages: vec![Message::user(text)],
        tools: Vec::new(),
        temperature: Some(0.0),
        max_tokens: Some(100),
        ..ModelRequest::default()
    }
}

fn tool(name: &str) -> ToolSpec {
    ToolSpec {
        name: name.to_owned(),
        description: "A tool.".to_owned(),
        parameters: json!({"type": "object", "properties": {"q": {"type": ["string", "null"]}}, "required": ["q"]})
            .into(),
        read_only: true,
        idempotent: true,
        destructive: false,
    }
}

async fn read(stream: ModelStream) -> (Vec<Chunk>, Option<ModelError>) {
    let items: Vec<_> = tokio::time::timeout(LIMIT, stream.collect())
        .await
        .expect("the stream ends");
    let mut chunks = Vec::new();
    let mut error = None;
    for item in items {
        assert!(error.is_none(), "something came after an error");
        match item {
            Ok(chunk) => chunks.push(chunk),
            Err(failure) => error = Some(failure),
        }
    }
    (chunks, error)
}

/// Makes one call: returns the chunks, and the final error.
async fn ask(provider: &Arc<dyn Provider>, request: ModelRequest) -> (Vec<Chunk>, Option<ModelError>) {
    match tokio::time::timeout(LIMIT, provider.stream(request))
        .await
        .expect("the model answers")
    {
        Ok(stream) => read(stream).await,
        Err(error) => (Vec::new(), Some(error)),
    }
}

fn text(chunks: &[Chunk]) -> String {
    chunks
        .iter()
        .filter_map(|chunk| match chunk {
            Chunk::Text(text) => Some(text.as_str()),
            Chunk::Reasoning(_) | Chunk::ToolCall(_) | Chunk::End { .. } => None,
        })
        .collect()
}

fn quick() -> RetryPolicy {
    RetryPolicy {
        min_delay: Duration::from_millis(1),
        jitter: false,
        ..RetryPolicy::default()
    }
}

#[tokio::test]
async fn a_text_arrives_word_by_word_and_ends_with_its_usage() {
    let server = ModelServer::start().await.expect("a server");
    server.script([Reply::text("one two three").reasoning("hm")]);
    let provider = provider(ModelSettings::openai_compatible(server.base_url()));
    let (chunks, error) = ask(&provider, request("go")).await;
    assert!(error.is_none(), "{error:?}");
    assert_eq!(
        chunks,
        [
            Chunk::Reasoning("hm".to_owned()),
            Chunk::Text("one ".to_owned()),
            Chunk::Text("two ".to_owned()),
            Chunk::Text("three".to_owned()),
            Chunk::End {
                usage: Usage {
                    input_tokens: 3,
                    output_tokens: 3,
                    ..Usage::default()
                },
                finish: Finish::Stop,
                // A custom server: it may expect its reasoning back.
                reasoning: Reasoning::of(MODEL.to_owned(), vec![ReasoningPart::Text { text: "hm".to_owned() }]),
            },
        ]
    );
    let sent = &server.requests()[0];
    assert_eq!(sent["model"], "scripted-medium", "the name is sent as it was written");
    assert_eq!(sent["reasoning_effort"], json!(null));
    assert_eq!((&sent["temperature"], &sent["max_tokens"]), (&json!(0.0), &json!(100)));
    assert_eq!(server.violations(), Vec::<String>::new());
}

#[tokio::test]
async fn parallel_tool_calls_in_pieces_arrive_whole() {
    let server = ModelServer::start().await.expect("a server");
    server.script([
        Reply::text("Looking. ")
            .then_tool("search", json!({"q": "libssl3"}))
            .then_tool("count", json!({"q": null})),
        Reply::text("done"),
    ]);
    let provider = provider(ModelSettings::openai_compatible(server.base_url()));
    let mut request = request("go");
    request.tools = vec![tool("search"), tool("count")];
    let (chunks, error) = ask(&provider, request.clone()).await;
    assert!(error.is_none(), "{error:?}");
    let calls: Vec<ToolCall> = chunks
        .iter()
        .filter_map(|chunk| match chunk {
            Chunk::ToolCall(call) => Some(call.clone()),
            Chunk::Text(_) | Chunk::Reasoning(_) | Chunk::End { .. } => None,
        })
        .collect();
    let asked: Vec<_> = calls
        .iter()
        .map(|call| (call.name.as_str(), call.arguments.clone()))
        .collect();
    assert_eq!(
        asked,
        [("search", json!({"q": "libssl3"})), ("count", json!({"q": null}))]
    );
    assert!(
        matches!(
            chunks.last(),
            Some(Chunk::End {
                finish: Finish::ToolCalls,
                ..
            })
        ),
        "{chunks:?}"
    );

    request.messages.push(Message::Assistant {
        text: text(&chunks),
        tool_calls: calls.clone(),
        reasoning: None,
    });
    request.messages.extend(calls.iter().map(|call| Message::ToolResult {
        call_id: call.id.clone(),
        tool: call.name.clone(),
        content: "{}".to_owned(),
        is_error: false,
        attachments: Vec::new(),
    }));
    let (chunks, error) = ask(&provider, request).await;
    assert!(error.is_none(), "{error:?}");
    assert_eq!(text(&chunks), "done");
    assert_eq!(server.violations(), Vec::<String>::new());
}

#[tokio::test]
async fn broken_arguments_become_a_string_and_may_be_sent_back() {
    let server = ModelServer::start().await.expect("a server");
    server.script([Reply::tool_text("search", "{\"q\": ")]);
    let provider = provider(ModelSettings::openai_compatible(server.base_url()));
    let mut request = request("go");
    request.tools = vec![tool("search")];
    let (chunks, _) = ask(&provider, request.clone()).await;
    let Some(Chunk::ToolCall(call)) = chunks.first() else {
        panic!("no call: {chunks:?}");
    };
    assert_eq!(call.arguments, json!("{\"q\": "));
    request.messages.push(Message::Assistant {
        text: String::new(),
        tool_calls: vec![call.clone()],
        reasoning: None,
    });
    request.messages.push(Message::ToolResult {
        call_id: call.id.clone(),
        tool: call.name.clone(),
        content: "the arguments are not JSON".to_owned(),
        is_error: true,
        attachments: Vec::new(),
    });
    let (_, error) = ask(&provider, request).await;
    assert!(error.is_none(), "{error:?}");
    assert_eq!(server.violations(), Vec::<String>::new());
}

#[tokio::test]
async fn an_unanswered_tool_call_is_refused_by_a_strict_provider() {
    let server = ModelServer::start().await.expect("a server");
    let provider = provider(ModelSettings::openai_compatible(server.base_url()));
    let mut request = request("go");
    request.messages.push(Message::Assistant {
        text: String::new(),
        tool_calls: vec![ToolCall {
            id: "c1".to_owned(),
            name: "search".to_owned(),
            arguments: json!({}),
        }],
        reasoning: None,
    });
    request.messages.push(Message::user("and?"));
    let (_, error) = ask(&provider, request).await;
    let error = error.expect("a refusal");
    assert_eq!((error.code, error.retryable), ("model_rejected", false));
    assert_eq!(
        server.violations(),
        ["the tool call `c1` has no answer before message 3"]
    );
}

#[tokio::test]
async fn a_429_says_how_long_to_wait_and_the_repetition_succeeds() {
    let server = ModelServer::start().await.expect("a server");
    server.script([
        Reply::status(429).retry_after(1),
        Reply::status(500),
        Reply::text("at last"),
    ]);
    let provider = provider(ModelSettings::openai_compatible(server.base_url()));
    let mut retries = Vec::new();
    let stream = stream_with_retry(provider.as_ref(), request("go"), &quick(), |retry| {
        retries.push((retry.attempt, retry.error.code, retry.error.retry_after, retry.delay));
    })
    .await
    .expect("a stream");
    let (chunks, error) = read(stream).await;
    assert!(error.is_none(), "{error:?}");
    assert_eq!(text(&chunks), "at last");
    let second = Duration::from_secs(1);
    assert_eq!(
        retries,
        [
            (1, "model_rate_limited", Some(second), second),
            (2, "model_unavailable", None, Duration::from_millis(2)),
        ]
    );
    assert_eq!(server.requests().len(), 3);
}

#[tokio::test]
async fn retries_end_after_the_last_attempt_and_refusals_have_none() {
    let server = ModelServer::start().await.expect("a server");
    server.always("down", Reply::status(503));
    server.always("key", Reply::status(401));
    let mut settings = ModelSettings::openai_compatible(server.base_url());
    settings.openai.key = Some(Secret::new("sk-very-secret"));
    let provider = provider(settings);
    let error = stream_with_retry(provider.as_ref(), request("down"), &quick(), |_| {})
        .await
        .err()
        .expect("an error");
    assert_eq!((error.code, error.retryable), ("model_unavailable", true));
    assert_eq!(server.requests().len(), 4);
    let error = stream_with_retry(provider.as_ref(), request("key"), &quick(), |_| {})
        .await
        .err()
        .expect("an error");
    assert_eq!((error.code, error.retryable), ("model_key_rejected", false));
    assert!(
        error.message.contains("OPENAI_API_KEY") && !error.message.contains("very-secret"),
        "{}",
        error.message
    );
    assert_eq!(server.requests().len(), 5);
}

#[tokio::test]
async fn a_cut_stream_is_told_from_an_ended_one() {
    let server = ModelServer::start().await.expect("a server");
    server.script([Reply::cut_after(3), Reply::end_early_after(3)]);
    let provider = provider(ModelSettings::openai_compatible(server.base_url()));
    for kind in ["socket closed", "no end marker"] {
        let (chunks, error) = ask(&provider, request("go")).await;
        assert_eq!(text(&chunks), "t0 t1 t2 ", "{kind}");
        let error = error.expect(kind);
        assert_eq!(
            (error.code, error.retryable),
            ("model_stream_cut", true),
            "{kind}: {}",
            error.message
        );
    }
}

/// Sends a word in the protocol of Gemini or Ollama, then ends the response as if complete.
async fn half_an_answer(body: &'static str) -> (String, tokio::task::JoinHandle<()>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("its address"));
    let router = axum::Router::new().fallback(move || async move { body });
    let server = tokio::spawn(async move {
        let _ = axum::serve(listener, router).await;
    });
    (url, server)
}

#[tokio::test]
async fn gemini_and_ollama_streams_without_a_stop_reason_are_cut() {
    let (gemini, gemini_server) = half_an_answer(
        "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"Hel\"}],\"role\":\"model\"}}]}\n\n",
    )
    .await;
    let (ollama, ollama_server) =
        half_an_answer("{\"message\":{\"role\":\"assistant\",\"content\":\"Hel\"},\"done\":false}\n").await;
    let mut settings = ModelSettings {
        ollama_host: Some(ollama),
        ..ModelSettings::default()
    };
    settings.gemini.key = Some(Secret::new("key"));
    settings.gemini.base_url = Some(gemini);
    let models = Models::new(settings).expect("the models");
    for model in ["gemini-2.0-flash", "ollama:llama3.2"] {
        let provider = models.resolve(Some(model)).expect(model).provider;
        let (chunks, error) = ask(&provider, request("go")).await;
        assert_eq!(text(&chunks), "Hel", "{model}: {error:?}");
        let error = error.expect(model);
        assert_eq!(
            (error.code, error.retryable),
            ("model_stream_cut", true),
            "{model}: {}",
            error.message
        );
    }
    gemini_server.abort();
    ollama_server.abort();
}

#[tokio::test]
async fn a_failure_after_the_first_chunk_is_not_repeated() {
    let server = ModelServer::start().await.expect("a server");
    server.script([Reply::cut_after(1), Reply::text("never asked for")]);
    let provider = provider(ModelSettings::openai_compatible(server.base_url()));
    let stream = stream_with_retry(provider.as_ref(), request("go"), &quick(), |_| {})
        .await
        .expect("a stream");
    let (chunks, error) = read(stream).await;
    assert_eq!(text(&chunks), "t0 ");
    assert_eq!(error.expect("the cut").code, "model_stream_cut");
    assert_eq!(server.left(), 1);
}

#[tokio::test]
async fn a_malformed_chunk_is_a_protocol_error() {
    let server = ModelServer::start().await.expect("a server");
    server.script([Reply::malformed()]);
    let provider = provider(ModelSettings::openai_compatible(server.base_url()));
    let (chunks, error) = ask(&provider, request("go")).await;
    assert_eq!(text(&chunks), "t0 ");
    assert_eq!(error.expect("an error").code, "model_protocol");
}

#[tokio::test]
async fn a_model_that_falls_silent_is_given_up() {
    let server = ModelServer::start().await.expect("a server");
    server.script([Reply::hang(), Reply::hang_after(2)]);
    let mut settings = ModelSettings::openai_compatible(server.base_url());
    settings.idle_timeout = Duration::from_millis(100);
    let provider = provider(settings);
    for said in ["", "t0 t1 "] {
        let (chunks, error) = ask(&provider, request("go")).await;
        assert_eq!(text(&chunks), said);
        let error = error.expect("an error");
        assert_eq!((error.code, error.retryable), ("model_unavailable", true));
    }
    server
        .wait_for(LIMIT, |counts| counts.abandoned == 2)
        .await
        .expect("both calls closed");
}

#[tokio::test]
async fn a_server_that_is_not_there_is_unavailable_without_its_path() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its address");
    drop(listener);
    let provider = provider(ModelSettings::openai_compatible(format!(
        "http://{address}/v1?key=very-secret"
    )));
    let (_, error) = ask(&provider, request("go")).await;
    let error = error.expect("an error");
    assert_eq!((error.code, error.retryable), ("model_unavailable", true));
    assert!(error.message.contains(&address.to_string()), "{}", error.message);
    assert!(!error.message.contains("very-secret"), "{}", error.message);
}

#[tokio::test]
async fn a_missing_key_names_its_variable_unless_the_demo_stands_in() {
    let models = Models::new(ModelSettings::default()).expect("the models");
    for (model, variable) in [
        (Some("openai:gpt-4o"), "OPENAI_API_KEY"),
        (Some("claude-sonnet-4-5"), "ANTHROPIC_API_KEY"),
        (Some("vertex:gemini-2.0-flash"), "VERTEX_API_KEY"),
        (None, "GEMINI_API_KEY"),
    ] {
        let error = models.resolve(model).err().expect("no key is set");
        assert_eq!((error.code, error.retryable), ("model_key_missing", false));
        assert!(error.message.contains(variable), "{}", error.message);
    }
    assert_eq!(
        models.resolve(Some("ollama:llama3.2")).expect("needs no key").name,
        "ollama:llama3.2"
    );

    let settings = ModelSettings {
        demo_fallback: true,
        demo_word_pause: Duration::ZERO,
        ..ModelSettings::default()
    };
    let demo = Models::new(settings)
        .expect("the models")
        .resolve(None)
        .expect("the stand-in");
    assert_eq!(demo.name, "demo:graph");
    let (chunks, _) = read(demo.provider.stream(request("hello")).await.expect("a stream")).await;
    assert!(
        text(&chunks).starts_with("Demo model (rule-based, no language model): "),
        "{}",
        text(&chunks)
    );
}

#[tokio::test]
async fn the_base_url_works_with_and_without_a_last_slash() {
    let server = ModelServer::start().await.expect("a server");
    for url in [server.base_url().to_owned(), format!("{}/", server.base_url())] {
        server.script([Reply::text("here")]);
        let provider = provider(ModelSettings::openai_compatible(&url));
        let (chunks, error) = ask(&provider, request("go")).await;
        assert!(error.is_none(), "{url}: {error:?}");
        assert_eq!(text(&chunks), "here");
    }
}

#[tokio::test]
async fn dropping_the_stream_closes_the_call_upstream() {
    let server = ModelServer::start().await.expect("a server");
    let gate = Arc::new(Notify::new());
    server.script([Reply::text("one two three four").gate(gate)]);
    let provider = provider(ModelSettings::openai_compatible(server.base_url()));
    let mut stream = provider.stream(request("go")).await.expect("a stream");
    assert_eq!(
        stream.next().await.expect("a chunk").expect("no error"),
        Chunk::Text("one ".to_owned())
    );
    assert_eq!(server.counts().abandoned, 0);
    drop(stream);
    server
        .wait_for(LIMIT, |counts| counts.abandoned == 1)
        .await
        .expect("the call closed");
}

#[tokio::test]
async fn parallel_conversations_keep_their_replies_apart() {
    let server = ModelServer::start().await.expect("a server");
    server.on("alpha", [Reply::text("for alpha")]);
    server.on("beta", [Reply::text("for beta")]);
    let provider = provider(ModelSettings::openai_compatible(server.base_url()));
    let ask = async |question: &str| {
        let (chunks, _) = ask(&provider, request(question)).await;
        text(&chunks)
    };
    let (beta, alpha) = tokio::join!(ask("beta?"), ask("alpha?"));
    assert_eq!((alpha.as_str(), beta.as_str()), ("for alpha", "for beta"));
    assert_eq!(ask("gamma?").await, "unscripted: gamma?");
}
