//! Products: what a workspace has installed by manifests. Reinstalling, in any version, brings the workspace to the
//! manifest's state; uninstalling removes it, and keeps data: objects, runs, and what they depend on.
//!
//! - `items`  brings single items to their wanted state
//! - `manifest`  parses and validates manifests; `routes`: HTTP endpoints
//!
//! Everything that an installed manifest lists belongs to its product, by name. Called by the API's routes. Invariants:
//! an installation is atomic; items made by others are not touched unless adopted; repeating an installation has no
//! further effect.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use rejoin_graph::packs;
use rejoin_integrations::mcp;
use rejoin_runs::agents;
use rejoin_scheduling::schedules;
use serde::Serialize;
use serde_json::Value;
use sqlx::{Connection as _, PgConnection, PgExecutor};
use uuid::Uuid;

mod items;
pub mod manifest;
pub mod routes;

pub use manifest::Manifest;
use manifest::words;

/// The planned change of an item of a manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    Create,
    Update,
    /// Already as specified.
    Keep,
    Remove,
    /// No longer the product's, but kept: something depends on it.
    Release,
    /// Made by others: nothing is installed.
    Conflict,
}

/// An item of a manifest, and its planned change.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Change {
    /// `template_pack`, `agent`, `mcp_server`, `prompt` or `job`
    pub kind: &'static str,
    pub name: String,
    pub action: Action,
    /// The differences, or the reason.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub detail: Vec<String>,
}

/// The effects of installing or uninstalling.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InstallationDiff {
    pub name: String,
    /// None: it is uninstalled.
    pub version: Option<String>,
    pub previous_version: Option<String>,
    pub changes: Vec<Change>,
}

impl InstallationDiff {
    pub fn conflicts(&self) -> impl Iterator<Item = &Change> {
        self.changes.iter().filter(|change| change.action == Action::Conflict)
    }
}

#[derive(Debug, thiserror::Error)]
pub enum ProductError {
    #[error("there is no product {0} in the project")]
    NotFound(String),
    #[error("{0}")]
    Invalid(String),
    #[error("{0}")]
    Conflict(String),
    #[error("changing the project's products failed")]
    Database(#[from] sqlx::Error),
}

impl From<rejoin_graph::Error> for ProductError {
    fn from(error: rejoin_graph::Error) -> Self {
        match error {
            rejoin_graph::Error::Database { source, .. } => ProductError::Database(source),
            rejoin_graph::Error::Invalid(words) => ProductError::Invalid(words),
            rejoin_graph::Error::Conflict(words) => ProductError::Conflict(words),
            other @ (rejoin_graph::Error::NotFound { .. } | rejoin_graph::Error::VersionConflict { .. }) => {
                ProductError::Conflict(other.to_string())
            }
        }
    }
}

/// A product as installed.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Product {
    pub name: String,
    pub version: String,
    pub manifest: Value,
    pub installed_at: DateTime<Utc>,
    pub updated_at: DateTime<Utc>,
}

/// Returns the products by name.
pub async fn list(db: impl PgExecutor<'_>, workspace_id: Uuid) -> Result<Vec<Product>, sqlx::Error> {
    sqlx::query_as!(
        Product,
        "select name, version, manifest, installed_at, updated_at from kb.products where project_id = $1 order by name",
        workspace_id
    )
    .fetch_all(db)
    .await
}

/// The items of manifests, by name, which are compared as JSON.
type Written<'a> = BTreeMap<&'a str, &'a Value>;

/// Returns a manifest's items of a kind.
fn listed<'a>(manifest: Option<&'a Value>, path: &str) -> Written<'a> {
    let items = manifest
        .and_then(|manifest| manifest.pointer(path))
        .and_then(Value::as_array);
    items
        .into_iter()
        .flatten()
        .map(|item| (words(item, "name"), item))
        .collect()
}

const PACKS: (&str, &str) = ("template_pack", "/template_packs");
const AGENTS: (&str, &str) = ("agent", "/agents");
const SERVERS: (&str, &str) = ("mcp_server", "/mcp/servers");
const PROMPTS: (&str, &str) = ("prompt", "/mcp/prompts");
const JOBS: (&str, &str) = ("job", "/jobs");

