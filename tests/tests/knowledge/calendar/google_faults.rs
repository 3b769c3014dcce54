//! Failures of Google: errors, rejections, lost data, delays, and invalid responses: the calendar's user is notified,
//! nothing is lost, and no token leaks.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use axum::http::StatusCode as Status;
use axum::response::{IntoResponse, Response};
use rejoin_calendar::google::links;
use rejoin_tests::google::account::PRIMARY;
use rejoin_tests::google::linked::{Linked, linked, unlinked};
use rejoin_tests::google::{Asked, Fate, error};
use rejoin_tests::support::wait_for;
use rejoin_tests::web::{Site, to, typed};
use reqwest::StatusCode;
use serde_json::{Value, json};

const FROM: &str = "2027-02-01T00:00:00Z";
const TO: &str = "2027-06-01T00:00:00Z";

/// A response of Google.
type Answer = Box<dyn Fn() -> Response + Send>;

fn is_list(asked: &Asked) -> bool {
    asked.method == "GET" && asked.path.ends_with("/events")
}

fn event(title: &str, day: &str) -> Value {
    let time = |hour: u32| json!({"dateTime": format!("{day}T{hour:02}:00:00+01:00"), "timeZone": "Europe/Berlin"});
    json!({"summary": title, "start": time(9), "end": time(10)})
}

async fn told(linked: &Linked, word: &str) -> Value {
    wait_for(word, async || {
        let link = linked.state().await;
        link.to_string().contains(word).then_some(link)
    })
    .await
}

/// Requirements: E56.
#[tokio::test]
async fn withdrawn_permission_is_reported_and_sync_resumes_with_it() {
    let linked = linked().await;
    linked
        .add(json!({"title": "Before", "start": "2027-03-01T10:00"}))
        .await;
    linked.same(FROM, TO).await;
    linked.google.revoke();
    let link = told(&linked, "\"revoked\"").await;
    assert!(link["problem"].as_str().unwrap().contains("denied access"), "{link}");
    let path = format!("{}/google", linked.calendar);
    let (status, problem) = linked.client.post(&format!("{path}/sync"), json!({})).await;
    assert_eq!(
        (status, &problem["code"]),
        (StatusCode::CONFLICT, &json!("calendar_not_linked"))
    );
    linked
        .add(json!({"title": "Meanwhile here", "start": "2027-03-02T10:00"}))
        .await;
    linked
        .google
        .account()
        .insert(PRIMARY, event("Meanwhile there", "2027-03-03"))
        .unwrap();
    let entered = linked.enter().await;
    assert_eq!(
        (&entered["link"]["state"], &entered["link"]["problem"]),
        (&json!("linked"), &Value::Null)
    );
    let same = linked.same(FROM, TO).await;
    assert_eq!(same.len(), 3, "{same:?}");
}

/// Requirements: E56.
#[tokio::test]
async fn when_google_forgets_our_position_all_is_compared_again() {
    let linked = linked().await;
    linked.google.account().page_size = 3;
    for day in 10..20 {
        linked
            .google
            .account()
            .insert(PRIMARY, event(&format!("There {day}"), &format!("2027-03-{day}")))
            .unwrap();
    }
    linked.add(json!({"title": "Here", "start": "2027-03-01T10:00"})).await;
    assert_eq!(linked.same(FROM, TO).await.len(), 11);
    linked.google.meddle(|asked| {
        if is_list(asked) {
            Fate::Instead(error(503, "backendError", ""))
        } else {
            Fate::Done
        }
    });
    // One is gone without a trace at the next sync, and one was changed.
    let gone = linked.google.account().find(PRIMARY, "There 12").unwrap()["id"]
        .as_str()
        .unwrap()
        .to_owned();
    linked.google.account().expunge(PRIMARY, &gone);
    let changed = linked.google.account().find(PRIMARY, "There 13").unwrap()["id"]
        .as_str()
        .unwrap()
        .to_owned();
    linked
        .google
        .account()
        .patch(PRIMARY, &changed, None, &json!({"summary": "There, later"}))
        .unwrap();
    linked.google.account().forget_tokens();
    linked.google.behave();
    let same = linked.same(FROM, TO).await;
    assert_eq!(same.len(), 10, "{same:?}");
    assert!(same.iter().any(|(title, _, _)| title == "There, later"));
    assert!(
        linked
            .google
            .asked()
            .iter()
            .any(|asked| asked.query.contains_key("pageToken"))
    );
}

