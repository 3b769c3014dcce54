//! The servers that a URL names, and the one that is connected to as of now.
//!
//! With one server, a connection costs what it costs without this file. With several, the one that accepted the last connection is tried
//! first, then the others, each for a limited time; one that only reads is not used unless `target_session_attrs=any`. A refused login ends
//! the search, as in libpq: the other servers would refuse it, too.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::fmt::{self, Debug, Formatter};
use std::hash::BuildHasher as _;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::Duration;

use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _, PgConnection, Row as _};
use tokio::time::timeout;
use tokio_postgres::config::TargetSessionAttrs;

use crate::config::{DatabaseArgs, Secret};
use crate::errors::is_transient;
use crate::failure_log::ErrorChain;
use crate::password::{Password, PasswordError};
use crate::startup::Startup;
use crate::tls::{Tls, TlsError};
use crate::url::{ServerUrl, UrlError};

/// Timeout of connecting to one server, unless the URL's `connect_timeout` is another one.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The servers of a URL can't be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServersError {
    #[error(transparent)]
    Url(#[from] UrlError),
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error(transparent)]
    Password(#[from] PasswordError),
    /// What a driver says about its URL.
    #[error("{0}")]
    Driver(String),
}

/// Which servers are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Target {
    Any,
    Writable,
}

/// The servers of a URL; those of the same URL share what is known about them.
pub(crate) struct Servers {
    /// By driver, in the order of the URL.
    servers: Vec<Server>,
    target: Target,
    is_random: bool,
    connect_timeout: Duration,
    password: Option<Arc<Password>>,
    /// The index of the server that accepted the last connection.
    current: AtomicUsize,
}

impl Debug for Servers {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        // The drivers' options contain passwords.
        f.debug_list()
            .entries(self.servers.iter().map(|server| &server.name))
            .finish()
    }
}

struct Server {
    name: String,
    of_sqlx: PgConnectOptions,
    of_tokio_postgres: tokio_postgres::Config,
    tls: Tls,
}

/// A URL, and the settings of its password.
type Key = (String, Option<PathBuf>, Option<String>, u64);

impl Servers {
    /// The servers of a URL, with the password that the settings name.
    pub(crate) fn of(url: &str, args: &DatabaseArgs) -> Result<Arc<Self>, ServersError> {
        static ALL: LazyLock<Mutex<HashMap<Key, Arc<Servers>>>> = LazyLock::new(Mutex::default);
        let servers = Self::parse(url, args)?;
        if !servers.may_change() {
            return Ok(Arc::new(servers));
        }
        let key = (
            url.to_owned(),
            args.db_password_file.clone(),
            args.db_password_command.clone(),
            args.db_password_seconds,
        );
        let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(all.entry(key).or_insert_with(|| Arc::new(servers)).clone())
    }

    fn parse(text: &str, args: &DatabaseArgs) -> Result<Self, ServersError> {
        let url = ServerUrl::parse(text)?;
        let tls = Tls::of(&url)?;
        tls.check()?;
        let password = Password::of(args)?;
        if let Some(password) = &password
            && url.has_password()
        {
            return Err(PasswordError::AlsoInUrl(password.setting()).into());
        }
        let connect_timeout = connect_timeout(&url)?;
        let mut servers = Vec::new();
        for server in url.servers() {
            let tls = if server.is_socket() {
                tls.for_socket()
            } else {
                tls.clone()
            };
            let of_sqlx: PgConnectOptions = url
                .for_sqlx(server)
                .parse()
                .map_err(|error: sqlx::Error| ServersError::Driver(ErrorChain(&error).to_string()))?;
            let mut of_tokio_postgres: tokio_postgres::Config = url
                .for_tokio_postgres(server)
                .parse()
                .map_err(|error: tokio_postgres::Error| ServersError::Driver(ErrorChain(&error).to_string()))?;
            of_tokio_postgres.connect_timeout(connect_timeout).ssl_mode(tls.mode());
            servers.push(Server {
                name: server.to_string(),
                of_sqlx: tls.apply(of_sqlx),
                of_tokio_postgres,
                tls,
            });
        }
        let is_random = match url.parameter(&["load_balance_hosts"])?.as_deref() {
            None | Some("disable") => false,
            Some("random") => true,
            Some(other) => {
                let known = "disable, random";
                return Err(UrlError(format!(
                    "load_balance_hosts={other} is not known; choose one of {known}"
                ))
                .into());
            }
        };
        let several = Self {
            target: target(&url)?,
            is_random,
            connect_timeout,
            password,
            current: AtomicUsize::new(0),
            servers,
        };
        if is_random {
            several.current.store(several.shuffled()[0], Ordering::Relaxed);
        }
        Ok(several)
    }

    pub(crate) fn are_several(&self) -> bool {
        self.servers.len() > 1
    }

    /// Whether the options of new connections change while a process runs.
    pub(crate) fn may_change(&self) -> bool {
        self.are_several() || self.password.is_some()
    }

