//! Usage of a run and of its tree: time, steps, tokens, money.

use sqlx::PgExecutor;
use uuid::Uuid;

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
