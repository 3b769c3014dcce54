//! The URL of a database, as libpq reads it: several servers, and parameters that only one of the two drivers knows.
//!
//! Each driver gets a URL with one server and the parameters that it knows; the rest is as the operator wrote it. `servers` and `tls` read
//! the other parameters.

/// Parameters that this crate reads: no driver gets them.
const OURS: [&str; 18] = [
    "host",
    "port",
    "sslmode",
    "ssl-mode",
    "sslrootcert",
    "ssl-root-cert",
    "ssl-ca",
    "sslcert",
    "ssl-cert",
    "sslkey",
    "ssl-key",
    "target_session_attrs",
    "load_balance_hosts",
    "connect_timeout",
    "sslnegotiation",
    "requiressl",
    "sslpassword",
    "passfile",
];
/// Those of [`OURS`] that are refused, and what to do instead.
const REFUSED: [(&str, &str); 4] = [
    ("sslnegotiation", "leave it out: TLS is negotiated as PostgreSQL does"),
    ("requiressl", "use sslmode=require"),
    (
        "sslpassword",
        "store the key without a password, readable by this user only",
    ),
    (
        "passfile",
        "set REJOIN_DB_PASSWORD_FILE to a file that contains only the password",
    ),
];
/// Parameters known to sqlx only.
const SQLX_ONLY: [&str; 1] = ["statement-cache-capacity"];
/// Parameters known to tokio-postgres only.
const TOKIO_POSTGRES_ONLY: [&str; 6] = [
    "keepalives",
    "keepalives_idle",
    "keepalives_interval",
    "keepalives_retries",
    "tcp_user_timeout",
    "channel_binding",
];
/// The port of PostgreSQL.
const DEFAULT_PORT: u16 = 5432;

/// The URL can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct UrlError(pub(crate) String);

/// A server's address, as in the URL: a name, an address, or the percent-encoded directory of a Unix socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Server {
    host: String,
    port: Option<u16>,
}

impl Server {
    /// Whether it is reached by a Unix socket.
    pub(crate) fn is_socket(&self) -> bool {
        decoded(&self.host).is_ok_and(|host| host.starts_with('/'))
    }
}

impl std::fmt::Display for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let host = decoded(&self.host).unwrap_or_else(|_| self.host.clone());
        match self.port {
            Some(port) => write!(f, "{host}:{port}"),
            None if self.is_socket() || host.is_empty() => f.write_str(&host),
            None => write!(f, "{host}:{DEFAULT_PORT}"),
        }
    }
}

/// A parsed URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServerUrl {
    /// User and password, with the `@`.
    credentials: String,
    servers: Vec<Server>,
    /// The database, with its `/`.
    path: String,
    /// Decoded name, and `name=value` as written.
    parameters: Vec<(String, String)>,
}

impl ServerUrl {
    pub(crate) fn parse(text: &str) -> Result<Self, UrlError> {
        let scheme = ["postgres://", "postgresql://"]
            .into_iter()
            .find_map(|scheme| text.strip_prefix(scheme));
        let rest = scheme.ok_or_else(|| UrlError("it does not begin with postgres:// or postgresql://".to_owned()))?;
        let (authority, rest) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        let (path, query) = rest.split_at(rest.find('?').unwrap_or(rest.len()));
        let (credentials, hosts) = authority.split_at(authority.rfind('@').map_or(0, |at| at + 1));
        let mut parameters = Vec::new();
        for pair in query.trim_start_matches('?').split('&').filter(|pair| !pair.is_empty()) {
            let name = pair.split('=').next().unwrap_or_default();
            parameters.push((decoded(name)?, pair.to_owned()));
        }
        let mut url = Self {
            credentials: credentials.to_owned(),
            servers: Vec::new(),
            path: path.to_owned(),
            parameters,
        };
        for (name, instead) in REFUSED {
            if url.parameter(&[name])?.is_some() {
                return Err(UrlError(format!("{name} is not supported: {instead}")));
            }
        }
        url.servers = url.read_servers(hosts)?;
        Ok(url)
    }

