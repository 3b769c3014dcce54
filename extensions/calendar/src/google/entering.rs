//! Exchanges an OAuth authorization code for a refresh token and lists the user's calendars. Called by `sync`.
//!
//! Invariant: a code whose exchange succeeded but whose response was lost is refused the second time; its user starts
//! again.

use rejoin_integrations::google_tokens;
use sqlx::PgPool;
use uuid::Uuid;

use super::client::GoogleError;
use super::consents::{self, Consent};
use super::links;
use super::settings::Google;

/// Exchanges the pending codes of a calendar. True: there were some.
pub(super) async fn enter(google: &Google, db: &PgPool, calendar_id: Uuid) -> Result<bool, sqlx::Error> {
    let waiting = consents::waiting(db, calendar_id).await?;
    for consent in &waiting {
        if let Err(failure) = enter_one(google, db, calendar_id, consent).await? {
            tracing::warn!(%calendar_id, failure, "linking a Google calendar failed");
            consents::fail(db, consent, &failure).await?;
        }
    }
    Ok(!waiting.is_empty())
}

async fn enter_one(
    google: &Google,
    db: &PgPool,
    calendar_id: Uuid,
    consent: &Consent,
) -> Result<Result<(), String>, sqlx::Error> {
    let Some(keys) = &google.keys else {
        let failure = "the workers have no master keys to encrypt the Google token; set REJOIN_SECRET_KEYS_FILE";
        return Ok(Err(failure.to_owned()));
    };
    let entered = async {
        let entry = google
            .enter(&consent.code, &consent.verifier, &consent.redirect_url)
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
    match google_tokens::seal(keys, consent.owner.project_id, calendar_id, &entry.refresh_token) {
        Ok(token) => links::enter(db, calendar_id, consent, &token, &choices).await.map(Ok),
        Err(error) => Ok(Err(error.to_string())),
    }
}
