//! Readers of a chaos run: each follows a log throughout, and records its events, connection by connection.
//!
//! Faithful readers reconnect with their cursor until they have everything; restless ones disconnect after a few events
//! and reconnect with that cursor or an older one; late ones begin with a snapshot; slow ones read a little at a time.
//! The checker compares each one's events with the log. Where commits may be lost, or projects move, readers send the epoch of their events, as our
//! clients do. They discard what they have when they are notified that the log was taken back.

use std::time::Duration;

use bytes::Bytes;
use futures::{Stream, StreamExt as _};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use rejoin_cli::stream::Parser;
use reqwest::Method;
use serde_json::Value;
use tokio::time::{Instant, sleep, timeout};

use crate::client::Client;
use crate::evidence::{Heard, Session, Snapshot, Target, now_us};

/// Silence after which a connection is abandoned, as by our client.
const SILENCE_LIMIT: Duration = Duration::from_secs(20);
/// Timeout of a request.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);
/// Delay between two connections.
const RETRY: Duration = Duration::from_millis(100);
/// Interval of checks whether everything has ended.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// A slow reader's read size, and its pause.
const SLOW_PAUSE: Duration = Duration::from_millis(150);
/// Maximum number of events after which a restless reader disconnects.
const RESTLESS_EVENTS: usize = 60;
/// Maximum distance by which a restless reader goes back.
const RESTLESS_BACK: i64 = 80;
/// The header with the epoch of a stream's events.
const EPOCH: &str = "x-log-epoch";
/// Problems that notify a reader that the log was taken back.
const TAKEN_BACK: [&str; 2] = ["cursor_rewound", "cursor_ahead"];
/// Maximum number of events in memory per session.
const SESSION_EVENTS: usize = 5_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    Faithful,
    Restless,
    Late,
    Slow,
}

impl Manner {
    /// The behaviour of a log's `nth` reader.
    pub fn of(nth: u64) -> Self {
        match nth % 7 {
            0..=2 => Manner::Faithful,
            3 | 4 => Manner::Restless,
            5 => Manner::Late,
            _ => Manner::Slow,
        }
    }
}

/// Reads until everything has ended and the log was read to its end.
pub async fn follow(client: Client, target: Target, name: String, manner: Manner, seed: u64) {
    let mut reader = Reader {
        client,
        target,
        name,
        manner,
        dice: StdRng::seed_from_u64(seed),
        cursor: 0,
        was_taken_back: false,
        begun: false,
        epoch: None,
        has_returned: false,
    };
    reader.run().await;
}

struct Reader {
    client: Client,
    target: Target,
    name: String,
    manner: Manner,
    dice: StdRng,
    /// The last number received.
    cursor: i64,
    /// It has discarded what it had.
    was_taken_back: bool,
    /// An event or a snapshot was received.
    begun: bool,
    /// Of the stream that was read last.
    epoch: Option<String>,
    /// It had everything, and comes back once more at the end.
    has_returned: bool,
}

/// Why a connection ended.
#[derive(Debug, PartialEq, Eq)]
enum End {
    /// By the peer, or the network.
    Broken,
    /// By the reader.
    Left,
    /// Everything was received.
    Over,
}

impl Reader {
    async fn run(&mut self) {
        loop {
            let end = self.connect().await;
            if end == End::Over {
                if self.has_returned || !self.client.world.may_lose_commits {
                    return;
                }
                // A failover may take back what it has after it has left.
                self.client.world.readers_end.cancelled().await;
                self.has_returned = true;
                continue;
            }
            if end == End::Left && self.manner == Manner::Restless && self.dice.random_bool(0.5) {
                self.cursor = (self.cursor - self.dice.random_range(0..=RESTLESS_BACK)).max(0);
            }
            sleep(RETRY).await;
        }
    }

    /// The log was taken back: what follows begins with a snapshot.
    fn discard(&mut self) {
        self.cursor = 0;
        self.begun = false;
        self.was_taken_back = true;
    }

    /// Returns the query by which the API finds out whether the log still has this reader's events. Slow readers ask for a snapshot at once if not; others are
    /// refused, and come back for it.
    fn epoch_query(&self) -> String {
        match (&self.epoch, self.manner) {
            (Some(epoch), Manner::Slow) if self.client.world.sends_epochs() => {
                format!("?epoch={epoch}&on_gap=event")
            }
            (Some(epoch), _) if self.client.world.sends_epochs() => format!("?epoch={epoch}"),
            _ => String::new(),
        }
    }

