//! Invitations: links with which users join a workspace. Its owners make and revoke them; `sso` and the endpoint of
//! invitations accept them.
//!
//! Invariants: an invitation adds at most `max_uses` members, until it expires or is revoked, and only while the owner who
//! made it is an owner; only its SHA-256 is stored. A user who is a member already keeps the role, and uses nothing up.

use chrono::{DateTime, Utc};
use serde_json::json;
use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

use crate::audit::{self, Action, Actor, Pending};
use crate::auth::{self, Caller, Maker};
use crate::keys::{self, KeyError};
use crate::sessions::{self, Basis, Begun, NewSession};
use crate::workspaces::{self, Role};
use rejoin_db::rls;
use rejoin_types::access::{Grant, Scope};
use rejoin_types::ids;
use rejoin_types::owner::Owner;

/// Maximum number of users who may join with one invitation.
pub const MAX_USES: i32 = 1_000;
/// Maximum length of a note, in characters.
pub const MAX_NOTE: usize = 200;
/// Maximum length of a handle, in characters.
pub const MAX_HANDLE: usize = 255;
/// The name of the key that an invited user gets.
const KEY_NAME: &str = "sign-in key";

/// An invitation, without its token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invitation {
    pub id: Uuid,
    pub role: String,
    pub max_uses: i32,
    pub uses: i32,
    pub note: Option<String>,
    /// The owner who made it. None: the user was deleted.
    pub made_by: Option<Uuid>,
    pub created_at: DateTime<Utc>,
    pub expires_at: DateTime<Utc>,
    pub revoked_at: Option<DateTime<Utc>>,
    /// It can still be accepted.
    pub is_valid: bool,
}

/// The properties of a new invitation.
#[derive(Debug, Clone)]
pub struct NewInvitation<'a> {
    pub role: Role,
    pub max_uses: i32,
    pub lifetime_s: i64,
    pub note: Option<&'a str>,
    /// Maximum number of valid invitations of the workspace.
    pub max_valid: i64,
}

/// What an invitation offers, for the page that asks whether to accept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    pub id: Uuid,
    pub workspace_id: Uuid,
    /// The workspace's name.
    pub workspace: String,
    pub role: String,
    /// The handle of the owner who made it.
    pub invited_by: String,
    pub expires_at: DateTime<Utc>,
}

