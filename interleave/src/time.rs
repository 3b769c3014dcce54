//! A clock moved by the scheduler: the same names as tokio's. It jumps from deadline to deadline, at any moment, even
//! while other tasks could run, but not far: a machine may be slow.
//!
//! All futures of a model run on one thread, to which its clock belongs.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::ops::Add;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::{once_in, yield_now};

/// Time passes at one in this many opportunities.
const PASSES_ONCE_IN: usize = 4;

/// Maximum step of time: distant deadlines do not arrive because one task was slow once.
const LONGEST_STEP: Duration = Duration::from_secs(1);

#[derive(Default)]
struct Clock {
    now: Duration,
    next_id: u64,
    /// Waiting tasks, by deadline.
    sleepers: BTreeMap<(Duration, u64), Waker>,
    /// The clock itself, while no task waits.
    idle: Option<Waker>,
    has_ended: bool,
}

thread_local! {
    static CLOCK: RefCell<Clock> = RefCell::default();
}

fn with<T>(act: impl FnOnce(&mut Clock) -> T) -> T {
    CLOCK.with_borrow_mut(act)
}

/// Starts a model's clock.
pub(crate) fn begin() {
    with(|clock| *clock = Clock::default());
}

/// Stops a model's clock.
pub(crate) fn end() {
    let idle = with(|clock| {
        clock.has_ended = true;
        clock.idle.take()
    });
    if let Some(idle) = idle {
        idle.wake();
    }
}

/// Lets time pass until the end.
pub(crate) async fn pass() {
    loop {
        let goes_on = poll_fn(|context| {
            with(|clock| {
                if clock.has_ended {
                    Poll::Ready(false)
                } else if clock.sleepers.is_empty() {
                    clock.idle = Some(context.waker().clone());
                    Poll::Pending
                } else {
                    Poll::Ready(true)
                }
            })
        })
        .await;
        if !goes_on {
            return;
        }
        if once_in(PASSES_ONCE_IN) {
            let due = with(|clock| {
                let first = clock.sleepers.first_entry()?;
                let (deadline, _) = *first.key();
                if deadline > clock.now + LONGEST_STEP {
                    clock.now += LONGEST_STEP;
                    return None;
                }
                clock.now = clock.now.max(deadline);
                Some(first.remove())
            });
            if let Some(waker) = due {
                waker.wake();
            }
        }
        yield_now().await;
    }
}

/// A moment of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Instant(Duration);

impl Instant {
    pub fn now() -> Self {
        Self(with(|clock| clock.now))
    }

    pub fn elapsed(&self) -> Duration {
        Self::now().0.saturating_sub(self.0)
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    fn add(self, later: Duration) -> Self {
        Self(self.0 + later)
    }
}

/// Waits until a deadline.
#[derive(Debug)]
pub struct Sleep {
    deadline: Duration,
    id: Option<u64>,
}

pub fn sleep(duration: Duration) -> Sleep {
    sleep_until(Instant::now() + duration)
}

pub fn sleep_until(deadline: Instant) -> Sleep {
    Sleep {
        deadline: deadline.0,
        id: None,
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let (now_idle, poll) = with(|clock| {
            if clock.now >= self.deadline {
                return (None, Poll::Ready(()));
            }
            let id = *self.id.get_or_insert_with(|| {
                clock.next_id += 1;
                clock.next_id
            });
            clock.sleepers.insert((self.deadline, id), context.waker().clone());
            (clock.idle.take(), Poll::Pending)
        });
        if let Some(idle) = now_idle {
            idle.wake();
        }
        poll
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            with(|clock| clock.sleepers.remove(&(self.deadline, id)));
        }
    }
}

/// The limit of [`timeout`] has passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Elapsed;

/// Cancels a future after `limit`.
pub async fn timeout<F: Future>(limit: Duration, future: F) -> Result<F::Output, Elapsed> {
    let mut sleep = sleep(limit);
    let mut future = pin!(future);
    poll_fn(move |context| {
        if let Poll::Ready(output) = future.as_mut().poll(context) {
            return Poll::Ready(Ok(output));
        }
        Pin::new(&mut sleep).poll(context).map(|()| Err(Elapsed))
    })
    .await
}
