//! Edits of a console's text: an agent's operations, and merging of concurrent edits.

use serde_json::{Value, json};

/// An edit requested by an agent. Lines count from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edit {
    pub place: Place,
    pub content: String,
}

/// The position of the new text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Replaces everything.
    Replace,
    /// Before this line.
    Insert(usize),
    /// After the last line.
    Append,
    /// Replaces these lines, both included.
    Patch(usize, usize),
}

impl Edit {
    /// Returns the text after the edit. Err: what is wrong with it, for a model.
    pub fn apply(&self, text: &str) -> Result<String, String> {
        let lines: Vec<&str> = text.lines().collect();
        let count = lines.len();
        let (before, after) = match self.place {
            Place::Replace => return Ok(self.content.clone()),
            Place::Append => (count, count),
            Place::Insert(line) if (1..=count + 1).contains(&line) => (line - 1, line - 1),
            Place::Insert(line) => {
                return Err(format!("position {line} does not exist: the console has {count} lines"));
            }
            Place::Patch(start, end) if 1 <= start && start <= end && end <= count => (start - 1, end),
            Place::Patch(start, end) => {
                return Err(format!(
                    "lines {start} to {end} do not exist: the console has {count} lines"
                ));
            }
        };
        let new = self.content.lines();
        let all = lines[..before]
            .iter()
            .copied()
            .chain(new)
            .chain(lines[after..].iter().copied());
        Ok(all.collect::<Vec<_>>().join("\n"))
    }

    /// The representation in events.
    pub fn to_json(&self) -> Value {
        let content = &self.content;
        match self.place {
            Place::Replace => json!({"action": "replace", "content": content}),
            Place::Insert(line) => json!({"action": "insert", "content": content, "position": line}),
            Place::Append => json!({"action": "append", "content": content}),
            Place::Patch(start, end) => {
                json!({"action": "patch", "content": content, "startLine": start, "endLine": end})
            }
        }
    }
}

/// Three-way merge of two concurrent edits. None: both changed the same lines.
pub fn merge(base: &str, ours: &str, theirs: &str) -> Option<String> {
    if ours == theirs || base == theirs {
        return Some(ours.to_owned());
    }
    if base == ours {
        return Some(theirs.to_owned());
    }
    // A missing final line end is no change of the last line.
    let ended = |text: &str| format!("{}\n", text.strip_suffix('\n').unwrap_or(text));
    let merged = diffy::merge(&ended(base), &ended(ours), &ended(theirs)).ok()?;
    Some(merged.strip_suffix('\n').unwrap_or(&merged).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edited(place: Place, content: &str, text: &str) -> Result<String, String> {
        let content = content.to_owned();
        Edit { place, content }.apply(text)
    }

    /// Requirements: D29.
    #[test]
    fn each_action_changes_what_it_names() {
        let text = "a\nb\nc";
        assert_eq!(edited(Place::Replace, "x", text).unwrap(), "x");
        assert_eq!(edited(Place::Append, "x\ny", text).unwrap(), "a\nb\nc\nx\ny");
        assert_eq!(edited(Place::Append, "x", "").unwrap(), "x");
        assert_eq!(edited(Place::Insert(1), "x", text).unwrap(), "x\na\nb\nc");
        assert_eq!(edited(Place::Insert(4), "x", text).unwrap(), "a\nb\nc\nx");
        assert_eq!(edited(Place::Patch(2, 2), "x\ny", text).unwrap(), "a\nx\ny\nc");
        assert_eq!(edited(Place::Patch(1, 3), "", text).unwrap(), "");
        for (place, word) in [
            (Place::Insert(5), "3 lines"),
            (Place::Patch(3, 4), "3 to 4"),
            (Place::Patch(2, 1), "2 to 1"),
        ] {
            assert!(edited(place, "x", text).unwrap_err().contains(word));
        }
    }

    #[test]
    fn edits_of_different_lines_are_merged_and_of_the_same_are_not() {
        let base = "select a\nfrom t\nwhere x";
        assert_eq!(
            merge(
                base,
                "select a, b\nfrom t\nwhere x",
                "select a\nfrom t\nwhere x\nlimit 5"
            )
            .unwrap(),
            "select a, b\nfrom t\nwhere x\nlimit 5"
        );
        assert_eq!(
            merge(base, "select b\nfrom t\nwhere x", "select c\nfrom t\nwhere x"),
            None
        );
        assert_eq!(merge(base, base, "new").unwrap(), "new");
        assert_eq!(merge(base, "new", base).unwrap(), "new");
        assert_eq!(merge(base, "same", "same").unwrap(), "same");
    }
}
