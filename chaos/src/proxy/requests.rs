//! What a client sends to PostgreSQL, as far as a fault needs it: whether a response that comes back is that of a
//! worker's command, which is one statement and commits with its response.
//!
//! The messages are those of the [frontend/backend protocol](https://www.postgresql.org/docs/15/protocol-message-formats.html),
//! version 3.0.

use std::collections::HashSet;

/// The functions that are a worker's commands (migration 0016), and that of the event writer (0024).
const COMMANDS: [&str; 6] = [
    "stream.write(",
    "kb.start_run(",
    "kb.record_step(",
    "kb.start_tool_call(",
    "kb.end_tool_calls(",
    "kb.finish_run(",
];
/// How much of a message is kept. A statement's text begins with the command's call; a Bind begins with two names.
const KEPT_BYTES: usize = 4 * 1024;
const START: usize = 4;
const HEADER: usize = 5;
/// The code in place of a version that asks for TLS or GSSAPI encryption (upper 16 bits). Another startup message follows.
const NEGOTIATION: [u8; 2] = [0x04, 0xd2];

/// The messages of one connection, read piece by piece.
#[derive(Debug, Default)]
pub struct Requests {
    /// The startup messages have no type.
    started: bool,
    /// The message's header and its first bytes.
    message: Vec<u8>,
    /// How many more bytes of the message are passed over.
    left: usize,
    /// Prepared statements that call a command, by name.
    commands: HashSet<Vec<u8>>,
}

impl Requests {
    /// Returns whether the piece holds the Bind of a command.
    pub fn read(&mut self, mut piece: &[u8]) -> bool {
        let mut found = false;
        while !piece.is_empty() {
            let header = if self.started { HEADER } else { START };
            if self.message.len() < header {
                let taken = piece.len().min(header - self.message.len());
                self.message.extend_from_slice(&piece[..taken]);
                piece = &piece[taken..];
                if self.message.len() < header {
                    return found;
                }
                let length = self.message[header - 4..].try_into().expect("four bytes");
                // The length counts itself.
                self.left = (u32::from_be_bytes(length) as usize).saturating_sub(4);
            }
            let taken = piece.len().min(self.left);
            let kept = taken.min(KEPT_BYTES.saturating_sub(self.message.len()));
            self.message.extend_from_slice(&piece[..kept]);
            self.left -= taken;
            piece = &piece[taken..];
            if self.left == 0 {
                found |= self.whole();
                self.message.clear();
            }
        }
        found
    }

    /// A message has ended. Returns whether it is the Bind of a command.
    fn whole(&mut self) -> bool {
        if !self.started {
            self.started = !self.message[START..].starts_with(&NEGOTIATION);
            return false;
        }
        let mut fields = self.message[HEADER..].split(|&byte| byte == 0);
        let mut field = || fields.next().unwrap_or_default();
        match self.message[0] {
            b'P' => {
                let (name, text) = (field(), String::from_utf8_lossy(field()));
                if COMMANDS.iter().any(|command| text.contains(command)) {
                    self.commands.insert(name.to_vec());
                } else {
                    self.commands.remove(name);
                }
                false
            }
            b'B' => {
                let (_portal, statement) = (field(), field());
                self.commands.contains(statement)
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: Option<u8>, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(body.len() + 4).expect("short").to_be_bytes();
        kind.into_iter().chain(length).chain(body.iter().copied()).collect()
    }

    fn startup() -> Vec<u8> {
        let mut sent = message(None, &[0x04, 0xd2, 0x16, 0x2f]);
        sent.extend(message(None, b"\0\x03\0\0user\0rejoin\0\0"));
        sent
    }

    #[test]
    fn a_command_is_known_by_its_statement_however_it_is_cut() {
        let mut sent = startup();
        sent.extend(message(Some(b'P'), b"s1\0select kb.finish_run($1, $2)\0\0\0"));
        sent.extend(message(Some(b'P'), b"s2\0select 1\0\0\0"));
        let other = message(Some(b'B'), b"\0s2\0\0\0\0\0\0\0");
        let command = message(Some(b'B'), b"\0s1\0\0\0\0\0\0\0");
        for size in [1, 3, 7, 1_000] {
            let mut requests = Requests::default();
            let mut read = |sent: &[u8]| sent.chunks(size).filter(|piece| requests.read(piece)).count() > 0;
            assert!(!read(&sent), "in pieces of {size}");
            assert!(!read(&other), "in pieces of {size}");
            assert!(read(&command), "in pieces of {size}");
            assert!(read(&command), "in pieces of {size}");
        }
    }

    #[test]
    fn a_name_is_its_last_statements_and_long_texts_are_skipped() {
        let mut requests = Requests::default();
        requests.read(&startup());
        let long = [
            b"s1\0select kb.start_run(".as_slice(),
            &[b'x'; 3 * KEPT_BYTES],
            b")\0\0\0",
        ]
        .concat();
        requests.read(&message(Some(b'P'), &long));
        let bind = message(Some(b'B'), b"\0s1\0\0\0\0\0\0\0");
        assert!(requests.read(&bind));
        requests.read(&message(Some(b'P'), b"s1\0select 1\0\0\0"));
        assert!(!requests.read(&bind));
    }
}
