//! A text that is written in pieces, some of which a `reset` may discard.

/// A text, and where each event's piece of it ends.
#[derive(Debug, Default)]
pub struct Text {
    text: String,
    ends: Vec<(i64, usize)>,
}

impl Text {
    pub fn push(&mut self, seq: i64, piece: &str) {
        self.text.push_str(piece);
        self.ends.push((seq, self.text.len()));
    }

    /// Discards what came after `seq`. True: there was something.
    pub fn truncate(&mut self, seq: i64) -> bool {
        let kept = self.ends.partition_point(|(at, _)| *at <= seq);
        let discards = kept < self.ends.len();
        self.ends.truncate(kept);
        self.text.truncate(self.ends.last().map_or(0, |(_, end)| *end));
        discards
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }
}
