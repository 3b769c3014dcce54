//! Links between calendar events and entities of the work graph.

use rejoin_tests::client::Client;
use serde_json::{Value, json};
use uuid::Uuid;

use rejoin_tests::projects::{get, id, project, start};

/// Requirements: E61.
#[tokio::test]
async fn a_calendar_event_and_a_work_entity_are_linked() {
    let (app, client) = start().await;
    let ids = project(&client, "Apollo").await;
    let body = json!({"projectId": ids["project"], "title": "Launch day", "startAt": "2030-05-01T08:00:00Z"});
    let (_, launch) = client.post("/api/onto/events/create", body).await;
    let (_, calendar) = client
        .post("/api/calendars", json!({"name": "Work", "timeZone": "UTC"}))
        .await;
    let path = format!("/api/calendars/{}/events", calendar["id"].as_str().unwrap());
    let (status, made) = client
        .post(
            &path,
            json!({"title": "Launch", "start": "2030-05-01T08:00", "end": "2030-05-01T10:00"}),
        )
        .await;
    assert_eq!(status, 201, "{made}");
    let event = format!("/api/calendar-events/{}/entities", made["id"].as_str().unwrap());
    assert_eq!(get(&client, &event).await, json!({"items": []}));
    // Linking twice has no further effect.
    for entity in [&launch["id"], &ids["first"], &launch["id"]] {
        let one = format!("{event}/{}", entity.as_str().unwrap());
        assert_eq!(client.put(&one, json!({})).await.0, 204);
    }
    assert_eq!(
        get(&client, &event).await["items"],
        json!([
            {"id": launch["id"], "type": "event", "name": "Launch day"},
            {"id": ids["first"], "type": "task", "name": "First"},
        ])
    );
    let linked = async |kind: &str, of: &Value| -> Value {
        let path = format!("/api/onto/{kind}/{}/linked", of.as_str().unwrap());
        get(&client, &path).await["calendarEvents"].clone()
    };
    let content = json!([{
        "id": made["id"], "calendarId": calendar["id"], "title": "Launch",
        "startsAt": "2030-05-01T08:00:00Z", "endsAt": "2030-05-01T10:00:00Z",
    }]);
    assert_eq!(linked("events", &launch["id"]).await, content);
    assert_eq!(linked("tasks", &ids["first"]).await, content);
    assert_eq!(linked("goals", &ids["goal"]).await, json!([]));
    // Missing items on either side.
    for (event, entity) in [
        (made["id"].as_str().unwrap().to_owned(), Uuid::now_v7().to_string()),
        (Uuid::now_v7().to_string(), id(&ids, "first")),
    ] {
        let one = format!("/api/calendar-events/{event}/entities/{entity}");
        assert_eq!(client.put(&one, json!({})).await.0, 404);
    }
    // Another user of the same project sees neither the calendar nor its links.
    let (_, key) = app.db.another_user().await;
    let stranger = Client::new(app.url(), &key);
    assert_eq!(stranger.get(&event).await.0, 404);
    let one = format!("{event}/{}", id(&ids, "first"));
    assert_eq!(stranger.put(&one, json!({})).await.0, 404);
    assert_eq!(stranger.delete(&one).await.0, 404);
    let (status, theirs) = stranger
        .get(&format!("/api/onto/tasks/{}/linked", id(&ids, "first")))
        .await;
    assert_eq!((status.as_u16(), &theirs["calendarEvents"]), (200, &json!([])));
    // Taken away, and deleted.
    assert_eq!(client.delete(&one).await.0, 204);
    assert_eq!(linked("tasks", &ids["first"]).await, json!([]));
    let (status, _) = client
        .delete(&format!("/api/onto/events/{}", launch["id"].as_str().unwrap()))
        .await;
    assert_eq!(status, 204);
    assert_eq!(get(&client, &event).await, json!({"items": []}));
}
