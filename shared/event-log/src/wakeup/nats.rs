//! The wake-up bus over NATS: one subject, from which each process receives all hints, its own among them.
//!
//! Core NATS: the server stores nothing, and a hint that it does not deliver is lost. A process that does not receive its own
//! probes sends nothing and polls, and the client reconnects without end: an outage costs latency, and blocks nothing.
//!
//! - `settings` the checked settings, and the check of `rejoin doctor`

mod settings;

pub use settings::{BusError, CheckError, check};

use std::error::Error;
use std::fmt::Display;
use std::time::Duration;

use async_nats::connection::State;
use async_nats::{Client, Event, Subscriber};
use futures::StreamExt;
use rejoin_db::Db;
use rejoin_db::config::NatsArgs;
use rejoin_db::failure_log::{ErrorChain, FailureLog};
use rejoin_types::ids;
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};
use tracing::debug;

use self::settings::{PROBE, Settings};
use super::outbox::Carrier;
use super::payload::Key;
use super::remote::{CAPACITY, Inbox, RemoteBus};

/// Maximum number of messages that wait for the connection. While they wait, further hints gather in the outbox.
const UNSENT: usize = 64;
/// Maximum number of changes of the connection that wait to be looked at. Dropped ones are noticed by the next probe.
const EVENTS: usize = 64;
/// Interval of probes, and the time after which an unanswered one means that hints do not arrive.
const PROBE_EVERY: Duration = Duration::from_secs(5);
const PROBE_LIMIT: Duration = Duration::from_secs(4);
/// Interval of the client's own pings. After two without an answer it connects again.
const PING_EVERY: Duration = Duration::from_secs(5);
/// Timeouts of what delays the receipt of hints: handing a probe to the client, and reading the key.
const HAND_OVER_LIMIT: Duration = Duration::from_secs(1);
const KEY_LIMIT: Duration = Duration::from_secs(5);
/// Pause before the first attempt to connect, doubled before each further one, and its maximum.
const RECONNECT_FIRST: Duration = Duration::from_millis(50);
const RECONNECT_MAX: Duration = Duration::from_secs(2);

/// Starts the bus. The servers need not be up.
///
/// # Errors
/// The settings are invalid.
pub(super) async fn start(args: &NatsArgs, db: Db) -> Result<RemoteBus, BusError> {
    let settings = Settings::of(args)?;
    let (events, changes) = mpsc::channel(EVENTS);
    let options = settings
        .options
        .retry_on_initial_connect()
        .ping_interval(PING_EVERY)
        .reconnect_delay_callback(delay)
        .client_capacity(UNSENT)
        .subscription_capacity(CAPACITY)
        .event_callback(move |event| {
            let _ = events.try_send(event);
            std::future::ready(())
        });
    let client = options.connect(settings.servers).await.map_err(BusError::client)?;
    let messages = client
        .subscribe(settings.subject.clone())
        .await
        .map_err(BusError::client)?;
    let (key, inbox) = (Key::default(), Inbox::new());
    let publisher = Publisher {
        client: client.clone(),
        subject: settings.subject.clone(),
        inbox: inbox.clone(),
    };
    let listener = Listener {
        client,
        messages,
        changes,
        subject: settings.subject,
        addresses: settings.addresses,
        db,
        key: key.clone(),
        has_key: false,
        inbox: inbox.clone(),
        probe: format!("{PROBE}{}", ids::new()),
        probed_at: None,
        outage: FailureLog::of("listening for wake-ups"),
    };
    tokio::spawn(listener.run());
    Ok(RemoteBus::new(key, publisher, inbox))
}

/// Returns the pause before an attempt to connect; the first one has the number 1.
fn delay(attempt: usize) -> Duration {
    let doublings = u32::try_from(attempt.saturating_sub(1)).unwrap_or(u32::MAX);
    RECONNECT_FIRST
        .saturating_mul(2_u32.saturating_pow(doublings))
        .min(RECONNECT_MAX)
}

/// The sending side. Without a connection it drops hints: the client would send them after the outage, when they help nothing.
struct Publisher {
    client: Client,
    subject: String,
    inbox: Inbox,
}

impl Carrier for Publisher {
    async fn send(&self, message: String) -> Result<(), Box<dyn Error + Send + Sync>> {
        if self.inbox.is_listening() {
            self.client.publish(self.subject.clone(), message.into()).await?;
        }
        Ok(())
    }
}

