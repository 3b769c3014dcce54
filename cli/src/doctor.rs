//! `rejoin doctor`: checks the installation and says how to fix it.
//!
//! Also the health check of the container image (`--only api`). Invariant: it changes nothing, and each finding that is
//! not good names the next step.
//!
//! - `bus` the NATS servers of wake-ups
//! - `definitions` models named by agent definitions
//! - `vertex` credentials of Vertex AI
//! - `files` the object store of file content
//! - `fleet` requirements of API and worker processes
//! - `whole_fleet` whether all processes fit together: `--fleet`

mod bus;
mod definitions;
mod files;
mod fleet;
mod processes;
mod standbys;
mod vertex;
mod whole_fleet;

use std::time::Duration;

use anyhow::Result;
use clap::ValueEnum;
use rejoin_db::{operators, vacuum_blockers};
use serde::Serialize;
use sqlx::PgConnection;

use crate::{
    dev::{
        postgres::binaries::{self, OLDEST_MAJOR},
        process,
    },
    dev_instance::{self, DevInstance},
    exit::Exit,
    global::Global,
    migrate::{self, State},
    out::Out,
};

/// Timeout of a response of the database or the API.
const ANSWER_LIMIT: Duration = Duration::from_secs(3);
/// The same for each server, where the URL names several: one that is gone is waited for first.
const ANSWER_LIMIT_OF_SEVERAL: Duration = Duration::from_secs(6);

