//! Sync with Google Calendar: linking, changes on either side and on both, unlinking. Google is a strict fake.

use chrono::{DateTime, Utc};
use rejoin_tests::google::account::PRIMARY;
use rejoin_tests::google::linked::{Linked, linked, unlinked};
use reqwest::StatusCode;
use serde_json::{Value, json};

const FROM: &str = "2027-02-01T00:00:00Z";
const TO: &str = "2027-06-01T00:00:00Z";

fn at(start: &str, end: &str) -> Value {
    let time = |text: &str| json!({"dateTime": text, "timeZone": "Europe/Berlin"});
    json!({"start": time(start), "end": time(end)})
}

fn event(title: &str, start: &str, end: &str) -> Value {
    let mut event = at(start, end);
    event["summary"] = json!(title);
    event
}

fn moment(text: &str) -> DateTime<Utc> {
    text.parse().unwrap()
}

/// Returns a remote event.
fn there(linked: &Linked, title: &str) -> Value {
    let found = linked.google.account().find(PRIMARY, title);
    found.unwrap_or_else(|| panic!("{title} is not at Google"))
}

fn change_there(linked: &Linked, title: &str, change: Value) {
    let id = there(linked, title)["id"].as_str().unwrap().to_owned();
    linked.google.account().patch(PRIMARY, &id, None, &change).unwrap();
}

fn notes(link: &Value) -> String {
    let notes = link["notes"].as_array().unwrap().iter();
    notes
        .map(|note| note["text"].as_str().unwrap())
        .collect::<Vec<_>>()
        .join("\n")
}

