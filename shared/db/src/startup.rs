//! What a connection asks for when it begins: its name in `pg_stat_activity`, its role and its settings.
//!
//! They are startup options, so that a connection has them from its first statement. A pooler in transaction mode drops them or, worse,
//! gives them to the next client: through one, a connection asks for its name only, and `session` checks that its login has the others.

use std::time::Duration;

use sqlx::postgres::PgConnectOptions;

use crate::Role;
use crate::config::{DatabaseArgs, Pooler};

/// Planner settings of the hot paths, which only look up, by index, a few rows for each of a few keys. Their plans are
/// made once, often while a table is almost empty, or without an estimate of an array's length: no other plan may look
/// cheaper then.
pub(crate) const LOOK_UPS: [(&str, &str); 5] = [
    ("plan_cache_mode", "force_generic_plan"),
    ("enable_seqscan", "off"),
    ("enable_hashjoin", "off"),
    ("enable_mergejoin", "off"),
    ("jit", "off"),
];
/// How long a transaction of the hot paths may be open without a statement.
const IDLE_IN_TRANSACTION: &str = "10s";
/// Idle time of a TCP connection of the hot paths, or the one that listens, until its peer is probed.
const KEEPALIVE: Duration = Duration::from_secs(10);

/// The settings of a process's connections.
#[derive(Debug, Clone)]
pub(crate) struct Startup {
    pub(crate) application: String,
    /// None: as the login is set up.
    settings: Option<Settings>,
}

#[derive(Debug, Clone)]
struct Settings {
    role: Role,
    statement_timeout_ms: u64,
    lock_timeout_ms: u64,
}

impl Startup {
    /// The connections of a process with this role.
    pub(crate) fn new(args: &DatabaseArgs, application: &str, role: Role) -> Self {
        let settings = Settings {
            role,
            statement_timeout_ms: args.db_statement_timeout_ms,
            lock_timeout_ms: args.db_lock_timeout_ms,
        };
        Self {
            application: application.to_owned(),
            settings: (args.db_pooler == Pooler::None).then_some(settings),
        }
    }

    /// A connection as its login: operators' commands.
    pub(crate) fn of_login(application: &str) -> Self {
        Self {
            application: application.to_owned(),
            settings: None,
        }
    }

    /// The same settings under another name.
    pub(crate) fn named(&self, suffix: &str) -> Self {
        Self {
            application: format!("{}-{suffix}", self.application),
            ..self.clone()
        }
    }

    /// The same with these timeouts, of both statements and locks.
    pub(crate) fn with_timeout(&self, limit: Duration) -> Self {
        let limit_ms = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
        Self {
            application: self.application.clone(),
            settings: self.settings.clone().map(|settings| Settings {
                statement_timeout_ms: limit_ms,
                lock_timeout_ms: limit_ms,
                ..settings
            }),
        }
    }

    /// Adds them to options of sqlx.
    pub(crate) fn sqlx(&self, options: PgConnectOptions) -> PgConnectOptions {
        let options = options.application_name(&self.application);
        let Some(settings) = &self.settings else {
            // The server's default writes floats exactly, too; a pooler refuses this parameter.
            return options.extra_float_digits(None::<i8>);
        };
        let options = options.options([
            ("statement_timeout", format!("{}ms", settings.statement_timeout_ms)),
            ("lock_timeout", format!("{}ms", settings.lock_timeout_ms)),
            ("synchronous_commit", "on".to_owned()),
        ]);
        match settings.role.name() {
            Some(role) => options.options([("role", role)]),
            None => options,
        }
    }

    /// Adds them, and those of the hot paths, to a configuration of tokio-postgres.
    pub(crate) fn tokio_postgres(&self, config: &mut tokio_postgres::Config) {
        config.application_name(&self.application).keepalives_idle(KEEPALIVE);
        let Some(settings) = &self.settings else { return };
        let mut options = format!(
            "-c statement_timeout={} -c lock_timeout={} -c synchronous_commit=on -c idle_in_transaction_session_timeout={IDLE_IN_TRANSACTION}",
            settings.statement_timeout_ms, settings.lock_timeout_ms
        );
        let role = settings.role.name().map(|role| ("role", role));
        for (name, value) in LOOK_UPS.into_iter().chain(role) {
            options.push_str(&format!(" -c {name}={value}"));
        }
        config.options(options);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(startup: &Startup) -> (Option<String>, Option<String>) {
        let of_sqlx = startup.sqlx("postgres://u@h/db".parse().unwrap());
        let mut config = tokio_postgres::Config::new();
        startup.tokio_postgres(&mut config);
        (
            of_sqlx.get_options().map(str::to_owned),
            config.get_options().map(str::to_owned),
        )
    }

    #[test]
    fn a_direct_connection_asks_for_its_role_and_settings() {
        let startup = Startup::new(&DatabaseArgs::new("postgres://h/db"), "rejoin-api", Role::App);
        let (of_sqlx, of_tokio_postgres) = options(&startup);
        assert_eq!(
            of_sqlx.as_deref(),
            Some("-c statement_timeout=30000ms -c lock_timeout=10000ms -c synchronous_commit=on -c role=rejoin_app")
        );
        assert_eq!(
            of_tokio_postgres.as_deref(),
            Some(
                "-c statement_timeout=30000 -c lock_timeout=10000 -c synchronous_commit=on \
                -c idle_in_transaction_session_timeout=10s -c plan_cache_mode=force_generic_plan -c enable_seqscan=off \
                -c enable_hashjoin=off -c enable_mergejoin=off -c jit=off -c role=rejoin_app"
            )
        );
        let slow = startup.named("transfers").with_timeout(Duration::from_secs(600));
        assert_eq!(slow.application, "rejoin-api-transfers");
        assert!(options(&slow).0.unwrap().starts_with("-c statement_timeout=600000ms"));
    }

    #[test]
    fn through_a_pooler_a_connection_asks_for_its_name_only() {
        let args = DatabaseArgs {
            db_pooler: Pooler::Transaction,
            ..DatabaseArgs::new("postgres://h/db")
        };
        let startup = Startup::new(&args, "rejoin-api", Role::App);
        assert_eq!(options(&startup), (None, None));
        let of_sqlx = startup.sqlx("postgres://u@h/db".parse().unwrap());
        assert_eq!(of_sqlx.get_application_name(), Some("rejoin-api"));
    }
}
