//! The OpenAPI document: its content and completeness.
//!
//! After an intended change of the API: `INSTA_UPDATE=always make test ARGS="-- openapi"`, and review the snapshot's
//! diff.

use std::collections::HashSet;

use rejoin_tests::app::{AppOptions, TestApp};
use rejoin_tests::client::answer;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use uuid::Uuid;

/// Endpoints for operators without a key.
const OPEN: [&str; 3] = ["/livez", "/readyz", "/metrics"];
/// Protected by its secret address.
const BY_ADDRESS: &str = "/api/calendar-feeds/{file}";

fn document() -> Value {
    serde_json::to_value(rejoin_api::routes::document()).unwrap()
}

/// Returns method, path and description of every operation.
fn operations(document: &Value) -> Vec<(Method, String, Value)> {
    let mut operations = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let method: Method = method.to_uppercase().parse().unwrap();
            operations.push((method, path.clone(), operation.clone()));
        }
    }
    operations
}

#[test]
fn the_document_is_the_one_that_was_reviewed() {
    let mut document = document();
    // It differs in every release.
    document["info"]["version"] = json!("[version]");
    insta::assert_snapshot!("openapi", serde_json::to_string_pretty(&document).unwrap());
}

#[test]
fn every_operation_has_a_summary_and_a_name_of_its_own() {
    let document = document();
    let mut names = HashSet::new();
    for (method, path, operation) in operations(&document) {
        let text = |field: &str| operation[field].as_str().unwrap_or_default().to_owned();
        assert!(!text("summary").is_empty(), "{method} {path} has no summary");
        let name = text("operationId");
        assert!(!name.is_empty(), "{method} {path} has no operationId");
        assert!(names.insert(name.clone()), "{name} is not only {method} {path}");
        let segments = path.matches('{').count();
        let of_path = |parameter: &&Value| parameter["in"] == "path";
        let described = operation["parameters"]
            .as_array()
            .map_or(0, |all| all.iter().filter(of_path).count());
        assert_eq!(described, segments, "{method} {path} describes its segments");
        if !OPEN.contains(&path.as_str()) && path != BY_ADDRESS {
            assert!(operation["responses"]["401"].is_object(), "{method} {path} may refuse");
        }
    }
    assert!(names.len() > 40, "{names:?}");
}

#[test]
fn what_bodies_say_is_named_in_camel_case() {
    let document = document();
    for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
        let properties = schema["properties"].as_object().into_iter().flatten();
        for (property, _) in properties {
            assert!(!property.contains('_'), "{name}.{property}");
        }
    }
}

#[tokio::test]
async fn no_documented_route_opens_without_a_key() {
    let app = TestApp::with(AppOptions {
        workers: 0,
        ..AppOptions::default()
    })
    .await;
    let nobody = reqwest::Client::new();
    let served: Value = nobody
        .get(format!("{}/openapi.json", app.url()))
        .send()
        .await
        .unwrap()
        .json()
        .await
        .unwrap();
    assert_eq!(served, document());
    for (method, path, _) in operations(&served) {
        let mut url = format!("{}{path}", app.url());
        while let (Some(from), Some(to)) = (url.find('{'), url.find('}')) {
            url.replace_range(from..=to, &Uuid::now_v7().to_string());
        }
        let mut request = nobody.request(method.clone(), url);
        if method != Method::GET {
            request = request.json(&json!({}));
        }
        let response = request.send().await.unwrap();
        if OPEN.contains(&path.as_str()) {
            assert_eq!(response.status(), StatusCode::OK, "{method} {path}");
        } else if path == BY_ADDRESS {
            assert_eq!(response.status(), StatusCode::NOT_FOUND, "{method} {path}");
        } else {
            assert_eq!(
                response.headers()["content-type"],
                "application/problem+json",
                "{method} {path}"
            );
            let (status, problem) = answer(response).await;
            assert_eq!(
                (status, &problem["code"]),
                (StatusCode::UNAUTHORIZED, &json!("unauthorized")),
                "{method} {path}"
            );
        }
    }
}
