//! `rejoin projects`: who is in a project and as what, and what it may use up. Straight to the database.
use anyhow::{Context, Result};
use clap::Subcommand;
use rejoin_shared::audit::Action as Act;
use rejoin_shared::projects::{self, MemberError, Quota, Role};
use serde_json::{Value, json};
use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

use crate::{database, exit::Exit, global::Global, keys, out::Out};

/// Projects, their members and their quotas. Talks to the database. `rejoin keys create --create` makes a project.
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
    /// The project, by name or id [default: that of `rejoin dev`, or the only one]
    #[arg(long, env = "REJOIN_PROJECT_ID", value_name = "NAME|ID")]
    pub project: Option<String>,
}

#[derive(Debug, Subcommand)]
pub enum Action {
    /// All projects, with their quotas.
    List,
    /// Who is in a project, and as what.
    Members {
        #[command(flatten)]
        which: Which,
    },
    /// Make a member something else: owner, member, viewer, operator or service.
    SetRole {
        #[command(flatten)]
        which: Which,
        /// The member, by handle or id.
        #[arg(long, value_name = "HANDLE|ID")]
        user: String,
        #[arg(value_enum)]
        role: Role,
    },
    /// Take a member out: their keys open the project no longer.
    RemoveMember {
        #[command(flatten)]
        which: Which,
        /// The member, by handle or id.
        #[arg(long, value_name = "HANDLE|ID")]
        user: String,
    },
    /// Bound what a project may use up from midnight to midnight, UTC. What is not given is not bounded any more.
    Quota {
        #[command(flatten)]
        which: Which,
        /// Runs that may be begun, those of sub-agents not counted.
        #[arg(long, value_parser = clap::value_parser!(i64).range(0..))]
        runs_per_day: Option<i64>,
        /// Tokens that models may read and write; counted when a run ends, so that those under way may go beyond it.
        #[arg(long, value_parser = clap::value_parser!(i64).range(0..))]
        tokens_per_day: Option<i64>,
    },
}

/// # Errors
/// The database can't be reached, it is not clear who is meant, or the last owner would go.
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
            let mut tx = pool.begin().await.context("can't begin a transaction")?;
            done(projects::set_role(&mut tx, project, member, role).await)?;
            let detail = json!({ "role": role.as_str() });
            tell(&mut tx, project, Act::RoleSet, format!("user:{member}"), detail).await?;
            tx.commit().await.context("can't commit the new role")?;
            if out.is_json() {
                out.json(&json!({ "projectId": project, "userId": member, "role": role.as_str() }))?;
            } else {
                out.line(&format!("{user} is now: {}", role.as_str()))?;
            }
        }
        Action::RemoveMember { which, user } => {
            let (project, member) = find(&pool, &which, &user).await?;
            let mut tx = pool.begin().await.context("can't begin a transaction")?;
            done(projects::remove_member(&mut tx, project, member).await)?;
            tell(
                &mut tx,
                project,
                Act::MemberRemoved,
                format!("user:{member}"),
                json!({}),
            )
            .await?;
            tx.commit().await.context("can't commit the removal")?;
            if out.is_json() {
                out.json(&json!({ "projectId": project, "userId": member, "removed": true }))?;
            } else {
                out.line(&format!("{user} is no member any more"))?;
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
            let mut tx = pool.begin().await.context("can't begin a transaction")?;
            let set = projects::set_quota(&mut tx, project, quota).await;
            anyhow::ensure!(set.context("can't set the quota")?, "the project has just gone");
            let detail = json!({ "runsPerDay": runs_per_day, "tokensPerDay": tokens_per_day });
            tell(&mut tx, project, Act::QuotaSet, format!("project:{project}"), detail).await?;
            tx.commit().await.context("can't commit the quota")?;
            if out.is_json() {
                out.json(&json!({
                    "projectId": project, "runsPerDay": runs_per_day, "tokensPerDay": tokens_per_day
                }))?;
            } else {
                let bounds = format!("{} runs, {} tokens a day", shown(runs_per_day), shown(tokens_per_day));
                out.line(&bounds)?;
            }
        }
    }
    Ok(Exit::Done)
}

async fn tell(db: &mut PgConnection, project: Uuid, act: Act, target: String, detail: Value) -> Result<()> {
    let told = keys::record(db, Some(project), act, target, detail).await;
    told.context("can't write the audit log")
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
    bound.map_or_else(|| "any number of".to_owned(), |bound| bound.to_string())
}

async fn list(pool: &PgPool, out: Out) -> Result<()> {
    let mut connection = pool.acquire().await.context("can't connect to the database")?;
    let all = projects::all(&mut connection)
        .await
        .context("can't read the projects")?;
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
    let mut connection = pool.acquire().await.context("can't connect to the database")?;
    let members = projects::members(&mut connection, project).await;
    let members = members.context("can't read the project's members")?;
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
