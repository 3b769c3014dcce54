//! The open sources of a process: each is connected on first use, limited in concurrency and time, and closed when
//! idle. Called by the API's routes and by the agents' tools, which both [`Sources::open`] a stored source and query
//! the result.
//!
//! - `args`     the operator's settings
//! - `drivers`  the drivers of this build
//! - `join`     queries over several sources
//!
//! Invariant: a query of a read-only source reaches its server only after `guard` has accepted it.

mod args;
mod drivers;
pub mod join;

use std::sync::Arc;
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use rejoin_db::rls;
use rejoin_integrations::data_sources::{self, Content, DataSource, Kind, schemas};
use rejoin_secrets::{MasterKeys, Plaintext, SecretError};
use serde::Serialize;
use serde_json::Value;
use sqlx::PgPool;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use uuid::Uuid;

pub use self::args::SourceArgs;
use self::drivers::Drivers;
use crate::guard;
#[cfg(feature = "mongodb")]
use crate::mongodb;
use crate::source::{Access, Bounds, LISTED_MAX, Question, Rows, Source, SourceError, Table, Tested};

/// Maximum number of open sources in one process; the least recently used one is closed first.
const MAX_OPEN: u64 = 500;
/// Grace period after a query's timeout, for the server's own error.
const GRACE: Duration = Duration::from_secs(2);
/// Timeout of metadata queries.
const LOOK_TIMEOUT: Duration = Duration::from_secs(20);
const LOOK_MAX_BYTES: usize = 8 * 1024 * 1024;

/// The open sources of a process. Cheap to clone.
#[derive(Clone)]
pub struct Sources {
    means: Arc<Means>,
    /// By id and revision: a changed source is a different one.
    open: moka::future::Cache<(Uuid, i32), Arc<Opened>>,
}

struct Means {
    drivers: Drivers,
    keys: Option<Arc<MasterKeys>>,
    bounds: Bounds,
    connections: usize,
    schema_age_s: i32,
    /// Maximum number of recorded queries per user.
    patterns: u32,
}

impl Sources {
    pub fn new(args: &SourceArgs, keys: Option<Arc<MasterKeys>>) -> Self {
        let means = Means {
            drivers: Drivers::new(args),
            keys,
            bounds: args.bounds(),
            connections: usize::from(args.source_connections),
            schema_age_s: args.source_schema_age_s,
            patterns: args.source_patterns,
        };
        Self {
            means: Arc::new(means),
            open: moka::future::Cache::builder()
                .max_capacity(MAX_OPEN)
                .time_to_idle(Duration::from_secs(args.source_idle_s))
                .build(),
        }
    }

    /// Returns the master keys of sources' secrets.
    ///
    /// # Errors
    /// This process has no master keys.
    pub fn keys(&self) -> Result<&MasterKeys, SourceError> {
        self.means.keys.as_deref().ok_or_else(|| {
            SourceError::Unconfigured(
                "decrypting data source passwords needs master keys; the operator must set REJOIN_SECRET_KEYS_FILE \
                for the API and workers"
                    .to_owned(),
            )
        })
    }

    /// Opens a stored source, without connecting yet.
    ///
    /// # Errors
    /// Its secret can't be decrypted, or this build has no driver of its kind.
    pub async fn open(&self, db: &PgPool, scope: rls::Scope, source: &DataSource) -> Result<Arc<Opened>, SourceError> {
        let key = (source.id, source.revision);
        if let Some(open) = self.open.get(&key).await {
            return Ok(open);
        }
        let secret = if source.has_secret {
            let keys = self.keys()?;
            let mut db = rls::begin(db, scope).await.map_err(|error| database_away(&error))?;
            data_sources::open_secret(&mut *db, keys, source.workspace_id, source.id)
                .await
                .map_err(|error| match error {
                    SecretError::Database(error) => database_away(&error),
                    error => SourceError::Unconfigured(error.to_string()),
                })?
        } else {
            None
        };
        let opened = Arc::new(self.opened(source.workspace_id, &source.content, secret)?);
        self.open.insert(key, opened.clone()).await;
        Ok(opened)
    }

    /// Checks and runs a query of a stored source. Dropping the future ends it, on the server, too.
    pub async fn query(
        &self,
        db: &PgPool,
        scope: rls::Scope,
        source: &DataSource,
        ask: Ask<'_>,
    ) -> Result<Answer, SourceError> {
        let answer = self.open(db, scope, source).await?.query(ask).await?;
        if answer.changes_schemas {
            let forgotten = async {
                let mut db = rls::begin(db, scope).await?;
                schemas::forget(&mut *db, source).await?;
                db.commit().await
            };
            forgotten.await.map_err(|error: sqlx::Error| database_away(&error))?;
        }
        Ok(answer)
    }

