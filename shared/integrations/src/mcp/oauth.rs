//! OAuth settings of an HTTP MCP server and their validation. There are two grants: client credentials (RFC 6749, section
//! 4.4), by which all runs act as one client; and authorization code (section 4.1), by which each run acts as its user,
//! who has connected an account (`accounts`). Called by `settings`; workers fetch the tokens (`oauth` of `mcp-client`).

use serde::{Deserialize, Serialize};

use super::{template, url};

/// Maximum length of a client's name or its secret's template, in bytes.
const VALUE_MAX_BYTES: usize = 1024;
/// Maximum number of requested scopes.
const MAX_SCOPES: usize = 50;

/// OAuth settings of a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OAuth {
    /// Whether each user connects an account. Otherwise all runs act as one client.
    #[serde(default, alias = "per_user", skip_serializing_if = "std::ops::Not::not")]
    pub per_user: bool,
    /// The client id at the authorization server; may refer to secrets. Empty, with accounts of users only: the client
    /// registers itself.
    #[serde(default, alias = "client_id", skip_serializing_if = "String::is_empty")]
    pub client_id: String,
    /// Refers to a secret. Empty, with accounts of users only: a public client.
    #[serde(default, alias = "client_secret", skip_serializing_if = "String::is_empty")]
    pub client_secret: String,
    /// Empty: those that the server requires.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<String>,
    /// The token endpoint; may refer to secrets. Absent: discovered from the server.
    #[serde(default, alias = "token_url", skip_serializing_if = "Option::is_none")]
    pub token_url: Option<String>,
}

impl OAuth {
    /// Validates it. The error is a message for the author.
    pub(super) fn check(&self) -> Result<(), String> {
        for (what, value) in [("clientId", &self.client_id), ("clientSecret", &self.client_secret)] {
            if self.per_user && value.is_empty() {
                continue;
            }
            if value.is_empty() || value.len() > VALUE_MAX_BYTES || value.contains(|c: char| c.is_control()) {
                return Err(format!(
                    "oauth.{what} is empty, longer than {VALUE_MAX_BYTES} bytes, or contains a control character"
                ));
            }
            template::names(value).map_err(|fault| format!("oauth.{what}: {fault}"))?;
        }
        if self.per_user {
            if self.token_url.is_some() {
                return Err(
                    "oauth.tokenUrl cannot be set with oauth.perUser: the server's metadata name the endpoints"
                        .to_owned(),
                );
            }
            if self.client_id.is_empty() && !self.client_secret.is_empty() {
                return Err("oauth.clientSecret requires oauth.clientId".to_owned());
            }
        }
        let has_secret = !self.per_user || !self.client_secret.is_empty();
        if has_secret && template::names(&self.client_secret)?.is_empty() {
            return Err(
                "oauth.clientSecret is a credential; store it as a secret of the project, and refer to it as ${NAME}"
                    .to_owned(),
            );
        }
        // RFC 6749, section 3.3.
        let is_scope = |scope: &String| {
            !scope.is_empty()
                && scope.len() <= VALUE_MAX_BYTES
                && scope
                    .bytes()
                    .all(|byte| matches!(byte, 0x21 | 0x23..=0x5b | 0x5d..=0x7e))
        };
        if self.scopes.len() > MAX_SCOPES || !self.scopes.iter().all(is_scope) {
            return Err(format!(
                "oauth.scopes must have at most {MAX_SCOPES} scopes of visible ASCII without spaces, quotes and \
                backslashes"
            ));
        }
        match &self.token_url {
            Some(url) => url::check("oauth.tokenUrl", url),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_secret_is_named_and_the_rest_has_its_shape() {
        let good = OAuth {
            per_user: false,
            client_id: "rejoin".to_owned(),
            client_secret: "${SECRET}".to_owned(),
            scopes: vec!["mcp:tools".to_owned()],
            token_url: Some("https://login.example/token".to_owned()),
        };
        assert_eq!(good.check(), Ok(()));
        let secret = |secret: &str| OAuth {
            client_secret: secret.to_owned(),
            ..good.clone()
        };
        assert!(secret("s3cret").check().unwrap_err().contains("refer to it as"));
        assert!(secret("").check().is_err());
        for (wrong, words) in [
            (
                OAuth {
                    client_id: "a\nb".to_owned(),
                    ..good.clone()
                },
                "oauth.clientId",
            ),
            (
                OAuth {
                    scopes: vec!["two scopes".to_owned()],
                    ..good.clone()
                },
                "oauth.scopes",
            ),
            (
                OAuth {
                    token_url: Some("ftp://login.example/".to_owned()),
                    ..good.clone()
                },
                "oauth.tokenUrl",
            ),
            (
                OAuth {
                    token_url: Some("https://a:b@login.example/".to_owned()),
                    ..good.clone()
                },
                "oauth.tokenUrl",
            ),
        ] {
            assert!(wrong.check().unwrap_err().contains(words), "{words}");
        }
    }

    #[test]
    fn accounts_of_users_need_no_client() {
        let blank = || OAuth {
            per_user: true,
            client_id: String::new(),
            client_secret: String::new(),
            scopes: Vec::new(),
            token_url: None,
        };
        assert_eq!(blank().check(), Ok(()));
        assert_eq!(
            serde_json::to_value(blank()).unwrap(),
            serde_json::json!({"perUser": true})
        );
        for (wrong, words) in [
            (
                OAuth {
                    client_secret: "${SECRET}".to_owned(),
                    ..blank()
                },
                "requires oauth.clientId",
            ),
            (
                OAuth {
                    client_id: "rejoin".to_owned(),
                    client_secret: "s3cret".to_owned(),
                    ..blank()
                },
                "refer to it as",
            ),
            (
                OAuth {
                    token_url: Some("https://login.example/token".to_owned()),
                    ..blank()
                },
                "oauth.tokenUrl",
            ),
            (
                OAuth {
                    per_user: false,
                    ..blank()
                },
                "oauth.clientId",
            ),
        ] {
            assert!(wrong.check().unwrap_err().contains(words), "{words}");
        }
    }
}
