//! The text, or the reasoning, of the step being written: a part of the UI message. Invariant: what its parts hold, without the abandoned
//! ones, is the step's text.

use serde::Serialize;
use serde_json::{Value, json};

use super::chunks::Chunks;
use crate::shown_text::{Finished, Shown, ShownText};

/// The name in `providerMetadata` under which the server's own remarks are.
const SERVER: &str = "rejoin";

/// The next words of a part. Most chunks are such, so it is written without the tree that the others are built as.
#[derive(Serialize)]
struct Delta<'a> {
    r#type: &'static str,
    id: &'a str,
    delta: &'a str,
}

#[derive(Debug)]
pub(super) struct Words {
    /// `text` or `reasoning`.
    name: &'static str,
    /// The type of the chunks with words.
    delta: &'static str,
    shown: ShownText,
    /// Words that are not sent before the step is stored.
    held: String,
    /// The id of the part that can still grow.
    open: Option<String>,
}

impl Words {
    pub fn of(name: &'static str) -> Self {
        Self {
            name,
            delta: if name == "text" {
                "text-delta"
            } else {
                "reasoning-delta"
            },
            shown: ShownText::default(),
            held: String::new(),
            open: None,
        }
    }

    /// Takes the next words, to be sent now or with the stored step.
    pub fn add(&mut self, piece: &str, holds: bool, chunks: &mut Chunks) {
        if holds {
            self.held.push_str(piece);
        } else {
            self.show(piece, chunks);
        }
    }

    /// Sends the words that were held.
    pub fn release(&mut self, chunks: &mut Chunks) {
        let held = std::mem::take(&mut self.held);
        if !held.is_empty() {
            self.show(&held, chunks);
        }
    }

    fn show(&mut self, piece: &str, chunks: &mut Chunks) {
        match self.shown.add(piece) {
            Shown::Nothing => {}
            Shown::More(text) => self.write(text, chunks),
            Shown::Replaced { text, .. } => {
                self.abandon(chunks);
                self.write(&text, chunks);
            }
        }
    }

    fn write(&mut self, text: &str, chunks: &mut Chunks) {
        let name = self.name;
        let id = self.open.get_or_insert_with(|| {
            let id = chunks.next_part_id(name);
            chunks.push(&json!({ "type": format!("{name}-start"), "id": id }));
            id
        });
        chunks.push(&Delta {
            r#type: self.delta,
            id,
            delta: text,
        });
    }

    /// The step is written again.
    pub fn reset(&mut self) {
        self.held.clear();
        self.shown.reset();
    }

    /// Ends the part; more words would begin another one.
    pub fn close(&mut self, chunks: &mut Chunks) {
        self.end_part(None, chunks);
    }

    /// Ends the part, whose words are not the text: the client can tell by its `providerMetadata`.
    fn abandon(&mut self, chunks: &mut Chunks) {
        self.end_part(Some(json!({ SERVER: { "abandoned": true } })), chunks);
    }

    fn end_part(&mut self, metadata: Option<Value>, chunks: &mut Chunks) {
        let Some(id) = self.open.take() else {
            return;
        };
        let mut chunk = json!({ "type": format!("{}-end", self.name), "id": id });
        if let Some(metadata) = metadata {
            chunk["providerMetadata"] = metadata;
        }
        chunks.push(&chunk);
    }

    /// The step is stored, or the run has ended. Returns its words.
    pub fn finish(&mut self, chunks: &mut Chunks) -> String {
        self.release(chunks);
        let Finished { text, shown } = self.shown.finish();
        if shown.is_some() {
            self.abandon(chunks);
            if !text.is_empty() {
                self.write(&text, chunks);
            }
        }
        self.close(chunks);
        text
    }
}