    /// Whether connections must be to a server that accepts writes.
    pub(crate) fn must_write(&self) -> bool {
        self.target == Target::Writable
    }

    pub(crate) fn password(&self) -> Option<&Arc<Password>> {
        self.password.as_ref()
    }

    /// The index of the server that accepted the last connection.
    pub(crate) fn current(&self) -> usize {
        self.current.load(Ordering::Relaxed)
    }

    /// A server accepted a connection.
    pub(crate) fn found(&self, at: usize) {
        let before = self.current.swap(at, Ordering::Relaxed);
        if before != at {
            tracing::info!(server = %self.servers[at].name, "connected to another database server");
        }
    }

    /// The indexes of the servers, in the order in which they are tried.
    pub(crate) fn order(&self) -> Vec<usize> {
        let current = self.current();
        let mut order = if self.is_random {
            self.shuffled()
        } else {
            (0..self.servers.len()).collect()
        };
        order.retain(|at| *at != current);
        order.insert(0, current);
        order
    }

    fn shuffled(&self) -> Vec<usize> {
        let random = RandomState::new();
        let mut order: Vec<usize> = (0..self.servers.len()).collect();
        order.sort_by_key(|at| random.hash_one(at));
        order
    }

    /// The options of sqlx for a server.
    pub(crate) fn sqlx(&self, at: usize, startup: &Startup, password: Option<&Secret>) -> PgConnectOptions {
        let options = startup.sqlx(self.servers[at].of_sqlx.clone());
        match password {
            Some(password) => options.password(password.expose()),
            None => options,
        }
    }

    /// The options of sqlx for the current server. Blocks while a command gives the first password.
    pub(crate) fn sqlx_now(&self, startup: &Startup) -> Result<PgConnectOptions, PasswordError> {
        let password = self.password.as_ref().map(Password::current_blocking).transpose()?;
        Ok(self.sqlx(self.current(), startup, password.as_ref()))
    }

    /// The configuration of tokio-postgres for a server, and its TLS.
    pub(crate) fn tokio_postgres(
        &self,
        at: usize,
        startup: &Startup,
        password: Option<&Secret>,
    ) -> (tokio_postgres::Config, &Tls) {
        let server = &self.servers[at];
        let mut config = server.of_tokio_postgres.clone();
        startup.tokio_postgres(&mut config);
        // With one server, the check of each new connection asks the same without a further round trip.
        if self.are_several() && self.must_write() {
            config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        }
        if let Some(password) = password {
            config.password(password.expose());
        }
        (config, &server.tls)
    }

    /// Connects by sqlx: to the one server, or to the first that may be used.
    pub(crate) async fn connect(&self, startup: &Startup) -> Result<PgConnection, sqlx::Error> {
        if !self.are_several() {
            return self.log_in(0, startup).await;
        }
        let mut failures = Vec::new();
        for at in self.order() {
            let connected = timeout(self.connect_timeout, self.connect_to(at, startup)).await;
            let failure: String = match connected {
                Ok(Ok(connection)) => {
                    self.found(at);
                    return Ok(connection);
                }
                Ok(Err(error)) if error.as_database_error().is_some() && !is_transient(&error) => return Err(error),
                Ok(Err(error)) => ErrorChain(&error).to_string(),
                Err(_) => format!("no response within {} s", self.connect_timeout.as_secs_f32()),
            };
            failures.push(format!("{}: {failure}", self.servers[at].name));
        }
        Err(self.none_usable(&failures.join("; ")))
    }

    /// Connects to one of several servers, if it may be used.
    async fn connect_to(&self, at: usize, startup: &Startup) -> Result<PgConnection, sqlx::Error> {
        let mut connection = self.log_in(at, startup).await?;
        if self.must_write() && is_read_only(&mut connection).await? {
            // The connection is not used again.
            let _ = connection.close().await;
            return Err(sqlx::Error::Io(io::Error::other("it only reads (a standby)")));
        }
        Ok(connection)
    }

    async fn log_in(&self, at: usize, startup: &Startup) -> Result<PgConnection, sqlx::Error> {
        let Some(source) = &self.password else {
            return self.sqlx(at, startup, None).connect().await;
        };
        let password = source
            .current()
            .await
            .map_err(|error| sqlx::Error::Configuration(error.into()))?;
        let connected = self.sqlx(at, startup, Some(&password)).connect().await;
        match connected {
            Err(error) if is_refused_login(&error) => match source.renewed(&password).await {
                Some(renewed) => self.sqlx(at, startup, Some(&renewed)).connect().await,
                None => Err(error),
            },
            connected => connected,
        }
    }

    fn none_usable(&self, failures: &str) -> sqlx::Error {
        let wanted = match self.target {
            Target::Writable => "accepts writes",
            Target::Any => "accepts connections",
        };
        let message = format!(
            "none of the {} database servers {wanted} ({failures})",
            self.servers.len()
        );
        sqlx::Error::Io(io::Error::new(io::ErrorKind::NotConnected, message))
    }
}