/// An installation or uninstallation, in the caller's transaction.
struct Work<'a> {
    db: &'a mut PgConnection,
    workspace_id: Uuid,
    name: &'a str,
    /// The previous manifest.
    before: Option<Value>,
    /// The other products' items.
    others: Vec<Product>,
    /// Whether items made by others are adopted.
    adopts: bool,
    changes: Vec<Change>,
}

/// Brings the workspace to the manifest's state, in the caller's transaction. On a conflict nothing should be committed;
/// nor in a dry run.
pub async fn install(
    db: &mut PgConnection,
    workspace_id: Uuid,
    manifest: &Manifest,
    adopts: bool,
) -> Result<InstallationDiff, ProductError> {
    let mut work = Work::begin(db, workspace_id, &manifest.name, adopts).await?;
    let previous_version = work.before.as_ref().map(|before| words(before, "version").to_owned());
    for pack in &manifest.packs {
        work.pack(pack).await?;
    }
    for agent in &manifest.agents {
        work.agent(agent).await?;
    }
    for server in &manifest.servers {
        work.server(server).await?;
    }
    work.written(PROMPTS, Some(&manifest.document));
    for job in &manifest.jobs {
        work.job(job).await?;
    }
    work.remove_jobs(Some(&manifest.document)).await?;
    work.remove_others(Some(&manifest.document)).await?;
    sqlx::query!(
        "insert into kb.products (project_id, name, version, manifest) values ($1, $2, $3, $4)
         on conflict (project_id, name) do update
         set version = excluded.version, manifest = excluded.manifest,
             updated_at = case when products.manifest = excluded.manifest then products.updated_at else now() end",
        workspace_id,
        manifest.name,
        manifest.version,
        manifest.document
    )
    .execute(&mut *work.db)
    .await?;
    Ok(InstallationDiff {
        name: manifest.name.clone(),
        version: Some(manifest.version.clone()),
        previous_version,
        changes: work.changes,
    })
}

/// Removes a product from the workspace, in the caller's transaction. Objects and runs stay, and so does what they depend
/// on.
pub async fn uninstall(
    db: &mut PgConnection,
    workspace_id: Uuid,
    name: &str,
) -> Result<InstallationDiff, ProductError> {
    let mut work = Work::begin(db, workspace_id, name, false).await?;
    let before = work
        .before
        .clone()
        .ok_or_else(|| ProductError::NotFound(name.to_owned()))?;
    work.written(PROMPTS, None);
    work.remove_jobs(None).await?;
    work.remove_others(None).await?;
    sqlx::query!(
        "delete from kb.products where project_id = $1 and name = $2",
        workspace_id,
        name
    )
    .execute(&mut *work.db)
    .await?;
    Ok(InstallationDiff {
        name: name.to_owned(),
        version: None,
        previous_version: Some(words(&before, "version").to_owned()),
        changes: work.changes,
    })
}

impl<'a> Work<'a> {
    async fn begin(
        db: &'a mut PgConnection,
        workspace_id: Uuid,
        name: &'a str,
        adopts: bool,
    ) -> Result<Self, ProductError> {
        // Serialized per workspace: ownership of items is read first.
        sqlx::query!(
            "select pg_advisory_xact_lock(hashtextextended('products ' || $1::uuid::text, 0))",
            workspace_id
        )
        .execute(&mut *db)
        .await?;
        let mut others = list(&mut *db, workspace_id).await?;
        let before = others.iter().position(|product| product.name == name);
        let before = before.map(|at| others.remove(at).manifest);
        Ok(Self {
            db,
            workspace_id,
            name,
            before,
            others,
            adopts,
            changes: Vec::new(),
        })
    }

    fn note(&mut self, kind: &'static str, name: &str, action: Action, detail: Vec<String>) {
        self.changes.push(Change {
            kind,
            name: name.to_owned(),
            action,
            detail,
        });
    }

