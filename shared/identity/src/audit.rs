//! The audit log: a hash chain over the whole database, in `audit.entries`. Each entry holds the hash of the previous
//! one. Audited changes append their entry here as the last statement of the same transaction.
//!
//! Invariants: a change and its entry are committed together or not at all; numbers have no gap; no entry holds the
//! value of a secret, or the text of a prompt or message. The database hashes what it stores
//! (`migrations/0004_audit.up.sql`); [`verify`] recomputes the hashes here, so that it trusts neither side.

use std::fmt;
use std::str::FromStr;

use chrono::{DateTime, SecondsFormat, Utc};
use futures::TryStreamExt;
use rejoin_types::digest;
use serde::{Serialize, Serializer};
use serde_json::Value;
use sha2::{Digest, Sha256};
use sqlx::PgConnection;
use uuid::Uuid;

use crate::auth::{Caller, Credential};

/// The author of an audited change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Actor {
    who: String,
    credential: Option<String>,
}

impl Actor {
    /// An operator with the database's URL: the commands of `rejoin` that access it directly.
    pub fn operator() -> Self {
        Self {
            who: "operator".to_owned(),
            credential: None,
        }
    }

    pub fn caller(caller: &Caller) -> Self {
        let credential = match caller.credential {
            Credential::Key(id) => format!("key:{id}"),
            Credential::Token(_) => TOKEN.to_owned(),
        };
        Self {
            who: format!("user:{}", caller.user_id),
            credential: Some(credential),
        }
    }

    /// A user who signs a browser in at the identity provider, or whom it signs out.
    pub fn at_provider(user_id: Uuid) -> Self {
        Self {
            who: format!("user:{user_id}"),
            credential: Some("sso".to_owned()),
        }
    }

    /// A new user, who joins with an invitation.
    pub fn invited(user_id: Uuid, invitation: Uuid) -> Self {
        Self {
            who: format!("user:{user_id}"),
            credential: Some(format!("invitation:{invitation}")),
        }
    }

    /// A user authenticated by an identity provider's token.
    pub fn token_holder(user_id: Uuid) -> Self {
        Self {
            who: format!("user:{user_id}"),
            credential: Some(TOKEN.to_owned()),
        }
    }
}

/// The credential recorded for a token: tokens have no lasting ids.
const TOKEN: &str = "token";

rejoin_types::text_enum! {
    /// The kind of an audited change.
    pub enum Action {
        KeyCreated = "key.created",
        KeyRevoked = "key.revoked",
        CalendarFeedMade = "calendar_feed.made",
        CalendarFeedRemoved = "calendar_feed.removed",
        /// A calendar was linked with Google Calendar.
        CalendarLinked = "calendar.linked",
        CalendarUnlinked = "calendar.unlinked",
        /// A browser signed in.
        SessionBegun = "session.begun",
        SessionEnded = "session.ended",
        /// A session was ended from elsewhere: from another session of the user, by an admin, or by the identity provider.
        SessionRevoked = "session.revoked",
        /// A session of another workspace goes on in this one.
        SessionEntered = "session.entered",
        /// A session goes on in another workspace.
        SessionLeft = "session.left",
        InvitationCreated = "invitation.created",
        InvitationRevoked = "invitation.revoked",
        /// A user has joined the workspace.
        InvitationAccepted = "invitation.accepted",
        /// A member's role was set.
        RoleSet = "member.role_set",
        MemberRemoved = "member.removed",
        QuotaSet = "project.quota_set",
        /// The workspace was moved to another database.
        ProjectMoved = "project.moved",
        DefinitionCreated = "agent_definition.created",
        DefinitionChanged = "agent_definition.changed",
        DefinitionDeleted = "agent_definition.deleted",
        /// An earlier version of a definition was restored.
        DefinitionRestored = "agent_definition.restored",
        DefaultsInstalled = "agent_definition.defaults_installed",
        RoutingSet = "routing.set",
        PromptSet = "project_prompt.set",
        ContextSet = "context.set",
        ConversationDeleted = "conversation.deleted",
        /// A link to a conversation was made.
        ShareCreated = "conversation_share.created",
        ShareRevoked = "conversation_share.revoked",
        /// The language of the workspace's messages was set.
        SearchLanguageSet = "search_language.set",
        McpServerCreated = "mcp_server.created",
        McpServerChanged = "mcp_server.changed",
        McpServerDeleted = "mcp_server.deleted",
        /// A user has agreed to the use of their account at an MCP server.
        McpAccountAuthorized = "mcp_account.authorized",
        McpAccountDisconnected = "mcp_account.disconnected",
        /// Tool definitions of an MCP server were approved.
        McpToolsApproved = "mcp_server.tools_approved",
        DataSourceCreated = "data_source.created",
        DataSourceChanged = "data_source.changed",
        DataSourceDeleted = "data_source.deleted",
        /// A user ran a statement that may write.
        DataSourceWritten = "data_source.written",
        /// The workspace's web settings were set.
        WebSet = "web.set",
        /// The workspace's web settings were removed.
        WebRemoved = "web.removed",
        WebhookCreated = "webhook.created",
        WebhookChanged = "webhook.changed",
        WebhookDeleted = "webhook.deleted",
        /// A webhook's secret was replaced.
        WebhookSecretRotated = "webhook.secret_rotated",
        /// Deliveries of a webhook were sent again.
        WebhookReplayed = "webhook.replayed",
        ProductInstalled = "product.installed",
        ProductUninstalled = "product.uninstalled",
        ScheduleCreated = "schedule.created",
        ScheduleChanged = "schedule.changed",
        ScheduleDeleted = "schedule.deleted",
        ModelPriceSet = "model_price.set",
        ModelPriceRemoved = "model_price.removed",
        /// A dead job was retried.
        JobRetried = "job.retried",
        QueuePaused = "queue.paused",
        QueueResumed = "queue.resumed",
        /// A provider's identity was linked to an existing user.
        IdentityLinked = "identity.linked",
        /// A user was created for a new identity.
        UserCreated = "user.created",
        SecretSet = "secret.set",
        SecretRemoved = "secret.removed",
        /// Data keys were re-encrypted with another master key.
        SecretsRotated = "secret.rotated",
    }
}

