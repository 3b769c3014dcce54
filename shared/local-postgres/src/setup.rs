//! What a server is started with: its programs, directories, settings and log, up to its first answer.
use std::{
    fs::File,
    io::{Read, Seek, SeekFrom},
    os::unix::process::CommandExt,
    path::PathBuf,
    process::{Command, Stdio},
    str::FromStr,
};

use anyhow::{Context, Result};
use sqlx::{AssertSqlSafe, Connection, PgConnection, postgres::PgConnectOptions};

use super::binaries::{self, Binaries};
use super::data_dir::{self, DataDir};
use super::{PostgresOptions, SUPERUSER};
use crate::process::User;

/// PostgreSQL's port, unless the settings name another one.
pub(super) const DEFAULT_PORT: u16 = 5432;
/// Size of the log's end shown in an error.
const LOG_TAIL_BYTES: u64 = 4 * 1024;
/// Maximum size of the log, checked at start; a larger one is truncated.
const LOG_MAX_BYTES: u64 = 16 * 1024 * 1024;

#[derive(Debug)]
pub(super) struct Setup {
    pub(super) options: PostgresOptions,
    pub(super) place: DataDir,
    pub(super) binaries: Binaries,
}

impl Setup {
    /// Prepares everything before the start of the server. Blocking: `initdb` takes a second or two.
    pub(super) fn prepare(options: PostgresOptions) -> Result<Self> {
        let place = DataDir::take(&options.data_dir)?;
        let binaries = make_ready(&place, &options);
        if binaries.is_err() && options.ephemeral {
            remove_all(&place.everything());
        }
        Ok(Self {
            binaries: binaries?,
            options,
            place,
        })
    }

    /// Returns the server's command, in its own process group: Ctrl-C is handled by its owner.
    pub(super) fn command(&self) -> Result<(Command, u64)> {
        let path = &self.place.log;
        let open = || -> std::io::Result<(File, u64)> {
            let log = File::options().create(true).append(true).open(path)?;
            if log.metadata()?.len() > LOG_MAX_BYTES {
                log.set_len(0)?;
            }
            let start = log.metadata()?.len();
            Ok((log, start))
        };
        let (log, log_start) = open().with_context(|| format!("writing the log {} failed", path.display()))?;
        let mut command = Command::new(self.binaries.program("postgres"));
        command.arg("-D").arg(&self.place.cluster);
        for (name, value) in self.settings() {
            command.arg("-c").arg(format!("{name}={value}"));
        }
        data_dir::quiet_environment(&mut command);
        User::run(self.place.user.as_ref(), &mut command);
        command
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(log.try_clone().context("sharing the log file failed")?)
            .stderr(log);
        Ok((command, log_start))
    }

    fn settings(&self) -> Vec<(String, String)> {
        let mut settings: Vec<(&str, &str)> = vec![
            ("cluster_name", "rejoin"),
            // No TCP. The port is part of the socket's name only.
            ("listen_addresses", ""),
            ("port", "5432"),
            ("max_connections", "200"),
            ("shared_buffers", "128MB"),
            ("timezone", "UTC"),
            ("log_timezone", "UTC"),
            ("log_checkpoints", "off"),
            // All statements are short: JIT compilation takes longer than running them.
            ("jit", "off"),
        ];
        if !self.options.durable {
            settings.extend([("fsync", "off"), ("full_page_writes", "off")]);
        }
        let mut settings: Vec<(String, String)> = settings
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        settings.push((
            "unix_socket_directories".to_owned(),
            self.place.socket_dir.to_string_lossy().into_owned(),
        ));
        settings.extend(self.options.extra_settings.iter().cloned());
        settings
    }

    /// Returns the server's port: a part of the socket's name, and that of TCP if the settings allow it.
    pub(super) fn port(&self) -> u16 {
        let mut settings = self.options.extra_settings.iter();
        let port = settings.rfind(|(name, _)| name == "port");
        port.and_then(|(_, port)| port.parse().ok()).unwrap_or(DEFAULT_PORT)
    }

    /// Connects once, and creates the database if it is missing.
    pub(super) async fn first_answer(&self) -> Result<()> {
        let options = PgConnectOptions::from_str(&format!("postgres://{SUPERUSER}@localhost/postgres"))
            .context("parsing the database URL failed")?
            .socket(&self.place.socket_dir)
            .port(self.port());
        let mut connection = PgConnection::connect_with(&options).await?;
        let database = &self.options.database;
        let there: bool = sqlx::query_scalar("select exists (select from pg_database where datname = $1)")
            .bind(database)
            .fetch_one(&mut connection)
            .await?;
        if !there {
            // The name was validated with the options.
            sqlx::raw_sql(AssertSqlSafe(format!("create database \"{database}\"")))
                .execute(&mut connection)
                .await
                .with_context(|| format!("creating the database {database} failed"))?;
        }
        connection.close().await?;
        Ok(())
    }

    /// Returns the end of the server's log since `start`.
    pub(super) fn log_tail(&self, start: u64) -> String {
        let read = || -> std::io::Result<String> {
            let mut log = File::open(&self.place.log)?;
            let from = start.max(log.metadata()?.len().saturating_sub(LOG_TAIL_BYTES));
            log.seek(SeekFrom::Start(from))?;
            let mut tail = Vec::new();
            log.read_to_end(&mut tail)?;
            Ok(String::from_utf8_lossy(&tail).trim().to_owned())
        };
        read().unwrap_or_else(|error| format!("(the log cannot be read: {error})"))
    }

    pub(super) fn remove_everything(&self) {
        remove_all(&self.place.everything());
    }
}

/// Makes the cluster usable for these programs.
fn make_ready(place: &DataDir, options: &PostgresOptions) -> Result<Binaries> {
    let made_by = place.major()?;
    let binaries = binaries::find(options.programs.as_deref(), made_by, place.user.as_ref())?;
    match (made_by, &options.standby_of) {
        (Some(_), _) => place.clear_leftover()?,
        (None, None) => place.initialise(&binaries, SUPERUSER, options.durable)?,
        (None, Some(primary)) => place.copy(&binaries, SUPERUSER, primary)?,
    }
    Ok(binaries)
}

fn remove_all(dirs: &[PathBuf]) {
    for dir in dirs {
        if let Err(error) = std::fs::remove_dir_all(dir)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            tracing::warn!(%error, dir = %dir.display(), "removing the directory failed");
        }
    }
}
