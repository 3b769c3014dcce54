//! iCalendar files: exports are imported unchanged, foreign files are accepted, unsupported content is reported, and
//! hostile files are bounded.

use chrono::{DateTime, Duration, Utc};
use chrono_tz::Tz;
use proptest::prelude::*;
use rejoin_calendar::events::{Calendar, Content, Event};
use rejoin_calendar::ical::{self, MAX_BYTES, MAX_COMPONENTS};
use rejoin_calendar::recurrence::{at_wall, moved};
use rejoin_tests::app::TestApp;
use rejoin_tests::client::{Client, answer};
use rejoin_types::ids;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

async fn calendar(client: &Client) -> String {
    let (status, made) = client
        .post("/api/calendars", json!({"name": "Work", "timeZone": "Europe/Berlin"}))
        .await;
    assert_eq!(status, 201, "{made}");
    format!("/api/calendars/{}", made["id"].as_str().expect("an id"))
}

async fn import(client: &Client, calendar: &str, file: &str) -> (StatusCode, Value) {
    let request = client.request(Method::POST, &format!("{calendar}/import"));
    let request = request.header("content-type", "text/calendar").body(file.to_owned());
    answer(request.send().await.expect("an answer")).await
}

async fn export(client: &Client, calendar: &str) -> String {
    let request = client.request(Method::GET, &format!("{calendar}/export.ics"));
    let response = request.send().await.expect("an answer");
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["content-type"], "text/calendar; charset=utf-8");
    response.text().await.expect("a text")
}

/// Returns the occurrences in spring 2026, as `start end title`.
async fn spring(client: &Client, calendar: &str) -> Vec<String> {
    let (status, told) = client
        .get(&format!(
            "{calendar}/events?from=2026-03-01T00:00:00Z&to=2026-05-01T00:00:00Z"
        ))
        .await;
    assert_eq!(status, 200, "{told}");
    let text = |item: &Value, name: &str| item[name].as_str().expect("a text").to_owned();
    let line = |item: &Value| format!("{} {} {}", text(item, "start"), text(item, "end"), text(item, "title"));
    told["items"].as_array().expect("a list").iter().map(line).collect()
}

fn file(events: &str) -> String {
    let text = format!("BEGIN:VCALENDAR\nVERSION:2.0\n{events}\nEND:VCALENDAR\n");
    text.replace('\n', "\r\n")
}

