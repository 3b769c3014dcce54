//! A reader of a turn: reads its stream to the end, loses connections when it is asked to, and comes back as the product's clients do.
//! Started by `play` and `special`.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, sleep_until};

use crate::adapter::Call;
use crate::capture;
use crate::cut::{Cut, Cutter};
use crate::frames::Decoder;
use crate::stream_rules::{End, Resume};
use crate::target::{Target, Turn};
use crate::template::Values;
use crate::transcript::Transcript;
use crate::view::View;
use crate::wire::Response;

/// Pause before a lost connection is opened again.
const RETRY_PAUSE: Duration = Duration::from_millis(150);
/// Refusals in a row after which a reader gives up.
const MAX_REFUSALS: usize = 4;
/// Streams in a row that end without a frame, after which a reader gives up.
const MAX_EMPTY: usize = 20;
/// How long the stored answer is waited for, where it takes the place of the stream.
const STORED_LIMIT: Duration = Duration::from_secs(10);

/// What a reader is asked to do.
#[derive(Debug, Clone, Copy)]
pub enum Command {
    /// Begin to read; heard by those that have not begun.
    Begin,
    /// Lose the connection at the next such place, after this many bytes.
    Cut(Cut, usize),
    /// Close the connection, and come back after this time.
    Leave(Duration),
    /// Something was done that may take a while: the time of silence begins again.
    Patience,
}

/// How far a reader is.
#[derive(Debug, Clone, Default)]
pub struct Progress {
    pub words: usize,
    pub has_ended: bool,
    /// Values captured from frames.
    pub captured: BTreeMap<String, String>,
}

/// A moment in which text arrived.
#[derive(Debug, Clone, Copy)]
pub struct Arrival {
    /// In milliseconds of the transcript.
    pub at_ms: u64,
    /// The length of all text until then (`View::raw`).
    pub raw_bytes: usize,
}

/// What a reader has seen.
#[derive(Debug, Clone, Default)]
pub struct Read {
    pub name: String,
    pub view: View,
    /// When text arrived, in the order of arrival.
    pub arrivals: Vec<Arrival>,
    pub connections: usize,
    /// It gave up: nothing came.
    pub is_hung: bool,
    /// Cuts that were made.
    pub cuts: usize,
    /// When it was over, in milliseconds of the transcript.
    pub over_ms: u64,
}

/// A reader.
pub struct Reader<'a> {
    target: &'a Target,
    transcript: &'a Transcript,
    values: Values,
    captures: BTreeMap<String, String>,
    progress: watch::Sender<Progress>,
    cutter: Option<Cutter>,
    /// Pause after each piece: a slow reader.
    pace: Duration,
    silent_after: Instant,
    refusals: usize,
    empty: usize,
    is_over: bool,
    read: Read,
}

enum Heard {
    Data(Vec<u8>),
    Ended,
    Broken(String),
    Asked(Command),
    NothingMoreIsAsked,
    Silence,
}

impl<'a> Reader<'a> {
    /// `progress` is sent how far it is.
    pub fn new(
        target: &'a Target,
        transcript: &'a Transcript,
        turn: &Turn,
        name: &str,
        progress: watch::Sender<Progress>,
    ) -> Self {
        Self {
            target,
            transcript,
            values: turn.values.clone(),
            captures: capture::of_frames(&target.adapter.requests.post),
            progress,
            cutter: None,
            pace: Duration::ZERO,
            silent_after: Instant::now(),
            refusals: 0,
            empty: 0,
            is_over: false,
            read: Read {
                name: name.to_owned(),
                ..Read::default()
            },
        }
    }

    /// Reads slowly.
    #[must_use]
    pub fn slow(self, pace: Duration) -> Self {
        Self { pace, ..self }
    }

    /// Loses its first connection at such a place, after this many bytes.
    #[must_use]
    pub fn cutting(mut self, cut: Cut, after: usize) -> Self {
        self.cutter = Some(Cutter::new(cut, after));
        self
    }

    /// Begins from a cursor.
    #[must_use]
    pub fn beginning_at(mut self, cursor: Option<String>) -> Self {
        self.read.view.cursor = cursor;
        self
    }

    fn limit(&self) -> Duration {
        Duration::from_secs(self.target.adapter.limits.turn_s)
    }

