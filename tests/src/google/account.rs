//! One user's calendars at the fake Google, with Google's rules: valid ids, etags, ids of occurrences derived from
//! their event's, cancelled events that are kept, expiring sync tokens.

use std::collections::{BTreeMap, HashMap};

use chrono::{DateTime, NaiveDateTime, Utc};
use serde_json::{Value, json};

use super::occurrences::{self, Happening, ZONE, comes_back, happens, is_cancelled, moment};

/// The reason of a rejection.
#[derive(Debug)]
pub struct Refusal {
    pub status: u16,
    pub reason: &'static str,
    pub message: String,
}

fn refuse<T>(status: u16, reason: &'static str, message: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal {
        status,
        reason,
        message: message.into(),
    })
}

struct Calendar {
    name: String,
    role: &'static str,
    events: BTreeMap<String, Value>,
    /// When each was last changed.
    changed: BTreeMap<String, u64>,
}

/// A user's calendars.
pub struct Account {
    calendars: BTreeMap<String, Calendar>,
    /// Incremented with each change.
    clock: u64,
    /// Older sync tokens have expired.
    pub forgets_before: u64,
    /// Number of events per page, whatever was requested.
    pub page_size: usize,
}

/// The user's own calendar.
pub const PRIMARY: &str = "user@example.org";

impl Default for Account {
    fn default() -> Self {
        let mut account = Self {
            calendars: BTreeMap::new(),
            clock: 1,
            forgets_before: 0,
            page_size: 50,
        };
        account.add_calendar(PRIMARY, "Personal", "owner");
        account.add_calendar("team@group.calendar.google.com", "Team", "writer");
        account.add_calendar("holidays@group.v.calendar.google.com", "Holidays", "reader");
        account
    }
}

fn id_of(event: &Value) -> String {
    event["id"].as_str().unwrap_or_default().to_owned()
}

impl Account {
    pub fn add_calendar(&mut self, id: &str, name: &str, role: &'static str) {
        let calendar = Calendar {
            name: name.to_owned(),
            role,
            events: BTreeMap::new(),
            changed: BTreeMap::new(),
        };
        self.calendars.insert(id.to_owned(), calendar);
    }

    pub fn remove_calendar(&mut self, id: &str) {
        self.calendars.remove(id);
    }

    /// Makes the calendar read-only for the user.
    pub fn set_role(&mut self, id: &str, role: &'static str) {
        if let Some(calendar) = self.calendars.get_mut(id) {
            calendar.role = role;
        }
    }

    /// Expires all sync tokens.
    pub fn forget_tokens(&mut self) {
        self.clock += 1;
        self.forgets_before = self.clock;
    }

    pub fn list(&self) -> Value {
        let item = |(id, calendar): (&String, &Calendar)| {
            json!({
                "id": id, "summary": calendar.name, "timeZone": ZONE.name(), "accessRole": calendar.role, "primary": id == PRIMARY,
            })
        };
        json!({"kind": "calendar#calendarList", "items": self.calendars.iter().map(item).collect::<Vec<_>>()})
    }

    fn calendar(&mut self, id: &str) -> Result<&mut Calendar, Refusal> {
        match self.calendars.get_mut(id) {
            Some(calendar) => Ok(calendar),
            None => refuse(404, "notFound", "Not Found"),
        }
    }

    fn writable(&mut self, id: &str) -> Result<&mut Calendar, Refusal> {
        match self.calendar(id)?.role {
            "owner" | "writer" => self.calendar(id),
            _ => refuse(
                403,
                "requiredAccessLevel",
                "You need to have writer access to this calendar.",
            ),
        }
    }

    fn store(&mut self, calendar: &str, mut event: Value) -> Value {
        self.clock += 1;
        let now = self.clock;
        event["etag"] = json!(format!("\"{now}\""));
        if let Some(calendar) = self.calendars.get_mut(calendar) {
            calendar.changed.insert(id_of(&event), now);
            calendar.events.insert(id_of(&event), event.clone());
        }
        event
    }

    /// Returns the existing events, by id.
    pub fn events(&self, calendar: &str) -> Vec<Value> {
        let calendar = &self.calendars[calendar];
        calendar
            .events
            .values()
            .filter(|event| !is_cancelled(event))
            .cloned()
            .collect()
    }

    /// The same including cancelled ones.
    pub fn everything(&self, calendar: &str) -> Vec<Value> {
        self.calendars[calendar].events.values().cloned().collect()
    }

    /// Returns the event with this title.
    pub fn find(&self, calendar: &str, title: &str) -> Option<Value> {
        self.events(calendar)
            .into_iter()
            .find(|event| event["summary"] == title)
    }

    /// Returns the occurrences between two moments: title, start and end, in order.
    pub fn happening(&self, calendar: &str, from: DateTime<Utc>, to: DateTime<Utc>) -> Happening {
        occurrences::within(&self.calendars[calendar].events, from, to)
    }

