//! Ended spans on their way to the collector: a bounded queue, and a task that sends them in batches. Called by spans when they end.
//!
//! Invariant: a caller never waits. If the queue is full, because the collector is slow or does not respond, spans are dropped and counted; one
//! warning a minute reports them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use opentelemetry_sdk::trace::{SpanData, SpanExporter};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout, timeout_at};
use tracing::warn;

/// Maximum number of ended spans that wait, of about 1 KB each.
const QUEUE_MAX: usize = 4_096;
/// Maximum number of spans in a request.
const BATCH_MAX: usize = 512;
/// How long the first span of a request waits for others.
const DELAY: Duration = Duration::from_secs(1);
/// Timeout of sending a batch, with retries.
const SEND_LIMIT: Duration = Duration::from_secs(20);
/// Minimum interval between two warnings.
const WARN_EVERY: Duration = Duration::from_secs(60);

enum Item {
    Span(Box<SpanData>),
    /// Everything before it is sent; then this is answered.
    Flush(oneshot::Sender<()>),
}

/// The queue of ended spans. Cheap to clone; the task ends with its last clone.
#[derive(Clone)]
pub(crate) struct Queue {
    items: mpsc::Sender<Item>,
    dropped: Arc<AtomicU64>,
}

impl Queue {
    /// Starts the task that sends spans, in the current runtime.
    pub(crate) fn start<E: SpanExporter + 'static>(exporter: E) -> Self {
        let (items, waiting) = mpsc::channel(QUEUE_MAX);
        let dropped = Arc::default();
        tokio::spawn(run(exporter, waiting, Arc::clone(&dropped)));
        Self { items, dropped }
    }

    /// Queues an ended span, or drops it.
    pub(crate) fn push(&self, span: SpanData) {
        if self.items.try_send(Item::Span(Box::new(span))).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits until the spans so far were sent, or dropped, or the time is over.
    pub(crate) async fn flush(&self, limit: Duration) {
        let flushed = async {
            let (done, sent) = oneshot::channel();
            if self.items.send(Item::Flush(done)).await.is_ok() {
                // An error: the task has ended, and nothing waits.
                let _ = sent.await;
            }
        };
        if timeout(limit, flushed).await.is_err() {
            warn!(limit_ms = limit.as_millis(), "the last spans were not sent in time");
        }
    }
}

async fn run<E: SpanExporter>(exporter: E, mut waiting: mpsc::Receiver<Item>, dropped: Arc<AtomicU64>) {
    let mut batch: Vec<SpanData> = Vec::new();
    let mut due = Instant::now();
    let mut lost = Lost::default();
    loop {
        let next = if batch.is_empty() {
            Ok(waiting.recv().await)
        } else {
            timeout_at(due, waiting.recv()).await
        };
        let (flush, is_last) = match next {
            Ok(Some(Item::Span(span))) => {
                if batch.is_empty() {
                    due = Instant::now() + DELAY;
                }
                batch.push(*span);
                if batch.len() < BATCH_MAX {
                    continue;
                }
                (None, false)
            }
            Ok(Some(Item::Flush(done))) => (Some(done), false),
            Ok(None) => (None, true),
            // The batch is due.
            Err(_) => (None, false),
        };
        send(&exporter, std::mem::take(&mut batch), &mut lost).await;
        lost.add(dropped.swap(0, Ordering::Relaxed), "too many spans were waiting");
        if let Some(done) = flush {
            // The caller may have given up.
            let _ = done.send(());
        }
        if is_last {
            return;
        }
    }
}

async fn send<E: SpanExporter>(exporter: &E, batch: Vec<SpanData>, lost: &mut Lost) {
    let spans = batch.len() as u64;
    if spans == 0 {
        return;
    }
    match timeout(SEND_LIMIT, exporter.export(batch)).await {
        Ok(Ok(())) => metrics::counter!("rejoin_spans_sent_total").increment(spans),
        Ok(Err(error)) => lost.add(spans, &error.to_string()),
        Err(_) => lost.add(spans, "the collector did not respond in time"),
    }
}

/// Lost spans, and when they were last reported.
#[derive(Default)]
struct Lost {
    spans: u64,
    reported: Option<Instant>,
}

impl Lost {
    fn add(&mut self, spans: u64, why: &str) {
        if spans == 0 {
            return;
        }
        metrics::counter!("rejoin_spans_lost_total").increment(spans);
        self.spans += spans;
        if self.reported.is_none_or(|at| at.elapsed() >= WARN_EVERY) {
            warn!(
                spans = self.spans,
                why, "spans were not sent to the collector of traces, and are lost"
            );
            self.spans = 0;
            self.reported = Some(Instant::now());
        }
    }
}
