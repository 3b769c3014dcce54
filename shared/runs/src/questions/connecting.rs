//! Questions that wait until their user has connected an account at an MCP server
//! ([`Connects`](rejoin_tools::input::Connects)). The user can answer them; but connecting the account is the answer.

use sqlx::PgExecutor;
use uuid::Uuid;

/// A question whose account is connected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settled {
    pub id: Uuid,
    /// The run's user, who has connected it.
    pub user_id: Option<Uuid>,
}

/// Returns open questions whose user has agreed since they were asked, oldest first.
pub async fn settled(db: impl PgExecutor<'_>, limit: i64) -> Result<Vec<Settled>, sqlx::Error> {
    sqlx::query_as!(
        Settled,
        "select q.id, r.user_id
         from kb.questions q
         join kb.agent_runs r on r.id = q.run_id
         join kb.mcp_accounts a
             on a.server_id = (q.form_field -> 'connects' ->> 'serverId')::uuid and a.user_id = r.user_id and a.disconnected_at is null
         where q.status = 'pending' and q.form_field -> 'connects' is not null
           and (extract(epoch from a.authorized_at) * 1000000)::bigint > (q.form_field -> 'connects' ->> 'seen')::bigint
         order by q.created_at, q.id limit $1",
        limit
    )
    .fetch_all(db)
    .await
}
