//! Users' messages about calls of calendar tools: the event's name, and nothing outside the focus.

use rejoin_calendar::tools::tools;
use rejoin_tests::support;
use rejoin_types::focus::Focus;
use serde_json::json;
use uuid::Uuid;

use super::events::{called, context, standup};

/// Requirements: E21, E22, E23.
#[tokio::test]
async fn calls_of_the_calendars_tools_are_described_by_events_names() {
    let db = support::database().await;
    let own = standup(&db).await;
    let mut focused = context(&db);
    focused.focus = Some(Focus {
        project_id: Uuid::from_u128(7),
        project_name: "Bridge".to_owned(),
        focus_type: None,
        focus_entity_id: None,
    });
    let new = json!({"title": "Pier", "start": "2026-03-27T10:00"});
    let pier = called(&focused, "create_calendar_event", new.clone()).await.unwrap();
    let (mine, theirs) = (own["id"].as_str().unwrap(), pier["id"].as_str().unwrap());
    let nowhere = Uuid::now_v7().to_string();
    let week = json!({"start": "2026-03-20", "end": "2026-04-20"});
    let words = json!({"start": "2026-03-20", "end": "2026-04-20", "query": "pier"});
    let calendar = json!({"start": "2026-03-20", "end": "2026-04-20", "calendar_id": own["calendar_id"]});
    let by = |id: &str| json!({ "event_id": id });
    let plain = context(&db);
    // With a focus, an event outside of it is not named, like a missing one.
    for (name, arguments, told_plain, told_focused) in [
        (
            "list_calendar_events",
            week,
            ("list", "task", "calendar"),
            ("list", "task", "Bridge"),
        ),
        (
            "list_calendar_events",
            words,
            ("list", "task", "pier"),
            ("list", "task", "pier"),
        ),
        (
            "list_calendar_events",
            calendar.clone(),
            ("list", "task", "Calendar"),
            ("list", "task", "Bridge"),
        ),
        (
            "get_calendar_event_details",
            by(mine),
            ("read", "task", "Standup"),
            ("read", "task", "event"),
        ),
        (
            "get_calendar_event_details",
            by(theirs),
            ("read", "task", "Pier"),
            ("read", "task", "Pier"),
        ),
        (
            "update_calendar_event",
            json!({"event_id": mine, "title": "Other"}),
            ("update", "task", "Standup"),
            ("update", "task", "event"),
        ),
        (
            "delete_calendar_event",
            by(mine),
            ("delete", "task", "Standup"),
            ("delete", "task", "event"),
        ),
        (
            "delete_calendar_event",
            by(&nowhere),
            ("delete", "task", "event"),
            ("delete", "task", "event"),
        ),
        (
            "delete_calendar_event",
            by("no id"),
            ("delete", "task", "event"),
            ("delete", "task", "event"),
        ),
        (
            "create_calendar_event",
            new,
            ("create", "task", "Pier"),
            ("create", "task", "Pier"),
        ),
        (
            "get_project_calendar",
            json!({}),
            ("read", "project", "calendar"),
            ("read", "project", "Bridge"),
        ),
        (
            "set_project_calendar",
            calendar,
            ("update", "project", "calendar"),
            ("update", "project", "Bridge"),
        ),
    ] {
        let all = tools();
        let tool = all.iter().find(|tool| tool.spec().name == name).expect("the tool");
        for (context, told) in [(&plain, told_plain), (&focused, told_focused)] {
            let operation = tool.operation(context, &arguments).await.expect("people are told");
            let seen = (
                operation.action.as_str(),
                operation.entity_type.as_str(),
                operation.entity_name.as_str(),
            );
            assert_eq!(seen, told, "{name} {arguments}");
            assert_eq!(
                operation.entity_id, None,
                "{name}: an event is no object of the work graph"
            );
        }
    }
}
