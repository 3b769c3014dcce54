//! Hostile imports, near the limits and beyond: graph lines, calendars, manifests, the operator's list of MCP commands.
//! They are accepted or refused with a reason; never a server error, and other requests are served meanwhile.

use std::convert::Infallible;
use std::fmt::Write as _;
use std::process::Command;
use std::time::{Duration, Instant};

use futures::{StreamExt as _, stream};
use rejoin_calendar::ical::MAX_COMPONENTS;
use rejoin_graph::import::{MAX_LINE_BYTES, MAX_REPORTED_BAD_LINES};
use rejoin_tests::app::{AppOptions, TestApp, binary};
use rejoin_tests::client::{Client, answer};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use rejoin_tests::graph_api::Graph;

/// Timeout of one import, on a slow machine without optimization.
const LIMIT: Duration = Duration::from_secs(60);

fn object(fields: &str) -> String {
    format!(r#"{{"kind":"object","type":"T",{fields}}}"#)
}

fn relationship(fields: &str) -> String {
    format!(
        r#"{{"kind":"relationship","type":"R","source":{{"type":"T","key":"a"}},"target":{{"type":"T","key":"a"}},{fields}}}"#
    )
}

#[tokio::test]
async fn hostile_graph_lines_are_bad_lines_and_others_are_taken() {
    let graph = Graph::start().await;
    let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    let hostile: Vec<Vec<u8>> = vec![
        b"\xff\xfe{}".to_vec(),
        b"{\"kind\":\"object\",\"type\":\"T\",\"key\":\"\xed\xa0\x80\"}".to_vec(),
        object(r#""key":"a\u0000b""#).into(),
        object("\"key\":\"a\0b\"").into(),
        object(r#""key":"\ud800""#).into(),
        object(r#""key":"b","properties":{"a\u0000":1}"#).into(),
        object(r#""key":"b","name":"a\u0000""#).into(),
        object(r#""key":"b","labels":["a\u0000"]"#).into(),
        object(r#""key":"b","status":"\u0000""#).into(),
        object(r#""key":"b","key":"c""#).into(),
        object(r#""key":"b","properties":{"x":1e999}"#).into(),
        object(&format!(r#""key":"{}""#, "k".repeat(100_000))).into(),
        object(&format!(r#""key":"b","properties":{{"x":{}}}"#, nested(100))).into(),
        object(&format!(r#""key":"b","properties":{{"x":{}}}"#, nested(200_000))).into(),
        object(&format!(r#""key":"b","labels":[{}]"#, vec!["\"l\""; 100_000].join(","))).into(),
        // Small here, but three hundred digits each in the database.
        object(&format!(
            r#""key":"b","properties":{{"x":[{}]}}"#,
            vec!["1e308"; 20_000].join(",")
        ))
        .into(),
        object(&format!(
            r#""key":"b","properties":{{"x":"{}"}}"#,
            "x".repeat(MAX_LINE_BYTES)
        ))
        .into(),
        relationship(r#""valid_from":"+262000-01-01T00:00:00Z""#).into(),
        relationship(r#""valid_to":"-0100-01-01T00:00:00Z""#).into(),
        relationship(r#""weight":1e999"#).into(),
        br#"{"kind":"relationship","type":"R","source":{"type":"T","key":"\u0000"},"target":{"type":"T","key":"a"}}"#
            .to_vec(),
        "[".repeat(500_000).into(),
        b"\x1f\x8b\x08\x00compressed".to_vec(),
    ];
    let mut lines = Vec::new();
    for line in &hostile {
        lines.extend_from_slice(line);
        lines.push(b'\n');
    }
    lines.extend_from_slice(object(r#""key":"a","properties":{"x":1,"x":2,"odd":"\u202e\u0007"}"#).as_bytes());
    let began = Instant::now();
    let (status, report) = graph.import("?onError=skip", lines.clone()).await;
    assert_eq!(status, StatusCode::OK, "{report}");
    let bad: Vec<usize> = report["badLines"]
        .as_array()
        .unwrap()
        .iter()
        .map(|bad| usize::try_from(bad["line"].as_u64().unwrap()).unwrap())
        .collect();
    let missed: Vec<String> = (1..=hostile.len())
        .filter(|line| !bad.contains(line))
        .map(|line| String::from_utf8_lossy(&hostile[line - 1]).chars().take(100).collect())
        .collect();
    assert!(missed.is_empty(), "taken: {missed:#?}");
    assert_eq!((bad.len(), &report["created"]), (hostile.len(), &json!(1)), "{report}");
    let (status, problem) = graph.import("", lines).await;
    assert_eq!(
        (status, &problem["code"]),
        (StatusCode::UNPROCESSABLE_ENTITY, &json!("import_refused"))
    );
    assert!(
        problem.to_string().len() < 100_000,
        "a bad line is told of, not sent back"
    );
    assert!(began.elapsed() < LIMIT, "{:?}", began.elapsed());
}

#[tokio::test]
async fn many_tiny_lines_are_counted_and_others_are_served_meanwhile() {
    let graph = Graph::with(|config| config.max_import_bytes = 8 * 1024 * 1024).await;
    // Two million bad lines, then as many empty ones.
    let lines = format!("{}{}", "{}\n".repeat(2_000_000), "\n".repeat(2_000_000));
    let count = 4_000_000_u64;
    // The end of the last line is sent when other requests have been answered: the import can't be over before.
    let (are_served, served) = oneshot::channel::<()>();
    let (all_but_one, last) = lines.split_at(lines.len() - 1);
    let body = stream::iter([Ok::<_, Infallible>(all_but_one.to_owned())]).chain(stream::once({
        let last = last.to_owned();
        async move {
            served.await.expect("the others are served");
            Ok(last)
        }
    }));
    let client = graph.client.clone();
    let others = async {
        for _ in 0..20 {
            assert_eq!(client.get("/api/me").await.0, StatusCode::OK);
        }
        are_served.send(()).expect("the import goes on");
    };
    let began = Instant::now();
    let body = reqwest::Body::wrap_stream(body);
    let ((status, report), ()) = tokio::join!(graph.import("?onError=skip", body), others);
    assert_eq!((status, &report["lines"]), (StatusCode::OK, &json!(count)), "{report}");
    assert_eq!(report["badLineCount"], 2_000_000);
    assert_eq!(report["badLines"].as_array().unwrap().len(), MAX_REPORTED_BAD_LINES);
    assert!(began.elapsed() < LIMIT, "{:?}", began.elapsed());
    // The same object many times, and rows with only a key.
    let same = format!("{}\n", object(r#""key":"same""#)).repeat(20_000);
    let (status, report) = graph.import("", same).await;
    assert_eq!((status, &report["created"]), (StatusCode::OK, &json!(1)), "{report}");
}

async fn calendar(client: &Client) -> String {
    let (status, made) = client
        .post("/api/calendars", json!({"name": "Work", "timeZone": "Europe/Berlin"}))
        .await;
    assert_eq!(status, StatusCode::CREATED, "{made}");
    format!("/api/calendars/{}/import", made["id"].as_str().unwrap())
}

async fn import(client: &Client, path: &str, file: impl Into<reqwest::Body>) -> (StatusCode, Value) {
    let request = client
        .request(Method::POST, path)
        .header("content-type", "text/calendar");
    answer(request.body(file).send().await.expect("an answer")).await
}

fn event(lines: &str) -> String {
    format!("BEGIN:VEVENT\r\n{lines}\r\nEND:VEVENT\r\n")
}

fn file(events: &str) -> String {
    format!("BEGIN:VCALENDAR\r\nVERSION:2.0\r\n{events}END:VCALENDAR\r\n")
}

#[tokio::test]
async fn a_hostile_calendar_is_judged_event_by_event_in_time() {
    let app = TestApp::start().await;
    let client = app.client();
    let path = calendar(&client).await;
    let start = "DTSTART:20260305T100000Z";
    let hostile = [
        format!("UID:rules\r\n{start}\r\nRRULE:FREQ=SECONDLY;BYSECOND=1;BYMINUTE=61;COUNT=999999999"),
        format!("UID:never\r\n{start}\r\nRRULE:FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=31"),
        format!(
            "UID:set\r\n{start}\r\nRRULE:FREQ=YEARLY;BYSETPOS={};BYDAY=MO",
            vec!["366"; 10_000].join(",")
        ),
        format!("UID:two\r\n{start}\r\nRRULE:FREQ=DAILY\r\nRRULE:FREQ=DAILY"),
        "UID:late\r\nDTSTART:99991231T235959Z\r\nDURATION:P99999999D".to_owned(),
        "UID:early\r\nDTSTART:00000101T000000Z".to_owned(),
        "UID:wrong\r\nDTSTART:20269999T999999Z".to_owned(),
        format!("UID:parameters\r\nDTSTART{}:20260305T100000Z", ";X=Y".repeat(15_000)),
        format!("UID:quotes\r\nDTSTART;TZID=\"{}:20260305T100000Z", "\"".repeat(60_000)),
        format!(
            "UID:exceptions\r\n{start}\r\nRRULE:FREQ=DAILY\r\nEXDATE:{}",
            vec!["20260306T100000Z"; 3_000].join(",")
        ),
        format!("UID:lines\r\n{start}\r\n{}", "DESCRIPTION:x\r\n".repeat(3_000)),
        format!("UID:folded\r\n{start}\r\nDESCRIPTION:{}", "\r\n x".repeat(100_000)),
        format!("{start}\r\nSUMMARY:no uid"),
    ];
    let odd = format!(
        "UID:nul\0\u{7}\r\n{start}\r\nSUMMARY:a\0\u{202E}b\r\nDESCRIPTION:{}",
        "d\0".repeat(100)
    );
    let again = format!("UID:good\r\n{start}\r\nSUMMARY:two\r\nSUMMARY:three");
    let mut events: String = hostile.iter().map(|lines| event(lines)).collect();
    events += &event(&odd);
    events += &event(&format!("UID:good\r\n{start}\r\nSUMMARY:one"));
    events += &event(&again);
    let began = Instant::now();
    let (status, done) = import(&client, &path, file(&events)).await;
    assert_eq!(status, StatusCode::OK, "{done}");
    let refused: Vec<&str> = done["refused"]
        .as_array()
        .unwrap()
        .iter()
        .map(|told| told["uid"].as_str().unwrap_or_default())
        .collect();
    assert!(refused.len() >= 9, "{refused:?}");
    assert!(done["added"].as_u64().unwrap() >= 2, "{done}");
    assert!(done.to_string().len() < 100_000);
    // The maximum number of events in a file, each minimal.
    let many: String = (0..MAX_COMPONENTS - 1)
        .map(|number| event(&format!("UID:{number}\r\n{start}")))
        .collect();
    let (status, done) = import(&client, &path, file(&many)).await;
    assert_eq!(
        (status, &done["added"]),
        (StatusCode::OK, &json!(MAX_COMPONENTS - 1)),
        "{done}"
    );
    // One event with the maximum number of changed occurrences.
    let mut series = event(&format!("UID:series\r\n{start}\r\nRRULE:FREQ=DAILY"));
    for number in 0..5_000 {
        let minute = number % 60;
        series += &event(&format!(
            "UID:series\r\nRECURRENCE-ID:20260306T10{minute:02}00Z\r\nDTSTART:20260306T11{minute:02}00Z"
        ));
    }
    let (status, done) = import(&client, &path, file(&series)).await;
    assert_eq!(status, StatusCode::OK, "{done}");
    for (text, status) in [
        (b"BEGIN:VCALENDAR\r\n\xff\xfe".to_vec(), StatusCode::BAD_REQUEST),
        (b"\x1f\x8b\x08\x00".to_vec(), StatusCode::BAD_REQUEST),
        ("BEGIN:VCALENDAR".repeat(300_000).into(), StatusCode::BAD_REQUEST),
        ("\r\n".repeat(2_000_000).into(), StatusCode::BAD_REQUEST),
        // Folded endlessly, so that its end is part of its line.
        (file(&"X:\r\n ".repeat(600_000)).into(), StatusCode::BAD_REQUEST),
    ] {
        let (answered, problem) = import(&client, &path, text).await;
        assert_eq!(answered, status, "{problem}");
    }
    assert!(began.elapsed() < LIMIT * 2, "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_hostile_manifest_is_refused_and_installs_nothing() {
    let app = TestApp::with(AppOptions {
        workers: 0,
        ..AppOptions::default()
    })
    .await;
    let client = app.client();
    let products = format!("/api/admin/projects/{}/products", app.db.workspace_id);
    let manifest = |more: Value| {
        let mut manifest = json!({"name": "hostile", "version": "1.0.0"});
        manifest
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        manifest
    };
    let mut bomb = json!({"type": "object", "properties": {"x": {"$ref": "#/$defs/d0"}}, "$defs": {"d24": {}}});
    for level in 0..24 {
        let next = json!({"$ref": format!("#/$defs/d{}", level + 1)});
        bomb["$defs"][format!("d{level}")] = json!({"anyOf": [next, next]});
    }
    let nul = "a\0b";
    let mut deep = json!({});
    for _ in 0..100 {
        deep = json!({ "a": deep });
    }
    let agent = |more: Value| {
        let mut agent = json!({"name": "a", "system_prompt": "x"});
        agent.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"agents": [agent]})
    };
    let hostile = [
        json!({"template_packs": [{"name": "p", "version": "1", "object_types": {"T": bomb}}]}),
        json!({"template_packs": [{"name": "p", "version": "1", "object_types": {"T": {"pattern": "(".repeat(100)}}}]}),
        json!({"template_packs": [{"name": "p", "version": "1", "object_types": {"T": {}}, "ui": {"a": nul}}]}),
        json!({"template_packs": [{"name": "p", "version": "1", "object_types": {"T": {}}, "description": nul}]}),
        json!({"template_packs": vec![json!({"name": "p", "version": "1", "object_types": {"T": {}}}); 51]}),
        agent(json!({"system_prompt": nul})),
        agent(json!({"description": nul})),
        agent(json!({"name": nul})),
        agent(json!({"tools": [nul]})),
        agent(json!({"config": {"a": [nul]}})),
        agent(json!({"config": {nul: 1}})),
        json!({"mcp": {"servers": [{"name": "s", "url": "https://example.org/\u{0}"}]}}),
        json!({"mcp": {"servers": [{"name": "s", "url": "https://example.org/", "headers": {"X": nul}}]}}),
        json!({"mcp": {"servers": [{"name": "s", "url": "https://example.org/", "tools": [nul]}]}}),
        json!({"mcp": {"prompts": [{"name": "p", "description": nul, "messages": []}]}}),
        json!({"jobs": [{"name": "j", "cron": "0 3 * * *", "agent": "a", "message": nul}]}),
        json!({"unknown": nul}),
    ];
    for more in hostile {
        for dry_run in [true, false] {
            let began = Instant::now();
            let (status, problem) = client
                .post(
                    &products,
                    json!({"manifest": manifest(more.clone()), "dryRun": dry_run}),
                )
                .await;
            let told: String = more.to_string().chars().take(120).collect();
            assert_eq!(status, StatusCode::BAD_REQUEST, "{told}: {problem}");
            assert!(
                problem["detail"].as_str().is_some_and(|detail| detail.len() < 5_000),
                "{told}: {problem}"
            );
            assert!(began.elapsed() < LIMIT, "{told}: {:?}", began.elapsed());
        }
    }
    let (status, _) = client
        .post(&products, json!({"manifest": manifest(json!({"jobs": deep}))}))
        .await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    let (_, listed) = client.get(&products).await;
    assert_eq!(listed["items"], json!([]));

    // On the command line: invalid JSON, invalid text, too large, or in another format.
    let folder = std::env::temp_dir().join(format!("rejoin-manifests-{}", uuid::Uuid::now_v7().simple()));
    std::fs::create_dir(&folder).unwrap();
    let mut laughs = String::from("a0: &a0 [lol, lol]\n");
    for level in 1..30 {
        let before = level - 1;
        writeln!(laughs, "a{level}: &a{level} [*a{before}, *a{before}, *a{before}]").unwrap();
    }
    for (name, content) in [
        ("aliases.yaml", laughs.into_bytes()),
        ("deep.json", "[".repeat(1_000_000).into_bytes()),
        ("bytes.json", b"{\"name\":\"\xff\"}".to_vec()),
        ("large.json", vec![b' '; 3 * 1024 * 1024]),
        (
            "nul.json",
            manifest(agent(json!({"system_prompt": nul}))).to_string().into_bytes(),
        ),
    ] {
        let path = folder.join(name);
        std::fs::write(&path, content).unwrap();
        let mut command = Command::new(binary());
        command.args(["install", &path.display().to_string()]);
        command
            .env("REJOIN_URL", &client.url)
            .env("REJOIN_API_KEY", &client.key);
        command.env("REJOIN_PROJECT_ID", app.db.workspace_id.to_string());
        let done = tokio::task::spawn_blocking(move || command.output().unwrap())
            .await
            .unwrap();
        let printed = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(
            !done.status.success() && !printed.contains("panicked") && !printed.is_empty(),
            "{name}: {printed}"
        );
        assert!(printed.len() < 5_000, "{name}: {} bytes", printed.len());
    }
    std::fs::remove_dir_all(&folder).unwrap();
    let (_, listed) = client.get(&products).await;
    assert_eq!(listed["items"], json!([]));
}
