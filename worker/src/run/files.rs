//! Loads files of messages for one model call: as base64 if the model accepts the format, as text, or as a note why one
//! is not shown. Called by `answer` before each call, and by `calls` for files made by tools.
//!
//! Invariant: the files of one call are bounded, newest first; and so are those that all runs of this process hold at a
//! time.

use std::sync::{Arc, LazyLock};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rejoin_files::ReadError;
use rejoin_files::objects::ObjectStoreError;
use rejoin_files::types::{self, Class};
use rejoin_model_client::{Attached, Base64, Message, ModelError};
use rejoin_models::reads::{self, Reads};
use rejoin_runs::tool_calls::ToolCallRow;
use rejoin_types::file_ref::FileRef;
use serde_json::Value;
use sha2::{Digest, Sha256};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tracing::{error, warn};
use uuid::Uuid;

use super::answer::AnswerError;
use super::{End, Execution, READ_RETRY, READ_TRIES};
use crate::services::Services;

/// Maximum length of a text file for a model, in characters.
const TEXT_MAX_CHARS: usize = 200_000;
/// Maximum size of files loaded by all runs of this process, in KiB; the next one waits.
const LOADED_MAX_KIB: u32 = 256 * 1024;

static LOADED: LazyLock<Arc<Semaphore>> = LazyLock::new(|| Arc::new(Semaphore::new(LOADED_MAX_KIB as usize)));

/// The memory quota of loaded files, until dropped.
pub(super) type Held = Option<OwnedSemaphorePermit>;

fn refused(code: &'static str, message: String) -> AnswerError {
    AnswerError::Model(ModelError {
        code,
        message,
        retryable: false,
        retry_after: None,
    })
}

