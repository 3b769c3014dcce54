//! External identities: maps users with an identity provider's token to local users, and tokens to projects. Called by
//! the API after it has verified a token.
//!
//! An identity is issuer and subject, never a name: names change and are reassigned. The name (`handle`) is used once,
//! to find or create the user of a new identity.
//!
//! Invariant: a user has one identity per issuer; a login with that user's name and another subject is refused.

use chrono::{DateTime, TimeDelta, Utc};
use serde_json::json;
use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

use crate::audit::{self, Action, Actor, NewEntry};
use crate::auth::{self, AuthError, Caller, Credential, Expiry};
use crate::projects::{self, Membership, Role};
use crate::walls::{self, Asking};

/// What a genuine token says of its holder.
#[derive(Debug, Clone)]
pub struct Identity {
    pub issuer: String,
    pub subject: String,
    /// What people call the user; None: the token does not say, or not credibly.
    pub handle: Option<String>,
    /// The projects that the token opens; None: it does not say.
    pub projects: Option<Vec<Uuid>>,
    pub scopes: Vec<String>,
    pub expires_at: DateTime<Utc>,
    /// It is not valid before.
    pub not_before: Option<DateTime<Utc>>,
}

/// The clock of the issuer may be ahead of the database's by this.
const LEEWAY: TimeDelta = TimeDelta::seconds(30);

/// What becomes of an identity that was never seen here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NewUsers {
    /// It must bear the handle of a user whom an operator has made here.
    Refuse,
    /// A user is made, unless there is one of that handle, and becomes a member of the projects that the token names, or else of
    /// this one.
    Create { default_project: Option<Uuid> },
}

/// Who the holder of the token is here, and in which project.
pub async fn authenticate(
    db: &PgPool,
    identity: &Identity,
    new_users: NewUsers,
    wanted_project: Option<Uuid>,
) -> Result<Caller, AuthError> {
    let mut found = find(db, identity).await?;
    // Before anybody is made for it.
    if identity.not_before.is_some_and(|at| at > found.now + LEEWAY) {
        return Err(AuthError::TokenNotYetValid);
    }
    let expiry = Expiry::of(identity.expires_at, found.now).ok_or(AuthError::TokenExpired)?;
    if found.lacks(identity, new_users) {
        let mut tx = walls::begin(db, Asking::Gate).await?;
        admit(&mut tx, identity, new_users).await?;
        tx.commit().await?;
        found = find(db, identity).await?;
    }
    let user_id = found.user_id.ok_or(AuthError::UnknownUser)?;
    let mut opened = found.memberships;
    if let Some(named) = &identity.projects {
        opened.retain(|membership| named.contains(&membership.project_id));
    }
    let membership = auth::choose_project(&opened, wanted_project)?;
    let scopes = identity.scopes.clone();
    Ok(Caller::new(Credential::Token(expiry), user_id, membership, scopes))
}

struct Found {
    /// The database's time.
    now: DateTime<Utc>,
    /// None: nobody yet.
    user_id: Option<Uuid>,
    /// The oldest first.
    memberships: Vec<Membership>,
    /// Of the projects that the token names, those that exist.
    existing: Vec<Uuid>,
}

impl Found {
    fn is_member(&self, project_id: Uuid) -> bool {
        self.memberships
            .iter()
            .any(|membership| membership.project_id == project_id)
    }

    /// Whether there is no such user yet, or the token opens a project that the user is to become a member of.
    fn lacks(&self, identity: &Identity, new_users: NewUsers) -> bool {
        if self.user_id.is_none() {
            return true;
        }
        match (new_users, &identity.projects) {
            (NewUsers::Refuse, _) | (NewUsers::Create { .. }, None) => false,
            (NewUsers::Create { .. }, Some(_)) => self.existing.iter().any(|id| !self.is_member(*id)),
        }
    }
}

async fn find(db: &PgPool, identity: &Identity) -> Result<Found, sqlx::Error> {
    let mut db = walls::begin(db, Asking::Gate).await?;
    let named = identity.projects.as_deref().unwrap_or_default();
    let found = sqlx::query!(
        r#"select now() as "now!", i.user_id as "user_id?",
                  coalesce((select array_agg(p.id) from kb.projects p where p.id = any($3)), '{}') as "existing!: Vec<Uuid>"
           -- a row also for an identity that was never seen
           from (values (1)) asked left join kb.identities i on i.issuer = $1 and i.subject = $2"#,
        identity.issuer,
        identity.subject,
        named
    )
    .fetch_one(&mut *db)
    .await?;
    let memberships = match found.user_id {
        Some(user_id) => projects::memberships(&mut db, user_id).await?,
        None => Vec::new(),
    };
    Ok(Found {
        now: found.now,
        user_id: found.user_id,
        memberships,
        existing: found.existing,
    })
}

/// Takes an identity in, as far as it may be. Whoever asks with the same one at the same time waits, and finds it.
async fn admit(db: &mut PgConnection, identity: &Identity, new_users: NewUsers) -> Result<(), AuthError> {
    let (user_id, news) = match find_user(db, identity).await? {
        Some(id) => (id, None),
        None => link(db, identity, new_users).await?,
    };
    if let NewUsers::Create { default_project } = new_users {
        let of_token = identity.projects.clone();
        let of_setting = default_project.into_iter().collect();
        for project in of_token.unwrap_or(of_setting) {
            // An operator makes more of them.
            projects::add_member_if_there(db, project, user_id, Role::Member).await?;
        }
    }
    if let Some(action) = news {
        let entry = NewEntry {
            by: &Actor::token_holder(user_id),
            project_id: None,
            action,
            target: format!("user:{user_id}"),
            detail: json!({"issuer": identity.issuer, "subject": identity.subject}),
        };
        audit::append(db, &entry).await?;
    }
    Ok(())
}

/// The user whom a new identity stands for, and what was done about it; none: somebody was faster.
async fn link(
    db: &mut PgConnection,
    identity: &Identity,
    new_users: NewUsers,
) -> Result<(Uuid, Option<Action>), AuthError> {
    let handle = identity.handle.as_deref().ok_or(AuthError::UnknownUser)?;
    let (user_id, action) = match new_users {
        NewUsers::Refuse => (projects::find_user(db, handle).await?, Action::IdentityLinked),
        // Never one who was here before: where anybody may sign up, anybody may choose that user's name.
        NewUsers::Create { .. } => (projects::create_user(db, handle).await?, Action::UserCreated),
    };
    let mut news = None;
    if let Some(user_id) = user_id {
        // Where the user has another identity of this issuer, nothing is stored.
        let stored = sqlx::query!(
            "insert into kb.identities (issuer, subject, user_id) values ($1, $2, $3) on conflict do nothing",
            identity.issuer,
            identity.subject,
            user_id
        )
        .execute(&mut *db)
        .await?;
        news = (stored.rows_affected() > 0).then_some(action);
    }
    // Somebody may have been faster with the same identity: theirs is seen now.
    let user_id = find_user(db, identity).await?.ok_or(AuthError::UnknownUser)?;
    Ok((user_id, news))
}

/// The user whom a known identity stands for.
async fn find_user(db: &mut PgConnection, identity: &Identity) -> Result<Option<Uuid>, sqlx::Error> {
    sqlx::query_scalar!(
        "select user_id from kb.identities where issuer = $1 and subject = $2",
        identity.issuer,
        identity.subject
    )
    .fetch_optional(db)
    .await
}
