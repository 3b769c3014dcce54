//! The seven calendar tools, over the calendars of the agent's user. Called by the worker's pools, and over MCP.
//!
//! Invariant: in a conversation focused on a project of the work graph, only that project's calendar is accessible.

mod parse;
mod specs;

use async_trait::async_trait;
use chrono_tz::Tz;
use rejoin_db::rls;
use rejoin_tools::arguments::Arguments;
use rejoin_tools::{SharedTool, Tool, ToolContext, ToolError, ToolSpec};
use rejoin_types::events::Operation;
use rejoin_types::focus::Focus;
use rejoin_types::owner::Owner;
use serde_json::{Value, json};
use sqlx::PgConnection;
use uuid::Uuid;

use super::edit_series;
use super::events::{self, Calendar, Content, Event};
use super::expand::{self, CalendarError};
use super::recurrence::read_time;
use parse::{event_patch, extent, id_of, required_id};
use specs::TOOLS;

/// Maximum length of a name shown to users, in characters.
const NAME_MAX_CHARS: usize = 80;
/// The name of a user's first calendar.
const FIRST_CALENDAR: &str = "Calendar";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verb {
    List,
    Details,
    Create,
    Update,
    Delete,
    GetOfProject,
    SetOfProject,
}

struct CalendarTool {
    spec: ToolSpec,
    verb: Verb,
}

/// All calendar tools.
pub fn tools() -> Vec<SharedTool> {
    TOOLS.clone()
}

/// The tools that work without a conversation, which alone has a focus.
pub fn without_conversation() -> Vec<SharedTool> {
    let of_a_project = |tool: &&SharedTool| tool.spec().name.ends_with("_project_calendar");
    TOOLS.iter().filter(|tool| !of_a_project(tool)).cloned().collect()
}

fn refused(words: impl Into<String>) -> ToolError {
    ToolError::RespondToModel(words.into())
}

fn failed(error: CalendarError) -> ToolError {
    match error {
        CalendarError::Wrong(words) => refused(words),
        CalendarError::Database(error) => away(error),
    }
}

fn away(error: sqlx::Error) -> ToolError {
    ToolError::Internal {
        attempted: "reading the user's calendars".to_owned(),
        source: error.into(),
    }
}

fn focused(context: &ToolContext) -> Result<&Focus, ToolError> {
    let focus = context.focus.as_ref();
    focus.ok_or_else(|| refused("this conversation is not about a project of the work graph"))
}

#[async_trait]
impl Tool for CalendarTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn call(&self, context: &ToolContext, arguments: Value) -> Result<Value, ToolError> {
        let arguments = Arguments::of(arguments);
        let owner = Owner {
            workspace_id: context.workspace_id,
            user_id: context
                .user_id
                .ok_or_else(|| refused("this run has no user, so there are no calendars to use"))?,
        };
        // With the user's scope: the API may see nothing else, and workers need no more.
        let mut tx = rls::begin(&context.db, rls::Scope::User(owner)).await.map_err(away)?;
        let result = match self.verb {
            Verb::List => list(&mut tx, context, owner, &arguments).await?,
            Verb::Details => {
                let event = visible(&mut tx, context, owner, required_id(&arguments, "event_id")?).await?;
                shown(&event)
            }
            Verb::Create => create(&mut tx, context, owner, &arguments).await?,
            Verb::Update => {
                let event = visible(&mut tx, context, owner, required_id(&arguments, "event_id")?).await?;
                let extent = extent(&arguments, event.content.time_zone)?;
                let wanted = event_patch(&arguments);
                let patch = |content: &Content| wanted.apply_to(content);
                let changed = edit_series::update(&mut tx, owner, event.id, extent, context.record_id, patch).await;
                shown(&changed.map_err(failed)?)
            }
            Verb::Delete => {
                let event = known(&mut tx, context, owner, required_id(&arguments, "event_id")?).await?;
                let extent = extent(&arguments, event.content.time_zone)?;
                let deleted = edit_series::delete(&mut tx, owner, event.id, extent)
                    .await
                    .map_err(failed)?;
                json!({"event_id": deleted.id, "title": deleted.content.title, "deleted": true})
            }
            Verb::GetOfProject => {
                let focus = focused(context)?;
                let calendar = of_work(&mut tx, owner, focus.project_id).await?;
                json!({"calendar": calendar.as_ref().map(calendar_shown), "project": focus.project_name})
            }
            Verb::SetOfProject => {
                let (focus, id) = (focused(context)?, required_id(&arguments, "calendar_id")?);
                if !events::assign(&mut tx, owner, id, focus.project_id)
                    .await
                    .map_err(away)?
                {
                    return Err(refused(format!("the user has no calendar {id}")));
                }
                let calendar = of_work(&mut tx, owner, focus.project_id).await?;
                json!({"calendar": calendar.as_ref().map(calendar_shown), "project": focus.project_name})
            }
        };
        tx.commit().await.map_err(away)?;
        Ok(result)
    }

    async fn operation(&self, context: &ToolContext, arguments: &Value) -> Option<Operation> {
        let action = match self.verb {
            Verb::List => "list",
            Verb::Details | Verb::GetOfProject => "read",
            Verb::Create => "create",
            Verb::Update | Verb::SetOfProject => "update",
            Verb::Delete => "delete",
        };
        // The closest kind known to readers. It is no object of the work graph, and has no id there.
        let entity_type = match self.verb {
            Verb::List | Verb::Details | Verb::Create | Verb::Update | Verb::Delete => "task",
            Verb::GetOfProject | Verb::SetOfProject => "project",
        };
        Some(Operation {
            action: action.to_owned(),
            entity_type: entity_type.to_owned(),
            entity_name: self.named(context, &Arguments::of(arguments.clone())).await,
            status: String::new(),
            entity_id: None,
        })
    }
}

