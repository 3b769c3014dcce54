//! Moments at which the scripted side stops and waits: before the model's first word, after its n-th, around a tool's effect, before the end.
//!
//! Set by `play` before a turn begins, passed by `scripted`. A fault then happens at an exact point of a turn, whatever the machine's speed:
//! the same seed gives the same verdicts. A moment that was released once stays open, so a second attempt does not stop there.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Serialize;
use tokio::sync::watch;

/// A moment of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Point {
    /// The model was asked and has said nothing.
    Start { step: usize },
    /// The model has said this many words of a step.
    Words { step: usize, count: usize },
    /// The tool of a step was called and has not acted.
    BeforeEffect { step: usize },
    /// The tool has acted and has not answered.
    AfterEffect { step: usize },
    /// The model has said all of a step and has not ended its answer.
    End { step: usize },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Set,
    Reached,
    Released,
}

type Key = (String, Point);

/// All moments of all turns.
#[derive(Default)]
pub struct Gate {
    states: Mutex<HashMap<Key, State>>,
    changes: watch::Sender<u64>,
}

impl Gate {
    fn states(&self) -> MutexGuard<'_, HashMap<Key, State>> {
        self.states.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn changed(&self) {
        self.changes.send_modify(|count| *count += 1);
    }

    /// The turn with this id will wait at this moment.
    pub fn hold(&self, id: &str, point: Point) {
        self.states().entry((id.to_owned(), point)).or_insert(State::Set);
    }

    /// Lets it go on.
    pub fn release(&self, id: &str, point: Point) {
        self.states().insert((id.to_owned(), point), State::Released);
        self.changed();
    }

    /// Lets all moments of a turn go on.
    pub fn release_all(&self, id: &str) {
        for ((held, _), state) in self.states().iter_mut() {
            if held == id {
                *state = State::Released;
            }
        }
        self.changed();
    }

    /// Waits here if the moment is held. Called by the scripted side.
    pub async fn pass(&self, id: &str, point: Point) {
        let key = (id.to_owned(), point);
        let mut changes = self.changes.subscribe();
        loop {
            let is_new = match self.states().get_mut(&key) {
                None | Some(State::Released) => return,
                Some(state) => std::mem::replace(state, State::Reached) == State::Set,
            };
            if is_new {
                self.changed();
            }
            if changes.changed().await.is_err() {
                return;
            }
        }
    }

    /// Waits until a held moment was reached. Returns whether it was, within `limit`.
    pub async fn reached(&self, id: &str, point: Point, limit: Duration) -> bool {
        let key = (id.to_owned(), point);
        let mut changes = self.changes.subscribe();
        let wait = async {
            loop {
                let state = self.states().get(&key).copied();
                if state != Some(State::Set) || changes.changed().await.is_err() {
                    return;
                }
            }
        };
        tokio::time::timeout(limit, wait).await.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_millis(20);
    const LONG: Duration = Duration::from_secs(5);
    const POINT: Point = Point::Words { step: 0, count: 3 };

    #[tokio::test]
    async fn a_moment_is_held_once() {
        let gate = Gate::default();
        gate.hold("a", POINT);
        assert!(!gate.reached("a", POINT, SHORT).await);
        let director = async {
            assert!(gate.reached("a", POINT, LONG).await);
            gate.release("a", POINT);
        };
        tokio::time::timeout(LONG, async { tokio::join!(gate.pass("a", POINT), director) })
            .await
            .unwrap();
        // The second attempt.
        tokio::time::timeout(LONG, gate.pass("a", POINT)).await.unwrap();
    }

    #[tokio::test]
    async fn other_moments_are_open() {
        let gate = Gate::default();
        gate.hold("a", POINT);
        tokio::time::timeout(LONG, gate.pass("b", POINT)).await.unwrap();
        tokio::time::timeout(LONG, gate.pass("a", Point::Start { step: 0 }))
            .await
            .unwrap();
        gate.release_all("a");
        tokio::time::timeout(LONG, gate.pass("a", POINT)).await.unwrap();
    }
}
