//! Imports and exports of the graph over HTTP.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use rejoin_tests::graph_api::{FILE, Graph};

/// Returns the lines' content, without ids and empty fields.
fn said(lines: &str) -> Vec<Value> {
    let said = lines.lines().map(|line| {
        let mut line: Value = serde_json::from_str(line).unwrap();
        let fields = line.as_object_mut().unwrap();
        fields.remove("id");
        if let Some(name) = fields.remove("name") {
            fields.entry("properties").or_insert_with(|| json!({}))["name"] = name;
        }
        fields.retain(|_, value| !value.is_null() && value != &json!({}) && value != &json!([]));
        line
    });
    said.collect()
}

#[tokio::test]
async fn an_export_gives_back_what_was_imported() {
    let graph = Graph::start().await;
    assert_eq!(graph.export().await, "");
    let (status, report) = graph.import("", FILE).await;
    assert_eq!(status, StatusCode::OK, "{report}");
    let numbers = ["lines", "objects", "relationships", "created", "updated", "unchanged"]
        .map(|name| report[name].as_u64().unwrap());
    assert_eq!((numbers, &report["badLines"]), ([6, 4, 2, 6, 0, 0], &json!([])));
    let exported = graph.export().await;
    assert_eq!(said(&exported), said(FILE));
    // Again, and from its own export: nothing changes.
    for lines in [FILE.to_owned(), exported.clone()] {
        let (_, report) = graph.import("", lines).await;
        assert_eq!(
            (&report["created"], &report["updated"], &report["unchanged"]),
            (&json!(0), &json!(0), &json!(6))
        );
    }
    assert_eq!(graph.export().await, exported);
}

#[tokio::test]
async fn bad_lines_are_named_and_refuse_the_import_or_are_skipped() {
    let graph = Graph::start().await;
    let lost = r#"{"kind":"relationship","type":"R","source":{"type":"Package","key":"curl"},"target":{"type":"Package","key":"gone"}}"#;
    let lines = format!("{FILE}not json\n\n{lost}\n");
    let numbers = |body: &Value| -> Vec<u64> {
        body["badLines"]
            .as_array()
            .unwrap()
            .iter()
            .map(|bad| bad["line"].as_u64().unwrap())
            .collect()
    };
    for query in ["", "?onError=refuse"] {
        let (status, problem) = graph.import(query, lines.clone()).await;
        assert_eq!(
            (status, &problem["code"]),
            (StatusCode::UNPROCESSABLE_ENTITY, &json!("import_refused"))
        );
        assert_eq!((numbers(&problem), &problem["badLineCount"]), (vec![7, 9], &json!(2)));
        assert!(
            problem["badLines"][0]["reason"]
                .as_str()
                .unwrap()
                .starts_with("not JSON"),
            "{problem}"
        );
        assert_eq!(graph.get("types").await["total"], 0);
    }
    let (status, report) = graph.import("?onError=skip", lines).await;
    assert_eq!(
        (status, numbers(&report), &report["created"]),
        (StatusCode::OK, vec![7, 9], &json!(6))
    );
    assert_eq!(graph.import("?onError=perhaps", FILE).await.1["code"], "invalid_query");
}

#[tokio::test]
async fn an_upload_may_be_larger_than_other_bodies_up_to_its_limit() {
    let graph = Graph::with(|config| config.max_import_bytes = 3 * 1024 * 1024).await;
    let line = |n: usize| {
        format!(
            "{{\"kind\":\"object\",\"type\":\"T\",\"key\":\"k{n}\",\"properties\":{{\"text\":\"{}\"}}}}\n",
            "x".repeat(1_000)
        )
    };
    let chunks = |count: usize| futures::stream::iter((0..count).map(move |n| Ok::<_, std::io::Error>(line(n))));
    // 2 MiB in pieces, without a length.
    let (status, report) = graph.import("", reqwest::Body::wrap_stream(chunks(2_000))).await;
    assert_eq!(
        (status, &report["created"]),
        (StatusCode::OK, &json!(2_000)),
        "{report}"
    );
    let (status, problem) = graph.import("", "\n".repeat(3 * 1024 * 1024 + 1)).await;
    assert_eq!(
        (status, &problem["code"]),
        (StatusCode::PAYLOAD_TOO_LARGE, &json!("body_too_large"))
    );
    let endless = graph
        .client
        .request(Method::POST, &graph.path("import"))
        .body(reqwest::Body::wrap_stream(chunks(5_000)));
    // The response may arrive while we still send; then the connection closes.
    if let Ok(response) = endless.send().await {
        assert_eq!(response.status(), StatusCode::PAYLOAD_TOO_LARGE);
    }
    assert_eq!(graph.get("types").await["total"], 2_000);
    let request = graph
        .client
        .request(Method::POST, &graph.path("import"))
        .header("content-encoding", "gzip")
        .body("x");
    assert_eq!(
        request.send().await.unwrap().status(),
        StatusCode::UNSUPPORTED_MEDIA_TYPE
    );
}
