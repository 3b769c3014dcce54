//! Pending OAuth authorizations: rows of `kb.google_consents`. Written by the API; a worker exchanges the code and ends
//! the row.
//!
//! Invariants: a code is accepted once, from the user who started the authorization, within [`MINUTES`]; only the
//! SHA-256 of the OAuth state is stored.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rejoin_identity::auth::{hash_secret, random_secret};
use rejoin_types::owner::Owner;
use sha2::{Digest, Sha256};
use sqlx::{PgConnection, PgExecutor};
use url::Url;
use uuid::Uuid;

use super::settings::{GoogleArgs, SCOPES};

/// Timeout of an authorization at Google, in minutes.
const MINUTES: i32 = 15;
/// Maximum size of a code, in bytes.
pub const CODE_MAX_BYTES: usize = 4_000;

/// Begins to link a calendar: returns the URL to which to redirect its user. None: the owner has no such calendar.
pub async fn begin(
    db: &mut PgConnection,
    args: &GoogleArgs,
    owner: Owner,
    calendar_id: Uuid,
    redirect_url: &str,
) -> Result<Option<Url>, sqlx::Error> {
    let (state, verifier) = (random_secret(), random_secret());
    let added = sqlx::query!(
        "insert into kb.google_consents (state_hash, calendar_id, project_id, owner_user_id, verifier, redirect_url, expires_at)
         select $1, c.id, c.project_id, c.owner_user_id, $5, $6, now() + make_interval(mins => $7)
         from kb.calendars c where c.id = $2 and c.project_id = $3 and c.owner_user_id = $4",
        hash_secret(&state),
        calendar_id,
        owner.workspace_id,
        owner.user_id,
        verifier,
        redirect_url,
        MINUTES,
    )
    .execute(db)
    .await?;
    if added.rows_affected() == 0 {
        return Ok(None);
    }
    let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(verifier.as_bytes()));
    let mut url = args.google_auth_url.clone();
    url.query_pairs_mut().extend_pairs([
        ("client_id", args.client_id().unwrap_or_default()),
        ("redirect_uri", redirect_url),
        ("response_type", "code"),
        ("scope", &SCOPES.join(" ")),
        // Requests a refresh token, which Google issues only with new consent.
        ("access_type", "offline"),
        ("prompt", "consent"),
        ("state", &state),
        ("code_challenge", &challenge),
        ("code_challenge_method", "S256"),
    ]);
    Ok(Some(url))
}

/// Stores a user's code, and returns its calendar; None: the state is unknown, expired or used.
pub async fn redeem(
    db: impl PgExecutor<'_>,
    owner: Owner,
    state: &str,
    code: &str,
) -> Result<Option<Uuid>, sqlx::Error> {
    sqlx::query_scalar!(
        "update kb.google_consents set code = $4
         where state_hash = $1 and project_id = $2 and owner_user_id = $3 and code is null and expires_at > now()
         returning calendar_id",
        hash_secret(state),
        owner.workspace_id,
        owner.user_id,
        code,
    )
    .fetch_optional(db)
    .await
}

/// Ends a rejected authorization, or a failed and reported one. False: it does not exist.
pub async fn end(db: impl PgExecutor<'_>, owner: Owner, state: &str) -> Result<bool, sqlx::Error> {
    let ended = sqlx::query!(
        "delete from kb.google_consents where state_hash = $1 and project_id = $2 and owner_user_id = $3",
        hash_secret(state),
        owner.workspace_id,
        owner.user_id,
    )
    .execute(db)
    .await?;
    Ok(ended.rows_affected() > 0)
}

/// The state of a code's exchange.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// No worker has exchanged it yet.
    Waiting,
    /// With the reason.
    Failed(String),
    /// There is a link.
    Entered,
}

pub async fn outcome(db: impl PgExecutor<'_>, owner: Owner, state: &str) -> Result<Outcome, sqlx::Error> {
    let row = sqlx::query!(
        "select failure from kb.google_consents where state_hash = $1 and project_id = $2 and owner_user_id = $3",
        hash_secret(state),
        owner.workspace_id,
        owner.user_id,
    )
    .fetch_optional(db)
    .await?;
    Ok(match row.map(|row| row.failure) {
        Some(None) => Outcome::Waiting,
        Some(Some(failure)) => Outcome::Failed(failure),
        None => Outcome::Entered,
    })
}

/// A code to be exchanged by a worker.
#[derive(Debug)]
pub(super) struct OauthState {
    pub state_hash: Vec<u8>,
    pub owner: Owner,
    pub code: String,
    pub verifier: String,
    pub redirect_url: String,
}

/// Returns a calendar's codes that were not exchanged yet.
pub(super) async fn waiting(db: impl PgExecutor<'_>, calendar_id: Uuid) -> Result<Vec<OauthState>, sqlx::Error> {
    let rows = sqlx::query!(
        r#"select state_hash, project_id, owner_user_id, code as "code!", verifier, redirect_url from kb.google_consents
           where calendar_id = $1 and code is not null and failure is null order by expires_at"#,
        calendar_id
    )
    .fetch_all(db)
    .await?;
    let states = rows.into_iter().map(|row| OauthState {
        state_hash: row.state_hash,
        owner: Owner {
            workspace_id: row.project_id,
            user_id: row.owner_user_id,
        },
        code: row.code,
        verifier: row.verifier,
        redirect_url: row.redirect_url,
    });
    Ok(states.collect())
}

/// Records that a code's exchange failed.
pub(super) async fn fail(db: impl PgExecutor<'_>, oauth_state: &OauthState, failure: &str) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "update kb.google_consents set failure = $2 where state_hash = $1",
        oauth_state.state_hash,
        failure
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Records that a code became a link.
pub(super) async fn done(db: &mut PgConnection, oauth_state: &OauthState) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "delete from kb.google_consents where state_hash = $1",
        oauth_state.state_hash
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Removes abandoned authorizations.
pub async fn sweep(db: impl PgExecutor<'_>) -> Result<(), sqlx::Error> {
    sqlx::query!("delete from kb.google_consents where expires_at < now() - interval '1 hour'")
        .execute(db)
        .await?;
    Ok(())
}
