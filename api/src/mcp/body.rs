//! A response body that ends when its credential is revoked or its user leaves the workspace. Called by the server in
//! `mcp`.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt, ready};
use http_body::{Body, Frame, SizeHint};
use rejoin_sse::streams::Permit;

/// Interval of checks whether it may stay open.
const LOOK: Duration = Duration::from_secs(1);

pub struct Permitted<B> {
    body: Pin<Box<B>>,
    ended: BoxFuture<'static, ()>,
    over: bool,
}

impl<B> Permitted<B> {
    pub fn new(body: B, permit: Permit) -> Self {
        Self {
            body: Box::pin(body),
            ended: async move {
                while !permit.is_ended() {
                    tokio::time::sleep(LOOK).await;
                }
            }
            .boxed(),
            over: false,
        }
    }
}

impl<B: Body<Data = Bytes>> Body for Permitted<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        if self.over || self.ended.poll_unpin(context).is_ready() {
            self.over = true;
            return Poll::Ready(None);
        }
        let frame = ready!(self.body.as_mut().poll_frame(context));
        self.over = frame.is_none();
        Poll::Ready(frame)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
