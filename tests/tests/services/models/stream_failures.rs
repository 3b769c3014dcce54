//! Providers that refuse, stumble or fall silent: what is repeated, and which error the executor receives.

use std::time::Duration;

use rejoin_model_client::name::{ModelSettings, Secret};
use rejoin_model_client::registry::Models;
use rejoin_model_client::retry::stream_with_retry;
use rejoin_tests::model_server::{ModelServer, Reply};
use rejoin_tests::ports::free_address;

use super::streams::{LIMIT, ask, provider, quick, read, request, text};

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
async fn a_cut_stream_is_distinguished_from_an_ended_one() {
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
    let address = free_address();
    let provider = provider(ModelSettings::openai_compatible(format!(
        "http://{address}/v1?key=very-secret"
    )));
    let (_, error) = ask(&provider, request("go")).await;
    let error = error.expect("an error");
    assert_eq!((error.code, error.retryable), ("model_unavailable", true));
    assert!(error.message.contains(&address.to_string()), "{}", error.message);
    assert!(!error.message.contains("very-secret"), "{}", error.message);
}
