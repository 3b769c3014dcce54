//! Users' accounts at MCP servers whose settings have `oauth.perUser`: the tokens with which a user's runs act. Rows of
//! `kb.mcp_accounts`, written by workers; the API lists and disconnects them, and can't read tokens.
//!
//! Invariants: tokens are sealed, under the account's id; they are used for the revision of the server's settings that the
//! user has agreed to; one worker at a time renews them, since an authorization server may take a used refresh token for
//! a stolen one.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use sqlx::{PgConnection, PgExecutor, PgPool};
use uuid::Uuid;

use rejoin_secrets::envelope::{self, Sealed};
use rejoin_secrets::{MasterKeys, Plaintext, SecretError};
use rejoin_types::ids;
use rejoin_types::owner::Owner;

use super::consents::{Consent, Plan};

/// The kind of jobs that revoke a disconnected account's tokens and remove it; the payload names it: `{"id"}`.
pub const KIND_DISCONNECT: &str = "mcp_disconnect";
/// Maximum number of accounts per statement of sweeps and rotations.
const SWEPT: i64 = 100;

/// What is sealed of an account: its tokens, and the client to which they were issued. Not `Debug`: no log has them.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Tokens {
    pub access_token: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refresh_token: Option<String>,
    pub client_id: String,
    /// None: a public client.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_secret: Option<String>,
    /// Whether the token endpoint takes the secret as a form field only.
    pub secret_in_body: bool,
    pub token_endpoint: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revocation_endpoint: Option<String>,
    /// The resource of the tokens (RFC 8707).
    pub resource: String,
}

/// Tokens as an authorization server has issued them.
#[derive(Clone)]
pub struct Issued {
    pub tokens: Tokens,
    /// How long the access token is used, in seconds. None: until it is refused.
    pub fresh_s: Option<f64>,
    /// The granted scopes.
    pub scopes: Vec<String>,
}

fn sealed_for(id: Uuid) -> String {
    format!("mcp_account:{id}")
}

fn seal(keys: &MasterKeys, workspace_id: Uuid, id: Uuid, tokens: &Tokens) -> Result<Sealed, SecretError> {
    let text = serde_json::to_vec(tokens).map_err(|_| SecretError::Sealing)?;
    envelope::seal(keys, workspace_id, &sealed_for(id), &Plaintext::new(text))
}

/// A connected account.
#[derive(Debug)]
pub struct Account {
    pub id: Uuid,
    workspace_id: Uuid,
    /// When its user has agreed, in microseconds since 1970: another number with each consent.
    pub authorized: i64,
    pub version: i64,
    /// Whether the access token can be used.
    pub is_fresh: bool,
    /// What was asked for with the last consent.
    pub requested_scopes: Vec<String>,
    /// What was granted.
    pub scopes: Vec<String>,
    sealed: Sealed,
}

impl Account {
    /// Decrypts the tokens.
    ///
    /// # Errors
    /// The master key is missing, or the ciphertext is invalid.
    pub fn tokens(&self, keys: &MasterKeys) -> Result<Tokens, SecretError> {
        let name = sealed_for(self.id);
        let opened = envelope::open(keys, self.workspace_id, &name, &self.sealed)?;
        serde_json::from_slice(opened.expose()).map_err(|_| SecretError::Tampered(name))
    }
}

/// A row as sqlx reads it.
struct Row {
    id: Uuid,
    project_id: Uuid,
    authorized: i64,
    version: i64,
    is_fresh: bool,
    requested_scopes: Vec<String>,
    scopes: Vec<String>,
    key_id: String,
    wrapped_key: Vec<u8>,
    ciphertext: Vec<u8>,
}

impl From<Row> for Account {
    fn from(row: Row) -> Self {
        Self {
            id: row.id,
            workspace_id: row.project_id,
            authorized: row.authorized,
            version: row.version,
            is_fresh: row.is_fresh,
            requested_scopes: row.requested_scopes,
            scopes: row.scopes,
            sealed: Sealed {
                key_id: row.key_id,
                wrapped_key: row.wrapped_key,
                ciphertext: row.ciphertext,
            },
        }
    }
}

/// Returns a user's account at this revision of a server's settings. None: it is not connected.
pub async fn find(
    db: impl PgExecutor<'_>,
    server_id: Uuid,
    revision: i32,
    user_id: Uuid,
) -> Result<Option<Account>, sqlx::Error> {
    let row = sqlx::query_as!(
        Row,
        r#"select id, project_id, (extract(epoch from authorized_at) * 1000000)::bigint as "authorized!", version,
                  coalesce(fresh_until > now(), true) as "is_fresh!", requested_scopes, scopes, key_id, wrapped_key, ciphertext
           from kb.mcp_accounts
           where server_id = $1 and revision = $2 and user_id = $3 and disconnected_at is null"#,
        server_id,
        revision,
        user_id
    )
    .fetch_optional(db)
    .await?;
    Ok(row.map(Account::from))
}

