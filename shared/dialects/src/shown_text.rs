//! The text that a client was shown, where its protocol can't take words back. After a `reset` the step is written again: what the client
//! was already shown is not shown again as long as the new text is the same; where it differs, the shown part is abandoned.

/// What to show of a piece of text.
#[derive(Debug, PartialEq, Eq)]
pub enum Shown<'a> {
    /// The client has it already.
    Nothing,
    /// It continues what the client has.
    More(&'a str),
    /// The new text differs from what the client has: end that part, and begin another one with this text.
    Replaced { shown: String, text: String },
}

/// A complete part.
#[derive(Debug, PartialEq, Eq)]
pub struct Finished {
    pub text: String,
    /// Some: the client was shown more than the text; end that part, and begin another one with the text.
    pub shown: Option<String>,
}

/// The text of the part that is being written.
#[derive(Debug, Default)]
pub struct ShownText {
    shown: String,
    /// Bytes of `shown` that the attempt being read has written, too. Less than its length only after a reset.
    confirmed: usize,
}

impl ShownText {
    /// Takes the next piece.
    pub fn add<'a>(&mut self, piece: &'a str) -> Shown<'a> {
        let ahead = &self.shown[self.confirmed..];
        if ahead.is_empty() {
            self.shown.push_str(piece);
            self.confirmed = self.shown.len();
            return Shown::More(piece);
        }
        if ahead.starts_with(piece) {
            self.confirmed += piece.len();
            return Shown::Nothing;
        }
        if let Some(rest) = piece.strip_prefix(ahead) {
            self.shown.push_str(rest);
            self.confirmed = self.shown.len();
            return Shown::More(rest);
        }
        let text = format!("{}{piece}", &self.shown[..self.confirmed]);
        let shown = std::mem::replace(&mut self.shown, text.clone());
        self.confirmed = text.len();
        Shown::Replaced { shown, text }
    }

    /// The attempt that wrote it was lost; its successor writes it again, from the part's beginning.
    pub fn reset(&mut self) {
        self.confirmed = 0;
    }

    /// The text that the client has of this part.
    pub fn text(&self) -> &str {
        &self.shown
    }

    /// The part is complete.
    pub fn finish(&mut self) -> Finished {
        let shown = std::mem::take(&mut self.shown);
        let confirmed = std::mem::take(&mut self.confirmed);
        if confirmed == shown.len() {
            return Finished {
                text: shown,
                shown: None,
            };
        }
        Finished {
            text: shown[..confirmed].to_owned(),
            shown: Some(shown),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_words_are_not_shown_twice() {
        let mut text = ShownText::default();
        assert_eq!(text.add("Hel"), Shown::More("Hel"));
        assert_eq!(text.add("lo w"), Shown::More("lo w"));
        text.reset();
        assert_eq!(text.add("He"), Shown::Nothing);
        assert_eq!(text.add("llo wor"), Shown::More("or"));
        assert_eq!(text.add("ld"), Shown::More("ld"));
        assert_eq!(text.text(), "Hello world");
        let finished = Finished {
            text: "Hello world".into(),
            shown: None,
        };
        assert_eq!(text.finish(), finished);
    }

    #[test]
    fn other_words_are_shown_from_their_beginning() {
        let mut text = ShownText::default();
        text.add("Hello");
        text.reset();
        assert_eq!(text.add("He"), Shown::Nothing);
        let replaced = Shown::Replaced {
            shown: "Hello".into(),
            text: "Hey".into(),
        };
        assert_eq!(text.add("y"), replaced);
        assert_eq!(text.text(), "Hey");
    }

    #[test]
    fn a_shorter_text_is_shown_at_the_end() {
        let mut text = ShownText::default();
        text.add("Hello");
        text.reset();
        text.add("Hell");
        let finished = Finished {
            text: "Hell".into(),
            shown: Some("Hello".into()),
        };
        assert_eq!(text.finish(), finished);
    }
}
