//! A calendar linked with one at the fake Google, in a complete test application.

use std::time::Duration;

use chrono::{DateTime, Utc};
use reqwest::StatusCode;
use reqwest::redirect::Policy;
use serde_json::{Value, json};
use url::Url;

use super::Google;
use super::account::PRIMARY;
use super::occurrences::Happening;
use crate::app::{AppOptions, TestApp};
use crate::client::Client;
use crate::mcp::secret_keys_file;
use crate::support::wait_for;
use crate::web::PLACE;

/// Less than [`wait_for`]'s limit, so that the progress is reported.
const SOON: Duration = Duration::from_secs(25);

pub struct Linked {
    pub app: TestApp,
    pub google: Google,
    pub client: Client,
    /// The path of the calendar.
    pub calendar: String,
}

/// Starts an app with the fake Google, and a calendar that is not linked yet.
pub async fn unlinked() -> Linked {
    let google = Google::start().await;
    let app = TestApp::with(AppOptions {
        google: google.args(),
        worker: |config| {
            config.web.web_hosts = vec![PLACE.to_owned()];
            config.mcp.keys.secret_keys_file = Some(secret_keys_file().into());
        },
        ..AppOptions::default()
    })
    .await;
    let client = app.client();
    let made = json!({"name": "Work", "timeZone": "Europe/Berlin"});
    let (status, made) = client.post("/api/calendars", made).await;
    assert_eq!(status, StatusCode::CREATED, "{made}");
    let calendar = format!("/api/calendars/{}", made["id"].as_str().expect("an id"));
    Linked {
        app,
        google,
        client,
        calendar,
    }
}

/// The same, linked with the user's own calendar.
pub async fn linked() -> Linked {
    let linked = unlinked().await;
    linked.link(PRIMARY).await;
    linked
}

impl Linked {
    /// Authorizes at Google like a browser. Returns the redirect's parameters.
    pub async fn consent(&self) -> Value {
        let (status, begun) = self.client.post(&format!("{}/google", self.calendar), json!({})).await;
        assert_eq!(status, StatusCode::CREATED, "{begun}");
        let browser = reqwest::Client::builder()
            .redirect(Policy::none())
            .build()
            .expect("a browser");
        let sent = browser
            .get(begun["url"].as_str().expect("a URL"))
            .send()
            .await
            .expect("an answer");
        assert!(sent.status().is_redirection(), "{}", sent.status());
        let back = sent.headers()["location"].to_str().expect("a text");
        let back = Url::parse(back).expect("a URL");
        assert_eq!(back.path(), "/calendar/google");
        let given: serde_json::Map<String, Value> = back
            .query_pairs()
            .map(|(name, value)| (name.into_owned(), json!(value)))
            .collect();
        Value::Object(given)
    }

    /// Authorizes Rejoin.
    pub async fn enter(&self) -> Value {
        let (status, entered) = self.client.post("/api/google/consents", self.consent().await).await;
        assert_eq!(status, StatusCode::OK, "{entered}");
        entered
    }

    pub async fn choose(&self, google_calendar: &str) {
        let chosen = json!({"googleCalendarId": google_calendar});
        let (status, chosen) = self.client.put(&format!("{}/google", self.calendar), chosen).await;
        assert_eq!(status, StatusCode::OK, "{chosen}");
    }

    /// Links the calendar, and waits until both sides are equal.
    pub async fn link(&self, google_calendar: &str) {
        self.enter().await;
        self.choose(google_calendar).await;
        self.synced().await;
    }

    pub async fn state(&self) -> Value {
        let (status, link) = self.client.get(&format!("{}/google", self.calendar)).await;
        assert_eq!(status, StatusCode::OK, "{link}");
        link
    }

    /// Waits until a job that begins after now has succeeded with nothing pending.
    pub async fn synced(&self) -> Value {
        let now = self.turns().await.0;
        let mut seen = Value::Null;
        let waited = async {
            wait_for("the calendar to be synchronised", async || {
                let (turn, has_ended_well) = self.turns().await;
                seen = self.state().await;
                (turn > now && has_ended_well && seen["waiting"] == 0).then_some(())
            })
            .await;
        };
        if tokio::time::timeout(SOON, waited).await.is_err() {
            panic!("not synchronised: {seen:#}");
        }
        seen
    }

