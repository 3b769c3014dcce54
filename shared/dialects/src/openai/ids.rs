//! Ids: a prefix that names the kind, and our id in hexadecimal digits. And the numbers of frames, which are derived from the log's.

use std::fmt;

use uuid::Uuid;

/// Numbers of frames per event. Each event becomes fewer frames than that.
pub const FRAMES_PER_EVENT: i64 = 64;

const RESPONSE: &str = "resp_";
const CONVERSATION: &str = "conv_";
const CALL: &str = "call_";
const APPROVAL: &str = "mcpr_";
const FILE: &str = "file-";
const MESSAGE: &str = "msg_";

/// A response: a run or, after a wait, the part of the run that follows the answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResponseId {
    pub run: Uuid,
    /// One of the questions whose answers the response follows. None: it begins with the run.
    pub question: Option<Uuid>,
}

impl ResponseId {
    pub fn of_run(run: Uuid) -> Self {
        Self { run, question: None }
    }

    pub fn parse(text: &str) -> Option<Self> {
        let rest = text.strip_prefix(RESPONSE)?;
        Some(match rest.split_once('_') {
            Some((run, question)) => Self {
                run: run.parse().ok()?,
                question: Some(question.parse().ok()?),
            },
            None => Self::of_run(rest.parse().ok()?),
        })
    }

    /// The digits that make its items' ids unique.
    pub(super) fn digits(&self) -> String {
        self.question.unwrap_or(self.run).simple().to_string()
    }

    /// When its run began, in seconds: ids contain their time.
    pub(super) fn created_at(&self) -> u64 {
        let id = self.question.unwrap_or(self.run);
        id.get_timestamp().map_or(0, |time| time.to_unix().0)
    }
}

impl fmt::Display for ResponseId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{RESPONSE}{}", self.run.simple())?;
        match self.question {
            Some(question) => write!(formatter, "_{}", question.simple()),
            None => Ok(()),
        }
    }
}

pub fn conversation(id: Uuid) -> String {
    format!("{CONVERSATION}{}", id.simple())
}

pub fn parse_conversation(text: &str) -> Option<Uuid> {
    text.strip_prefix(CONVERSATION)?.parse().ok()
}

/// The id of a call of a client's function: the question that waits for its output.
pub fn call(question: Uuid) -> String {
    format!("{CALL}{}", question.simple())
}

pub fn parse_call(text: &str) -> Option<Uuid> {
    text.strip_prefix(CALL)?.parse().ok()
}

/// The id of a request for approval.
pub fn approval(question: Uuid) -> String {
    format!("{APPROVAL}{}", question.simple())
}

pub fn parse_approval(text: &str) -> Option<Uuid> {
    text.strip_prefix(APPROVAL)?.parse().ok()
}

pub fn message(id: Uuid) -> String {
    format!("{MESSAGE}{}", id.simple())
}

/// Parses the id of an uploaded file, with or without the protocol's prefix.
pub fn parse_file(text: &str) -> Option<Uuid> {
    text.strip_prefix(FILE).unwrap_or(text).parse().ok()
}

/// The number of an event's frame.
pub fn frame_number(seq: i64, index: i64) -> i64 {
    seq * FRAMES_PER_EVENT + index
}

/// The last event whose frames all have numbers up to `number`.
pub fn whole_through(number: i64) -> i64 {
    (number + 1).div_euclid(FRAMES_PER_EVENT) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_as_they_are_written() {
        let (run, question) = (Uuid::now_v7(), Uuid::now_v7());
        for id in [
            ResponseId::of_run(run),
            ResponseId {
                run,
                question: Some(question),
            },
        ] {
            assert_eq!(ResponseId::parse(&id.to_string()), Some(id));
        }
        assert_eq!(parse_conversation(&conversation(run)), Some(run));
        assert_eq!(parse_call(&call(run)), Some(run));
        assert_eq!(parse_approval(&approval(run)), Some(run));
        assert_eq!(parse_file(&run.to_string()), Some(run));
        for other in ["", "resp_", "resp_x", "run_1", &conversation(run)] {
            assert_eq!(ResponseId::parse(other), None, "{other}");
        }
    }

    #[test]
    fn an_event_is_whole_when_all_its_numbers_are_passed() {
        for (number, seq) in [
            (-1, -1),
            (0, -1),
            (62, -1),
            (63, 0),
            (64, 0),
            (126, 0),
            (127, 1),
            (frame_number(7, 63), 7),
        ] {
            assert_eq!(whole_through(number), seq, "{number}");
        }
    }
}