impl CalendarTool {
    /// Returns the name of a call's subject shown to users, never empty.
    async fn named(&self, context: &ToolContext, arguments: &Arguments) -> String {
        let found = match self.verb {
            Verb::Create => arguments.text("title").map(str::to_owned),
            Verb::Details | Verb::Update | Verb::Delete => title_of(context, arguments).await,
            Verb::List => match arguments.text("query") {
                Some(words) => Some(words.to_owned()),
                None => calendar_of(context, arguments).await,
            },
            Verb::GetOfProject | Verb::SetOfProject => context.focus.as_ref().map(|focus| focus.project_name.clone()),
        };
        let otherwise = match self.verb {
            Verb::Details | Verb::Create | Verb::Update | Verb::Delete => "event",
            Verb::List | Verb::GetOfProject | Verb::SetOfProject => "calendar",
        };
        let found = found.filter(|name| !name.trim().is_empty());
        let name = found.unwrap_or_else(|| otherwise.to_owned());
        name.chars().take(NAME_MAX_CHARS).collect()
    }
}

/// Returns the title of a call's event, if the call may access it.
async fn title_of(context: &ToolContext, arguments: &Arguments) -> Option<String> {
    let id = id_of(arguments, "event_id").ok()??;
    let owner = Owner {
        workspace_id: context.workspace_id,
        user_id: context.user_id?,
    };
    let mut tx = rls::begin(&context.db, rls::Scope::User(owner)).await.ok()?;
    let event = known(&mut tx, context, owner, id).await.ok()?;
    Some(event.content.title)
}

/// Returns the name of a list's calendar: the focus's project, or the named one.
async fn calendar_of(context: &ToolContext, arguments: &Arguments) -> Option<String> {
    if let Some(focus) = &context.focus {
        return Some(focus.project_name.clone());
    }
    let id = id_of(arguments, "calendar_id").ok()??;
    let owner = Owner {
        workspace_id: context.workspace_id,
        user_id: context.user_id?,
    };
    let mut tx = rls::begin(&context.db, rls::Scope::User(owner)).await.ok()?;
    let calendars = allowed(&mut tx, context, owner, Some(id)).await.ok()?;
    calendars.into_iter().next().map(|calendar| calendar.name)
}

fn calendar_shown(calendar: &Calendar) -> Value {
    json!({"calendar_id": calendar.id, "name": calendar.name, "time_zone": calendar.time_zone})
}

/// Returns all details of an event.
fn shown(event: &Event) -> Value {
    let mut shown = json!(expand::occurrence(event, event.content.start));
    shown["id"] = json!(event.id);
    shown["description"] = event.content.description.as_str().into();
    shown["rrule"] = json!(event.content.rrule);
    shown["version"] = event.version.into();
    if let Some((series, at)) = event.replaces {
        shown["series_id"] = json!(series);
        shown["replaces_occurrence"] = json!(at);
    }
    shown
}

async fn of_work(db: &mut PgConnection, owner: Owner, project: Uuid) -> Result<Option<Calendar>, ToolError> {
    let all = events::calendars(db, owner).await.map_err(away)?;
    Ok(all.into_iter().find(|calendar| calendar.work_project == Some(project)))
}

