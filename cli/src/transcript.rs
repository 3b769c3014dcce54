//! Renders a reply in a terminal: its text as it arrives, every word once, with tool calls beside it.
//!
//! Used by `chat` and `tail`. When a worker was lost in the middle of an answer, the log says which part to discard
//! (`reset`), and that part is written again. Displayed text stays as long as the new text repeats it.
//!
//! Invariant: once the reply has ended, the latest displayed text is exactly the log's text.

use std::io::{self, IsTerminal, Write};

use anyhow::Result;
use serde_json::Value;

use crate::{dev::process, exit::Exit, out::Out, stream::Received};

/// Maximum length of a tool's arguments on its line, in characters.
const INPUT_MAX_CHARS: usize = 160;
const STARTED_OVER: &str = "[the worker was lost; the answer starts over]";
const DIM: &str = "\x1b[2m";
const PLAIN: &str = "\x1b[0m";

/// An output operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    Print(String),
    /// Text between here and the end is outdated: erase it, then print the second.
    Replace {
        shown: String,
        text: String,
    },
}

/// The text of a reply, and its displayed part. The display may be ahead after a reset.
#[derive(Debug, Default)]
pub struct Reply {
    text: String,
    shown: String,
    /// The events' numbers, with the positions of their parts in the text.
    pieces: Vec<(i64, usize)>,
    /// The position where the last reset truncated the text.
    restarted_at: usize,
}

impl Reply {
    /// Adds a part.
    pub fn token(&mut self, seq: i64, piece: &str) -> Option<Step> {
        self.pieces.push((seq, self.text.len()));
        self.text.push_str(piece);
        if self.shown.starts_with(&self.text) {
            return None;
        }
        if let Some(new) = self.text.strip_prefix(&self.shown) {
            let new = new.to_owned();
            self.shown.clone_from(&self.text);
            return Some(Step::Print(new));
        }
        Some(self.replace())
    }

    /// Removes the parts after this number.
    pub fn reset(&mut self, discard_after: i64) {
        if let Some(first) = self.pieces.iter().position(|(seq, _)| *seq > discard_after) {
            self.text.truncate(self.pieces[first].1);
            self.pieces.truncate(first);
        }
        self.restarted_at = self.text.len();
    }

    /// No more parts for now: erases surplus text.
    pub fn settle(&mut self) -> Option<Step> {
        (self.shown != self.text).then(|| self.replace())
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the text written since the last reset.
    fn written_since_reset(&self) -> &str {
        self.text.get(self.restarted_at..).unwrap_or(&self.text)
    }

    fn replace(&mut self) -> Step {
        let same = self.shown.chars().zip(self.text.chars()).take_while(|(a, b)| a == b);
        let same: usize = same.map(|(c, _)| c.len_utf8()).sum();
        let step = Step::Replace {
            shown: self.shown[same..].to_owned(),
            text: self.text[same..].to_owned(),
        };
        self.shown.clone_from(&self.text);
        step
    }
}

/// Renders a run's events for users.
pub struct Transcript {
    out: Out,
    /// Its text is the reply; others are its sub-agents.
    run: Option<String>,
    reply: Reply,
    /// Whether both streams are the same terminal: a line on one moves the other's cursor.
    shared_terminal: bool,
    colour: bool,
    /// The reply's characters on the cursor's line.
    line: String,
    resets: u32,
}

impl Transcript {
    /// `run`: its text is the reply; without it, each run's in turn.
    pub fn new(out: Out, run: Option<String>) -> Self {
        let colour = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        Self {
            out,
            run,
            reply: Reply::default(),
            shared_terminal: out.is_terminal() && io::stderr().is_terminal(),
            colour,
            line: String::new(),
            resets: 0,
        }
    }

    /// Shows an event. Returns the exit code, if it ended the run (each run, if none was named).
    ///
    /// # Errors
    /// stdout is closed.
    pub fn show(&mut self, event: &Received) -> Result<Option<Exit>> {
        let run = event.text("runId");
        let ours = self.run.as_deref().is_none_or(|ours| ours == run) && event.json.get("parentRunId").is_none();
        let seq = event.seq.unwrap_or_default();
        match event.kind() {
            "token" if ours => {
                let step = self.reply.token(seq, event.text("token"));
                self.step(step)?;
            }
            "reset" if ours => {
                self.reply
                    .reset(event.json["discardAfter"].as_i64().unwrap_or_default());
                self.resets += 1;
                // On a shared terminal it would interrupt a word; it is shown at the end.
                if !self.shared_terminal {
                    self.aside(&format!(
                        "(a worker stopped while answering: {}; another one continues)",
                        event.text("reason")
                    ))?;
                }
            }
            "meta" if ours => {
                let model = event.text("model");
                if model.starts_with("demo:") && event.json["attempt"].as_i64().unwrap_or(1) <= 1 {
                    self.aside(&format!(
                        "({model} is not a model: fixed rules call the real tools. Set OPENAI_API_KEY or another \
                        provider's key)"
                    ))?;
                }
            }
            "mcp_tool" => self.tool(event)?,
            "sub_agent" => self.sub_agent(event)?,
            "limit" => self.aside(&format!("! {}", event.text("message")))?,
            "question" => self.aside(&format!("? {}", event.text("question")))?,
            "handoff" => self.aside(&format!("→ {} hands over to {}", event.text("from"), event.text("to")))?,
            "error" if ours => self.aside(&format!("error: {} ({})", event.text("error"), event.text("code")))?,
            "done" if ours => return self.done(event).map(Some),
            // Protocol events, and future ones.
            _ => {}
        }
        Ok(None)
    }

