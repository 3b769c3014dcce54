//! Calendars as their users edit them over HTTP: versions, single occurrences, and what is refused.

use rejoin_tests::app::TestApp;
use rejoin_tests::client::Client;
use serde_json::{Value, json};

/// Requirements: E61.
#[tokio::test]
async fn events_are_edited_by_hand_and_no_change_is_lost() {
    let app = TestApp::start().await;
    let client = app.client();
    let (_, calendar) = client
        .post("/api/calendars", json!({"name": "Work", "timeZone": "Europe/Berlin"}))
        .await;
    let events = format!("/api/calendars/{}/events", calendar["id"].as_str().unwrap());
    let (status, made) = client
        .post(
            &events,
            json!({"title": "Standup", "start": "2026-03-27T09:00", "rrule": "FREQ=DAILY;COUNT=4"}),
        )
        .await;
    assert_eq!(status, 201, "{made}");
    assert_eq!(
        (&made["start"], &made["end"], &made["timeZone"], &made["version"]),
        (
            &json!("2026-03-27T09:00:00+01:00"),
            &json!("2026-03-27T10:00:00+01:00"),
            &json!("Europe/Berlin"),
            &json!(1)
        )
    );
    let event = format!("/api/calendar-events/{}", made["id"].as_str().unwrap());
    let change = |query: &str, version: &str, body: Value| {
        let request = client.request(reqwest::Method::PATCH, &format!("{event}{query}"));
        let request = request.header("if-match", version).json(&body);
        async move { rejoin_tests::client::answer(request.send().await.expect("an answer")).await }
    };
    let (status, changed) = change("", "\"1\"", json!({"location": "Room 1"})).await;
    assert_eq!((status.as_u16(), &changed["version"]), (200, &json!(2)), "{changed}");
    // Based on an outdated version.
    let (status, problem) = change("", "\"1\"", json!({"location": "Room 2"})).await;
    assert_eq!(
        (status.as_u16(), &problem["code"], &problem["version"]),
        (409, &json!("version_conflict"), &json!(2))
    );
    let (status, problem) = change("", "one", json!({})).await;
    assert_eq!((status.as_u16(), &problem["code"]), (400, &json!("invalid_if_match")));
    let this = "?scope=this&occurrence=2026-03-28T08:00:00Z";
    let (status, late) = change(this, "*", json!({"start": "2026-03-28T11:00"})).await;
    assert_eq!((status.as_u16(), &late["seriesId"]), (200, &made["id"]), "{late}");
    for (query, body) in [
        ("?scope=this", json!({})),
        ("?scope=some", json!({})),
        ("", json!({"rrule": "FREQ=HOURLY"})),
        ("", json!({"title": ""})),
        ("?scope=this&occurrence=2026-03-28T08:30:00Z", json!({"title": "x"})),
    ] {
        let (status, problem) = change(query, "*", body).await;
        assert_eq!(status, 400, "{query}: {problem}");
    }
    let (status, _) = client
        .delete(&format!("{event}?scope=following&occurrence=2026-03-29T07:00:00Z"))
        .await;
    assert_eq!(status, 204);
    let month = format!("{events}?from=2026-03-01T00:00:00Z&to=2026-05-01T00:00:00Z");
    let (_, happening) = client.get(&month).await;
    let starts: Vec<&Value> = happening["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| &item["start"])
        .collect();
    assert_eq!(starts, ["2026-03-27T09:00:00+01:00", "2026-03-28T11:00:00+01:00"]);
    // Once.
    let (_, once) = change("", "*", json!({"rrule": ""})).await;
    assert_eq!(once["rrule"], Value::Null);
    let (_, happening) = client.get(&month).await;
    assert_eq!(happening["items"].as_array().unwrap().len(), 1);
    // For another user it does not exist.
    let (_, key) = app.db.another_user().await;
    let other = Client::new(app.url(), &key);
    assert_eq!(other.get(&event).await.0, 404);
    assert_eq!(other.delete(&event).await.0, 404);
    assert_eq!(
        other
            .post(&events, json!({"title": "x", "start": "2026-03-27"}))
            .await
            .0,
        404
    );
    assert_eq!(client.delete(&event).await.0, 204);
    assert_eq!(client.get(&event).await.0, 404);
    assert_eq!(client.delete(&event).await.0, 404);
}
