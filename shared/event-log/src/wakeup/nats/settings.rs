//! The checked settings of the bus `nats`, and the check of `rejoin doctor`.

use std::error::Error;
use std::path::PathBuf;

use async_nats::{ConnectOptions, ServerAddr};
use futures::StreamExt;
use rejoin_db::config::{NatsArgs, Secret};
use rejoin_types::ids;

/// The name of the client in the server's lists.
const CLIENT: &str = "rejoin";
/// Prefix of probes; other processes ignore them.
pub(super) const PROBE: &str = "probe:";

/// The reason why the bus cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum BusError {
    #[error(
        "REJOIN_BUS=nats needs the URL of a NATS server: set REJOIN_NATS_URL, for example to nats://127.0.0.1:4222"
    )]
    NoServer,
    #[error(
        "REJOIN_NATS_URL is invalid: use nats://HOST:4222, or tls://HOST:4222 for TLS; separate several servers by commas"
    )]
    Server(#[source] Option<std::io::Error>),
    #[error(
        "REJOIN_NATS_SUBJECT is invalid: use letters, digits, `-` and `_`, in words separated by dots, for example rejoin.staging"
    )]
    Subject,
    #[error("REJOIN_NATS_CREDENTIALS: the credentials file {} cannot be used; it must contain a user's JWT and seed", .0.display())]
    Credentials(PathBuf, #[source] std::io::Error),
    #[error("starting the NATS client failed")]
    Client(#[source] Box<dyn Error + Send + Sync>),
}

impl BusError {
    pub(super) fn client(error: impl Error + Send + Sync + 'static) -> Self {
        Self::Client(Box::new(error))
    }
}

/// Why hints would not arrive.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    #[error(transparent)]
    Settings(#[from] BusError),
    #[error("connecting to {addresses} failed")]
    Connect {
        addresses: String,
        #[source]
        source: async_nats::ConnectError,
    },
    #[error("the connection to {addresses} was closed, and no message of the subject {subject} arrived")]
    Closed { addresses: String, subject: String },
}

/// The settings, checked.
pub(super) struct Settings {
    /// Without their users and passwords.
    pub(super) servers: Vec<ServerAddr>,
    /// Hosts and ports, for logs.
    pub(super) addresses: String,
    pub(super) options: ConnectOptions,
    /// Of hints.
    pub(super) subject: String,
}

impl Settings {
    pub(super) fn of(args: &NatsArgs) -> Result<Self, BusError> {
        let urls = args.nats_url.as_ref().map(Secret::expose).unwrap_or_default();
        let mut options = ConnectOptions::new().name(CLIENT);
        let mut servers = Vec::new();
        for url in urls.split(',').map(str::trim).filter(|url| !url.is_empty()) {
            let server: ServerAddr = url.parse().map_err(|error| BusError::Server(Some(error)))?;
            let mut url = server.into_inner();
            if !matches!(url.scheme(), "nats" | "tls") || url.host_str().is_none_or(str::is_empty) {
                return Err(BusError::Server(None));
            }
            // Also for servers of the cluster that the first one names.
            if url.scheme() == "tls" {
                options = options.require_tls(true);
            }
            let user = decoded(url.username());
            options = match url.password().map(decoded) {
                Some(password) => options.user_and_password(user, password),
                None if user.is_empty() => options,
                None => options.token(user),
            };
            // The library logs URLs. Both calls succeed, since the URL has a host.
            let _ = (url.set_username(""), url.set_password(None));
            servers.push(ServerAddr::from_url(url).map_err(|error| BusError::Server(Some(error)))?);
        }
        if servers.is_empty() {
            return Err(BusError::NoServer);
        }
        if let Some(token) = &args.nats_token {
            options = options.token(token.expose().to_owned());
        }
        if let Some(path) = &args.nats_credentials {
            let failed = |error| BusError::Credentials(path.clone(), error);
            let text = std::fs::read_to_string(path).map_err(failed)?;
            options = options.credentials(&text).map_err(failed)?;
        }
        let prefix = &args.nats_subject;
        if !prefix.split('.').all(is_word) {
            return Err(BusError::Subject);
        }
        let addresses: Vec<String> = servers
            .iter()
            .map(|server| format!("{}:{}", server.host(), server.port()))
            .collect();
        Ok(Self {
            servers,
            addresses: addresses.join(", "),
            options,
            subject: format!("{prefix}.hints"),
        })
    }
}

fn is_word(word: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    !word.is_empty() && word.bytes().all(is_plain)
}

/// Decodes `%40` and the like (RFC 3986, section 2.1).
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let digits = after.get(..2).filter(|_| *first == b'%');
        let code = digits
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(code.unwrap_or(*first));
        rest = if code.is_some() { &after[2..] } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Connects once, sends a message to the hints' subject, and waits until it arrives. Returns the servers' addresses. The caller limits the
/// time: without the right to publish or to subscribe, the message never arrives.
///
/// # Errors
/// The settings are invalid, or the servers cannot be reached.
pub async fn check(args: &NatsArgs) -> Result<String, CheckError> {
    let Settings {
        servers,
        addresses,
        options,
        subject,
    } = Settings::of(args)?;
    let client = match options.connect(servers).await {
        Ok(client) => client,
        Err(source) => return Err(CheckError::Connect { addresses, source }),
    };
    let mut messages = client.subscribe(subject.clone()).await.map_err(BusError::client)?;
    let probe = format!("{PROBE}{}", ids::new());
    client
        .publish(subject.clone(), probe.clone().into())
        .await
        .map_err(BusError::client)?;
    while let Some(message) = messages.next().await {
        if message.payload == probe.as_bytes() {
            return Ok(addresses);
        }
    }
    Err(CheckError::Closed { addresses, subject })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(url: &str) -> NatsArgs {
        NatsArgs {
            nats_url: Some(Secret::new(url)),
            ..NatsArgs::default()
        }
    }

    #[test]
    fn servers_are_shown_without_their_passwords() {
        let several = "nats://user:p%40ss@one:4223, tls://two,three";
        let settings = Settings::of(&args(several)).expect("valid settings");
        assert_eq!(settings.addresses, "one:4223, two:4222, three:4222");
        assert_eq!(settings.subject, "rejoin.hints");
        let urls: Vec<&str> = settings.servers.iter().map(ServerAddr::as_url_str).collect();
        assert_eq!(urls, ["nats://one:4223", "tls://two", "nats://three"]);
    }

    #[test]
    fn wrong_settings_name_their_variable() {
        let error = |args: &NatsArgs| {
            Settings::of(args)
                .err()
                .map(|error| error.to_string())
                .unwrap_or_default()
        };
        for absent in ["", " , "] {
            assert!(error(&args(absent)).contains("set REJOIN_NATS_URL"));
        }
        for wrong in ["http://host", "ws://host", "nats://", "nats://host:port"] {
            assert!(error(&args(wrong)).contains("REJOIN_NATS_URL is invalid"), "{wrong}");
        }
        for wrong in ["", "a..b", "a b", "a.>", "*"] {
            let args = NatsArgs {
                nats_subject: wrong.to_owned(),
                ..args("nats://host")
            };
            assert!(error(&args).contains("REJOIN_NATS_SUBJECT"), "{wrong}");
        }
        let args = NatsArgs {
            nats_credentials: Some(PathBuf::from("no-such-file")),
            ..args("nats://host")
        };
        assert!(error(&args).contains("no-such-file"));
    }

    #[test]
    fn percent_signs_are_decoded() {
        assert_eq!(decoded("p%40ss%2Cw%C3%B6rd"), "p@ss,wörd");
        assert_eq!(decoded("100%"), "100%");
        assert_eq!(decoded("%zz+"), "%zz+");
    }
}
