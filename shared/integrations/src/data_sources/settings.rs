//! The settings of a data source and their validation. Called by the API's routes and the command line.
//!
//! Invariant: no setting holds a password or key: those are the source's secret.

use serde::{Deserialize, Serialize};
use url::Url;

/// Maximum length of a host, name or path, in bytes.
const VALUE_MAX_BYTES: usize = 1_024;
/// Maximum length of a source's name, in characters.
pub const NAME_MAX_CHARS: usize = 64;
/// Maximum values of a source's limits; the operator's settings limit them further.
const MAX_TIMEOUT_MS: u64 = 600_000;

rejoin_types::text_enum! {
    /// The kind of a database.
    pub enum Kind {
        Postgresql = "postgresql",
        /// MySQL, and MariaDB.
        Mysql = "mysql",
        Sqlite = "sqlite",
        Duckdb = "duckdb",
        Mongodb = "mongodb",
        Bigquery = "bigquery",
    }
}

impl Kind {
    /// Returns whether its query language is SQL.
    pub fn is_sql(self) -> bool {
        match self {
            Kind::Postgresql | Kind::Mysql | Kind::Sqlite | Kind::Duckdb | Kind::Bigquery => true,
            Kind::Mongodb => false,
        }
    }

    /// Returns whether it is a file in a folder allowed by the operator.
    pub fn is_file(self) -> bool {
        match self {
            Kind::Sqlite | Kind::Duckdb => true,
            Kind::Postgresql | Kind::Mysql | Kind::Mongodb | Kind::Bigquery => false,
        }
    }

    fn default_port(self) -> u16 {
        match self {
            Kind::Postgresql => 5432,
            Kind::Mysql => 3306,
            Kind::Mongodb => 27017,
            Kind::Bigquery => 443,
            Kind::Sqlite | Kind::Duckdb => 0,
        }
    }
}

/// The connection settings of a source. [`Settings::check`] defines which of them a kind uses.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Settings {
    /// postgresql, mysql, mongodb: a name or an address. For the first two also a socket's path, if the operator allows
    /// it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Default: the kind's usual port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// The default database of queries; for bigquery a dataset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub database: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// postgresql, mysql, mongodb: whether the connection is encrypted, with verification of the server's certificate.
    /// Default: yes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<bool>,
    /// mongodb: resolves `host` like `mongodb+srv://`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub srv: Option<bool>,
    /// mongodb: the user's authentication database.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auth_source: Option<String>,
    /// mongodb: whether a read-only source may be queried as a user with write privileges. Default: no.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accepts_writer: Option<bool>,
    /// sqlite, duckdb: the file, in a folder that the operator allows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// bigquery: the cloud project that is billed for queries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cloud_project: Option<String>,
    /// bigquery: the location of its data, such as `EU`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub location: Option<String>,
    /// bigquery: its API's address, if it is not the public one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
}

impl Settings {
    pub fn port_of(&self, kind: Kind) -> u16 {
        self.port.unwrap_or_else(|| kind.default_port())
    }

    pub fn uses_tls(&self) -> bool {
        self.tls.unwrap_or(true)
    }

