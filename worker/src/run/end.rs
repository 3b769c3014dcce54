//! The end of the loop, and what interrupts it: cancellation, a lost lease, a drain, the time limit.

use rejoin_commands::{FencedError, RunError};
use rejoin_extension::Signals;
use rejoin_types::events::DoneStatus;
use serde_json::Value;

use super::Execution;
use super::limits::{Limits, StopReason};
use super::record::StepRecord;

/// The end of the loop.
#[derive(Debug)]
pub enum End {
    /// The turn is over.
    Finished {
        status: DoneStatus,
        text: String,
        error: Option<RunError>,
        usage: Option<Value>,
        /// The step that ends it, if it is not recorded yet.
        last_step: Option<Box<StepRecord>>,
    },
    /// The worker drains; another one continues.
    Release,
    LeaseLost,
    /// It waits for others, and resumes when the wait ends.
    Suspended,
    /// Another agent continues it immediately.
    Transferred,
    /// The database failed; another attempt may succeed.
    Database {
        attempted: &'static str,
        error: sqlx::Error,
    },
}

impl End {
    pub(crate) fn database(attempted: &'static str, error: sqlx::Error) -> Self {
        End::Database { attempted, error }
    }

    /// Failed before anything was done.
    pub fn failed(error: RunError) -> Self {
        End::Finished {
            status: DoneStatus::Failed,
            text: String::new(),
            error: Some(error),
            usage: None,
            last_step: None,
        }
    }

    pub(super) fn with_last_step(mut self, step: Option<StepRecord>) -> Self {
        if let End::Finished { last_step, .. } = &mut self {
            *last_step = step.map(Box::new);
        }
        self
    }
}

/// The reason why an await was interrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interrupt {
    Cancelled,
    LeaseLost,
    Drain,
    /// The hard end of the run's time limit.
    Timeout,
}

impl Execution {
    pub(super) fn finished(&self, status: DoneStatus, error: Option<RunError>) -> End {
        End::Finished {
            status,
            text: self.reply.clone(),
            error,
            usage: Some(self.usage()),
            last_step: None,
        }
    }

    pub(super) fn paused(&self, reason: StopReason) -> End {
        let error = RunError {
            code: reason.as_str().to_owned(),
            message: reason.explanation(),
            retryable: true,
        };
        End::Finished {
            status: DoneStatus::Paused,
            text: self.reply.clone(),
            error: Some(error),
            usage: Some(self.usage()),
            last_step: None,
        }
    }

    pub(super) fn interrupted(&self, interrupt: Interrupt) -> End {
        match interrupt {
            Interrupt::Cancelled => self.finished(DoneStatus::Cancelled, None),
            Interrupt::LeaseLost => End::LeaseLost,
            Interrupt::Drain => End::Release,
            Interrupt::Timeout => self.paused(StopReason::Time),
        }
    }

    pub(super) fn infrastructure(&self, error: FencedError) -> End {
        match error {
            FencedError::LeaseLost => End::LeaseLost,
            FencedError::Database { attempted, source } => End::Database {
                attempted,
                error: source,
            },
        }
    }

    /// Returns an interrupt that has already arrived.
    pub(super) fn interrupted_already(&self) -> Option<Interrupt> {
        let signals = &self.request.signals;
        if signals.lost.is_cancelled() {
            Some(Interrupt::LeaseLost)
        } else if signals.cancel.is_cancelled() {
            Some(Interrupt::Cancelled)
        } else if signals.drain.is_cancelled() {
            Some(Interrupt::Drain)
        } else {
            None
        }
    }

    /// Resolves when the run must abandon what it awaits. A drain only counts if nothing is lost by it.
    pub(super) async fn interrupt(signals: &Signals, limits: &Limits, heed_drain: bool) -> Interrupt {
        tokio::select! {
            biased;
            () = signals.lost.cancelled() => Interrupt::LeaseLost,
            () = signals.cancel.cancelled() => Interrupt::Cancelled,
            () = signals.drain.cancelled(), if heed_drain => Interrupt::Drain,
            () = limits.hard_end_reached() => Interrupt::Timeout,
        }
    }
}
