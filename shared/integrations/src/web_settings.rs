//! Settings of agents' web access, by workspace: rows of `kb.web_settings` and their SQL. Set by admins over the API,
//! read by workers; the tools are in `rejoin-web-search`.
//!
//! Invariants: a workspace without a row has no web tools; the search provider's key is a secret of the workspace, stored
//! here by name only.

use std::time::Duration;

use chrono::{DateTime, Utc};
use sqlx::PgExecutor;
use url::{Host, Url};
use uuid::Uuid;

use rejoin_secrets::NAME_MAX_CHARS;

/// The kind of jobs that test a workspace's search provider.
pub const KIND_PROBE: &str = "web_probe";
/// Maximum number of domains per list.
pub const MAX_DOMAINS: usize = 100;
/// Maximum length of a domain's name, in bytes: RFC 1035.
const DOMAIN_MAX_BYTES: usize = 253;
/// Maximum length of a provider's address, in bytes.
const URL_MAX_BYTES: usize = 2_000;

rejoin_types::text_enum! {
    /// A search provider.
    pub enum Provider {
        Tavily = "tavily",
        Brave = "brave",
        Searxng = "searxng",
    }
}

impl Provider {
    /// Its default address. None: it is self-hosted.
    pub fn own_url(self) -> Option<&'static str> {
        match self {
            Provider::Tavily => Some("https://api.tavily.com"),
            Provider::Brave => Some("https://api.search.brave.com"),
            Provider::Searxng => None,
        }
    }

    /// Returns whether it requires a key.
    pub fn takes_key(self) -> bool {
        match self {
            Provider::Tavily | Provider::Brave => true,
            Provider::Searxng => false,
        }
    }
}

/// The web settings of a workspace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WebSettings {
    /// None: `web_search` is off.
    pub provider: Option<Provider>,
    /// None: the provider's default address.
    pub base_url: Option<String>,
    /// The name of the workspace's secret with the provider's key.
    pub key_secret: Option<String>,
    /// Whether `web_visit` is on.
    pub visit: bool,
    /// Only these domains are visited and found; empty: all.
    pub allowed_domains: Vec<String>,
    pub blocked_domains: Vec<String>,
}

impl WebSettings {
    /// Validates it. The error is a message for the author.
    pub fn check(&self) -> Result<(), String> {
        match self.provider {
            None if !self.visit => {
                return Err("set a `provider` or `visit`; use DELETE to turn everything off".to_owned());
            }
            None if self.base_url.is_some() || self.key_secret.is_some() => {
                return Err("`baseUrl` and `keySecret` require a `provider`".to_owned());
            }
            None => {}
            Some(provider) => self.check_provider(provider)?,
        }
        for (field, domains) in [
            ("allowedDomains", &self.allowed_domains),
            ("blockedDomains", &self.blocked_domains),
        ] {
            if domains.len() > MAX_DOMAINS {
                return Err(format!("`{field}` can have at most {MAX_DOMAINS} domains"));
            }
            if let Some(wrong) = domains.iter().find(|domain| !is_domain(domain)) {
                return Err(format!(
                    "`{field}`: {wrong:?} is not a domain; use e.g. example.com, without https:// and path"
                ));
            }
        }
        Ok(())
    }

    fn check_provider(&self, provider: Provider) -> Result<(), String> {
        let name = provider.as_str();
        match (&self.base_url, provider.own_url()) {
            (None, None) => return Err(format!("{name} has no default URL; set `baseUrl`")),
            (None, Some(_)) => {}
            (Some(url), _) => {
                let parsed = Url::parse(url).map_err(|error| format!("`baseUrl` is not a valid URL: {error}"))?;
                let plain = parsed.username().is_empty() && parsed.password().is_none();
                let bare = parsed.query().is_none() && parsed.fragment().is_none();
                if !matches!(parsed.scheme(), "http" | "https") || !plain || !bare || url.len() > URL_MAX_BYTES {
                    return Err(
                        "`baseUrl` must start with http:// or https:// and contain neither credentials nor a query"
                            .to_owned(),
                    );
                }
            }
        }
        match &self.key_secret {
            None if provider.takes_key() => Err(format!(
                "{name} requires an API key; store it as a secret (`rejoin secrets set`), and name the secret in \
                `keySecret`"
            )),
            Some(secret) if secret.is_empty() || secret.chars().count() > NAME_MAX_CHARS => Err(format!(
                "`keySecret` must be the name of a secret, at most {NAME_MAX_CHARS} characters"
            )),
            None | Some(_) => Ok(()),
        }
    }

    /// Returns whether pages of this host may be visited and found.
    pub fn lets(&self, host: &str) -> bool {
        let named = |domains: &[String]| domains.iter().any(|domain| is_within(host, domain));
        !named(&self.blocked_domains) && (self.allowed_domains.is_empty() || named(&self.allowed_domains))
    }
}

/// Returns whether a host is a domain or a subdomain of it.
pub fn is_within(host: &str, domain: &str) -> bool {
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    let domain = domain.trim_end_matches('.').to_ascii_lowercase();
    host == domain || host.strip_suffix(&domain).is_some_and(|front| front.ends_with('.'))
}

/// Returns whether this is exactly a host's name or address.
pub fn is_domain(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= DOMAIN_MAX_BYTES
        && !text.contains(['/', '@', ':', '*'])
        && Host::parse(text).is_ok()
}