/// Requirements: E56.
#[tokio::test]
async fn what_google_asks_us_to_wait_is_waited_and_changes_wait_too() {
    let linked = linked().await;
    let refused = Arc::new(AtomicUsize::new(0));
    let counted = refused.clone();
    linked.google.meddle(move |asked| {
        if asked.path.starts_with("/calendars/") {
            counted.fetch_add(1, Ordering::SeqCst);
            let mut busy = error(403, "userRateLimitExceeded", "Rate Limit Exceeded");
            busy.headers_mut().insert("retry-after", "3".parse().unwrap());
            Fate::Instead(busy)
        } else {
            Fate::Done
        }
    });
    wait_for("a refusal", async || (refused.load(Ordering::SeqCst) > 0).then_some(())).await;
    let began = Instant::now();
    told(&linked, "rate limit was reached").await;
    linked.add(json!({"title": "Waits", "start": "2027-03-01T10:00"})).await;
    assert_eq!(linked.state().await["waiting"], 1);
    // It is not retried before its time, whatever changes locally.
    wait_for("another try", async || {
        (refused.load(Ordering::SeqCst) > 1).then_some(())
    })
    .await;
    assert!(began.elapsed() > Duration::from_secs(2), "{:?}", began.elapsed());
    linked.google.behave();
    linked.same(FROM, TO).await;
    assert_eq!(linked.state().await["problem"], Value::Null);
}

/// Requirements: E56.
#[tokio::test]
async fn a_change_that_google_refuses_is_reported_and_blocks_no_other() {
    let linked = linked().await;
    linked.google.meddle(|asked| {
        if asked.method == "POST" && asked.path.starts_with("/calendars/") {
            Fate::Instead(error(400, "invalid", "Nobody knows why"))
        } else {
            Fate::Done
        }
    });
    let refused = linked
        .add(json!({"title": "Refused", "start": "2027-03-01T10:00"}))
        .await;
    let link = told(&linked, "Nobody knows why").await;
    assert!(
        link["notes"][0]["text"].as_str().unwrap().contains("\"Refused\""),
        "{link}"
    );
    linked.google.behave();
    linked
        .google
        .account()
        .insert(PRIMARY, event("There", "2027-03-02"))
        .unwrap();
    linked.synced().await;
    assert_eq!(linked.here(FROM, TO).await.len(), 2);
    assert!(linked.google.account().find(PRIMARY, "Refused").is_none());
    // Changed, it is retried.
    linked.change(&refused, json!({"title": "Taken"}), "").await;
    linked.same(FROM, TO).await;
    assert!(linked.google.account().find(PRIMARY, "Taken").is_some());
}

/// Requirements: E56.
#[tokio::test]
async fn unsupported_events_are_named_and_the_others_come() {
    let linked = linked().await;
    let mut hourly = event("Hourly", "2027-03-01");
    hourly["recurrence"] = json!(["RRULE:FREQ=HOURLY;COUNT=3"]);
    let mut nowhere = event("Nowhere", "2027-03-02");
    nowhere["start"]["timeZone"] = json!("Mars/Base");
    let mut wrong = event("Wrong", "2027-03-03");
    wrong["description"] = json!({"not": "a text"});
    let mut long = event("Long words", "2027-03-04");
    long["description"] = json!("x".repeat(20_000));
    for event in [
        hourly,
        nowhere,
        wrong,
        long,
        event("", "2027-03-05"),
        event("Sound", "2027-03-06"),
    ] {
        linked.google.account().insert(PRIMARY, event).unwrap();
    }
    linked.synced().await;
    let here = linked.here(FROM, TO).await;
    let titles: Vec<&str> = here.iter().map(|(title, _, _)| title.as_str()).collect();
    assert_eq!(titles, ["Long words", "Sound", "Untitled"]);
    let link = told(&linked, "Hourly").await;
    for word in [
        "\\\"Hourly\\\" was not imported",
        "Mars/Base",
        "\\\"Wrong\\\" cannot be parsed",
    ] {
        assert!(link["notes"].to_string().contains(word), "{word}: {link}");
    }
    // Long remote texts are kept there.
    linked
        .change(&linked.id_of("Long words").await, json!({"location": "Here"}), "")
        .await;
    linked.synced().await;
    let there = linked.google.account().find(PRIMARY, "Long words").unwrap();
    assert_eq!(
        (there["description"].as_str().unwrap().len(), &there["location"]),
        (20_000, &json!("Here"))
    );
}

