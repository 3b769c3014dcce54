//! MongoDB. A query is parsed into one database command with its own server session, which is killed when the caller
//! stops waiting. Called by `sources`.
//!
//! - `connection` connects, and asks for privileges
//! - `mql`    parses queries into commands
//! - `reader` parses the shell's JSON
//! - `guard`  the guard of read-only sources
//! - `rights` the server's privileges of its user
//! - `values` documents as JSON, as rows, as fields
//!
//! Invariant: an unencrypted server is contacted at exactly the checked address, and cannot redirect; an encrypted one
//! must present a certificate for its name. A read-only source is not queried as a user with more than read privileges,
//! unless its settings accept that.

use async_trait::async_trait;
use mongodb::bson::{Bson, Document, doc};
use mongodb::{Client, ClientSession};
use rejoin_egress::ssrf_guard::Hosts;
use rejoin_integrations::data_sources::Settings;
use rejoin_secrets::Plaintext;
use serde_json::Value;
use tokio::sync::OnceCell;

use self::values::{fields, object, rows, value, weight};
use crate::source::{
    Access, Bounds, Collected, Column, LISTED_MAX, Question, Rows, SAMPLE_READ, SAMPLE_SHOWN, Source, SourceError,
    Table, Tested,
};
use crate::transport;

mod connection;
pub mod guard;
pub mod mql;
mod reader;
mod rights;
mod values;

/// Number of documents per batch.
const BATCH: i32 = 100;

pub struct Mongodb {
    settings: Settings,
    password: Option<Plaintext>,
    hosts: Hosts,
    client: OnceCell<Client>,
    /// Limits of metadata queries.
    look: Bounds,
    read_only: bool,
}

impl Mongodb {
    pub fn new(settings: Settings, password: Option<Plaintext>, hosts: Hosts, look: Bounds, read_only: bool) -> Self {
        Self {
            settings,
            password,
            hosts,
            client: OnceCell::new(),
            look,
            read_only,
        }
    }

    async fn client(&self) -> Result<&Client, SourceError> {
        self.client.get_or_try_init(|| self.connect()).await
    }

    fn database<'a>(&'a self, database: Option<&'a str>) -> Result<&'a str, SourceError> {
        database.or(self.settings.database.as_deref()).ok_or_else(|| {
            SourceError::Failed("no database given: the source has no default database, so name one".to_owned())
        })
    }

    /// Runs a command in a session, and passes on the documents of its cursor until asked to stop.
    async fn cursor(
        &self,
        database: &str,
        mut command: Document,
        bounds: &Bounds,
        mut take: impl FnMut(Document) -> bool + Send,
    ) -> Result<(), SourceError> {
        let failed = |error: mongodb::error::Error| failure(&error, bounds);
        let client = self.client().await?;
        command.insert("maxTimeMS", millis(bounds));
        let batch = BATCH.min(i32::try_from(bounds.max_rows).unwrap_or(i32::MAX)).max(1);
        if command.contains_key("cursor") {
            command.insert("cursor", doc! { "batchSize": batch })
        } else {
            command.insert("batchSize", batch)
        };
        let db = client.database(database);
        // Standalone servers may not support sessions: then only maxTimeMS ends a query there.
        let mut session = client.start_session().await.ok();
        let kill = KillOnDrop::new(client, session.as_ref());
        match &mut session {
            Some(session) => {
                let mut cursor = db
                    .run_cursor_command(command)
                    .session(&mut *session)
                    .await
                    .map_err(failed)?;
                while let Some(document) = cursor.next(session).await.transpose().map_err(failed)? {
                    if !take(document) {
                        return Ok(());
                    }
                }
            }
            None => {
                let mut cursor = db.run_cursor_command(command).await.map_err(failed)?;
                while cursor.advance().await.map_err(failed)? {
                    if !take(cursor.deserialize_current().map_err(failed)?) {
                        return Ok(());
                    }
                }
            }
        }
        kill.disarm();
        Ok(())
    }

    /// Runs a command that returns one document.
    async fn command(&self, database: &str, mut command: Document, bounds: &Bounds) -> Result<Document, SourceError> {
        let client = self.client().await?;
        command.insert("maxTimeMS", millis(bounds));
        let mut session = client.start_session().await.ok();
        let kill = KillOnDrop::new(client, session.as_ref());
        let db = client.database(database);
        let running = db.run_command(command);
        let answered = match &mut session {
            Some(session) => running.session(session).await,
            None => running.await,
        };
        kill.disarm();
        answered.map_err(|error| failure(&error, bounds))
    }
}

