//! Options of `rejoin api` for browsers that sign in at the identity provider: our client there, and who may sign in.

use std::path::PathBuf;

use chrono::TimeDelta;
use clap::{Args, ValueEnum};
use rejoin_identity::sso::GroupRole;
use rejoin_identity::workspaces::Role;
use rejoin_types::access::Scope;
use tokio::sync::Semaphore;
use uuid::Uuid;

const MAX_REDEMPTIONS: u32 = 50;

/// Options as they were given. Without a client id, browsers do not sign in at the provider.
#[derive(Debug, Clone, Args)]
pub struct SsoArgs {
    /// Client id at the issuer, with which browsers sign in there (authorization code flow with PKCE)
    #[arg(long, env = "REJOIN_SSO_CLIENT_ID", value_name = "ID")]
    pub sso_client_id: Option<String>,

    /// Secret of that client; without one, it is a public client
    #[arg(
        long,
        env = "REJOIN_SSO_CLIENT_SECRET",
        value_name = "SECRET",
        hide_env_values = true
    )]
    pub sso_client_secret: Option<String>,

    /// File with only the client's secret, instead of the option
    #[arg(long, env = "REJOIN_SSO_CLIENT_SECRET_FILE", value_name = "FILE")]
    pub sso_client_secret_file: Option<PathBuf>,

    /// Name of the provider on the button of the sign-in page
    #[arg(long, env = "REJOIN_SSO_NAME", default_value = "SSO", value_name = "NAME")]
    pub sso_name: String,

    /// Scopes requested from the provider, separated by spaces
    #[arg(
        long,
        env = "REJOIN_SSO_REQUEST_SCOPES",
        default_value = "openid profile email",
        value_name = "SCOPES"
    )]
    pub sso_request_scopes: String,

    /// Whether the provider always asks the user [default: as the provider decides]
    #[arg(long, env = "REJOIN_SSO_PROMPT", value_enum)]
    pub sso_prompt: Option<PromptArg>,

    /// Maximum time since the user authenticated at the provider, in seconds [default: any]
    #[arg(long, env = "REJOIN_SSO_MAX_AGE_S", value_parser = clap::value_parser!(u32).range(1..))]
    pub sso_max_age_s: Option<u32>,

    /// Scopes that sessions have at most
    #[arg(
        long,
        env = "REJOIN_SSO_SCOPES",
        value_enum,
        value_delimiter = ',',
        default_value = "read,write,admin"
    )]
    pub sso_scopes: Vec<Scope>,

    /// Claim with the user's groups
    #[arg(
        long,
        env = "REJOIN_SSO_GROUPS_CLAIM",
        default_value = "groups",
        value_name = "CLAIM"
    )]
    pub sso_groups_claim: String,

    /// Roles that groups give, separated by semicolons: GROUP=ROLE, in the default project, or GROUP=ROLE@PROJECT; the first
    /// entry that fits decides
    #[arg(
        long,
        env = "REJOIN_SSO_GROUP_ROLES",
        value_delimiter = ';',
        value_name = "GROUP=ROLE[@PROJECT]"
    )]
    pub sso_group_roles: Vec<String>,

    /// Domains, separated by commas, of which users must have a verified email address [default: any user]
    #[arg(long, env = "REJOIN_SSO_EMAIL_DOMAINS", value_delimiter = ',', value_name = "DOMAIN")]
    pub sso_email_domains: Vec<String>,

    /// Maximum number of codes that are redeemed at the provider at a time; further sign-ins get 503
    #[arg(long, env = "REJOIN_SSO_MAX_REDEMPTIONS", default_value_t = MAX_REDEMPTIONS, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub sso_max_redemptions: u32,
}

impl Default for SsoArgs {
    fn default() -> Self {
        Self {
            sso_client_id: None,
            sso_client_secret: None,
            sso_client_secret_file: None,
            sso_name: "SSO".to_owned(),
            sso_request_scopes: "openid profile email".to_owned(),
            sso_prompt: None,
            sso_max_age_s: None,
            sso_scopes: vec![Scope::Read, Scope::Write, Scope::Admin],
            sso_groups_claim: "groups".to_owned(),
            sso_group_roles: Vec::new(),
            sso_email_domains: Vec::new(),
            sso_max_redemptions: MAX_REDEMPTIONS,
        }
    }
}

/// What the provider asks the user at each sign-in (`prompt` of OpenID Connect).
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PromptArg {
    /// To authenticate again
    Login,
    /// Which account to use
    SelectAccount,
    /// To agree again
    Consent,
}

impl PromptArg {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Login => "login",
            Self::SelectAccount => "select_account",
            Self::Consent => "consent",
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum SsoSettingsError {
    #[error("--sso-client-id requires --oidc-issuer, the provider at which browsers sign in")]
    IssuerMissing,
    #[error("--sso-client-secret and --sso-client-secret-file are both set: remove one of them")]
    TwoSecrets,
    #[error("reading the client's secret from {} (REJOIN_SSO_CLIENT_SECRET_FILE) failed", .path.display())]
    SecretFile {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("--sso-request-scopes must contain `openid`: {0}")]
    OpenidMissing(String),
    #[error(
        "--sso-group-roles must be a list of GROUP=ROLE or GROUP=ROLE@PROJECT, separated by semicolons, where ROLE is \
        owner, member, viewer or operator, and PROJECT is an id: {0}"
    )]
    GroupRole(String),
    #[error("--sso-group-roles: {0} names no project, and --oidc-default-project is not set")]
    NoProject(String),
    #[error("--sso-email-domains must be domains such as example.com: {0}")]
    EmailDomain(String),
}

