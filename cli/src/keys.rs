//! `rejoin keys`: API keys, directly in the database. Only it can create the first key of a fleet.
//!
//! Invariant: a key is shown once, when it is created; only its hash is stored.
use anyhow::{Context, Result, ensure};
use clap::Subcommand;
use rejoin_identity::audit::{self, Action as Act, Actor, NewEntry};
use rejoin_identity::auth;
use rejoin_identity::workspaces::{self, Role};
use rejoin_runs::agents;
use rejoin_types::access::{Grant, Scope};
use serde_json::{Value, json};
use sqlx::{Connection, PgConnection, PgPool};
use uuid::Uuid;

use crate::{database, exit::Exit, global::Global, out::Out};

const DAY_S: i64 = 24 * 60 * 60;

/// Create, list and revoke API keys. Talks to the database.
///
/// A key belongs to a user and gives access to one project, or with --all-projects to all projects of the user. It is shown only once,
/// when it is created.
///
/// Examples:
///   rejoin keys create --project acme --user ann --create      the first key of a new project
///   rejoin keys create --name laptop --scopes read,write
///   rejoin keys create --name ci --expires-in-days 30 --json | jq -r .key
///   rejoin keys list
///   rejoin keys revoke 0192f0c1-…
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    #[command(subcommand)]
    pub action: Action,
}

#[derive(Debug, Subcommand)]
pub enum Action {
    /// Create a key and print it. It is shown only this once.
    Create {
        /// Name of the key, e.g. what it is used for.
        #[arg(long, default_value = "key")]
        name: String,
        /// Project, by name or id [default: that of `rejoin dev`, or the only one]
        #[arg(long, env = "REJOIN_PROJECT_ID", value_name = "NAME|ID")]
        project: Option<String>,
        /// User, by handle or id [default: the project's only one]
        #[arg(long, value_name = "HANDLE|ID")]
        user: Option<String>,
        /// Scopes of the key: `read`, `write` (chat and cancel), `admin` (manage agents), `worker` (serve tools), `worker:QUEUE` and
        /// `worker:QUEUE/TOOL` (serve one queue, or one tool of it). At most those of its user.
        #[arg(long, value_delimiter = ',', default_values = ["read", "write"])]
        scopes: Vec<Grant>,
        /// Number of days after which the key expires.
        #[arg(long, value_name = "DAYS", value_parser = clap::value_parser!(i64).range(1..=36_500))]
        expires_in_days: Option<i64>,
        /// Give access to all projects of the user, also those that the user joins later. Requests choose one with X-Project-ID, and
        /// browsers that sign in with the key can switch between them.
        #[arg(long)]
        all_projects: bool,
        /// Create the project (with the default agents; the user owns it) and the user if they do not exist.
        #[arg(long, requires = "project", requires = "user")]
        create: bool,
    },
    /// List a project's keys with user, scopes and expiry. The keys themselves are not shown.
    List {
        /// Project, by name or id [default: that of `rejoin dev`, or the only one]
        #[arg(long, env = "REJOIN_PROJECT_ID", value_name = "NAME|ID")]
        project: Option<String>,
    },
    /// Revoke a key and close its open streams. Safe to repeat.
    Revoke {
        /// The key's id, as `list` shows it.
        key: Uuid,
    },
}

