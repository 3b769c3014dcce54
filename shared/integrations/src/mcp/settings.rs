//! The settings of a workspace's MCP server and their validation. Called by the API's routes and manifests.

use serde::Serialize;
use serde_json::{Map, Value};

use super::oauth::OAuth;
use super::{template, url};

/// Maximum number of variables of a process, or headers of a request.
const MAX_VALUES: usize = 50;
/// Maximum length of a URL, or of a variable's or header's template, in bytes.
const VALUE_MAX_BYTES: usize = 4 * 1024;
/// Maximum number of tool name patterns.
const MAX_PATTERNS: usize = 200;
/// Maximum timeout of a call, in seconds.
const MAX_TIMEOUT_S: i32 = 3_600;

rejoin_types::text_enum! {
    /// The transport to a server.
    pub enum Transport {
        /// A child process of the worker, over its standard input and output.
        Stdio = "stdio",
        /// Streamable HTTP.
        Http = "http",
    }
}

rejoin_types::text_enum! {
    /// Determines when a server's tools are approved.
    #[derive(Default)]
    pub enum Approval {
        /// Tools of the first listing: the admin who adds the server trusts it as it is.
        #[default]
        First = "first",
        /// No tool, until approved explicitly.
        Each = "each",
    }
}

/// The settings of a server.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Settings {
    pub name: String,
    pub transport: Transport,
    /// stdio: the name of an operator's command.
    pub command: Option<String>,
    /// stdio: variables of the process; values may refer to secrets.
    pub env: Map<String, Value>,
    /// http: may refer to secrets.
    pub url: Option<String>,
    /// http: values may refer to secrets.
    pub headers: Map<String, Value>,
    /// http: how to obtain a token for each request.
    pub oauth: Option<OAuth>,
    pub enabled: bool,
    /// Globs over the server's own tool names.
    pub tools: Vec<String>,
    /// Timeout of a call, in seconds.
    pub timeout_s: Option<i32>,
    pub approval: Approval,
    pub trust_hints: bool,
}

impl Settings {
    /// A server of this name with default settings.
    pub fn new(name: impl Into<String>, transport: Transport) -> Self {
        Self {
            name: name.into(),
            transport,
            command: None,
            env: Map::new(),
            url: None,
            headers: Map::new(),
            oauth: None,
            enabled: true,
            tools: vec!["*".to_owned()],
            timeout_s: None,
            approval: Approval::First,
            trust_hints: false,
        }
    }

    /// Validates it. The error is a message for the author.
    pub fn check(&self) -> Result<(), String> {
        check_name(&self.name)?;
        match self.transport {
            Transport::Stdio if self.command.as_deref().unwrap_or_default().is_empty() => {
                return Err(
                    "a stdio server requires `command`: the name of a command in the operator's configuration"
                        .to_owned(),
                );
            }
            Transport::Stdio if self.url.is_some() || !self.headers.is_empty() || self.oauth.is_some() => {
                return Err("`url`, `headers` and `oauth` are only for http servers".to_owned());
            }
            Transport::Http if self.url.is_none() => return Err("an http server requires `url`".to_owned()),
            Transport::Http if self.command.is_some() || !self.env.is_empty() => {
                return Err("`command` and `env` are only for stdio servers".to_owned());
            }
            Transport::Stdio | Transport::Http => {}
        }
        if let Some(url) = &self.url {
            url::check("url", url)?;
        }
        for (what, values) in [("env", &self.env), ("headers", &self.headers)] {
            if values.len() > MAX_VALUES {
                return Err(format!("`{what}` has more than {MAX_VALUES} entries"));
            }
            for (name, value) in values {
                let Value::String(text) = value else {
                    return Err(format!("{what}.{name} is not text"));
                };
                if name.is_empty() || name.len() > 128 || text.len() > VALUE_MAX_BYTES {
                    return Err(format!(
                        "{what}.{name} is longer than {VALUE_MAX_BYTES} bytes, or has no name"
                    ));
                }
                if text.contains(['\0', '\n', '\r']) {
                    return Err(format!("{what}.{name} contains a line break or a NUL character"));
                }
                let named = template::names(text).map_err(|fault| format!("{what}.{name}: {fault}"))?;
                if is_credential(name) && !text.is_empty() && named.is_empty() {
                    return Err(format!(
                        "{what}.{name} looks like a credential; store it as a secret of the project, and refer to it \
                        as ${{NAME}}"
                    ));
                }
            }
        }
        if let Some(oauth) = &self.oauth {
            oauth.check()?;
            if self
                .headers
                .keys()
                .any(|name| name.eq_ignore_ascii_case("authorization"))
            {
                return Err("`oauth` sets the header Authorization; remove it from `headers`".to_owned());
            }
        }
        if self.tools.len() > MAX_PATTERNS {
            return Err(format!("`tools` has more than {MAX_PATTERNS} patterns"));
        }
        for pattern in &self.tools {
            globset::Glob::new(pattern).map_err(|error| format!("tools: {error}"))?;
        }
        if let Some(seconds) = self.timeout_s
            && !(1..=MAX_TIMEOUT_S).contains(&seconds)
        {
            return Err(format!("`timeoutS` must be 1 to {MAX_TIMEOUT_S}"));
        }
        Ok(())
    }

