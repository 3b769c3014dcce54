//! Hints on their way out: gathered, and sent as one message at most every [`COALESCE`]. Used by the buses `postgres` and `nats`.

use std::error::Error;
use std::pin::pin;
use std::time::Duration;

use rejoin_db::failure_log::ErrorChain;
use tokio::sync::mpsc;
use tracing::debug;

use super::Wake;
use super::payload::Key;

/// Minimum interval between messages; hints of that time are sent together.
const COALESCE: Duration = Duration::from_millis(1);
/// Maximum number of unsent hints; further ones are dropped (they are hints).
const CAPACITY: usize = 4096;
/// Pause after a message that could not be sent.
const PAUSE: Duration = Duration::from_millis(500);

/// The way to other processes.
pub(super) trait Carrier: Send + Sync + 'static {
    /// Sends a message to all processes.
    fn send(&self, message: String) -> impl Future<Output = Result<(), Box<dyn Error + Send + Sync>>> + Send;
}

/// Starts sending the hints of the returned outbox, until that is dropped. A full outbox means that the carrier is unreachable or slow: drop
/// the hint, and the others will poll.
pub(super) fn start(key: Key, carrier: impl Carrier) -> mpsc::Sender<Wake> {
    let (outbox, inbox) = mpsc::channel(CAPACITY);
    tokio::spawn(send(carrier, key, inbox));
    outbox
}

async fn send(carrier: impl Carrier, key: Key, mut inbox: mpsc::Receiver<Wake>) {
    let mut pending = Wake::default();
    loop {
        if pending.is_empty() {
            let Some(first) = inbox.recv().await else { return };
            pending = first;
        }
        while let Ok(more) = inbox.try_recv() {
            pending.merge(more);
        }
        let wake = std::mem::take(&mut pending);
        let was_urgent = wake.is_urgent();
        let payload = key.payload(wake);
        if let Err(error) = carrier.send(payload).await {
            debug!(error = %ErrorChain(&*error), "sending a wake-up failed; it is lost");
            tokio::time::sleep(PAUSE).await;
        }
        // The first hint is sent immediately; those within this time together. What work waits for is not delayed by readers' hints.
        let mut coalescing = pin!(tokio::time::sleep(COALESCE));
        while was_urgent || !pending.is_urgent() {
            tokio::select! {
                () = &mut coalescing => break,
                more = inbox.recv() => match more {
                    Some(more) => pending.merge(more),
                    // What is pending is sent first.
                    None => break,
                },
            }
        }
    }
}
