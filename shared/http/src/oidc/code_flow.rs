//! Browsers that sign in at the identity provider: the authorization code flow of OpenID Connect with PKCE, and the
//! provider's logout. Called by the endpoints of sign-in (`sign_in/sso`).
//!
//! Invariant: a code is redeemed only in the flow of the browser that presents it, and its ID token counts only if the
//! issuer signed it for our client and for this flow (`nonce`). Its times are checked with the user's lookup, by the
//! database's clock.

use std::sync::Arc;

use axum::http::StatusCode;
use rejoin_identity::identities::NewUsers;
use rejoin_identity::sso::{self, Rules, SignedLogout, SignedToken};
use serde_json::{Map, Value};
use tracing::warn;
use url::Url;
use url::form_urlencoded::{Serializer, byte_serialize};

use super::flow_cookie::Flow;
use super::keys::{Endpoints, PublishedKeys};
use super::settings::Settings;
use super::sso_settings::SsoSettings;
use super::{Expected, Oidc, TokenError, identity, name, optional_time, time, verified};
use crate::problem::Problem;

/// Maximum number of groups that are read of a token.
const MAX_GROUPS: usize = 1_000;
/// Retry delay for users while too many sign in, in seconds.
const BUSY_RETRY_S: u64 = 2;
/// The event of a logout token (OpenID Connect Back-Channel Logout, 2.4).
const LOGOUT_EVENT: &str = "http://schemas.openid.net/event/backchannel-logout";

/// The reason why a flow has failed.
#[derive(Debug, thiserror::Error)]
pub enum FlowError {
    #[error("this sign-in was not begun in this browser, or it is too old; start again")]
    Unknown,
    #[error("the identity provider has refused the sign-in: {0}")]
    Refused(String),
    #[error("the identity provider does not accept the code of this sign-in; start again")]
    Code,
    #[error("the identity provider does not accept this server's client settings; ask an operator")]
    Client,
    #[error("only users with a verified email address of certain domains can sign in here")]
    EmailDomain,
    #[error("too many users are signing in; try again")]
    Busy,
    #[error(transparent)]
    Token(#[from] TokenError),
}

impl From<FlowError> for Problem {
    fn from(error: FlowError) -> Self {
        let detail = error.to_string();
        match error {
            FlowError::Unknown => Problem::bad_request("sign_in_unknown", detail),
            FlowError::Refused(_) => Problem::new(StatusCode::FORBIDDEN, "provider_refused", detail),
            FlowError::Code => Problem::bad_request("code_refused", detail),
            FlowError::Client => Problem::new(StatusCode::BAD_GATEWAY, "client_refused", detail),
            FlowError::EmailDomain => Problem::new(StatusCode::FORBIDDEN, "email_not_allowed", detail),
            FlowError::Busy => Problem::overloaded(BUSY_RETRY_S),
            FlowError::Token(error) => error.into(),
        }
    }
}

/// Our client at the issuer.
pub struct CodeFlow<'a> {
    settings: &'a Settings,
    sso: &'a SsoSettings,
    keys: &'a Arc<PublishedKeys>,
}

impl<'a> CodeFlow<'a> {
    /// None: browsers do not sign in at the issuer.
    pub fn of(oidc: &'a Oidc) -> Option<Self> {
        Some(Self {
            settings: &oidc.settings,
            sso: oidc.settings.sso.as_ref()?,
            keys: &oidc.keys,
        })
    }

