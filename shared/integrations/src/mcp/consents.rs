//! Consents of users that are under way: rows of `kb.mcp_consents`. The API begins them; a worker finds out where the user
//! is to be sent (`plan`), and exchanges the code that the user brings back.
//!
//! Invariants: a code is accepted once, from the user who began, within [`MINUTES`]; only the SHA-256 of the OAuth state is
//! stored; a user has at most one for a server.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sqlx::{PgConnection, PgExecutor};
use uuid::Uuid;

use rejoin_identity::auth::{code_challenge, hash_secret, random_secret};
use rejoin_secrets::envelope::{self, Sealed};
use rejoin_secrets::{MasterKeys, Plaintext, SecretError};
use rejoin_types::ids;
use rejoin_types::owner::Owner;

/// The kind of jobs that find out where a user is to be sent; the payload names the consent: `{"id"}`.
pub const KIND_PLAN: &str = "mcp_consent";
/// The kind of jobs that exchange a code; the same payload.
pub const KIND_EXCHANGE: &str = "mcp_code";
/// How long a user may take, in minutes.
const MINUTES: i32 = 15;
/// Maximum size of a code, in bytes.
pub const CODE_MAX_BYTES: usize = 4_000;

/// Where a user is sent, and what comes next. Discovered by a worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    /// The authorization server.
    pub issuer: String,
    pub authorization_endpoint: String,
    pub token_endpoint: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revocation_endpoint: Option<String>,
    pub client_id: String,
    /// Whether the token endpoint takes the client's secret as a form field only.
    pub secret_in_body: bool,
    /// The resource of the tokens (RFC 8707).
    pub resource: String,
    pub scopes: Vec<String>,
    /// Whether the answer names the issuer (RFC 9207).
    pub needs_issuer: bool,
}

/// A consent that has begun, for the request that waits for its plan.
pub struct Begun {
    pub id: Uuid,
    state: String,
    challenge: String,
    redirect_url: String,
}

impl Begun {
    /// Returns the URL to which the user is sent. None: the endpoint is not a URL.
    pub fn url(&self, plan: &Plan) -> Option<url::Url> {
        let mut url = url::Url::parse(&plan.authorization_endpoint).ok()?;
        let scope = plan.scopes.join(" ");
        let mut query = url.query_pairs_mut();
        query.extend_pairs([
            ("response_type", "code"),
            ("client_id", &plan.client_id),
            ("redirect_uri", &self.redirect_url),
            ("state", &self.state),
            ("code_challenge", &self.challenge),
            ("code_challenge_method", "S256"),
            ("resource", &plan.resource),
        ]);
        if !scope.is_empty() {
            query.append_pair("scope", &scope);
        }
        drop(query);
        Some(url)
    }
}

/// Where the authorization server sends users, and where it finds out about this client.
#[derive(Debug, Clone)]
pub struct Addresses {
    pub redirect_url: String,
    /// The client metadata document.
    pub client_url: String,
}

/// Begins a consent of a user for a server at this revision, in place of an older one.
pub async fn begin(
    db: &mut PgConnection,
    owner: Owner,
    server_id: Uuid,
    revision: i32,
    addresses: &Addresses,
) -> Result<Begun, sqlx::Error> {
    let (state, verifier) = (random_secret(), random_secret());
    let challenge = code_challenge(&verifier);
    let id = ids::new();
    sqlx::query!(
        "delete from kb.mcp_consents where project_id = $1 and user_id = $2 and server_id = $3",
        owner.workspace_id,
        owner.user_id,
        server_id
    )
    .execute(&mut *db)
    .await?;
    sqlx::query!(
        "insert into kb.mcp_consents (id, state_hash, project_id, server_id, user_id, revision, verifier, redirect_url, client_url, expires_at)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, now() + make_interval(mins => $10))",
        id,
        hash_secret(&state),
        owner.workspace_id,
        server_id,
        owner.user_id,
        revision,
        verifier,
        addresses.redirect_url,
        addresses.client_url,
        MINUTES
    )
    .execute(db)
    .await?;
    Ok(Begun {
        id,
        state,
        challenge,
        redirect_url: addresses.redirect_url.clone(),
    })
}

/// The state of a consent.
#[derive(Debug, Clone, PartialEq)]
pub enum Progress {
    /// No worker has done what comes next yet.
    Waiting,
    /// The user can be sent.
    Planned(Box<Plan>),
    /// With the reason.
    Failed(String),
    /// The account is connected, or another consent has taken its place.
    Over,
}

