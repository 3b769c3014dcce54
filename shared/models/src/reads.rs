//! The file types that a model accepts. Checked by the API before it stores a message with files, and by the worker
//! before each model call.
//!
//! Invariant: a file is refused only if the model, or its protocol, is known not to accept it.

use super::{Ability, Model, catalogue, today};
use rejoin_files::types::{self, Class};
use rejoin_types::file_ref::FileRef;

/// The error code of a refused request or run.
pub const CODE: &str = "model_cannot_read_file";
/// Maximum number of models listed in a refusal.
const NAMED: usize = 3;
/// Providers whose models are listed first.
const NAMED_FIRST: [&str; 3] = ["gemini", "anthropic", "openai"];

/// The file types that a model accepts.
pub struct Reads<'a> {
    /// `provider:model`.
    model: &'a str,
    provider: &'a str,
    known: Option<&'static Model>,
}

/// A file that a model does not accept, with advice.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("The model {model} does not read {kind} (`{file}`, {media_type}). {}", self.advice())]
pub struct Unreadable {
    pub model: String,
    /// The file's name.
    pub file: String,
    pub media_type: String,
    /// The kind of file, in words.
    pub kind: &'static str,
    /// Models that accept it.
    pub others: Vec<&'static str>,
}

impl Unreadable {
    fn advice(&self) -> String {
        if self.others.is_empty() {
            "Send it as text.".to_owned()
        } else {
            format!("Choose a model that does, such as {}.", self.others.join(", "))
        }
    }
}

impl<'a> Reads<'a> {
    pub fn of(model: &'a str) -> Self {
        Self {
            model,
            provider: model.split_once(':').map_or("", |(provider, _)| provider),
            known: catalogue().find(model),
        }
    }

    /// Returns whether it accepts a file natively. Unknown cases are sent: the provider decides.
    pub fn takes(&self, class: Class, media_type: &str) -> bool {
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

    /// Err: it does not accept this file.
    pub fn check(&self, file: &FileRef) -> Result<(), Unreadable> {
        let class = types::class_of(&file.media_type);
        if class.is_some_and(|class| self.takes(class, &file.media_type)) {
            return Ok(());
        }
        Err(Unreadable {
            model: self.model.to_owned(),
            file: file.name.clone(),
            media_type: file.media_type.clone(),
            kind: kind(class),
            others: class
                .map(|class| models_for(class, &file.media_type))
                .unwrap_or_default(),
        })
    }
}

/// The kind of a file, in words.
fn kind(class: Option<Class>) -> &'static str {
    match class {
        Some(Class::Image) => "images",
        Some(Class::Pdf) => "PDF files",
        Some(Class::Audio) => "audio of this type",
        Some(Class::Text) | None => "such files",
    }
}

/// Returns current models that accept such files.
fn models_for(class: Class, media_type: &str) -> Vec<&'static str> {
    let ability = match class {
        Class::Image => Ability::Images,
        Class::Pdf => Ability::Pdf,
        Class::Audio => Ability::Audio,
        Class::Text => return Vec::new(),
    };
    let today = today();
    let catalogue = catalogue();
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
        let blind = catalogue()
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
}
