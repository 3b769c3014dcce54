//! Sign-in of browsers at the identity provider: from a verified ID token to a user, memberships and a session, in one
//! transaction. Called by the endpoints of sign-in after they have verified the token (`rejoin_http::oidc`).
//!
//! Invariants: a user is found by issuer and subject, never by an address or a name, except for the first link that
//! `identities` allows; roles that groups have given follow the groups at each sign-in, and those given here stay. If a user is
//! refused, nothing changes, except that a known user without groups loses the roles that groups have given.

use chrono::{DateTime, TimeDelta, Utc};
use serde_json::json;
use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

use crate::audit::{self, Action, Actor, Pending};
use crate::auth::{AuthError, Caller, Credential, Expiry};
use crate::identities::{self, Identity, LEEWAY, NewUsers};
use crate::invitations::{self, InvitationError};
use crate::sessions::{self, Basis, Begun, Ended, NewSession};
use crate::workspaces::{self, Membership, Role};
use rejoin_db::rls;
use rejoin_types::access::Scope;

/// Maximum age of an ID token, which is minted for the sign-in at hand, and of a logout token.
const MAX_AGE: TimeDelta = TimeDelta::minutes(10);

/// What a verified ID token says. Its times are checked here, by the database's clock.
#[derive(Debug, Clone)]
pub struct SignedToken {
    pub identity: Identity,
    /// Its `iat` claim.
    pub issued_at: DateTime<Utc>,
    /// Its `auth_time` claim: when the user authenticated. None: not stated.
    pub authenticated_at: Option<DateTime<Utc>>,
    /// Maximum time since then. None: any.
    pub max_age: Option<TimeDelta>,
    /// Its `sid` claim: the provider's session.
    pub provider_session: Option<String>,
    /// The user's groups.
    pub groups: Vec<String>,
}

/// The role that the members of a group have in a workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupRole {
    pub group: String,
    pub role: Role,
    pub workspace_id: Uuid,
}

/// Who may sign in, by the settings.
#[derive(Debug, Clone, Copy)]
pub struct Rules<'a> {
    pub new_users: NewUsers,
    /// In the order of precedence. Empty: groups give no roles.
    pub group_roles: &'a [GroupRole],
}

/// What the browser asks for.
#[derive(Debug, Clone, Copy)]
pub struct SignIn<'a> {
    /// The workspace of the session. None: the invitation's, or the user's oldest.
    pub workspace: Option<Uuid>,
    /// The token of an invitation.
    pub invitation: Option<&'a str>,
    /// The user as whom the browser is signed in and must stay.
    pub expected_user: Option<Uuid>,
    pub session: NewSession<'a>,
}

/// A user who has signed in.
pub struct SignedIn {
    pub user_id: Uuid,
    pub workspace_id: Uuid,
    pub session: Begun,
}

