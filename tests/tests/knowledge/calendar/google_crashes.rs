//! Workers that die during a sync with Google Calendar: nothing is duplicated or lost, and both sides end up equal.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rejoin_tests::google::account::PRIMARY;
use rejoin_tests::google::linked::{Linked, linked};
use rejoin_tests::google::{Fate, error};
use rejoin_tests::support::wait_for;
use reqwest::Method;
use serde_json::{Value, json};

const FROM: &str = "2027-02-01T00:00:00Z";
const TO: &str = "2027-06-01T00:00:00Z";

/// Crashes the worker after Google has executed a request and before it responds, and starts another one.
async fn crash_on(linked: &mut Linked, method: Method) {
    let has_hung = Arc::new(AtomicBool::new(false));
    let hung = has_hung.clone();
    linked.google.meddle(move |asked| {
        let is_meant = asked.method == method && asked.path.starts_with("/calendars/");
        if is_meant && !hung.swap(is_meant || hung.load(Ordering::SeqCst), Ordering::SeqCst) {
            Fate::DoneInSilence
        } else {
            Fate::Done
        }
    });
    wait_for("Google to be silent", async || {
        has_hung.load(Ordering::SeqCst).then_some(())
    })
    .await;
    linked.app.crash_workers();
    linked.google.behave();
    linked.app.add_worker();
}

/// Requirements: E56.
#[tokio::test]
async fn a_worker_that_dies_before_googles_answer_repeats_nothing() {
    let mut linked = linked().await;
    let id = linked
        .add(json!({"title": "Standup", "start": "2027-03-22T10:00", "rrule": "FREQ=DAILY;COUNT=4"}))
        .await;
    crash_on(&mut linked, Method::POST).await;
    assert_eq!(linked.same(FROM, TO).await.len(), 4);
    let query = "?scope=this&occurrence=2027-03-23T10:00:00%2B01:00";
    linked.change(&id, json!({"title": "Long standup"}), query).await;
    crash_on(&mut linked, Method::PATCH).await;
    let same = linked.same(FROM, TO).await;
    assert_eq!(
        same.iter().filter(|(title, _, _)| title == "Long standup").count(),
        1,
        "{same:?}"
    );
    assert_eq!(same.len(), 4);
    linked.remove(&id, "?scope=all").await;
    crash_on(&mut linked, Method::DELETE).await;
    assert_eq!(linked.same(FROM, TO).await, []);
    assert_eq!(linked.state().await["notes"], json!([]));
}

/// Deterministic pseudo-random numbers.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        // xorshift64*, of Vigna.
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % bound
    }
}

fn day(dice: &mut Dice) -> String {
    format!("2027-03-{:02}", 1 + dice.below(28))
}

/// Makes one remote change.
fn change_there(linked: &Linked, dice: &mut Dice, nth: usize) {
    let mut account = linked.google.account();
    let events = account.events(PRIMARY);
    let day = day(dice);
    let time = |hour: u64| json!({"dateTime": format!("{day}T{hour:02}:00:00+01:00"), "timeZone": "Europe/Berlin"});
    let hour = 8 + dice.below(8);
    let chosen = (!events.is_empty()).then(|| events[dice.below(events.len() as u64) as usize].clone());
    // Rejections are those that a user may get.
    let _ = match (dice.below(5), chosen) {
        (0 | 1, _) | (_, None) => {
            let mut event = json!({"summary": format!("There {nth}"), "start": time(hour), "end": time(hour + 1)});
            if dice.below(3) == 0 {
                event["recurrence"] = json!(["RRULE:FREQ=DAILY;COUNT=3"]);
            }
            account.insert(PRIMARY, event).map(|_| ())
        }
        (2, Some(event)) => account.delete(PRIMARY, event["id"].as_str().unwrap(), None),
        (3, Some(event)) => {
            let patch = json!({"start": time(hour), "end": time(hour + 1)});
            account
                .patch(PRIMARY, event["id"].as_str().unwrap(), None, &patch)
                .map(|_| ())
        }
        (_, Some(event)) => {
            let patch = json!({"summary": format!("There {nth}")});
            account
                .patch(PRIMARY, event["id"].as_str().unwrap(), None, &patch)
                .map(|_| ())
        }
    };
}