/// Returns the calendars that a call may access: the focus's, or all of the user's; filtered by name, if given.
async fn allowed(
    db: &mut PgConnection,
    context: &ToolContext,
    owner: Owner,
    named: Option<Uuid>,
) -> Result<Vec<Calendar>, ToolError> {
    let mut all = events::calendars(db, owner).await.map_err(away)?;
    if let Some(focus) = &context.focus {
        all.retain(|calendar| calendar.work_project == Some(focus.project_id));
    }
    if let Some(named) = named {
        all.retain(|calendar| calendar.id == named);
        if all.is_empty() {
            let why = match context.focus {
                Some(_) => "does not belong to the project that this conversation is about",
                None => "is not one of the user's calendars",
            };
            return Err(refused(format!("the calendar {named} {why}")));
        }
    }
    Ok(all)
}

/// Returns an event that a call may access, including deleted ones.
async fn known(db: &mut PgConnection, context: &ToolContext, owner: Owner, id: Uuid) -> Result<Event, ToolError> {
    let none = || {
        refused(format!(
            "event {id} not found; list_calendar_events returns the existing events"
        ))
    };
    let event = events::locked(db, owner, id).await.map_err(away)?.ok_or_else(none)?;
    let calendars = allowed(db, context, owner, None).await?;
    if calendars.iter().any(|calendar| calendar.id == event.calendar_id) {
        Ok(event)
    } else {
        Err(none())
    }
}

/// The same without deleted ones.
async fn visible(db: &mut PgConnection, context: &ToolContext, owner: Owner, id: Uuid) -> Result<Event, ToolError> {
    let event = known(db, context, owner, id).await?;
    if event.is_deleted {
        Err(refused("the event was deleted"))
    } else {
        Ok(event)
    }
}

async fn list(
    db: &mut PgConnection,
    context: &ToolContext,
    owner: Owner,
    arguments: &Arguments,
) -> Result<Value, ToolError> {
    let calendars = allowed(db, context, owner, id_of(arguments, "calendar_id")?).await?;
    let zone = calendars.first().map_or(Tz::UTC, Calendar::zone);
    let read = |name| read_time(arguments.required_text(name)?, zone).map_err(refused);
    let ((from, _), (to, _)) = (read("start")?, read("end")?);
    let happening = expand::between(db, &calendars, (from, to), arguments.text("query")).await;
    let mut result = json!(happening.map_err(failed)?);
    result["calendars"] = calendars.iter().map(calendar_shown).collect();
    Ok(result)
}

async fn create(
    db: &mut PgConnection,
    context: &ToolContext,
    owner: Owner,
    arguments: &Arguments,
) -> Result<Value, ToolError> {
    // Created already, before a crash.
    if let Some(event) = events::locked(db, owner, context.record_id).await.map_err(away)? {
        return Ok(shown(&event));
    }
    let calendars = allowed(db, context, owner, id_of(arguments, "calendar_id")?).await?;
    let calendar = match calendars.into_iter().next() {
        Some(calendar) => calendar,
        None => first_calendar(db, context, owner, arguments.text("time_zone")).await?,
    };
    arguments.required_text("title")?;
    let content = event_patch(arguments).new_content(&calendar).map_err(refused)?;
    events::add(db, context.record_id, calendar.id, &content, None)
        .await
        .map_err(away)?;
    let event = events::locked(db, owner, context.record_id).await.map_err(away)?;
    event
        .as_ref()
        .map(shown)
        .ok_or_else(|| refused("the event could not be created; try again"))
}

/// Creates the first calendar of a user, or of a project of the work graph.
async fn first_calendar(
    db: &mut PgConnection,
    context: &ToolContext,
    owner: Owner,
    time_zone: Option<&str>,
) -> Result<Calendar, ToolError> {
    let focus = context.focus.as_ref();
    let name = focus.map_or(FIRST_CALENDAR, |focus| focus.project_name.as_str());
    let zone: Tz = time_zone.and_then(|name| name.parse().ok()).unwrap_or(Tz::UTC);
    let calendar = Calendar {
        id: context.record_id,
        name: Some(name.trim())
            .filter(|name| !name.is_empty())
            .unwrap_or(FIRST_CALENDAR)
            .chars()
            .take(200)
            .collect(),
        time_zone: zone.name().to_owned(),
        work_project: focus.map(|focus| focus.project_id),
    };
    if events::add_calendar(db, owner, &calendar).await.map_err(away)? {
        Ok(calendar)
    } else {
        Err(refused(
            "no calendar could be created: the user may have reached the limit, or another call has just created one; \
            try again",
        ))
    }
}
