//! Circuit breaker of an MCP server: opens for [`PAUSE`] after [`FAILURES`] consecutive failures, then lets one call
//! probe the server. Called by `connections`. Knows neither the server nor a clock.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Number of consecutive failures that open it.
const FAILURES: u32 = 3;
/// How long it stays open.
pub(crate) const PAUSE: Duration = Duration::from_secs(60);

#[derive(Debug)]
enum State {
    /// Calls pass; the number of consecutive failures.
    Closed(u32),
    /// No call passes until then.
    Open(Instant),
    /// One call has passed, and its outcome decides.
    Trying,
}

/// A std Mutex: no await while it is locked.
#[derive(Debug)]
pub(crate) struct Breaker {
    state: Mutex<State>,
    pause: Duration,
}

impl Breaker {
    pub(crate) fn new(pause: Duration) -> Self {
        Self {
            state: Mutex::new(State::Closed(0)),
            pause,
        }
    }

    /// Admits a call. Err: when to retry.
    pub(crate) fn admit(&self, now: Instant) -> Result<Admitted<'_>, Duration> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let tries = match *state {
            State::Closed(_) => false,
            State::Open(until) if until > now => return Err(until - now),
            State::Open(_) => {
                *state = State::Trying;
                true
            }
            State::Trying => return Err(self.pause),
        };
        Ok(Admitted { breaker: self, tries })
    }

    /// Admits a user's call, since the user may have fixed the server.
    pub(crate) fn admit_anyway(&self) -> Admitted<'_> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let tries = matches!(*state, State::Open(_));
        if tries {
            *state = State::Trying;
        }
        Admitted { breaker: self, tries }
    }
}

/// An admitted call. Dropped without an outcome (its run was cancelled), it is not counted.
pub(crate) struct Admitted<'a> {
    breaker: &'a Breaker,
    tries: bool,
}

impl Admitted<'_> {
    /// Records a response of the server.
    pub(crate) fn succeeded(mut self) {
        self.tries = false;
        *self.breaker.state.lock().unwrap_or_else(PoisonError::into_inner) = State::Closed(0);
    }

    /// Records a failure. True: it opened the breaker.
    pub(crate) fn failed(mut self, now: Instant) -> bool {
        let mut state = self.breaker.state.lock().unwrap_or_else(PoisonError::into_inner);
        let failures = match *state {
            State::Closed(failures) => failures + 1,
            State::Trying => FAILURES,
            // Opened by another call meanwhile.
            State::Open(_) => return false,
        };
        self.tries = false;
        let opens = failures >= FAILURES;
        *state = if opens {
            State::Open(now + self.breaker.pause)
        } else {
            State::Closed(failures)
        };
        opens
    }
}

impl Drop for Admitted<'_> {
    fn drop(&mut self) {
        if self.tries {
            // The next call probes instead.
            let mut state = self.breaker.state.lock().unwrap_or_else(PoisonError::into_inner);
            if matches!(*state, State::Trying) {
                *state = State::Open(Instant::now());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_failures_in_a_row_open_it_and_one_try_closes_it_again() {
        let breaker = Breaker::new(PAUSE);
        let start = Instant::now();
        let failed = |now| breaker.admit(now).ok().unwrap().failed(now);
        assert!(!failed(start) && !failed(start));
        breaker.admit(start).ok().unwrap().succeeded();
        assert!(!failed(start) && !failed(start) && failed(start));
        assert_eq!(breaker.admit(start).err(), Some(PAUSE));
        let later = start + PAUSE;
        let trying = breaker.admit(later).ok().unwrap();
        assert!(breaker.admit(later).is_err(), "one at a time");
        assert!(trying.failed(later), "and one failure is enough");
        assert!(breaker.admit(later).is_err());
        let later = later + PAUSE;
        breaker.admit(later).ok().unwrap().succeeded();
        assert!(breaker.admit(later).is_ok());
        assert!(matches!(*breaker.state.lock().unwrap(), State::Closed(0)));
    }

    #[test]
    fn a_person_tries_at_once() {
        let breaker = Breaker::new(PAUSE);
        let now = Instant::now();
        for _ in 0..FAILURES {
            breaker.admit(now).ok().unwrap().failed(now);
        }
        assert!(breaker.admit_anyway().failed(now) && breaker.admit(now).is_err());
        breaker.admit_anyway().succeeded();
        assert!(breaker.admit(now).is_ok());
    }

    #[test]
    fn a_try_that_is_given_up_lets_the_next_one_try() {
        let breaker = Breaker::new(Duration::ZERO);
        let now = Instant::now();
        for _ in 0..FAILURES {
            breaker.admit(now).ok().unwrap().failed(now);
        }
        drop(breaker.admit(Instant::now()).ok().unwrap());
        assert!(breaker.admit(Instant::now()).is_ok());
    }
}