/// Returns whether this connection's server refuses writes.
pub(crate) async fn is_read_only(connection: &mut PgConnection) -> Result<bool, sqlx::Error> {
    let row = sqlx::raw_sql("show transaction_read_only")
        .fetch_one(connection)
        .await?;
    Ok(row.try_get::<&str, _>(0)? == "on")
}

fn is_refused_login(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(|refusal| refusal.code());
    matches!(code.as_deref(), Some("28P01" | "28000"))
}

/// Of one server, any; of several, the one that accepts writes: unless the URL says otherwise.
fn target(url: &ServerUrl) -> Result<Target, UrlError> {
    match url.parameter(&["target_session_attrs"])?.as_deref() {
        None if url.servers().len() == 1 => Ok(Target::Any),
        None | Some("read-write" | "primary") => Ok(Target::Writable),
        Some("any") => Ok(Target::Any),
        Some(other) => Err(UrlError(format!(
            "target_session_attrs={other} cannot be used: every process writes; choose one of read-write, primary, any"
        ))),
    }
}

fn connect_timeout(url: &ServerUrl) -> Result<Duration, UrlError> {
    let Some(seconds) = url.parameter(&["connect_timeout"])? else {
        return Ok(CONNECT_TIMEOUT);
    };
    match seconds.parse() {
        // As in libpq, 0 is no limit; a search among servers needs one.
        Ok(0) => Ok(CONNECT_TIMEOUT),
        Ok(seconds) => Ok(Duration::from_secs(seconds)),
        Err(_) => Err(UrlError(format!(
            "connect_timeout={seconds} is not a number of seconds"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(url: &str) -> Result<Servers, String> {
        Servers::parse(url, &DatabaseArgs::new(url)).map_err(|error| error.to_string())
    }

    #[test]
    fn several_servers_are_tried_from_the_one_that_answered_last() {
        let servers = of("postgres://u@h1,h2,h3/db").unwrap();
        assert_eq!(servers.order(), [0, 1, 2]);
        servers.found(2);
        assert_eq!(servers.order(), [2, 0, 1]);
        assert!(servers.must_write() && servers.are_several() && servers.may_change());
        let servers = of("postgres://u@h1,h2,h3/db?load_balance_hosts=random").unwrap();
        let mut order = servers.order();
        assert_eq!(order[0], servers.current());
        order.sort_unstable();
        assert_eq!(order, [0, 1, 2]);
    }

    #[test]
    fn one_server_is_used_as_it_is() {
        let servers = of("postgres://u@h/db").unwrap();
        assert!(!servers.must_write() && !servers.are_several() && !servers.may_change());
        assert!(
            of("postgres://u@h/db?target_session_attrs=primary")
                .unwrap()
                .must_write()
        );
        assert!(
            !of("postgres://u@h1,h2/db?target_session_attrs=any")
                .unwrap()
                .must_write()
        );
        let startup = Startup::of_login("x");
        let (config, _) = servers.tokio_postgres(0, &startup, Some(&Secret::new("p")));
        assert_eq!(config.get_target_session_attrs(), TargetSessionAttrs::Any);
        assert_eq!(config.get_password(), Some(&b"p"[..]));
        let servers = of("postgres://u@h1,h2:6000/db?sslmode=require").unwrap();
        let (config, _) = servers.tokio_postgres(1, &startup, None);
        assert_eq!(config.get_ports(), [6000]);
        assert_eq!(config.get_target_session_attrs(), TargetSessionAttrs::ReadWrite);
        assert_eq!(servers.sqlx(1, &startup, None).get_port(), 6000);
    }

    #[test]
    fn settings_that_can_not_be_used_are_named() {
        for (url, words) in [
            (
                "postgres://u@h1,h2/db?target_session_attrs=standby",
                "every process writes",
            ),
            ("postgres://u@h/db?load_balance_hosts=all", "disable, random"),
            ("postgres://u@h/db?connect_timeout=soon", "number of seconds"),
            ("postgres://u@h/db?nonsense=1", "nonsense"),
        ] {
            let refused = of(url).unwrap_err();
            assert!(refused.contains(words), "{url}: {refused}");
        }
        let url = "postgres://u:p@h/db";
        let args = DatabaseArgs {
            db_password_command: Some("echo x".to_owned()),
            ..DatabaseArgs::new(url)
        };
        let refused = Servers::parse(url, &args).unwrap_err().to_string();
        assert!(refused.contains("REJOIN_DB_PASSWORD_COMMAND"), "{refused}");
    }

    #[tokio::test]
    async fn a_search_in_vain_names_each_server_and_its_failure() {
        let servers = of("postgres://u@127.0.0.1:1,127.0.0.1:2/db").unwrap();
        let error = servers.connect(&Startup::of_login("x")).await.unwrap_err();
        let text = ErrorChain(&error).to_string();
        for words in ["none of the 2", "accepts writes", "127.0.0.1:1: ", "127.0.0.1:2: "] {
            assert!(text.contains(words), "{text}");
        }
        assert!(is_transient(&error));
    }
}
