//! Validates writes against the schemas of the workspace's installed packs (`packs`). Called by every write of objects
//! and relationships, in its transaction: until it ends, none of the packs used can be uninstalled.
//!
//! A type that no active pack defines is not validated: the graph is open. If several packs define it, all of them
//! apply.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use serde_json::Value;
use sqlx::PgConnection;
use uuid::Uuid;

use super::Error;
use super::packs::{self, RelationshipType};
use rejoin_schemas::Validator;

/// Maximum number of workspaces whose compiled rules are cached.
const REMEMBERED: usize = 1_000;

/// The validation rules of a workspace.
#[derive(Debug, Default)]
pub struct Rules {
    objects: HashMap<String, Vec<Rule>>,
    relationships: HashMap<String, Vec<RelationshipRule>>,
}

#[derive(Debug)]
struct Rule {
    /// `name@version` of its pack.
    pack: String,
    validator: Validator,
}

#[derive(Debug)]
struct RelationshipRule {
    pack: String,
    from: Vec<String>,
    to: Vec<String>,
    validator: Option<Validator>,
}

/// A workspace's rules, with the installed packs at their compilation.
type Remembered = (Vec<String>, Arc<Rules>);

static KNOWN: LazyLock<Mutex<HashMap<Uuid, Remembered>>> = LazyLock::new(Mutex::default);

impl Rules {
    /// Returns the workspace's rules. Locks their packs, shared, until the transaction ends.
    pub async fn of(db: &mut PgConnection, workspace_id: Uuid) -> Result<Arc<Self>, Error> {
        let installed: Vec<String> = sqlx::query_scalar!(
            r#"select a.id::text || ' ' || a.updated_at::text as "state!"
               from kb.template_assignments a where a.project_id = $1 and a.active order by a.id for share"#,
            workspace_id
        )
        .fetch_all(&mut *db)
        .await
        .map_err(Error::database("look for what is installed"))?;
        if installed.is_empty() {
            return Ok(Arc::default());
        }
        let known = KNOWN
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(&workspace_id)
            .cloned();
        if let Some((state, rules)) = known
            && state == installed
        {
            return Ok(rules);
        }
        let rules = Arc::new(Self::compile(db, workspace_id).await?);
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= REMEMBERED {
            known.clear();
        }
        known.insert(workspace_id, (installed, rules.clone()));
        Ok(rules)
    }

    async fn compile(db: &mut PgConnection, workspace_id: Uuid) -> Result<Self, Error> {
        let rows = sqlx::query!(
            "select p.name, p.version, p.object_types, p.relationship_types, a.enabled_types, a.disabled_types
             from kb.template_assignments a join kb.template_packs p on p.id = a.pack_id
             where a.project_id = $1 and a.active order by a.created_at, a.id",
            workspace_id
        )
        .fetch_all(db)
        .await
        .map_err(Error::database("read what is installed"))?;
        let mut rules = Self::default();
        for row in rows {
            let pack = format!("{}@{}", row.name, row.version);
            let counts = |name: &str| {
                row.enabled_types
                    .as_ref()
                    .is_none_or(|enabled| enabled.iter().any(|one| one == name))
                    && !row.disabled_types.iter().any(|one| one == name)
            };
            for (name, schema) in row.object_types.as_object().into_iter().flatten() {
                if counts(name) {
                    // It was compiled when the pack was created.
                    let validator = packs::compiled(name, schema).map_err(Error::Invalid)?;
                    let pack = pack.clone();
                    rules
                        .objects
                        .entry(name.clone())
                        .or_default()
                        .push(Rule { pack, validator });
                }
            }
            for (name, described) in row.relationship_types.as_object().into_iter().flatten() {
                if counts(name) {
                    let described: RelationshipType = serde_json::from_value(described.clone()).unwrap_or_default();
                    let validator = match &described.schema {
                        Some(schema) => Some(packs::compiled(name, schema).map_err(Error::Invalid)?),
                        None => None,
                    };
                    rules
                        .relationships
                        .entry(name.clone())
                        .or_default()
                        .push(RelationshipRule {
                            pack: pack.clone(),
                            from: described.from,
                            to: described.to,
                            validator,
                        });
                }
            }
        }
        Ok(rules)
    }

    pub fn is_empty(&self) -> bool {
        self.objects.is_empty() && self.relationships.is_empty()
    }

    /// Validates an object; returns the pack of its type's schema, if any. Err: what is wrong, for the author.
    pub fn object(&self, object_type: &str, properties: &Value) -> Result<Option<&str>, String> {
        let rules = self.objects.get(object_type).map(Vec::as_slice).unwrap_or_default();
        for rule in rules {
            held(&rule.validator, properties, object_type, &rule.pack)?;
        }
        Ok(rules.last().map(|rule| rule.pack.as_str()))
    }

    /// Validates a relationship between objects of these types, as far as they are known.
    pub fn relationship(
        &self,
        relationship_type: &str,
        (from, to): (Option<&str>, Option<&str>),
        properties: &Value,
    ) -> Result<(), String> {
        let rules = self
            .relationships
            .get(relationship_type)
            .map(Vec::as_slice)
            .unwrap_or_default();
        for rule in rules {
            for (end, actual, allowed) in [("come from", from, &rule.from), ("go to", to, &rule.to)] {
                let Some(actual) = actual else { continue };
                if !allowed.is_empty() && !allowed.iter().any(|one| one == actual) {
                    return Err(format!(
                        "a {relationship_type} relationship cannot {end} a {actual}, only: {} ({})",
                        allowed.join(", "),
                        rule.pack
                    ));
                }
            }
            if let Some(validator) = &rule.validator {
                held(validator, properties, relationship_type, &rule.pack)?;
            }
        }
        Ok(())
    }
}

/// Returns the violations of properties, if any.
pub(super) fn held(validator: &Validator, properties: &Value, of: &str, pack: &str) -> Result<(), String> {
    let faults = rejoin_schemas::faults(validator, properties);
    if faults.is_empty() {
        Ok(())
    } else {
        Err(format!(
            "the properties violate the schema of {of} ({pack}): {}",
            faults.join("; ")
        ))
    }
}
