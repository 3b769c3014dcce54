//! The open streams of this process: how many each user has, and the mark that ends each when its key opens nothing any more.

use std::collections::HashMap;
use std::sync::Arc;

use uuid::Uuid;

use super::ground::Mutex;
use super::ground::atomic::{AtomicBool, Ordering};
use crate::caller::Caller;
use crate::problem::Problem;

/// What a user who has too many streams is told to wait.
const RETRY_AFTER_S: u64 = 5;

pub struct Streams {
    max: usize,
    max_per_user: usize,
    // A std mutex: nothing awaits while it is held.
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    next_id: u64,
    streams: HashMap<u64, Stream>,
    per_user: HashMap<Uuid, usize>,
}

struct Stream {
    key_id: Uuid,
    ended: Arc<AtomicBool>,
}

/// The right to have one stream open; dropped with it.
pub struct Permit {
    streams: Arc<Streams>,
    id: u64,
    user_id: Uuid,
    ended: Arc<AtomicBool>,
}

impl Permit {
    /// Whether the stream has to end.
    pub fn is_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }
}

impl Streams {
    /// At most `max`, and `max_per_user` of each user.
    pub fn new(max: usize, max_per_user: usize) -> Self {
        Self {
            max,
            max_per_user,
            open: Mutex::default(),
        }
    }

    pub fn admit(self: &Arc<Self>, caller: &Caller) -> Result<Permit, Problem> {
        let mut open = self.open.lock().expect("nothing panics while it is held");
        if open.streams.len() >= self.max {
            return Err(Problem::overloaded(RETRY_AFTER_S));
        }
        let of_user = open.per_user.entry(caller.user_id).or_default();
        if *of_user >= self.max_per_user {
            return Err(Problem::too_many("this user has too many open streams", RETRY_AFTER_S));
        }
        *of_user += 1;
        let id = open.next_id;
        open.next_id += 1;
        let ended = Arc::new(AtomicBool::new(false));
        open.streams.insert(
            id,
            Stream {
                key_id: caller.key_id,
                ended: ended.clone(),
            },
        );
        metrics::gauge!("rejoin_open_streams").increment(1.0);
        Ok(Permit {
            streams: self.clone(),
            id,
            user_id: caller.user_id,
            ended,
        })
    }

    /// The keys that hold a stream open.
    pub fn keys(&self) -> Vec<Uuid> {
        let open = self.open.lock().expect("nothing panics while it is held");
        let mut keys: Vec<Uuid> = open.streams.values().map(|stream| stream.key_id).collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    /// Marks the streams of these keys as ended, and returns how many there are. They see it when they are woken.
    pub fn end(&self, keys: &[Uuid]) -> usize {
        let open = self.open.lock().expect("nothing panics while it is held");
        let of_keys = open.streams.values().filter(|stream| keys.contains(&stream.key_id));
        of_keys
            .map(|stream| stream.ended.store(true, Ordering::Release))
            .count()
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut open = self.streams.open.lock().expect("nothing panics while it is held");
        open.streams.remove(&self.id);
        if let Some(of_user) = open.per_user.get_mut(&self.user_id) {
            *of_user -= 1;
            if *of_user == 0 {
                open.per_user.remove(&self.user_id);
            }
        }
        metrics::gauge!("rejoin_open_streams").decrement(1.0);
    }
}