/// An account as its user sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct Connected {
    pub issuer: String,
    pub scopes: Vec<String>,
    /// What the server has required since, and was not granted.
    pub missing_scopes: Vec<String>,
    pub authorized_at: DateTime<Utc>,
}

/// A server with accounts of users, and the user's.
#[derive(Debug, Clone, PartialEq)]
pub struct Place {
    pub server_id: Uuid,
    pub server_name: String,
    /// None: the user has not connected one, or the server's settings have changed since.
    pub connected: Option<Connected>,
}

/// Returns the enabled servers with accounts of users, by name, each with the user's account. `server_id`: only that one.
pub async fn places(db: impl PgExecutor<'_>, owner: Owner, server_id: Option<Uuid>) -> Result<Vec<Place>, sqlx::Error> {
    let rows = sqlx::query!(
        r#"select s.id, s.name, a.issuer as "issuer?", a.scopes as "scopes?", a.missing_scopes as "missing_scopes?",
                  a.authorized_at as "authorized_at?"
           from kb.project_mcp_servers s
           left join kb.mcp_accounts a
               on a.server_id = s.id and a.revision = s.revision and a.user_id = $2 and a.disconnected_at is null
           where s.project_id = $1 and s.enabled and s.oauth ->> 'perUser' = 'true' and ($3::uuid is null or s.id = $3)
           order by s.name"#,
        owner.workspace_id,
        owner.user_id,
        server_id as _
    )
    .fetch_all(db)
    .await?;
    let places = rows.into_iter().map(|row| Place {
        server_id: row.id,
        server_name: row.name,
        connected: row.authorized_at.map(|authorized_at| Connected {
            issuer: row.issuer.unwrap_or_default(),
            scopes: row.scopes.unwrap_or_default(),
            missing_scopes: row.missing_scopes.unwrap_or_default(),
            authorized_at,
        }),
    });
    Ok(places.collect())
}

/// Returns the scopes that a user's account has and lacks: the next consent asks for all of them.
pub async fn known_scopes(
    db: impl PgExecutor<'_>,
    server_id: Uuid,
    revision: i32,
    user_id: Uuid,
) -> Result<Vec<String>, sqlx::Error> {
    let scopes = sqlx::query_scalar!(
        r#"select scopes || missing_scopes as "scopes!" from kb.mcp_accounts
           where server_id = $1 and revision = $2 and user_id = $3 and disconnected_at is null"#,
        server_id,
        revision,
        user_id
    )
    .fetch_optional(db)
    .await?;
    Ok(scopes.unwrap_or_default())
}