/// The reason why an invitation was not made or not accepted.
#[derive(Debug, thiserror::Error)]
pub enum InvitationError {
    #[error("an invitation is for 1 to {MAX_USES} users")]
    Uses,
    #[error("a note must have 1 to {MAX_NOTE} characters and no control characters")]
    Note,
    #[error("a program gets an API key, not an invitation; choose another role than `service`")]
    Service,
    #[error("the project has {0} valid invitations, the maximum; revoke some")]
    TooMany(i64),
    #[error("there is no such invitation in the project")]
    NotFound,
    #[error("the invitation is unknown, used up, expired or revoked; ask for another one")]
    Invalid,
    #[error(
        "a handle must have 1 to {MAX_HANDLE} characters, without spaces at its ends and without control characters"
    )]
    Handle,
    #[error("this handle is taken; choose another one")]
    HandleTaken,
    #[error(transparent)]
    Key(#[from] KeyError),
    #[error("reading the invitations failed")]
    Database(#[from] sqlx::Error),
}

/// Makes an invitation to the caller's workspace, and returns it with its token, which is shown only here.
pub async fn make(
    db: &mut PgConnection,
    caller: &Caller,
    new: &NewInvitation<'_>,
) -> Result<(Invitation, String), InvitationError> {
    if !(1..=MAX_USES).contains(&new.max_uses) {
        return Err(InvitationError::Uses);
    }
    if new.role == Role::Service {
        return Err(InvitationError::Service);
    }
    if new.note.is_some_and(|note| !is_plain(note, MAX_NOTE)) {
        return Err(InvitationError::Note);
    }
    lock(db, caller.workspace_id).await?;
    forget_old(db, caller.workspace_id).await?;
    let valid = sqlx::query_scalar!(
        r#"select count(*) as "count!" from kb.invitations
           where project_id = $1 and revoked_at is null and expires_at > now() and uses < max_uses"#,
        caller.workspace_id
    )
    .fetch_one(&mut *db)
    .await?;
    if valid >= new.max_valid {
        return Err(InvitationError::TooMany(new.max_valid));
    }
    let (id, token) = (ids::new(), auth::random_secret());
    sqlx::query!(
        "insert into kb.invitations (id, project_id, hash, role, max_uses, note, made_by, expires_at)
         values ($1, $2, $3, $4, $5, $6, $7, now() + $8::bigint * interval '1 second')",
        id,
        caller.workspace_id,
        auth::hash_secret(&token),
        new.role.as_str(),
        new.max_uses,
        new.note,
        caller.user_id,
        new.lifetime_s
    )
    .execute(&mut *db)
    .await?;
    let made = find(db, caller.workspace_id, id).await?;
    Ok((made, token))
}

/// Returns up to `limit` invitations of the workspace after `after`, newest first, including those that are not valid.
pub async fn page(
    db: &mut PgConnection,
    workspace_id: Uuid,
    after: Option<Uuid>,
    limit: i64,
) -> Result<Vec<Invitation>, sqlx::Error> {
    sqlx::query_as!(
        Invitation,
        r#"select i.id, i.role, i.max_uses, i.uses, i.note, i.made_by, i.created_at, i.expires_at, i.revoked_at,
                  (i.revoked_at is null and i.expires_at > now() and i.uses < i.max_uses
                   and exists (select from kb.project_members m
                               where m.project_id = i.project_id and m.user_id = i.made_by and m.role = 'owner')) as "is_valid!"
           from kb.invitations i
           where i.project_id = $1 and ($2::uuid is null or i.id < $2)
           order by i.id desc limit $3"#,
        workspace_id,
        after,
        limit
    )
    .fetch_all(db)
    .await
}

/// Revokes an invitation of the workspace. False: it was revoked before.
pub async fn revoke(db: &mut PgConnection, workspace_id: Uuid, id: Uuid) -> Result<bool, InvitationError> {
    let known = find(db, workspace_id, id).await?;
    if known.revoked_at.is_some() {
        return Ok(false);
    }
    let done = sqlx::query!(
        "update kb.invitations set revoked_at = now() where id = $1 and project_id = $2 and revoked_at is null",
        id,
        workspace_id
    )
    .execute(db)
    .await?;
    Ok(done.rows_affected() > 0)
}

async fn find(db: &mut PgConnection, workspace_id: Uuid, id: Uuid) -> Result<Invitation, InvitationError> {
    let found = sqlx::query_as!(
        Invitation,
        r#"select i.id, i.role, i.max_uses, i.uses, i.note, i.made_by, i.created_at, i.expires_at, i.revoked_at,
                  (i.revoked_at is null and i.expires_at > now() and i.uses < i.max_uses
                   and exists (select from kb.project_members m
                               where m.project_id = i.project_id and m.user_id = i.made_by and m.role = 'owner')) as "is_valid!"
           from kb.invitations i
           where i.project_id = $1 and i.id = $2"#,
        workspace_id,
        id
    )
    .fetch_optional(db)
    .await?;
    found.ok_or(InvitationError::NotFound)
}

/// Returns what a token offers, while it can be accepted.
pub async fn offer(db: &mut PgConnection, token: &str) -> Result<Offer, InvitationError> {
    let found = sqlx::query_as!(
        Offer,
        "select i.id, i.project_id as workspace_id, p.name as workspace, i.role, u.handle as invited_by, i.expires_at
         from kb.invitations i
         join kb.projects p on p.id = i.project_id
         join kb.users u on u.id = i.made_by
         join kb.project_members m on m.project_id = i.project_id and m.user_id = i.made_by and m.role = 'owner'
         where i.hash = $1 and i.revoked_at is null and i.expires_at > now() and i.uses < i.max_uses",
        auth::hash_secret(token)
    )
    .fetch_optional(db)
    .await?;
    found.ok_or(InvitationError::Invalid)
}

/// The same in a transaction that ends here.
pub async fn look_up(db: &PgPool, token: &str) -> Result<Offer, InvitationError> {
    offer(&mut *rls::begin(db, rls::Scope::Login).await?, token).await
}

/// Makes a user a member by an offer that was just read in this transaction, and returns the role, and what is to be recorded.
/// Concurrent acceptances wait, and the last place is taken once.
pub(crate) async fn join(
    db: &mut PgConnection,
    offer: &Offer,
    user_id: Uuid,
) -> Result<(Role, Option<Pending>), InvitationError> {
    if let Some(role) = workspaces::role_of(db, offer.workspace_id, user_id).await? {
        return Ok((role, None));
    }
    let owner = Owner {
        workspace_id: offer.workspace_id,
        user_id,
    };
    rls::identified(db, Some(owner)).await?;
    let done = sqlx::query!(
        "update kb.invitations i set uses = uses + 1
         where i.id = $1 and i.revoked_at is null and i.expires_at > now() and i.uses < i.max_uses",
        offer.id
    )
    .execute(&mut *db)
    .await?;
    if done.rows_affected() == 0 {
        return Err(InvitationError::Invalid);
    }
    rls::identified(db, None).await?;
    let role = Role::stored(&offer.role);
    workspaces::add_member(db, offer.workspace_id, user_id, role).await?;
    let entry = Pending {
        workspace_id: Some(offer.workspace_id),
        action: Action::InvitationAccepted,
        target: format!("invitation:{}", offer.id),
        detail: json!({"userId": user_id, "role": role.as_str()}),
    };
    Ok((role, Some(entry)))
}

/// A user who has joined, with the session in the workspace.
pub struct Joined {
    pub user_id: Uuid,
    pub workspace_id: Uuid,
    pub role: Role,
    pub session: Begun,
    /// The key with which a new user signs in again. It is shown only here.
    pub key: Option<String>,
}

/// Lets a signed-in user join, and begins a session in the workspace.
pub async fn accept(
    db: &PgPool,
    caller: &Caller,
    token: &str,
    session: NewSession<'_>,
) -> Result<Joined, InvitationError> {
    let mut tx = rls::begin(db, rls::Scope::Login).await?;
    let offer = offer(&mut tx, token).await?;
    let (role, joined) = join(&mut tx, &offer, caller.user_id).await?;
    let scopes_anywhere = sessions::scopes_anywhere(&mut tx, caller).await?;
    let scopes_anywhere = scopes_anywhere.as_deref();
    let begun = begin(&mut tx, &offer, caller.user_id, role, None, scopes_anywhere, session).await?;
    sessions::keep_provider(&mut tx, caller, begun.id).await?;
    let mut entries: Vec<Pending> = joined.into_iter().collect();
    entries.push(sessions::begun_entry(offer.workspace_id, begun.id));
    audit::append_all(&mut tx, &Actor::caller(caller), entries).await?;
    tx.commit().await?;
    Ok(Joined {
        user_id: caller.user_id,
        workspace_id: offer.workspace_id,
        role,
        session: begun,
        key: None,
    })
}

/// Creates a user with this handle, who joins, and gets an API key for the workspace and a session that ends with it.
pub async fn accept_as_new_user(
    db: &PgPool,
    handle: &str,
    token: &str,
    session: NewSession<'_>,
) -> Result<Joined, InvitationError> {
    if handle.trim() != handle || !is_plain(handle, MAX_HANDLE) {
        return Err(InvitationError::Handle);
    }
    let mut tx = rls::begin(db, rls::Scope::Login).await?;
    let offer = offer(&mut tx, token).await?;
    let workspace = Some(offer.workspace_id);
    // Before rows are changed that others change who hold this lock.
    keys::have_room(&mut tx, offer.workspace_id).await?;
    let user_id = ids::new();
    if !workspaces::create_self_named(&mut tx, user_id, handle).await? {
        return Err(InvitationError::HandleTaken);
    }
    let (role, joined) = join(&mut tx, &offer, user_id).await?;
    // A program's scope is not for browsers.
    let scopes = role.scopes().iter().copied().filter(|scope| *scope != Scope::Worker);
    let grants: Vec<Grant> = scopes.map(Grant::from).collect();
    let maker = Maker { user_id, key_id: None };
    let owner = Owner {
        workspace_id: offer.workspace_id,
        user_id,
    };
    rls::identified(&mut tx, Some(owner)).await?;
    let (key_id, key) = auth::insert_key(&mut tx, user_id, workspace, KEY_NAME, &grants, None, Some(maker)).await?;
    // What is recorded concerns the installation, too.
    rls::identified(&mut tx, None).await?;
    let begun = begin(&mut tx, &offer, user_id, role, Some(key_id), None, session).await?;
    let created = Pending {
        workspace_id: None,
        action: Action::UserCreated,
        target: format!("user:{user_id}"),
        detail: json!({"invitation": offer.id}),
    };
    let key_created = Pending {
        workspace_id: workspace,
        action: Action::KeyCreated,
        target: format!("api_key:{key_id}"),
        detail: json!({"name": KEY_NAME, "userId": user_id, "scopes": session_scopes(role)}),
    };
    let mut entries = vec![created];
    entries.extend(joined);
    entries.extend([key_created, sessions::begun_entry(offer.workspace_id, begun.id)]);
    audit::append_all(&mut tx, &Actor::invited(user_id, offer.id), entries).await?;
    tx.commit().await?;
    Ok(Joined {
        user_id,
        workspace_id: offer.workspace_id,
        role,
        session: begun,
        key: Some(key),
    })
}

async fn begin(
    db: &mut PgConnection,
    offer: &Offer,
    user_id: Uuid,
    role: Role,
    parent: Option<Uuid>,
    scopes_anywhere: Option<&[String]>,
    session: NewSession<'_>,
) -> Result<Begun, sqlx::Error> {
    let scopes = session_scopes(role);
    let basis = Basis {
        user_id,
        workspace_id: offer.workspace_id,
        scopes: &scopes,
        scopes_anywhere,
        parent,
        until: None,
    };
    sessions::insert(db, &basis, session).await
}

/// The scopes of a session with all rights that a browser may have in this role.
fn session_scopes(role: Role) -> Vec<String> {
    let scopes = role.scopes().iter().filter(|scope| **scope != Scope::Worker);
    scopes.map(|scope| scope.as_str().to_owned()).collect()
}

/// Removes invitations that expired long ago. What was done with them is in the audit log.
async fn forget_old(db: &mut PgConnection, workspace_id: Uuid) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "delete from kb.invitations where project_id = $1 and expires_at < now() - interval '30 days'",
        workspace_id
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Serializes the creation of a workspace's invitations: otherwise two could both take the last allowed place.
async fn lock(db: &mut PgConnection, workspace_id: Uuid) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "select pg_advisory_xact_lock(hashtextextended('invitations ' || $1::uuid::text, 0))",
        workspace_id
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Returns whether a text is not empty, not too long, and without control characters.
fn is_plain(text: &str, max_chars: usize) -> bool {
    !text.trim().is_empty() && text.chars().count() <= max_chars && !text.chars().any(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_browser_gets_all_scopes_of_its_role_but_a_programs() {
        assert_eq!(session_scopes(Role::Owner), ["read", "write", "admin"]);
        assert_eq!(session_scopes(Role::Viewer), ["read"]);
        assert!(is_plain("ann", MAX_HANDLE) && !is_plain(" ", MAX_HANDLE) && !is_plain("a\u{0}b", MAX_HANDLE));
    }
}
