//! Calendars, read and written by agents for a user: recurrence, changes, and repeated calls.

use std::sync::Arc;

use rejoin_calendar::tools::tools;
use rejoin_graph::embedder::NoEmbedder;
use rejoin_tests::support::{self, TestDatabase};
use rejoin_tools::{ToolContext, ToolError, arguments};
use rejoin_types::ids;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

pub fn context(db: &TestDatabase) -> ToolContext {
    ToolContext {
        db: db.pool.clone(),
        workspace_id: db.workspace_id,
        model: Arc::new(NoEmbedder),
        run_id: None,
        user_id: Some(db.user_id),
        call_id: "call".to_owned(),
        record_id: ids::new(),
        cancel: CancellationToken::new(),
        focus: None,
        bounds: None,
    }
}

pub async fn called(context: &ToolContext, name: &str, arguments: Value) -> Result<Value, String> {
    let tools = tools();
    let tool = tools.iter().find(|tool| tool.spec().name == name).expect("the tool");
    let arguments = arguments::admit(tool.spec(), &arguments)?;
    tool.call(context, arguments).await.map_err(|error| match error {
        ToolError::RespondToModel(words) => words,
        ToolError::Internal { attempted, source } => panic!("{attempted}: {source}"),
        asks @ ToolError::NeedsInput(_) => panic!("{asks}"),
    })
}

/// The same, by a separate call.
pub(super) async fn call(db: &TestDatabase, name: &str, arguments: Value) -> Result<Value, String> {
    called(&context(db), name, arguments).await
}

/// Returns occurrences as `day clock title`, in the weeks around the change of daylight saving time.
async fn march(db: &TestDatabase) -> Vec<String> {
    let listed = call(
        db,
        "list_calendar_events",
        json!({"start": "2026-03-20", "end": "2026-04-20"}),
    )
    .await
    .unwrap();
    let line = |event: &Value| {
        let start = event["start"].as_str().expect("a time");
        format!("{} {}", &start[5..], event["title"].as_str().expect("a title"))
    };
    listed["events"].as_array().expect("events").iter().map(line).collect()
}

/// Daily at nine, across the change of daylight saving time on March 29.
pub async fn standup(db: &TestDatabase) -> Value {
    let arguments = json!({"title": "Standup", "start": "2026-03-27T09:00", "end": "2026-03-27T09:15", "time_zone": "Europe/Berlin",
                           "rrule": "FREQ=DAILY;COUNT=5", "location": "Room 1"});
    call(db, "create_calendar_event", arguments).await.unwrap()
}

/// Requirements: E56.
#[tokio::test]
async fn an_event_that_comes_back_keeps_its_local_time_and_is_whole() {
    let db = support::database().await;
    let event = standup(&db).await;
    assert_eq!(
        march(&db).await,
        [
            "03-27T09:00:00+01:00 Standup",
            "03-28T09:00:00+01:00 Standup",
            "03-29T09:00:00+02:00 Standup",
            "03-30T09:00:00+02:00 Standup",
            "03-31T09:00:00+02:00 Standup"
        ]
    );
    let details = call(&db, "get_calendar_event_details", json!({"event_id": event["id"]}))
        .await
        .unwrap();
    assert_eq!(details, event);
    assert_eq!(
        (
            &details["end"],
            &details["rrule"],
            &details["location"],
            &details["version"]
        ),
        (
            &json!("2026-03-27T09:15:00+01:00"),
            &json!("FREQ=DAILY;COUNT=5"),
            &json!("Room 1"),
            &json!(1)
        )
    );
    // Days stay days, including the one of 23 hours.
    let trip = json!({"title": "Trip", "start": "2026-03-28", "end": "2026-03-30", "time_zone": "Europe/Berlin"});
    let trip = call(&db, "create_calendar_event", trip).await.unwrap();
    assert_eq!(
        (&trip["start"], &trip["end"], &trip["all_day"]),
        (&json!("2026-03-28"), &json!("2026-03-30"), &json!(true))
    );
    let found = call(
        &db,
        "list_calendar_events",
        json!({"start": "2026-03-01", "end": "2026-05-01", "query": "tri"}),
    )
    .await
    .unwrap();
    assert_eq!(found["events"].as_array().unwrap().len(), 1);
    for (arguments, words) in [
        (json!({"title": " ", "start": "2026-03-27"}), "title is empty"),
        (json!({"title": "x", "start": "soon"}), "is not a valid time"),
        (
            json!({"title": "x", "start": "2026-03-27T10:00", "end": "2026-03-27T09:00"}),
            "ends before",
        ),
        (
            json!({"title": "x", "start": "2026-03-27", "end": "2026-06-27"}),
            "at most 31 days",
        ),
        (
            json!({"title": "x", "start": "2026-03-27", "time_zone": "Mars/Base"}),
            "is not a time zone",
        ),
        (
            json!({"title": "x", "start": "2026-03-27", "rrule": "FREQ=SECONDLY"}),
            "daily at most",
        ),
        (
            json!({"title": "x", "start": "2026-03-27T10:00", "all_day": true}),
            "begins on one date",
        ),
        (
            json!({"title": "x", "start": "2026-03-27", "calendar_id": Uuid::nil()}),
            "not one of the user's",
        ),
    ] {
        let refusal = call(&db, "create_calendar_event", arguments.clone()).await.unwrap_err();
        assert!(refusal.contains(words), "{arguments}: {refusal}");
    }
    let refusal = call(
        &db,
        "list_calendar_events",
        json!({"start": "2026-01-01", "end": "2036-01-01"}),
    )
    .await
    .unwrap_err();
    assert!(refusal.contains("at most 731 days"), "{refusal}");
}

