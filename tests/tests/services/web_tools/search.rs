//! Web search against fake providers that behave, and fail, like the real ones.

use std::convert::Infallible;

use axum::body::{Body, Bytes};
use axum::http::StatusCode;
use axum::response::IntoResponse;
use futures::stream;
use rejoin_egress::fetch::MAX_BYTES;
use rejoin_integrations::web_settings::{self, Provider, WebSettings};
use rejoin_secrets::MasterKeys;
use rejoin_tests::app::{AppOptions, TestApp};
use rejoin_tests::mcp::{SECRET_KEYS, secret_keys_file};
use rejoin_tests::support;
use rejoin_tests::web::{PLACE, Project, Site, to};
use rejoin_web_search::tools::NOTICE;
use serde_json::{Value, json};

/// A project that searches with a fake provider.
async fn searching(provider: Provider, site: &Site) -> Project {
    Project::with(WebSettings {
        provider: Some(provider),
        base_url: Some(site.url.clone()),
        key_secret: Some("SEARCH_KEY".to_owned()),
        blocked_domains: vec!["blocked.example".to_owned()],
        ..WebSettings::default()
    })
    .await
}

const THOROUGH: &str = r#"{"query": "rust", "search_depth": "advanced", "max_results": 2, "include_answer": true,
                           "include_domains": ["a.example"], "exclude_domains": ["x.a.example"]}"#;

fn thorough() -> Value {
    serde_json::from_str(THOROUGH).expect("JSON")
}

/// Requirements: E08.
#[tokio::test]
async fn tavily_is_asked_as_it_wants_to_be() {
    let site = Site::start(|_, _| {
        let results = json!({"answer": "It is a language.", "results": [
            {"title": "One", "url": "https://a.example/1", "content": "about rust", "score": 0.9, "raw_content": null},
            {"title": "Not let", "url": "https://blocked.example/", "content": ""},
            {"title": "Two", "url": "https://www.a.example/2", "content": "more", "score": 0.5}]});
        axum::Json(results).into_response()
    })
    .await;
    let project = searching(Provider::Tavily, &site).await;
    let found = project.call("web_search", thorough()).await.unwrap();
    assert_eq!(
        found,
        json!({"query": "rust", "provider": "tavily", "notice": NOTICE, "answer": "It is a language.", "results": [
            {"title": "One", "url": "https://a.example/1", "content": "about rust", "score": 0.9},
            {"title": "Two", "url": "https://www.a.example/2", "content": "more", "score": 0.5}]})
    );
    let (what, headers, body) = site.asked().pop().unwrap();
    assert_eq!(
        (what.as_str(), &headers["authorization"]),
        ("POST /search", &"Bearer the key".parse().unwrap())
    );
    let mut sent = thorough();
    sent["search_depth"] = json!("advanced");
    assert_eq!(serde_json::from_slice::<Value>(&body).unwrap(), sent);
}

/// Requirements: E08.
#[tokio::test]
async fn brave_is_asked_as_it_wants_to_be() {
    let site = Site::start(|_, _| {
        let results = json!({"type": "search", "web": {"results": [
            {"title": "One", "url": "https://a.example/1", "description": "about rust", "extra_snippets": ["and more"]}]}});
        axum::Json(results).into_response()
    })
    .await;
    let project = searching(Provider::Brave, &site).await;
    let found = project.call("web_search", thorough()).await.unwrap();
    assert_eq!(
        found["results"],
        json!([{"title": "One", "url": "https://a.example/1", "content": "about rust\nand more"}])
    );
    assert_eq!(found["provider"], "brave");
    let (what, headers, _) = site.asked().pop().unwrap();
    assert!(
        what.starts_with("GET /res/v1/web/search?q=rust+site%3Aa.example+-site%3Ax.a.example&count=2"),
        "{what}"
    );
    assert_eq!(headers["x-subscription-token"], "the key");
    // Finding nothing is no failure.
    let silent = Site::start(|_, _| axum::Json(json!({"type": "search"})).into_response()).await;
    let project = searching(Provider::Brave, &silent).await;
    assert_eq!(
        project.call("web_search", json!({"query": "x"})).await.unwrap()["results"],
        json!([])
    );
}

/// Requirements: E08.
#[tokio::test]
async fn searxng_is_asked_as_it_wants_to_be() {
    let site = Site::start(|_, _| {
        let results = json!({"results": [{"title": "One", "url": "https://a.example/1", "content": null, "score": 2.5}],
                             "answers": [{"answer": "It is a language."}]});
        axum::Json(results).into_response()
    })
    .await;
    let project = searching(Provider::Searxng, &site).await;
    let found = project.call("web_search", thorough()).await.unwrap();
    assert_eq!(
        found["results"],
        json!([{"title": "One", "url": "https://a.example/1", "content": "", "score": 2.5}])
    );
    assert_eq!(found["answer"], "It is a language.");
    assert!(site.paths()[0].starts_with("GET /search?q=rust"), "{:?}", site.paths());
    assert!(site.paths()[0].ends_with("&format=json"), "{:?}", site.paths());
}