    /// Forgets a deleted event, as Google does after a while.
    pub fn expunge(&mut self, calendar: &str, id: &str) {
        if let Some(calendar) = self.calendars.get_mut(calendar) {
            calendar.events.remove(id);
            calendar.changed.remove(id);
        }
    }

    pub fn page(&mut self, id: &str, query: &HashMap<String, String>) -> Result<Value, Refusal> {
        let (clock, size, forgets_before) = (self.clock, self.page_size, self.forgets_before);
        let calendar = self.calendar(id)?;
        let number = |text: &String| text.parse::<u64>().ok();
        let since = match query.get("syncToken") {
            Some(_) if query.contains_key("timeMin") => {
                return refuse(400, "badRequest", "Sync token cannot be used with timeMin");
            }
            Some(token) => match number(token) {
                Some(since) if since >= forgets_before => since,
                Some(_) | None => {
                    return refuse(
                        410,
                        "fullSyncRequired",
                        "Sync token is no longer valid, a full sync is required.",
                    );
                }
            },
            None => 0,
        };
        // The list's position, and when it began.
        let (after, began) = match query.get("pageToken").map(|token| token.split_once('@')) {
            Some(Some((began, after))) => (after.to_owned(), began.parse().unwrap_or(clock)),
            Some(None) => return refuse(400, "badRequest", "Invalid page token"),
            None => (String::new(), clock),
        };
        let from = query
            .get("timeMin")
            .and_then(|text| DateTime::parse_from_rfc3339(text).ok());
        let fits = |event: &Value| match (from, moment(&event["end"])) {
            (Some(from), Some(end)) => event["recurrence"].is_array() || end > from,
            _ => true,
        };
        let due = calendar.events.iter().filter(|(id, event)| {
            **id > after && calendar.changed.get(*id).is_some_and(|at| *at > since) && fits(event)
        });
        let mut items: Vec<Value> = due.map(|(_, event)| event.clone()).take(size + 1).collect();
        let more = items.len() > size;
        items.truncate(size);
        // A deleted event contains nothing else.
        for item in &mut items {
            if is_cancelled(item) {
                let mut short = json!({"id": item["id"], "etag": item["etag"], "status": "cancelled"});
                if item["recurringEventId"].is_string() {
                    short["recurringEventId"] = item["recurringEventId"].clone();
                    short["originalStartTime"] = item["originalStartTime"].clone();
                }
                *item = short;
            }
        }
        let last = items.last().map(id_of).unwrap_or_default();
        let mut page = json!({"kind": "calendar#events", "timeZone": ZONE.name(), "items": items});
        if more {
            page["nextPageToken"] = json!(format!("{began}@{last}"));
        } else {
            page["nextSyncToken"] = json!(began.to_string());
        }
        Ok(page)
    }

    fn check(event: &Value) -> Result<(), Refusal> {
        let (start, end) = (&event["start"], &event["end"]);
        let (Some(from), Some(to)) = (moment(start), moment(end)) else {
            return refuse(400, "required", "Missing end time.");
        };
        if start["date"].is_string() != end["date"].is_string()
            || start["date"].is_string() && start["dateTime"].is_string()
        {
            return refuse(
                400,
                "invalid",
                "Start and end times must either both be date or both be dateTime.",
            );
        }
        if to < from || start["date"].is_string() && to == from {
            return refuse(400, "timeRangeEmpty", "The specified time range is empty.");
        }
        if event["recurrence"].is_array() && start["dateTime"].is_string() && !start["timeZone"].is_string() {
            return refuse(400, "required", "Missing time zone definition for start time.");
        }
        if event["recurrence"].is_array() && !comes_back(event) {
            return refuse(400, "invalid", "The event has no occurrences.");
        }
        if event["recurringEventId"].is_string() && event["recurrence"].is_array() {
            refuse(400, "invalid", "Recurring event instances cannot be recurring")
        } else {
            Ok(())
        }
    }

    pub fn insert(&mut self, calendar: &str, mut event: Value) -> Result<Value, Refusal> {
        let clock = self.clock;
        let known = self.writable(calendar)?;
        let id = match event["id"].as_str() {
            Some(id) => id.to_owned(),
            None => format!("google{clock:08}"),
        };
        if !(5..=1024).contains(&id.len()) || !id.chars().all(|c| matches!(c, '0'..='9' | 'a'..='v')) {
            return refuse(400, "invalid", "Invalid resource id value.");
        }
        if known.events.contains_key(&id) {
            return refuse(409, "duplicate", "The requested identifier already exists.");
        }
        event["id"] = json!(id);
        event["status"] = json!("confirmed");
        Self::check(&event)?;
        Ok(self.store(calendar, event))
    }