/// Check this machine, the database, the wake-up bus, the API, the model keys, the models that agents use and the file
/// store, and say how to fix each finding.
///
/// Exit code 0 if nothing required is missing. Keys are looked up, but neither shown nor used.
///
/// Examples:
///   rejoin doctor
///   rejoin doctor --only api --url http://127.0.0.1:7420     a health check
///   rejoin doctor --only worker                              of a worker on this machine
///   rejoin doctor --fleet --process http://api-1:9465,http://worker-1:9464
///   rejoin doctor --json
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Run only these checks, and treat what they check as required.
    #[arg(long, value_enum, value_delimiter = ',')]
    pub only: Vec<Check>,
    /// Host whose workers `--only worker` checks, as shown by `rejoin queue stats` [default: this machine]
    #[arg(long)]
    pub host: Option<String>,
    /// Check the whole fleet: the database and the bus, all workers, the standbys, and the processes of `--process`.
    #[arg(long, conflicts_with = "only")]
    pub fleet: bool,
    /// Addresses of processes' metrics, for `--fleet`: their versions, settings, clocks and pools are compared.
    #[arg(
        long = "process",
        env = "REJOIN_DOCTOR_PROCESSES",
        value_delimiter = ',',
        value_name = "URL"
    )]
    pub processes: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Check {
    /// PostgreSQL server programs for `rejoin dev` and the tests.
    Postgres,
    /// DATABASE_URL: reachable, recent enough, migrated, extensions.
    Database,
    /// REJOIN_BUS=nats: NATS servers over which wake-ups arrive. Nothing is looked at with another bus.
    Bus,
    /// A live worker on this machine (or on `--host`). Checked only if named.
    Worker,
    /// REJOIN_URL: an API that is ready.
    Api,
    /// API keys of model providers, and the models that agent definitions use.
    Models,
    /// All processes, and their PostgreSQL. Checked only if named.
    Fleet,
    /// REJOIN_FILES_URL: an object store that takes the key. Nothing is looked at where files are kept in PostgreSQL.
    Files,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Verdict {
    Good,
    /// A possible improvement.
    Note,
    /// A requirement is missing.
    Bad,
}

#[derive(Debug, Clone, Serialize)]
struct Finding {
    check: Check,
    verdict: Verdict,
    found: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    todo: Option<String>,
}

/// # Errors
/// stdout is closed.
pub async fn run(global: &Global, args: Args, out: Out) -> Result<Exit> {
    let args = of_fleet(args);
    let asked = |check: Check| args.only.is_empty() || args.only.contains(&check);
    let mut findings = Vec::new();
    if asked(Check::Postgres) {
        findings.push(postgres(global.database_url().is_none() || !args.only.is_empty()));
    }
    if asked(Check::Database) {
        findings.extend(database(global.database_url(), !args.only.is_empty()).await);
    }
    if asked(Check::Bus) {
        findings.extend(bus::finding().await);
    }
    if args.only.contains(&Check::Worker) {
        findings.push(fleet::worker(global.database_url(), args.host.as_deref()).await);
    }
    if args.only.contains(&Check::Fleet) {
        findings.extend(whole_fleet::findings(global.database_url(), &args.processes).await);
    }
    if asked(Check::Api) {
        let url = dev_instance::api_url(global);
        findings.push(api(&url, !args.only.is_empty()).await);
    }
    if asked(Check::Models) {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        findings.push(models(variable));
        findings.extend(vertex::finding(variable));
        let of_dev = DevInstance::here().and_then(|current| current.database_url);
        findings.extend(definitions::of_database(global.database_url().or(of_dev.as_deref())).await);
    }
    if asked(Check::Files) {
        findings.extend(files::finding().await);
    }
    for finding in &findings {
        if out.is_json() {
            out.json(finding)?;
            continue;
        }
        let mark = match finding.verdict {
            Verdict::Good => "ok  ",
            Verdict::Note => "note",
            Verdict::Bad => "BAD ",
        };
        out.line(&format!("{mark}  {}", finding.found))?;
        if let Some(todo) = &finding.todo {
            out.line(&format!("      -> {}", todo.replace('\n', "\n         ")))?;
        }
    }
    let bad = findings.iter().any(|finding| finding.verdict == Verdict::Bad);
    Ok(if bad { Exit::Failed } else { Exit::Done })
}

/// `--fleet` names its checks.
fn of_fleet(args: Args) -> Args {
    if !args.fleet {
        return args;
    }
    Args {
        only: vec![Check::Database, Check::Bus, Check::Fleet],
        ..args
    }
}

fn good(check: Check, found: impl Into<String>) -> Finding {
    Finding {
        check,
        verdict: Verdict::Good,
        found: found.into(),
        todo: None,
    }
}

/// Bad if it is required, else a note.
fn lacking(check: Check, needed: bool, found: impl Into<String>, todo: impl Into<String>) -> Finding {
    let verdict = if needed { Verdict::Bad } else { Verdict::Note };
    Finding {
        check,
        verdict,
        found: found.into(),
        todo: Some(todo.into()),
    }
}

fn postgres(needed: bool) -> Finding {
    let found = process::server_user().and_then(|user| binaries::find(None, None, user.as_ref()));
    match found {
        Ok(found) => good(
            Check::Postgres,
            format!(
                "PostgreSQL {} is available to start privately, in {}",
                found.major,
                found.dir.display()
            ),
        ),
        Err(error) => {
            let message = format!("{error:#}");
            let (found, todo) = message.split_once('\n').unwrap_or((&message, ""));
            lacking(Check::Postgres, needed, found, todo)
        }
    }
}

async fn database(url: Option<&str>, needed: bool) -> Vec<Finding> {
    let Some(url) = url else {
        return vec![lacking(
            Check::Database,
            needed,
            "DATABASE_URL is not set: fine for `rejoin dev`, which starts its own PostgreSQL",
            "for `rejoin api`, `worker` and `migrate`: export DATABASE_URL=postgres://user:password@host/database",
        )];
    };
    let limit = answer_limit(url);
    let connection = match tokio::time::timeout(limit, operators::connect(url, "rejoin-doctor")).await {
        Ok(Ok(connection)) => Ok(connection),
        Ok(Err(error)) => Err(format!("{:#}", anyhow::Error::new(error))),
        Err(_) => Err(format!("no response within {limit:?}")),
    };
    match connection {
        Ok(mut connection) => match ask_database(&mut connection, url).await {
            Ok(findings) => findings,
            Err(error) => {
                let found = format!("the database responds with an error: {error:#}");
                vec![lacking(
                    Check::Database,
                    true,
                    found,
                    "check its log and the privileges of its user",
                )]
            }
        },
        Err(error) => vec![lacking(
            Check::Database,
            true,
            format!("the database of DATABASE_URL cannot be reached: {error}"),
            "check host, port, user, password and firewall: psql \"$DATABASE_URL\" -c 'select 1'",
        )],
    }
}

/// Timeout of a response of the database.
fn answer_limit(url: &str) -> Duration {
    match operators::servers_named(url) {
        Ok(servers) if servers > 1 => ANSWER_LIMIT_OF_SEVERAL * u32::try_from(servers).unwrap_or(u32::MAX),
        // An unusable URL is reported when it is used.
        Ok(_) | Err(_) => ANSWER_LIMIT,
    }
}

async fn ask_database(connection: &mut PgConnection, url: &str) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    let version: i32 = sqlx::query_scalar("select current_setting('server_version_num')::int")
        .fetch_one(&mut *connection)
        .await?;
    let major = version / 10_000;
    findings.push(if major >= OLDEST_MAJOR.cast_signed() {
        good(
            Check::Database,
            format!("the database of DATABASE_URL responds: PostgreSQL {major}"),
        )
    } else {
        let found = format!("the database of DATABASE_URL is PostgreSQL {major}");
        lacking(
            Check::Database,
            true,
            found,
            format!("upgrade it to {OLDEST_MAJOR} or newer"),
        )
    });

    let lines = migrate::status(url).await?;
    let count = |state: State| lines.iter().filter(|line| line.state == state).count();
    let (pending, changed, newer) = (count(State::Pending), count(State::Changed), count(State::Newer));
    findings.push(if count(State::BeforeRelease) > 0 {
        lacking(
            Check::Database,
            true,
            "this database was made by a version from before the first release",
            "use a new database; to keep the data, copy it as docs/operations/recovery.md says",
        )
    } else if changed > 0 {
        let found = format!("{changed} applied migrations differ from those of this binary");
        lacking(
            Check::Database,
            true,
            found,
            "rejoin migrate status; use the binary that applied them",
        )
    } else if pending > 0 {
        let found = format!("{pending} of {} migrations are not applied", lines.len());
        lacking(Check::Database, true, found, "rejoin migrate up")
    } else if newer > 0 {
        let found = format!("the schema is {newer} migrations ahead of this binary");
        lacking(
            Check::Database,
            false,
            found,
            "fine during a rolling upgrade; otherwise upgrade this binary",
        )
    } else {
        good(Check::Database, format!("all {} migrations are applied", lines.len()))
    });

    if pending == 0 {
        findings.extend(fleet::row_security(connection, url).await?);
        findings.extend(fleet::listening(url).await);
        findings.extend(fleet::connections(connection).await?);
    }

    findings.extend(
        vacuum_blockers::oldest(connection)
            .await?
            .and_then(|oldest| open_for_long(&oldest)),
    );

    let extensions: Vec<String> =
        sqlx::query_scalar("select name::text from pg_available_extensions where name in ('pg_trgm', 'vector')")
            .fetch_all(&mut *connection)
            .await?;
    let has = |name: &str| extensions.iter().any(|extension| extension == name);
    findings.push(if has("pg_trgm") {
        let vector = if has("vector") {
            ", vector"
        } else {
            "; vector is not available (similarity is computed exactly)"
        };
        good(Check::Database, format!("available extensions: pg_trgm{vector}"))
    } else {
        let todo = "install the server's contrib package (postgresql-contrib) for fuzzy search";
        lacking(Check::Database, false, "the extension pg_trgm is not available", todo)
    });
    Ok(findings)
}

