//! The newest events of one log, rendered, and the readers waiting for the next one. Filled by `tail`, read by
//! `reader`.
//!
//! A ring holds contiguous numbers, `first..next`. A reader whose cursor is behind `first` reads the table. A waiting
//! reader takes one slot: no future, no timer, no lock of others.

use std::collections::VecDeque;
use std::collections::vec_deque::Iter;
use std::task::Waker;

use slab::Slab;

use super::frame::Frame;
use super::sync::atomic::{AtomicBool, Ordering};
use super::sync::{Mutex, MutexGuard, PoisonError};

/// Maximum number of frames in one log's ring. Few in models, which test falling out of it.
const RING_FRAMES: usize = if cfg!(test) { 4 } else { 2_048 };
const RING_BYTES: usize = 512 * 1024;

/// The live end of one log.
pub struct LogTail {
    // A std mutex: no await while it is locked.
    live: Mutex<Live>,
    gone: AtomicBool,
    taken_back: AtomicBool,
}

struct Live {
    ring: Ring,
    /// A slot per reader, with its waker for the next event.
    waiting: Slab<Option<Waker>>,
}

/// A ring's result for a cursor.
#[derive(Debug)]
pub enum Ahead<'a> {
    /// The events after it.
    Frames(Iter<'a, Frame>),
    /// There are no new events.
    UpToDate,
    /// The ring begins later: read the table.
    Behind,
}

/// A reader's result.
pub enum Polled<T> {
    /// The result for the events after its cursor.
    Taken(T),
    /// There are no new events. The reader will be woken.
    Wait,
    /// The events are in the table.
    Behind,
}

