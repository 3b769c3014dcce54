//! A reader: a cursor in a log, and the body of its response.
//!
//! It subscribes first, then reads the past from the table in pages until it meets the ring, then takes frames from the
//! ring; if it falls out of the ring it is a reader of the table again. Nothing is queued for it: the next chunk is
//! built on demand of the connection, and dropping the body drops the cursor.
//!
//! One event wakes thousands of readers, so they are polled by hand: a waiting reader is one waker in the log's tail.
//! Other conditions of a stream (it has to end, it was silent for long) are checked when the hub's beat changes, which
//! wakes all readers, too.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use futures::Stream;
use rejoin_db::failure_log::ErrorChain;
use rejoin_faults::Fault;
use tracing::debug;
use uuid::Uuid;

use super::dialects::Dialect;
use super::fan_out::Subscription;
use super::frame::{self, Frame};
use super::ring::Polled;
use super::streams::Permit;
use super::sync::{Instant, sleep, timeout};

/// Size of frames sent together, in bytes, from which on no other is added.
const CHUNK_BYTES: usize = 16 * 1024;
/// Maximum number of frames examined in one pass over the ring, which others need, too.
const POLL_FRAMES: usize = 256;
/// Number of delivered events that a reader counts locally before it updates the shared counters.
const COUNTED_EVENTS: u64 = 64;
/// Timeout of a page, which is then requested again: its connection may be dead.
const PAGE_LIMIT: Duration = Duration::from_secs(10);
/// Retry interval while the database is unreachable.
const RETRY: Duration = Duration::from_millis(200);

/// The events of the log that a reader sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Filter {
    /// All events, without an end.
    Log,
    /// Events of a run and its sub-agents; the stream ends with the run's first `done` after `open_through` (earlier
    /// ones were followed by another turn of the same run). Events carry the root of their tree: a reader of a
    /// sub-agent examines them further.
    Run { id: Uuid, root: Uuid, open_through: i64 },
}

impl Filter {
    pub(crate) fn shows(self, frame: &Frame) -> bool {
        match self {
            Filter::Log => true,
            Filter::Run { id, root, .. } => frame.run_id == Some(root) && (id == root || frame.comes_from(id)),
        }
    }

    pub(crate) fn ends_with(self, frame: &Frame) -> bool {
        match self {
            Filter::Log => false,
            Filter::Run { id, open_through, .. } => frame.done_of == Some(id) && frame.seq > open_through,
        }
    }
}

pub struct Reader {
    pub(super) subscription: Subscription,
    pub(super) permit: Permit,
    pub(super) filter: Filter,
    pub(super) dialect: Dialect,
    /// The number of the last event that was sent or skipped.
    pub(super) cursor: i64,
    /// The end of the past: once the cursor reaches it, the reader is notified.
    pub(super) caught_up_at: Option<i64>,
    /// Sent before any event.
    pub(super) opening: Option<Bytes>,
    /// Nothing follows the opening.
    pub(super) ended: bool,
    /// A page of the past being loaded.
    page: Option<Pin<Box<dyn Future<Output = Page> + Send>>>,
    spoke_at: Instant,
    /// The hub's beat at the last check.
    tick: u64,
    /// Events not yet counted in the shared counters.
    uncounted_events: u64,
    uncounted_bytes: u64,
}

/// The table's result for a reader.
enum Page {
    Frames(Vec<Frame>),
    /// Try again now, after a pause.
    NotNow,
    /// The events after the cursor were deleted.
    Gone,
}

impl Reader {
    /// Creates a reader of everything after `cursor`.
    pub fn new(subscription: Subscription, permit: Permit, filter: Filter, dialect: Dialect, cursor: i64) -> Self {
        Self {
            // Differs from the hub's: the first poll checks conditions that arose before.
            tick: subscription.hub().tick().wrapping_sub(1),
            subscription,
            permit,
            filter,
            cursor,
            caught_up_at: None,
            opening: Some(dialect.opening()),
            dialect,
            ended: false,
            page: None,
            spoke_at: Instant::now(),
            uncounted_events: 0,
            uncounted_bytes: 0,
        }
    }

