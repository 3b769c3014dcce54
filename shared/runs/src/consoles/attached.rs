//! Consoles of a conversation: those attached to a message, the pinned one, and those found by a run.

use serde_json::Value;
use sqlx::{PgConnection, PgExecutor};
use uuid::Uuid;

use super::{Console, NewConsole, Writer, get, insert, write};
use rejoin_types::owner::Owner;

/// Maximum number of consoles attached to one message.
pub const ATTACHED_MAX: usize = 20;

/// A console attached to a message.
#[derive(Debug, Clone, PartialEq)]
pub struct Attached {
    pub id: Uuid,
    /// Its data, if the server does not know it yet.
    pub new: NewConsole,
    /// The text as the user sees it, and the version that it is based on.
    pub text: Option<(String, i32)>,
}

/// Attaches a message's consoles: new ones are stored as temporary; texts changed by the user are saved; the first one
/// is pinned to the conversation, if none is. Unmergeable texts stay unchanged: the user's own save reports the
/// conflict.
pub async fn attach(
    db: &mut PgConnection,
    owner: Owner,
    conversation_id: Uuid,
    consoles: &[Attached],
) -> Result<(), sqlx::Error> {
    let mut first = None;
    for attached in consoles {
        let new = NewConsole {
            conversation_id: Some(conversation_id),
            is_temporary: true,
            ..attached.new.clone()
        };
        if get(&mut *db, owner, attached.id).await?.is_some() {
            if let Some((text, version)) = &attached.text {
                write(db, owner, attached.id, Some(*version), Writer::User, |_| {
                    Ok(text.clone())
                })
                .await?;
            }
        } else if !insert(db, owner, attached.id, &new, Writer::User).await? {
            // Deleted, or owned by another user.
            continue;
        }
        first = first.or(Some(attached.id));
    }
    let Some(first) = first else { return Ok(()) };
    sqlx::query!(
        "update kb.chat_conversations set pinned_console_id = coalesce(pinned_console_id, $2) where id = $1",
        conversation_id,
        first
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Pins a console to the owner's conversation, or unpins it. False: one of both does not exist.
pub async fn pin(
    db: &mut PgConnection,
    owner: Owner,
    conversation_id: Uuid,
    console_id: Option<Uuid>,
) -> Result<bool, sqlx::Error> {
    if let Some(id) = console_id
        && get(&mut *db, owner, id).await?.is_none()
    {
        return Ok(false);
    }
    let pinned = sqlx::query!(
        "update kb.chat_conversations set pinned_console_id = $2 where id = $1 and project_id = $3 and owner_user_id = $4",
        conversation_id,
        console_id as _,
        owner.workspace_id,
        owner.user_id
    );
    Ok(pinned.execute(db).await?.rows_affected() == 1)
}

/// The console pinned to the owner's conversation.
pub async fn pinned(
    db: &mut PgConnection,
    owner: Owner,
    conversation_id: Uuid,
) -> Result<Option<Console>, sqlx::Error> {
    let id = sqlx::query_scalar!(
        "select pinned_console_id from kb.chat_conversations where id = $1 and project_id = $2 and owner_user_id = $3",
        conversation_id,
        owner.workspace_id,
        owner.user_id
    );
    match id.fetch_optional(&mut *db).await?.flatten() {
        Some(id) => get(db, owner, id).await,
        None => Ok(None),
    }
}

/// The consoles of a run: its tree's conversation, the pinned console, the active one when the user wrote, and all
/// attached to the message.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ConsoleContext {
    pub conversation_id: Option<Uuid>,
    pub pinned: Option<Uuid>,
    pub active: Option<Uuid>,
    pub attached: Vec<Uuid>,
}

pub async fn console_context(db: impl PgExecutor<'_>, run_id: Uuid) -> Result<ConsoleContext, sqlx::Error> {
    let row = sqlx::query!(
        r#"select root.conversation_id, c.pinned_console_id as "pinned_console_id?", m.metadata -> 'attachedContext' as context
           from kb.agent_runs r join kb.agent_runs root on root.id = r.root_run_id
           left join kb.chat_conversations c on c.id = root.conversation_id
           left join kb.chat_messages m on m.id = root.message_id
           where r.id = $1"#,
        run_id
    )
    .fetch_optional(db)
    .await?;
    let Some(row) = row else {
        return Ok(ConsoleContext::default());
    };
    let context = row.context.unwrap_or_default();
    let id = |value: &Value| value.as_str().and_then(|text| Uuid::parse_str(text).ok());
    let attached = context["consoles"].as_array();
    Ok(ConsoleContext {
        conversation_id: row.conversation_id,
        pinned: row.pinned_console_id,
        active: id(&context["consoleId"]),
        attached: attached
            .into_iter()
            .flatten()
            .filter_map(|one| id(&one["id"]))
            .collect(),
    })
}
