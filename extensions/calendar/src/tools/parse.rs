//! Parses the arguments of a call: ids, the affected occurrences, and the event's patch. Called by the tools.

use chrono::{DateTime, Utc};
use chrono_tz::Tz;
use rejoin_tools::ToolError;
use rejoin_tools::arguments::Arguments;
use uuid::Uuid;

use super::super::edit_series::Extent;
use super::super::event_patch::EventPatch;
use super::super::recurrence::read_time;
use super::refused;

pub(super) fn id_of(arguments: &Arguments, name: &str) -> Result<Option<Uuid>, ToolError> {
    let text = arguments.text(name);
    text.map(|text| {
        text.parse()
            .map_err(|_| refused(format!("{name}: {text:?} is not a valid id")))
    })
    .transpose()
}

pub(super) fn required_id(arguments: &Arguments, name: &str) -> Result<Uuid, ToolError> {
    id_of(arguments, name)?.ok_or_else(|| refused(format!("{name} is empty")))
}

pub(super) fn extent(arguments: &Arguments, zone: Tz) -> Result<Extent, ToolError> {
    let at = || -> Result<DateTime<Utc>, ToolError> {
        let text = arguments
            .text("occurrence")
            .ok_or_else(|| refused("pass `occurrence`: the time at which the occurrence begins"))?;
        Ok(read_time(text, zone).map_err(refused)?.0)
    };
    Ok(match arguments.text("scope") {
        Some("this") => Extent::This(at()?),
        Some("following") => Extent::Following(at()?),
        _ => Extent::All,
    })
}

/// Parses the patch of an event.
pub(super) fn event_patch(arguments: &Arguments) -> EventPatch {
    let text = |name: &str| arguments.text(name).map(str::to_owned);
    EventPatch {
        title: text("title"),
        description: text("description"),
        location: text("location"),
        start: text("start"),
        end: text("end"),
        all_day: arguments.has("all_day").then(|| arguments.flag("all_day")),
        time_zone: text("time_zone"),
        rrule: text("rrule"),
    }
}