    /// Returns the next bytes. None: the stream has ended.
    fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if let Some(opening) = self.opening.take() {
            return Poll::Ready(Some(opening));
        }
        let mut looks_around = false;
        while !self.ended {
            let tick = self.subscription.hub().tick();
            if tick != self.tick {
                self.tick = tick;
                looks_around = true;
                self.count();
                if let Some(last) = self.interrupted() {
                    return Poll::Ready(last);
                }
            }
            if self.caught_up_at.is_some_and(|at| self.cursor >= at) {
                self.caught_up_at = None;
                let (rendered, is_over) = self.dialect.caught_up(self.cursor);
                self.ended |= is_over;
                if rendered.is_empty() {
                    continue;
                }
                return Poll::Ready(Some(rendered));
            }
            let chunk = match self.poll_frames(context) {
                Poll::Ready(Some(chunk)) => chunk,
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Pending => {
                    // A beat before the waker was registered has woken no one.
                    if self.subscription.hub().tick() != self.tick {
                        continue;
                    }
                    if looks_around && self.spoke_at.elapsed() >= self.subscription.hub().silence() {
                        return Poll::Ready(Some(Bytes::from_static(frame::HEARTBEAT)));
                    }
                    return Poll::Pending;
                }
            };
            if !chunk.is_empty() {
                return Poll::Ready(Some(chunk));
            }
        }
        Poll::Ready(None)
    }

    /// Returns the last bytes, if the stream must end.
    fn interrupted(&mut self) -> Option<Option<Bytes>> {
        // They reconnect with their cursor; those of a log that was taken back then learn that it is ahead, or of another history.
        let reconnects = self.subscription.hub().is_draining() || self.permit.is_sent_away();
        if reconnects || self.subscription.is_taken_back() {
            self.ended = true;
            let goaway = self.dialect.goaway();
            return Some((!goaway.is_empty()).then_some(goaway));
        }
        (self.permit.is_ended() || self.subscription.is_gone()).then_some(None)
    }

    /// Returns visible events after the cursor: possibly none. Pending: the waker is registered.
    fn poll_frames(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if rejoin_faults::enabled(Fault::ReadersKeep) {
            std::mem::forget(vec![1_u8; 1024 * 1024]);
        }
        loop {
            if let Some(page) = &mut self.page {
                let Poll::Ready(page) = page.as_mut().poll(context) else {
                    self.subscription.wait(context.waker());
                    return Poll::Pending;
                };
                self.page = None;
                match page {
                    Page::Frames(frames) if rejoin_faults::enabled(Fault::ReaderSkips) && frames.len() > 1 => {
                        return Poll::Ready(Some(self.take(&frames[1..])));
                    }
                    Page::Frames(frames) => return Poll::Ready(Some(self.take(&frames))),
                    Page::NotNow => {}
                    // Retention has overtaken the reader: it reconnects with its cursor and is notified.
                    Page::Gone => return Poll::Ready(None),
                }
            }
            match self.poll_log(context) {
                Polled::Taken(chunk) => return Poll::Ready(Some(chunk)),
                Polled::Wait => return Poll::Pending,
                Polled::Behind => self.page = Some(self.read_table()),
            }
        }
    }

    /// Takes frames from the ring.
    fn poll_log(&mut self, context: &mut Context<'_>) -> Polled<Bytes> {
        let mut chunk = Chunk::default();
        let polled = self.subscription.poll_log(context.waker(), self.cursor, |frames| {
            for frame in frames.take(POLL_FRAMES) {
                if !chunk.add(
                    frame,
                    (self.filter, &mut self.dialect),
                    &mut self.cursor,
                    &mut self.ended,
                ) {
                    break;
                }
            }
        });
        match polled {
            Polled::Taken(()) => Polled::Taken(self.finish(chunk)),
            Polled::Wait => Polled::Wait,
            Polled::Behind => Polled::Behind,
        }
    }

    /// Takes a whole page of the past: what does not fit into one chunk would have to be read again.
    fn take(&mut self, frames: &[Frame]) -> Bytes {
        let mut chunk = Chunk::unbounded();
        for frame in frames {
            if !chunk.add(
                frame,
                (self.filter, &mut self.dialect),
                &mut self.cursor,
                &mut self.ended,
            ) {
                break;
            }
        }
        self.finish(chunk)
    }

    fn finish(&mut self, chunk: Chunk) -> Bytes {
        self.uncounted_events += chunk.events;
        chunk.into_bytes()
    }

    /// Updates the shared counters.
    fn count(&mut self) {
        let counters = &self.subscription.hub().counters;
        counters.events.increment(std::mem::take(&mut self.uncounted_events));
        counters.bytes.increment(std::mem::take(&mut self.uncounted_bytes));
    }

    /// Loads a page of the past.
    fn read_table(&self) -> Pin<Box<dyn Future<Output = Page> + Send>> {
        let hub = self.subscription.hub().clone();
        let (log_id, cursor) = (self.subscription.log_id, self.cursor);
        Box::pin(async move {
            hub.counters.pages.increment(1);
            match timeout(PAGE_LIMIT, hub.source.page(log_id, cursor)).await {
                Ok(Ok(events)) if events.first().is_some_and(|first| first.seq == cursor + 1) => {
                    Page::Frames(events.iter().map(Frame::of).collect())
                }
                Ok(Ok(_)) => Page::Gone,
                Ok(Err(error)) => {
                    debug!(error = %ErrorChain(&*error), %log_id, "reading past events failed; retrying");
                    sleep(RETRY).await;
                    Page::NotNow
                }
                Err(_) => {
                    debug!(%log_id, "reading past events timed out; retrying");
                    Page::NotNow
                }
            }
        })
    }
}