    /// Returns whether an existing item may be changed. If not, that is a conflict.
    fn may_change(&mut self, (kind, path): (&'static str, &str), name: &str) -> bool {
        if let Some(owner) = self
            .others
            .iter()
            .find(|product| listed(Some(&product.manifest), path).contains_key(name))
        {
            let detail = format!("it belongs to the product {}", owner.name);
            self.note(kind, name, Action::Conflict, vec![detail]);
            return false;
        }
        let is_ours = listed(self.before.as_ref(), path).contains_key(name);
        if !is_ours && !self.adopts {
            let detail = "it already exists and is not part of this product; rename it, or adopt it".to_owned();
            self.note(kind, name, Action::Conflict, vec![detail]);
        }
        is_ours || self.adopts
    }

    /// Removes jobs that are no longer in the manifest.
    async fn remove_jobs(&mut self, document: Option<&Value>) -> Result<(), ProductError> {
        for name in self.no_more(JOBS.1, document) {
            if let Some(there) = schedules::find_by_name(&mut *self.db, self.workspace_id, &name).await? {
                schedules::delete(&mut *self.db, self.workspace_id, there.id).await?;
            }
            self.note(JOBS.0, &name, Action::Remove, vec![]);
        }
        Ok(())
    }

    /// Applies items that exist in the manifest only: prompts.
    fn written(&mut self, (kind, path): (&'static str, &'static str), document: Option<&Value>) {
        let before = self.before.clone();
        let (before, now) = (listed(before.as_ref(), path), listed(document, path));
        for (name, item) in &now {
            let action = match before.get(name) {
                None => Action::Create,
                Some(earlier) if earlier == item => Action::Keep,
                Some(_) => Action::Update,
            };
            self.note(kind, name, action, vec![]);
        }
        for name in before.keys().filter(|name| !now.contains_key(*name)) {
            self.note(kind, name, Action::Remove, vec![]);
        }
    }

    /// Returns the names listed by the previous manifest but not by this one.
    fn no_more(&self, path: &str, document: Option<&Value>) -> Vec<String> {
        let now = listed(document, path);
        listed(self.before.as_ref(), path)
            .into_keys()
            .filter(|name| !now.contains_key(name))
            .map(str::to_owned)
            .collect()
    }

    /// Removes other items that are no longer in the manifest.
    async fn remove_others(&mut self, document: Option<&Value>) -> Result<(), ProductError> {
        for name in self.no_more(AGENTS.1, document) {
            let Some(there) = agents::find_by_name(&mut *self.db, self.workspace_id, &name).await? else {
                continue;
            };
            // We can't see whether conversations refer to it: the database refuses then.
            let mut savepoint = self.db.begin().await?;
            match agents::delete(&mut *savepoint, self.workspace_id, there.id).await {
                Ok(_) => {
                    savepoint.commit().await?;
                    self.note(AGENTS.0, &name, Action::Remove, vec![]);
                }
                Err(sqlx::Error::Database(error)) if error.is_foreign_key_violation() => {
                    savepoint.rollback().await?;
                    let detail = "conversations use it".to_owned();
                    self.note(AGENTS.0, &name, Action::Release, vec![detail]);
                }
                Err(error) => return Err(error.into()),
            }
        }
        for name in self.no_more(SERVERS.1, document) {
            let there = mcp::list(&mut *self.db, self.workspace_id).await?;
            if let Some(there) = there.into_iter().find(|server| server.settings.name == name) {
                mcp::delete(&mut *self.db, self.workspace_id, there.id).await?;
                self.note(SERVERS.0, &name, Action::Remove, vec![]);
            }
        }
        for name in self.no_more(PACKS.1, document) {
            let shared = self
                .others
                .iter()
                .any(|product| listed(Some(&product.manifest), PACKS.1).contains_key(name.as_str()));
            let installed = packs::installed(&mut *self.db, self.workspace_id).await?;
            for there in installed.into_iter().filter(|one| one.name == name) {
                let detail = match (shared, there.objects) {
                    (true, _) => "another product uses it".to_owned(),
                    (false, 0) => {
                        packs::uninstall(&mut *self.db, self.workspace_id, there.id).await?;
                        self.note(PACKS.0, &name, Action::Remove, vec![]);
                        continue;
                    }
                    (false, objects) => format!("{objects} objects use its types"),
                };
                self.note(PACKS.0, &name, Action::Release, vec![detail]);
            }
        }
        Ok(())
    }
}
