//! The text that a client was shown, where its protocol can't take words back. After a `reset` the step is written again: what the client
//! was already shown is not shown again as long as the new text is the same; where it differs, the shown part is abandoned.

/// What to show of a piece of text.
#[derive(Debug, PartialEq, Eq)]
pub enum Shown {
    /// The client has it already.
    Nothing,
    /// It continues what the client has.
    More(String),
    /// The new text differs from what the client has: end that part, and begin another one with this text.
    Replaced(String),
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
    pub fn add(&mut self, piece: &str) -> Shown {
        let ahead = &self.shown[self.confirmed..];
        if ahead.is_empty() {
            self.shown.push_str(piece);
            self.confirmed = self.shown.len();
            return Shown::More(piece.to_owned());
        }
        if ahead.starts_with(piece) {
            self.confirmed += piece.len();
            return Shown::Nothing;
        }
        if let Some(rest) = piece.strip_prefix(ahead) {
            let rest = rest.to_owned();
            self.shown.push_str(&rest);
            self.confirmed = self.shown.len();
            return Shown::More(rest);
        }
        let replaced = format!("{}{piece}", &self.shown[..self.confirmed]);
        self.shown.clone_from(&replaced);
        self.confirmed = self.shown.len();
        Shown::Replaced(replaced)
    }

    /// The attempt that wrote it was lost; its successor writes it again, from the part's beginning.
    pub fn reset(&mut self) {
        self.confirmed = 0;
    }

    /// The text that the client has of this part.
    pub fn text(&self) -> &str {
        &self.shown
    }

    /// The part is complete. Some: the client was shown more than the text; end that part, and begin another one with this text.
    pub fn finish(&mut self) -> Option<String> {
        let text = std::mem::take(&mut self.shown);
        let confirmed = std::mem::take(&mut self.confirmed);
        (confirmed < text.len()).then(|| text[..confirmed].to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_words_are_not_shown_twice() {
        let mut text = ShownText::default();
        assert_eq!(text.add("Hel"), Shown::More("Hel".into()));
        assert_eq!(text.add("lo w"), Shown::More("lo w".into()));
        text.reset();
        assert_eq!(text.add("He"), Shown::Nothing);
        assert_eq!(text.add("llo wor"), Shown::More("or".into()));
        assert_eq!(text.add("ld"), Shown::More("ld".into()));
        assert_eq!(text.text(), "Hello world");
        assert_eq!(text.finish(), None);
    }

    #[test]
    fn other_words_are_shown_from_their_beginning() {
        let mut text = ShownText::default();
        text.add("Hello");
        text.reset();
        assert_eq!(text.add("He"), Shown::Nothing);
        assert_eq!(text.add("y"), Shown::Replaced("Hey".into()));
        assert_eq!(text.text(), "Hey");
    }

    #[test]
    fn a_shorter_text_is_shown_at_the_end() {
        let mut text = ShownText::default();
        text.add("Hello");
        text.reset();
        text.add("Hell");
        assert_eq!(text.finish(), Some("Hell".into()));
    }
}
