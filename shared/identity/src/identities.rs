//! External identities: maps users with an identity provider's token to local users, and tokens to workspaces. Called by
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

use crate::audit::{self, Action, Actor, Pending};
use crate::auth::{self, AuthError, Caller, Credential, Expiry};
use crate::workspaces::{self, Membership, Role};
use rejoin_db::rls;

/// The claims of a verified token.
#[derive(Debug, Clone)]
pub struct Identity {
    pub issuer: String,
    pub subject: String,
    /// The user's name; None: missing or not trustworthy.
    pub handle: Option<String>,
    /// The workspaces granted by the token; None: not stated.
    pub workspaces: Option<Vec<Uuid>>,
    pub scopes: Vec<String>,
    pub expires_at: DateTime<Utc>,
    /// Its `nbf` claim.
    pub not_before: Option<DateTime<Utc>>,
}

/// Maximum lead of the issuer's clock over the database's.
pub(crate) const LEEWAY: TimeDelta = TimeDelta::seconds(30);

/// The handling of unknown identities.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NewUsers {
    /// It must have the handle of a user created by an operator.
    Refuse,
    /// Creates a user, unless the handle exists, as a member of the workspaces named by the token, or of this default.
    Create { default_project: Option<Uuid> },
}

/// Returns the local user and workspace of a token's holder.
pub async fn authenticate(
    db: &PgPool,
    identity: &Identity,
    new_users: NewUsers,
    wanted_workspace: Option<Uuid>,
) -> Result<Caller, AuthError> {
    let mut found = find(db, identity).await?;
    // Checked before a user is created.
    if identity.not_before.is_some_and(|at| at > found.now + LEEWAY) {
        return Err(AuthError::TokenNotYetValid);
    }
    let expiry = Expiry::of(identity.expires_at, found.now).ok_or(AuthError::TokenExpired)?;
    if found.lacks(identity, new_users) {
        let mut tx = rls::begin(db, rls::Scope::Login).await?;
        let (user_id, news) = provision(&mut tx, identity, new_users).await?;
        let by = Actor::token_holder(user_id);
        audit::append_all(&mut tx, &by, news.into_iter().collect()).await?;
        tx.commit().await?;
        found = find(db, identity).await?;
    }
    let user_id = found.user_id.ok_or(AuthError::UnknownUser)?;
    let mut opened = found.memberships;
    if let Some(named) = &identity.workspaces {
        opened.retain(|membership| named.contains(&membership.workspace_id));
    }
    let membership = auth::choose_workspace(&opened, wanted_workspace)?;
    let scopes = identity.scopes.clone();
    Ok(Caller::new(Credential::Token(expiry), user_id, membership, scopes))
}

struct KnownUser {
    /// The database's time.
    now: DateTime<Utc>,
    /// None: not linked yet.
    user_id: Option<Uuid>,
    /// Oldest first.
    memberships: Vec<Membership>,
    /// The existing ones among the workspaces named by the token.
    existing: Vec<Uuid>,
}

impl KnownUser {
    fn is_member(&self, workspace_id: Uuid) -> bool {
        self.memberships
            .iter()
            .any(|membership| membership.workspace_id == workspace_id)
    }

    /// Returns whether the user does not exist yet, or must become a member of a workspace named by the token.
    fn lacks(&self, identity: &Identity, new_users: NewUsers) -> bool {
        if self.user_id.is_none() {
            return true;
        }
        match (new_users, &identity.workspaces) {
            (NewUsers::Refuse, _) | (NewUsers::Create { .. }, None) => false,
            (NewUsers::Create { .. }, Some(_)) => self.existing.iter().any(|id| !self.is_member(*id)),
        }
    }
}

async fn find(db: &PgPool, identity: &Identity) -> Result<KnownUser, sqlx::Error> {
    let mut db = rls::begin(db, rls::Scope::Login).await?;
    let named = identity.workspaces.as_deref().unwrap_or_default();
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
        Some(user_id) => workspaces::memberships(&mut db, user_id).await?,
        None => Vec::new(),
    };
    Ok(KnownUser {
        now: found.now,
        user_id: found.user_id,
        memberships,
        existing: found.existing,
    })
}

/// Links an identity, as far as allowed, and returns what is to be recorded. Concurrent requests with the same one wait, and find it.
pub(crate) async fn provision(
    db: &mut PgConnection,
    identity: &Identity,
    new_users: NewUsers,
) -> Result<(Uuid, Option<Pending>), AuthError> {
    let (user_id, news) = match find_user(db, identity).await? {
        Some(id) => (id, None),
        None => link(db, identity, new_users).await?,
    };
    if let NewUsers::Create { default_project } = new_users {
        let of_token = identity.workspaces.clone();
        let of_setting = default_project.into_iter().collect();
        for workspace in of_token.unwrap_or(of_setting) {
            // Operators can raise the role.
            workspaces::add_member_if_there(db, workspace, user_id, Role::Member).await?;
        }
    }
    let entry = news.map(|action| Pending {
        workspace_id: None,
        action,
        target: format!("user:{user_id}"),
        detail: json!({"issuer": identity.issuer, "subject": identity.subject}),
    });
    Ok((user_id, entry))
}

/// Returns the user of a new identity, and what was done; none: a concurrent request was faster.
async fn link(
    db: &mut PgConnection,
    identity: &Identity,
    new_users: NewUsers,
) -> Result<(Uuid, Option<Action>), AuthError> {
    let handle = identity.handle.as_deref().ok_or(AuthError::UnknownUser)?;
    let (user_id, action) = match new_users {
        NewUsers::Refuse => (workspaces::find_user_to_link(db, handle).await?, Action::IdentityLinked),
        // Never an existing user: where anyone may sign up, anyone could choose that user's name.
        NewUsers::Create { .. } => (workspaces::create_user(db, handle).await?, Action::UserCreated),
    };
    let mut news = None;
    if let Some(user_id) = user_id {
        // Nothing is stored if the user has another identity of this issuer.
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
    // A concurrent request may have linked the same identity: it is visible now.
    let user_id = find_user(db, identity).await?.ok_or(AuthError::UnknownUser)?;
    Ok((user_id, news))
}

/// Returns the user of a known identity.
pub(crate) async fn find_user(db: &mut PgConnection, identity: &Identity) -> Result<Option<Uuid>, sqlx::Error> {
    sqlx::query_scalar!(
        "select user_id from kb.identities where issuer = $1 and subject = $2",
        identity.issuer,
        identity.subject
    )
    .fetch_optional(db)
    .await
}
