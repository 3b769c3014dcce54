//! A bus whose hints travel through a server, whichever that is: the buses `postgres` and `nats`. Each starts a sender and a listener, and this
//! connects them with the process.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::{broadcast, mpsc};

use super::outbox::{self, Carrier};
use super::payload::Key;
use super::{Bus, Hearing, Wake};

/// Maximum number of hints that a slow receiver may lag behind.
pub(super) const CAPACITY: usize = 1024;

/// The bus, as a process uses it.
pub(super) struct RemoteBus {
    outbox: mpsc::Sender<Wake>,
    inbox: Inbox,
}

impl RemoteBus {
    /// Sends hints by `carrier`. Those of `inbox` are what its listener receives.
    pub(super) fn new(key: Key, carrier: impl Carrier, inbox: Inbox) -> Self {
        Self {
            outbox: outbox::start(key, carrier),
            inbox,
        }
    }
}

impl Bus for RemoteBus {
    fn publish(&self, wake: Wake) {
        // A full outbox means that the server is unreachable or slow; the others will poll.
        let _ = self.outbox.try_send(wake);
    }

    fn subscribe(&self) -> broadcast::Receiver<Arc<Wake>> {
        self.inbox.received.subscribe()
    }

    fn hearing(&self) -> Hearing {
        if self.inbox.is_listening() {
            Hearing::Listening
        } else {
            Hearing::Lost
        }
    }
}

/// Where a listener puts the hints that it receives, and whether it receives any. Cheap to clone.
#[derive(Clone)]
pub(super) struct Inbox {
    received: broadcast::Sender<Arc<Wake>>,
    listening: Arc<AtomicBool>,
}

impl Inbox {
    pub(super) fn new() -> Self {
        Self {
            received: broadcast::channel(CAPACITY).0,
            listening: Arc::default(),
        }
    }

    /// Passes a hint to the receivers of this process.
    pub(super) fn deliver(&self, wake: Wake) {
        // Without receivers, the hint is not needed.
        let _ = self.received.send(Arc::new(wake));
    }

    /// Lets all receivers poll: some hints may be lost.
    pub(super) fn wake_all(&self) {
        self.deliver(Wake::everything());
    }

    pub(super) fn is_listening(&self) -> bool {
        self.listening.load(Ordering::Relaxed)
    }

    /// Sets whether hints arrive, and returns whether they did before.
    pub(super) fn set_listening(&self, listening: bool) -> bool {
        self.listening.swap(listening, Ordering::Relaxed)
    }
}
