//! The trusted issuer and the mapping of its tokens' claims: options of `rejoin api`.

use clap::{Args, ValueEnum};
use jsonwebtoken::Algorithm;
use rejoin_types::access::Scope;
use url::Url;
use uuid::Uuid;

use super::sso_settings::{SsoArgs, SsoSettings, SsoSettingsError};

/// Options as they were given. Without an issuer, tokens open nothing.
#[derive(Debug, Clone, Args)]
pub struct OidcArgs {
    #[command(flatten)]
    pub sso: SsoArgs,

    /// OpenID Connect issuer whose JWTs are accepted, e.g. https://id.example.com
    #[arg(long, env = "REJOIN_OIDC_ISSUER", value_name = "URL")]
    pub oidc_issuer: Option<String>,

    /// Audience that tokens of programs must have; required with an issuer, unless only browsers sign in there
    #[arg(long, env = "REJOIN_OIDC_AUDIENCE", value_name = "NAME")]
    pub oidc_audience: Option<String>,

    /// Accepted signature algorithms of tokens
    #[arg(
        long,
        env = "REJOIN_OIDC_ALGORITHMS",
        value_enum,
        value_delimiter = ',',
        default_value = "RS256,ES256"
    )]
    pub oidc_algorithms: Vec<AlgorithmArg>,

    /// Claim with the user's handle
    #[arg(long, env = "REJOIN_OIDC_USER_CLAIM", default_value = "sub", value_name = "CLAIM")]
    pub oidc_user_claim: String,

    /// Claim with the ids of the projects that a token gives access to; without it, a token gives access to all of its
    /// user's projects
    #[arg(long, env = "REJOIN_OIDC_PROJECT_CLAIM", value_name = "CLAIM")]
    pub oidc_project_claim: Option<String>,

    /// What to do about unknown users
    #[arg(long, env = "REJOIN_OIDC_NEW_USERS", value_enum, default_value_t = NewUsersArg::Refuse)]
    pub oidc_new_users: NewUsersArg,

    /// Project of which new users become members if their tokens name none
    #[arg(long, env = "REJOIN_OIDC_DEFAULT_PROJECT", value_name = "ID")]
    pub oidc_default_project: Option<String>,

    /// Scopes that tokens have at most
    #[arg(
        long,
        env = "REJOIN_OIDC_SCOPES",
        value_enum,
        value_delimiter = ',',
        default_value = "read,write"
    )]
    pub oidc_scopes: Vec<Scope>,

    /// Interval after which the issuer's keys are fetched again, in seconds
    #[arg(long, env = "REJOIN_OIDC_KEYS_MAX_AGE_S", default_value_t = 600, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub oidc_keys_max_age_s: u64,

    /// Minimum interval between fetches of the issuer's keys because of an unknown key, in milliseconds
    #[arg(long, env = "REJOIN_OIDC_KEYS_REFETCH_MS", default_value_t = 10_000)]
    pub oidc_keys_refetch_ms: u64,
}

impl Default for OidcArgs {
    fn default() -> Self {
        Self {
            sso: SsoArgs::default(),
            oidc_issuer: None,
            oidc_audience: None,
            oidc_algorithms: vec![AlgorithmArg::Rs256, AlgorithmArg::Es256],
            oidc_user_claim: "sub".to_owned(),
            oidc_project_claim: None,
            oidc_new_users: NewUsersArg::Refuse,
            oidc_default_project: None,
            oidc_scopes: vec![Scope::Read, Scope::Write],
            oidc_keys_max_age_s: 600,
            oidc_keys_refetch_ms: 10_000,
        }
    }
}

/// Asymmetric algorithms only, so that a key that verifies tokens cannot create them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum AlgorithmArg {
    #[value(name = "RS256")]
    Rs256,
    #[value(name = "ES256")]
    Es256,
}