fn millis(bounds: &Bounds) -> i64 {
    i64::try_from(bounds.timeout.as_millis()).unwrap_or(i64::MAX).max(1)
}

fn error_message(error: &mongodb::error::Error) -> String {
    use mongodb::error::ErrorKind;
    match error.kind.as_ref() {
        ErrorKind::Command(command) => command.message.clone(),
        kind => kind.to_string(),
    }
}

fn failure(error: &mongodb::error::Error, bounds: &Bounds) -> SourceError {
    use mongodb::error::ErrorKind;
    /// MaxTimeMSExpired; Interrupted.
    const ENDED: [i32; 2] = [50, 11601];
    match error.kind.as_ref() {
        ErrorKind::Command(command) if ENDED.contains(&command.code) => {
            SourceError::TimedOut(u64::try_from(bounds.timeout.as_millis()).unwrap_or(u64::MAX))
        }
        ErrorKind::Command(command) => SourceError::Failed(command.message.clone()),
        ErrorKind::Write(_) | ErrorKind::InvalidArgument { .. } => SourceError::Failed(error_message(error)),
        _ => SourceError::Unreachable(error_message(error)),
    }
}

/// Kills a session with its running commands when dropped, unless disarmed.
struct KillOnDrop {
    armed: Option<(Client, Document)>,
}

impl KillOnDrop {
    fn new(client: &Client, session: Option<&ClientSession>) -> Self {
        Self {
            armed: session.map(|session| (client.clone(), session.id().clone())),
        }
    }

    fn disarm(mut self) {
        self.armed = None;
    }
}

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        if let (Some((client, session)), Ok(runtime)) = (self.armed.take(), tokio::runtime::Handle::try_current()) {
            runtime.spawn(async move {
                let admin = client.database("admin");
                let killing = admin.run_command(doc! { "killSessions": [session] }).into_future();
                tokio::time::timeout(transport::CONNECT_TIMEOUT, killing).await
            });
        }
    }
}

#[async_trait]
impl Source for Mongodb {
    async fn test(&self) -> Result<Tested, SourceError> {
        let info = self.command("admin", doc! { "buildInfo": 1 }, &self.look).await;
        let version = info
            .as_ref()
            .ok()
            .and_then(|info| info.get_str("version").ok())
            .unwrap_or("?")
            .to_owned();
        // The version can be requested even without authentication.
        let database = self.settings.database.as_deref().unwrap_or("admin");
        let list = doc! { "listCollections": 1, "nameOnly": true, "authorizedCollections": true };
        self.command(database, list, &self.look).await?;
        let rights = self.rights(self.client().await?).await?;
        let advice = |fault: String| format!("{fault}; use a user that has only the role `read`");
        let warnings = rights.fault().map(advice).into_iter().collect();
        Ok(Tested {
            server: format!("MongoDB {version}"),
            warnings,
        })
    }

    async fn databases(&self) -> Result<Vec<String>, SourceError> {
        let listed = self
            .command("admin", doc! { "listDatabases": 1, "nameOnly": true }, &self.look)
            .await;
        let mut names: Vec<String> = match &listed {
            Ok(listed) => listed
                .get_array("databases")
                .into_iter()
                .flatten()
                .filter_map(|database| database.as_document()?.get_str("name").ok().map(str::to_owned))
                .filter(|name| !matches!(name.as_str(), "admin" | "config" | "local"))
                .collect(),
            // A user without the right to list databases has at least one.
            Err(_) => self.settings.database.iter().cloned().collect(),
        };
        if names.is_empty() {
            listed?;
        }
        names.sort_unstable();
        names.truncate(LISTED_MAX);
        Ok(names)
    }

    async fn tables(&self, database: Option<&str>) -> Result<Vec<Table>, SourceError> {
        let command = doc! { "listCollections": 1, "nameOnly": true, "authorizedCollections": true, "cursor": {} };
        let mut tables = Vec::new();
        self.cursor(self.database(database)?, command, &self.look, |collection| {
            let name = collection.get_str("name").unwrap_or_default();
            if !name.starts_with("system.") {
                tables.push(Table {
                    name: name.to_owned(),
                    kind: collection.get_str("type").unwrap_or("collection").to_owned(),
                    rows: None,
                });
            }
            tables.len() < LISTED_MAX
        })
        .await?;
        tables.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Ok(tables)
    }