#[tokio::test]
async fn implausible_answers_are_reported_and_change_nothing() {
    let elsewhere = Site::start(|_, _| typed("application/json", "{}")).await;
    let linked = linked().await;
    linked.add(json!({"title": "Sound", "start": "2027-03-01T10:00"})).await;
    let before = linked.same(FROM, TO).await;
    let place = elsewhere.url.clone();
    let json = |value: Value| move || axum::Json(value.clone()).into_response();
    let hostile: Vec<(&str, Answer)> = vec![
        ("the token is not sent there", Box::new(move || to(place.clone()))),
        (
            "larger than",
            Box::new(|| typed("application/json", vec![b' '; 3 * 1024 * 1024])),
        ),
        ("cannot be parsed", Box::new(|| typed("text/html", "<html>"))),
        ("cannot be parsed", Box::new(json(json!({"items": 7})))),
        (
            "neither a next page nor a sync token",
            Box::new(json(json!({"items": []}))),
        ),
        (
            "repeats the same page token",
            Box::new(json(json!({"items": [], "nextPageToken": "again"}))),
        ),
        (
            "responded with status 500",
            Box::new(|| Status::INTERNAL_SERVER_ERROR.into_response()),
        ),
    ];
    for (word, answer) in hostile {
        linked.google.meddle(move |asked| {
            if is_list(asked) {
                Fate::Instead(answer())
            } else {
                Fate::Done
            }
        });
        linked
            .client
            .post(&format!("{}/google/sync", linked.calendar), json!({}))
            .await;
        let link = told(&linked, word).await;
        for token in linked.google.tokens() {
            assert!(!link.to_string().contains(&token), "{link}");
        }
    }
    assert_eq!(elsewhere.asked().len(), 0);
    linked.google.behave();
    linked
        .client
        .post(&format!("{}/google/sync", linked.calendar), json!({}))
        .await;
    assert_eq!(linked.same(FROM, TO).await, before);
}

/// Requirements: E56.
#[tokio::test]
async fn a_calendar_deleted_at_google_is_reported_and_keeps_events() {
    let linked = linked().await;
    linked.add(json!({"title": "Kept", "start": "2027-03-01T10:00"})).await;
    linked.same(FROM, TO).await;
    linked.google.account().remove_calendar(PRIMARY);
    told(&linked, "no longer exists").await;
    assert_eq!(linked.here(FROM, TO).await.len(), 1);
}

/// Requirements: E56.
#[tokio::test]
async fn leave_that_was_given_in_part_or_not_at_all_links_nothing() {
    let linked = unlinked().await;
    linked
        .google
        .grant_only("https://www.googleapis.com/auth/calendar.events");
    let (status, problem) = linked.client.post("/api/google/consents", linked.consent().await).await;
    assert_eq!(
        (status, &problem["code"]),
        (StatusCode::BAD_GATEWAY, &json!("google_failed"))
    );
    assert!(problem["detail"].as_str().unwrap().contains("tick both"), "{problem}");
    let mut forged = linked.consent().await;
    forged["code"] = json!("4/forged");
    let (status, problem) = linked.client.post("/api/google/consents", forged).await;
    assert_eq!(status, StatusCode::BAD_GATEWAY);
    assert!(problem["detail"].as_str().unwrap().contains("start again"), "{problem}");
    assert_eq!(
        linked.client.get(&format!("{}/google", linked.calendar)).await.0,
        StatusCode::NOT_FOUND
    );
}

/// Requirements: E56.
#[tokio::test]
async fn a_user_who_has_left_the_project_is_not_synchronised() {
    let mut linked = linked().await;
    linked.app.crash_workers();
    let pool = linked.app.db.pool.clone();
    let due = "update kb.google_links set due_at = now() - interval '1 second'";
    sqlx::query(due).execute(&pool).await.unwrap();
    assert!(links::sweep(&pool).await.unwrap(), "members' calendars are due");
    sqlx::query("delete from kb.project_members")
        .execute(&pool)
        .await
        .unwrap();
    assert!(!links::sweep(&pool).await.unwrap());
}

/// Requirements: E56.
#[tokio::test]
async fn tokens_are_sealed_again_with_the_other_secrets() {
    use rejoin_identity::audit::Actor;
    use rejoin_integrations::key_rotation;
    use rejoin_secrets::MasterKeys;
    use rejoin_secrets::keys::generate;
    use rejoin_tests::mcp::SECRET_KEYS;
    let linked = linked().await;
    let both = MasterKeys::parse(&format!("{},{}", *generate(), SECRET_KEYS.trim())).unwrap();
    let before = rejoin_secrets::under_old_keys(&linked.app.db.pool, &both)
        .await
        .unwrap();
    assert_eq!(before.iter().map(|under| under.secrets).sum::<i64>(), 1);
    let rotated = key_rotation::rotate(&linked.app.db.pool, &both, &Actor::operator())
        .await
        .unwrap();
    assert_eq!((rotated.rewrapped, rotated.failed), (1, 0));
    assert!(
        rejoin_secrets::under_old_keys(&linked.app.db.pool, &both)
            .await
            .unwrap()
            .is_empty()
    );
    let id = linked.calendar.rsplit('/').next().unwrap().parse().unwrap();
    let token = rejoin_integrations::google_tokens::open(&linked.app.db.pool, &both, id)
        .await
        .unwrap()
        .unwrap();
    assert!(
        linked
            .google
            .tokens()
            .iter()
            .any(|known| Some(known.as_str()) == token.expose_text())
    );
}