/// Reports a vacuum blocker, if it is old.
fn open_for_long(blocker: &vacuum_blockers::Blocker) -> Option<Finding> {
    (blocker.age_s > vacuum_blockers::OLD.as_secs_f64()).then(|| {
        let found = format!("a transaction is open for {:.0} s: {}", blocker.age_s, blocker.what);
        let todo = "dead rows cannot be removed until it ends, so tables grow; find out who opened it, then run \
            select pg_terminate_backend(…), or rollback prepared …";
        lacking(Check::Database, false, found, todo)
    })
}

async fn api(url: &str, needed: bool) -> Finding {
    let ready = format!("{}/readyz", url.trim_end_matches('/'));
    let ask = async {
        let client = reqwest::Client::builder().timeout(ANSWER_LIMIT).no_proxy().build()?;
        client.get(&ready).send().await
    };
    match ask.await {
        Ok(response) if response.status().is_success() => good(Check::Api, format!("the API at {url} is ready")),
        Ok(response) => {
            let found = format!(
                "the API at {url} is not ready: {} responds with status {}",
                ready,
                response.status()
            );
            lacking(
                Check::Api,
                needed,
                found,
                "it may be draining, or have no database: rejoin doctor --only database",
            )
        }
        Err(error) => {
            let found = format!("no API at {url}: {}", anyhow::Error::from(error).root_cause());
            lacking(
                Check::Api,
                needed,
                found,
                "start one (`rejoin dev`, `rejoin api`), or set its URL: export REJOIN_URL=…",
            )
        }
    }
}

fn models(variable: impl Fn(&str) -> Option<String>) -> Finding {
    let providers: Vec<&str> = [
        ("openai", "OPENAI_API_KEY"),
        ("anthropic", "ANTHROPIC_API_KEY"),
        ("gemini", "GEMINI_API_KEY"),
        ("vertex", "VERTEX_PROJECT_ID"),
        ("ollama", "OLLAMA_HOST"),
    ]
    .into_iter()
    .filter(|(_, name)| variable(name).is_some())
    .map(|(provider, _)| provider)
    .collect();
    let mut notes = String::new();
    if let Some(base) = variable("OPENAI_BASE_URL") {
        notes.push_str(&format!("; requests to openai go to {base}"));
    }
    if let Some(model) = variable("REJOIN_MODEL") {
        notes.push_str(&format!("; REJOIN_MODEL={model} overrides every definition's model"));
    }
    if providers.is_empty() {
        let todo = "export OPENAI_API_KEY=… (with OPENAI_BASE_URL for a compatible server), ANTHROPIC_API_KEY=…, \
                    GEMINI_API_KEY=… or OLLAMA_HOST=…";
        let found = format!("no model provider: `rejoin dev` uses its rule-based stand-in demo:graph{notes}");
        return lacking(Check::Models, false, found, todo);
    }
    good(
        Check::Models,
        format!("model providers: {}{notes}", providers.join(", ")),
    )
}

#[cfg(test)]
mod tests;