    /// Starts a job, and returns while it runs.
    pub async fn begin(&self) {
        let now = self.turns().await.0;
        let path = format!("{}/google/sync", self.calendar);
        wait_for("a job to begin", async || {
            // Google's failures delay others.
            self.client.post(&path, json!({})).await;
            (self.turns().await.0 > now).then_some(())
        })
        .await;
    }

    /// Returns the number of started jobs, and whether the last one has succeeded.
    async fn turns(&self) -> (i64, bool) {
        let row = sqlx::query_as("select turn, coalesce(ended_at = synced_at, false) from kb.google_links limit 1")
            .fetch_optional(&self.app.db.pool)
            .await;
        row.expect("a row").unwrap_or_default()
    }

    /// Adds a local event. Returns its id.
    pub async fn add(&self, event: Value) -> String {
        let (status, made) = self.client.post(&format!("{}/events", self.calendar), event).await;
        assert_eq!(status, StatusCode::CREATED, "{made}");
        made["id"].as_str().expect("an id").to_owned()
    }

    /// Returns the id of a local event in spring 2027.
    pub async fn id_of(&self, title: &str) -> String {
        let path = format!(
            "{}/events?from=2027-02-01T00:00:00Z&to=2027-06-01T00:00:00Z",
            self.calendar
        );
        let (_, listed) = self.client.get(&path).await;
        let mut items = listed["items"].as_array().expect("a list").iter();
        let found = items.find(|item| item["title"] == title);
        let found = found.unwrap_or_else(|| panic!("{title} is not here: {listed}"));
        found["eventId"].as_str().expect("an id").to_owned()
    }

    pub async fn change(&self, event: &str, change: Value, query: &str) {
        let path = format!("/api/calendar-events/{event}{query}");
        let (status, changed) = self.client.patch(&path, change).await;
        assert_eq!(status, StatusCode::OK, "{changed}");
    }

    pub async fn remove(&self, event: &str, query: &str) {
        let path = format!("/api/calendar-events/{event}{query}");
        let (status, removed) = self.client.delete(&path).await;
        assert!(status.is_success(), "{status} {removed}");
    }

    /// Returns the local occurrences.
    pub async fn here(&self, from: &str, to: &str) -> Happening {
        let path = format!("{}/events?from={from}&to={to}", self.calendar);
        let (status, listed) = self.client.get(&path).await;
        assert_eq!(status, StatusCode::OK, "{listed}");
        let moment = |text: &Value| {
            let text = text.as_str().expect("a time");
            rejoin_calendar::recurrence::read_time(text, chrono_tz::Europe::Berlin)
                .expect("a time")
                .0
        };
        let items = listed["items"].as_array().expect("a list").iter();
        let mut found: Happening = items
            .map(|item| {
                let title = item["title"].as_str().expect("a title").to_owned();
                (title, moment(&item["start"]), moment(&item["end"]))
            })
            .collect();
        found.sort();
        found
    }

    /// Returns the remote occurrences.
    pub fn there(&self, from: &str, to: &str) -> Happening {
        let moment = |text: &str| text.parse::<DateTime<Utc>>().expect("a time");
        self.google.account().happening(PRIMARY, moment(from), moment(to))
    }

    /// Waits until both sides have the same occurrences.
    pub async fn same(&self, from: &str, to: &str) -> Happening {
        let mut seen = (Vec::new(), Vec::new());
        for _ in 0..5 {
            self.synced().await;
            seen = (self.here(from, to).await, self.there(from, to));
            if seen.0 == seen.1 {
                return seen.0;
            }
        }
        let only = |these: &Happening, those: &Happening| -> Happening {
            these.iter().filter(|one| !those.contains(one)).cloned().collect()
        };
        let rows: Vec<String> = sqlx::query_scalar(
            "select to_jsonb(e)::text || ' ' || coalesce(to_jsonb(p)::text, 'unpaired')
             from kb.calendar_events e left join kb.google_events p on p.event_id = e.id order by e.series_id nulls first, e.id",
        )
        .fetch_all(&self.app.db.pool)
        .await
        .expect("rows");
        panic!(
            "only here: {:?}\nonly there: {:?}\n{:#}\nhere:\n{}\nthere:\n{:#}",
            only(&seen.0, &seen.1),
            only(&seen.1, &seen.0),
            self.state().await["notes"],
            rows.join("\n"),
            json!(self.google.account().everything(PRIMARY))
        );
    }
}