impl LogTail {
    /// For a log whose next event has this number.
    pub fn new(next: i64) -> Self {
        Self {
            live: Mutex::new(Live {
                ring: Ring::new(next),
                waiting: Slab::new(),
            }),
            gone: AtomicBool::new(false),
            taken_back: AtomicBool::new(false),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Live> {
        // A panicking holder never leaves it half changed.
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Allocates a reader's slot.
    pub fn enter(&self) -> usize {
        self.lock().waiting.insert(None)
    }

    pub fn leave(&self, place: usize) {
        self.lock().waiting.remove(place);
    }

    /// Returns the number of the last known event.
    pub fn last_seq(&self) -> i64 {
        self.lock().ring.next - 1
    }

    /// Passes the events after `cursor` to `take`. Without any, the reader is woken by the next one, or by
    /// [`LogTail::wake`].
    pub fn poll_log<T>(
        &self,
        place: usize,
        waker: &Waker,
        cursor: i64,
        take: impl FnOnce(Iter<'_, Frame>) -> T,
    ) -> Polled<T> {
        let mut live = self.lock();
        match live.ring.after(cursor) {
            Ahead::Frames(frames) => Polled::Taken(take(frames)),
            Ahead::Behind => Polled::Behind,
            Ahead::UpToDate => {
                live.wait(place, waker);
                Polled::Wait
            }
        }
    }

    /// Registers the reader to be woken by the next event, or by [`LogTail::wake`].
    pub fn wait(&self, place: usize, waker: &Waker) {
        self.lock().wait(place, waker);
    }

    /// Appends events; skips known ones. Returns the number of the last.
    pub fn append(&self, frames: impl Iterator<Item = Frame>) -> i64 {
        Self::push(self.lock(), frames)
    }

    /// The same for events of which the first has the number `first`, if they follow on the known ones. None: those between are not known here.
    pub fn append_next(&self, first: i64, frames: impl Iterator<Item = Frame>) -> Option<i64> {
        let live = self.lock();
        (first <= live.ring.next).then(|| Self::push(live, frames))
    }

    fn push(mut live: MutexGuard<'_, Live>, frames: impl Iterator<Item = Frame>) -> i64 {
        for frame in frames {
            live.ring.push(frame);
        }
        let last = live.ring.next - 1;
        let woken = live.woken();
        drop(live);
        // Without the lock, which the first of them needs immediately.
        woken.into_iter().for_each(Waker::wake);
        last
    }

    /// Wakes all readers for something other than an event.
    pub fn wake(&self) {
        let woken = self.lock().woken();
        woken.into_iter().for_each(Waker::wake);
    }

    /// Drops the events of a log that has had no new ones since the last call: its readers have them, or read the table. An open conversation
    /// in which nothing happens then costs its readers only.
    pub fn drop_idle(&self) {
        self.lock().ring.drop_idle();
    }

    /// Marks the log as deleted. Readers see it when they are woken.
    pub fn end(&self) {
        self.gone.store(true, Ordering::Release);
    }

    /// Marks the log as shortened. Readers see it when they are woken.
    pub fn take_back(&self) {
        self.taken_back.store(true, Ordering::Release);
    }

    pub fn is_taken_back(&self) -> bool {
        self.taken_back.load(Ordering::Acquire)
    }

    pub fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Acquire)
    }
}

impl Live {
    fn wait(&mut self, place: usize, waker: &Waker) {
        let waiting = &mut self.waiting[place];
        if !waiting.as_ref().is_some_and(|known| known.will_wake(waker)) {
            *waiting = Some(waker.clone());
        }
    }

    fn woken(&mut self) -> Vec<Waker> {
        self.waiting
            .iter_mut()
            .filter_map(|(_, waiting)| waiting.take())
            .collect()
    }
}

struct Ring {
    frames: VecDeque<Frame>,
    bytes: usize,
    /// The number of the next event.
    next: i64,
    /// The same at the last [`Ring::drop_idle`].
    next_before: i64,
}

impl Ring {
    fn new(next: i64) -> Self {
        Self {
            frames: VecDeque::new(),
            bytes: 0,
            next,
            next_before: next,
        }
    }

    fn drop_idle(&mut self) {
        if self.next == self.next_before && !self.frames.is_empty() {
            self.frames = VecDeque::new();
            self.bytes = 0;
        }
        self.next_before = self.next;
    }

    fn push(&mut self, frame: Frame) {
        if frame.seq < self.next {
            return;
        }
        if frame.seq > self.next {
            // Retention deleted the events in between: keep the ring contiguous.
            self.frames.clear();
            self.bytes = 0;
        }
        self.next = frame.seq + 1;
        self.bytes += frame.bytes.len();
        self.frames.push_back(frame);
        while self.frames.len() > RING_FRAMES || self.bytes > RING_BYTES {
            let Some(oldest) = self.frames.pop_front() else { break };
            self.bytes -= oldest.bytes.len();
        }
    }

    fn after(&self, cursor: i64) -> Ahead<'_> {
        let first = self.next - i64::try_from(self.frames.len()).unwrap_or(i64::MAX);
        let wanted = cursor + 1;
        if wanted < first {
            Ahead::Behind
        } else if wanted >= self.next {
            // A reader's page of the table may have been newer than the tail.
            Ahead::UpToDate
        } else {
            let skip = usize::try_from(wanted - first).unwrap_or(usize::MAX);
            Ahead::Frames(self.frames.range(skip.min(self.frames.len())..))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::task::Wake;

    use bytes::Bytes;
    use rejoin_interleave::explore;

    use crate::sync::atomic::AtomicUsize;

    fn frame(seq: i64) -> Frame {
        Frame {
            seq,
            run_id: None,
            done_of: None,
            bytes: Bytes::from(format!("{seq}")),
        }
    }

    fn numbers(ahead: Ahead<'_>) -> Vec<i64> {
        match ahead {
            Ahead::Frames(frames) => frames.map(|frame| frame.seq).collect(),
            Ahead::UpToDate | Ahead::Behind => vec![],
        }
    }

    #[test]
    fn a_ring_gives_what_is_after_a_cursor_once() {
        let mut ring = Ring::new(5);
        for seq in [5, 6, 6, 5, 7] {
            ring.push(frame(seq));
        }
        assert_eq!(numbers(ring.after(4)), [5, 6, 7]);
        assert_eq!(numbers(ring.after(6)), [7]);
        assert!(matches!(ring.after(7), Ahead::UpToDate));
        assert!(
            matches!(ring.after(9), Ahead::UpToDate),
            "the reader's page was newer than the tail"
        );
        assert!(matches!(ring.after(3), Ahead::Behind));
    }

    #[test]
    fn a_ring_stays_bounded_and_contiguous() {
        let mut ring = Ring::new(1);
        for seq in 1..=5_000 {
            ring.push(frame(seq));
        }
        assert_eq!(ring.frames.len(), RING_FRAMES);
        assert!(matches!(ring.after(1), Ahead::Behind));
        ring.push(frame(9_000));
        assert_eq!(numbers(ring.after(8_999)), [9_000]);
        assert!(
            matches!(ring.after(5_000), Ahead::Behind),
            "what lay between is for the table to tell"
        );
    }

    #[test]
    fn a_log_without_news_keeps_no_events() {
        let mut ring = Ring::new(1);
        ring.push(frame(1));
        ring.drop_idle();
        assert_eq!(numbers(ring.after(0)), [1], "it is new since the last time");
        ring.drop_idle();
        assert!(matches!(ring.after(0), Ahead::Behind));
        assert!(matches!(ring.after(1), Ahead::UpToDate));
        assert_eq!((ring.frames.capacity(), ring.bytes), (0, 0));
        ring.push(frame(2));
        assert_eq!(numbers(ring.after(1)), [2]);
    }

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_reader_that_waits_is_woken_once_and_one_that_left_is_not() {
        explore(1, || async { wakes_once() });
    }

    fn wakes_once() {
        let tail = LogTail::new(1);
        let count = Arc::new(Count::default());
        let waker = Waker::from(count.clone());
        let (stays, leaves) = (tail.enter(), tail.enter());
        for place in [stays, stays, leaves] {
            assert!(matches!(tail.poll_log(place, &waker, 0, |_| ()), Polled::Wait));
        }
        tail.leave(leaves);
        assert_eq!(tail.append([frame(1), frame(2)].into_iter()), 2);
        assert_eq!(count.0.load(Ordering::Relaxed), 1);
        let Polled::Taken(seqs) = tail.poll_log(stays, &waker, 0, |frames| {
            frames.map(|frame| frame.seq).collect::<Vec<_>>()
        }) else {
            panic!("there are two");
        };
        assert_eq!(seqs, [1, 2]);
        tail.wake();
        assert_eq!(count.0.load(Ordering::Relaxed), 1, "it does not wait now");
    }
}