/// Requirements: E56.
#[tokio::test]
async fn a_calendar_is_exported_and_imported_as_it_was() {
    let app = TestApp::start().await;
    let client = app.client();
    let from = calendar(&client).await;
    let events = format!("{from}/events");
    let long = "Ä, sehr; lang\\ ".repeat(12);
    for event in [
        json!({"title": long.trim(), "start": "2026-03-05T10:00", "description": "a\nb\nEND:VEVENT", "location": "Room; 1, \"x\""}),
        json!({"title": "Trip", "start": "2026-03-28", "end": "2026-03-30"}),
        json!({"title": "Weekly", "start": "2026-03-10", "rrule": "FREQ=WEEKLY;UNTIL=20260331T220000Z"}),
    ] {
        assert_eq!(client.post(&events, event).await.0, 201);
    }
    let standup = json!({"title": "Standup", "start": "2026-03-27T09:00", "rrule": "FREQ=DAILY;COUNT=6"});
    let (_, standup) = client.post(&events, standup).await;
    let standup = format!("/api/calendar-events/{}", standup["id"].as_str().unwrap());
    let (status, _) = client
        .patch(
            &format!("{standup}?scope=this&occurrence=2026-03-29T07:00:00Z"),
            json!({"start": "2026-03-29T11:00", "title": "Late"}),
        )
        .await;
    assert_eq!(status, 200);
    let left_out = format!("{standup}?scope=this&occurrence=2026-03-30T07:00:00Z");
    assert_eq!(client.delete(&left_out).await.0, 204);
    let expected = spring(&client, &from).await;
    assert_eq!(expected.len(), 11, "{expected:?}");

    let text = export(&client, &from).await;
    assert!(
        text.split("\r\n").all(|line| line.len() <= 75 && !line.contains('\n')),
        "{text}"
    );
    for line in [
        "DTSTART;TZID=Europe/Berlin:20260327T090000",
        "DTSTART;VALUE=DATE:20260328",
        "DTEND;VALUE=DATE:20260330",
        "RECURRENCE-ID;TZID=Europe/Berlin:20260329T090000",
        "EXDATE;TZID=Europe/Berlin:20260330T090000",
        "RRULE:FREQ=WEEKLY;UNTIL=20260401",
    ] {
        assert!(text.split("\r\n").any(|found| found == line), "{line}: {text}");
    }
    assert_eq!(export(&client, &from).await, text);
    // Importing into its own calendar changes nothing; into another one it adds it once.
    let (status, done) = import(&client, &from, &text).await;
    let nothing = json!({"added": 0, "changed": 0, "unchanged": 5, "refused": [], "notes": []});
    assert_eq!((status.as_u16(), &done), (200, &nothing));
    let to = calendar(&client).await;
    let (_, done) = import(&client, &to, &text).await;
    assert_eq!((&done["added"], &done["refused"]), (&json!(5), &json!([])), "{done}");
    assert_eq!(spring(&client, &to).await, expected);
    assert_eq!(import(&client, &to, &text).await.1, nothing);
    // For another user it does not exist.
    let (_, key) = app.db.another_user().await;
    let other = Client::new(app.url(), &key);
    assert_eq!(other.get(&format!("{from}/export.ics")).await.0, 404);
    assert_eq!(import(&other, &from, &text).await.0, 404);
}

/// Requirements: E56.
#[tokio::test]
async fn files_of_other_programs_are_imported_and_the_rest_is_listed() {
    let app = TestApp::start().await;
    let client = app.client();
    let calendar = calendar(&client).await;
    let text = file(
        "BEGIN:VTIMEZONE
TZID:Eastern Standard Time
BEGIN:STANDARD
DTSTART:16010101T030000
END:STANDARD
END:VTIMEZONE
BEGIN:VEVENT
UID:a@elsewhere
SUMMARY:Folded \n  and escaped\\, twice
DTSTART;TZID=\"Eastern Standard Time\":20260305T100000
DURATION:PT1H30M
BEGIN:VALARM
SUMMARY:not this
END:VALARM
END:VEVENT
BEGIN:VEVENT
UID:b@elsewhere
SUMMARY:Daily
DTSTART;TZID=America/New_York:20260402T090000
DTEND;TZID=America/New_York:20260402T100000
RRULE:FREQ=DAILY;UNTIL=20260405T130000Z
EXDATE;TZID=America/New_York:20260403T090000
END:VEVENT
BEGIN:VEVENT
UID:b@elsewhere
RECURRENCE-ID;TZID=America/New_York:20260404T090000
STATUS:CANCELLED
DTSTART;TZID=America/New_York:20260404T090000
END:VEVENT
BEGIN:VEVENT
UID:c@elsewhere
SUMMARY:Every minute
DTSTART:20260402T090000Z
RRULE:FREQ=MINUTELY
END:VEVENT
BEGIN:VEVENT
SUMMARY:Nameless
DTSTART:20260402T090000Z
END:VEVENT
BEGIN:VEVENT
UID:d@elsewhere
DTSTART:tomorrow
END:VEVENT
BEGIN:VEVENT
UID:e@elsewhere
RECURRENCE-ID:20260404T090000Z
DTSTART:20260404T100000Z
END:VEVENT
BEGIN:VTODO
UID:f@elsewhere
END:VTODO
BEGIN:VEVENT
UID:g@elsewhere
SUMMARY:Somewhere
DTSTART;TZID=Middle-earth Time:20260306T080000
DURATION:PT30M
END:VEVENT",
    );
    let (status, done) = import(&client, &calendar, &text).await;
    assert_eq!(status, 200, "{done}");
    assert_eq!(
        (&done["added"], &done["changed"], &done["unchanged"]),
        (&json!(3), &json!(1), &json!(0)),
        "{done}"
    );
    let told = |list: &Value| -> Vec<String> {
        let line = |told: &Value| format!("{} {}: {}", told["line"], told["uid"], told["why"].as_str().unwrap());
        list.as_array().unwrap().iter().map(line).collect()
    };
    let refused = told(&done["refused"]);
    for (nth, start, words) in [
        (0, "33 \"c@elsewhere\"", "daily at most"),
        (1, "39 null", "no UID"),
        (2, "43 \"d@elsewhere\"", "is not a valid time"),
        (3, "52 null", "only events"),
        (4, "47 \"e@elsewhere\"", "does not exist"),
    ] {
        assert!(
            refused[nth].starts_with(start) && refused[nth].contains(words),
            "{refused:?}"
        );
    }
    assert_eq!(refused.len(), 5);
    let notes = told(&done["notes"]);
    assert!(
        notes.len() == 1 && notes[0].contains("unknown time zone \"Middle-earth Time\""),
        "{notes:?}"
    );
    let happening = [
        "2026-03-05T10:00:00-05:00 2026-03-05T11:30:00-05:00 Folded  and escaped, twice",
        "2026-03-06T08:00:00+01:00 2026-03-06T08:30:00+01:00 Somewhere",
        "2026-04-02T09:00:00-04:00 2026-04-02T10:00:00-04:00 Daily",
        "2026-04-05T09:00:00-04:00 2026-04-05T10:00:00-04:00 Daily",
    ];
    assert_eq!(spring(&client, &calendar).await, happening);
    let (_, again) = import(&client, &calendar, &text).await;
    assert_eq!(
        (&again["added"], &again["changed"], &again["unchanged"]),
        (&json!(0), &json!(0), &json!(4)),
        "{again}"
    );
    // Changes in the file are applied; local deletions are kept.
    let (_, changed) = import(&client, &calendar, &text.replace("Daily", "Often")).await;
    assert_eq!(changed["changed"], json!(2), "{changed}");
    assert!(spring(&client, &calendar).await[2].ends_with("Often"));
}

