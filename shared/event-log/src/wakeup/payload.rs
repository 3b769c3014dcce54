//! Hints as texts on their way between processes, with the events that they carry encrypted. Called by the buses `postgres` and `nats`.

use std::sync::{Arc, PoisonError, RwLock};

use rejoin_db::failure_log::ErrorChain;
use tracing::debug;

use super::Wake;
use super::carried::{self, Cipher};

/// Maximum number of ids in a text; more are sent as "poll everything": a notification of PostgreSQL holds 8,000 bytes at most,
/// and an id takes 39.
const MAX_IDS: usize = 150;
/// Maximum size of a text, in bytes: PostgreSQL's limit.
const MAX_PAYLOAD_BYTES: usize = 7_999;

/// The key of what hints carry, once it was read. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct Key(Arc<RwLock<Option<Cipher>>>);

impl Key {
    /// Reads the key from the database. If there is none, or if this role may not read it, hints carry nothing.
    pub(super) async fn read(&self, client: &tokio_postgres::Client) -> Result<(), tokio_postgres::Error> {
        let cipher = match client.query_opt(carried::KEY, &[]).await {
            Ok(row) => row.and_then(|row| Cipher::new(row.get(0))),
            Err(error) if error.as_db_error().is_some() => {
                debug!(error = %ErrorChain(&error), "wake-ups carry no events: their key cannot be read");
                None
            }
            Err(error) => return Err(error),
        };
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = cipher;
        Ok(())
    }

    fn with<T>(&self, act: impl FnOnce(&Cipher) -> Option<T>) -> Option<T> {
        act(self.0.read().unwrap_or_else(PoisonError::into_inner).as_ref()?)
    }

    /// Returns the text of a hint, with the carried events if they can be encrypted and fit.
    pub(super) fn payload(&self, mut wake: Wake) -> String {
        if !wake.rows.is_empty() {
            wake.sealed = self.with(|cipher| cipher.seal(&wake.rows));
            let payload = text(&wake);
            if wake.sealed.take().is_some() && wake.ids() <= MAX_IDS && payload.len() <= MAX_PAYLOAD_BYTES {
                return payload;
            }
            wake.carry_nothing();
        }
        if wake.ids() > MAX_IDS {
            wake = Wake {
                queues: wake.queues,
                all: true,
                ..Wake::default()
            };
        }
        text(&wake)
    }

    /// Reads a text. One that is unreadable may come from a newer version: poll everything.
    pub(super) fn wake(&self, payload: &[u8]) -> Wake {
        let mut wake: Wake = serde_json::from_slice(payload).unwrap_or_else(|_| Wake::everything());
        if let Some(sealed) = wake.sealed.take() {
            match self.with(|cipher| cipher.open(&sealed)) {
                Some(rows) => wake.rows = rows,
                None => wake.all = true,
            }
        }
        wake
    }
}

fn text(wake: &Wake) -> String {
    serde_json::to_string(wake).expect("a wake-up is plain data")
}
