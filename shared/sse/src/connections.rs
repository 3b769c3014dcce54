//! Serves HTTP/1.1 over accepted connections until asked to stop. Called by `lib`.
//!
//! All connections share one router: axum's own `serve` gives each a copy of all routes, about 200 KB here. A started
//! stream is taken from the server library (see `sse::delivery`), whose per-connection memory (two buffers, a parser)
//! it no longer needs.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::http::header::{CONNECTION, HeaderValue};
use axum::http::{Method, Version};
use axum::response::Response;
use axum::routing::future::RouteFuture;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper_util::rt::{TokioIo, TokioTimer};
use rejoin_http::proxies::FromTrustedProxy;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::debug;

use crate::delivery::{Delivery, Handover};
use crate::reader::Reader;
use crate::socket::{GuardedListener, GuardedStream, Marks};

/// Maximum size of the read and write buffers, in bytes; the head of a request must fit.
const MAX_BUFFER_BYTES: usize = 64 * 1024;

/// Serves until `stop` is cancelled and requests in progress have ended.
pub async fn serve(mut listener: GuardedListener, keep_alive: Duration, router: Router, stop: CancellationToken) {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        // Between two requests; a started head has less time: `sse::socket`.
        .header_read_timeout(keep_alive)
        .max_buf_size(MAX_BUFFER_BYTES);
    let stopping = Arc::new(Stopping::default());
    let open = TaskTracker::new();
    while let Some(stream) = stop.run_until_cancelled(listener.accept()).await {
        open.spawn(connection(
            http.clone(),
            stream,
            router.clone(),
            stopping.clone(),
            open.clone(),
        ));
    }
    drop(listener);
    stopping.asked.store(true, Ordering::Release);
    stopping.news.notify_waiters();
    open.close();
    open.wait().await;
}

/// Signals all connections that the current request is the last.
#[derive(Default)]
struct Stopping {
    asked: AtomicBool,
    news: Notify,
}

/// A stream that this connection will take over.
type PendingHandover = Arc<Mutex<Option<Handover>>>;

async fn connection(
    http: http1::Builder,
    stream: GuardedStream,
    router: Router,
    stopping: Arc<Stopping>,
    open: TaskTracker,
) {
    let marks = stream.marks();
    let wanted = PendingHandover::default();
    let routes = Routes {
        router,
        wanted: wanted.clone(),
        marks: marks.clone(),
    };
    let mut serving = http.serve_connection(TokioIo::new(stream), routes);
    let mut news = pin!(stopping.news.notified());
    let mut is_told = false;
    let taken = poll_fn(|context| {
        if !is_told && (news.as_mut().poll(context).is_ready() || stopping.asked.load(Ordering::Acquire)) {
            is_told = true;
            Pin::new(&mut serving).graceful_shutdown();
        }
        match Pin::new(&mut serving).poll(context) {
            Poll::Ready(served) => {
                if let Err(error) = served {
                    debug!(%error, "a connection ended early");
                }
                Poll::Ready(None)
            }
            // The library has flushed its output; the rest is written by us.
            Poll::Pending if marks.is_flushed() => match take(&wanted) {
                Some(reader) => Poll::Ready(Some(reader)),
                None => Poll::Pending,
            },
            Poll::Pending => Poll::Pending,
        }
    });
    if let Some(reader) = taken.await {
        let mut socket = serving.into_parts().io.into_inner();
        socket.head_is_over();
        // A separate spawned future, since this one keeps its size until it ends.
        open.spawn(async {
            if let Err(error) = Delivery::new(socket, reader).await {
                debug!(%error, "a stream ended early");
            }
        });
    }
}

fn take(wanted: &PendingHandover) -> Option<Reader> {
    let mut wanted = wanted.lock().unwrap_or_else(PoisonError::into_inner);
    let reader = wanted.as_ref()?.take()?;
    *wanted = None;
    Some(reader)
}

/// The application as a service of the server library.
struct Routes {
    router: Router,
    wanted: PendingHandover,
    marks: Arc<Marks>,
}

impl Service<Request<Incoming>> for Routes {
    type Response = Response;
    type Error = Infallible;
    type Future = Answer;

    fn call(&self, mut request: Request<Incoming>) -> Answer {
        self.marks.head_came();
        if self.marks.is_from_proxy() {
            request.extensions_mut().insert(FromTrustedProxy);
        }
        // An unchunked body ends with its connection, and a body of HEAD is never sent.
        let may_hand_over = request.version() == Version::HTTP_11 && request.method() != Method::HEAD;
        Answer {
            // Always ready.
            route: tower::Service::call(&mut self.router.clone(), request),
            wanted: may_hand_over.then(|| self.wanted.clone()),
            marks: self.marks.clone(),
        }
    }
}

/// The response to a request. A stream is announced for takeover.
struct Answer {
    route: RouteFuture<Infallible>,
    wanted: Option<PendingHandover>,
    marks: Arc<Marks>,
}

impl Future for Answer {
    type Output = Result<Response, Infallible>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Ok(mut response) = ready!(Pin::new(&mut self.route).poll(context));
        self.marks.answered();
        if let Some(wanted) = &self.wanted
            && let Some(handover) = response.extensions_mut().remove::<Handover>()
        {
            handover.want();
            // After a takeover there is no next request.
            response
                .headers_mut()
                .insert(CONNECTION, HeaderValue::from_static("close"));
            *wanted.lock().unwrap_or_else(PoisonError::into_inner) = Some(handover);
        }
        Poll::Ready(Ok(response))
    }
}
