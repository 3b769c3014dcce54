//! What the scripted model says in a turn, and how its words are recognized. Called by `scripted`, `plan` and `judge`.
//!
//! The script travels in the user's message, so any server under test hands it to the model. Each word carries the attempt that
//! wrote it, its step and its number (`w0.17語`): from a text alone it can be decided which words are missing, which were shown twice, and
//! whether two attempts were joined to one answer. Three of four words end in a character of two to four bytes, so that streams can be cut inside one.

use serde::{Deserialize, Serialize};

/// Precedes the script in the message.
const MARK: &str = "play ";
/// The first letter of a word names its attempt; those beyond the last share the last.
const LETTERS: [char; 6] = ['w', 'x', 'y', 'z', 'v', 'u'];
const TAILS: [&str; 4] = ["", "é", "語", "🙂"];

/// The model's part of a turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Script {
    /// Unique in a run of the suite.
    pub id: String,
    pub steps: Vec<Step>,
}

/// One model call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    pub words: usize,
    /// Pause after each word.
    pub pace_ms: u64,
    /// Whether the model then calls the tool, so that another step follows.
    pub calls: bool,
    /// Whether it then lets another agent work, likewise.
    #[serde(default)]
    pub delegates: bool,
}

impl Step {
    /// Words alone.
    fn of(words: usize, pace_ms: u64) -> Self {
        Self {
            words,
            pace_ms,
            calls: false,
            delegates: false,
        }
    }
}

/// A word of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Word {
    Known {
        attempt: usize,
        step: usize,
        number: usize,
    },
    /// Not one of the model's.
    Strange,
}

impl Script {
    /// One step of words.
    pub fn words(id: impl Into<String>, words: usize, pace_ms: u64) -> Self {
        Self {
            id: id.into(),
            steps: vec![Step::of(words, pace_ms)],
        }
    }

    /// Words, a call of the tool, and words.
    pub fn with_call(id: impl Into<String>, words: usize, pace_ms: u64) -> Self {
        let step = Step::of(words, pace_ms);
        Self {
            id: id.into(),
            steps: vec![Step { calls: true, ..step }, step],
        }
    }

    /// Words, another agent that works, and words.
    pub fn with_sub_agent(id: impl Into<String>, words: usize, pace_ms: u64) -> Self {
        let step = Step::of(words, pace_ms);
        let first = Step {
            delegates: true,
            ..step
        };
        Self {
            id: id.into(),
            steps: vec![first, step],
        }
    }

    /// What the agent says that works for a step.
    pub fn of_sub_agent(&self, step: usize) -> Self {
        let Step { words, pace_ms, .. } = self.steps[step];
        Self::words(format!("{}-sub-{step}", self.id), words, pace_ms)
    }

    /// The user's message that asks for it.
    pub fn message(&self) -> String {
        format!("{MARK}{}", serde_json::json!(self))
    }

    /// The script in a text, if there is one.
    pub fn of(text: &str) -> Option<Self> {
        let at = text.find(MARK)?;
        let mut scripts = serde_json::Deserializer::from_str(&text[at + MARK.len()..]).into_iter::<Self>();
        scripts.next()?.ok()
    }

    /// The name of the call that a step makes.
    pub fn call(&self, step: usize) -> String {
        format!("{}:{step}", self.id)
    }

    /// The script's id in the name of a call.
    pub fn id_of_call(call: &str) -> &str {
        call.rsplit_once(':').map_or(call, |(id, _)| id)
    }

    /// The names of all calls.
    pub fn calls(&self) -> Vec<String> {
        let calls = self.steps.iter().enumerate().filter(|(_, step)| step.calls);
        calls.map(|(step, _)| self.call(step)).collect()
    }

    /// The number of words of all steps.
    pub fn total(&self) -> usize {
        self.steps.iter().map(|step| step.words).sum()
    }
}

/// A word of an attempt (from 0), a step (from 0) and a number (from 1), with the space after it.
pub fn word(attempt: usize, step: usize, number: usize) -> String {
    let letter = LETTERS[attempt.min(LETTERS.len() - 1)];
    format!("{letter}{step}.{number}{} ", TAILS[number % TAILS.len()])
}

/// The words of a text, in order.
pub fn words_of(text: &str) -> Vec<Word> {
    text.split_whitespace()
        .map(|word| known(word).unwrap_or(Word::Strange))
        .collect()
}

fn known(text: &str) -> Option<Word> {
    let attempt = LETTERS.iter().position(|letter| text.starts_with(*letter))?;
    let (step, rest) = text[1..].split_once('.')?;
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let number: usize = rest[..digits].parse().ok()?;
    let is_whole = rest[digits..] == *TAILS[number % TAILS.len()];
    is_whole.then_some(Word::Known {
        attempt,
        step: step.parse().ok()?,
        number,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_found_in_the_message() {
        let script = Script::with_call("a-1", 3, 5);
        let message = format!("Context: none.\n\n{}\nBe brief.", script.message());
        assert_eq!(Script::of(&message), Some(script.clone()));
        assert_eq!(Script::of("play the piano"), None);
        assert_eq!(script.calls(), ["a-1:0"]);
        assert_eq!(Script::id_of_call("a-1:0"), "a-1");
        assert_eq!(script.total(), 6);
        let asks = Script::with_sub_agent("a-2", 3, 5);
        assert!(asks.calls().is_empty());
        assert_eq!(asks.of_sub_agent(0), Script::words("a-2-sub-0", 3, 5));
    }

    #[test]
    fn words_are_recognized() {
        let text: String = (1..=4).map(|number| word(1, 0, number)).collect();
        assert_eq!(text, "x0.1é x0.2語 x0.3🙂 x0.4 ");
        let found = words_of(&text);
        assert_eq!(found.len(), 4);
        assert_eq!(
            found[2],
            Word::Known {
                attempt: 1,
                step: 0,
                number: 3
            }
        );
    }

    #[test]
    fn damaged_words_are_strange() {
        for text in ["w0.1", "w0.2\u{fffd}", "w0.1éw0.2語", "hello", "w.1é", "w0.é"] {
            assert_eq!(words_of(text), [Word::Strange], "{text}");
        }
    }
}