/// Requirements: E56.
#[tokio::test]
async fn one_occurrence_those_that_follow_or_all_are_changed() {
    let db = support::database().await;
    let id = standup(&db).await["id"].clone();
    let this = json!({"event_id": id, "scope": "this", "occurrence": "2026-03-28T09:00:00+01:00", "start": "2026-03-28T11:00", "title": "Late"});
    let late = call(&db, "update_calendar_event", this.clone()).await.unwrap();
    assert_eq!(
        (&late["series_id"], &late["end"]),
        (&id, &json!("2026-03-28T11:15:00+01:00"))
    );
    // Identified by the original start, not the changed one.
    let again = call(&db, "update_calendar_event", this).await.unwrap();
    assert_eq!(again["id"], late["id"]);
    let following = json!({"event_id": id, "scope": "following", "occurrence": "2026-03-30T09:00", "title": "Sitdown", "start": "2026-03-30T10:00"});
    let rest = call(&db, "update_calendar_event", following).await.unwrap();
    assert_eq!(rest["rrule"], "FREQ=DAILY;COUNT=2");
    assert_eq!(
        march(&db).await,
        [
            "03-27T09:00:00+01:00 Standup",
            "03-28T11:00:00+01:00 Late",
            "03-29T09:00:00+02:00 Standup",
            "03-30T10:00:00+02:00 Sitdown",
            "03-31T10:00:00+02:00 Sitdown"
        ]
    );
    // All, an hour later: the changed occurrence keeps its time.
    let all = json!({"event_id": id, "start": "2026-03-27T10:00", "location": "Room 2"});
    call(&db, "update_calendar_event", all).await.unwrap();
    assert_eq!(
        march(&db).await[..3],
        [
            "03-27T10:00:00+01:00 Standup",
            "03-28T11:00:00+01:00 Late",
            "03-29T10:00:00+02:00 Standup"
        ]
    );
    for (arguments, words) in [
        (json!({"event_id": id, "scope": "this"}), "pass `occurrence`"),
        (
            json!({"event_id": id, "scope": "this", "occurrence": "2026-03-28T09:30"}),
            "does not occur at that time",
        ),
        (json!({"event_id": Uuid::nil()}), "not found"),
        (json!({"event_id": "x"}), "is not a valid id"),
    ] {
        let refusal = call(&db, "update_calendar_event", arguments.clone()).await.unwrap_err();
        assert!(refusal.contains(words), "{arguments}: {refusal}");
    }
}

/// Requirements: E56.
#[tokio::test]
async fn one_occurrence_those_that_follow_or_all_are_removed() {
    let db = support::database().await;
    let id = standup(&db).await["id"].clone();
    let this = json!({"event_id": id, "scope": "this", "occurrence": "2026-03-29T09:00:00+02:00"});
    for _ in 0..2 {
        call(&db, "delete_calendar_event", this.clone()).await.unwrap();
        assert_eq!(march(&db).await.len(), 4);
    }
    let reply = call(
        &db,
        "update_calendar_event",
        json!({"event_id": id, "scope": "this", "occurrence": "2026-03-29T09:00", "title": "x"}),
    )
    .await;
    assert!(reply.unwrap_err().contains("was deleted"));
    let following = json!({"event_id": id, "scope": "following", "occurrence": "2026-03-30T09:00"});
    for _ in 0..2 {
        call(&db, "delete_calendar_event", following.clone()).await.unwrap();
        assert_eq!(
            march(&db).await,
            ["03-27T09:00:00+01:00 Standup", "03-28T09:00:00+01:00 Standup"]
        );
    }
    // Deleting a changed occurrence does not restore the original one.
    let changed = json!({"event_id": id, "scope": "this", "occurrence": "2026-03-28T09:00", "title": "Other"});
    let changed = call(&db, "update_calendar_event", changed).await.unwrap();
    call(&db, "delete_calendar_event", json!({"event_id": changed["id"]}))
        .await
        .unwrap();
    assert_eq!(march(&db).await, ["03-27T09:00:00+01:00 Standup"]);
    for _ in 0..2 {
        let gone = call(&db, "delete_calendar_event", json!({"event_id": id}))
            .await
            .unwrap();
        assert_eq!((&gone["deleted"], &gone["title"]), (&json!(true), &json!("Standup")));
        assert_eq!(march(&db).await, Vec::<String>::new());
    }
    let reply = call(&db, "get_calendar_event_details", json!({"event_id": id}))
        .await
        .unwrap_err();
    assert!(reply.contains("was deleted"), "{reply}");
}

/// Invariant I7.
#[tokio::test]
async fn a_call_that_is_repeated_after_a_crash_changes_nothing_more() {
    let db = support::database().await;
    let create = context(&db);
    let arguments = json!({"title": "Standup", "start": "2026-03-27T09:00", "rrule": "FREQ=DAILY;COUNT=3"});
    let made = called(&create, "create_calendar_event", arguments.clone())
        .await
        .unwrap();
    assert_eq!(made["id"], json!(create.record_id));
    assert_eq!(called(&create, "create_calendar_event", arguments).await.unwrap(), made);
    let update = context(&db);
    let following = json!({"event_id": made["id"], "scope": "following", "occurrence": "2026-03-28T09:00", "start": "2026-03-28T12:00"});
    let split = called(&update, "update_calendar_event", following.clone())
        .await
        .unwrap();
    assert_eq!(
        called(&update, "update_calendar_event", following).await.unwrap(),
        split
    );
    assert_eq!(
        march(&db).await,
        [
            "03-27T09:00:00Z Standup",
            "03-28T12:00:00Z Standup",
            "03-29T12:00:00Z Standup"
        ]
    );
    let rows: i64 = sqlx::query_scalar("select count(*) from kb.calendar_events")
        .fetch_one(&db.pool)
        .await
        .unwrap();
    assert_eq!(rows, 2);
}