/// Requirements: E56.
#[tokio::test]
async fn hostile_files_are_refused_in_words() {
    let app = TestApp::start().await;
    let client = app.client();
    let calendar = calendar(&client).await;
    let many = file(&"BEGIN:VTODO\nEND:VTODO\n".repeat(MAX_COMPONENTS));
    let deep = "BEGIN:VCALENDAR\n".repeat(100_000);
    for (text, words) in [
        ("", "empty"),
        ("<html>", "is not iCalendar"),
        ("BEGIN:VEVENT\nEND:VEVENT", "is not iCalendar"),
        ("BEGIN:VCALENDAR\nEND:VEVENT", "END without a matching BEGIN"),
        ("BEGIN:VCALENDAR\n", "ends before"),
        (&many, "at most 10000 components"),
        (&deep, "can be nested at most"),
    ] {
        let (status, problem) = import(&client, &calendar, text).await;
        let detail = problem["detail"].as_str().unwrap_or_default();
        assert!(status == 400 && detail.contains(words), "{words}: {problem}");
    }
    let (status, problem) = import(&client, &calendar, &"x".repeat(MAX_BYTES + 1)).await;
    assert_eq!((status.as_u16(), &problem["code"]), (413, &json!("body_too_large")));
    let (status, problem) = client.post(&format!("{calendar}/import"), json!({})).await;
    assert_eq!(
        (status.as_u16(), &problem["code"]),
        (415, &json!("unsupported_media_type"))
    );
    // One event is out of range, another is not.
    let text = file(&format!(
        "BEGIN:VEVENT\nUID:a\nDTSTART:20260305T100000Z\nDESCRIPTION:{}\nEND:VEVENT\nBEGIN:VEVENT\nUID:b\nDTSTART:20260305T100000Z\nEND:VEVENT",
        "x".repeat(1_000_000)
    ));
    let (status, done) = import(&client, &calendar, &text).await;
    assert_eq!((status.as_u16(), &done["added"]), (200, &json!(1)), "{done}");
    assert!(
        done["refused"][0]["why"].as_str().unwrap().contains("too long"),
        "{done}"
    );
}