    /// The servers, in the order of the URL. A URL without any has one with an empty name: the driver's default.
    pub(crate) fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// Whether it contains a password.
    pub(crate) fn has_password(&self) -> bool {
        self.credentials.contains(':') || self.parameters.iter().any(|(name, _)| name == "password")
    }

    /// Returns the decoded value of the first parameter with one of these names.
    pub(crate) fn parameter(&self, names: &[&str]) -> Result<Option<String>, UrlError> {
        let found = self.parameters.iter().find(|(name, _)| names.contains(&name.as_str()));
        let value = found.map(|(_, pair)| decoded(pair.split_once('=').map_or("", |(_, value)| value)));
        value.transpose()
    }

    /// The URL of one server for sqlx.
    pub(crate) fn for_sqlx(&self, server: &Server) -> String {
        self.of(server, &TOKIO_POSTGRES_ONLY)
    }

    /// The URL of one server for tokio-postgres.
    pub(crate) fn for_tokio_postgres(&self, server: &Server) -> String {
        self.of(server, &SQLX_ONLY)
    }

    fn of(&self, server: &Server, unknown: &[&str]) -> String {
        let mut url = format!("postgres://{}{}", self.credentials, server.host);
        if let Some(port) = server.port {
            url.push_str(&format!(":{port}"));
        }
        url.push_str(&self.path);
        let known = self
            .parameters
            .iter()
            .filter(|(name, _)| !OURS.contains(&name.as_str()) && !unknown.contains(&name.as_str()));
        for (index, (_, pair)) in known.enumerate() {
            url.push(if index == 0 { '?' } else { '&' });
            url.push_str(pair);
        }
        url
    }

    /// The servers of the authority, or of the parameters `host` and `port`, which take precedence.
    fn read_servers(&self, authority: &str) -> Result<Vec<Server>, UrlError> {
        let mut servers = Vec::new();
        match self.parameter(&["host"])? {
            Some(hosts) => servers.extend(hosts.split(',').map(|host| Server {
                host: encoded(host),
                port: None,
            })),
            None => {
                for text in authority.split(',') {
                    servers.push(server(text)?);
                }
            }
        }
        if let Some(ports) = self.parameter(&["port"])? {
            let ports: Vec<&str> = ports.split(',').collect();
            if ports.len() != 1 && ports.len() != servers.len() {
                return Err(UrlError(format!(
                    "it names {} servers and {} ports",
                    servers.len(),
                    ports.len()
                )));
            }
            for (index, server) in servers.iter_mut().enumerate() {
                server.port = port(ports.get(index).unwrap_or(&ports[0]))?;
            }
        }
        if servers.len() > 1 && servers.iter().any(|server| server.host.is_empty()) {
            return Err(UrlError("one of its servers has an empty name".to_owned()));
        }
        if servers.len() > 1 && self.parameter(&["hostaddr"])?.is_some() {
            return Err(UrlError(
                "hostaddr is for one server: name the addresses as servers".to_owned(),
            ));
        }
        Ok(servers)
    }
}

/// Parses `name`, `name:port`, `[address]` or `[address]:port`.
fn server(text: &str) -> Result<Server, UrlError> {
    let after_address = text.rfind(']').map_or(0, |at| at + 1);
    let (host, number) = match text[after_address..].find(':') {
        Some(at) => (&text[..after_address + at], &text[after_address + at + 1..]),
        None => (text, ""),
    };
    decoded(host)?;
    Ok(Server {
        host: host.to_owned(),
        port: port(number)?,
    })
}

/// None: the default.
fn port(text: &str) -> Result<Option<u16>, UrlError> {
    if text.is_empty() {
        return Ok(None);
    }
    match text.parse() {
        Ok(port) if port > 0 => Ok(Some(port)),
        Ok(_) | Err(_) => Err(UrlError(format!("{text:?} is not a port"))),
    }
}

/// Decodes `%XX`.
fn decoded(text: &str) -> Result<String, UrlError> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        let code = after.get(..2).and_then(|code| std::str::from_utf8(code).ok());
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
            Some(decoded) if *byte == b'%' => {
                bytes.push(decoded);
                rest = &after[2..];
            }
            Some(_) | None => {
                bytes.push(*byte);
                rest = after;
            }
        }
    }
    String::from_utf8(bytes)
        .map_err(|_| UrlError("it contains a percent-encoded character that is not UTF-8".to_owned()))
}

