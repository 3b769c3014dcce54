//! Valid and invalid responses of a server: an unusable one is an error, never a vector.

use axum::http::StatusCode;
use axum::response::IntoResponse as _;
use axum::routing::post;
use axum::{Json, Router};
use rejoin_embeddings::{EmbedError, Embedder, EmbeddingsArgs, Endpoints};
use serde_json::{Value, json};

/// An embedder whose server responds with this.
async fn answering(status: StatusCode, answer: Value) -> Embedder {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = Router::new().route(
        "/v1/embeddings",
        post(move || std::future::ready((status, Json(answer)).into_response())),
    );
    tokio::spawn(async move { axum::serve(listener, router).await });
    at(format!("http://{address}/v1/"))
}

fn at(url: String) -> Embedder {
    let args = EmbeddingsArgs {
        embeddings: "openai:m@2".parse().unwrap(),
        embeddings_url: Some(url),
        ..EmbeddingsArgs::off()
    };
    Embedder::new(&args, &Endpoints::default())
}

fn texts() -> [String; 2] {
    ["a".to_owned(), "b".to_owned()]
}

#[tokio::test]
async fn vectors_come_in_the_order_of_texts_and_have_length_one() {
    let data = json!({"data": [{"index": 1, "embedding": [0.0, 2.0]}, {"index": 0, "embedding": [3.0, 4.0]}]});
    let embedder = answering(StatusCode::OK, data).await;
    assert_eq!(embedder.model(), Some("openai:m@2"));
    assert_eq!(embedder.embed(&texts()).await.unwrap(), [[0.6, 0.8], [0.0, 1.0]]);
    assert!(embedder.embed(&[]).await.unwrap().is_empty());
}

#[tokio::test]
async fn what_can_not_be_used_is_an_error() {
    let one = |embedding: Value| json!({"data": [{"embedding": embedding}, {"embedding": embedding}]});
    for answer in [
        json!({"data": []}),
        json!({"data": [{"embedding": [1.0, 0.0]}]}),
        json!({"data": [{"embedding": [1.0, 0.0]}, {"embedding": [1.0]}]}),
        json!({"vectors": []}),
        one(json!([])),
        one(json!([0.0, 0.0])),
        one(json!([1e38, 1e38])),
        one(json!([1.0, 0.0, 0.0])),
        one(json!("AAAA")),
    ] {
        let embedder = answering(StatusCode::OK, answer.clone()).await;
        let error = embedder.embed(&texts()).await.unwrap_err();
        assert!(matches!(error, EmbedError::Malformed(_)), "{answer}: {error}");
    }
}

#[tokio::test]
async fn a_refusal_is_quoted_and_an_absent_servers_address_is_not() {
    let embedder = answering(StatusCode::TOO_MANY_REQUESTS, json!("slow down")).await;
    match embedder.embed(&texts()).await.unwrap_err() {
        EmbedError::Refused { status: 429, reason } => assert!(reason.contains("slow down")),
        other => panic!("{other}"),
    }
    // The port was free a moment ago.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let error = at(format!("http://{address}/v1")).embed(&texts()).await.unwrap_err();
    assert!(
        matches!(error, EmbedError::Unreachable(_)) && !format!("{error:?}").contains("/v1/embeddings"),
        "{error:?}"
    );
}
