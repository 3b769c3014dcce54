//! Links from calendar events to entities of the work graph. Called by the API.
//!
//! Invariant: every statement names the owner of the calendar; deleted events and entities are never returned.

use chrono::{DateTime, Utc};
use rejoin_shared::owner::Owner;
use sqlx::{FromRow, PgConnection, PgExecutor};
use uuid::Uuid;

/// Entities that one event belongs to.
pub const MAX_ENTITIES: i64 = 50;
/// Events of an entity that are told.
const MAX_EVENTS: i64 = 200;

/// An entity that an event belongs to.
#[derive(Debug, Clone, PartialEq, FromRow)]
pub struct LinkedEntity {
    pub id: Uuid,
    pub kind: String,
    pub name: String,
}

/// An event that belongs to an entity.
#[derive(Debug, Clone, PartialEq, FromRow)]
pub struct LinkedEvent {
    pub id: Uuid,
    pub calendar_id: Uuid,
    pub title: String,
    pub starts_at: DateTime<Utc>,
    pub ends_at: DateTime<Utc>,
}

/// Links an event of the owner's with an entity that the caller has found. Doing it again changes nothing. False: the event belongs to
/// [`MAX_ENTITIES`] already.
pub async fn link(db: &mut PgConnection, owner: Owner, event: Uuid, entity: Uuid) -> Result<bool, sqlx::Error> {
    let done = sqlx::query(
        "insert into kb.calendar_event_entities (event_id, entity_id)
         select e.id, $4
         from kb.calendar_events e join kb.calendars c on c.id = e.calendar_id
         where c.project_id = $1 and c.owner_user_id = $2 and e.id = $3 and e.deleted_at is null
           and (select count(*) from kb.calendar_event_entities l where l.event_id = e.id) < $5
         on conflict do nothing",
    )
    .bind(owner.project_id)
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

/// Takes a link away. False: there was none.
pub async fn unlink(db: impl PgExecutor<'_>, owner: Owner, event: Uuid, entity: Uuid) -> Result<bool, sqlx::Error> {
    let done = sqlx::query(
        "delete from kb.calendar_event_entities l
         using kb.calendar_events e join kb.calendars c on c.id = e.calendar_id
         where l.event_id = e.id and c.project_id = $1 and c.owner_user_id = $2 and e.id = $3 and l.entity_id = $4",
    )
    .bind(owner.project_id)
    .bind(owner.user_id)
    .bind(event)
    .bind(entity)
    .execute(db)
    .await?;
    Ok(done.rows_affected() > 0)
}

/// The entities that an event of the owner's belongs to, in the order in which they were linked.
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
    .bind(owner.project_id)
    .bind(owner.user_id)
    .bind(event)
    .fetch_all(db)
    .await
}

/// The events of the owner's that belong to an entity, the first ones first.
pub async fn events_of(db: impl PgExecutor<'_>, owner: Owner, entity: Uuid) -> Result<Vec<LinkedEvent>, sqlx::Error> {
    sqlx::query_as(
        "select e.id, e.calendar_id, e.title, e.starts_at, e.ends_at
         from kb.calendar_event_entities l
         join kb.calendar_events e on e.id = l.event_id
         join kb.calendars c on c.id = e.calendar_id
         where c.project_id = $1 and c.owner_user_id = $2 and l.entity_id = $3 and e.deleted_at is null
         order by e.starts_at, e.id limit $4",
    )
    .bind(owner.project_id)
    .bind(owner.user_id)
    .bind(entity)
    .bind(MAX_EVENTS)
    .fetch_all(db)
    .await
}