/// Requirements: E08.
#[tokio::test]
async fn a_failing_provider_is_reported_without_its_key() {
    let site = Site::start(|what, _| {
        let status = |code: u16| (StatusCode::from_u16(code).expect("a status"), "the key").into_response();
        let query = what
            .split("q=")
            .nth(1)
            .and_then(|rest| rest.split('&').next())
            .unwrap_or_default();
        match query {
            "429" => (StatusCode::TOO_MANY_REQUESTS, [("retry-after", "7")]).into_response(),
            "garbage" => "<html>the key</html>".into_response(),
            "huge" => "a".repeat(MAX_BYTES + 1).into_response(),
            "away" => to("http://127.0.0.1/"),
            "drip" => Body::from_stream(stream::pending::<Result<Bytes, Infallible>>()).into_response(),
            code => status(code.parse().expect("a status")),
        }
    })
    .await;
    let project = searching(Provider::Brave, &site).await;
    for (query, words) in [
        ("401", "rejected the project's API key"),
        ("403", "rejected the project's API key"),
        ("429", "rate limit was reached; retry in 7 seconds"),
        ("500", "responded with status 500"),
        ("garbage", "invalid response"),
        ("huge", "larger than"),
        ("away", "responded with status 302"),
        ("drip", "timed out"),
    ] {
        let refusal = project.call("web_search", json!({"query": query})).await.unwrap_err();
        assert!(
            refusal.contains(words) && !refusal.contains("the key"),
            "{query}: {refusal}"
        );
    }
    for (arguments, words) in [
        (json!({"query": "  "}), "query is empty"),
        (json!({"query": "x".repeat(401)}), "at most 400 characters"),
        (
            json!({"query": "x", "include_domains": ["https://a.b/"]}),
            "is not a domain",
        ),
        (json!({"query": "x", "search_depth": "deepest"}), "basic or advanced"),
    ] {
        let refusal = project.call("web_search", arguments).await.unwrap_err();
        assert!(refusal.contains(words), "{refusal}");
    }
    let deleted = sqlx::query("delete from kb.secrets")
        .execute(&project.db.pool)
        .await
        .unwrap();
    assert_eq!(deleted.rows_affected(), 1);
    let refusal = project.call("web_search", json!({"query": "401"})).await.unwrap_err();
    assert!(refusal.contains("secret SEARCH_KEY"), "{refusal}");
}

/// Requirements: E08.
#[tokio::test]
async fn a_worker_tests_the_provider_and_reports_why_it_fails() {
    let site = Site::start(
        |_, headers| match headers.get("authorization").map(|key| key.as_bytes()) {
            Some(b"Bearer s3cret") => axum::Json(json!({"results": [
            {"title": "One", "url": "https://a.example/1", "content": ""},
            {"title": "Two", "url": "https://b.example/2", "content": ""}]}))
            .into_response(),
            _ => StatusCode::UNAUTHORIZED.into_response(),
        },
    )
    .await;
    let app = TestApp::with(AppOptions {
        worker: |config| {
            config.web.web_hosts = vec![PLACE.to_owned()];
            config.mcp.keys.secret_keys_file = Some(secret_keys_file().into());
        },
        ..AppOptions::default()
    })
    .await;
    let client = app.client();
    let path = format!("/api/admin/projects/{}/web", app.db.workspace_id);
    let test = async || client.post(&format!("{path}/test"), json!({})).await;
    let (status, problem) = test().await;
    assert_eq!(
        (status, &problem["code"]),
        (StatusCode::CONFLICT, &json!("no_search_provider"))
    );
    let settings = json!({"provider": "tavily", "baseUrl": site.url, "keySecret": "SEARCH_KEY"});
    let (status, on) = client.put(&path, settings.clone()).await;
    assert_eq!(status, StatusCode::OK, "{on}");
    let keys = MasterKeys::parse(SECRET_KEYS).unwrap();
    let set = async |value: &str| support::set_secret(&app.db, &keys, "SEARCH_KEY", value).await;
    let failed = async |words: &str| {
        let (status, tested) = test().await;
        assert_eq!(
            (status, &tested["ok"], &tested["found"]),
            (StatusCode::OK, &json!(false), &Value::Null)
        );
        let failure = tested["failure"].as_str().unwrap();
        assert!(failure.contains(words) && !failure.contains("wrong-one"), "{failure}");
    };
    failed("set the secret SEARCH_KEY").await;
    set("wrong-one").await;
    failed("rejected the project's API key").await;
    set("s3cret").await;
    let (status, tested) = test().await;
    assert_eq!((status, &tested["ok"]), (StatusCode::OK, &json!(true)), "{tested}");
    assert_eq!(
        (&tested["provider"], &tested["found"], &tested["failure"]),
        (&json!("tavily"), &json!(2), &Value::Null)
    );
    // The result belongs to the settings at that time.
    client.put(&path, settings).await;
    let again = web_settings::last_try(&app.db.pool, app.db.workspace_id).await.unwrap();
    assert_eq!(again, None);
}