    fn note(&self, line: &str) {
        self.transcript.note(&format!("{}: {line}", self.read.name));
    }

    /// Reads to the end. `first` is a stream that is open already.
    pub async fn follow(mut self, first: Option<Response>, mut commands: mpsc::Receiver<Command>) -> Read {
        let mut stream = first;
        let mut decoder = Decoder::new(self.target.adapter.stream.framing);
        let mut is_asked = true;
        if stream.is_some() {
            self.read.connections += 1;
        }
        self.silent_after = Instant::now() + self.limit();
        while self.read.view.ended.is_none() && !self.is_over {
            let Some(response) = &mut stream else {
                decoder = Decoder::new(self.target.adapter.stream.framing);
                stream = self.connect().await;
                continue;
            };
            let heard = tokio::select! {
                piece = response.next() => match piece {
                    Ok(Some(data)) => Heard::Data(data),
                    Ok(None) => Heard::Ended,
                    Err(error) => Heard::Broken(format!("{error:#}")),
                },
                command = commands.recv(), if is_asked => command.map_or(Heard::NothingMoreIsAsked, Heard::Asked),
                () = sleep_until(self.silent_after) => Heard::Silence,
            };
            match heard {
                Heard::Data(data) => {
                    if self.take(&mut decoder, &data) {
                        stream = None;
                    } else if !self.pace.is_zero() {
                        sleep(self.pace).await;
                    }
                }
                Heard::Ended => {
                    stream = None;
                    self.body_ended().await;
                }
                Heard::Broken(why) => {
                    stream = None;
                    self.lost(&why).await;
                }
                Heard::Asked(command) => {
                    if self.obey(command).await {
                        stream = None;
                    }
                }
                Heard::NothingMoreIsAsked => is_asked = false,
                Heard::Silence => self.give_up(),
            }
        }
        self.finish()
    }

    fn finish(mut self) -> Read {
        let ended = self.read.view.ended;
        self.note(&format!("over: {ended:?}"));
        self.read.over_ms = self.transcript.now_ms();
        self.progress.send_modify(|progress| progress.has_ended = true);
        self.read
    }

    fn give_up(&mut self) {
        self.note("nothing more comes");
        self.read.is_hung = true;
        self.is_over = true;
    }

    /// Takes bytes. Returns whether the connection was cut.
    fn take(&mut self, decoder: &mut Decoder, data: &[u8]) -> bool {
        let place = self.cutter.as_mut().and_then(|cutter| cutter.place(data));
        let passed = &data[..place.unwrap_or(data.len())];
        for frame in decoder.push(passed) {
            self.empty = 0;
            let id = frame.id.as_deref().unwrap_or("-");
            self.note(&format!(
                "frame {id} {} {}",
                frame.event.as_deref().unwrap_or_default(),
                frame.data
            ));
            let has_text = self
                .read
                .view
                .apply(&frame, &self.target.adapter.stream, &self.captures);
            if has_text {
                self.read.arrivals.push(Arrival {
                    at_ms: self.transcript.now_ms(),
                    raw_bytes: self.read.view.raw.len(),
                });
                self.silent_after = Instant::now() + self.limit();
            }
            let view = &self.read.view;
            self.progress.send_modify(|progress| {
                if has_text {
                    progress.words = view.raw.split_whitespace().count();
                }
                if progress.captured.len() < view.captured.len() {
                    progress.captured.clone_from(&view.captured);
                }
            });
        }
        if place.is_some() {
            let kind = self.cutter.take();
            self.read.cuts += 1;
            self.note(&format!("cut: {kind:?}"));
        }
        place.is_some()
    }

    /// Obeys. Returns whether the connection is closed.
    async fn obey(&mut self, command: Command) -> bool {
        self.silent_after = Instant::now() + self.limit();
        match command {
            Command::Begin | Command::Patience => false,
            Command::Cut(cut, after) => {
                self.cutter = Some(Cutter::new(cut, after));
                false
            }
            Command::Leave(away) => {
                self.note(&format!("leaves for {away:?}"));
                sleep(away).await;
                true
            }
        }
    }

    /// The body has ended as HTTP says, and no frame has ended the turn.
    async fn body_ended(&mut self) {
        if self.read.view.ended.is_some() {
            return;
        }
        if self.target.adapter.stream.ends_with_body {
            self.read.view.ended = Some(End::Completed);
            self.read.view.terminals += 1;
            return;
        }
        self.lost("the stream ended without an end of the turn").await;
    }