    /// Validates it. The error is a message for the author.
    pub fn check(&self, kind: Kind) -> Result<(), String> {
        let is_server = matches!(kind, Kind::Postgresql | Kind::Mysql | Kind::Mongodb);
        let is = |only: Kind| kind == only;
        for (name, given, allowed, needed) in [
            ("host", self.host.is_some(), is_server, is_server),
            ("port", self.port.is_some(), is_server, false),
            (
                "database",
                self.database.is_some(),
                !kind.is_file(),
                is(Kind::Postgresql),
            ),
            ("user", self.user.is_some(), is_server, is_server && !is(Kind::Mongodb)),
            ("tls", self.tls.is_some(), is_server, false),
            ("srv", self.srv.is_some(), is(Kind::Mongodb), false),
            ("authSource", self.auth_source.is_some(), is(Kind::Mongodb), false),
            ("acceptsWriter", self.accepts_writer.is_some(), is(Kind::Mongodb), false),
            ("path", self.path.is_some(), kind.is_file(), kind.is_file()),
            (
                "cloudProject",
                self.cloud_project.is_some(),
                is(Kind::Bigquery),
                is(Kind::Bigquery),
            ),
            ("location", self.location.is_some(), is(Kind::Bigquery), false),
            ("endpoint", self.endpoint.is_some(), is(Kind::Bigquery), false),
        ] {
            if given && !allowed {
                return Err(format!("a {} source does not use `{name}`; remove it", kind.as_str()));
            }
            if needed && !given {
                return Err(format!("a {} source requires `{name}`", kind.as_str()));
            }
        }
        let texts = [
            ("host", &self.host),
            ("database", &self.database),
            ("user", &self.user),
            ("authSource", &self.auth_source),
            ("path", &self.path),
            ("cloudProject", &self.cloud_project),
            ("location", &self.location),
            ("endpoint", &self.endpoint),
        ];
        for (name, text) in texts
            .into_iter()
            .filter_map(|(name, text)| Some((name, text.as_ref()?)))
        {
            if text.trim().is_empty() || text.len() > VALUE_MAX_BYTES || text.contains(char::is_control) {
                return Err(format!(
                    "`{name}` must have 1 to {VALUE_MAX_BYTES} bytes and no control characters"
                ));
            }
        }
        if let Some(host) = &self.host
            // A path is a folder of sockets, which the operator must allow.
            && !(host.starts_with('/') && matches!(kind, Kind::Postgresql | Kind::Mysql))
            && host.contains(['/', '@', '?', ',', ' '])
        {
            return Err(
                "`host` must be only a name or an address; port, user and database have their own fields".to_owned(),
            );
        }
        for (name, text) in [("cloudProject", &self.cloud_project), ("location", &self.location)] {
            let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':');
            if text.as_ref().is_some_and(|text| !text.chars().all(plain)) {
                return Err(format!(
                    "`{name}` may contain only letters, digits, `-`, `_`, `.` and `:`"
                ));
            }
        }
        if let Some(endpoint) = &self.endpoint {
            let url = Url::parse(endpoint).map_err(|error| format!("`endpoint` is not a URL: {error}"))?;
            if !matches!(url.scheme(), "http" | "https") || !url.username().is_empty() || url.password().is_some() {
                return Err("`endpoint` must be an http or https URL without user and password".to_owned());
            }
        }
        Ok(())
    }
}

/// Limits of one query. Absent values: the operator's defaults.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Limits {
    /// Timeout of a query, also on the server, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Maximum number of rows in a result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_rows: Option<u32>,
    /// Maximum size of a result's values, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_bytes: Option<u64>,
    /// bigquery: maximum bytes billed for a query.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_bytes_billed: Option<u64>,
}

impl Limits {
    /// Validates it. The error is a message for the author.
    pub fn check(&self) -> Result<(), String> {
        let numbers = [
            ("timeoutMs", self.timeout_ms),
            ("maxRows", self.max_rows.map(u64::from)),
            ("maxBytes", self.max_bytes),
            ("maxBytesBilled", self.max_bytes_billed),
        ];
        if let Some((name, _)) = numbers.iter().find(|(_, number)| *number == Some(0)) {
            return Err(format!("`{name}` must be at least 1"));
        }
        if self.timeout_ms.is_some_and(|timeout| timeout > MAX_TIMEOUT_MS) {
            return Err(format!("`timeoutMs` must be at most {MAX_TIMEOUT_MS}"));
        }
        Ok(())
    }
}

/// Err: the name is invalid for a source.
pub fn check_name(name: &str) -> Result<(), String> {
    let mut characters = name.chars();
    let begins = characters.next().is_some_and(|first| first.is_ascii_alphanumeric());
    let goes_on = characters.all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'));
    if begins && goes_on && name.len() <= NAME_MAX_CHARS {
        Ok(())
    } else {
        Err(format!(
            "`name` must start with a letter or a digit and may contain letters, digits, `_`, `-` and `.`; at most \
            {NAME_MAX_CHARS} characters"
        ))
    }
}

