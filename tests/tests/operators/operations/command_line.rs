//! Command line verbs that use the API, as a user runs them: output and error messages.

use std::process::Stdio;

use rejoin_tests::app::{TestApp, binary};
use rejoin_tests::model_server::Reply;
use rejoin_tests::web::{Site, to};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;

/// Runs `rejoin` with these arguments; returns (success, stdout, stderr).
async fn rejoin(app: &TestApp, words: &[&str], input: &str) -> (bool, String, String) {
    let mut child = tokio::process::Command::new(binary())
        .args(words)
        .env("REJOIN_URL", app.url())
        .env("REJOIN_API_KEY", &app.db.api_key)
        .env("REJOIN_PROJECT_ID", app.db.workspace_id.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // A process that does not read it ends before it is written.
    let _unread = stdin.write_all(input.as_bytes()).await;
    drop(stdin);
    let output = child.wait_with_output().await.unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.success(), text(output.stdout), text(output.stderr))
}

const FILE: &str = "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nBEGIN:VEVENT\r\nUID:a@elsewhere\r\nSUMMARY:Lunch\r\n\
     DTSTART:20270301T110000Z\r\nDURATION:PT1H\r\nEND:VEVENT\r\nBEGIN:VEVENT\r\nSUMMARY:Nameless\r\n\
     DTSTART:20270301T110000Z\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n";

#[tokio::test]
async fn calendars_go_in_and_out_as_files() {
    let app = TestApp::start().await;
    let made = json!({"name": "Work", "timeZone": "Europe/Berlin"});
    app.client().post("/api/calendars", made.clone()).await;
    let (ok, reply, _) = rejoin(&app, &["calendars", "import", "Work", "-"], FILE).await;
    assert!(
        ok && reply.starts_with("1 added, 0 changed, 0 unchanged\nrefused: line 9: "),
        "{reply}"
    );
    let (ok, reply, _) = rejoin(&app, &["--json", "calendars", "import", "Work", "-"], FILE).await;
    let reply: Value = serde_json::from_str(&reply).unwrap();
    assert_eq!((ok, &reply["unchanged"]), (true, &json!(1)), "{reply}");
    let (ok, text, _) = rejoin(&app, &["calendars", "export", "Work"], "").await;
    assert!(
        ok && text.starts_with("BEGIN:VCALENDAR\r\n") && text.contains("SUMMARY:Lunch"),
        "{text}"
    );
    let (ok, listed, _) = rejoin(&app, &["calendars", "list"], "").await;
    assert!(
        ok && listed.contains("Work") && listed.contains("Europe/Berlin"),
        "{listed}"
    );
    for (words, why) in [
        (["calendars", "export", "Play"], "there is no calendar Play"),
        (["calendars", "import", "Work"], "<FILE>"),
    ] {
        let (ok, out, said) = rejoin(&app, &words, "").await;
        assert!(!ok && out.is_empty() && said.contains(why), "{said}");
    }
    app.client().post("/api/calendars", made).await;
    let (ok, _, said) = rejoin(&app, &["calendars", "export", "Work"], "").await;
    assert!(!ok && said.contains("several calendars"), "{said}");
}

#[tokio::test]
async fn what_agents_may_do_on_the_web_is_set_shown_tried_and_removed() {
    let app = TestApp::start().await;
    // At an address that workers here may not visit.
    let site = Site::start(|_, _| to("/elsewhere")).await;
    let (ok, _, said) = rejoin(&app, &["web", "set", "--base-url", &site.url], "").await;
    assert!(!ok && said.contains("--provider"), "{said}");
    let words = [
        "web",
        "set",
        "--provider",
        "searxng",
        "--base-url",
        &site.url,
        "--visit",
        "--block",
        "ads.example",
    ];
    let (ok, shown, said) = rejoin(&app, &words, "").await;
    assert!(ok, "{said}");
    let wanted = format!(
        "web_search  by searxng\nweb_visit   on\nasked at    {}\nblocked     ads.example\n",
        site.url
    );
    assert_eq!(shown, wanted);
    assert_eq!(rejoin(&app, &["web", "show"], "").await.1, wanted);
    let (ok, tried, said) = rejoin(&app, &["web", "test"], "").await;
    assert!(
        !ok && tried.contains("the search provider") && said.contains("searxng does not respond"),
        "{tried}{said}"
    );
    assert!(rejoin(&app, &["web", "remove"], "").await.0);
    let (_, shown, _) = rejoin(&app, &["web", "show"], "").await;
    assert_eq!(shown, "web_search  off\nweb_visit   off\n");
}

/// Requirements: D50, D51.
#[tokio::test]
async fn routing_is_set_and_measured_from_the_command_line() {
    let app = TestApp::start().await;
    let client = app.client();
    let install = format!(
        "/api/admin/projects/{}/install-default-agents?set=databases",
        app.db.workspace_id
    );
    assert_eq!(client.post(&install, json!({})).await.0, 200);
    sqlx::query("update kb.agent_definitions set model = '{\"name\": \"openai:scripted\"}'")
        .execute(&app.db.pool)
        .await
        .unwrap();
    let words = [
        "routing",
        "set",
        "--percent",
        "100",
        "--prefer",
        "sql-analyst",
        "--control",
        "triage",
    ];
    let (ok, told, error) = rejoin(&app, &words, "").await;
    assert!(ok, "{error}");
    assert_eq!(
        told,
        "100 % of new conversations are routed\npreferred: sql-analyst\ntriage: triage\nthe others: triage\n"
    );
    // Absent settings stay unchanged.
    let (ok, told, error) = rejoin(&app, &["--json", "routing", "set", "--control", "none"], "").await;
    assert!(ok, "{error}");
    assert_eq!(
        serde_json::from_str::<Value>(&told).unwrap(),
        json!({"percent": 100, "preferredAgent": "sql-analyst", "triageAgent": "triage", "selectorModel": null, "controlAgent": null})
    );
    let (ok, _, error) = rejoin(&app, &["routing", "set"], "").await;
    assert!(!ok && error.contains("--percent"), "{error}");

    app.model.script([
        Reply::tool("transfer_to_bigquery", json!({"reason": "it is there"})),
        Reply::text("Seven."),
    ]);
    client.chat(json!({"message": "mongo: visits of today"})).await;
    let (ok, told, error) = rejoin(&app, &["routing", "stats"], "").await;
    assert!(ok, "{error}");
    let columns = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let lines: Vec<Vec<String>> = told.lines().map(columns).collect();
    assert_eq!(lines[1][..5], ["routed", "1", "1", "0", "0"], "{told}");
    assert_eq!(lines[4], ["mongodb-analyst", "message", "1", "1", "0", "0"], "{told}");
    let (ok, told, error) = rejoin(&app, &["routing", "misrouted"], "").await;
    assert!(ok, "{error}");
    let line = told.lines().nth(1).unwrap_or_default();
    assert_eq!(
        columns(line),
        [
            "mongodb-analyst",
            "message",
            "bigquery-analyst",
            "mongo:",
            "visits",
            "of",
            "today"
        ]
    );
    let (ok, told, error) = rejoin(&app, &["--json", "routing", "misrouted", "--days", "1"], "").await;
    assert!(ok, "{error}");
    let one: Value = serde_json::from_str(told.trim()).unwrap();
    assert_eq!(
        (&one["message"], &one["handedTo"]),
        (&json!("mongo: visits of today"), &json!("bigquery-analyst"))
    );
}
