//! `rejoin projects`: members and roles of a project, and its quotas. Directly in the database.
use anyhow::{Context, Result};
use clap::Subcommand;
use rejoin_identity::audit::Action as Act;
use rejoin_identity::workspaces::{self, MemberError, Quota, Role};
use serde_json::{Value, json};
use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

use crate::{database, exit::Exit, global::Global, keys, out::Out};

/// Manage projects, their members and quotas. Talks to the database. `rejoin keys create --create` creates a project.
///
/// Examples:
///   rejoin projects list
///   rejoin projects members --project acme
///   rejoin projects set-role --project acme --user bob viewer
///   rejoin projects remove-member --project acme --user bob
///   rejoin projects quota --project acme --runs-per-day 10000 --tokens-per-day 50000000
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    #[command(subcommand)]
    pub action: Action,
}

/// Whose.
#[derive(Debug, clap::Args)]
pub struct Which {
    /// Project, by name or id [default: that of `rejoin dev`, or the only one]
    #[arg(long, env = "REJOIN_PROJECT_ID", value_name = "NAME|ID")]
    pub project: Option<String>,
}

#[derive(Debug, Subcommand)]
pub enum Action {
    /// List all projects with their quotas.
    List,
    /// List a project's members with their roles.
    Members {
        #[command(flatten)]
        which: Which,
    },
    /// Change a member's role: owner, member, viewer, operator or service.
    SetRole {
        #[command(flatten)]
        which: Which,
        /// Member, by handle or id.
        #[arg(long, value_name = "HANDLE|ID")]
        user: String,
        #[arg(value_enum)]
        role: Role,
    },
    /// Remove a member: their keys no longer give access to the project.
    RemoveMember {
        #[command(flatten)]
        which: Which,
        /// Member, by handle or id.
        #[arg(long, value_name = "HANDLE|ID")]
        user: String,
    },
    /// Set a project's daily quota, from midnight to midnight UTC. A limit that is not given is removed.
    Quota {
        #[command(flatten)]
        which: Which,
        /// Maximum number of runs that may be started, not counting those of sub-agents.
        #[arg(long, value_parser = clap::value_parser!(i64).range(0..))]
        runs_per_day: Option<i64>,
        /// Maximum number of input and output tokens. Counted when a run ends, so active runs may exceed it.
        #[arg(long, value_parser = clap::value_parser!(i64).range(0..))]
        tokens_per_day: Option<i64>,
    },
}