/// The listening side.
struct Listener {
    client: Client,
    messages: Subscriber,
    changes: mpsc::Receiver<Event>,
    subject: String,
    /// For logs.
    addresses: String,
    db: Db,
    key: Key,
    /// Whether the key was read since the last connection.
    has_key: bool,
    inbox: Inbox,
    /// The text of this process's probes.
    probe: String,
    /// When the last probe was sent, while it is unanswered.
    probed_at: Option<Instant>,
    outage: FailureLog,
}

impl Listener {
    /// Listens as long as the process lives.
    async fn run(mut self) {
        let mut ticks = interval(PROBE_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                message = self.messages.next() => match message {
                    Some(message) => self.receive(&message.payload),
                    None => break,
                },
                change = self.changes.recv() => match change {
                    Some(change) => self.observe(change).await,
                    None => break,
                },
                _ = ticks.tick() => self.check().await,
            }
        }
        self.lose("the client has ended");
    }

    fn receive(&mut self, payload: &[u8]) {
        if payload == self.probe.as_bytes() {
            self.probed_at = None;
            if !self.inbox.set_listening(true) {
                self.outage.over();
                self.inbox.wake_all();
            }
        } else if !payload.starts_with(PROBE.as_bytes()) {
            self.inbox.deliver(self.key.wake(payload));
        }
    }

    async fn observe(&mut self, change: Event) {
        match change {
            Event::Connected => {
                self.has_key = false;
                self.send_probe().await;
            }
            Event::Disconnected => self.lose("the connection was closed"),
            Event::Closed => self.lose("the client has ended"),
            // Only while it connects.
            Event::ClientError(error) => self.lose(error),
            // For example that this user may not subscribe. Whether hints arrive is seen by the probes.
            Event::ServerError(error) if self.inbox.is_listening() => {
                debug!(%error, "the NATS server reports an error");
            }
            Event::ServerError(error) => self.lose(error),
            // Hints were dropped.
            Event::SlowConsumer(_) => self.inbox.wake_all(),
            // The server is about to close the connection.
            Event::LameDuckMode | Event::Draining => {}
        }
    }

    /// Probes now and then, and notices that a probe was not answered.
    async fn check(&mut self) {
        if self.client.connection_state() != State::Connected {
            return;
        }
        if let Some(at) = self.probed_at {
            if at.elapsed() < PROBE_LIMIT {
                return;
            }
            self.lose(format_args!(
                "no response to a probe of the subject {} within {} s; the user needs the rights to publish and to subscribe there",
                self.subject.clone(),
                PROBE_LIMIT.as_secs()
            ));
        }
        self.send_probe().await;
    }

    /// Sends a message to itself, behind the subscription. Before that, the key is known, if the database answers.
    async fn send_probe(&mut self) {
        if !self.has_key {
            self.read_key().await;
        }
        self.probed_at = Some(Instant::now());
        let publish = self.client.publish(self.subject.clone(), self.probe.clone().into());
        // If the client takes nothing, the probe stays unanswered.
        let _ = timeout(HAND_OVER_LIMIT, publish).await;
    }

    /// Reads the key of what hints carry. Without it, hints of this process carry nothing, and for others' hints it reads the tables.
    async fn read_key(&mut self) {
        let read = async {
            let client = self.db.pool_pg.get().await?;
            self.key.read(&client).await?;
            Ok::<_, Box<dyn Error + Send + Sync>>(())
        };
        let read = timeout(KEY_LIMIT, read).await;
        match read {
            Ok(Ok(())) => self.has_key = true,
            Ok(Err(error)) => debug!(error = %ErrorChain(&*error), "the key of wake-ups could not be read yet"),
            Err(_) => debug!("the key of wake-ups could not be read yet: the database does not respond"),
        }
    }

    /// Records that hints do not arrive.
    fn lose(&mut self, why: impl Display) {
        self.inbox.set_listening(false);
        self.probed_at = None;
        self.outage.failed(format_args!("{why} (NATS: {})", self.addresses));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_between_attempts_doubles_up_to_its_maximum() {
        let pauses = [1, 2, 3, 4, 40, usize::MAX].map(|attempt| delay(attempt).as_millis());
        assert_eq!(pauses, [50, 100, 200, 400, 2_000, 2_000]);
    }
}
