//! The calls of client tools: each is a question of its run, answered with the tool's output. Found by the call's id,
//! which is what clients know.

use rejoin_types::owner::Owner;
use serde_json::Value;
use sqlx::PgExecutor;
use uuid::Uuid;

/// Maximum number of waiting calls in one list.
const LIST_MAX: i64 = 200;

/// Where a call is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallsOf {
    Run(Uuid),
    /// In any run of the conversation.
    Conversation(Uuid),
}

impl CallsOf {
    /// Returns (run, conversation).
    fn ids(self) -> (Option<Uuid>, Option<Uuid>) {
        match self {
            Self::Run(id) => (Some(id), None),
            Self::Conversation(id) => (None, Some(id)),
        }
    }
}

/// A call of a client tool.
#[derive(Debug, Clone, PartialEq)]
pub struct ClientCall {
    pub question_id: Uuid,
    pub run_id: Uuid,
    pub log_id: Uuid,
    pub call_id: String,
    pub tool: String,
    pub input: Value,
    /// `pending`, `answered`, `expired` or `cancelled`.
    pub status: String,
}

/// Returns the calls whose output the client owes, oldest first, in runs that `owner` may see.
pub async fn pending(db: impl PgExecutor<'_>, owner: Owner, of: CallsOf) -> Result<Vec<ClientCall>, sqlx::Error> {
    let (run, conversation) = of.ids();
    sqlx::query_as!(
        ClientCall,
        "select q.id as question_id, r.id as run_id, r.log_id, c.call_id, c.tool_name as tool, c.input, q.status
         from kb.questions q
         join kb.agent_runs r on r.id = q.run_id
         join kb.agent_run_tool_calls c on c.id = q.tool_call_id
         where q.run_id in (select id from kb.agent_runs where id = $3
                            union all
                            select id from kb.agent_runs where conversation_id = $4)
           and q.kind = 'client_tool' and q.status = 'pending' and q.project_id = $1
           and (r.conversation_id is null and coalesce(r.user_id = $2, true)
                or exists (select from kb.chat_conversations v where v.id = r.conversation_id and v.owner_user_id = $2))
         order by q.created_at, c.step_number, c.position
         limit $5",
        owner.workspace_id,
        owner.user_id,
        run as _,
        conversation as _,
        LIST_MAX
    )
    .fetch_all(db)
    .await
}

/// Returns the call with this id, in runs that `owner` may see: a waiting one, else the newest one.
pub async fn find(
    db: impl PgExecutor<'_>,
    owner: Owner,
    of: CallsOf,
    call_id: &str,
) -> Result<Option<ClientCall>, sqlx::Error> {
    let (run, conversation) = of.ids();
    sqlx::query_as!(
        ClientCall,
        "select q.id as question_id, r.id as run_id, r.log_id, c.call_id, c.tool_name as tool, c.input, q.status
         from kb.questions q
         join kb.agent_runs r on r.id = q.run_id
         join kb.agent_run_tool_calls c on c.id = q.tool_call_id
         where q.run_id in (select id from kb.agent_runs where id = $3
                            union all
                            select id from kb.agent_runs where conversation_id = $4)
           and q.kind = 'client_tool' and c.call_id = $5 and q.project_id = $1
           and (r.conversation_id is null and coalesce(r.user_id = $2, true)
                or exists (select from kb.chat_conversations v where v.id = r.conversation_id and v.owner_user_id = $2))
         order by q.status = 'pending' desc, q.created_at desc, q.id desc
         limit 1",
        owner.workspace_id,
        owner.user_id,
        run as _,
        conversation as _,
        call_id
    )
    .fetch_optional(db)
    .await
}