/// The reason why a user was not signed in.
#[derive(Debug, thiserror::Error)]
pub enum SsoError {
    #[error("the ID token is not valid now: {0}")]
    Times(&'static str),
    #[error("this account is not a user of this server; ask an operator, or an owner of a project for an invitation")]
    UnknownUser,
    #[error("this account has access to no project here; ask an owner of a project for an invitation")]
    NoProject,
    #[error("a service account cannot sign in to a browser; use its API key")]
    ServiceAccount,
    #[error("this browser is signed in as another user; sign out first")]
    AnotherUser,
    #[error(transparent)]
    Invitation(#[from] InvitationError),
    #[error("signing the user in failed")]
    Database(#[from] sqlx::Error),
}

/// Signs a user in: finds or creates the user, sets the roles that groups give, accepts the invitation, begins the session.
///
/// # Errors
/// The user may not sign in. If a known user has no project left, the roles of groups that are no longer the user's have ended.
pub async fn sign_in(
    db: &PgPool,
    token: &SignedToken,
    rules: Rules<'_>,
    asked: SignIn<'_>,
) -> Result<SignedIn, SsoError> {
    let identity = &token.identity;
    let mut tx = rls::begin(db, rls::Scope::Login).await?;
    let now = sqlx::query_scalar!(r#"select now() as "now!""#)
        .fetch_one(&mut *tx)
        .await?;
    let expiry = check_times(token, now).map_err(SsoError::Times)?;
    let offer = match asked.invitation {
        Some(invitation) => Some(invitations::offer(&mut tx, invitation).await?),
        None => None,
    };
    let granted = granted(rules.group_roles, &token.groups);
    let known = identities::find_user(&mut tx, identity).await?;
    let (user_id, news) = match known {
        // The token may name further projects.
        Some(_) if matches!(rules.new_users, NewUsers::Create { .. }) && identity.workspaces.is_some() => {
            create_user(&mut tx, identity, rules, false).await?
        }
        Some(user_id) => (user_id, None),
        // Groups are configured, and none of the user's has a role: no user is made.
        None if !rules.group_roles.is_empty() && offer.is_none() && granted.iter().all(|(_, role)| role.is_none()) => {
            return Err(SsoError::NoProject);
        }
        None => create_user(&mut tx, identity, rules, offer.is_some()).await?,
    };
    if asked.expected_user.is_some_and(|expected| expected != user_id) {
        return Err(SsoError::AnotherUser);
    }
    let by = Actor::at_provider(user_id);
    let mut entries: Vec<Pending> = news.into_iter().collect();
    for (workspace_id, role) in granted {
        entries.extend(follow_groups(&mut tx, workspace_id, user_id, role).await?);
    }
    if let Some(offer) = &offer {
        let (_, joined) = invitations::join(&mut tx, offer, user_id).await?;
        entries.extend(joined);
    }
    let mut opened = workspaces::memberships(&mut tx, user_id).await?;
    if let Some(named) = &identity.workspaces {
        // The invitation's project need not be in the token.
        let invited = offer.as_ref().map(|offer| offer.workspace_id);
        opened
            .retain(|membership| named.contains(&membership.workspace_id) || invited == Some(membership.workspace_id));
    }
    let wanted = asked.workspace.or(offer.map(|offer| offer.workspace_id));
    let Some(membership) = choose(&opened, wanted) else {
        if known.is_some() {
            audit::append_all(&mut tx, &by, entries).await?;
            tx.commit().await?;
        }
        return Err(SsoError::NoProject);
    };
    if membership.role == Role::Service {
        return Err(SsoError::ServiceAccount);
    }
    // Its scopes are those that the settings, the token and the role allow.
    let caller = Caller::new(Credential::Token(expiry), user_id, membership, identity.scopes.clone());
    let basis = Basis {
        user_id,
        workspace_id: caller.workspace_id,
        scopes: &caller.scopes,
        // A token that names workspaces opens no others.
        scopes_anywhere: identity.workspaces.is_none().then_some(identity.scopes.as_slice()),
        parent: None,
        until: None,
    };
    let session = sessions::insert(&mut tx, &basis, asked.session).await?;
    sqlx::query!(
        "insert into kb.sso_sessions (session_id, issuer, subject, provider_session) values ($1, $2, $3, $4)",
        session.id,
        identity.issuer,
        identity.subject,
        token.provider_session
    )
    .execute(&mut *tx)
    .await?;
    entries.push(sessions::begun_entry(caller.workspace_id, session.id));
    audit::append_all(&mut tx, &by, entries).await?;
    tx.commit().await?;
    Ok(SignedIn {
        user_id,
        workspace_id: caller.workspace_id,
        session,
    })
}

/// Checks a token's times, and returns its expiry.
fn check_times(token: &SignedToken, now: DateTime<Utc>) -> Result<Expiry, &'static str> {
    let expiry = Expiry::of(token.identity.expires_at, now).ok_or("it has expired")?;
    if token.identity.not_before.is_some_and(|at| at > now + LEEWAY) {
        return Err("it is not yet valid");
    }
    check_age(token.issued_at, now)?;
    match (token.max_age, token.authenticated_at) {
        (None, _) => Ok(expiry),
        (Some(_), None) => Err("it does not state when the user authenticated"),
        (Some(max_age), Some(at)) if at < now - max_age - LEEWAY => Err("the user authenticated too long ago"),
        (Some(_), Some(_)) => Ok(expiry),
    }
}

fn check_age(issued_at: DateTime<Utc>, now: DateTime<Utc>) -> Result<(), &'static str> {
    if issued_at > now + LEEWAY {
        Err("it was issued in the future")
    } else if issued_at < now - MAX_AGE {
        Err("it was issued too long ago")
    } else {
        Ok(())
    }
}

/// Returns, for each workspace that the settings name, the role that these groups give: of the first entry that fits.
fn granted(rules: &[GroupRole], groups: &[String]) -> Vec<(Uuid, Option<Role>)> {
    let mut roles: Vec<(Uuid, Option<Role>)> = Vec::new();
    for rule in rules {
        let role = groups.contains(&rule.group).then_some(rule.role);
        match roles.iter_mut().find(|(workspace, _)| *workspace == rule.workspace_id) {
            Some((_, known)) => *known = known.or(role),
            None => roles.push((rule.workspace_id, role)),
        }
    }
    roles
}

/// Returns the user of an identity, created if the rules allow it, with the memberships that the token or the settings name, and
/// what is to be recorded.
async fn create_user(
    db: &mut PgConnection,
    identity: &Identity,
    rules: Rules<'_>,
    invited: bool,
) -> Result<(Uuid, Option<Pending>), SsoError> {
    let new_users = match rules.new_users {
        // Groups give the roles.
        NewUsers::Create { .. } if !rules.group_roles.is_empty() => NewUsers::Create { default_project: None },
        other => other,
    };
    let mut done = identities::provision(db, identity, new_users).await;
    if invited && matches!(done, Err(AuthError::UnknownUser)) {
        // An invitation is for users whom no operator knows.
        let create = NewUsers::Create { default_project: None };
        done = identities::provision(db, identity, create).await;
    }
    done.map_err(|error| match error {
        AuthError::Database(error) => error.into(),
        _ => SsoError::UnknownUser,
    })
}

/// Sets the role that groups give in a workspace (None: the user is not a member by groups), and returns what is to be recorded.
async fn follow_groups(
    db: &mut PgConnection,
    workspace_id: Uuid,
    user_id: Uuid,
    role: Option<Role>,
) -> Result<Option<Pending>, sqlx::Error> {
    let (changed, action, detail) = match role {
        Some(role) => {
            let set = sqlx::query!(
                "insert into kb.project_members (project_id, user_id, role, from_groups)
                 select p.id, $2, $3, true from kb.projects p where p.id = $1
                 on conflict (project_id, user_id) do update set role = excluded.role
                 where project_members.from_groups and project_members.role <> excluded.role",
                workspace_id,
                user_id,
                role.as_str()
            );
            let detail = json!({"role": role.as_str(), "from": "groups"});
            (set.execute(db).await?.rows_affected(), Action::RoleSet, detail)
        }
        // Also the last owner: an operator can appoint another one.
        None => {
            let removed = sqlx::query!(
                "delete from kb.project_members where project_id = $1 and user_id = $2 and from_groups",
                workspace_id,
                user_id
            );
            let detail = json!({"from": "groups"});
            (
                removed.execute(db).await?.rows_affected(),
                Action::MemberRemoved,
                detail,
            )
        }
    };
    Ok((changed > 0).then(|| Pending {
        workspace_id: Some(workspace_id),
        action,
        target: format!("user:{user_id}"),
        detail,
    }))
}

/// The membership of this workspace; without one, the oldest.
fn choose(open: &[Membership], wanted: Option<Uuid>) -> Option<&Membership> {
    match wanted {
        Some(wanted) => open.iter().find(|membership| membership.workspace_id == wanted),
        None => open.first(),
    }
}

/// What a verified logout token says (OpenID Connect Back-Channel Logout).
#[derive(Debug, Clone)]
pub struct SignedLogout {
    pub issuer: String,
    /// The user. None: only a session is named.
    pub subject: Option<String>,
    /// The provider's session. None: all of the user's.
    pub provider_session: Option<String>,
    pub issued_at: DateTime<Utc>,
    pub expires_at: Option<DateTime<Utc>>,
}

/// Ends the sessions that a logout token names, and returns them. Those begun after the token was issued stay, so a repeated
/// token ends nothing.
///
/// # Errors
/// The token has expired, is too old, or names neither a user nor a session.
pub async fn log_out(db: &PgPool, token: &SignedLogout) -> Result<Vec<Ended>, SsoError> {
    let mut tx = rls::begin(db, rls::Scope::Login).await?;
    let now = sqlx::query_scalar!(r#"select now() as "now!""#)
        .fetch_one(&mut *tx)
        .await?;
    check_age(token.issued_at, now).map_err(SsoError::Times)?;
    if token.expires_at.is_some_and(|at| at <= now) {
        return Err(SsoError::Times("it has expired"));
    }
    if token.subject.is_none() && token.provider_session.is_none() {
        return Err(SsoError::Times("it names neither a user nor a session"));
    }
    let ended = sqlx::query_as!(
        Ended,
        r#"update kb.api_keys k set revoked_at = now()
           from kb.sso_sessions s
           where s.session_id = k.id and k.kind = 'session' and k.revoked_at is null and k.expires_at > now()
             and s.issuer = $1 and ($2::text is null or s.subject = $2) and ($3::text is null or s.provider_session = $3)
             and k.created_at <= $4
           returning k.id, k.user_id, k.project_id as "workspace_id!""#,
        token.issuer,
        token.subject,
        token.provider_session,
        token.issued_at + LEEWAY
    )
    .fetch_all(&mut *tx)
    .await?;
    for session in &ended {
        let by = Actor::at_provider(session.user_id);
        sessions::tell(&mut tx, &by, session.workspace_id, Action::SessionRevoked, session.id).await?;
    }
    tx.commit().await?;
    Ok(ended)
}

/// Returns the configured scopes of sessions that begin at the provider: never a program's.
pub fn session_scopes(configured: &[Scope]) -> Vec<String> {
    let scopes = configured.iter().filter(|scope| **scope != Scope::Worker);
    scopes.map(|scope| scope.as_str().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(s: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(s, 0).expect("a moment")
    }

    fn token(change: impl FnOnce(&mut SignedToken)) -> SignedToken {
        let mut token = SignedToken {
            identity: Identity {
                issuer: "https://id.example".to_owned(),
                subject: "ann".to_owned(),
                handle: None,
                workspaces: None,
                scopes: Vec::new(),
                expires_at: at(10_060),
                not_before: None,
            },
            issued_at: at(10_000),
            authenticated_at: None,
            max_age: None,
            provider_session: None,
            groups: Vec::new(),
        };
        change(&mut token);
        token
    }

    #[test]
    fn an_id_token_is_good_for_minutes_by_one_clock() {
        let checked = |change: fn(&mut SignedToken)| check_times(&token(change), at(10_000)).map(|expiry| expiry.at);
        assert_eq!(checked(|_| {}), Ok(at(10_060)));
        assert_eq!(
            checked(|token| token.identity.expires_at = at(10_000)),
            Err("it has expired")
        );
        assert_eq!(
            checked(|token| token.identity.not_before = Some(at(10_031))),
            Err("it is not yet valid")
        );
        assert_eq!(
            checked(|token| token.issued_at = at(10_031)),
            Err("it was issued in the future")
        );
        assert_eq!(
            checked(|token| token.issued_at = at(9_399)),
            Err("it was issued too long ago")
        );
        assert_eq!(
            checked(|token| token.max_age = Some(TimeDelta::seconds(60))),
            Err("it does not state when the user authenticated")
        );
        let since = |authenticated: i64| {
            let token = token(|token| {
                token.max_age = Some(TimeDelta::seconds(60));
                token.authenticated_at = Some(at(authenticated));
            });
            check_times(&token, at(10_000)).is_ok()
        };
        assert_eq!([since(9_910), since(9_909)], [true, false]);
    }

    #[test]
    fn the_first_entry_that_fits_gives_the_role() {
        let (one, two) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let rule = |group: &str, role: Role, workspace_id: Uuid| GroupRole {
            group: group.to_owned(),
            role,
            workspace_id,
        };
        let rules = [
            rule("admins", Role::Owner, one),
            rule("staff", Role::Member, one),
            rule("staff", Role::Viewer, two),
        ];
        let of = |groups: &[&str]| {
            let groups: Vec<String> = groups.iter().map(|group| (*group).to_owned()).collect();
            granted(&rules, &groups)
        };
        assert_eq!(
            of(&["staff", "admins"]),
            [(one, Some(Role::Owner)), (two, Some(Role::Viewer))]
        );
        assert_eq!(of(&["staff"]), [(one, Some(Role::Member)), (two, Some(Role::Viewer))]);
        assert_eq!(of(&["other", "Admins"]), [(one, None), (two, None)]);
        assert!(granted(&[], &["staff".to_owned()]).is_empty());
    }
}