/// Validated options.
pub struct SsoSettings {
    pub client_id: String,
    /// None: a public client.
    pub client_secret: Option<String>,
    pub name: String,
    pub request_scopes: String,
    pub prompt: Option<PromptArg>,
    pub max_age: Option<TimeDelta>,
    pub scopes: Vec<Scope>,
    pub groups_claim: String,
    pub group_roles: Vec<GroupRole>,
    /// In lower case. Empty: any.
    pub email_domains: Vec<String>,
    /// Places of codes that are redeemed at the moment: requests of strangers cannot hold more of the server, nor of the provider.
    pub redemptions: Semaphore,
}

impl SsoArgs {
    /// None: no client id.
    pub fn settings(&self, default_project: Option<Uuid>) -> Result<Option<SsoSettings>, SsoSettingsError> {
        let Some(client_id) = given(self.sso_client_id.as_deref()) else {
            return Ok(None);
        };
        let scopes = &self.sso_request_scopes;
        if !scopes.split_whitespace().any(|scope| scope == "openid") {
            return Err(SsoSettingsError::OpenidMissing(scopes.clone()));
        }
        let group_roles = self.sso_group_roles.iter().filter(|entry| !entry.trim().is_empty());
        let email_domains = self.sso_email_domains.iter().filter(|domain| !domain.trim().is_empty());
        Ok(Some(SsoSettings {
            client_id,
            client_secret: self.secret()?,
            name: self.sso_name.clone(),
            request_scopes: scopes.split_whitespace().collect::<Vec<_>>().join(" "),
            prompt: self.sso_prompt,
            max_age: self.sso_max_age_s.map(|seconds| TimeDelta::seconds(i64::from(seconds))),
            scopes: self.sso_scopes.clone(),
            groups_claim: self.sso_groups_claim.clone(),
            group_roles: group_roles
                .map(|entry| group_role(entry, default_project))
                .collect::<Result<_, _>>()?,
            email_domains: email_domains
                .map(|domain| email_domain(domain))
                .collect::<Result<_, _>>()?,
            redemptions: Semaphore::new(self.sso_max_redemptions as usize),
        }))
    }

    /// Returns whether browsers are to sign in at the provider.
    pub fn is_on(&self) -> bool {
        given(self.sso_client_id.as_deref()).is_some()
    }

    fn secret(&self) -> Result<Option<String>, SsoSettingsError> {
        let secret = given(self.sso_client_secret.as_deref());
        let path = self
            .sso_client_secret_file
            .clone()
            .filter(|path| !path.as_os_str().is_empty());
        match (secret, path) {
            (Some(_), Some(_)) => Err(SsoSettingsError::TwoSecrets),
            (secret, None) => Ok(secret),
            (None, Some(path)) => match std::fs::read_to_string(&path) {
                Ok(text) => Ok(given(Some(text.trim()))),
                Err(source) => Err(SsoSettingsError::SecretFile { path, source }),
            },
        }
    }
}

/// An empty variable counts as absent.
fn given(option: Option<&str>) -> Option<String> {
    option.filter(|text| !text.trim().is_empty()).map(str::to_owned)
}

/// Parses an entry. A group's name may contain `=` and `@`, as in LDAP.
fn group_role(entry: &str, default_project: Option<Uuid>) -> Result<GroupRole, SsoSettingsError> {
    let wrong = || SsoSettingsError::GroupRole(entry.to_owned());
    let (group, granted) = entry.trim().rsplit_once('=').ok_or_else(wrong)?;
    let (role, workspace_id) = match granted.split_once('@') {
        Some((role, project)) => (role, project.trim().parse().map_err(|_| wrong())?),
        None => {
            let missing = || SsoSettingsError::NoProject(entry.to_owned());
            (granted, default_project.ok_or_else(missing)?)
        }
    };
    let role: Role = role.trim().parse().map_err(|_| wrong())?;
    // A service account does not sign in with a browser.
    if group.trim().is_empty() || role == Role::Service {
        return Err(wrong());
    }
    Ok(GroupRole {
        group: group.trim().to_owned(),
        role,
        workspace_id,
    })
}

fn email_domain(text: &str) -> Result<String, SsoSettingsError> {
    let domain = text.trim().to_ascii_lowercase();
    let is_one = domain.contains('.') && !domain.contains(['@', '*', '/', ' ']) && !domain.starts_with('.');
    is_one
        .then_some(domain)
        .ok_or_else(|| SsoSettingsError::EmailDomain(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_a_group_a_role_and_a_project() {
        let (default, other) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let parsed = |entry: &str| {
            group_role(entry, Some(default))
                .ok()
                .map(|rule| (rule.group, rule.role, rule.workspace_id))
        };
        let rule = |group: &str, role: Role, project: Uuid| Some((group.to_owned(), role, project));
        assert_eq!(parsed("staff=member"), rule("staff", Role::Member, default));
        assert_eq!(
            parsed(" cn=admins,ou=it = owner@00000000-0000-0000-0000-000000000002"),
            rule("cn=admins,ou=it", Role::Owner, other)
        );
        for wrong in [
            "staff",
            "=member",
            "staff=emperor",
            "staff=service",
            "staff=member@acme",
            "staff=",
        ] {
            assert_eq!(parsed(wrong), None, "{wrong}");
        }
        assert!(matches!(
            group_role("staff=member", None),
            Err(SsoSettingsError::NoProject(_))
        ));
    }

    #[test]
    fn a_domain_is_one_name_without_wildcards() {
        assert_eq!(email_domain(" Example.COM ").unwrap(), "example.com");
        for wrong in [
            "example",
            "*.example.com",
            "ann@example.com",
            ".example.com",
            "https://example.com/",
        ] {
            assert!(email_domain(wrong).is_err(), "{wrong}");
        }
    }
}
