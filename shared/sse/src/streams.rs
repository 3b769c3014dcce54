//! The open streams of this process: counts per user and workspace, and the signal that ends each stream when its key,
//! token or membership is revoked.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use futures::StreamExt;
use rejoin_http::caller::Caller;
use rejoin_http::problem::Problem;
use rejoin_identity::auth::{Credential, SessionBasis};
use uuid::Uuid;

use super::sync::Mutex;
use super::sync::atomic::{AtomicBool, Ordering};

/// Interval of checks whether a body may go on.
const LOOK: Duration = Duration::from_secs(1);
/// Retry delay of callers with too many streams, in seconds.
const RETRY_AFTER_S: u64 = 5;

pub struct Streams {
    max: usize,
    max_per_user: usize,
    max_per_workspace: usize,
    // A std mutex: no await while it is locked.
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    next_id: u64,
    streams: HashMap<u64, Stream>,
    per_user: HashMap<Uuid, usize>,
    per_workspace: HashMap<Uuid, usize>,
}

/// Counts one more for `id`, if allowed.
fn take(counts: &mut HashMap<Uuid, usize>, id: Uuid, max: usize) -> bool {
    let count = counts.entry(id).or_default();
    let free = *count < max;
    if free {
        *count += 1;
    }
    free
}

/// Counts one less for `id`.
fn give_back(counts: &mut HashMap<Uuid, usize>, id: Uuid) {
    if let Some(count) = counts.get_mut(&id) {
        *count -= 1;
        if *count == 0 {
            counts.remove(&id);
        }
    }
}

struct Stream {
    basis: SessionBasis,
    credential: Credential,
    signal: Arc<Signal>,
}

/// Why a stream must end.
struct Signal {
    /// Its credential is no longer valid.
    ended: AtomicBool,
    /// Its workspace has moved to another database: the reader reconnects with its cursor.
    sent_away: AtomicBool,
}

/// A permit for one open stream, released when dropped.
pub struct Permit {
    streams: Arc<Streams>,
    id: u64,
    user_id: Uuid,
    workspace_id: Uuid,
    signal: Arc<Signal>,
}

impl Permit {
    /// Returns whether the stream must end.
    pub fn is_ended(&self) -> bool {
        self.signal.ended.load(Ordering::Acquire)
    }

    /// Returns whether its reader must reconnect.
    pub fn is_sent_away(&self) -> bool {
        self.signal.sent_away.load(Ordering::Acquire)
    }

    /// Ends a body that is not a reader's when the stream must end.
    pub fn bounds(self, body: Body) -> Body {
        let ended = async move {
            while !self.is_ended() {
                tokio::time::sleep(LOOK).await;
            }
        };
        Body::from_stream(body.into_data_stream().take_until(ended))
    }
}

impl Streams {
    /// At most `max`, `max_per_user` of each user, and `max_per_workspace` of each workspace.
    pub fn new(max: usize, max_per_user: usize, max_per_workspace: usize) -> Self {
        Self {
            max,
            max_per_user,
            max_per_workspace,
            open: Mutex::default(),
        }
    }

    pub fn admit(self: &Arc<Self>, caller: &Caller) -> Result<Permit, Problem> {
        let mut open = self.open.lock().expect("nothing panics while it is held");
        if open.streams.len() >= self.max {
            return Err(Problem::overloaded(RETRY_AFTER_S));
        }
        if !take(&mut open.per_user, caller.user_id, self.max_per_user) {
            return Err(Problem::too_many("this user has too many open streams", RETRY_AFTER_S));
        }
        if !take(&mut open.per_workspace, caller.workspace_id, self.max_per_workspace) {
            give_back(&mut open.per_user, caller.user_id);
            return Err(Problem::too_many(
                "this project has too many open streams",
                RETRY_AFTER_S,
            ));
        }
        let id = open.next_id;
        open.next_id += 1;
        let signal = Arc::new(Signal {
            ended: AtomicBool::new(false),
            sent_away: AtomicBool::new(false),
        });
        open.streams.insert(
            id,
            Stream {
                basis: caller.session_basis(),
                credential: caller.credential,
                signal: signal.clone(),
            },
        );
        metrics::gauge!("rejoin_open_streams").increment(1.0);
        Ok(Permit {
            streams: self.clone(),
            id,
            user_id: caller.user_id,
            workspace_id: caller.workspace_id,
            signal,
        })
    }

    /// Returns the credentials of the open streams.
    pub fn bases(&self) -> Vec<SessionBasis> {
        let open = self.open.lock().expect("nothing panics while it is held");
        let mut bases: Vec<SessionBasis> = open.streams.values().map(|stream| stream.basis).collect();
        bases.sort_unstable();
        bases.dedup();
        bases
    }

    /// Marks the streams with these credentials as ended, and returns their number. They see it when they are woken.
    pub fn end(&self, bases: &HashSet<SessionBasis>) -> usize {
        self.end_where(|stream| bases.contains(&stream.basis))
    }

    /// The same for streams with expired tokens.
    pub fn end_expired(&self) -> usize {
        self.end_where(|stream| stream.credential.has_expired())
    }

    /// Marks the streams of a workspace so that their readers reconnect, and returns their number.
    pub fn send_away(&self, workspace_id: Uuid) -> usize {
        self.mark(|stream| (stream.basis.workspace_id == workspace_id).then_some(&stream.signal.sent_away))
    }

    fn end_where(&self, ends: impl Fn(&Stream) -> bool) -> usize {
        self.mark(|stream| ends(stream).then_some(&stream.signal.ended))
    }

    /// Sets the chosen mark of each stream that has one, and returns their number.
    fn mark(&self, chosen: impl Fn(&Stream) -> Option<&AtomicBool>) -> usize {
        let open = self.open.lock().expect("nothing panics while it is held");
        let marks = open.streams.values().filter_map(chosen);
        marks.map(|mark| mark.store(true, Ordering::Release)).count()
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut open = self.streams.open.lock().expect("nothing panics while it is held");
        open.streams.remove(&self.id);
        give_back(&mut open.per_user, self.user_id);
        give_back(&mut open.per_workspace, self.workspace_id);
        metrics::gauge!("rejoin_open_streams").decrement(1.0);
    }
}
