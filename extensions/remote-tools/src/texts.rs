//! Text that the function of an agent writes while it works: published as tokens of its run.

use rejoin_event_log::wakeup::Wake;
use rejoin_faults::Fault;
use sqlx::{PgConnection, PgExecutor};
use uuid::Uuid;

/// A piece of text.
#[derive(Debug, Clone, Copy)]
pub struct Piece<'a> {
    /// Number of the step that writes it.
    pub step: i32,
    /// Order within the step, from 1.
    pub number: i32,
    pub text: &'a str,
}

/// What became of a piece.
#[derive(Debug)]
pub enum Written {
    /// It is published. With the wake-up for its readers.
    Written(Wake),
    /// The attempt does not have the call.
    Stale,
    /// Another step writes.
    OtherStep,
    /// The step has ended.
    Ended,
    /// The piece before it is missing.
    Missing,
}

/// Publishes a piece of the answer. `fields`: what the events of the run have besides their type.
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
        r#"select outcome as "outcome!", log_id from kb.write_remote_text($1, $2, $3, $4, $5, $6)"#,
        call_id,
        attempt,
        piece.step,
        piece.number,
        piece.text,
        token(piece.text, fields)
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

/// The event, in the form of all events: the common fields follow those of its type.
fn token(text: &str, fields: &str) -> String {
    let text = serde_json::Value::from(text);
    format!(r#"{{"type":"token","token":{text},{}"#, &fields[1..])
}

/// A step has ended, or all have (`None`): what it has written stays if it has completed, else its readers discard it.
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

    use super::*;

    #[test]
    fn a_piece_has_the_form_of_the_tokens_of_workers() {
        let text = "a \"quote\"\nand \u{1}".to_owned();
        let event = Event {
            parent_run_id: Some(Uuid::from_u128(2)),
            ..Event::of(Uuid::from_u128(1), Kind::Token { token: text.clone() })
        };
        let fields = format!(
            r#"{{"runId":"{}","parentRunId":"{}"}}"#,
            Uuid::from_u128(1),
            Uuid::from_u128(2)
        );
        assert_eq!(token(&text, &fields), event.to_json());
    }
}
