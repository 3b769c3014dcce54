//! The context prompt of a conversation: the context type's prompt, the project in focus with its links, and the
//! subject of the previous turn. All of it is read from the database; only the focus comes from the client, and it can
//! only narrow what tools may touch.

use rejoin_runs::contexts::{self, Context, TurnContext, location};
use rejoin_runs::runs::Run;
use rejoin_runs::turn_records::TurnRecords;
use serde_json::Value;

use crate::services::Services;

pub struct ContextPrompt {
    /// The addition to the agent's prompt.
    pub prompt: String,
    /// For a conversation's turn; sub-agents and tasks have none.
    pub turn: Option<TurnContext>,
}

/// None: the run has no context.
pub async fn of(services: &Services, run: &Run, records: &TurnRecords) -> Result<Option<ContextPrompt>, sqlx::Error> {
    let db = &services.db.pool_sqlx;
    let (context, last_turn, is_turn) = match (run.conversation_id, run.message_id) {
        (Some(_), Some(_)) if !run.is_sub_agent() => (records.turn_context(), records.last_turn.clone(), true),
        (_, _) => (run.about(), None, false),
    };
    let Some(mut context) = context else {
        return Ok(None);
    };
    let settings = contexts::settings(db, run.workspace_id, context.context_type).await?;
    let mut prompt = format!("\n\n# Where the user is\n{}\n", settings.prompt);
    if let Some(focus) = &mut context.focus {
        prompt.push_str(
            &location::of(&mut *db.acquire().await?, run.workspace_id, focus)
                .await?
                .to_prompt(),
        );
    }
    if let Some(last_turn) = &last_turn {
        prompt.push_str(&previous_turn(last_turn));
    }
    let turn = is_turn.then(|| TurnContext {
        context,
        before: records.context.clone(),
        last_turn,
        // Of all initial messages, known later.
        usage: Value::Null,
    });
    Ok(Some(ContextPrompt { prompt, turn }))
}

fn previous_turn(last_turn: &Value) -> String {
    let used: Vec<&str> = last_turn["data_accessed"]
        .as_array()
        .map(|tools| tools.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default();
    format!(
        "\nThe previous turn began with \"{}\"; it used the tools: {}{}.\n",
        last_turn["summary"].as_str().unwrap_or_default(),
        if used.is_empty() {
            "none".to_owned()
        } else {
            used.join(", ")
        },
        if last_turn["entities"]
            .as_object()
            .is_none_or(|entities| entities.is_empty())
        {
            String::new()
        } else {
            format!("; it was about: {}", last_turn["entities"])
        }
    )
}

/// Applies a context change by a tool to the run.
pub fn set_context(run: &mut Run, context: &Context) {
    run.context = Some(context.to_json());
}
