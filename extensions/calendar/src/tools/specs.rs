//! The names, descriptions and parameters of the calendar tools.

use std::sync::{Arc, LazyLock};

use rejoin_tools::arguments::Kind::{OptionalBoolean, OptionalChoice, OptionalText, Text};
use rejoin_tools::arguments::{self, Parameter};
use rejoin_tools::{SharedTool, ToolSpec};

use super::{CalendarTool, Verb};

const START: Parameter = Parameter::new(
    "start",
    OptionalText,
    "start time, e.g. 2026-03-01T10:00 in the event's time zone, or with an offset; a date, 2026-03-01, for an \
    all-day event",
);
const END: Parameter = Parameter::new(
    "end",
    OptionalText,
    "end time, in the same format; for an all-day event the day after its last day",
);
const EVENT_ID: Parameter = Parameter::new("event_id", Text, "the event's id, as list_calendar_events returns it");
const SCOPE: Parameter = Parameter::new(
    "scope",
    OptionalChoice(&["this", "following", "all"]),
    "which occurrences of a repeating event: this one, this and all following, or all (default)",
);
const OCCURRENCE: Parameter = Parameter::new(
    "occurrence",
    OptionalText,
    "with scope this or following: when the occurrence begins, as list_calendar_events returns it",
);
const CALENDAR_ID: Parameter = Parameter::new(
    "calendar_id",
    OptionalText,
    "the calendar's id; null: the calendar of \
    this conversation",
);
const DETAILS: [Parameter; 5] = [
    Parameter::new(
        "description",
        OptionalText,
        "description of the event; null: none (on update: unchanged)",
    ),
    Parameter::new(
        "location",
        OptionalText,
        "location of the event; null: none (on update: unchanged)",
    ),
    Parameter::new("all_day", OptionalBoolean, "whether it is an all-day event"),
    Parameter::new(
        "time_zone",
        OptionalText,
        "IANA time zone, e.g. Europe/Berlin; null: the calendar's (on update: unchanged)",
    ),
    Parameter::new(
        "rrule",
        OptionalText,
        "recurrence as an RFC 5545 RRULE, daily at most, e.g. FREQ=WEEKLY;BYDAY=MO;COUNT=10; null: does not repeat \
        (on update: unchanged)",
    ),
];

pub(super) static TOOLS: LazyLock<Vec<SharedTool>> = LazyLock::new(|| {
    let with = |own: &[Parameter]| [own, &DETAILS].concat();
    let tool = |verb, name: &str, description: &str, parameters: &[Parameter]| {
        let read_only = matches!(verb, Verb::List | Verb::Details | Verb::GetOfProject);
        Arc::new(CalendarTool {
            spec: ToolSpec {
                name: name.to_owned(),
                description: description.to_owned(),
                parameters: arguments::schema(parameters),
                read_only,
                idempotent: true,
                destructive: verb == Verb::Delete,
            },
            verb,
        }) as SharedTool
    };
    vec![
        tool(
            Verb::List,
            "list_calendar_events",
            "Lists the events in the user's calendars between two times. Each occurrence of a repeating event is \
            listed separately.",
            &[
                Parameter::new("start", Text, "start of the time range: a date or a time"),
                Parameter::new("end", Text, "end of the time range, at most two years after its start"),
                CALENDAR_ID,
                Parameter::new("query", OptionalText, "return only events that contain these words"),
            ],
        ),
        tool(
            Verb::Details,
            "get_calendar_event_details",
            "Returns all details of one event.",
            &[EVENT_ID],
        ),
        tool(
            Verb::Create,
            "create_calendar_event",
            "Creates an event in the user's calendar.",
            &with(&[
                Parameter::new("title", Text, "title of the event"),
                Parameter::new("start", Text, START.description),
                END,
                CALENDAR_ID,
            ]),
        ),
        tool(
            Verb::Update,
            "update_calendar_event",
            "Updates an event. Arguments that are null stay unchanged. With scope `all`, start and end are those of \
            the first occurrence.",
            &with(&[
                EVENT_ID,
                SCOPE,
                OCCURRENCE,
                Parameter::new("title", OptionalText, "title of the event"),
                START,
                END,
            ]),
        ),
        tool(
            Verb::Delete,
            "delete_calendar_event",
            "Deletes an event, or occurrences of a repeating event.",
            &[EVENT_ID, SCOPE, OCCURRENCE],
        ),
        tool(
            Verb::GetOfProject,
            "get_project_calendar",
            "Returns the calendar of the project that this conversation is about.",
            &[],
        ),
        tool(
            Verb::SetOfProject,
            "set_project_calendar",
            "Assigns one of the user's calendars to the project that this conversation is about.",
            &[Parameter::new("calendar_id", Text, "the calendar's id")],
        ),
    ]
});