/// An entry to be appended.
#[derive(Debug, Clone)]
pub struct NewEntry<'a> {
    pub by: &'a Actor,
    /// None: it concerns no workspace, or all.
    pub workspace_id: Option<Uuid>,
    pub action: Action,
    /// The changed item: `<noun>:<id or name>`.
    pub target: String,
    /// An object with names and ids; maximum size 8 KiB.
    pub detail: Value,
}

/// An entry as stored.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    pub id: i64,
    pub at: DateTime<Utc>,
    #[serde(rename = "projectId")]
    pub workspace_id: Option<Uuid>,
    pub actor: String,
    pub credential: Option<String>,
    pub action: String,
    pub target: String,
    pub detail: Value,
    #[serde(serialize_with = "in_hex")]
    pub hash: Vec<u8>,
}

fn in_hex<S: Serializer>(hash: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&digest::hex(hash))
}

/// Appends an entry to the caller's transaction, and returns its number. Other appends wait from here until that
/// transaction ends: commit next.
pub async fn append(db: &mut PgConnection, entry: &NewEntry<'_>) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar!(
        r#"select audit.append($1, $2, $3, $4, $5, $6) as "id!""#,
        entry.workspace_id,
        entry.by.who,
        entry.by.credential,
        entry.action.as_str(),
        entry.target,
        entry.detail,
    )
    .fetch_one(db)
    .await
}

/// An entry for when the other changes of its transaction have been made: [`append`] is last, so that transactions which change the
/// same rows do not wait for each other in a circle.
#[derive(Debug, Clone)]
pub(crate) struct Pending {
    pub(crate) workspace_id: Option<Uuid>,
    pub(crate) action: Action,
    pub(crate) target: String,
    pub(crate) detail: Value,
}

/// Appends entries in their order.
pub(crate) async fn append_all(db: &mut PgConnection, by: &Actor, entries: Vec<Pending>) -> Result<(), sqlx::Error> {
    for entry in entries {
        let entry = NewEntry {
            by,
            workspace_id: entry.workspace_id,
            action: entry.action,
            target: entry.target,
            detail: entry.detail,
        };
        append(db, &entry).await?;
    }
    Ok(())
}

/// Returns a page of a workspace's entries, newest first, before the entry `before`.
pub async fn page(
    db: &mut PgConnection,
    workspace_id: Uuid,
    before: Option<i64>,
    limit: i64,
) -> Result<Vec<Entry>, sqlx::Error> {
    sqlx::query_as!(
        Entry,
        "select id, at, project_id as workspace_id, actor, credential, action, target, detail, hash
         from audit.entries
         where project_id = $1 and id < coalesce($2, 9223372036854775807)
         order by id desc
         limit $3",
        workspace_id,
        before,
        limit
    )
    .fetch_all(db)
    .await
}

/// Returns the newest entries of all workspaces and of none, newest first. For operators.
pub async fn newest(db: &mut PgConnection, limit: i64) -> Result<Vec<Entry>, sqlx::Error> {
    sqlx::query_as!(
        Entry,
        "select id, at, project_id as workspace_id, actor, credential, action, target, detail, hash
         from audit.entries
         order by id desc
         limit $1",
        limit
    )
    .fetch_all(db)
    .await
}

/// A SHA-256, written as 64 hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hash([u8; 32]);

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&digest::hex(&self.0))
    }
}

