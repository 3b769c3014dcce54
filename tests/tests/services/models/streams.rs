//! The model layer against a scripted server: what the executor receives when a provider answers.
//! (When it stumbles or dies: `stream_failures`.)

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use rejoin_model_client::name::ModelSettings;
use rejoin_model_client::registry::Models;
use rejoin_model_client::retry::RetryPolicy;
use rejoin_model_client::{
    Chunk, Finish, Message, ModelError, ModelRequest, ModelStream, Provider, Reasoning, ReasoningPart, ToolCall, Usage,
};
use rejoin_tests::model_server::{ModelServer, Reply};
use rejoin_tools::ToolSpec;
use serde_json::json;
use tokio::sync::Notify;

const MODEL: &str = "openai:scripted-medium";
pub(super) const LIMIT: Duration = Duration::from_secs(10);

pub(super) fn provider(settings: ModelSettings) -> Arc<dyn Provider> {
    let models = Models::new(settings).expect("the models");
    models.resolve(Some(MODEL)).expect("the scripted model").provider
}

pub(super) fn request(text: &str) -> ModelRequest {
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

pub(super) async fn read(stream: ModelStream) -> (Vec<Chunk>, Option<ModelError>) {
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
pub(super) async fn ask(provider: &Arc<dyn Provider>, request: ModelRequest) -> (Vec<Chunk>, Option<ModelError>) {
    match tokio::time::timeout(LIMIT, provider.stream(request))
        .await
        .expect("the model answers")
    {
        Ok(stream) => read(stream).await,
        Err(error) => (Vec::new(), Some(error)),
    }
}

pub(super) fn text(chunks: &[Chunk]) -> String {
    chunks
        .iter()
        .filter_map(|chunk| match chunk {
            Chunk::Text(text) => Some(text.as_str()),
            Chunk::Reasoning(_) | Chunk::ToolCall(_) | Chunk::End { .. } => None,
        })
        .collect()
}

pub(super) fn quick() -> RetryPolicy {
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
