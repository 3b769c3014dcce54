//! Whose calendars an agent sees and changes.

use rejoin_tests::app::TestApp;
use rejoin_tests::client::{Client, json_of, of_kind};
use rejoin_tests::model_server::Reply;
use rejoin_tests::support;
use rejoin_tools::ToolContext;
use rejoin_types::focus::Focus;
use rejoin_types::ids;
use serde_json::json;
use uuid::Uuid;

use super::events::{call, called, context, standup};

/// Requirements: E56.
#[tokio::test]
async fn a_projects_conversation_sees_only_its_calendar() {
    let db = support::database().await;
    let own = standup(&db).await;
    let mut focused = context(&db);
    focused.focus = Some(Focus {
        project_id: Uuid::from_u128(7),
        project_name: "Bridge".to_owned(),
        focus_type: None,
        focus_entity_id: None,
    });
    let focused = || ToolContext {
        record_id: ids::new(),
        ..focused.clone()
    };
    let none = called(&focused(), "get_project_calendar", json!({})).await.unwrap();
    assert_eq!(none, json!({"calendar": null, "project": "Bridge"}));
    let week = json!({"start": "2026-03-20", "end": "2026-04-20"});
    let listed = called(&focused(), "list_calendar_events", week.clone()).await.unwrap();
    assert_eq!(listed["events"], json!([]));
    // The first event creates the project's calendar.
    let made = called(
        &focused(),
        "create_calendar_event",
        json!({"title": "Pier", "start": "2026-03-27T10:00"}),
    )
    .await
    .unwrap();
    let calendar = called(&focused(), "get_project_calendar", json!({})).await.unwrap()["calendar"].clone();
    assert_eq!(
        (&calendar["name"], &calendar["calendar_id"]),
        (&json!("Bridge"), &made["calendar_id"])
    );
    assert_ne!(made["calendar_id"], own["calendar_id"]);
    // Other calendars and their events are refused.
    let other = json!({"title": "x", "start": "2026-03-27", "calendar_id": own["calendar_id"]});
    let refusal = called(&focused(), "create_calendar_event", other).await.unwrap_err();
    assert!(refusal.contains("does not belong to the project"), "{refusal}");
    for (name, arguments) in [
        ("get_calendar_event_details", json!({"event_id": own["id"]})),
        ("update_calendar_event", json!({"event_id": own["id"], "title": "x"})),
        ("delete_calendar_event", json!({"event_id": own["id"]})),
    ] {
        let refusal = called(&focused(), name, arguments).await.unwrap_err();
        assert!(refusal.contains("not found"), "{refusal}");
    }
    // Another calendar replaces the project's.
    let set = called(
        &focused(),
        "set_project_calendar",
        json!({"calendar_id": own["calendar_id"]}),
    )
    .await
    .unwrap();
    assert_eq!(set["calendar"]["calendar_id"], own["calendar_id"]);
    let listed = called(&focused(), "list_calendar_events", week).await.unwrap();
    assert_eq!(listed["events"].as_array().unwrap().len(), 5);
    let refusal = call(&db, "get_project_calendar", json!({})).await.unwrap_err();
    assert!(refusal.contains("not about a project"), "{refusal}");
}

/// Requirements: E10.
#[tokio::test]
async fn agents_write_into_the_users_calendar_which_is_private() {
    let app = TestApp::start().await;
    let client = app.client();
    let agent = app.agent("secretary", &["*calendar*"]).await;
    app.model.script([
        Reply::tool(
            "create_calendar_event",
            json!({"title": "Dentist", "start": "2026-03-27T10:00", "time_zone": "Europe/Berlin"}),
        ),
        Reply::text("It is in your calendar."),
    ]);
    let events = json_of(
        &client
            .chat(json!({"message": "dentist, March 27, ten", "agentDefinitionId": agent}))
            .await,
    );
    let calls = of_kind(&events, "mcp_tool");
    assert_eq!(calls.last().unwrap()["status"], "completed", "{calls:?}");
    let (_, calendars) = client.get("/api/calendars").await;
    let calendar = &calendars["items"][0];
    assert_eq!(
        (&calendar["name"], &calendar["timeZone"]),
        (&json!("Calendar"), &json!("Europe/Berlin"))
    );
    let path = format!("/api/calendars/{}", calendar["id"].as_str().unwrap());
    let week = format!("{path}/events?from=2026-03-23T00:00:00Z&to=2026-03-30T00:00:00Z");
    let (status, happening) = client.get(&week).await;
    assert_eq!(status, 200, "{happening}");
    assert_eq!(
        (
            &happening["items"][0]["title"],
            &happening["items"][0]["start"],
            &happening["truncated"]
        ),
        (&json!("Dentist"), &json!("2026-03-27T10:00:00+01:00"), &json!(false))
    );
    let (status, problem) = client
        .get(&format!(
            "{path}/events?from=2026-03-23T00:00:00Z&to=2036-03-30T00:00:00Z"
        ))
        .await;
    assert_eq!((status.as_u16(), &problem["code"]), (400, &json!("invalid_query")));
    // Calendars managed by the user.
    let (status, made) = client
        .post("/api/calendars", json!({"name": "Work", "timeZone": "Asia/Tokyo"}))
        .await;
    assert_eq!(status, 201, "{made}");
    let (status, _) = client
        .post("/api/calendars", json!({"name": "Work", "timeZone": "Nowhere"}))
        .await;
    assert_eq!(status, 400);
    // For another user of the project it does not exist.
    let (_, key) = app.db.another_user().await;
    let other = Client::new(app.url(), &key);
    assert_eq!(other.get(&week).await.0, 404);
    assert_eq!(other.delete(&path).await.0, 404);
    assert_eq!(other.get("/api/calendars").await.1["items"], json!([]));
    assert_eq!(client.delete(&path).await.0, 204);
    let left: i64 = sqlx::query_scalar("select count(*) from kb.calendar_events")
        .fetch_one(&app.db.pool)
        .await
        .unwrap();
    assert_eq!(left, 0);
}
