//! Usage of a run and of its tree: time, steps, tokens, money.

use serde_json::Value;
use sqlx::{PgConnection, PgExecutor};
use uuid::Uuid;

use super::Run;

/// The active time of a run and of its tree, by the database's clock; and the tree's usage.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Clocks {
    /// Active time of this turn, excluding waits, in seconds.
    pub age_s: f64,
    /// Active time of the root's turn, excluding waits for users, in seconds.
    pub tree_age_s: f64,
    pub used: TreeUse,
}

pub async fn clocks(db: impl PgExecutor<'_>, id: Uuid) -> Result<Clocks, sqlx::Error> {
    let row = sqlx::query!(
        r#"select extract(epoch from now() - r.started_at)::float8 - r.waited_s as age_s,
                  extract(epoch from now() - root.started_at)::float8 - root.person_s
                    - case when root.questions_open > 0 then extract(epoch from now() - root.questions_since)::float8 else 0 end
                    as tree_age_s,
                  root.tree_tokens as "tokens!", root.tree_cost_usd as "cost_usd!"
           from kb.agent_runs r join kb.agent_runs root on root.id = r.root_run_id where r.id = $1"#,
        id
    )
    .fetch_one(db)
    .await?;
    Ok(Clocks {
        age_s: row.age_s.unwrap_or_default(),
        tree_age_s: row.tree_age_s.unwrap_or_default(),
        used: TreeUse {
            tokens: row.tokens,
            cost_usd: row.cost_usd,
        },
    })
}

/// The usage of a whole run tree.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct TreeUse {
    pub tokens: i64,
    pub cost_usd: f64,
}

/// Counts a step of a run, and adds its usage (tokens, dollars) to the tree; returns the tree's sum. The caller holds
/// the log's lock.
pub async fn record_step(
    db: &mut PgConnection,
    run: &Run,
    step: i32,
    usage: &Value,
    seq: i64,
    (tokens, cost_usd): (u64, f64),
) -> Result<TreeUse, sqlx::Error> {
    let tokens = i64::try_from(tokens).unwrap_or(i64::MAX);
    let of_root = !run.is_sub_agent();
    let own = sqlx::query_as!(
        TreeUse,
        r#"update kb.agent_runs
           set step_count = $2, total_steps = greatest(total_steps, $2), usage = $3, safe_seq = $4,
               tree_tokens = tree_tokens + case when $5 then $6::bigint else 0 end,
               tree_cost_usd = tree_cost_usd + case when $5 then $7::float8 else 0 end
           where id = $1
           returning tree_tokens as tokens, tree_cost_usd as cost_usd"#,
        run.id,
        step,
        usage,
        seq,
        of_root,
        tokens,
        cost_usd
    )
    .fetch_one(&mut *db)
    .await?;
    if of_root {
        return Ok(own);
    }
    sqlx::query_as!(
        TreeUse,
        r#"update kb.agent_runs set tree_tokens = tree_tokens + $2, tree_cost_usd = tree_cost_usd + $3 where id = $1
           returning tree_tokens as tokens, tree_cost_usd as cost_usd"#,
        run.root_run_id,
        tokens,
        cost_usd
    )
    .fetch_one(db)
    .await
}
