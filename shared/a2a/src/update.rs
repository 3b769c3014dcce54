//! What an event changes for a task's client.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::Value;

/// What an event has changed.
#[derive(Debug, Default)]
pub(super) struct Change<'e> {
    /// What a client is sent. None: nothing.
    pub update: Option<Update<'e>>,
    /// The task came to rest: it has ended, or waits for the client.
    pub rests: bool,
}

/// The member of a `StreamResponse`.
#[derive(Debug)]
pub(super) enum Update<'e> {
    Whole(Value),
    /// More of the answer; `TaskFold::piece` makes the update. `appends`: the client has its beginning.
    Piece {
        text: &'e str,
        appends: bool,
    },
}

/// An update with a piece of the answer. Most updates are such, so it is written without the tree that the others are built as.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Piece<'a> {
    artifact_update: PieceUpdate<'a>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct PieceUpdate<'a> {
    task_id: &'a str,
    context_id: &'a str,
    artifact: PieceArtifact<'a>,
    append: bool,
    last_chunk: bool,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct PieceArtifact<'a> {
    artifact_id: Cow<'static, str>,
    name: &'static str,
    parts: [TextPart<'a>; 1],
}

#[derive(Debug, Serialize)]
struct TextPart<'a> {
    text: &'a str,
}

impl Change<'_> {
    pub(super) fn update(update: Value) -> Self {
        Self {
            update: Some(Update::Whole(update)),
            rests: false,
        }
    }
}

impl<'a> Piece<'a> {
    /// More of the artifact with this id and name. `append`: the client has its beginning.
    pub(super) fn of_answer(
        task_id: &'a str,
        context_id: &'a str,
        (artifact_id, name): (Cow<'static, str>, &'static str),
        text: &'a str,
        append: bool,
    ) -> Self {
        let artifact = PieceArtifact {
            artifact_id,
            name,
            parts: [TextPart { text }],
        };
        Self {
            artifact_update: PieceUpdate {
                task_id,
                context_id,
                artifact,
                append,
                last_chunk: false,
            },
        }
    }
}
