//! Access tokens of a service account, by signed assertions. Called by `bigquery`.

use std::sync::PoisonError;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::{Bigquery, answered};
use crate::source::SourceError;

/// The audience of assertions: the token endpoint of service accounts, wherever the assertions are sent.
const TOKEN_URL: &str = "https://oauth2.googleapis.com/token";
const SCOPE: &str = "https://www.googleapis.com/auth/bigquery";
/// Lifetime of a token.
const TOKEN_LIFETIME_S: u64 = 3_600;
const TOKEN_REFRESHED_BEFORE: Duration = Duration::from_secs(300);

#[derive(Deserialize)]
struct ServiceAccount {
    client_email: String,
    private_key: String,
}

#[derive(Serialize)]
struct Claims<'a> {
    iss: &'a str,
    scope: &'a str,
    aud: &'a str,
    iat: u64,
    exp: u64,
}

impl Bigquery {
    pub(super) async fn token(&self) -> Result<Option<String>, SourceError> {
        let Some(key) = &self.key else { return Ok(None) };
        let known = self.token.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some((token, until)) = known
            && Instant::now() < until
        {
            return Ok(Some(token));
        }
        let wrong = || {
            SourceError::Refused(
                "the secret is not a service account key; use the JSON key file that Google Cloud created".to_owned(),
            )
        };
        let account: ServiceAccount = serde_json::from_slice(key.expose()).map_err(|_| wrong())?;
        let signing = jsonwebtoken::EncodingKey::from_rsa_pem(account.private_key.as_bytes()).map_err(|_| wrong())?;
        let now = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .map_err(|_| SourceError::Unconfigured("this machine's clock is wrong".to_owned()))?
            .as_secs();
        let claims = Claims {
            iss: &account.client_email,
            scope: SCOPE,
            aud: TOKEN_URL,
            iat: now,
            exp: now + TOKEN_LIFETIME_S,
        };
        let header = jsonwebtoken::Header::new(jsonwebtoken::Algorithm::RS256);
        let assertion = jsonwebtoken::encode(&header, &claims, &signing).map_err(|_| wrong())?;
        let form = url::form_urlencoded::Serializer::new(String::new())
            .append_pair("grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer")
            .append_pair("assertion", &assertion)
            .finish();
        let asking = self
            .http()
            .await?
            .post(&self.token_url)
            .header("content-type", "application/x-www-form-urlencoded")
            .body(form);
        let answer = answered(asking).await?;
        let token = answer["access_token"].as_str().ok_or_else(wrong)?.to_owned();
        let lifetime = Duration::from_secs(answer["expires_in"].as_u64().unwrap_or(TOKEN_LIFETIME_S));
        let until = Instant::now() + lifetime.saturating_sub(TOKEN_REFRESHED_BEFORE);
        *self.token.lock().unwrap_or_else(PoisonError::into_inner) = Some((token.clone(), until));
        Ok(Some(token))
    }
}
