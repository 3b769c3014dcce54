//! Links from calendar events to entities of the work graph. Called by the API.
//!
//! Invariant: every statement names the owner of the calendar; deleted events and entities are never returned.

use chrono::{DateTime, Utc};
use rejoin_types::owner::Owner;
use sqlx::{FromRow, PgConnection, PgExecutor};
use uuid::Uuid;

/// Maximum number of entities of one event.
pub const MAX_ENTITIES: i64 = 50;
/// Maximum number of listed events of an entity.
const MAX_EVENTS: i64 = 200;

/// An entity linked with an event.
#[derive(Debug, Clone, PartialEq, FromRow)]
pub struct LinkedEntity {
    pub id: Uuid,
    pub kind: String,
    pub name: String,
}

/// An event linked with an entity.
#[derive(Debug, Clone, PartialEq, FromRow)]
pub struct LinkedEvent {
    pub id: Uuid,
    pub calendar_id: Uuid,
    pub title: String,
    pub starts_at: DateTime<Utc>,
    pub ends_at: DateTime<Utc>,
}

/// Links an event of the owner with an entity that the caller has found. Idempotent. False: the event already has
/// [`MAX_ENTITIES`].
pub async fn link(db: &mut PgConnection, owner: Owner, event: Uuid, entity: Uuid) -> Result<bool, sqlx::Error> {
    let done = sqlx::query(
        "insert into kb.calendar_event_entities (event_id, entity_id)
         select e.id, $4
         from kb.calendar_events e join kb.calendars c on c.id = e.calendar_id
         where c.project_id = $1 and c.owner_user_id = $2 and e.id = $3 and e.deleted_at is null
           and (select count(*) from kb.calendar_event_entities l where l.event_id = e.id) < $5
         on conflict do nothing",
    )
    .bind(owner.workspace_id)
    .bind(owner.user_id)
    .bind(event)
    .bind(entity)
    .bind(MAX_ENTITIES)
    .execute(&mut *db)
    .await?;
    if done.rows_affected() > 0 {
        return Ok(true);
    }
    sqlx::query_scalar("select exists (select from kb.calendar_event_entities where event_id = $1 and entity_id = $2)")
        .bind(event)
        .bind(entity)
        .fetch_one(db)
        .await
}

/// Removes a link. False: there was none.
pub async fn unlink(db: impl PgExecutor<'_>, owner: Owner, event: Uuid, entity: Uuid) -> Result<bool, sqlx::Error> {
    let done = sqlx::query(
        "delete from kb.calendar_event_entities l
         using kb.calendar_events e join kb.calendars c on c.id = e.calendar_id
         where l.event_id = e.id and c.project_id = $1 and c.owner_user_id = $2 and e.id = $3 and l.entity_id = $4",
    )
    .bind(owner.workspace_id)
    .bind(owner.user_id)
    .bind(event)
    .bind(entity)
    .execute(db)
    .await?;
    Ok(done.rows_affected() > 0)
}

/// Returns the entities of an owner's event, in order of linking.
pub async fn entities_of(db: impl PgExecutor<'_>, owner: Owner, event: Uuid) -> Result<Vec<LinkedEntity>, sqlx::Error> {
    sqlx::query_as(
        "select o.canonical_id as id, o.type as kind, o.name
           from kb.calendar_event_entities l
           join kb.calendar_events e on e.id = l.event_id
           join kb.calendars c on c.id = e.calendar_id
           join kb.graph_objects o
             on o.project_id = c.project_id and o.canonical_id = l.entity_id and o.superseded_at is null and o.deleted_at is null
           where c.project_id = $1 and c.owner_user_id = $2 and e.id = $3
           order by l.created_at, l.entity_id",
    )
    .bind(owner.workspace_id)
    .bind(owner.user_id)
    .bind(event)
    .fetch_all(db)
    .await
}

/// Returns the owner's events of an entity, earliest first.
pub async fn events_of(db: impl PgExecutor<'_>, owner: Owner, entity: Uuid) -> Result<Vec<LinkedEvent>, sqlx::Error> {
    sqlx::query_as(
        "select e.id, e.calendar_id, e.title, e.starts_at, e.ends_at
         from kb.calendar_event_entities l
         join kb.calendar_events e on e.id = l.event_id
         join kb.calendars c on c.id = e.calendar_id
         where c.project_id = $1 and c.owner_user_id = $2 and l.entity_id = $3 and e.deleted_at is null
         order by e.starts_at, e.id limit $4",
    )
    .bind(owner.workspace_id)
    .bind(owner.user_id)
    .bind(entity)
    .bind(MAX_EVENTS)
    .fetch_all(db)
    .await
}
