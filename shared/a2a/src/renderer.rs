//! The task as a client reads it: a stream of the task and its updates, or the task as one document.
//!
//! A stream begins with the task as it is then. The `id` of a frame is the number of its event: a client that reconnects with it is sent the
//! updates that follow.

use std::io::Write as _;

use rejoin_sse::dialects::Renderer;
use rejoin_sse::frame::Token;
use serde::Serialize;
use serde_json::{Value, json};

use super::envelope::Envelope;
use super::fold::{Context, TaskFold};
use super::state::TaskState;
use super::update::{Change, Update};

/// Where a response begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begin {
    /// With the first event after this number.
    After(i64),
    /// With the state so far.
    Now,
    /// Nowhere: the client reads on after this number.
    ReadOn(i64),
}

/// What is written.
#[derive(Debug, Clone, PartialEq)]
pub enum Form {
    /// The task, then its updates, each in this envelope, until it rests.
    Stream(Envelope),
    /// The same until it has ended: a subscription outlasts waits for the client.
    Subscription(Envelope),
    /// The task, when it rests.
    AtRest,
    /// The task, when it has ended.
    AtEnd,
}

/// Renders one task.
#[derive(Debug)]
pub struct TaskRenderer {
    fold: TaskFold,
    begin: Begin,
    form: Form,
    /// The number of the newest messages of the task's history that a client wants. None: all.
    history_length: Option<usize>,
    has_begun: bool,
    is_over: bool,
}

impl TaskRenderer {
    pub fn new(about: Context, begin: Begin, form: Form, history_length: Option<usize>) -> Self {
        Self {
            fold: TaskFold::new(about),
            begin,
            form,
            history_length,
            has_begun: matches!(begin, Begin::ReadOn(_)),
            is_over: false,
        }
    }

    /// The task, after the events that were rendered.
    pub fn task(&self) -> Value {
        self.fold.task(self.history_length)
    }

    fn write(&self, seq: i64, result: &impl Serialize, out: &mut Vec<u8>) {
        if let Form::Stream(envelope) | Form::Subscription(envelope) = &self.form {
            // Writing to memory can't fail.
            let _ = write!(out, "id: {seq}\ndata: ");
            envelope.write(result, out);
            out.extend_from_slice(b"\n\n");
        }
    }

    fn write_task(&mut self, seq: i64, out: &mut Vec<u8>) {
        self.has_begun = true;
        let task = json!({ "task": self.task() });
        match self.form {
            Form::Stream(_) | Form::Subscription(_) => self.write(seq, &task, out),
            Form::AtRest | Form::AtEnd => {
                let _ = write!(out, "{task}");
            }
        }
    }

    /// Whether the response ends when the task rests as it does now.
    fn ends(&self) -> bool {
        match self.form {
            Form::Stream(_) | Form::AtRest => true,
            Form::Subscription(_) | Form::AtEnd => self.fold.state().is_terminal(),
        }
    }

    fn stream(&mut self, seq: i64, change: Change<'_>, out: &mut Vec<u8>) {
        match change.update {
            _ if !self.has_begun => self.write_task(seq, out),
            Some(Update::Whole(update)) => self.write(seq, &update, out),
            Some(Update::Piece { text, appends }) => self.write(seq, &self.fold.piece(text, appends), out),
            None => {}
        }
        self.is_over = change.rests && self.ends();
    }

    /// Writes what an event has changed, if the response has begun. `is_done`: it ends a turn of a run.
    fn show(&mut self, seq: i64, change: Change<'_>, is_done: bool, out: &mut Vec<u8>) {
        let is_new = match self.begin {
            Begin::After(after) | Begin::ReadOn(after) => seq > after,
            // Shown when the present is reached, or with the end.
            Begin::Now => self.has_begun || (is_done && self.fold.state().is_terminal()),
        };
        if !is_new {
            return;
        }
        if let Form::Stream(_) | Form::Subscription(_) = self.form {
            self.stream(seq, change, out);
        } else if change.rests && self.ends() {
            self.write_task(seq, out);
            self.is_over = true;
        }
    }
}

impl Renderer for TaskRenderer {
    fn render(&mut self, seq: i64, event: &Value, out: &mut Vec<u8>) {
        if self.is_over {
            return;
        }
        let change = self.fold.apply(seq, event);
        self.show(seq, change, event["type"] == "done", out);
    }

    fn render_token(&mut self, seq: i64, token: &Token<'_>, out: &mut Vec<u8>) -> bool {
        if !self.is_over {
            let change = self.fold.apply_token(seq, token.run_id, &token.token);
            self.show(seq, change, false, out);
        }
        true
    }

    fn is_over(&self) -> bool {
        self.is_over
    }

    fn caught_up(&mut self, through: i64, out: &mut Vec<u8>) -> bool {
        let waits = self.fold.state() == TaskState::InputRequired && self.ends();
        match (&self.form, self.begin) {
            (Form::Stream(_) | Form::Subscription(_), Begin::Now) if !self.has_begun => self.write_task(through, out),
            // Answered, but not all of it.
            (Form::Stream(_), Begin::After(_)) if waits => self.write(through, &self.fold.status(), out),
            (Form::AtRest | Form::AtEnd, _) if waits => self.write_task(through, out),
            (Form::Stream(_) | Form::Subscription(_) | Form::AtRest | Form::AtEnd, _) => {}
        }
        self.is_over |= waits;
        waits
    }
}
