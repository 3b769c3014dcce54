//! What programs publish while they work: text that the function of an agent writes, as tokens of its run, and their own events, which any
//! function of a run emits.

use rejoin_event_log::wakeup::Wake;
use rejoin_faults::Fault;
use serde_json::Value;
use sqlx::{PgConnection, PgExecutor};
use uuid::Uuid;

/// Something that a program publishes.
#[derive(Debug, Clone, Copy)]
pub struct Piece<'a> {
    /// Number of the step that writes it. 0: an event that was emitted outside of steps.
    pub step: i32,
    /// Order within the step, from 1.
    pub number: i32,
    pub content: Content<'a>,
}

/// The content of a piece.
#[derive(Debug, Clone, Copy)]
pub enum Content<'a> {
    /// A part of the answer.
    Text(&'a str),
    /// An event of the program's own. With the model's id of the call, unless it executes the turn of an agent.
    Event {
        name: &'a str,
        data: &'a Value,
        call_id: Option<&'a str>,
    },
}

impl<'a> Content<'a> {
    /// The type of its event.
    fn kind(self) -> &'static str {
        match self {
            Content::Text(_) => "token",
            Content::Event { .. } => "custom",
        }
    }

    /// What it adds to the answer.
    fn text(self) -> &'a str {
        match self {
            Content::Text(text) => text,
            Content::Event { .. } => "",
        }
    }

    /// Returns its event, in the form of all events: the common fields follow those of its type.
    fn to_json(self, fields: &str) -> String {
        let common = &fields[1..];
        match self {
            Content::Text(text) => format!(r#"{{"type":"token","token":{},{common}"#, Value::from(text)),
            Content::Event { name, data, call_id } => {
                let call_id = call_id.map_or_else(String::new, |id| format!(r#","callId":{}"#, Value::from(id)));
                format!(
                    r#"{{"type":"custom","name":{},"data":{data}{call_id},{common}"#,
                    Value::from(name)
                )
            }
        }
    }
}

/// What became of a piece.
#[derive(Debug)]
pub enum Written {
    /// It is published. With the wake-up for its readers.
    Written(Wake),
    /// The attempt does not have the call.
    Stale,
    /// Another step of the agent's turn writes.
    OtherStep,
    /// The step has ended.
    Ended,
    /// The piece before it is missing.
    Missing,
}

/// Publishes a piece. `fields`: what the events of the run have besides their type.
pub async fn write(
    db: &mut PgConnection,
    call_id: Uuid,
    attempt: i32,
    piece: Piece<'_>,
    fields: &str,
) -> Result<Written, sqlx::Error> {
    if rejoin_faults::enabled(Fault::TextKept) {
        // Then no `reset` discards the text of an earlier attempt.
        sqlx::query!(
            "update kb.remote_calls set writing_step = null, writing_attempt = null where id = $1 and writing_attempt <> $2",
            call_id,
            attempt
        )
        .execute(&mut *db)
        .await?;
    }
    let written = sqlx::query!(
        r#"select outcome as "outcome!", log_id from kb.write_remote_piece($1, $2, $3, $4, $5, $6, $7)"#,
        call_id,
        attempt,
        piece.step,
        piece.number,
        piece.content.text(),
        piece.content.kind(),
        piece.content.to_json(fields)
    )
    .fetch_optional(db)
    .await?;
    Ok(match written {
        Some(written) => match (written.outcome.as_str(), written.log_id) {
            ("written", Some(log_id)) => Written::Written(Wake::log(log_id)),
            ("other_step", _) => Written::OtherStep,
            ("ended", _) => Written::Ended,
            ("missing", _) => Written::Missing,
            _ => Written::Stale,
        },
        None => Written::Stale,
    })
}

/// A step of an agent's turn has ended, or all have (`None`): what it has published stays if it has completed, else its readers discard it.
pub async fn settle(
    db: &mut PgConnection,
    call_id: Uuid,
    attempt: i32,
    step: Option<i32>,
    is_complete: bool,
) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "select kb.settle_remote_text($1, $2, $3, $4)",
        call_id,
        attempt,
        step as _,
        is_complete
    )
    .execute(db)
    .await
    .map(drop)
}

/// Returns what a call has written.
pub async fn written(db: impl PgExecutor<'_>, call_id: Uuid) -> Result<String, sqlx::Error> {
    sqlx::query_scalar!(
        r#"select coalesce(string_agg(text, '' order by seq), '') as "text!" from kb.remote_texts where call_id = $1"#,
        call_id
    )
    .fetch_one(db)
    .await
}

#[cfg(test)]
mod tests {
    use rejoin_types::events::{Event, Kind};
    use serde_json::json;

    use super::*;

    /// An event of a sub-agent, and the fields that it has besides its type.
    fn of_sub_agent(kind: Kind) -> (Event, String) {
        let (run_id, parent) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let event = Event {
            parent_run_id: Some(parent),
            ..Event::of(run_id, kind)
        };
        (event, format!(r#"{{"runId":"{run_id}","parentRunId":"{parent}"}}"#))
    }

    #[test]
    fn a_piece_has_the_form_of_the_tokens_of_workers() {
        let text = "a \"quote\"\nand \u{1}".to_owned();
        let (event, fields) = of_sub_agent(Kind::Token { token: text.clone() });
        assert_eq!(Content::Text(&text).to_json(&fields), event.to_json());
    }

    #[test]
    fn an_event_of_a_program_has_the_form_of_all_events() {
        let data = json!({"done": [1, null, "a \"quote\"\n"]});
        for call_id in [None, Some("call \"1\"")] {
            let (event, fields) = of_sub_agent(Kind::Custom {
                name: "progress".to_owned(),
                data: data.clone(),
                call_id: call_id.map(str::to_owned),
            });
            let content = Content::Event {
                name: "progress",
                data: &data,
                call_id,
            };
            assert_eq!(content.to_json(&fields), event.to_json());
        }
    }
}