/// # Errors
/// The database can't be reached, or the user is ambiguous.
pub async fn run(global: &Global, args: Args, out: Out) -> Result<Exit> {
    let pool = database::connect(global).await?;
    match args.action {
        Action::Create {
            name,
            project,
            user,
            scopes,
            expires_in_days,
            all_projects,
            create,
        } => {
            let expires_in_s = expires_in_days.map(|days| days * DAY_S);
            let (project, user) = if create {
                let (project, user) = (project.unwrap_or_default(), user.unwrap_or_default());
                make(&pool, &project, &user, Role::for_scopes(&scopes_of(&scopes))).await?
            } else {
                let project = database::project(&pool, project.as_deref()).await?;
                (project, member(&pool, project, user.as_deref()).await?)
            };
            let mut connection = pool.acquire().await.context("connecting to the database failed")?;
            refuse_more_than_the_role(&mut connection, project, user, &scopes_of(&scopes)).await?;
            let only = (!all_projects).then_some(project);
            let made = make_key(&mut connection, user, only, &name, &scopes, expires_in_s).await;
            let (id, key) = made.context("creating the key failed")?;
            if out.is_json() {
                let scopes: Vec<String> = scopes.iter().map(Grant::to_string).collect();
                out.json(&json!({
                    "id": id, "key": key, "name": name, "projectId": only, "userId": user, "scopes": scopes
                }))?;
            } else {
                out.line(&key)?;
                out.note(&format!(
                    "This is the key {id}, shown once. Use it: export REJOIN_API_KEY=…"
                ));
            }
        }
        Action::List { project } => {
            let project = database::project(&pool, project.as_deref()).await?;
            list(&pool, project, out).await?;
        }
        Action::Revoke { key } => {
            let revoked = revoke_key(&pool, key).await.context("revoking the key failed")?;
            if !revoked {
                return Err(Exit::NotFound
                    .because(format!("there is no key {key} (`rejoin keys list`)"))
                    .into());
            }
            if out.is_json() {
                out.json(&json!({ "id": key, "revoked": true }))?;
            } else {
                out.line(&format!("the key {key} is revoked"))?;
            }
        }
    }
    Ok(Exit::Done)
}

fn scopes_of(grants: &[Grant]) -> Vec<Scope> {
    grants.iter().map(Grant::scope).collect()
}

async fn list(pool: &PgPool, project: Uuid, out: Out) -> Result<()> {
    let keys = auth::list_keys(pool, project)
        .await
        .context("reading the keys failed")?;
    if out.is_json() {
        return out.json(&keys);
    }
    out.note(&format!("Keys of the project {project}:"));
    let now = database::now(pool).await?;
    let day = |time: chrono::DateTime<chrono::Utc>| time.format("%Y-%m-%d").to_string();
    let rows: Vec<[String; 7]> = keys
        .into_iter()
        .map(|key| {
            let state = match (key.revoked_at, key.expires_at) {
                (Some(at), _) => format!("revoked {}", day(at)),
                (None, Some(at)) if at <= now => format!("expired {}", day(at)),
                (None, Some(at)) => format!("until {}", day(at)),
                (None, None) => "valid".to_owned(),
            };
            [
                key.id.to_string(),
                key.name,
                format!("{}…", key.prefix),
                key.user_id.to_string(),
                key.scopes.join(","),
                day(key.created_at),
                state,
            ]
        })
        .collect();
    out.table(["ID", "NAME", "BEGINS WITH", "USER", "SCOPES", "MADE", "STATE"], &rows)
}

/// Returns the project's member with this handle or id; without one, its only member.
pub(crate) async fn member(pool: &PgPool, project: Uuid, asked: Option<&str>) -> Result<Uuid> {
    let members: Vec<(Uuid, String)> = sqlx::query_as(
        "select u.id, u.handle from kb.project_members m join kb.users u on u.id = m.user_id
         where m.project_id = $1 order by m.created_at",
    )
    .bind(project)
    .fetch_all(pool)
    .await
    .context("reading the project's members failed")?;
    let handles: Vec<&str> = members.iter().map(|(_, handle)| handle.as_str()).collect();
    let among = format!("the members are {}", handles.join(", "));
    match (asked, members.as_slice()) {
        (None, [(only, _)]) => Ok(*only),
        (None, _) => anyhow::bail!("no user given: pass --user HANDLE or ID; {among}"),
        (Some(asked), members) => match members
            .iter()
            .find(|(id, handle)| handle == asked || id.to_string() == asked)
        {
            Some((id, _)) => Ok(*id),
            None => {
                let message = format!("{asked:?} is not a member of this project; {among} (--create adds one)");
                Err(Exit::NotFound.because(message).into())
            }
        },
    }
}

/// Refuses a key whose scopes exceed the role: it would not work as stated.
async fn refuse_more_than_the_role(db: &mut PgConnection, project: Uuid, user: Uuid, scopes: &[Scope]) -> Result<()> {
    let role = workspaces::role_of(db, project, user).await;
    let role = role
        .context("reading the user's role failed")?
        .context("the user has just left the project")?;
    ensure!(
        role.allows(scopes),
        "the user is a {} of the project, and a key cannot have more scopes than its user; pass fewer --scopes \
        (allowed: {}), or change the user's role first (`rejoin projects set-role`)",
        role.as_str(),
        role.scopes()
            .iter()
            .map(|scope| scope.as_str())
            .collect::<Vec<_>>()
            .join(",")
    );
    Ok(())
}

