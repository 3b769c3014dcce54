//! Files of messages, loaded for one model call: as base64 what the model reads as it is, as words what it reads as text, and in a word why one
//! is not shown. Called by `answer` before each call, and by `calls` for what a tool has made.
//!
//! Invariant: what one call is given has a bound, the newest files first; and so has what all runs of this process hold at a time.

use std::sync::{Arc, LazyLock};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rejoin_shared::files::types::{self, Class};
use rejoin_shared::files::{self, FileRef};
use rejoin_shared::models::{self, Ability, Model};
use rejoin_shared::tool_calls::ToolCallRow;
use serde_json::Value;
use sqlx::PgPool;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use uuid::Uuid;

use super::answer::AnswerError;
use super::{End, Execution, READ_RETRY, READ_TRIES};
use crate::models::{Attached, Base64, Message, ModelError};

/// Maximum length of a text file, as a model reads it, in characters.
const TEXT_MAX_CHARS: usize = 200_000;
/// Files that all runs of this process have loaded at a time, at most; the next one waits [KiB].
const LOADED_MAX_KIB: u32 = 256 * 1024;
/// Models that an error names.
const NAMED: usize = 3;
/// Providers whose models are named first.
const NAMED_FIRST: [&str; 3] = ["gemini", "anthropic", "openai"];

static LOADED: LazyLock<Arc<Semaphore>> = LazyLock::new(|| Arc::new(Semaphore::new(LOADED_MAX_KIB as usize)));

/// Memory that loaded files take, until this is dropped.
pub(super) type Held = Option<OwnedSemaphorePermit>;

/// What a model reads.
struct Reads<'a> {
    /// `provider:model`.
    model: &'a str,
    provider: &'a str,
    known: Option<&'static Model>,
}

impl<'a> Reads<'a> {
    fn of(model: &'a str) -> Self {
        Self {
            model,
            provider: model.split_once(':').map_or("", |(provider, _)| provider),
            known: models::catalogue().find(model),
        }
    }

    /// Whether it reads a file as it is. What nobody knows is sent: its provider says.
    fn takes(&self, class: Class, media_type: &str) -> bool {
        let (by_protocol, ability) = match class {
            Class::Text => return true,
            Class::Image => (!matches!(self.provider, "demo" | "flow"), Ability::Images),
            Class::Pdf => (!matches!(self.provider, "demo" | "flow" | "ollama"), Ability::Pdf),
            Class::Audio => {
                let by_protocol = match self.provider {
                    "demo" | "flow" | "ollama" | "anthropic" | "bedrock" | "openai-responses" => false,
                    "openai" | "azure" | "openrouter" => matches!(media_type, "audio/wav" | "audio/mpeg"),
                    _ => true,
                };
                (by_protocol, Ability::Audio)
            }
        };
        by_protocol && self.known.and_then(|model| model.can(ability)) != Some(false)
    }
}

/// What a file is, in words.
fn kind(class: Option<Class>) -> &'static str {
    match class {
        Some(Class::Image) => "images",
        Some(Class::Pdf) => "PDF files",
        Some(Class::Audio) => "audio of this type",
        Some(Class::Text) | None => "such files",
    }
}

/// Models of today that read such files.
fn models_for(class: Class, media_type: &str) -> Vec<&'static str> {
    let ability = match class {
        Class::Image => Ability::Images,
        Class::Pdf => Ability::Pdf,
        Class::Audio => Ability::Audio,
        Class::Text => return Vec::new(),
    };
    let today = models::today();
    let catalogue = models::catalogue();
    let usual = NAMED_FIRST
        .into_iter()
        .filter_map(|provider| catalogue.find(catalogue.chat_model(provider)?));
    let mut named: Vec<&str> = Vec::new();
    for model in usual.chain(catalogue.all()) {
        let reads = model.can(ability) == Some(true)
            && Reads::of(&model.name).takes(class, media_type)
            && !model.is_retired(today)
            && !model.retires_soon(today);
        if reads && !named.contains(&model.name.as_str()) {
            named.push(&model.name);
        }
        if named.len() == NAMED {
            break;
        }
    }
    named
}