    pub fn get(&mut self, calendar: &str, id: &str) -> Result<Value, Refusal> {
        if let Some(event) = self.calendar(calendar)?.events.get(id) {
            return Ok(event.clone());
        }
        // An unchanged occurrence.
        let Some((series, original)) = id.split_once('_') else {
            return refuse(404, "notFound", "Not Found");
        };
        let text = match original.len() {
            8 => format!("{}-{}-{}", &original[..4], &original[4..6], &original[6..]),
            16 => NaiveDateTime::parse_from_str(original, "%Y%m%dT%H%M%SZ")
                .map(|at| at.and_utc().to_rfc3339())
                .unwrap_or_default(),
            _ => return refuse(404, "notFound", "Not Found"),
        };
        let page = self.occurrence(calendar, series, &text)?;
        match page["items"].as_array().and_then(|items| items.first()) {
            Some(item) => Ok(item.clone()),
            None => refuse(404, "notFound", "Not Found"),
        }
    }

    pub fn occurrence(&mut self, calendar: &str, series: &str, original: &str) -> Result<Value, Refusal> {
        let known = self.calendar(calendar)?;
        let Some(event) = known.events.get(series).filter(|event| !is_cancelled(event)) else {
            return refuse(404, "notFound", "Not Found");
        };
        let is_days = event["start"]["date"].is_string();
        let time = if is_days {
            json!({"date": original})
        } else {
            json!({"dateTime": original, "timeZone": event["start"]["timeZone"]})
        };
        let Some(at) = moment(&time) else {
            return refuse(400, "invalid", "Invalid originalStart");
        };
        let name = if is_days {
            original.replace('-', "")
        } else {
            at.format("%Y%m%dT%H%M%SZ").to_string()
        };
        let id = format!("{series}_{name}");
        if let Some(changed) = known.events.get(&id) {
            return Ok(json!({"items": [changed]}));
        }
        if !happens(event, at) {
            return Ok(json!({"items": []}));
        }
        let by = moment(&event["end"])
            .zip(moment(&event["start"]))
            .map(|(end, start)| end - start);
        let end = at + by.unwrap_or_default();
        let mut item = event.clone();
        item["id"] = json!(id);
        item["recurringEventId"] = json!(series);
        item["originalStartTime"] = time.clone();
        item["start"] = time;
        item["end"] = if is_days {
            json!({"date": end.with_timezone(&ZONE).format("%Y-%m-%d").to_string()})
        } else {
            json!({"dateTime": end.to_rfc3339(), "timeZone": event["end"]["timeZone"]})
        };
        if let Value::Object(item) = &mut item {
            item.remove("recurrence");
        }
        Ok(json!({"items": [item]}))
    }

    pub fn patch(&mut self, calendar: &str, id: &str, etag: Option<&str>, patch: &Value) -> Result<Value, Refusal> {
        self.writable(calendar)?;
        let before = self.get(calendar, id)?;
        if etag.is_some_and(|etag| before["etag"] != etag) {
            return refuse(412, "conditionNotMet", "Precondition Failed");
        }
        let mut event = before.clone();
        merge(&mut event, patch);
        if is_cancelled(&event) {
            return refuse(404, "notFound", "Not Found");
        }
        Self::check(&event)?;
        let event = self.store(calendar, event);
        if before["recurrence"].is_array()
            && (before["start"] != event["start"] || before["recurrence"] != event["recurrence"])
        {
            self.drop_occurrences(calendar, &event);
        }
        Ok(event)
    }

    /// Removes changed occurrences that no longer exist.
    fn drop_occurrences(&mut self, calendar: &str, event: &Value) {
        let Some(known) = self.calendars.get_mut(calendar) else {
            return;
        };
        let gone: Vec<String> = known
            .events
            .values()
            .filter(|other| other["recurringEventId"] == event["id"])
            .filter(|other| !moment(&other["originalStartTime"]).is_some_and(|at| happens(event, at)))
            .map(id_of)
            .collect();
        for id in gone {
            known.events.remove(&id);
            known.changed.remove(&id);
        }
    }

    pub fn delete(&mut self, calendar: &str, id: &str, etag: Option<&str>) -> Result<(), Refusal> {
        self.writable(calendar)?;
        let mut event = self.get(calendar, id)?;
        if is_cancelled(&event) {
            return refuse(410, "deleted", "Resource has been deleted");
        }
        if etag.is_some_and(|etag| event["etag"] != etag) {
            return refuse(412, "conditionNotMet", "Precondition Failed");
        }
        event["status"] = json!("cancelled");
        let event = self.store(calendar, event);
        if !event["recurringEventId"].is_string() {
            let occurrences: Vec<String> = self.calendars[calendar]
                .events
                .values()
                .filter(|other| other["recurringEventId"] == event["id"])
                .map(id_of)
                .collect();
            for id in occurrences {
                self.expunge(calendar, &id);
            }
        }
        Ok(())
    }
}

/// Applies a PATCH: null removes a field (RFC 7396).
fn merge(event: &mut Value, patch: &Value) {
    match (event, patch) {
        (Value::Object(event), Value::Object(patch)) => {
            for (name, value) in patch {
                match value {
                    Value::Null => {
                        event.remove(name);
                    }
                    value => merge(event.entry(name.clone()).or_insert(Value::Null), value),
                }
            }
        }
        (event, patch) => {
            *event = patch.clone();
            if let Value::Object(object) = event {
                object.retain(|_, value| !value.is_null());
            }
        }
    }
}