    /// The provider's name on the button of the sign-in page.
    pub fn name(&self) -> &'a str {
        &self.sso.name
    }

    /// Who may sign in.
    pub fn rules(&self, new_users: NewUsers) -> Rules<'a> {
        Rules {
            new_users,
            group_roles: &self.sso.group_roles,
        }
    }

    async fn endpoints(&self) -> Result<Arc<Endpoints>, FlowError> {
        Ok(self.keys.endpoints().await.map_err(TokenError::from)?)
    }

    /// Returns the provider's page on which the user signs in. `silent`: it asks the user nothing, and refuses if it would have to.
    pub async fn authorization_url(&self, flow: &Flow, redirect_uri: &str, silent: bool) -> Result<Url, FlowError> {
        let endpoints = self.endpoints().await?;
        let Some(mut url) = endpoints.authorization.clone() else {
            warn!(
                issuer = self.settings.issuer,
                "the issuer publishes no authorization endpoint"
            );
            return Err(FlowError::Client);
        };
        let prompt = match (silent, self.sso.prompt) {
            (true, _) => Some("none"),
            (false, prompt) => prompt.map(|prompt| prompt.as_str()),
        };
        let mut query = url.query_pairs_mut();
        query
            .append_pair("response_type", "code")
            .append_pair("client_id", &self.sso.client_id)
            .append_pair("redirect_uri", redirect_uri)
            .append_pair("scope", &self.sso.request_scopes)
            .append_pair("state", &flow.state())
            .append_pair("nonce", &flow.nonce())
            .append_pair("code_challenge", &flow.challenge())
            .append_pair("code_challenge_method", "S256");
        if let Some(prompt) = prompt {
            query.append_pair("prompt", prompt);
        }
        if let Some(max_age) = self.sso.max_age {
            query.append_pair("max_age", &max_age.num_seconds().to_string());
        }
        drop(query);
        Ok(url)
    }

    /// Checks that a response comes from the issuer, if it says from whom it comes, as it must if the issuer has announced it
    /// (RFC 9207).
    pub async fn check_issuer(&self, named: Option<&str>) -> Result<(), FlowError> {
        match named {
            Some(named) if named == self.settings.issuer => Ok(()),
            Some(_) => Err(FlowError::Unknown),
            None if self.endpoints().await?.names_itself => Err(FlowError::Unknown),
            None => Ok(()),
        }
    }

    /// Redeems a code, and returns what its ID token says.
    pub async fn redeem(&self, flow: &Flow, redirect_uri: &str, code: &str) -> Result<SignedToken, FlowError> {
        let _place = self.sso.redemptions.try_acquire().map_err(|_| FlowError::Busy)?;
        let endpoints = self.endpoints().await?;
        let Some(url) = &endpoints.token else {
            warn!(issuer = self.settings.issuer, "the issuer publishes no token endpoint");
            return Err(FlowError::Client);
        };
        let form = self.redemption(flow, redirect_uri, code, endpoints.secret_in_body);
        let posted = self.keys.post(url, form, self.basic(endpoints.secret_in_body)).await;
        let (status, body) = posted.map_err(TokenError::from)?;
        if status != StatusCode::OK {
            let error = body["error"].as_str().unwrap_or_default();
            warn!(issuer = self.settings.issuer, %status, error, "the issuer did not redeem a code");
            return Err(match error {
                "invalid_client" | "unauthorized_client" | "invalid_scope" | "unsupported_grant_type" => {
                    FlowError::Client
                }
                _ => FlowError::Code,
            });
        }
        let Some(token) = body["id_token"].as_str() else {
            warn!(issuer = self.settings.issuer, "the issuer's response has no ID token");
            return Err(FlowError::Client);
        };
        let expected = Expected {
            audience: &self.sso.client_id,
            kinds: &["jwt"],
            claims: &["exp", "iss", "aud", "sub"],
        };
        let claims = verified(self.settings, self.keys, token, expected).await?;
        self.check(flow, &claims)?;
        if !self.takes_email(&claims) {
            return Err(FlowError::EmailDomain);
        }
        Ok(self.signed(&claims).map_err(refused)?)
    }

    /// The form that redeems a code.
    fn redemption(&self, flow: &Flow, redirect_uri: &str, code: &str, secret_in_body: bool) -> String {
        let mut form = Serializer::new(String::new());
        form.append_pair("grant_type", "authorization_code")
            .append_pair("code", code)
            .append_pair("redirect_uri", redirect_uri)
            .append_pair("code_verifier", &flow.verifier());
        match &self.sso.client_secret {
            Some(secret) if secret_in_body => {
                form.append_pair("client_id", &self.sso.client_id)
                    .append_pair("client_secret", secret);
            }
            Some(_) => {}
            None => {
                form.append_pair("client_id", &self.sso.client_id);
            }
        }
        form.finish()
    }

    /// The client's id and secret in the header, encoded as RFC 6749, 2.3.1, has it.
    fn basic(&self, secret_in_body: bool) -> Option<(String, String)> {
        let secret = self.sso.client_secret.as_deref().filter(|_| !secret_in_body)?;
        let encoded = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
        Some((encoded(&self.sso.client_id), encoded(secret)))
    }

    /// Checks that an ID token was issued to our client in this flow (OpenID Connect Core, 3.1.3.7).
    fn check(&self, flow: &Flow, claims: &Map<String, Value>) -> Result<(), TokenError> {
        if claims.get("nonce").and_then(Value::as_str) != Some(flow.nonce().as_str()) {
            return Err(refused("its nonce is not that of this sign-in"));
        }
        let is_ours = |party: &Value| party.as_str() == Some(self.sso.client_id.as_str());
        let has_several = claims
            .get("aud")
            .and_then(Value::as_array)
            .is_some_and(|audience| audience.len() > 1);
        match claims.get("azp") {
            Some(party) if !is_ours(party) => Err(refused("it was issued to another client")),
            None if has_several => Err(refused("it is for several audiences, and does not state its client")),
            Some(_) | None => Ok(()),
        }
    }

    /// Returns whether the user has a verified address of an allowed domain, if there are any.
    fn takes_email(&self, claims: &Map<String, Value>) -> bool {
        let domains = &self.sso.email_domains;
        let is_verified = claims.get("email_verified") == Some(&Value::Bool(true));
        let email = claims.get("email").and_then(name).filter(|_| is_verified);
        let domain = email.and_then(|email| email.rsplit_once('@')).map(|(_, domain)| domain);
        domains.is_empty() || domain.is_some_and(|domain| domains.contains(&domain.to_ascii_lowercase()))
    }

    /// Maps the claims of an ID token.
    fn signed(&self, claims: &Map<String, Value>) -> Result<SignedToken, &'static str> {
        let mut identity = identity(self.settings, claims)?;
        identity.scopes = sso::session_scopes(&self.sso.scopes);
        Ok(SignedToken {
            identity,
            issued_at: claims
                .get("iat")
                .and_then(time)
                .ok_or("it does not state when it was issued")?,
            authenticated_at: optional_time(claims, "auth_time").map_err(|()| "its auth_time is not a valid time")?,
            max_age: self.sso.max_age,
            provider_session: claims.get("sid").and_then(name).map(str::to_owned),
            groups: groups(claims, &self.sso.groups_claim),
        })
    }

    /// Returns the provider's page on which the user signs out there, too, and which leads back to `return_to`. None: it has none,
    /// or does not respond.
    pub async fn logout_url(&self, return_to: &str) -> Option<Url> {
        let mut url = self.endpoints().await.ok()?.end_session.clone()?;
        url.query_pairs_mut()
            .append_pair("client_id", &self.sso.client_id)
            .append_pair("post_logout_redirect_uri", return_to);
        Some(url)
    }

    /// Verifies a logout token, and returns what it says.
    pub async fn logout(&self, token: &str) -> Result<SignedLogout, FlowError> {
        let expected = Expected {
            audience: &self.sso.client_id,
            kinds: &["logout+jwt", "jwt"],
            claims: &["iss", "aud"],
        };
        let claims = verified(self.settings, self.keys, token, expected).await?;
        if !claims
            .get("events")
            .is_some_and(|events| events[LOGOUT_EVENT].is_object())
        {
            return Err(refused("it is not a logout token").into());
        }
        // So that an ID token is never taken for one.
        if claims.contains_key("nonce") {
            return Err(refused("a logout token must not have a nonce").into());
        }
        let issued_at = claims.get("iat").and_then(time);
        Ok(SignedLogout {
            issuer: self.settings.issuer.clone(),
            subject: claims.get("sub").and_then(name).map(str::to_owned),
            provider_session: claims.get("sid").and_then(name).map(str::to_owned),
            issued_at: issued_at.ok_or_else(|| refused("it does not state when it was issued"))?,
            expires_at: optional_time(&claims, "exp").map_err(|()| refused("its expiry is not a valid time"))?,
        })
    }
}

