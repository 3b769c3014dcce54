//! Tokens of an identity provider (OpenID Connect): verifies the JWT in `Authorization: Bearer`, for `authentication`, and those
//! that `code_flow` gets from the provider.
//!
//! - `settings`  the trusted issuer and the mapping of its claims
//! - `sso_settings` our client at the issuer, and which users may sign in with a browser
//! - `keys`      the issuer's published keys and endpoints: fetched, cached, refreshed
//! - `code_flow` browsers that sign in at the issuer
//! - `flow_cookie` what a browser keeps while it is there
//!
//! Invariant: a token is accepted only if it is signed by a key that the issuer publishes, with a configured algorithm
//! that matches the key, for this issuer and audience, and has not expired. The token's own header (algorithm, key, key
//! URL) is never trusted.

pub mod code_flow;
pub mod flow_cookie;
pub mod keys;
pub mod settings;
pub mod sso_settings;

use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use chrono::{DateTime, Utc};
use jsonwebtoken::{Validation, decode, decode_header};
use rejoin_identity::identities::{Identity, NewUsers};
use rejoin_types::access::Scope;
use serde_json::{Map, Value};
use tracing::debug;
use uuid::Uuid;

use self::keys::{IssuerAway, PublishedKeys};
use self::settings::{NewUsersArg, OidcArgs, Settings, SettingsError};
use crate::problem::Problem;

/// Maximum size of a token, in bytes.
const MAX_TOKEN_BYTES: usize = 16 * 1024;
/// Maximum length of a subject or handle, in characters.
const MAX_NAME_CHARS: usize = 255;
/// Maximum number of workspaces in one token.
const MAX_WORKSPACES: usize = 100;
/// Prefix of our words in the claim `scope`.
const SCOPE_PREFIX: &str = "rejoin:";
/// Retry delay for callers while the issuer is unreachable, in seconds.
const RETRY_AFTER_S: u64 = 5;

/// The trusted issuer.
pub struct Oidc {
    settings: Settings,
    keys: Arc<PublishedKeys>,
}

/// The reason why a token was rejected.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// Logged, never sent to the caller.
    #[error("the token is not valid for this server")]
    Refused(String),
    #[error("fetching the issuer's keys failed")]
    IssuerAway(#[from] IssuerAway),
}

impl From<TokenError> for Problem {
    fn from(error: TokenError) -> Self {
        match error {
            TokenError::Refused(ref reason) => {
                debug!(reason, "a token was refused");
                Problem::unauthorized("token_invalid", error.to_string())
            }
            TokenError::IssuerAway(_) => Problem::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "issuer_unavailable",
                "the identity provider does not respond; retry later",
            )
            .retry_after(RETRY_AFTER_S),
        }
    }
}

impl Oidc {
    /// None: no issuer is configured, and every token is rejected.
    pub fn new(args: &OidcArgs) -> Result<Option<Self>, SettingsError> {
        let Some(settings) = args.settings()? else {
            return Ok(None);
        };
        let keys = PublishedKeys::new(
            settings.issuer.clone(),
            settings.algorithms.clone(),
            Duration::from_secs(args.oidc_keys_max_age_s),
            Duration::from_millis(args.oidc_keys_refetch_ms),
        )?;
        Ok(Some(Self {
            settings,
            keys: Arc::new(keys),
        }))
    }

    /// Returns whether this looks like a token: three parts, where an API key has one.
    pub fn is_token(text: &str) -> bool {
        text.bytes().filter(|byte| *byte == b'.').count() == 2
    }

    pub fn new_users(&self) -> NewUsers {
        match self.settings.new_users {
            NewUsersArg::Refuse => NewUsers::Refuse,
            NewUsersArg::Create => NewUsers::Create {
                default_project: self.settings.default_project,
            },
        }
    }

    /// Verifies a token and returns its claims. `identities::authenticate` checks its expiry.
    pub async fn verify(&self, token: &str) -> Result<Identity, TokenError> {
        let refused = |reason: &str| TokenError::Refused(reason.to_owned());
        let audience = self.settings.audience.as_deref();
        let audience =
            audience.ok_or_else(|| refused("only browsers sign in at the issuer: no audience is configured"))?;
        let expected = Expected {
            audience,
            kinds: &["jwt", "at+jwt"],
            claims: &["exp", "iss", "aud", "sub"],
        };
        let claims = verified(&self.settings, &self.keys, token, expected).await?;
        identity(&self.settings, &claims).map_err(refused)
    }
}

