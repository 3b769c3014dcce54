//! `/api/calendar-events/{id}/entities`: the entities of the work graph that a calendar event belongs to, such as its
//! task or work-graph event. `/api/onto/{kind}/{id}/linked`: what an entity is linked to, with the caller's events. Here, because
//! the two extensions do not know each other.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use chrono::{DateTime, Utc};
use rejoin_calendar::entity_links::{self, LinkedEntity, LinkedEvent, MAX_ENTITIES};
use rejoin_calendar::events;
use rejoin_http::authorization::routes;
use rejoin_http::caller::{Caller, Read, Write};
use rejoin_http::extract::Segments;
use rejoin_http::problem::{Problem, ProblemBody, Refused};
use rejoin_work_graph::routes::entities::kind_of;
use rejoin_work_graph::routes::{EntityBody as WorkEntityBody, LinkBody};
use rejoin_work_graph::{entities, links};
use serde::Serialize;
use sqlx::PgConnection;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::state::{AppState, Routes};

pub fn routes() -> Routes {
    Routes::new()
        .routes(routes!(list))
        .routes(routes!(link, unlink))
        .routes(routes!(linked))
}

/// An entity that an event belongs to
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = EntityOfEvent)]
pub struct EntityBody {
    pub id: Uuid,
    /// `task`, `milestone`, `event`, …
    #[serde(rename = "type")]
    pub kind: String,
    pub name: String,
}

impl From<LinkedEntity> for EntityBody {
    fn from(entity: LinkedEntity) -> Self {
        Self {
            id: entity.id,
            kind: entity.kind,
            name: entity.name,
        }
    }
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = EntitiesOfEvent)]
pub struct EntityList {
    /// In the order in which they were linked
    pub items: Vec<EntityBody>,
}

/// An event in the caller's calendars that is linked to an entity
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = EventOfEntity)]
pub struct EventBody {
    pub id: Uuid,
    pub calendar_id: Uuid,
    pub title: String,
    pub starts_at: DateTime<Utc>,
    pub ends_at: DateTime<Utc>,
}

impl From<LinkedEvent> for EventBody {
    fn from(event: LinkedEvent) -> Self {
        Self {
            id: event.id,
            calendar_id: event.calendar_id,
            title: event.title,
            starts_at: event.starts_at,
            ends_at: event.ends_at,
        }
    }
}

/// A linked entity.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = WorkLinked)]
pub struct LinkedBody {
    pub link: LinkBody,
    /// Without `description` and `content`
    pub entity: WorkEntityBody,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = WorkLinkedList)]
#[serde(rename_all = "camelCase")]
pub struct LinkedList {
    pub items: Vec<LinkedBody>,
    /// Linked events in the caller's calendars, earliest first
    pub calendar_events: Vec<EventBody>,
}

/// Refuses an event that is not the caller's.
async fn seen(db: &mut PgConnection, caller: &Caller, id: Uuid) -> Result<(), Problem> {
    let event = events::locked(db, caller.owner(), id).await?;
    match event.filter(|event| !event.is_deleted) {
        Some(_) => Ok(()),
        None => Err(Problem::not_found("event_not_found", "The event")),
    }
}

/// List the entities of the work graph that an event is linked to
#[utoipa::path(get, path = "/api/calendar-events/{id}/entities", tag = "calendar events",
    params(("id" = Uuid, Path, description = "The event")),
    responses((status = 200, description = "All linked entities", body = EntityList), Refused))]
async fn list(
    State(state): State<AppState>,
    caller: Caller<Read>,
    Segments(id): Segments<Uuid>,
) -> Result<Json<EntityList>, Problem> {
    let mut db = caller.begin(&state).await?;
    seen(&mut db, &caller, id).await?;
    let items = entity_links::entities_of(&mut *db, caller.owner(), id).await?;
    let items = items.into_iter().map(EntityBody::from).collect();
    Ok(Json(EntityList { items }))
}

/// Link an event to an entity of the work graph. Idempotent
#[utoipa::path(put, path = "/api/calendar-events/{id}/entities/{entity}", tag = "calendar events",
    params(("id" = Uuid, Path, description = "The event"), ("entity" = Uuid, Path, description = "The task, milestone, event, … of the work graph")),
    responses((status = 204, description = "The event and the entity are linked"),
        (status = 409, description = "The event already belongs to 50 entities", body = ProblemBody, content_type = "application/problem+json"),
        Refused))]
async fn link(
    State(state): State<AppState>,
    caller: Caller<Write>,
    Segments((id, entity)): Segments<(Uuid, Uuid)>,
) -> Result<StatusCode, Problem> {
    let mut db = caller.begin(&state).await?;
    seen(&mut db, &caller, id).await?;
    match entities::get_any(&mut db, caller.workspace_id, entity).await {
        Ok(_) => {}
        Err(rejoin_graph::Error::NotFound { .. }) => return Err(Problem::not_found("not_found", "The entity")),
        Err(error) => return Err(error.into()),
    }
    if !entity_links::link(&mut db, caller.owner(), id, entity).await? {
        let detail = format!("An event belongs to at most {MAX_ENTITIES} entities. Unlink one first.");
        return Err(Problem::conflict("too_many_entities", detail));
    }
    db.commit().await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Remove the link between an event and an entity
#[utoipa::path(delete, path = "/api/calendar-events/{id}/entities/{entity}", tag = "calendar events",
    params(("id" = Uuid, Path, description = "The event"), ("entity" = Uuid, Path, description = "The entity")),
    responses((status = 204, description = "They are no longer linked"), Refused))]
async fn unlink(
    State(state): State<AppState>,
    caller: Caller<Write>,
    Segments((id, entity)): Segments<(Uuid, Uuid)>,
) -> Result<StatusCode, Problem> {
    let mut db = caller.begin(&state).await?;
    seen(&mut db, &caller, id).await?;
    entity_links::unlink(&mut *db, caller.owner(), id, entity).await?;
    db.commit().await?;
    Ok(StatusCode::NO_CONTENT)
}

/// List the entities that an entity is linked to
#[utoipa::path(get, path = "/api/onto/{kind}/{id}/linked", tag = "onto",
    params(("kind" = String, Path, description = "`projects`, `tasks`, `goals`, …"), ("id" = Uuid, Path, description = "It")),
    responses((status = 200, description = "The linked entities with their links", body = LinkedList), Refused))]
async fn linked(
    State(state): State<AppState>,
    caller: Caller<Read>,
    Segments((kind, id)): Segments<(String, Uuid)>,
) -> Result<Json<LinkedList>, Problem> {
    let kind = kind_of(&kind)?;
    let mut db = caller.begin(&state).await?;
    entities::get(&mut db, caller.workspace_id, kind, id).await?;
    let pairs = links::linked(&mut db, caller.workspace_id, id, None).await?;
    let items = pairs.into_iter().map(|(link, entity)| LinkedBody {
        link: link.into(),
        entity: entity.into(),
    });
    let events = entity_links::events_of(&mut *db, caller.owner(), id).await?;
    Ok(Json(LinkedList {
        items: items.collect(),
        calendar_events: events.into_iter().map(EventBody::from).collect(),
    }))
}
