//! The OpenAPI document: its content and completeness.
//!
//! After an intended change of the API: `INSTA_UPDATE=always make test ARGS="-- openapi"`, and review the snapshot's
//! diff.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use rejoin_http::authorization::Access;
use rejoin_tests::app::{AppOptions, TestApp};
use rejoin_tests::client::answer;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use uuid::Uuid;

use super::layout::{MEMBERS, sources};

/// Endpoints for operators without a key, the ways to sign in, and what an authorization server reads of this client.
const OPEN: [&str; 5] = ["/livez", "/readyz", "/metrics", "/api/mcp-client", "/api/sign-in"];
/// Steps of a sign-in at an identity provider, where none is configured.
const AT_PROVIDER: [&str; 3] = [
    "/api/sign-in/sso",
    "/api/sign-in/sso/callback",
    "/api/sign-in/sso/back-channel-logout",
];
/// Protected by their secret addresses.
const BY_ADDRESS: [&str; 4] = [
    "/api/calendar-feeds/{file}",
    "/api/shared/{token}",
    "/api/shared/{token}/files/{id}",
    "/api/shared/{token}/messages",
];

/// Columns of the manual's table.
const METHODS: [&str; 5] = ["GET", "POST", "PUT", "PATCH", "DELETE"];

/// Schemas with the names of other protocols, or of earlier chat pages.
const OTHERS_NAMES: [&str; 4] = ["Operation", "ContextShift", "ContextShiftEvent", "McpClientDocument"];

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

/// Of two schemas with the same name, the document would keep one, for the operations of both.
#[test]
fn every_schema_has_a_unique_name() {
    let mut places = BTreeMap::<String, String>::new();
    for member in MEMBERS.iter().filter(|member| !member.starts_with("tests")) {
        for (file, text) in sources(&format!("{member}/src")) {
            let mut lines = text.lines();
            while lines
                .by_ref()
                .any(|line| line.trim_start().starts_with("#[derive(") && line.contains("ToSchema"))
            {
                let mut renamed = None;
                let name = lines.by_ref().find_map(|line| {
                    if let Some((_, rest)) = line.split_once("schema(as = ") {
                        renamed = rest.split([')', ',']).next().map(str::to_owned);
                    }
                    let (_, rest) = line.split_once("struct ").or_else(|| line.split_once("enum "))?;
                    rest.split(|c: char| !c.is_alphanumeric()).next().map(str::to_owned)
                });
                let name = renamed.or(name).expect("a type follows its attributes");
                if let Some(other) = places.insert(name.clone(), file.clone()) {
                    panic!("the schema {name} is in {other} and in {file}: `#[schema(as = …)]` gives one another name");
                }
            }
        }
    }
    assert!(places.len() > 200, "{}", places.len());
}

#[test]
fn every_operation_has_a_summary_and_a_unique_name() {
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
        if !OPEN.contains(&path.as_str())
            && !AT_PROVIDER.contains(&path.as_str())
            && !BY_ADDRESS.contains(&path.as_str())
        {
            assert!(operation["responses"]["401"].is_object(), "{method} {path} may refuse");
        }
    }
    assert!(names.len() > 40, "{names:?}");
}

/// What an operation's security requirement says of who may call it, in the manual's words.
fn required(operation: &Value) -> String {
    let mut words = Vec::new();
    for requirement in operation["security"].as_array().unwrap() {
        match requirement.as_object().unwrap().iter().next() {
            None => words.push("none".to_owned()),
            Some((_, scopes)) => words.push(scopes[0].as_str().unwrap().to_owned()),
        }
    }
    words.dedup();
    words.join(" or ")
}