/// Arbitrary valid events.
fn any_event() -> impl Strategy<Value = Event> {
    let zones = prop::sample::select(vec![
        Tz::UTC,
        Tz::Europe__Berlin,
        Tz::America__New_York,
        Tz::Australia__Lord_Howe,
        Tz::Asia__Kathmandu,
    ]);
    let rules = prop::sample::select(vec![
        None,
        Some("FREQ=DAILY;COUNT=9"),
        Some("FREQ=WEEKLY;BYDAY=MO,WE;INTERVAL=2"),
        Some("FREQ=MONTHLY;BYDAY=-1FR;COUNT=5"),
        Some("FREQ=DAILY;UNTIL=20280101T000000Z"),
    ]);
    let minutes = 0_i64..1_000_000;
    (
        zones,
        rules,
        minutes,
        0_i64..2_000,
        any::<bool>(),
        ".{1,100}",
        ".{0,300}",
    )
        .prop_map(|(time_zone, rrule, at, length, all_day, title, description)| {
            let start: DateTime<Utc> = "2026-01-01T00:00:00Z".parse().expect("a time");
            let mut start = start + Duration::minutes(at);
            let mut end = start + Duration::minutes(length);
            if all_day {
                let day = start.with_timezone(&time_zone).date_naive();
                start = at_wall(time_zone, day.and_time(chrono::NaiveTime::MIN));
                end = moved(start, time_zone, Duration::days(1 + length / 100));
            }
            // Lines can't contain control characters, or surrounding blanks.
            let kept = |text: String| text.chars().filter(|c| !c.is_control()).collect::<String>();
            let title = kept(title);
            Event {
                id: ids::new(),
                calendar_id: ids::new(),
                content: Content {
                    title: if title.trim().is_empty() { "x".to_owned() } else { title },
                    description: kept(description),
                    location: "Room\\n, 1; 2\nsecond line".to_owned(),
                    start,
                    end,
                    all_day,
                    time_zone,
                    rrule: rrule.map(str::to_owned),
                },
                exdates: Vec::new(),
                replaces: None,
                version: 1,
                is_deleted: false,
            }
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]
    /// Requirements: E56.
    #[test]
    fn what_is_written_is_read_as_it_was(event in any_event()) {
        let mut event = event;
        let happening = |content: &Content| match &content.rrule {
            Some(rrule) => content.series(rrule).between(content.start, content.start + Duration::days(700), 50),
            None => Ok(vec![content.start]),
        };
        let times = happening(&event.content).expect("a rule");
        prop_assume!(event.content.check().is_ok() && !times.is_empty());
        if event.content.rrule.is_some() {
            event.exdates = times.iter().copied().skip(1).step_by(3).collect();
        }
        let calendar = Calendar { id: ids::new(), name: "Work".to_owned(), time_zone: "Asia/Tokyo".to_owned(), work_project: None };
        let text = ical::write(&calendar, std::slice::from_ref(&event));
        let read = ical::read(&text, &calendar).expect("a file");
        prop_assert!(read.refused.is_empty() && read.notes.is_empty(), "{:?} {text}", read);
        let found = &read.events[0];
        prop_assert_eq!(&found.exdates, &event.exdates);
        prop_assert_eq!(happening(&found.content), Ok(times));
        // A day as the end of a rule is written as such: the rule itself may be worded differently.
        let said = Content { rrule: event.content.rrule.clone(), ..found.content.clone() };
        prop_assert_eq!(said, event.content);
        prop_assert_eq!(ical::id_of(&found.uid), Some(event.id));
    }
}