/// None: the workspace has no settings.
pub async fn get(db: impl PgExecutor<'_>, workspace_id: Uuid) -> Result<Option<WebSettings>, sqlx::Error> {
    let row = sqlx::query!(
        "select provider, base_url, key_secret, visit, allowed_domains, blocked_domains from kb.web_settings where project_id = $1",
        workspace_id
    )
    .fetch_optional(db)
    .await?;
    Ok(row.map(|row| WebSettings {
        // A value set by a newer program and unknown to this one is treated as absent.
        provider: row.provider.and_then(|provider| provider.parse().ok()),
        base_url: row.base_url,
        key_secret: row.key_secret,
        visit: row.visit,
        allowed_domains: row.allowed_domains,
        blocked_domains: row.blocked_domains,
    }))
}

/// Replaces the settings with validated ones.
pub async fn set(db: impl PgExecutor<'_>, workspace_id: Uuid, settings: &WebSettings) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "insert into kb.web_settings (project_id, provider, base_url, key_secret, visit, allowed_domains, blocked_domains)
         values ($1, $2, $3, $4, $5, $6, $7)
         on conflict (project_id) do update
         set provider = excluded.provider, base_url = excluded.base_url, key_secret = excluded.key_secret, visit = excluded.visit,
             allowed_domains = excluded.allowed_domains, blocked_domains = excluded.blocked_domains, updated_at = now(),
             tried_at = null, found = null, took_ms = null, failure = null",
        workspace_id,
        settings.provider.map(Provider::as_str),
        settings.base_url.as_deref(),
        settings.key_secret.as_deref(),
        settings.visit,
        &settings.allowed_domains,
        &settings.blocked_domains,
    )
    .execute(db)
    .await?;
    Ok(())
}

/// The result of a test of the search provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tried {
    pub at: DateTime<Utc>,
    /// The number of pages found. None: the search failed; see `failure`.
    pub found: Option<i32>,
    pub took_ms: i32,
    pub failure: Option<String>,
}

/// Returns the newest test of the current settings. None: there was none.
pub async fn last_try(db: impl PgExecutor<'_>, workspace_id: Uuid) -> Result<Option<Tried>, sqlx::Error> {
    sqlx::query_as!(
        Tried,
        r#"select tried_at as "at!", found, coalesce(took_ms, 0) as "took_ms!", failure
           from kb.web_settings where project_id = $1 and tried_at is not null"#,
        workspace_id
    )
    .fetch_optional(db)
    .await
}

/// Records the result of a test, unless the settings have changed since they were read. Err of `outcome`: why it
/// failed.
pub async fn tried(
    db: impl PgExecutor<'_>,
    workspace_id: Uuid,
    settings: &WebSettings,
    outcome: &Result<usize, String>,
    took: Duration,
) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "update kb.web_settings set tried_at = clock_timestamp(), found = $2, failure = $3, took_ms = $4
         where project_id = $1 and provider is not distinct from $5 and base_url is not distinct from $6
             and key_secret is not distinct from $7",
        workspace_id,
        outcome
            .as_ref()
            .ok()
            .map(|found| i32::try_from(*found).unwrap_or(i32::MAX)),
        outcome.as_ref().err(),
        i32::try_from(took.as_millis()).unwrap_or(i32::MAX),
        settings.provider.map(Provider::as_str),
        settings.base_url.as_deref(),
        settings.key_secret.as_deref(),
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Removes all settings. False: there were none.
pub async fn delete(db: impl PgExecutor<'_>, workspace_id: Uuid) -> Result<bool, sqlx::Error> {
    let deleted = sqlx::query!("delete from kb.web_settings where project_id = $1", workspace_id)
        .execute(db)
        .await?;
    Ok(deleted.rows_affected() > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_domain_is_itself_and_what_is_below_it() {
        for (host, domain, within) in [
            ("example.com", "example.com", true),
            ("a.b.Example.com.", "example.com", true),
            ("notexample.com", "example.com", false),
            ("example.com.evil.net", "example.com", false),
        ] {
            assert_eq!(is_within(host, domain), within, "{host} {domain}");
        }
        let settings = WebSettings {
            visit: true,
            allowed_domains: vec!["example.com".to_owned()],
            blocked_domains: vec!["ads.example.com".to_owned()],
            ..WebSettings::default()
        };
        assert!(settings.lets("www.example.com") && !settings.lets("x.ads.example.com") && !settings.lets("other.net"));
    }

    #[test]
    fn what_makes_no_sense_is_refused_in_words() {
        let on = |provider, base_url: Option<&str>, key: Option<&str>| WebSettings {
            provider,
            base_url: base_url.map(str::to_owned),
            key_secret: key.map(str::to_owned),
            ..WebSettings::default()
        };
        for (settings, word) in [
            (WebSettings::default(), "set a `provider` or `visit`"),
            (on(None, Some("http://a"), None), "set a `provider` or `visit`"),
            (on(Some(Provider::Tavily), None, None), "requires an API key"),
            (on(Some(Provider::Searxng), None, None), "baseUrl"),
            (on(Some(Provider::Searxng), Some("ftp://a"), None), "http://"),
            (on(Some(Provider::Searxng), Some("http://u:p@a"), None), "credentials"),
            (
                WebSettings {
                    visit: true,
                    blocked_domains: vec!["https://a.b/".to_owned()],
                    ..WebSettings::default()
                },
                "is not a domain",
            ),
        ] {
            let error = settings.check().unwrap_err();
            assert!(error.contains(word), "{error}");
        }
        assert_eq!(on(Some(Provider::Brave), None, Some("BRAVE_KEY")).check(), Ok(()));
    }
}