/// Returns whether a tool's output names a stored file.
fn names_a_file(output: &Value) -> bool {
    match output {
        Value::String(text) => text.contains("/api/files/"),
        Value::Array(items) => items.iter().any(names_a_file),
        Value::Object(fields) => fields.values().any(names_a_file),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// A file in the form for a model.
enum Shown {
    AsItIs(Base64),
    AsText(String),
    Not(&'static str),
}

impl Execution {
    /// Returns the messages with the files shown to the model.
    pub(super) async fn messages_with_files(&self) -> Result<(Vec<Message>, Held), AnswerError> {
        let mut messages = self.messages.clone();
        if messages.iter().all(|message| message.attachments().is_empty()) {
            return Ok((messages, None));
        }
        let reads = Reads::of(self.request.models.name());
        if self.step == self.request.run.turn_step {
            let asked = messages.iter().rfind(|message| matches!(message, Message::User { .. }));
            self.check(&reads, asked.map(Message::attachments).unwrap_or_default())?;
        }
        let most = self.request.services.config.model_files_bytes;
        let total = messages
            .iter()
            .flat_map(Message::attachments)
            .map(|attached| attached.file.size_bytes.unsigned_abs())
            .fold(0, u64::saturating_add)
            .min(most);
        // As base64, four bytes for three.
        let held = u32::try_from(total * 4 / 3 / 1024 + 1)
            .unwrap_or(u32::MAX)
            .min(LOADED_MAX_KIB);
        let held = LOADED.clone().acquire_many_owned(held).await.ok();
        let mut left = most;
        for message in messages.iter_mut().rev() {
            let (text, attachments) = match message {
                Message::User { text, attachments } => (text, attachments),
                Message::ToolResult {
                    content, attachments, ..
                } => (content, attachments),
                Message::Assistant { .. } => continue,
            };
            for mut attached in std::mem::take(attachments) {
                match self.show(&reads, &attached.file, &mut left).await? {
                    Shown::AsItIs(content) => {
                        attached.content = Some(content);
                        attachments.push(attached);
                    }
                    Shown::AsText(words) => text.push_str(&format!("\n\n{words}")),
                    Shown::Not(why) => {
                        text.push_str(&format!("\n\n[The file `{}` is not shown: {why}.]", attached.file.name))
                    }
                }
            }
        }
        Ok((messages, held))
    }

    /// Refuses a turn whose own files the model can't read: an answer that ignores them would mislead.
    fn check(&self, reads: &Reads<'_>, attachments: &[Attached]) -> Result<(), AnswerError> {
        let mut bytes: u64 = 0;
        for Attached { file, .. } in attachments {
            bytes = bytes.saturating_add(file.size_bytes.unsigned_abs());
            if let Err(unreadable) = reads.check(file) {
                return Err(refused(reads::CODE, unreadable.to_string()));
            }
        }
        let most = self.request.services.config.model_files_bytes;
        if bytes > most {
            return Err(refused(
                "model_files_too_large",
                format!(
                    "The message's files have {bytes} bytes in total; the model can get at most {most}. Send fewer or \
                    smaller files."
                ),
            ));
        }
        Ok(())
    }

    async fn show(&self, reads: &Reads<'_>, file: &FileRef, left: &mut u64) -> Result<Shown, AnswerError> {
        let class = match types::class_of(&file.media_type) {
            Some(class) if reads.takes(class, &file.media_type) => class,
            Some(_) | None => return Ok(Shown::Not("the model does not support such files")),
        };
        let size = file.size_bytes.unsigned_abs();
        if size > *left {
            return Ok(Shown::Not("newer files of the conversation use up the model's limit"));
        }
        let is_text = class == Class::Text;
        let Some(content) = self.content(file, is_text).await? else {
            return Ok(Shown::Not("it was deleted"));
        };
        *left -= size;
        Ok(if is_text {
            Shown::AsText(as_text(&file.name, &content))
        } else {
            Shown::AsItIs(Base64(content.into()))
        })
    }

    /// Returns a file's content, as text or base64. Waits for an unreachable database or object store, so that the run
    /// can continue.
    async fn content(&self, file: &FileRef, is_text: bool) -> Result<Option<String>, AnswerError> {
        let (services, workspace_id) = (&self.request.services, self.request.run.workspace_id);
        let until = Instant::now() + READ_RETRY * READ_TRIES;
        loop {
            match read(services, workspace_id, file.file_id, is_text).await {
                Ok(content) => return Ok(content),
                Err(error) if error.is_transient() && Instant::now() < until => {
                    warn!(%error, file = %file.file_id, "reading a file failed; trying again");
                    tokio::time::sleep(READ_RETRY).await;
                }
                Err(ReadError::Database(error)) => return Err(AnswerError::Database(error)),
                Err(ReadError::ObjectStore(error)) => {
                    error!(%error, file = %file.file_id, "reading a file failed");
                    let name = &file.name;
                    return Err(match error {
                        ObjectStoreError::Damaged(_) => refused(
                            "file_damaged",
                            format!("The content of the file `{name}` was changed where it is kept. Attach it again."),
                        ),
                        _ => refused(
                            "files_unavailable",
                            format!("The content of the file `{name}` is unavailable. Ask again later."),
                        ),
                    });
                }
            }
        }
    }

    /// Returns the files produced by a call that models read natively.
    pub(super) async fn files_of_call(&self, call: &ToolCallRow, output: Option<&Value>) -> Result<Vec<Attached>, End> {
        if !output.is_some_and(names_a_file) {
            return Ok(Vec::new());
        }
        let made = rejoin_files::of_call(&self.request.services.db.pool_sqlx, call.id).await;
        let made = made.map_err(|error| End::database("reading the files of a tool", error))?;
        let is_seen = |media_type: &str| match types::class_of(media_type) {
            Some(Class::Image | Class::Pdf | Class::Audio) => true,
            Some(Class::Text) | None => false,
        };
        Ok(made
            .iter()
            .filter(|file| is_seen(&file.media_type))
            .map(|file| Attached::from(file.to_ref()))
            .collect())
    }
}

/// Reads a file piece by piece. Content from an object store is verified. Base64 is computed per piece, which keeps
/// blocking short, and the raw bytes are not held.
async fn read(services: &Services, workspace_id: Uuid, id: Uuid, is_text: bool) -> Result<Option<String>, ReadError> {
    let db = &services.db.pool_sqlx;
    let Some(file) = rejoin_files::get(db, workspace_id, id).await? else {
        return Ok(None);
    };
    let size = usize::try_from(file.size_bytes).unwrap_or_default();
    let (mut encoded, mut bytes) = (String::new(), Vec::new());
    let mut hasher = file.in_object_store.then(Sha256::new);
    if is_text {
        bytes.reserve(size);
    } else {
        encoded.reserve(size.div_ceil(3) * 4);
    }
    for position in 0..rejoin_files::chunks_of(file.size_bytes) {
        let Some(piece) = services.files.read(db, &file, position).await? else {
            // Deleted meanwhile.
            return Ok(None);
        };
        if let Some(hasher) = &mut hasher {
            hasher.update(&piece);
        }
        if is_text {
            bytes.extend_from_slice(&piece);
        } else {
            STANDARD.encode_string(&piece, &mut encoded);
        }
    }
    if hasher.is_some_and(|hasher| hasher.finalize()[..] != file.sha256) {
        return Err(ObjectStoreError::Damaged(file.id).into());
    }
    Ok(Some(if is_text {
        String::from_utf8_lossy(&bytes).into_owned()
    } else {
        encoded
    }))
}

/// Puts a text into a fence that it can't close, truncated if too long.
fn as_text(name: &str, content: &str) -> String {
    let (content, note) = match content.char_indices().nth(TEXT_MAX_CHARS) {
        None => (content, ""),
        Some((at, _)) => (
            &content[..at],
            "\n[truncated: the file is longer than the maximum shown to the model]",
        ),
    };
    let longest = content
        .split(|char| char != '`')
        .map(str::len)
        .max()
        .unwrap_or_default();
    let fence = "`".repeat(longest.max(2) + 1);
    format!(
        "File `{name}`:\n{fence}\n{}\n{fence}{note}",
        content.trim_end_matches('\n')
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_stands_in_a_fence_and_is_cut() {
        assert_eq!(as_text("a.md", "x\n```\ny\n"), "File `a.md`:\n````\nx\n```\ny\n````");
        let long = as_text("a.txt", &"é".repeat(TEXT_MAX_CHARS + 1));
        assert!(long.ends_with("[truncated: the file is longer than the maximum shown to the model]"));
    }

    #[test]
    fn a_tools_output_names_a_file_wherever_it_is() {
        let named = serde_json::json!({"content": [{"type": "text"}, {"url": "/api/files/x/content"}]});
        assert!(names_a_file(&named));
        assert!(!names_a_file(&serde_json::json!({"url": "/api/runs"})));
    }
}