/// Makes one local change.
async fn change_here(linked: &Linked, dice: &mut Dice, nth: usize) {
    let path = format!("{}/events?from={FROM}&to={TO}", linked.calendar);
    let (_, listed) = linked.client.get(&path).await;
    let events = listed["items"].as_array().unwrap().clone();
    let day = day(dice);
    let hour = 8 + dice.below(8);
    let chosen: Option<Value> = (!events.is_empty()).then(|| events[dice.below(events.len() as u64) as usize].clone());
    let scope = |event: &Value, extent: u64| match (event["recurring"] == true, extent) {
        (true, 0) => "?scope=all".to_owned(),
        (true, extent) => {
            let occurrence = event["start"].as_str().unwrap().replace('+', "%2B");
            let name = if extent == 1 { "this" } else { "following" };
            format!("?scope={name}&occurrence={occurrence}")
        }
        (false, _) => String::new(),
    };
    let extent = dice.below(3);
    let by_id = |event: &Value| {
        let id = event["eventId"].as_str().unwrap();
        format!("/api/calendar-events/{id}{}", scope(event, extent))
    };
    // Concurrent changes cause some rejections, as they should.
    match (dice.below(5), chosen) {
        (0 | 1, _) | (_, None) => {
            let mut event = json!({"title": format!("Here {nth}"), "start": format!("{day}T{hour:02}:00")});
            if dice.below(3) == 0 {
                event["rrule"] = json!("FREQ=DAILY;COUNT=4");
            }
            linked.add(event).await;
        }
        (2, Some(event)) => {
            linked.client.delete(&by_id(&event)).await;
        }
        (3, Some(event)) => {
            let day = &event["start"].as_str().unwrap()[..10];
            let patch = json!({"start": format!("{day}T{hour:02}:00"), "end": format!("{day}T{:02}:30", hour)});
            linked.client.patch(&by_id(&event), patch).await;
        }
        (_, Some(event)) => {
            linked
                .client
                .patch(&by_id(&event), json!({"title": format!("Here {nth}")}))
                .await;
        }
    }
}

/// Requirements: E56.
#[tokio::test]
async fn random_changes_converge_on_both_sides_while_workers_die() {
    let mut linked = linked().await;
    // Another seed gives another history.
    let seed = std::env::var("REJOIN_TEST_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok());
    let mut dice = Dice(0x5eed_0000 + seed.unwrap_or(1_u64));
    for nth in 0..80 {
        if nth % 2 == 0 {
            change_here(&linked, &mut dice, nth).await;
        } else {
            change_there(&linked, &mut dice, nth);
        }
        match nth {
            // Google fails, loses data, and responds late to executed requests.
            15 => {
                let asked = AtomicUsize::new(0);
                linked
                    .google
                    .meddle(move |_| match asked.fetch_add(1, Ordering::SeqCst) % 3 {
                        0 => Fate::DoneBut(error(500, "backendError", "Backend Error")),
                        _ => Fate::Done,
                    });
            }
            25 => linked.google.behave(),
            35 => linked.google.account().forget_tokens(),
            _ => {}
        }
        if nth % 3 == 2 {
            linked.begin().await;
        }
        if nth % 11 == 10 {
            linked.app.crash_workers();
            linked.app.add_worker();
        }
    }
    linked.google.behave();
    let same = linked.same(FROM, TO).await;
    assert!(!same.is_empty());
    // Each event has one mapping.
    let doubled: i64 = sqlx::query_scalar(
        "select count(*) from (select google_id from kb.google_events group by google_id having count(*) > 1) doubled",
    )
    .fetch_one(&linked.app.db.pool)
    .await
    .unwrap();
    assert_eq!(doubled, 0);
}