impl Stream for Reader {
    type Item = Result<Bytes, Infallible>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let reader = self.get_mut();
        let chunk = ready!(reader.poll_chunk(context));
        Poll::Ready(chunk.map(|chunk| {
            reader.spoke_at = Instant::now();
            reader.uncounted_bytes += chunk.len() as u64;
            if reader.uncounted_events >= COUNTED_EVENTS {
                reader.count();
            }
            Ok(chunk)
        }))
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.count();
    }
}

/// Frames sent together: one is shared, several are copied.
struct Chunk {
    max_bytes: usize,
    first: Bytes,
    joined: Vec<u8>,
    events: u64,
}

impl Default for Chunk {
    fn default() -> Self {
        Self {
            max_bytes: CHUNK_BYTES,
            first: Bytes::new(),
            joined: Vec::new(),
            events: 0,
        }
    }
}

impl Chunk {
    fn unbounded() -> Self {
        Self {
            max_bytes: usize::MAX,
            ..Self::default()
        }
    }

    /// Moves the cursor over a frame, and adds its visible part. False: no more.
    fn add(
        &mut self,
        frame: &Frame,
        (filter, dialect): (Filter, &mut Dialect),
        cursor: &mut i64,
        ended: &mut bool,
    ) -> bool {
        if !filter.shows(frame) {
            *cursor = frame.seq;
            return true;
        }
        // Before it is rendered, because a renderer takes each event once.
        if self.events > 0 && self.first.len().max(self.joined.len()) >= self.max_bytes {
            return false;
        }
        let is_last = filter.ends_with(frame);
        let rendered = dialect.render(frame, is_last);
        *cursor = frame.seq;
        match self.events {
            0 => self.first = rendered,
            1 => self.joined = [&self.first[..], &rendered[..]].concat(),
            _ => self.joined.extend_from_slice(&rendered),
        }
        self.events += 1;
        *ended = is_last || dialect.ends_with(frame.seq);
        !*ended
    }

    fn into_bytes(self) -> Bytes {
        if self.joined.is_empty() {
            self.first
        } else {
            self.joined.into()
        }
    }
}

#[cfg(test)]
mod tests;