fn refused(code: &'static str, message: String) -> AnswerError {
    AnswerError::Model(ModelError {
        code,
        message,
        retryable: false,
        retry_after: None,
    })
}

/// Whether a tool's output names a file of ours.
fn names_a_file(output: &Value) -> bool {
    match output {
        Value::String(text) => text.contains("/api/files/"),
        Value::Array(items) => items.iter().any(names_a_file),
        Value::Object(fields) => fields.values().any(names_a_file),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// A file as a model is shown it.
enum Shown {
    AsItIs(Base64),
    AsText(String),
    Not(&'static str),
}

impl Execution {
    /// The messages, with the files that the model is shown.
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

    /// Refuses a turn whose own files the model can't be given: an answer that knows nothing of them would mislead.
    fn check(&self, reads: &Reads<'_>, attachments: &[Attached]) -> Result<(), AnswerError> {
        let mut bytes: u64 = 0;
        for Attached { file, .. } in attachments {
            bytes = bytes.saturating_add(file.size_bytes.unsigned_abs());
            let class = types::class_of(&file.media_type);
            if class.is_some_and(|class| reads.takes(class, &file.media_type)) {
                continue;
            }
            let others = class
                .map(|class| models_for(class, &file.media_type))
                .unwrap_or_default();
            let advice = match others.is_empty() {
                true => "Send it as text.".to_owned(),
                false => format!("Choose a model that does, such as {}.", others.join(", ")),
            };
            return Err(refused(
                "model_cannot_read_file",
                format!(
                    "The model {} does not read {} (`{}`, {}). {advice}",
                    reads.model,
                    kind(class),
                    file.name,
                    file.media_type
                ),
            ));
        }
        let most = self.request.services.config.model_files_bytes;
        if bytes > most {
            return Err(refused(
                "model_files_too_large",
                format!(
                    "The message's files have {bytes} bytes together, and a model is given {most} at most. Send fewer, or smaller ones."
                ),
            ));
        }
        Ok(())
    }

    async fn show(&self, reads: &Reads<'_>, file: &FileRef, left: &mut u64) -> Result<Shown, AnswerError> {
        let class = match types::class_of(&file.media_type) {
            Some(class) if reads.takes(class, &file.media_type) => class,
            Some(_) | None => return Ok(Shown::Not("the model does not read such files")),
        };
        let size = file.size_bytes.unsigned_abs();
        if size > *left {
            return Ok(Shown::Not(
                "the newer files of the conversation take all that a model is given",
            ));
        }
        let is_text = class == Class::Text;
        let Some(content) = self.content(file, is_text).await? else {
            return Ok(Shown::Not("it was deleted"));
        };
        *left -= size;
        Ok(match is_text {
            true => Shown::AsText(as_text(&file.name, &content)),
            false => Shown::AsItIs(Base64(content.into())),
        })
    }

    /// A file's content, as text or as base64. A database that is away is waited for, so that the run goes on where it is.
    async fn content(&self, file: &FileRef, is_text: bool) -> Result<Option<String>, AnswerError> {
        let (db, project_id) = (&self.request.services.db.sql, self.request.run.project_id);
        for _ in 1..READ_TRIES {
            match read(db, project_id, file.file_id, is_text).await {
                Err(error) if rejoin_shared::db::is_transient(&error) => tokio::time::sleep(READ_RETRY).await,
                done => return done.map_err(AnswerError::Database),
            }
        }
        let last = read(db, project_id, file.file_id, is_text).await;
        last.map_err(AnswerError::Database)
    }

    /// What a call has made that models read as it is.
    pub(super) async fn files_of_call(&self, call: &ToolCallRow, output: Option<&Value>) -> Result<Vec<Attached>, End> {
        if !output.is_some_and(names_a_file) {
            return Ok(Vec::new());
        }
        let made = files::of_call(&self.request.services.db.sql, call.id).await;
        let made = made.map_err(|error| End::database("reading the files that a tool has made", error))?;
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

/// Reads a file piece by piece. Base64 is made of each piece by itself, so that nobody waits long for it, and the bytes are not held as well.
async fn read(db: &PgPool, project_id: Uuid, id: Uuid, is_text: bool) -> Result<Option<String>, sqlx::Error> {
    let Some(file) = files::get(db, project_id, id).await? else {
        return Ok(None);
    };
    let size = usize::try_from(file.size_bytes).unwrap_or_default();
    let (mut encoded, mut bytes) = (String::new(), Vec::new());
    match is_text {
        true => bytes.reserve(size),
        false => encoded.reserve(size.div_ceil(3) * 4),
    }
    for position in 0..files::chunks_of(file.size_bytes) {
        let Some(piece) = files::chunk(db, id, position).await? else {
            // Deleted meanwhile.
            return Ok(None);
        };
        match is_text {
            true => bytes.extend_from_slice(&piece),
            false => STANDARD.encode_string(&piece, &mut encoded),
        }
    }
    Ok(Some(match is_text {
        true => String::from_utf8_lossy(&bytes).into_owned(),
        false => encoded,
    }))
}

/// A text in a fence that it can't close, cut where it is too long.
fn as_text(name: &str, content: &str) -> String {
    let (content, note) = match content.char_indices().nth(TEXT_MAX_CHARS) {
        None => (content, ""),
        Some((at, _)) => (&content[..at], "\n[cut: the file is longer than a model is shown]"),
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
    fn what_is_known_of_a_model_decides_and_what_is_not_is_tried() {
        let takes = |model: &str, class: Class, media_type: &str| Reads::of(model).takes(class, media_type);
        assert!(takes("openai:scripted", Class::Image, "image/png"));
        assert!(takes("openai:scripted", Class::Pdf, "application/pdf"));
        assert!(takes("openai:scripted", Class::Audio, "audio/mpeg"));
        assert!(!takes("openai:scripted", Class::Audio, "audio/flac"));
        assert!(!takes("anthropic:whatever", Class::Audio, "audio/mpeg"));
        assert!(!takes("ollama:llava", Class::Pdf, "application/pdf"));
        assert!(!takes("demo:graph", Class::Image, "image/png"));
        assert!(takes("demo:graph", Class::Text, "text/plain"));
        let blind = models::catalogue()
            .all()
            .iter()
            .find(|model| model.can(Ability::Images) == Some(false));
        let blind = blind.expect("some model reads no images");
        assert!(!takes(&blind.name, Class::Image, "image/png"), "{}", blind.name);
    }

    #[test]
    fn models_that_read_a_file_are_named() {
        for (class, media_type) in [
            (Class::Image, "image/png"),
            (Class::Pdf, "application/pdf"),
            (Class::Audio, "audio/mpeg"),
        ] {
            let named = models_for(class, media_type);
            assert!(!named.is_empty(), "{class:?}");
            assert!(
                named.iter().all(|model| Reads::of(model).takes(class, media_type)),
                "{named:?}"
            );
        }
    }

    #[test]
    fn a_text_stands_in_a_fence_and_is_cut() {
        assert_eq!(as_text("a.md", "x\n```\ny\n"), "File `a.md`:\n````\nx\n```\ny\n````");
        let long = as_text("a.txt", &"é".repeat(TEXT_MAX_CHARS + 1));
        assert!(long.ends_with("[cut: the file is longer than a model is shown]"));
    }

    #[test]
    fn a_tools_output_names_a_file_wherever_it_is() {
        let named = serde_json::json!({"content": [{"type": "text"}, {"url": "/api/files/x/content"}]});
        assert!(names_a_file(&named));
        assert!(!names_a_file(&serde_json::json!({"url": "/api/runs"})));
    }
}