    /// One connection.
    async fn connect(&mut self) -> End {
        let world = self.client.world.clone();
        let from_snapshot = !self.begun && (self.manner == Manner::Late || self.was_taken_back);
        let api = self.dice.random_range(0..world.apis.len());
        let path = match self.target {
            Target::Conversation(id) => format!("/api/conversations/{id}/events"),
            Target::Run(id) => format!("/api/runs/{id}/events"),
        };
        let (path, after) = if from_snapshot {
            (format!("{path}?from=snapshot"), None)
        } else {
            (format!("{path}{}", self.epoch_query()), Some(self.cursor))
        };
        let mut request = self
            .client
            .request_at(api, Method::GET, &path)
            .header("accept", "text/event-stream");
        if let Some(after) = after {
            request = request.header("last-event-id", after.to_string());
        }
        let mut session = Session {
            reader: self.name.clone(),
            user: self.client.user,
            target: self.target,
            after,
            from_snapshot,
            api,
            status: 0,
            opened_us: now_us(),
            heard: Vec::new(),
            snapshot: None,
            taken_back: false,
            slow: self.manner == Manner::Slow,
            faithful_end: false,
        };
        let is_over = async || is_heard_out(&world, self.target, self.cursor).await;
        let Ok(Ok(response)) = timeout(CONNECT_LIMIT, request.send()).await else {
            return End::Broken;
        };
        session.status = response.status().as_u16();
        if session.status != 200 {
            if world.may_lose_commits {
                session.taken_back = session.status == 404 || (session.status == 400 && is_taken_back(response).await);
            }
            // 204: at the end of an ended run. 404: a failover took all of it back.
            let over = match session.status {
                204 => true,
                status if session.taken_back => status == 404,
                _ => world.readers_end.is_cancelled() && is_over().await,
            };
            session.faithful_end = over;
            world.evidence.session(&session);
            if session.taken_back {
                self.discard();
            }
            return if over { End::Over } else { End::Broken };
        }
        if let Some(epoch) = response.headers().get(EPOCH).and_then(|epoch| epoch.to_str().ok()) {
            self.epoch = Some(epoch.to_owned());
        }
        let end = self.listen(response.bytes_stream().boxed(), &mut session).await;
        session.faithful_end = end == End::Over;
        world.evidence.session(&session);
        end
    }

    async fn listen(
        &mut self,
        mut body: impl Stream<Item = reqwest::Result<Bytes>> + Unpin,
        session: &mut Session,
    ) -> End {
        let world = self.client.world.clone();
        let mut storm = world.storm.subscribe();
        let mut parser = Parser::default();
        let leave_after = self.dice.random_range(1..=RESTLESS_EVENTS);
        let mut spoke_at = Instant::now();
        loop {
            let piece = tokio::select! {
                piece = body.next() => piece,
                _ = storm.changed() => return End::Broken,
                () = sleep(LOOK_EVERY) => {
                    if world.readers_end.is_cancelled() && is_heard_out(&world, self.target, self.cursor).await {
                        return End::Over;
                    }
                    if spoke_at.elapsed() > SILENCE_LIMIT {
                        return End::Broken;
                    }
                    continue;
                }
            };
            let Some(Ok(piece)) = piece else {
                // A run's stream ends with it; the next request tells.
                return End::Broken;
            };
            spoke_at = Instant::now();
            let frames = parser.push(&piece).expect("no line of ours is that long");
            for frame in frames {
                let json: Value = serde_json::from_str(&frame.data).expect("a frame's data is JSON");
                let seq = frame.id.and_then(|id| id.parse().ok());
                match (json["type"].as_str(), seq) {
                    (Some("rewound"), _) => {
                        session.taken_back = true;
                        self.discard();
                    }
                    (Some("snapshot"), _) => {
                        let through = json["through"].as_i64().expect("a snapshot says where it ends");
                        session.snapshot = Some(Snapshot {
                            through,
                            text: json["turn"]["text"].as_str().map(str::to_owned),
                        });
                        self.cursor = through;
                        self.begun = true;
                    }
                    (_, Some(seq)) => {
                        session.heard.push(Heard {
                            seq,
                            data: frame.data,
                            at_us: now_us(),
                        });
                        self.cursor = seq;
                        self.begun = true;
                    }
                    (_, None) => {}
                }
            }
            if self.manner == Manner::Restless
                && session.heard.len() >= leave_after
                && !world.readers_end.is_cancelled()
            {
                return End::Left;
            }
            if session.heard.len() >= SESSION_EVENTS {
                return End::Left;
            }
            if self.manner == Manner::Slow {
                sleep(SLOW_PAUSE).await;
            }
        }
    }
}

/// Returns whether a refusal notifies a reader that the log was taken back.
async fn is_taken_back(response: reqwest::Response) -> bool {
    let body = timeout(CONNECT_LIMIT, response.json::<Value>()).await;
    matches!(body, Ok(Ok(body)) if body["code"].as_str().is_some_and(|code| TAKEN_BACK.contains(&code)))
}

/// Returns whether the cursor is at the log's end; also false if a database is unreachable.
async fn is_heard_out(world: &crate::world::World, target: Target, cursor: i64) -> bool {
    let mut is_over = false;
    for db in world.databases() {
        let end = match target {
            Target::Conversation(id) => {
                sqlx::query_scalar::<_, i64>("select last_seq from stream.log_ends where log_id = $1").bind(id)
            }
            // A run's readers get everything up to its `done`.
            Target::Run(id) => sqlx::query_scalar::<_, i64>(
                "select coalesce(done_seq, 9223372036854775807) from kb.agent_runs where id = $1",
            )
            .bind(id),
        };
        // Rows that a project has left on its old database are behind those of the new one.
        match end.fetch_optional(&db).await {
            Ok(Some(end)) if cursor >= end => is_over = true,
            Ok(None) => {}
            Ok(Some(_)) | Err(_) => return false,
        }
    }
    is_over
}