    /// Returns the maximum number of recorded queries per user of a workspace.
    pub(crate) fn patterns(&self) -> i64 {
        i64::from(self.means.patterns)
    }

    /// Returns a table's or collection's schema: cached, unless it is too old or a refresh is requested.
    pub async fn schema(
        &self,
        db: &PgPool,
        scope: rls::Scope,
        source: &DataSource,
        database: Option<&str>,
        table: &str,
        refresh: bool,
    ) -> Result<Schema, SourceError> {
        let away = |error: sqlx::Error| database_away(&error);
        let known_as = database.unwrap_or_default();
        if !refresh {
            let mut db = rls::begin(db, scope).await.map_err(away)?;
            let kept = schemas::get(&mut *db, source, known_as, table, self.means.schema_age_s).await;
            if let Some(kept) = kept.map_err(away)? {
                return Ok(Schema {
                    schema: kept.schema,
                    read_at: kept.read_at,
                    cached: true,
                });
            }
        }
        let schema = self.open(db, scope, source).await?.schema(database, table).await?;
        let kept = async {
            let mut db = rls::begin(db, scope).await?;
            let read_at = schemas::keep(&mut *db, source, known_as, table, &schema).await?;
            db.commit().await?;
            Ok(read_at)
        };
        Ok(Schema {
            read_at: kept.await.map_err(away)?,
            schema,
            cached: false,
        })
    }

    /// Opens a source that is not stored (yet): for testing it.
    ///
    /// # Errors
    /// This build has no driver of its kind.
    pub fn opened(
        &self,
        workspace_id: Uuid,
        content: &Content,
        secret: Option<Plaintext>,
    ) -> Result<Opened, SourceError> {
        let means = &self.means;
        let limits = &content.limits;
        let least = |own: Option<u64>, all: u64| own.map_or(all, |own| own.min(all));
        let whole = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        let most = means.bounds;
        let millis = u64::try_from(most.timeout.as_millis()).unwrap_or(u64::MAX);
        let bounds = Bounds {
            timeout: Duration::from_millis(least(limits.timeout_ms, millis)),
            max_rows: whole(least(limits.max_rows.map(u64::from), most.max_rows as u64)),
            max_bytes: whole(least(limits.max_bytes, most.max_bytes as u64)),
            max_bytes_billed: least(limits.max_bytes_billed, most.max_bytes_billed),
        };
        let look = Bounds {
            timeout: LOOK_TIMEOUT,
            max_rows: LISTED_MAX,
            max_bytes: LOOK_MAX_BYTES,
            max_bytes_billed: 0,
        };
        Ok(Opened {
            kind: content.kind,
            database: content.settings.database.clone(),
            read_only: content.read_only,
            bounds,
            look,
            source: means.drivers.open(workspace_id, content, secret, look)?,
            places: Semaphore::new(means.connections),
        })
    }
}

fn database_away(error: &sqlx::Error) -> SourceError {
    SourceError::Unconfigured(format!("querying Rejoin's own database failed: {error}"))
}

/// The schema of a table or collection.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Schema {
    #[serde(flatten)]
    pub schema: Value,
    pub read_at: DateTime<Utc>,
    /// Whether it comes from the cache.
    pub cached: bool,
}

/// An open source.
pub struct Opened {
    kind: Kind,
    /// The default database of queries.
    database: Option<String>,
    read_only: bool,
    bounds: Bounds,
    look: Bounds,
    source: Arc<dyn Source>,
    /// One permit per concurrent query.
    places: Semaphore,
}

/// A result, and its duration.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Answer {
    #[serde(flatten)]
    pub rows: Rows,
    /// In milliseconds.
    pub elapsed_ms: u64,
    /// Whether the query may have changed schemas, whose cache is then dropped.
    #[serde(skip)]
    pub changes_schemas: bool,
}

/// A caller's query.
#[derive(Debug, Clone, Copy)]
pub struct Ask<'a> {
    pub database: Option<&'a str>,
    pub query: &'a str,
    /// Writing requires a writable source.
    pub access: Access,
    /// Lower limit of rows than the source's.
    pub max_rows: Option<u32>,
    /// Lower limit of bytes than the source's.
    pub max_bytes: Option<usize>,
    /// Shorter timeout than the source's.
    pub timeout: Option<Duration>,
}

impl<'a> Ask<'a> {
    /// A reading query, within the source's own limits.
    pub fn reading(database: Option<&'a str>, query: &'a str) -> Self {
        Self {
            database,
            query,
            access: Access::Reads,
            max_rows: None,
            max_bytes: None,
            timeout: None,
        }
    }
}

impl Opened {
    pub fn kind(&self) -> Kind {
        self.kind
    }

