//! A reader: a cursor in a log, and the body of its response.
//!
//! It subscribes first, then reads the past from the table in pages until it meets the ring, then takes frames from the ring;
//! if it falls out of the ring it is a reader of the table again. Nothing is queued for it: the next chunk is made when the
//! connection asks for it, and dropping the body drops the cursor.

use std::convert::Infallible;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::Stream;
use futures::stream;
use rejoin_shared::db::Db;
use rejoin_shared::events::log;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;
use tracing::debug;
use uuid::Uuid;

use super::frame::{self, Frame};
use super::streams::Permit;
use super::tail::{Ahead, Subscription};

/// Frames that are ready are sent together, up to this size.
const CHUNK_BYTES: usize = 16 * 1024;
/// Between two tries while the database is away.
const RETRY: Duration = Duration::from_millis(200);

/// Which events of the log a reader sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Filter {
    /// All of them, for ever.
    Log,
    /// Those of a run and its sub-agents; the stream ends with the run's first `done` after `open_through` (earlier ones
    /// were followed by another turn of the same run). Events are marked with the root of their tree: a reader of a
    /// sub-agent looks closer.
    Run { id: Uuid, root: Uuid, open_through: i64 },
}

impl Filter {
    fn shows(self, frame: &Frame) -> bool {
        match self {
            Filter::Log => true,
            Filter::Run { id, root, .. } => frame.run_id == Some(root) && (id == root || frame.comes_from(id)),
        }
    }

    fn ends_with(self, frame: &Frame) -> bool {
        match self {
            Filter::Log => false,
            Filter::Run { id, open_through, .. } => frame.done_of == Some(id) && frame.seq > open_through,
        }
    }
}

pub struct Reader {
    pub db: Db,
    pub subscription: Subscription,
    pub permit: Permit,
    pub draining: CancellationToken,
    pub heartbeat: Duration,
    pub filter: Filter,
    /// The number of the last event that was sent or passed over.
    pub cursor: i64,
    /// Where the past ends: once the cursor is there, the reader is told.
    pub caught_up_at: Option<i64>,
    /// What is sent before any event.
    pub opening: Option<Bytes>,
    /// Nothing more comes after the opening.
    pub ended: bool,
}

/// What woke a waiting reader.
enum Woken {
    Look,
    Silence,
    End,
}