/// # Errors
/// The database can't be reached, the user is ambiguous, or the last owner would be removed.
pub async fn run(global: &Global, args: Args, out: Out) -> Result<Exit> {
    let pool = database::connect(global).await?;
    match args.action {
        Action::List => list(&pool, out).await?,
        Action::Members { which } => {
            let project = database::project(&pool, which.project.as_deref()).await?;
            members(&pool, project, out).await?;
        }
        Action::SetRole { which, user, role } => {
            let (project, member) = find(&pool, &which, &user).await?;
            let mut tx = rejoin_db::begin(&pool)
                .await
                .context("beginning a transaction failed")?;
            done(workspaces::set_role(&mut tx, project, member, role).await)?;
            let detail = json!({ "role": role.as_str() });
            tell(&mut tx, project, Act::RoleSet, format!("user:{member}"), detail).await?;
            tx.commit().await.context("committing the new role failed")?;
            if out.is_json() {
                out.json(&json!({ "projectId": project, "userId": member, "role": role.as_str() }))?;
            } else {
                out.line(&format!("the role of {user} is now {}", role.as_str()))?;
            }
        }
        Action::RemoveMember { which, user } => {
            let (project, member) = find(&pool, &which, &user).await?;
            let mut tx = rejoin_db::begin(&pool)
                .await
                .context("beginning a transaction failed")?;
            done(workspaces::remove_member(&mut tx, project, member).await)?;
            tell(
                &mut tx,
                project,
                Act::MemberRemoved,
                format!("user:{member}"),
                json!({}),
            )
            .await?;
            tx.commit().await.context("committing the removal failed")?;
            if out.is_json() {
                out.json(&json!({ "projectId": project, "userId": member, "removed": true }))?;
            } else {
                out.line(&format!("{user} is no longer a member"))?;
            }
        }
        Action::Quota {
            which,
            runs_per_day,
            tokens_per_day,
        } => {
            let project = database::project(&pool, which.project.as_deref()).await?;
            let quota = Quota {
                runs_per_day,
                tokens_per_day,
            };
            let mut tx = rejoin_db::begin(&pool)
                .await
                .context("beginning a transaction failed")?;
            let set = workspaces::set_quota(&mut tx, project, quota).await;
            anyhow::ensure!(set.context("setting the quota failed")?, "the project no longer exists");
            let detail = json!({ "runsPerDay": runs_per_day, "tokensPerDay": tokens_per_day });
            tell(&mut tx, project, Act::QuotaSet, format!("project:{project}"), detail).await?;
            tx.commit().await.context("committing the quota failed")?;
            if out.is_json() {
                out.json(&json!({
                    "projectId": project, "runsPerDay": runs_per_day, "tokensPerDay": tokens_per_day
                }))?;
            } else {
                let bounds = format!("{} runs, {} tokens per day", shown(runs_per_day), shown(tokens_per_day));
                out.line(&bounds)?;
            }
        }
    }
    Ok(Exit::Done)
}

async fn tell(db: &mut PgConnection, project: Uuid, act: Act, target: String, detail: Value) -> Result<()> {
    let recorded = keys::record(db, Some(project), act, target, detail).await;
    recorded.context("writing the audit log failed")
}

async fn find(pool: &PgPool, which: &Which, user: &str) -> Result<(Uuid, Uuid)> {
    let project = database::project(pool, which.project.as_deref()).await?;
    Ok((project, keys::member(pool, project, Some(user)).await?))
}

fn done(changed: Result<(), MemberError>) -> Result<()> {
    changed.map_err(|error| match error {
        MemberError::NotFound => Exit::NotFound.because(error.to_string()).into(),
        MemberError::LastOwner | MemberError::Database(_) => error.into(),
    })
}

fn shown(bound: Option<i64>) -> String {
    bound.map_or_else(|| "unlimited".to_owned(), |bound| bound.to_string())
}

async fn list(pool: &PgPool, out: Out) -> Result<()> {
    let mut connection = pool.acquire().await.context("connecting to the database failed")?;
    let all = workspaces::all(&mut connection)
        .await
        .context("reading the projects failed")?;
    if out.is_json() {
        return out.json(&all);
    }
    let bound = |bound: Option<i64>| bound.map_or_else(|| "-".to_owned(), |bound| bound.to_string());
    let rows: Vec<[String; 5]> = all
        .into_iter()
        .map(|project| {
            [
                project.id.to_string(),
                project.name,
                project.members.to_string(),
                bound(project.runs_per_day),
                bound(project.tokens_per_day),
            ]
        })
        .collect();
    out.table(["ID", "NAME", "MEMBERS", "RUNS A DAY", "TOKENS A DAY"], &rows)
}

async fn members(pool: &PgPool, project: Uuid, out: Out) -> Result<()> {
    let mut connection = pool.acquire().await.context("connecting to the database failed")?;
    let members = workspaces::members(&mut connection, project).await;
    let members = members.context("reading the project's members failed")?;
    if out.is_json() {
        return out.json(&members);
    }
    let rows: Vec<[String; 4]> = members
        .into_iter()
        .map(|member| {
            let since = member.created_at.format("%Y-%m-%d").to_string();
            [member.user_id.to_string(), member.handle, member.role, since]
        })
        .collect();
    out.table(["USER", "HANDLE", "ROLE", "SINCE"], &rows)
}