    async fn schema(&self, database: Option<&str>, table: &str) -> Result<Value, SourceError> {
        let read = i32::try_from(SAMPLE_READ).unwrap_or(i32::MAX);
        let command = doc! { "find": table, "filter": {}, "limit": read };
        let mut documents = Vec::new();
        self.cursor(self.database(database)?, command, &self.look, |document| {
            documents.push(document);
            documents.len() < SAMPLE_READ
        })
        .await?;
        if documents.is_empty() && !self.tables(database).await?.iter().any(|known| known.name == table) {
            return Err(crate::source::no_table(table));
        }
        let mut schema = crate::source::table_schema(table, fields(&documents));
        schema["documentsRead"] = documents.len().into();
        let bounds = Bounds {
            max_rows: SAMPLE_SHOWN,
            ..self.look
        };
        // As long as they fit: documents may be large.
        let mut sample = Collected::new(bounds, Vec::new());
        for document in documents {
            if !sample.take(vec![object(document)]) {
                break;
            }
        }
        schema["sample"] = sample.rows.rows.into_iter().flatten().collect();
        Ok(schema)
    }

    async fn execute(&self, question: &Question<'_>) -> Result<Rows, SourceError> {
        let asked = mql::parse(question.query).map_err(SourceError::Refused)?;
        let (bounds, database) = (question.bounds, self.database(question.database)?);
        let single = |name: &str, value: Value| {
            let column = Column {
                name: name.to_owned(),
                type_name: "value".to_owned(),
            };
            let mut collected = Collected::new(bounds, vec![column]);
            match value {
                Value::Array(items) if name == "value" => items.into_iter().all(|item| collected.take(vec![item])),
                value => collected.take(vec![value]),
            };
            collected.rows
        };
        match asked.verb {
            "find" | "aggregate" => {
                let mut documents = Vec::new();
                let mut bytes = 0;
                self.cursor(database, asked.command, &bounds, |document| {
                    bytes += document
                        .iter()
                        .map(|(name, value)| name.len() + weight(value))
                        .sum::<usize>();
                    documents.push(document);
                    // One more than fits shows that there is more.
                    documents.len() <= bounds.max_rows && bytes <= bounds.max_bytes
                })
                .await?;
                Ok(rows(bounds, documents).rows)
            }
            "count" => {
                let answer = self.command(database, asked.command, &bounds).await?;
                Ok(single("count", answer.get("n").cloned().map_or(Value::Null, value)))
            }
            "distinct" => {
                let answer = self.command(database, asked.command, &bounds).await?;
                Ok(single(
                    "value",
                    answer.get("values").cloned().map_or(Value::Null, value),
                ))
            }
            _ if question.access == Access::Writes => {
                let answer = self.command(database, asked.command, &bounds).await?;
                if let Some(Bson::Document(fault)) =
                    answer.get_array("writeErrors").ok().and_then(|errors| errors.first())
                {
                    return Err(SourceError::Failed(
                        fault.get_str("errmsg").unwrap_or("the write was rejected").to_owned(),
                    ));
                }
                let count = answer.get("n").and_then(|n| match n {
                    Bson::Int32(n) => u64::try_from(*n).ok(),
                    Bson::Int64(n) => u64::try_from(*n).ok(),
                    _ => None,
                });
                Ok(Rows {
                    affected_rows: count,
                    ..Rows::default()
                })
            }
            verb => Err(SourceError::Refused(format!("{verb} writes; this source is read-only"))),
        }
    }

    async fn explain(&self, question: &Question<'_>) -> Result<Value, SourceError> {
        let asked = mql::parse(question.query).map_err(SourceError::Refused)?;
        let command = doc! { "explain": asked.command, "verbosity": "queryPlanner" };
        let mut plan = self
            .command(self.database(question.database)?, command, &question.bounds)
            .await?;
        for name in ["$clusterTime", "operationTime", "ok", "serverInfo", "serverParameters"] {
            plan.remove(name);
        }
        Ok(object(plan))
    }
}