/// Creates the project and the user if missing, in one transaction.
async fn make(pool: &PgPool, project: &str, user: &str, role: Role) -> Result<(Uuid, Uuid)> {
    ensure!(
        !project.trim().is_empty() && !user.trim().is_empty(),
        "the project's and the user's name must not be empty"
    );
    let mut tx = rejoin_db::begin(pool).await.context("beginning a transaction failed")?;
    let made = ensure_workspace(&mut tx, project, user, role).await?;
    tx.commit().await.context("committing the new project failed")?;
    Ok(made)
}

/// Returns the project with this name or id, created if missing with its default agents; the user owns a new project,
/// and otherwise becomes a member with this role, unless they are one.
pub(crate) async fn ensure_workspace(
    db: &mut PgConnection,
    project: &str,
    user: &str,
    role: Role,
) -> Result<(Uuid, Uuid)> {
    let known: Option<Uuid> = match project.parse::<Uuid>() {
        Ok(id) => sqlx::query_scalar("select id from kb.projects where id = $1")
            .bind(id)
            .fetch_optional(&mut *db)
            .await
            .context("looking up the project failed")?,
        Err(_) => workspaces::find_by_name(db, project)
            .await
            .context("looking up the project failed")?,
    };
    let id = match known {
        Some(id) => id,
        None => workspaces::create(db, project)
            .await
            .context("creating the project failed")?,
    };
    let user = workspaces::ensure_user(db, user)
        .await
        .context("creating the user failed")?;
    let role = if known.is_none() { Role::Owner } else { role };
    workspaces::add_member(db, id, user, role)
        .await
        .context("adding the user to the project failed")?;
    if known.is_none() {
        for definition in agents::defaults() {
            // An existing agent of the same name is kept.
            let _taken = agents::insert(db, id, &definition)
                .await
                .with_context(|| format!("adding the agent {} failed", definition.name))?;
        }
        let names: Vec<String> = agents::defaults()
            .into_iter()
            .map(|definition| definition.name)
            .collect();
        let (target, detail) = (format!("project:{id}"), json!({ "names": names }));
        record(db, Some(id), Act::DefaultsInstalled, target, detail)
            .await
            .context("writing the audit log failed")?;
    }
    Ok((id, user))
}

/// Creates a key for this project, or for all of the user's, and records it in the audit log.
pub(crate) async fn make_key(
    db: &mut PgConnection,
    user: Uuid,
    project: Option<Uuid>,
    name: &str,
    grants: &[Grant],
    expires_in_s: Option<i64>,
) -> Result<(Uuid, String), sqlx::Error> {
    let mut tx = db.begin().await?;
    let made = auth::create_key_with(&mut tx, user, project, name, grants, expires_in_s).await?;
    let words: Vec<String> = grants.iter().map(Grant::to_string).collect();
    let detail = json!({ "name": name, "userId": user, "scopes": words, "expiresInS": expires_in_s });
    record(&mut tx, project, Act::KeyCreated, format!("api_key:{}", made.0), detail).await?;
    tx.commit().await?;
    Ok(made)
}

/// Revokes a key, and records the first revocation in the audit log; false if it does not exist.
async fn revoke_key(pool: &PgPool, key: Uuid) -> Result<bool, sqlx::Error> {
    let mut tx = rejoin_db::begin(pool).await?;
    let found: Option<(Option<Uuid>, bool)> =
        sqlx::query_as("select project_id, revoked_at is null from kb.api_keys where id = $1 for update")
            .bind(key)
            .fetch_optional(&mut *tx)
            .await?;
    let Some((project, open)) = found else { return Ok(false) };
    auth::revoke_key(&mut *tx, key).await?;
    if open {
        record(&mut tx, project, Act::KeyRevoked, format!("api_key:{key}"), json!({})).await?;
    }
    tx.commit().await?;
    Ok(true)
}

/// Appends an operator's entry to the audit log. The last statement before the commit.
pub(crate) async fn record(
    db: &mut PgConnection,
    workspace_id: Option<Uuid>,
    action: Act,
    target: String,
    detail: Value,
) -> Result<(), sqlx::Error> {
    let entry = NewEntry {
        by: &Actor::operator(),
        workspace_id,
        action,
        target,
        detail,
    };
    audit::append(db, &entry).await?;
    Ok(())
}