impl From<AlgorithmArg> for Algorithm {
    fn from(algorithm: AlgorithmArg) -> Self {
        match algorithm {
            AlgorithmArg::Rs256 => Algorithm::RS256,
            AlgorithmArg::Es256 => Algorithm::ES256,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum NewUsersArg {
    /// Reject them: only users created by an operator are accepted, by the handle in the token
    Refuse,
    /// Create them
    Create,
}

#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    #[error("--oidc-issuer requires --oidc-audience, so that tokens for other services are rejected")]
    AudienceMissing,
    #[error("--oidc-issuer must be an https:// URL (http:// on this machine only) without a query: {0}")]
    Issuer(String),
    #[error("--oidc-algorithms must not be empty")]
    NoAlgorithm,
    #[error("--oidc-default-project must be the id of a project: {0}")]
    Project(String),
    #[error(transparent)]
    Sso(#[from] SsoSettingsError),
    #[error("creating the HTTP client for the issuer's keys failed")]
    Client(#[from] reqwest::Error),
}

/// Validated options.
pub struct Settings {
    pub issuer: String,
    /// None: only browsers sign in at the issuer, and a token opens nothing.
    pub audience: Option<String>,
    pub algorithms: Vec<Algorithm>,
    pub user_claim: String,
    pub project_claim: Option<String>,
    pub new_users: NewUsersArg,
    pub default_project: Option<Uuid>,
    pub scopes: Vec<Scope>,
    /// None: browsers do not sign in at the issuer.
    pub sso: Option<SsoSettings>,
}

impl OidcArgs {
    /// None: no issuer.
    pub fn settings(&self) -> Result<Option<Settings>, SettingsError> {
        let Some(issuer) = given(&self.oidc_issuer) else {
            if self.sso.is_on() {
                return Err(SsoSettingsError::IssuerMissing.into());
            }
            return Ok(None);
        };
        let url: Option<Url> = issuer.parse().ok();
        if !url.is_some_and(|url| is_safe(&url) && url.query().is_none() && url.fragment().is_none()) {
            return Err(SettingsError::Issuer(issuer));
        }
        if self.oidc_algorithms.is_empty() {
            return Err(SettingsError::NoAlgorithm);
        }
        let project = |id: String| id.parse().map_err(|_| SettingsError::Project(id));
        let default_project = given(&self.oidc_default_project).map(project).transpose()?;
        let sso = self.sso.settings(default_project)?;
        let audience = given(&self.oidc_audience);
        if audience.is_none() && sso.is_none() {
            return Err(SettingsError::AudienceMissing);
        }
        Ok(Some(Settings {
            issuer,
            audience,
            algorithms: self.oidc_algorithms.iter().copied().map(Algorithm::from).collect(),
            user_claim: self.oidc_user_claim.clone(),
            project_claim: given(&self.oidc_project_claim),
            new_users: self.oidc_new_users,
            default_project,
            scopes: self.oidc_scopes.clone(),
            sso,
        }))
    }
}

/// An empty variable counts as absent.
fn given(option: &Option<String>) -> Option<String> {
    option.clone().filter(|text| !text.trim().is_empty())
}

/// Returns whether its responses can't be forged: TLS, or this machine.
pub(super) fn is_safe(url: &Url) -> bool {
    let loopback = match url.host() {
        Some(url::Host::Domain(name)) => name == "localhost",
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        None => return false,
    };
    url.scheme() == "https" || (url.scheme() == "http" && loopback)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(issuer: &str, audience: &str) -> Result<Option<Settings>, SettingsError> {
        OidcArgs {
            oidc_issuer: Some(issuer.to_owned()),
            oidc_audience: Some(audience.to_owned()),
            ..OidcArgs::default()
        }
        .settings()
    }

    #[test]
    fn an_issuer_needs_an_audience_and_tls_or_this_machine() {
        assert!(matches!(with("", ""), Ok(None)));
        for good in [
            "https://id.example/realms/a",
            "http://127.0.0.1:8080",
            "http://localhost:1",
        ] {
            assert!(matches!(with(good, "rejoin"), Ok(Some(_))), "{good}");
        }
        for bad in [
            "http://id.example",
            "http://10.0.0.1",
            "id.example",
            "file:///etc/passwd",
            "https://a/?b",
        ] {
            assert!(matches!(with(bad, "rejoin"), Err(SettingsError::Issuer(_))), "{bad}");
        }
        assert!(matches!(
            with("https://id.example", " "),
            Err(SettingsError::AudienceMissing)
        ));
    }
}