    pub fn read_only(&self) -> bool {
        self.read_only
    }

    /// Returns the source without the guard: for tests of the server's own protections.
    pub fn unguarded(&self) -> &Arc<dyn Source> {
        &self.source
    }

    pub async fn test(&self) -> Result<Tested, SourceError> {
        let mut tested = self.within(self.look.timeout, self.source.test()).await?;
        if !self.read_only {
            // It warns about what is wanted here.
            tested.warnings.clear();
        }
        Ok(tested)
    }

    pub async fn databases(&self) -> Result<Vec<String>, SourceError> {
        self.within(self.look.timeout, self.source.databases()).await
    }

    pub async fn tables(&self, database: Option<&str>) -> Result<Vec<Table>, SourceError> {
        self.shows(database)?;
        self.within(self.look.timeout, self.source.tables(database)).await
    }

    pub async fn schema(&self, database: Option<&str>, table: &str) -> Result<Value, SourceError> {
        self.shows(database)?;
        self.within(self.look.timeout, self.source.schema(database, table))
            .await
    }

    /// Checks and runs a query. Dropping the future ends it.
    pub async fn query(&self, ask: Ask<'_>) -> Result<Answer, SourceError> {
        let changes_schemas = self.check(&ask)?;
        let question = self.question(&ask);
        let begun = Instant::now();
        let rows = self
            .within(question.bounds.timeout, self.source.execute(&question))
            .await?;
        Ok(Answer {
            rows,
            elapsed_ms: u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX),
            changes_schemas,
        })
    }

    /// Returns the server's plan of a query. It must be a reading one, whatever the source.
    pub async fn explain(&self, ask: Ask<'_>) -> Result<Value, SourceError> {
        self.guarded(ask.database, ask.query)?;
        let question = Question {
            access: Access::Reads,
            ..self.question(&ask)
        };
        self.within(question.bounds.timeout, self.source.explain(&question))
            .await
    }

    fn question<'a>(&self, ask: &Ask<'a>) -> Question<'a> {
        let mut bounds = self.bounds;
        if let Some(rows) = ask.max_rows {
            bounds.max_rows = bounds.max_rows.min(usize::try_from(rows).unwrap_or(usize::MAX));
        }
        if let Some(bytes) = ask.max_bytes {
            bounds.max_bytes = bounds.max_bytes.min(bytes);
        }
        if let Some(time) = ask.timeout {
            bounds.timeout = bounds.timeout.min(time);
        }
        Question {
            database: ask.database.filter(|database| !database.is_empty()),
            query: ask.query,
            access: ask.access,
            bounds,
        }
    }

    /// Returns whether it may change schemas.
    fn check(&self, ask: &Ask<'_>) -> Result<bool, SourceError> {
        match (ask.access, self.kind) {
            (Access::Reads, _) => self.guarded(ask.database, ask.query).map(|()| false),
            (Access::Writes, _) if self.read_only => Err(SourceError::Refused("this source is read-only".to_owned())),
            #[cfg(feature = "mongodb")]
            (Access::Writes, Kind::Mongodb) => mongodb::mql::parse(ask.query)
                .map(|_| false)
                .map_err(SourceError::Refused),
            (Access::Writes, kind) => guard::check_single(kind, ask.query).map_err(SourceError::Refused),
        }
    }

    /// Returns the database of a query.
    fn asked<'a>(&'a self, database: Option<&'a str>) -> Option<&'a str> {
        database
            .filter(|database| !database.is_empty())
            .or(self.database.as_deref())
    }

    fn shows(&self, database: Option<&str>) -> Result<(), SourceError> {
        guard::check_database(self.kind, self.asked(database)).map_err(SourceError::Refused)
    }

    fn guarded(&self, database: Option<&str>, query: &str) -> Result<(), SourceError> {
        let passed = match self.kind {
            #[cfg(feature = "mongodb")]
            Kind::Mongodb => mongodb::mql::parse(query).and_then(|asked| mongodb::guard::check(&asked)),
            kind => guard::check_in(kind, self.asked(database), query),
        };
        passed.map_err(SourceError::Refused)
    }

    /// Waits for a permit, then for a result; a timeout drops the query, which ends it on the server.
    async fn within<T>(
        &self,
        limit: Duration,
        answer: impl Future<Output = Result<T, SourceError>>,
    ) -> Result<T, SourceError> {
        let limited = async {
            // The semaphore is never closed.
            let _place = self.places.acquire().await;
            answer.await
        };
        let late = || SourceError::TimedOut(u64::try_from(limit.as_millis()).unwrap_or(u64::MAX));
        timeout(limit + GRACE, limited).await.unwrap_or_else(|_| Err(late()))
    }
}