/// What a token must be.
struct Expected<'a> {
    audience: &'a str,
    /// Its types, if it states one. An issuer signs other tokens for the same audience with the same keys, such as `secevent+jwt`:
    /// RFC 8725, 3.11. Most issuers use the type `JWT` for access and ID tokens.
    kinds: &'a [&'a str],
    /// The registered claims that it must have.
    claims: &'a [&'a str],
}

/// Verifies everything about a token but its times: they are compared during the user's lookup, by the database's clock, not this
/// machine's.
async fn verified(
    settings: &Settings,
    keys: &Arc<PublishedKeys>,
    token: &str,
    expected: Expected<'_>,
) -> Result<Map<String, Value>, TokenError> {
    let refused = |reason: &str| TokenError::Refused(reason.to_owned());
    if token.len() > MAX_TOKEN_BYTES {
        return Err(refused("it is too long"));
    }
    // Before any key lookup: an invalid token never causes a fetch.
    let header = decode_header(token).map_err(|error| TokenError::Refused(error.to_string()))?;
    if !settings.algorithms.contains(&header.alg) {
        return Err(refused("its algorithm is not among the accepted ones"));
    }
    // Critical extensions (RFC 7515, 4.1.11): none is supported, and the library does not check.
    if header.crit.is_some() {
        return Err(refused("its header contains unknown critical extensions"));
    }
    if !is_one_of(expected.kinds, header.typ.as_deref()) {
        return Err(refused("its type is not one that is expected here"));
    }
    let key = keys.find(header.kid.as_deref(), header.alg).await?;
    let key = key.ok_or_else(|| refused("none of the issuer's keys matches its key id and algorithm"))?;
    let mut validation = Validation::new(key.algorithm);
    validation.set_issuer(&[&settings.issuer]);
    validation.set_audience(&[expected.audience]);
    validation.set_required_spec_claims(expected.claims);
    validation.validate_exp = false;
    let decoded = decode::<Map<String, Value>>(token, &key.public, &validation);
    let claims = decoded.map_err(|error| TokenError::Refused(error.to_string()))?.claims;
    // The library accepts one of several issuers.
    if claims.get("iss").and_then(Value::as_str) != Some(settings.issuer.as_str()) {
        return Err(refused("its issuer is not a single string"));
    }
    Ok(claims)
}

/// Maps the claims of a verified token.
fn identity(settings: &Settings, claims: &Map<String, Value>) -> Result<Identity, &'static str> {
    let subject = claims
        .get("sub")
        .and_then(name)
        .ok_or("its subject is empty or too long")?;
    let workspaces = match &settings.project_claim {
        None => None,
        Some(claim) => Some(workspaces(claims.get(claim))?),
    };
    Ok(Identity {
        issuer: settings.issuer.clone(),
        subject: subject.to_owned(),
        handle: handle(settings, claims),
        workspaces,
        scopes: scopes(settings, claims),
        expires_at: claims
            .get("exp")
            .and_then(time)
            .ok_or("its expiry is not a valid time")?,
        not_before: optional_time(claims, "nbf").map_err(|()| "its not-before time is not a valid time")?,
    })
}

/// Returns the holder's name. An address that the issuer has not verified is ignored.
fn handle(settings: &Settings, claims: &Map<String, Value>) -> Option<String> {
    let claim = &settings.user_claim;
    if claim == "email" && claims.get("email_verified") != Some(&Value::Bool(true)) {
        return None;
    }
    claims.get(claim).and_then(name).map(str::to_owned)
}

/// Returns the configured scopes of tokens, restricted by our words in the token's `scope`, if any.
fn scopes(settings: &Settings, claims: &Map<String, Value>) -> Vec<String> {
    let asked: Vec<&str> = claims
        .get("scope")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .split_whitespace()
        .filter_map(|word| word.strip_prefix(SCOPE_PREFIX))
        .collect();
    let allowed = settings.scopes.iter().copied().map(Scope::as_str);
    allowed
        .filter(|scope| asked.is_empty() || asked.contains(scope))
        .map(str::to_owned)
        .collect()
}

/// Returns whether a token's type is one of these. Without a type, it may be any.
fn is_one_of(kinds: &[&str], kind: Option<&str>) -> bool {
    let Some(kind) = kind else { return true };
    let kind = kind.to_ascii_lowercase();
    kinds.contains(&kind.strip_prefix("application/").unwrap_or(&kind))
}