#[test]
fn code_document_and_manual_agree_on_who_may_call_operations() {
    let document = document();
    let mut documented: HashSet<(String, String)> = operations(&document)
        .into_iter()
        .map(|(method, path, _)| (method.to_string(), path))
        .collect();
    let mut undocumented = Vec::new();
    let mut rows: BTreeMap<String, [String; 5]> = BTreeMap::new();
    for (path, method, access) in rejoin_api::routes::access().iter() {
        let (words, requirement) = match access {
            Access::Public => ("public".to_owned(), "none".to_owned()),
            Access::SignedBody => ("a signed body".to_owned(), "none".to_owned()),
            Access::Scope(scope) => (format!("`{}`", scope.as_str()), scope.as_str().to_owned()),
            Access::ScopeOrTicket(scope) => (
                format!("`{}`, or a ticket", scope.as_str()),
                format!("{} or none", scope.as_str()),
            ),
            Access::ScopeOrCode(scope) => (
                format!("`{}`, or a code", scope.as_str()),
                format!("{} or none", scope.as_str()),
            ),
        };
        let row = rows.entry(path.to_owned()).or_default();
        for (cell, column) in row.iter_mut().zip(METHODS) {
            if method.is_none_or(|method| method.as_str() == column) {
                cell.clone_from(&words);
            }
        }
        let Some(method) = method.filter(|method| documented.remove(&(method.to_string(), path.to_owned()))) else {
            undocumented.push(path.to_owned());
            continue;
        };
        let operation = &document["paths"][path][method.as_str().to_lowercase()];
        assert_eq!(required(operation), requirement, "{method} {path}");
    }
    assert!(documented.is_empty(), "nothing declares who may call {documented:?}");
    // A path with a slash at the end is that without it.
    let expected = [
        "/api/a2a/",
        "/api/a2a/agents/{agent}/",
        "/api/docs",
        "/mcp",
        "/openapi.json",
    ];
    assert_eq!(undocumented, expected);
    let mut table = format!(
        "| path | {} |\n|{}\n",
        METHODS.join(" | "),
        " --- |".repeat(1 + METHODS.len())
    );
    for (path, row) in rows {
        table.push_str(&format!("| `{path}` | {} |\n", row.join(" | ")));
    }
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/operations/identity.md");
    let text = std::fs::read_to_string(&file).unwrap();
    let (begin, end) = ("<!-- scopes -->\n", "<!-- /scopes -->");
    let (head, rest) = text.split_once(begin).expect("where the table begins");
    let (_, tail) = rest.split_once(end).expect("where the table ends");
    let right = format!("{head}{begin}{table}{end}{tail}");
    if std::env::var("INSTA_UPDATE").is_ok_and(|update| update == "always") {
        std::fs::write(&file, right).unwrap();
    } else {
        assert!(
            text == right,
            "docs/operations/identity.md is out of date: run this test with INSTA_UPDATE=always"
        );
    }
}

#[test]
fn what_bodies_say_is_named_in_camel_case() {
    let document = document();
    for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
        if name.starts_with("OpenAi") || OTHERS_NAMES.contains(&name.as_str()) {
            continue;
        }
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
        } else if BY_ADDRESS.contains(&path.as_str()) || AT_PROVIDER.contains(&path.as_str()) {
            assert_eq!(response.status(), StatusCode::NOT_FOUND, "{method} {path}");
        } else if path.starts_with("/v1/") {
            let (status, said) = answer(response).await;
            let error = (&said["error"]["type"], &said["error"]["code"]);
            assert_eq!(
                (status, error),
                (
                    StatusCode::UNAUTHORIZED,
                    (&json!("authentication_error"), &json!("invalid_api_key"))
                ),
                "{method} {path}"
            );
        } else {
            let media_type = match (path.starts_with("/api/a2a"), &method) {
                (true, &Method::GET) => "application/a2a+json",
                (true, _) => "application/json",
                (false, _) => "application/problem+json",
            };
            assert_eq!(response.headers()["content-type"], media_type, "{method} {path}");
            let (status, problem) = answer(response).await;
            // A response to HEAD has no body.
            let code = if method == "HEAD" {
                Value::Null
            } else {
                json!("unauthorized")
            };
            assert_eq!(
                (status, &problem["code"]),
                (StatusCode::UNAUTHORIZED, &code),
                "{method} {path}"
            );
        }
    }
}