    /// Returns the wire names of the fields in which `other` differs.
    pub fn changed_fields(&self, other: &Self) -> Vec<&'static str> {
        // By name, so that no new field is forgotten here.
        let Self {
            name,
            transport,
            command,
            env,
            url,
            headers,
            oauth,
            enabled,
            tools,
            timeout_s,
            approval,
            trust_hints,
        } = self;
        [
            ("name", *name != other.name),
            ("transport", *transport != other.transport),
            ("command", *command != other.command),
            ("env", *env != other.env),
            ("url", *url != other.url),
            ("headers", *headers != other.headers),
            ("oauth", *oauth != other.oauth),
            ("enabled", *enabled != other.enabled),
            ("tools", *tools != other.tools),
            ("timeoutS", *timeout_s != other.timeout_s),
            ("approval", *approval != other.approval),
            ("trustHints", *trust_hints != other.trust_hints),
        ]
        .into_iter()
        .filter_map(|(field, differs)| differs.then_some(field))
        .collect()
    }

    /// Returns whether each run acts with its user's account.
    pub fn is_per_user(&self) -> bool {
        self.oauth.as_ref().is_some_and(|oauth| oauth.per_user)
    }

    /// Returns whether `other` has the same connection settings.
    pub(super) fn is_reached_like(&self, other: &Self) -> bool {
        (self.transport, &self.command, &self.env) == (other.transport, &other.command, &other.env)
            && (&self.url, &self.headers, &self.oauth) == (&other.url, &other.headers, &other.oauth)
    }
}

/// Returns whether a variable or header of this name usually holds a credential.
fn is_credential(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let words = [
        "authorization",
        "cookie",
        "token",
        "secret",
        "password",
        "passwd",
        "apikey",
        "api-key",
        "api_key",
        "credential",
    ];
    words.iter().any(|word| name.contains(word))
}

fn check_name(name: &str) -> Result<(), String> {
    let mut characters = name.chars();
    let begins = characters.next().is_some_and(|first| first.is_ascii_lowercase());
    let goes_on = characters.all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
    if begins && goes_on && name.len() <= 32 {
        Ok(())
    } else {
        Err(
            "`name` must be a lowercase letter followed by lowercase letters, digits and `-`, at most 32 characters: \
            tools are named name_tool"
                .to_owned(),
        )
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn http(url: &str) -> Settings {
        Settings {
            url: Some(url.to_owned()),
            ..Settings::new("files", Transport::Http)
        }
    }

    #[test]
    fn a_server_is_named_so_that_its_tools_can_be() {
        for name in ["", "Files", "my_files", "1st", "a b", &"a".repeat(33)] {
            assert!(
                Settings {
                    name: name.to_owned(),
                    ..http("http://x/mcp")
                }
                .check()
                .is_err(),
                "{name}"
            );
        }
        assert_eq!(http("https://x.example/mcp").check(), Ok(()));
    }

    #[test]
    fn a_url_is_http_and_holds_no_password() {
        for url in [
            "ftp://x/",
            "file:///etc/passwd",
            "x",
            "http://",
            "https://u:p@x/",
            "https://x/${",
            "https://x/${1}",
        ] {
            assert!(http(url).check().is_err(), "{url}");
        }
        assert_eq!(http("https://${HOST}:8443/mcp?key=${KEY}").check(), Ok(()));
    }

    #[test]
    fn a_credential_is_named_and_never_there() {
        let with = |value: &str| {
            let headers = json!({"Authorization": value, "Accept-Language": "en"});
            Settings {
                headers: headers.as_object().unwrap().clone(),
                ..http("http://x/")
            }
            .check()
        };
        assert!(with("Bearer abc").unwrap_err().contains("secret"));
        assert_eq!(with("Bearer ${TOKEN}"), Ok(()));
    }

    #[test]
    fn a_token_and_a_header_of_the_same_name_do_not_go_together() {
        let oauth = OAuth {
            per_user: false,
            client_id: "rejoin".to_owned(),
            client_secret: "${SECRET}".to_owned(),
            scopes: Vec::new(),
            token_url: None,
        };
        let with = |headers: Value| Settings {
            headers: headers.as_object().unwrap().clone(),
            oauth: Some(oauth.clone()),
            ..http("http://x/")
        };
        assert_eq!(with(json!({"Accept-Language": "en"})).check(), Ok(()));
        assert!(with(json!({"authorization": "Bearer ${T}"})).check().is_err());
        let another = Settings {
            oauth: None,
            ..with(json!({}))
        };
        assert!(!another.is_reached_like(&with(json!({}))));
        let stdio = Settings {
            command: Some("memory".to_owned()),
            oauth: Some(oauth),
            ..Settings::new("memory", Transport::Stdio)
        };
        assert!(stdio.check().unwrap_err().contains("oauth"));
    }

    #[test]
    fn each_transport_takes_its_own_settings_only() {
        let stdio = Settings {
            command: Some("memory".to_owned()),
            ..Settings::new("memory", Transport::Stdio)
        };
        assert_eq!(stdio.check(), Ok(()));
        assert!(
            Settings {
                command: None,
                ..stdio.clone()
            }
            .check()
            .is_err()
        );
        assert!(
            Settings {
                url: Some("http://x/".to_owned()),
                ..stdio.clone()
            }
            .check()
            .is_err()
        );
        let env = json!({"TOKEN": "${TOKEN}"}).as_object().unwrap().clone();
        assert_eq!(
            Settings {
                env: env.clone(),
                ..stdio
            }
            .check(),
            Ok(())
        );
        assert!(
            Settings {
                env,
                ..http("http://x/")
            }
            .check()
            .is_err()
        );
    }
}