fn refused(reason: &str) -> TokenError {
    TokenError::Refused(reason.to_owned())
}

/// Returns the groups in a claim: a string, or a list of strings. The claim may be within others: `realm_access.roles`.
fn groups(claims: &Map<String, Value>, claim: &str) -> Vec<String> {
    let found = claims.get(claim).or_else(|| {
        let mut path = claim.split('.');
        let first = claims.get(path.next()?)?;
        path.try_fold(first, |value, part| value.get(part))
    });
    let groups: Vec<&Value> = match found {
        None => Vec::new(),
        Some(Value::Array(groups)) => groups.iter().take(MAX_GROUPS).collect(),
        Some(group) => vec![group],
    };
    groups
        .into_iter()
        .filter_map(|group| group.as_str().map(str::to_owned))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::settings::OidcArgs;
    use super::super::sso_settings::SsoArgs;
    use super::*;
    use serde_json::json;

    fn oidc(change: impl FnOnce(&mut SsoArgs)) -> Oidc {
        let mut sso = SsoArgs {
            sso_client_id: Some("web".to_owned()),
            ..SsoArgs::default()
        };
        change(&mut sso);
        let args = OidcArgs {
            oidc_issuer: Some("https://id.example".to_owned()),
            sso,
            ..OidcArgs::default()
        };
        Oidc::new(&args).expect("good settings").expect("an issuer")
    }

    fn claims(more: Value) -> Map<String, Value> {
        more.as_object().expect("an object").clone()
    }

    #[test]
    fn an_id_token_is_for_our_client_in_this_flow() {
        let oidc = oidc(|_| {});
        let client = CodeFlow::of(&oidc).unwrap();
        let flow = Flow::begin("/".to_owned(), None, None);
        let other = Flow::begin("/".to_owned(), None, None);
        let check = |more: Value| {
            let mut all = claims(json!({"nonce": flow.nonce(), "aud": "web"}));
            all.extend(claims(more));
            client.check(&flow, &all).is_ok()
        };
        assert!(check(json!({})) && check(json!({"azp": "web"})) && check(json!({"aud": ["web"]})));
        assert!(check(json!({"aud": ["web", "api"], "azp": "web"})));
        for wrong in [
            json!({"nonce": other.nonce()}),
            json!({"nonce": null}),
            json!({"nonce": flow.state()}),
            json!({"azp": "api"}),
            json!({"azp": ["web"]}),
            json!({"aud": ["web", "api"]}),
        ] {
            assert!(!check(wrong.clone()), "{wrong}");
        }
    }

    #[test]
    fn only_a_verified_address_of_a_domain_counts() {
        let any = oidc(|_| {});
        assert!(CodeFlow::of(&any).unwrap().takes_email(&Map::new()));
        let oidc = oidc(|args| args.sso_email_domains = vec!["example.com".to_owned()]);
        let client = CodeFlow::of(&oidc).unwrap();
        let takes = |email: &str, verified: Value| {
            client.takes_email(&claims(json!({"email": email, "email_verified": verified})))
        };
        assert!(takes("ann@example.com", json!(true)) && takes("ann@EXAMPLE.com", json!(true)));
        for (email, verified) in [
            ("ann@example.com", json!(false)),
            ("ann@example.com", json!("true")),
            ("ann@sub.example.com", json!(true)),
            ("ann@example.com@evil.example", json!(true)),
            ("ann@evil-example.com", json!(true)),
            ("example.com", json!(true)),
        ] {
            assert!(!takes(email, verified.clone()), "{email} {verified}");
        }
    }

    #[test]
    fn groups_are_a_list_a_string_or_within_another_claim() {
        let groups = |more: Value, claim: &str| groups(&claims(more), claim);
        assert_eq!(groups(json!({"groups": ["a", 7, "b"]}), "groups"), ["a", "b"]);
        assert_eq!(groups(json!({"groups": "a"}), "groups"), ["a"]);
        assert_eq!(
            groups(json!({"realm_access": {"roles": ["a"]}}), "realm_access.roles"),
            ["a"]
        );
        assert_eq!(
            groups(json!({"https://a.b/groups": ["a"]}), "https://a.b/groups"),
            ["a"]
        );
        assert!(groups(json!({"groups": {"a": true}}), "groups").is_empty());
        assert!(groups(json!({}), "groups").is_empty());
    }
}