    /// Shows the start or end of a sub-agent.
    fn sub_agent(&mut self, event: &Received) -> Result<()> {
        let line = match event.text("status") {
            "started" => format!("↳ {} begins: {}", event.text("agent"), shortened(event.text("task"))),
            "failed" => format!("↳ {} failed: {}", event.text("agent"), event.text("error")),
            status => format!("↳ {} is {status}", event.text("agent")),
        };
        self.aside(&line)
    }

    /// Shows the state of a running turn, from a snapshot.
    ///
    /// # Errors
    /// stdout is closed.
    pub fn resume(&mut self, turn: &Value) -> Result<()> {
        let text = turn["text"].as_str().unwrap_or_default();
        // Older than any later event: a reset may remove it.
        let step = self.reply.token(i64::MAX, text);
        self.step(step)
    }

    /// Returns the current reply.
    pub fn text(&self) -> &str {
        self.reply.text()
    }

    fn done(&mut self, event: &Received) -> Result<Exit> {
        let step = self.reply.settle();
        self.step(step)?;
        self.end_line()?;
        if self.shared_terminal && self.resets > 0 {
            self.aside("(a worker stopped while answering; another one continued)")?;
        }
        (self.reply, self.resets) = (Reply::default(), 0);
        Ok(match event.text("status") {
            "failed" => Exit::RunFailed,
            "cancelled" => {
                self.aside("(cancelled)")?;
                Exit::RunCancelled
            }
            "paused" => {
                self.aside("(paused)")?;
                Exit::RunPaused
            }
            _ => Exit::Done,
        })
    }

    fn tool(&mut self, event: &Received) -> Result<()> {
        if event.text("status") == "started" {
            // The step's text is complete.
            let step = self.reply.settle();
            self.step(step)?;
            self.end_line()?;
        }
        let by = match event.text("agent") {
            "" => String::new(),
            agent => format!("[{agent}] "),
        };
        let tool = event.text("tool");
        match event.text("status") {
            "started" => {
                let mut input = event.json["input"].clone();
                if let Some(fields) = input.as_object_mut() {
                    // Models fill in every field of a strict schema; nulls are omitted.
                    fields.retain(|_, value| !value.is_null());
                }
                let input = shortened(&input.to_string());
                self.aside(&format!("{by}→ {tool} {input}"))
            }
            "error" => self.aside(&format!("{by}← {tool}: {}", shortened(event.text("error")))),
            _ => {
                let took = event.json["durationMs"]
                    .as_i64()
                    .map(|ms| format!(", {ms} ms"))
                    .unwrap_or_default();
                self.aside(&format!("{by}← {}{took}", size(&event.json["result"])))
            }
        }
    }

    fn step(&mut self, step: Option<Step>) -> Result<()> {
        let Some(step) = step else { return Ok(()) };
        match step {
            Step::Print(text) => self.print(&text),
            Step::Replace { shown, text } => match self.erasing(&shown) {
                Some(erase) => {
                    self.line.truncate(self.line.len() - shown.len());
                    self.out.piece(&erase)?;
                    self.print(&text)
                }
                None => {
                    let whole = format!("{STARTED_OVER}\n{}", self.reply.written_since_reset());
                    self.end_line()?;
                    self.print(&whole)
                }
            },
        }
    }

    /// Returns the control characters that erase `shown` from the end of the screen; `None`: it is out of reach.
    fn erasing(&self, shown: &str) -> Option<String> {
        if !self.out.is_terminal() || !self.line.ends_with(shown) {
            return None;
        }
        // Within one line, of characters that are one column wide.
        let columns = process::terminal_columns(&io::stdout())?;
        let plain = |c: char| !c.is_control() && u32::from(c) < 0x1100;
        let length = shown.chars().count();
        let reachable = length > 0 && self.line.chars().all(plain) && self.line.chars().count() < columns;
        reachable.then(|| format!("\x1b[{length}D\x1b[K"))
    }

    fn print(&mut self, text: &str) -> Result<()> {
        match text.rsplit_once('\n') {
            Some((_, last)) => last.clone_into(&mut self.line),
            None => self.line.push_str(text),
        }
        self.out.piece(text)
    }

    fn end_line(&mut self) -> Result<()> {
        if !std::mem::take(&mut self.line).is_empty() {
            self.out.piece("\n")?;
        }
        Ok(())
    }

    /// Prints a line beside the reply, on stderr.
    fn aside(&mut self, text: &str) -> Result<()> {
        if self.shared_terminal {
            self.end_line()?;
        }
        if self.colour {
            self.out.note(&format!("{DIM}{text}{PLAIN}"));
        } else {
            self.out.note(text);
        }
        Ok(io::stderr().flush()?)
    }
}

fn shortened(text: &str) -> String {
    let one_line = text.replace('\n', " ");
    match one_line.char_indices().nth(INPUT_MAX_CHARS) {
        Some((end, _)) => format!("{}…", &one_line[..end]),
        None => one_line,
    }
}

/// Summarizes a tool's result: counts the items of its lists.
fn size(result: &Value) -> String {
    let plural = |count: usize| {
        if count == 1 {
            "1 result".to_owned()
        } else {
            format!("{count} results")
        }
    };
    match result {
        Value::Array(items) => plural(items.len()),
        Value::Object(fields) => {
            let list = fields.iter().find_map(|(name, value)| Some((name, value.as_array()?)));
            match list {
                Some((name, items)) if name == "results" || name == "data" => plural(items.len()),
                Some((name, items)) => format!("{} {name}", items.len()),
                None => "done".to_owned(),
            }
        }
        _ => "done".to_owned(),
    }
}

#[cfg(test)]
mod tests;