/// Returns a name, if it is valid.
fn name(value: &Value) -> Option<&str> {
    let text = value.as_str()?;
    let plain = !text.trim().is_empty() && !text.contains('\0');
    (plain && text.chars().count() <= MAX_NAME_CHARS).then_some(text)
}

/// Returns the workspaces in a claim: an id, or a list of ids. A missing claim grants none; invalid ids are ignored.
fn workspaces(claim: Option<&Value>) -> Result<Vec<Uuid>, &'static str> {
    let words: Vec<&Value> = match claim {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(items)) => items.iter().collect(),
        Some(one) => vec![one],
    };
    if words.len() > MAX_WORKSPACES {
        return Err("it names too many projects");
    }
    Ok(words
        .into_iter()
        .filter_map(|word| word.as_str()?.parse().ok())
        .collect())
}

/// Parses a token's time: seconds since 1970.
fn time(value: &Value) -> Option<DateTime<Utc>> {
    let seconds = value
        .as_i64()
        .or_else(|| value.as_f64().map(|seconds| seconds as i64))?;
    DateTime::from_timestamp(seconds, 0)
}

/// Parses a time that may be absent. Err: it is there, and not a time.
fn optional_time(claims: &Map<String, Value>, claim: &str) -> Result<Option<DateTime<Utc>>, ()> {
    match claims.get(claim) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => time(value).map(Some).ok_or(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn settings(change: impl FnOnce(&mut OidcArgs)) -> Settings {
        let mut args = OidcArgs {
            oidc_issuer: Some("https://id.example".to_owned()),
            oidc_audience: Some("rejoin".to_owned()),
            ..OidcArgs::default()
        };
        change(&mut args);
        args.settings().expect("good settings").expect("an issuer")
    }

    fn claims(more: Value) -> Map<String, Value> {
        let mut claims = json!({"iss": "https://id.example", "sub": "u1", "exp": 4_000_000_000_i64});
        let all = claims.as_object_mut().expect("an object");
        all.extend(more.as_object().expect("an object").clone());
        all.clone()
    }

    #[test]
    fn a_tokens_scope_takes_away_and_never_adds() {
        let settings = settings(|args| args.oidc_scopes = vec![Scope::Read, Scope::Write]);
        let scopes = |scope: &str| scopes(&settings, &claims(json!({ "scope": scope })));
        assert_eq!(scopes("openid profile"), ["read", "write"]);
        assert_eq!(scopes("openid rejoin:read"), ["read"]);
        assert_eq!(scopes("rejoin:admin rejoin:write"), ["write"]);
        assert!(scopes("rejoin:admin").is_empty());
    }

    #[test]
    fn an_unverified_address_identifies_no_user() {
        let settings = settings(|args| args.oidc_user_claim = "email".to_owned());
        let handle = |more: Value| handle(&settings, &claims(more));
        assert_eq!(handle(json!({"email": "a@example.org"})), None);
        assert_eq!(
            handle(json!({"email": "a@example.org", "email_verified": "true"})),
            None
        );
        assert_eq!(
            handle(json!({"email": "a@example.org", "email_verified": true})),
            Some("a@example.org".to_owned())
        );
    }

    #[test]
    fn a_claim_of_workspaces_is_one_id_a_list_of_ids_or_absent() {
        let id = Uuid::now_v7();
        assert_eq!(workspaces(Some(&json!(id))), Ok(vec![id]));
        assert_eq!(workspaces(Some(&json!([id, "nonsense", 7]))), Ok(vec![id]));
        assert_eq!(workspaces(None), Ok(vec![]));
        assert!(workspaces(Some(&json!(vec![id; 101]))).is_err());
    }

    #[test]
    fn a_subject_is_a_name_and_times_are_numbers() {
        let settings = settings(|_| {});
        let identity = |more: Value| identity(&settings, &claims(more));
        assert!(identity(json!({})).is_ok());
        for wrong in [json!({"sub": ""}), json!({"exp": "soon"}), json!({"nbf": "soon"})] {
            assert!(identity(wrong.clone()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_type_is_compared_without_case_and_prefix() {
        let is = |kind: Option<&str>| is_one_of(&["jwt", "at+jwt"], kind);
        assert!(is(None) && is(Some("JWT")) && is(Some("application/AT+JWT")));
        assert!(!is(Some("logout+jwt")) && !is(Some("")));
    }
}
