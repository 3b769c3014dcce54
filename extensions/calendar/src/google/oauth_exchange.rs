//! Exchanges an OAuth authorization code for a refresh token and lists the user's calendars. Called by `sync`.
//!
//! Invariant: a code whose exchange succeeded but whose response was lost is refused the second time; its user starts
//! again.

use rejoin_integrations::google_tokens;
use sqlx::PgPool;
use uuid::Uuid;

use super::client::GoogleError;
use super::links;
use super::oauth_states::{self, OauthState};
use super::settings::Google;

/// Exchanges the pending codes of a calendar. True: there were some.
pub(super) async fn exchange_codes(google: &Google, db: &PgPool, calendar_id: Uuid) -> Result<bool, sqlx::Error> {
    let waiting = oauth_states::waiting(db, calendar_id).await?;
    for oauth_state in &waiting {
        if let Err(failure) = exchange_code(google, db, calendar_id, oauth_state).await? {
            tracing::warn!(%calendar_id, failure, "linking a Google calendar failed");
            oauth_states::fail(db, oauth_state, &failure).await?;
        }
    }
    Ok(!waiting.is_empty())
}

async fn exchange_code(
    google: &Google,
    db: &PgPool,
    calendar_id: Uuid,
    oauth_state: &OauthState,
) -> Result<Result<(), String>, sqlx::Error> {
    let Some(keys) = &google.keys else {
        let failure = "the workers have no master keys to encrypt the Google token; set REJOIN_SECRET_KEYS_FILE";
        return Ok(Err(failure.to_owned()));
    };
    let entered = async {
        let entry = google
            .enter(&oauth_state.code, &oauth_state.verifier, &oauth_state.redirect_url)
            .await?;
        let choices = entry.client.choices().await?;
        Ok((entry, choices))
    };
    let (entry, choices) = match entered.await {
        Ok(entered) => entered,
        Err(GoogleError::Revoked(_)) => {
            return Ok(Err(
                "the authorization code is invalid, expired or already used; start again".to_owned(),
            ));
        }
        Err(error) => return Ok(Err(error.to_string())),
    };
    match google_tokens::seal(keys, oauth_state.owner.workspace_id, calendar_id, &entry.refresh_token) {
        Ok(token) => links::authorize(db, calendar_id, oauth_state, &token, &choices)
            .await
            .map(Ok),
        Err(error) => Ok(Err(error.to_string())),
    }
}