impl Reader {
    pub fn into_body(self) -> impl Stream<Item = Result<Bytes, Infallible>> + Send + 'static {
        stream::unfold(self, |mut reader| async move {
            let chunk = reader.next().await?;
            metrics::counter!("rejoin_stream_bytes_total").increment(chunk.len() as u64);
            Some((Ok(chunk), reader))
        })
    }

    /// The next bytes. None: the stream is over.
    async fn next(&mut self) -> Option<Bytes> {
        if let Some(opening) = self.opening.take() {
            return Some(opening);
        }
        let silent_at = Instant::now() + self.heartbeat;
        while !self.ended {
            if self.draining.is_cancelled() {
                self.ended = true;
                return Some(Bytes::from_static(frame::GOAWAY));
            }
            if self.permit.ended.is_cancelled() || self.subscription.gone().is_cancelled() {
                return None;
            }
            if self.caught_up_at.is_some_and(|at| self.cursor >= at) {
                self.caught_up_at = None;
                return Some(frame::caught_up(self.cursor));
            }
            let frames = match self.subscription.after(self.cursor, CHUNK_BYTES) {
                Ahead::Frames(frames) => frames,
                Ahead::UpToDate => match self.wait(silent_at, None).await {
                    Woken::Look => continue,
                    Woken::Silence => return Some(Bytes::from_static(frame::HEARTBEAT)),
                    Woken::End => continue,
                },
                Ahead::Behind => match self.read_table(silent_at).await {
                    Table::Page(frames) => frames,
                    Table::NotNow => match self.wait(silent_at, Some(RETRY)).await {
                        Woken::Look | Woken::End => continue,
                        Woken::Silence => return Some(Bytes::from_static(frame::HEARTBEAT)),
                    },
                    Table::Silence => return Some(Bytes::from_static(frame::HEARTBEAT)),
                    // Retention has overtaken the reader: it comes back with its cursor and is told.
                    Table::Gone => return None,
                },
            };
            let chunk = self.take(frames);
            if !chunk.is_empty() {
                return Some(chunk);
            }
            if Instant::now() >= silent_at {
                return Some(Bytes::from_static(frame::HEARTBEAT));
            }
        }
        None
    }

    /// Moves the cursor over `frames` and returns what the reader sees of them.
    fn take(&mut self, frames: Vec<Frame>) -> Bytes {
        let mut shown: Vec<Bytes> = Vec::with_capacity(frames.len());
        for frame in frames {
            self.cursor = frame.seq;
            if self.filter.shows(&frame) {
                let last = self.filter.ends_with(&frame);
                shown.push(frame.bytes);
                if last {
                    self.ended = true;
                    break;
                }
            }
        }
        metrics::counter!("rejoin_events_delivered_total").increment(shown.len() as u64);
        if shown.len() == 1 {
            return shown.remove(0);
        }
        let mut chunk = BytesMut::with_capacity(shown.iter().map(Bytes::len).sum());
        for bytes in shown {
            chunk.extend_from_slice(&bytes);
        }
        chunk.freeze()
    }

    /// Waits for news, at most until the stream has been silent too long (or, if given, for `limit`).
    async fn wait(&mut self, silent_at: Instant, limit: Option<Duration>) -> Woken {
        let gone = self.subscription.gone().clone();
        tokio::select! {
            () = self.subscription.changed(), if limit.is_none() => Woken::Look,
            () = sleep(limit.unwrap_or_default()), if limit.is_some() => Woken::Look,
            () = sleep_until(silent_at) => Woken::Silence,
            () = self.draining.cancelled() => Woken::End,
            () = self.permit.ended.cancelled() => Woken::End,
            () = gone.cancelled() => Woken::End,
        }
    }

    /// A page of the past.
    async fn read_table(&mut self, silent_at: Instant) -> Table {
        metrics::counter!("rejoin_log_reads_total").increment(1);
        let log_id = self.subscription.log_id;
        let read = tokio::select! {
            read = log::read(&self.db.hot, log_id, self.cursor) => read,
            () = sleep_until(silent_at) => return Table::Silence,
            () = self.draining.cancelled() => return Table::NotNow,
        };
        match read {
            Ok(events) if events.first().is_some_and(|first| first.seq == self.cursor + 1) => {
                Table::Page(events.iter().map(Frame::of).collect())
            }
            Ok(_) => Table::Gone,
            Err(error) => {
                debug!(%error, %log_id, "reading the past failed; trying again");
                Table::NotNow
            }
        }
    }
}

/// What the table had for a reader.
enum Table {
    Page(Vec<Frame>),
    /// Try again soon.
    NotNow,
    /// It takes so long that a heartbeat is due.
    Silence,
    /// The events after the cursor are not there any more.
    Gone,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(seq: i64, run: Uuid, done_of: Option<Uuid>) -> Frame {
        Frame {
            seq,
            run_id: Some(run),
            done_of,
            bytes: Bytes::new(),
        }
    }

    #[test]
    fn a_runs_readers_see_its_sub_agents_and_stop_at_its_own_done() {
        let (run, child, other) = (Uuid::now_v7(), Uuid::now_v7(), Uuid::now_v7());
        let filter = Filter::Run {
            id: run,
            root: run,
            open_through: 0,
        };
        assert!(!filter.shows(&frame(1, other, None)));
        assert!(filter.shows(&frame(2, run, Some(child))));
        assert!(!filter.ends_with(&frame(2, run, Some(child))));
        assert!(filter.ends_with(&frame(3, run, Some(run))));
    }

    #[test]
    fn a_resumed_runs_earlier_done_does_not_end_it() {
        let run = Uuid::now_v7();
        let filter = Filter::Run {
            id: run,
            root: run,
            open_through: 10,
        };
        assert!(!filter.ends_with(&frame(10, run, Some(run))));
        assert!(filter.ends_with(&frame(20, run, Some(run))));
    }
}