/// Returns the state of a consent; `has_code`: after its code was stored.
pub async fn progress(
    db: impl PgExecutor<'_>,
    owner: Owner,
    id: Uuid,
    has_code: bool,
) -> Result<Progress, sqlx::Error> {
    let row = sqlx::query!(
        "select plan, failure from kb.mcp_consents where id = $1 and project_id = $2 and user_id = $3",
        id,
        owner.workspace_id,
        owner.user_id
    )
    .fetch_optional(db)
    .await?;
    let Some(row) = row else {
        return Ok(Progress::Over);
    };
    if let Some(failure) = row.failure {
        return Ok(Progress::Failed(failure));
    }
    let plan = row
        .plan
        .filter(|_| !has_code)
        .and_then(|plan| Plan::deserialize(plan).ok());
    Ok(plan.map_or(Progress::Waiting, |plan| Progress::Planned(Box::new(plan))))
}

/// A consent whose user came back.
#[derive(Debug, Clone)]
pub struct Returned {
    pub id: Uuid,
    pub server_id: Uuid,
    pub plan: Plan,
}

/// Returns the consent of a state. None: the state is unknown, expired or used, or another user's.
pub async fn returned(db: impl PgExecutor<'_>, owner: Owner, state: &str) -> Result<Option<Returned>, sqlx::Error> {
    let row = sqlx::query!(
        r#"select id, server_id, plan as "plan!" from kb.mcp_consents
           where state_hash = $1 and project_id = $2 and user_id = $3 and code is null and failure is null and plan is not null
             and expires_at > now()"#,
        hash_secret(state),
        owner.workspace_id,
        owner.user_id
    )
    .fetch_optional(db)
    .await?;
    Ok(row.and_then(|row| {
        Some(Returned {
            id: row.id,
            server_id: row.server_id,
            plan: Plan::deserialize(row.plan).ok()?,
        })
    }))
}

/// Stores a code. False: there is one already.
pub async fn redeem(db: impl PgExecutor<'_>, owner: Owner, id: Uuid, code: &str) -> Result<bool, sqlx::Error> {
    let stored = sqlx::query!(
        "update kb.mcp_consents set code = $4
         where id = $1 and project_id = $2 and user_id = $3 and code is null and expires_at > now()",
        id,
        owner.workspace_id,
        owner.user_id,
        code
    )
    .execute(db)
    .await?;
    Ok(stored.rows_affected() > 0)
}

/// Ends a consent that was refused, or that has failed and was reported.
pub async fn end(db: impl PgExecutor<'_>, owner: Owner, id: Uuid) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "delete from kb.mcp_consents where id = $1 and project_id = $2 and user_id = $3",
        id,
        owner.workspace_id,
        owner.user_id
    )
    .execute(db)
    .await?;
    Ok(())
}

/// A consent, for a worker. Not `Debug`: no log has the code.
pub struct Consent {
    pub id: Uuid,
    pub owner: Owner,
    pub server_id: Uuid,
    pub revision: i32,
    pub addresses: Addresses,
    pub verifier: String,
    pub plan: Option<Plan>,
    pub code: Option<String>,
    client_secret: Option<Sealed>,
}

fn sealed_for(id: Uuid) -> String {
    format!("mcp_consent:{id}")
}

impl Consent {
    /// Decrypts the secret of a client that the authorization server has registered. None: it has none.
    ///
    /// # Errors
    /// The master key is missing, or the ciphertext is invalid.
    pub fn client_secret(&self, keys: &MasterKeys) -> Result<Option<String>, SecretError> {
        let name = sealed_for(self.id);
        let opened = self
            .client_secret
            .as_ref()
            .map(|sealed| envelope::open(keys, self.owner.workspace_id, &name, sealed));
        let opened = opened.transpose()?;
        Ok(opened.and_then(|secret| secret.expose_text().map(str::to_owned)))
    }
}

/// Returns a consent that no worker has ended. None: it is over, has expired, or has failed.
pub async fn get(db: impl PgExecutor<'_>, id: Uuid) -> Result<Option<Consent>, sqlx::Error> {
    let row = sqlx::query!(
        "select project_id, server_id, user_id, revision, verifier, redirect_url, client_url, plan, key_id, wrapped_key, ciphertext, code
         from kb.mcp_consents where id = $1 and failure is null and expires_at > now()",
        id
    )
    .fetch_optional(db)
    .await?;
    Ok(row.map(|row| Consent {
        id,
        owner: Owner {
            workspace_id: row.project_id,
            user_id: row.user_id,
        },
        server_id: row.server_id,
        revision: row.revision,
        addresses: Addresses {
            redirect_url: row.redirect_url,
            client_url: row.client_url,
        },
        verifier: row.verifier,
        plan: row.plan.and_then(|plan| Plan::deserialize(plan).ok()),
        code: row.code,
        client_secret: match (row.key_id, row.wrapped_key, row.ciphertext) {
            (Some(key_id), Some(wrapped_key), Some(ciphertext)) => Some(Sealed {
                key_id,
                wrapped_key,
                ciphertext,
            }),
            (_, _, _) => None,
        },
    }))
}