/// Requirements: E10, E56.
#[tokio::test]
async fn a_linked_google_calendar_and_ours_have_all_events_of_both() {
    let linked = unlinked().await;
    let (_, before) = linked.client.get("/api/calendars").await;
    assert_eq!(
        (&before["googleAvailable"], &before["items"][0]["google"]),
        (&json!(true), &Value::Null)
    );
    let added = linked.google.account().insert(
        PRIMARY,
        event("Dentist", "2027-03-02T09:00:00+01:00", "2027-03-02T09:30:00+01:00"),
    );
    added.unwrap();
    let long_ago = event("Long ago", "2001-03-02T09:00:00+01:00", "2001-03-02T09:30:00+01:00");
    linked.google.account().insert(PRIMARY, long_ago).unwrap();
    linked
        .add(json!({"title": "Standup", "start": "2027-03-01T10:00"}))
        .await;
    linked
        .add(json!({"title": "Trip", "start": "2027-03-05", "end": "2027-03-08", "allDay": true}))
        .await;
    let entered = linked.enter().await;
    assert_eq!(entered["link"]["state"], "choosing");
    let choices: Vec<_> = entered["link"]["choices"]
        .as_array()
        .unwrap()
        .iter()
        .map(|choice| {
            (
                choice["name"].as_str().unwrap(),
                choice["isReadOnly"].as_bool().unwrap(),
                choice["isPrimary"].as_bool().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        choices,
        [
            ("Holidays", true, false),
            ("Team", false, false),
            ("Personal", false, true)
        ]
    );
    linked.choose(PRIMARY).await;
    let same = linked.same(FROM, TO).await;
    let titles: Vec<&str> = same.iter().map(|(title, _, _)| title.as_str()).collect();
    assert_eq!(titles, ["Dentist", "Standup", "Trip"]);
    assert!(there(&linked, "Trip")["start"]["date"] == "2027-03-05");
    assert_eq!(linked.here("2001-01-01T00:00:00Z", "2002-01-01T00:00:00Z").await, []);
    let (_, after) = linked.client.get("/api/calendars").await;
    assert_eq!(after["items"][0]["google"], "linked");
    let link = linked.state().await;
    assert_eq!(
        link["googleCalendar"],
        json!({"id": PRIMARY, "name": "Personal", "isReadOnly": false})
    );
    // Changes and deletions, in each direction.
    linked
        .change(
            &linked.id_of("Dentist").await,
            json!({"title": "Dentist, upper left"}),
            "",
        )
        .await;
    change_there(&linked, "Standup", json!({"location": "Room 1"}));
    linked.same(FROM, TO).await;
    assert_eq!(
        there(&linked, "Dentist, upper left")["start"]["dateTime"],
        "2027-03-02T09:00:00+01:00"
    );
    let (_, standup) = linked
        .client
        .get(&format!("/api/calendar-events/{}", linked.id_of("Standup").await))
        .await;
    assert_eq!(standup["location"], "Room 1");
    linked.remove(&linked.id_of("Standup").await, "").await;
    let trip = there(&linked, "Trip")["id"].as_str().unwrap().to_owned();
    linked.google.account().delete(PRIMARY, &trip, None).unwrap();
    let same = linked.same(FROM, TO).await;
    assert_eq!(
        same.iter().map(|(title, _, _)| title.as_str()).collect::<Vec<_>>(),
        ["Dentist, upper left"]
    );
    assert_eq!(linked.state().await["notes"], json!([]));
    let (_, entries) = linked
        .client
        .get(&format!("/api/admin/projects/{}/audit", linked.app.db.workspace_id))
        .await;
    assert!(entries.to_string().contains("calendar.linked"));
}

/// Requirements: E56.
#[tokio::test]
async fn both_sides_changes_are_merged_and_google_wins_conflicts() {
    let linked = linked().await;
    for title in ["Merged", "Disputed", "Deleted here", "Deleted there"] {
        linked.add(json!({"title": title, "start": "2027-03-01T10:00"})).await;
    }
    linked.same(FROM, TO).await;
    let ids: Vec<String> = {
        let mut ids = Vec::new();
        for title in ["Merged", "Disputed", "Deleted here", "Deleted there"] {
            ids.push(linked.id_of(title).await);
        }
        ids
    };
    // No sync meanwhile.
    linked
        .google
        .meddle(|_| rejoin_tests::google::Fate::Instead(rejoin_tests::google::error(500, "backendError", "")));
    linked.change(&ids[0], json!({"title": "Merged here"}), "").await;
    change_there(&linked, "Merged", json!({"location": "There"}));
    linked.change(&ids[1], json!({"title": "Disputed here"}), "").await;
    change_there(&linked, "Disputed", json!({"summary": "Disputed there"}));
    linked.remove(&ids[2], "").await;
    change_there(&linked, "Deleted here", json!({"location": "There"}));
    linked
        .change(&ids[3], json!({"title": "Deleted there, changed here"}), "")
        .await;
    let gone = there(&linked, "Deleted there")["id"].as_str().unwrap().to_owned();
    linked.google.account().delete(PRIMARY, &gone, None).unwrap();
    linked.google.behave();
    let same = linked.same(FROM, TO).await;
    let titles: Vec<&str> = same.iter().map(|(title, _, _)| title.as_str()).collect();
    assert_eq!(titles, ["Deleted here", "Disputed there", "Merged here"]);
    assert_eq!(there(&linked, "Merged here")["location"], "There");
    let told = notes(&linked.state().await);
    for word in [
        "\"Disputed there\": the title was changed both here and at Google",
        "\"Deleted here\" was deleted here but changed at Google, so it was restored",
        "\"Deleted there, changed here\" was changed here but deleted at Google",
    ] {
        assert!(told.contains(word), "{word}: {told}");
    }
    assert!(!told.contains("Merged"), "{told}");
}

/// Requirements: E56.
#[tokio::test]
async fn recurrences_changes_and_exceptions_go_both_ways() {
    let linked = linked().await;
    let series = linked
        .add(json!({"title": "Standup", "start": "2027-03-22T10:00", "end": "2027-03-22T10:15", "rrule": "FREQ=DAILY;COUNT=12"}))
        .await;
    let mut weekly = event("Retro", "2027-03-05T16:00:00+01:00", "2027-03-05T17:00:00+01:00");
    weekly["recurrence"] = json!([
        "RRULE:FREQ=WEEKLY;UNTIL=20270501T000000Z",
        "EXDATE;TZID=Europe/Berlin:20270312T160000"
    ]);
    linked.google.account().insert(PRIMARY, weekly).unwrap();
    let mut days = json!({"summary": "Cleaning", "start": {"date": "2027-03-01"}, "end": {"date": "2027-03-02"}});
    days["recurrence"] = json!(["RRULE:FREQ=WEEKLY;UNTIL=20270401", "EXDATE;VALUE=DATE:20270308"]);
    linked.google.account().insert(PRIMARY, days).unwrap();
    let same = linked.same(FROM, TO).await;
    assert_eq!(same.len(), 12 + 8 + 4, "{same:#?}");
    // Ten o'clock stays ten across the change of daylight saving time.
    assert!(same.contains(&(
        "Standup".to_owned(),
        moment("2027-03-29T08:00:00Z"),
        moment("2027-03-29T08:15:00Z")
    )));
    // Locally, one is changed, one is omitted, and both again for Google's.
    linked
        .change(
            &series,
            json!({"start": "2027-03-24T12:00", "end": "2027-03-24T12:15"}),
            "?scope=this&occurrence=2027-03-24T10:00:00%2B01:00",
        )
        .await;
    linked
        .remove(&series, "?scope=this&occurrence=2027-03-25T10:00:00%2B01:00")
        .await;
    let retro = linked.id_of("Retro").await;
    linked
        .change(
            &retro,
            json!({"title": "Big retro"}),
            "?scope=this&occurrence=2027-04-02T16:00:00%2B02:00",
        )
        .await;
    let same = linked.same(FROM, TO).await;
    assert!(same.iter().any(|(title, _, _)| title == "Big retro"));
    assert_eq!(same.len(), 23);
    // Remotely, one is moved, one cancelled, and a cancelled one restored.
    let id = there(&linked, "Standup")["id"].as_str().unwrap().to_owned();
    let moved = at("2027-03-26T15:00:00+01:00", "2027-03-26T15:15:00+01:00");
    linked
        .google
        .account()
        .patch(PRIMARY, &format!("{id}_20270326T090000Z"), None, &moved)
        .unwrap();
    linked
        .google
        .account()
        .delete(PRIMARY, &format!("{id}_20270327T090000Z"), None)
        .unwrap();
    linked
        .google
        .account()
        .delete(PRIMARY, &format!("{id}_20270324T090000Z"), None)
        .unwrap();
    let same = linked.same(FROM, TO).await;
    assert_eq!(same.len(), 21, "{same:#?}");
    assert!(
        same.iter()
            .any(|(_, start, _)| *start == moment("2027-03-26T14:00:00Z"))
    );
    // This and following, locally: two series, and changed occurrences move along.
    linked
        .change(
            &series,
            json!({"title": "Daily", "start": "2027-03-26T11:00", "end": "2027-03-26T11:15"}),
            "?scope=following&occurrence=2027-03-26T10:00:00%2B01:00",
        )
        .await;
    linked.same(FROM, TO).await;
    // The whole series moves, locally and remotely.
    linked
        .change(
            &retro,
            json!({"start": "2027-03-05T14:00", "end": "2027-03-05T15:00"}),
            "?scope=all",
        )
        .await;
    linked.same(FROM, TO).await;
    change_there(
        &linked,
        "Cleaning",
        json!({"recurrence": ["RRULE:FREQ=WEEKLY;COUNT=3"], "start": {"date": "2027-03-02"}, "end": {"date": "2027-03-03"}}),
    );
    linked.same(FROM, TO).await;
    linked.remove(&retro, "?scope=all").await;
    let same = linked.same(FROM, TO).await;
    assert!(!same.iter().any(|(title, _, _)| title.contains("etro")), "{same:#?}");
}

/// Requirements: E56.
#[tokio::test]
async fn a_calendar_that_may_only_be_read_is_only_read() {
    let linked = unlinked().await;
    let holidays = "holidays@group.v.calendar.google.com";
    linked.google.account().set_role(holidays, "owner");
    let day = json!({"summary": "New Year", "start": {"date": "2027-01-01"}, "end": {"date": "2027-01-02"}});
    linked.google.account().insert(holidays, day).unwrap();
    linked.google.account().set_role(holidays, "reader");
    linked.link(holidays).await;
    let (from, to) = ("2026-12-01T00:00:00Z", "2027-02-01T00:00:00Z");
    assert_eq!(linked.here(from, to).await[0].0, "New Year");
    linked.add(json!({"title": "Mine", "start": "2027-01-03T10:00"})).await;
    let link = linked.synced().await;
    assert_eq!(
        (&link["googleCalendar"]["isReadOnly"], &link["problem"]),
        (&json!(true), &Value::Null)
    );
    assert_eq!(linked.google.account().events(holidays).len(), 1);
    let written = linked
        .google
        .asked()
        .into_iter()
        .filter(|asked| asked.path.starts_with("/calendars/"));
    assert!(written.into_iter().all(|asked| asked.method == "GET"));
}

/// Requirements: E56.
#[tokio::test]
async fn unlinked_and_linked_again_nothing_is_there_twice() {
    let linked = linked().await;
    linked
        .google
        .account()
        .insert(
            PRIMARY,
            event("Dentist", "2027-03-02T09:00:00+01:00", "2027-03-02T09:30:00+01:00"),
        )
        .unwrap();
    linked
        .add(json!({"title": "Standup", "start": "2027-03-22T10:00", "rrule": "FREQ=DAILY;COUNT=3"}))
        .await;
    let standup = id_here_after(&linked, "Standup").await;
    linked
        .change(
            &standup,
            json!({"title": "Long standup"}),
            "?scope=this&occurrence=2027-03-23T10:00:00%2B01:00",
        )
        .await;
    let before = linked.same(FROM, TO).await;
    assert_eq!(before.len(), 4);
    let path = format!("{}/google", linked.calendar);
    // A linked calendar can't be deleted directly.
    let (status, refused) = linked.client.delete(&linked.calendar).await;
    assert_eq!(
        (status, &refused["code"]),
        (StatusCode::CONFLICT, &json!("calendar_linked"))
    );
    assert_eq!(linked.client.delete(&path).await.0, StatusCode::NO_CONTENT);
    assert_eq!(linked.client.get(&path).await.0, StatusCode::NOT_FOUND);
    assert_eq!(
        (linked.here(FROM, TO).await, linked.there(FROM, TO)),
        (before.clone(), before.clone())
    );
    linked
        .change(&linked.id_of("Dentist").await, json!({"location": "Here"}), "")
        .await;
    linked.link(PRIMARY).await;
    assert_eq!(linked.same(FROM, TO).await, before);
    // Linked with another one, too, and back.
    assert_eq!(linked.client.delete(&path).await.0, StatusCode::NO_CONTENT);
    let team = "team@group.calendar.google.com";
    linked.link(team).await;
    let in_team = linked.google.account().events(team).len();
    let in_own = linked.google.account().events(PRIMARY).len();
    assert_eq!(in_team, in_own);
    assert_eq!(linked.client.delete(&path).await.0, StatusCode::NO_CONTENT);
    assert_eq!(linked.client.delete(&linked.calendar).await.0, StatusCode::NO_CONTENT);
}

async fn id_here_after(linked: &Linked, title: &str) -> String {
    linked.same(FROM, TO).await;
    linked.id_of(title).await
}