/// Returns a host as it is written in a URL.
fn encoded(host: &str) -> String {
    if host.contains(':') && !host.starts_with(['[', '/']) {
        return format!("[{host}]");
    }
    host.bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'-' | b'_' | b'[' | b']' | b':' => {
                char::from(byte).to_string()
            }
            other => format!("%{other:02X}"),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(text: &str) -> Vec<String> {
        let url = ServerUrl::parse(text).unwrap();
        url.servers().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn several_servers_are_read_as_libpq_reads_them() {
        assert_eq!(named("postgres://u:p@h1:5433,h2/db"), ["h1:5433", "h2:5432"]);
        assert_eq!(
            named("postgresql://[::1]:6000,[fe80::2]/db"),
            ["[::1]:6000", "[fe80::2]:5432"]
        );
        assert_eq!(
            named("postgres://u@%2Frun%2Fa,%2Frun%2Fb:6000/db"),
            ["/run/a", "/run/b:6000"]
        );
        assert_eq!(named("postgres:///db?host=/run/a,h2&port=1,2"), ["/run/a:1", "h2:2"]);
        assert_eq!(named("postgres://h/db?host=h1,h2&port=6000"), ["h1:6000", "h2:6000"]);
        assert_eq!(named("postgres:///db"), [""]);
    }

    #[test]
    fn each_driver_gets_one_server_and_the_parameters_it_knows() {
        let text = "postgres://u:p%40@h1:1,h2:2/db?sslmode=verify-full&sslrootcert=%2Fca.pem&keepalives=0&application_name=x\
            &statement-cache-capacity=5&target_session_attrs=any";
        let url = ServerUrl::parse(text).unwrap();
        let second = &url.servers()[1];
        assert_eq!(
            url.for_sqlx(second),
            "postgres://u:p%40@h2:2/db?application_name=x&statement-cache-capacity=5"
        );
        assert_eq!(
            url.for_tokio_postgres(second),
            "postgres://u:p%40@h2:2/db?keepalives=0&application_name=x"
        );
        assert_eq!(url.parameter(&["sslrootcert"]), Ok(Some("/ca.pem".to_owned())));
        assert_eq!(url.parameter(&["sslcert"]), Ok(None));
        assert!(url.has_password());
        assert!(!ServerUrl::parse("postgres://u@h/db").unwrap().has_password());
    }

    #[test]
    fn an_ordinary_url_stays_as_it_is() {
        for text in [
            "postgres://rejoin@%2Ftmp%2Frejoin/rejoin",
            "postgres://u:a@b@h:5432/db?application_name=x",
            "postgres://h",
            "postgres:///db",
            "postgres://[::1]:1/db",
        ] {
            let url = ServerUrl::parse(text).unwrap();
            let [server] = url.servers() else { panic!("{text}") };
            assert_eq!(url.for_sqlx(server), text);
            assert_eq!(url.for_tokio_postgres(server), text);
        }
        // A socket in a parameter becomes the host.
        let url = ServerUrl::parse("postgres://u@/db?host=/run/pg").unwrap();
        assert_eq!(url.for_sqlx(&url.servers()[0]), "postgres://u@%2Frun%2Fpg/db");
        assert!(url.servers()[0].is_socket());
    }

    #[test]
    fn a_url_that_can_not_be_used_says_why() {
        let refused = |text: &str| ServerUrl::parse(text).unwrap_err().0;
        assert!(refused("host=h user=u").contains("postgres://"));
        assert!(refused("postgres://h:x/db").contains("not a port"));
        assert!(refused("postgres://h1,,h2/db").contains("empty name"));
        assert!(refused("postgres://h1,h2/db?port=1,2,3").contains("2 servers and 3 ports"));
        assert!(refused("postgres://h/db?passfile=/x").contains("REJOIN_DB_PASSWORD_FILE"));
        assert!(refused("postgres://h1,h2/db?hostaddr=10.0.0.1").contains("one server"));
    }
}