/// Stores where the user is to be sent, with the secret of a client that was registered for it.
///
/// # Errors
/// Sealing, or the database.
pub async fn planned(
    db: impl PgExecutor<'_>,
    keys: &MasterKeys,
    consent: &Consent,
    plan: &Plan,
    client_secret: Option<&str>,
) -> Result<(), SecretError> {
    let sealed = client_secret.map(|secret| {
        let secret = Plaintext::new(secret.as_bytes().to_vec());
        envelope::seal(keys, consent.owner.workspace_id, &sealed_for(consent.id), &secret)
    });
    let sealed = sealed.transpose()?;
    sqlx::query!(
        "update kb.mcp_consents set plan = $2, key_id = $3, wrapped_key = $4, ciphertext = $5 where id = $1 and plan is null",
        consent.id,
        json!(plan),
        sealed.as_ref().map(|sealed| sealed.key_id.as_str()),
        sealed.as_ref().map(|sealed| sealed.wrapped_key.as_slice()),
        sealed.as_ref().map(|sealed| sealed.ciphertext.as_slice())
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Records why a consent has failed.
pub async fn fail(db: impl PgExecutor<'_>, id: Uuid, failure: &str) -> Result<(), sqlx::Error> {
    sqlx::query!("update kb.mcp_consents set failure = $2 where id = $1", id, failure)
        .execute(db)
        .await?;
    Ok(())
}

/// Removes a consent that has become an account.
pub async fn done(db: &mut PgConnection, id: Uuid) -> Result<(), sqlx::Error> {
    sqlx::query!("delete from kb.mcp_consents where id = $1", id)
        .execute(db)
        .await?;
    Ok(())
}

/// Removes abandoned consents.
pub async fn sweep(db: impl PgExecutor<'_>) -> Result<(), sqlx::Error> {
    sqlx::query!("delete from kb.mcp_consents where expires_at < now() - interval '1 hour'")
        .execute(db)
        .await?;
    Ok(())
}

/// Returns the payload of the jobs about a consent.
pub fn payload(id: Uuid) -> Value {
    json!({ "id": id })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_challenge_is_that_of_the_standard() {
        // RFC 7636, appendix B.
        let challenge = code_challenge("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk");
        assert_eq!(challenge, "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
    }

    #[test]
    fn a_user_is_sent_with_a_challenge_and_the_resource() {
        let begun = Begun {
            id: Uuid::nil(),
            state: "s".to_owned(),
            challenge: "c".to_owned(),
            redirect_url: "https://chat.example/mcp/connect".to_owned(),
        };
        let plan = Plan {
            issuer: "https://login.example".to_owned(),
            authorization_endpoint: "https://login.example/authorize?tenant=a".to_owned(),
            token_endpoint: "https://login.example/token".to_owned(),
            revocation_endpoint: None,
            client_id: "rejoin".to_owned(),
            secret_in_body: false,
            resource: "https://crm.example/mcp".to_owned(),
            scopes: vec!["read".to_owned(), "write".to_owned()],
            needs_issuer: true,
        };
        let url = begun.url(&plan).unwrap();
        let query: Vec<(String, String)> = url.query_pairs().into_owned().collect();
        let value = |name: &str| {
            let mut values = query.iter().filter(|(own, _)| own == name);
            let value = values.next().map(|(_, value)| value.as_str());
            assert!(values.next().is_none(), "{name} is there twice");
            value
        };
        for (name, expected) in [
            ("tenant", "a"),
            ("response_type", "code"),
            ("client_id", "rejoin"),
            ("redirect_uri", "https://chat.example/mcp/connect"),
            ("state", "s"),
            ("code_challenge", "c"),
            ("code_challenge_method", "S256"),
            ("resource", "https://crm.example/mcp"),
            ("scope", "read write"),
        ] {
            assert_eq!(value(name), Some(expected), "{name}");
        }
    }
}
