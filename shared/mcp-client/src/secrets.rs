//! Inserts the values of the workspace's secrets into a server's settings. Called by `connections` for each connection.
//!
//! Invariant: a value goes to the server only: never into results, errors or logs.

use std::collections::HashMap;

use rejoin_integrations::mcp::{Server, template};
use rejoin_secrets::MasterKeys;
use serde_json::{Map, Value};
use sqlx::PgPool;

use crate::oauth::{Grant, UserTokens};
use crate::redact::Redactor;

/// A server's settings with resolved secrets.
pub struct ResolvedSettings {
    /// The address; none for a process.
    pub url: Option<String>,
    /// Headers of each request.
    pub headers: Vec<(String, String)>,
    /// Environment variables of a process.
    pub env: Vec<(String, String)>,
    /// How access tokens are obtained by the client-credentials grant.
    pub oauth: Option<Grant>,
    /// The settings of a server with accounts of users.
    pub registered: Option<Grant>,
    /// The tokens of the user for whom the connection is.
    pub user: Option<UserTokens>,
    /// Knows every secret in these settings.
    pub redactor: Redactor,
}

/// Decrypts the secrets that the settings refer to.
///
/// # Errors
/// One is missing or can't be decrypted: the message.
pub(crate) async fn fill(db: &PgPool, keys: Option<&MasterKeys>, server: &Server) -> Result<ResolvedSettings, String> {
    let settings = &server.settings;
    let mut templates: Vec<&str> = settings.url.as_deref().into_iter().collect();
    templates.extend(settings.headers.values().filter_map(Value::as_str));
    templates.extend(settings.env.values().filter_map(Value::as_str));
    if let Some(oauth) = &settings.oauth {
        templates.extend([oauth.client_id.as_str(), oauth.client_secret.as_str()]);
        templates.extend(oauth.token_url.as_deref());
    }
    let mut values = HashMap::new();
    for template in templates {
        for name in template::names(template)? {
            if values.contains_key(name) {
                continue;
            }
            let keys = keys.ok_or_else(|| {
                format!("it uses the secret {name}, but this worker has no master key (REJOIN_SECRET_KEYS_FILE)")
            })?;
            let opened = rejoin_secrets::open(db, keys, server.workspace_id, name)
                .await
                .map_err(|error| error.to_string())?
                .ok_or_else(|| format!("the project has no secret {name}"))?;
            let text = opened
                .expose_text()
                .ok_or_else(|| format!("the secret {name} is not text"))?;
            values.insert(name.to_owned(), text.to_owned());
        }
    }
    let fill = |template: &str| template::filled(template, |name| values.get(name).cloned());
    let all = |templates: &Map<String, Value>| {
        templates
            .iter()
            .map(|(name, value)| Ok((name.clone(), fill(value.as_str().unwrap_or_default())?)))
            .collect::<Result<Vec<_>, String>>()
    };
    let oauth = settings.oauth.as_ref().map(|oauth| {
        Ok::<_, String>(Grant {
            client_id: fill(&oauth.client_id)?,
            client_secret: fill(&oauth.client_secret)?,
            scopes: oauth.scopes.clone(),
            token_url: oauth.token_url.as_deref().map(&fill).transpose()?,
        })
    });
    let oauth = oauth.transpose()?;
    let is_per_user = settings.is_per_user();
    let travelling = oauth.iter().flat_map(Grant::hidden).collect::<Vec<_>>();
    let (oauth, registered) = if is_per_user { (None, oauth) } else { (oauth, None) };
    Ok(ResolvedSettings {
        url: settings.url.as_deref().map(&fill).transpose()?,
        headers: all(&settings.headers)?,
        env: all(&settings.env)?,
        redactor: Redactor::new(values.into_values().chain(travelling)),
        registered,
        oauth,
        user: None,
    })
}