/// Parses a URL such as `postgres://user:password@host/database` into kind, settings and password.
///
/// # Errors
/// What is wrong with it, without the password.
pub fn from_url(text: &str) -> Result<(Kind, Settings, Option<String>), String> {
    let url = Url::parse(text).map_err(|error| format!("the URL is invalid: {error}"))?;
    let kind = match url.scheme() {
        "postgres" | "postgresql" => Kind::Postgresql,
        "mysql" | "mariadb" => Kind::Mysql,
        "mongodb" | "mongodb+srv" => Kind::Mongodb,
        "sqlite" => Kind::Sqlite,
        "duckdb" => Kind::Duckdb,
        "bigquery" => Kind::Bigquery,
        other => {
            return Err(format!(
                "`{other}://` is not a supported source; use postgres://, mysql://, mongodb://, mongodb+srv://, \
                sqlite:///path, duckdb:///path or bigquery://project/dataset"
            ));
        }
    };
    let plain = |text: &str| percent_decoded(text).filter(|text| !text.is_empty());
    let below = plain(url.path().trim_start_matches('/'));
    let host = url.host_str().filter(|host| !host.is_empty()).map(str::to_owned);
    let mut settings = match kind {
        Kind::Sqlite | Kind::Duckdb => Settings {
            path: plain(url.path()),
            ..Settings::default()
        },
        Kind::Bigquery => Settings {
            cloud_project: host,
            database: below,
            ..Settings::default()
        },
        Kind::Postgresql | Kind::Mysql | Kind::Mongodb => Settings {
            host,
            port: url.port(),
            database: below,
            user: plain(url.username()),
            srv: (url.scheme() == "mongodb+srv").then_some(true),
            ..Settings::default()
        },
    };
    for (name, value) in url.query_pairs() {
        match &*name {
            "sslmode" | "tls" | "ssl" | "ssl-mode" => {
                settings.tls = match &*value.to_ascii_lowercase() {
                    "disable" | "disabled" | "false" | "off" => Some(false),
                    "require" | "required" | "verify-full" | "verify_identity" | "true" | "on" => Some(true),
                    _ => return Err(format!("{name}={value} must be `disable` or `require`")),
                }
            }
            "authSource" => settings.auth_source = Some(value.into_owned()),
            "acceptsWriter" => settings.accepts_writer = Some(value == "true"),
            "location" => settings.location = Some(value.into_owned()),
            other => return Err(format!("the URL parameter {other} is not supported; remove it")),
        }
    }
    let password = url.password().and_then(percent_decoded);
    Ok((kind, settings, password))
}

fn percent_decoded(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let mut plain = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let hex = (bytes[at] == b'%').then(|| text.get(at + 1..at + 3)).flatten();
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) => {
                plain.push(byte);
                at += 3;
            }
            None => {
                plain.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8(plain).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_says_what_fields_say() {
        let (kind, settings, password) =
            from_url("postgres://ann:p%40ss@db.example:6000/shop?sslmode=disable").unwrap();
        assert_eq!(kind, Kind::Postgresql);
        assert_eq!(password.as_deref(), Some("p@ss"));
        assert_eq!(settings.check(kind), Ok(()));
        assert_eq!((settings.port, settings.tls), (Some(6000), Some(false)));
        let (kind, settings, _) = from_url("sqlite:///srv/data/a%20b.db").unwrap();
        assert_eq!(
            (kind, settings.path.as_deref()),
            (Kind::Sqlite, Some("/srv/data/a b.db"))
        );
        let (kind, settings, _) = from_url("mongodb+srv://u:p@cluster.example/app?authSource=admin").unwrap();
        assert_eq!((kind, settings.srv), (Kind::Mongodb, Some(true)));
        assert!(from_url("http://x/").unwrap_err().contains("is not a supported source"));
        assert!(from_url("postgres://x/y?options=-c").unwrap_err().contains("options"));
    }

    #[test]
    fn a_kind_takes_its_own_fields_only() {
        let settings = Settings {
            path: Some("/etc/passwd".to_owned()),
            ..Settings::default()
        };
        assert!(settings.check(Kind::Postgresql).is_err());
        assert_eq!(settings.check(Kind::Sqlite), Ok(()));
        assert_eq!(settings.check(Kind::Duckdb), Ok(()));
        assert!(Settings::default().check(Kind::Mysql).unwrap_err().contains("host"));
        let settings = Settings {
            host: Some("a,b".to_owned()),
            user: Some("u".to_owned()),
            ..Settings::default()
        };
        assert!(settings.check(Kind::Mysql).is_err());
    }
}