    async fn lost(&mut self, why: &str) {
        self.note(why);
        self.empty += 1;
        if self.target.adapter.stream.resume == Resume::Never || self.empty > MAX_EMPTY {
            self.read.view.errors.push(why.to_owned());
            self.is_over = true;
            return;
        }
        sleep(RETRY_PAUSE).await;
    }

    /// Opens a connection. None: not now, or never again (`is_over`).
    async fn connect(&mut self) -> Option<Response> {
        if Instant::now() > self.silent_after {
            self.give_up();
            return None;
        }
        let target = self.target;
        let adapter = &target.adapter;
        let can_go_on = adapter.requests.read_from.is_some() && adapter.stream.resume == Resume::Exact;
        let from = self.read.view.cursor.clone().filter(|_| can_go_on);
        let call = match (&from, &adapter.requests.read) {
            (Some(_), _) => adapter.requests.read_from.as_ref(),
            (None, Some(read)) => Some(read),
            // The same post again is the same turn.
            (None, None) if adapter.promises.idempotent => Some(&adapter.requests.post),
            (None, None) => None,
        };
        let Some(call) = call.filter(|_| adapter.stream.resume != Resume::Never) else {
            self.read
                .view
                .errors
                .push("a lost stream can't be opened again".to_owned());
            self.is_over = true;
            return None;
        };
        match self.ask(call, from.as_deref()).await {
            Ok(response) if response.status == 200 => {
                self.note(&format!("connected from {from:?}"));
                self.refusals = 0;
                self.read.connections += 1;
                self.read.view.reconnect(&adapter.stream, from.as_deref());
                Some(response)
            }
            Ok(response) if adapter.stream.nothing_follows.contains(&response.status) => {
                self.nothing_follows(response.status).await;
                None
            }
            Ok(response) => {
                self.refused(response).await;
                None
            }
            Err(error) => {
                self.note(&format!("no connection: {error:#}"));
                sleep(RETRY_PAUSE).await;
                None
            }
        }
    }

    async fn ask(&self, call: &Call, from: Option<&str>) -> Result<Response> {
        let mut values = self.values.clone();
        values.extend(self.read.view.captured.clone());
        if let Some(cursor) = from {
            values.insert("cursor".to_owned(), cursor.to_owned());
        }
        let is_unnamed = self.captures.keys().any(|name| {
            let is_used = call.url.contains(&format!("{{{{{name}}}}}"));
            is_used && !values.contains_key(name)
        });
        if is_unnamed && self.target.adapter.promises.idempotent {
            // The connection was lost before the turn had a name.
            return self.target.ask(&self.target.adapter.requests.post, &values).await;
        }
        self.target.ask(call, &values).await
    }

    async fn refused(&mut self, mut response: Response) {
        let status = response.status;
        let body = response.text(Duration::from_secs(5)).await.unwrap_or_default();
        self.note(&format!("refused with {status}: {body}"));
        if (400..500).contains(&status) && status != 429 {
            self.refusals += 1;
        }
        if self.refusals >= MAX_REFUSALS {
            self.read.view.errors.push(format!("refused with {status}: {body}"));
            self.is_over = true;
            return;
        }
        sleep(RETRY_PAUSE).await;
    }

    /// The product says that nothing follows. Its clients then show what is stored, if the adapter says so.
    async fn nothing_follows(&mut self, status: u16) {
        self.note(&format!("{status}: nothing follows"));
        self.is_over = true;
        if !self.target.adapter.stream.stored_at_end {
            self.read
                .view
                .errors
                .push(format!("{status}: nothing follows, and the turn had no end"));
            return;
        }
        let mut values = self.values.clone();
        values.extend(self.read.view.captured.clone());
        let deadline = Instant::now() + STORED_LIMIT;
        while Instant::now() < deadline {
            if let Ok(Some(text)) = self.target.stored(&values).await {
                self.read.view.stored = Some(text);
                self.read.view.ended = Some(End::Completed);
                self.read.view.terminals += 1;
                return;
            }
            sleep(RETRY_PAUSE).await;
        }
        self.read
            .view
            .errors
            .push(format!("{status}: nothing follows, and no answer is stored"));
    }
}
