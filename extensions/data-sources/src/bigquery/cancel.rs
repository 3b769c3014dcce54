//! Cancels abandoned jobs. Called by `bigquery`.

use reqwest::RequestBuilder;

use crate::transport;

/// Cancels a job when dropped, unless disarmed.
pub(super) struct CancelOnDrop {
    pub(super) armed: Option<RequestBuilder>,
}

impl CancelOnDrop {
    pub(super) fn disarm(mut self) {
        self.armed = None;
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        if let (Some(request), Ok(runtime)) = (self.armed.take(), tokio::runtime::Handle::try_current()) {
            runtime.spawn(tokio::time::timeout(transport::CONNECT_TIMEOUT, request.send()));
        }
    }
}