/// Records what a server requires beyond what was granted.
pub async fn lacks(db: impl PgExecutor<'_>, id: Uuid, scopes: &[String]) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "update kb.mcp_accounts
         set missing_scopes = (select coalesce(array_agg(distinct scope), '{}') from unnest(missing_scopes || $2::text[]) scope)
         where id = $1",
        id,
        scopes
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Stores an account, in place of an older one of its user at the server.
///
/// # Errors
/// Sealing, or the database.
pub async fn connect(
    db: &mut PgConnection,
    keys: &MasterKeys,
    consent: &Consent,
    plan: &Plan,
    issued: &Issued,
) -> Result<(), SecretError> {
    let id = ids::new();
    let sealed = seal(keys, consent.owner.workspace_id, id, &issued.tokens)?;
    // Its tokens are revoked, as those of an account that its user disconnects.
    sqlx::query!(
        "update kb.mcp_accounts set disconnected_at = now() where server_id = $1 and user_id = $2 and disconnected_at is null",
        consent.server_id,
        consent.owner.user_id
    )
    .execute(&mut *db)
    .await?;
    sqlx::query!(
        "insert into kb.mcp_accounts (id, project_id, server_id, user_id, revision, issuer, requested_scopes, scopes, key_id, wrapped_key,
                                      ciphertext, fresh_until)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, now() + make_interval(secs => $12))",
        id,
        consent.owner.workspace_id,
        consent.server_id,
        consent.owner.user_id,
        consent.revision,
        plan.issuer,
        &plan.scopes,
        &issued.scopes,
        sealed.key_id,
        sealed.wrapped_key,
        sealed.ciphertext,
        issued.fresh_s as _
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Takes the renewal of an account's tokens for `lease_s` seconds. False: another worker renews them or has done so, or the
/// account is gone.
pub async fn begin_renewal(db: impl PgExecutor<'_>, account: &Account, lease_s: f64) -> Result<bool, sqlx::Error> {
    let taken = sqlx::query!(
        "update kb.mcp_accounts set renewing_until = now() + make_interval(secs => $3)
         where id = $1 and version = $2 and disconnected_at is null and (renewing_until is null or renewing_until < now())",
        account.id,
        account.version,
        lease_s
    )
    .execute(db)
    .await?;
    Ok(taken.rows_affected() > 0)
}

/// Stores renewed tokens. False: the account was disconnected or renewed meanwhile, and these are not used.
///
/// # Errors
/// Sealing, or the database.
pub async fn renewed(
    db: impl PgExecutor<'_>,
    keys: &MasterKeys,
    account: &Account,
    issued: &Issued,
) -> Result<bool, SecretError> {
    let sealed = seal(keys, account.workspace_id, account.id, &issued.tokens)?;
    let stored = sqlx::query!(
        "update kb.mcp_accounts
         set key_id = $3, wrapped_key = $4, ciphertext = $5, fresh_until = now() + make_interval(secs => $6), scopes = $7,
             version = version + 1, renewing_until = null
         where id = $1 and version = $2 and disconnected_at is null",
        account.id,
        account.version,
        sealed.key_id,
        sealed.wrapped_key,
        sealed.ciphertext,
        issued.fresh_s as _,
        &issued.scopes
    )
    .execute(db)
    .await?;
    Ok(stored.rows_affected() > 0)
}

/// Gives a renewal back that has failed for now.
pub async fn end_renewal(db: impl PgExecutor<'_>, account: &Account) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "update kb.mcp_accounts set renewing_until = null where id = $1 and version = $2",
        account.id,
        account.version
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Removes an account whose tokens the authorization server refuses, or that was disconnected.
pub async fn remove(db: impl PgExecutor<'_>, account: &Account) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "delete from kb.mcp_accounts where id = $1 and version = $2",
        account.id,
        account.version
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Disconnects a user's account: its tokens are no longer used, and a worker revokes them. False: the user has none
/// there.
pub async fn disconnect(db: impl PgExecutor<'_>, owner: Owner, server_id: Uuid) -> Result<bool, sqlx::Error> {
    let done = sqlx::query!(
        "update kb.mcp_accounts set disconnected_at = now()
         where project_id = $1 and user_id = $2 and server_id = $3 and disconnected_at is null",
        owner.workspace_id,
        owner.user_id,
        server_id
    )
    .execute(db)
    .await?;
    Ok(done.rows_affected() > 0)
}

/// Returns a disconnected account. None: it was removed.
pub async fn disconnected(db: impl PgExecutor<'_>, id: Uuid) -> Result<Option<Account>, sqlx::Error> {
    let row = sqlx::query_as!(
        Row,
        r#"select id, project_id, (extract(epoch from authorized_at) * 1000000)::bigint as "authorized!", version,
                  coalesce(fresh_until > now(), true) as "is_fresh!", requested_scopes, scopes, key_id, wrapped_key, ciphertext
           from kb.mcp_accounts where id = $1 and disconnected_at is not null"#,
        id
    )
    .fetch_optional(db)
    .await?;
    Ok(row.map(Account::from))
}

/// Disconnects the accounts of users who have left the project.
pub async fn disconnect_strangers(db: impl PgExecutor<'_>) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "update kb.mcp_accounts a set disconnected_at = now()
         where disconnected_at is null
           and not exists (select from kb.project_members m where m.project_id = a.project_id and m.user_id = a.user_id)"
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Returns disconnected accounts whose tokens are to be revoked, with their workspaces, oldest first.
pub async fn to_revoke(db: impl PgExecutor<'_>) -> Result<Vec<(Uuid, Uuid)>, sqlx::Error> {
    let rows = sqlx::query!(
        "select id, project_id from kb.mcp_accounts where disconnected_at is not null order by disconnected_at limit $1",
        SWEPT
    )
    .fetch_all(db)
    .await?;
    Ok(rows.into_iter().map(|row| (row.project_id, row.id)).collect())
}

/// Re-encrypts the data keys of all accounts with the first master key, like `secrets::rotate`. Returns the number of
/// re-encrypted ones, and of failures, which stay unchanged.
pub async fn rotate(db: &PgPool, keys: &MasterKeys) -> Result<(u64, Vec<SecretError>), SecretError> {
    let first = keys.first_id();
    let (mut done, mut failures) = (0, Vec::new());
    let mut after = Uuid::nil();
    loop {
        let rows = sqlx::query!(
            "select id, project_id, key_id, wrapped_key from kb.mcp_accounts where key_id <> $1 and id > $2 order by id limit $3",
            first,
            after,
            SWEPT
        )
        .fetch_all(db)
        .await?;
        let Some(last) = rows.last() else { break };
        after = last.id;
        for row in rows {
            match envelope::rewrap(keys, row.project_id, &sealed_for(row.id), &row.key_id, &row.wrapped_key) {
                Ok(wrapped) => {
                    // Unless the tokens were renewed meanwhile.
                    let updated = sqlx::query!(
                        "update kb.mcp_accounts set key_id = $3, wrapped_key = $4 where id = $1 and wrapped_key = $2",
                        row.id,
                        row.wrapped_key,
                        first,
                        wrapped
                    )
                    .execute(db)
                    .await?;
                    done += updated.rows_affected();
                }
                Err(error) => failures.push(error),
            }
        }
    }
    Ok((done, failures))
}