impl Serialize for Hash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl FromStr for Hash {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const WRONG: &str = "a hash must have 64 hexadecimal digits";
        if text.len() != 64 || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(WRONG);
        }
        let mut bytes = [0; 32];
        for (byte, at) in bytes.iter_mut().zip((0..64).step_by(2)) {
            *byte = u8::from_str_radix(&text[at..at + 2], 16).map_err(|_| WRONG)?;
        }
        Ok(Self(bytes))
    }
}

/// A fault of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// Its number does not follow its predecessor's: entries are missing or inserted.
    Gap,
    /// It does not contain its predecessor's hash: that one was replaced.
    WrongLink,
    /// Its hash does not match its content.
    Changed,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Fault::Gap => "entries before it are missing",
            Fault::WrongLink => "its link to the previous entry is broken, so that entry was replaced",
            Fault::Changed => "it was changed after it was written",
        })
    }
}

/// The first fault of the chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Broken {
    pub entry: i64,
    pub how: Fault,
}

/// The result of [`verify`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    pub entries: u64,
    /// The hash of the newest entry. Stored elsewhere, it reveals a later truncation.
    pub head: Option<Hash>,
    pub broken: Option<Broken>,
    /// Whether the expected hash occurs in the unbroken part; none: none was given.
    pub expected_found: Option<bool>,
}

impl Report {
    /// Returns whether there is no fault, and the expected hash occurs.
    pub fn holds(&self) -> bool {
        self.broken.is_none() && self.expected_found != Some(false)
    }
}

/// Reads the whole chain in one snapshot, and recomputes every hash. In constant memory.
pub async fn verify(db: &mut PgConnection, expected: Option<Hash>) -> Result<Report, sqlx::Error> {
    let mut rows = sqlx::query_as!(
        Stored,
        r#"select id, at, project_id as workspace_id, actor, credential, action, target, detail::text as "detail!", prev_hash, hash
           from audit.entries
           order by id"#
    )
    .fetch(db);
    let mut chain = Chain::looking_for(expected);
    while let Some(row) = rows.try_next().await? {
        chain.take(row);
    }
    Ok(chain.report)
}

/// A row in the form from which its hash was computed.
#[derive(Debug, Clone)]
struct Stored {
    id: i64,
    at: DateTime<Utc>,
    workspace_id: Option<Uuid>,
    actor: String,
    credential: Option<String>,
    action: String,
    target: String,
    detail: String,
    prev_hash: Vec<u8>,
    hash: Vec<u8>,
}

impl Stored {
    /// Returns the hashed text: the list built by `audit.append`, in PostgreSQL's output format of `jsonb`.
    fn canonical(&self) -> String {
        fn quoted(text: &str) -> String {
            Value::from(text).to_string()
        }
        let optional = |text: Option<&str>| text.map_or_else(|| "null".to_owned(), quoted);
        [
            self.id.to_string(),
            quoted(&self.at.to_rfc3339_opts(SecondsFormat::Micros, true)),
            optional(self.workspace_id.map(|id| id.to_string()).as_deref()),
            quoted(&self.actor),
            optional(self.credential.as_deref()),
            quoted(&self.action),
            quoted(&self.target),
            quoted(&self.detail),
            quoted(&digest::hex(&self.prev_hash)),
        ]
        .join(", ")
    }

    fn computed_hash(&self) -> [u8; 32] {
        Sha256::digest(format!("[{}]", self.canonical())).into()
    }
}

/// The verification of a chain, from its first entry.
struct Chain {
    expected: Option<Hash>,
    last_id: i64,
    last_hash: Vec<u8>,
    report: Report,
}

impl Chain {
    fn looking_for(expected: Option<Hash>) -> Self {
        Self {
            expected,
            last_id: 0,
            last_hash: vec![0; 32],
            report: Report {
                entries: 0,
                head: None,
                broken: None,
                expected_found: expected.map(|_| false),
            },
        }
    }

    fn take(&mut self, row: Stored) {
        let fault = if row.id != self.last_id + 1 {
            Some(Fault::Gap)
        } else if row.prev_hash != self.last_hash {
            Some(Fault::WrongLink)
        } else if row.hash != row.computed_hash() {
            Some(Fault::Changed)
        } else {
            None
        };
        let entry = row.id;
        self.report.broken = self.report.broken.or(fault.map(|how| Broken { entry, how }));
        let hash = row.hash.as_slice().try_into().ok().map(Hash);
        if self.report.broken.is_none() && hash.is_some() && hash == self.expected {
            self.report.expected_found = Some(true);
        }
        self.report.entries += 1;
        self.report.head = hash;
        self.last_id = entry;
        self.last_hash = row.hash;
    }
}

#[cfg(test)]
mod tests;
