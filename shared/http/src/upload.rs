//! Streams a large body: up to a maximum size, at a minimum rate. Called by the handlers of imports and of files.

use std::io;
use std::time::Duration;

use axum::body::BodyDataStream;
use axum::http::StatusCode;
use bytes::Bytes;
use futures::{Stream, StreamExt, stream};
use rejoin_graph::import::ImportError;
use tokio::time::{Instant, timeout};

use crate::problem::Problem;

/// Timeout of an upload without progress.
const UPLOAD_STALL: Duration = Duration::from_secs(30);

/// The reason why an upload ended early.
#[derive(Debug, Clone, Copy, thiserror::Error)]
pub enum UploadError {
    #[error("the body is larger than {max_bytes} bytes")]
    TooLarge { max_bytes: u64 },
    #[error("the body arrived too slowly: no data for {} s, or below the minimum rate; send it again", UPLOAD_STALL.as_secs())]
    Stalled,
    #[error("the body ended early")]
    Broken,
}

impl UploadError {
    /// Returns the reason reported by [`upload`].
    pub fn of(error: &io::Error) -> Self {
        let upload_error = error.get_ref().and_then(|inner| inner.downcast_ref::<Self>());
        upload_error.copied().unwrap_or(Self::Broken)
    }
}

impl From<UploadError> for Problem {
    fn from(upload_error: UploadError) -> Self {
        let detail = upload_error.to_string();
        match upload_error {
            UploadError::TooLarge { .. } => Self::new(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", detail),
            UploadError::Stalled => Self::new(StatusCode::REQUEST_TIMEOUT, "upload_stalled", detail),
            UploadError::Broken => Self::bad_request("body_unreadable", detail),
        }
    }
}

impl From<ImportError> for Problem {
    fn from(error: ImportError) -> Self {
        match error {
            ImportError::Graph(error) => error.into(),
            ImportError::Read(error) => UploadError::of(&error).into(),
        }
    }
}

/// Streams the body, up to `max_bytes`, at a minimum rate, which counts the time spent waiting for data only, not
/// processing.
pub fn upload(
    body: BodyDataStream,
    max_bytes: u64,
    min_bytes_per_s: u32,
) -> impl Stream<Item = io::Result<Bytes>> + Send {
    stream::try_unfold((body, 0, Duration::ZERO), move |(mut body, read, waited)| async move {
        let due = UPLOAD_STALL + Duration::from_secs_f64(read as f64 / f64::from(min_bytes_per_s));
        let begun = Instant::now();
        let next = timeout(UPLOAD_STALL.min(due.saturating_sub(waited)), body.next()).await;
        let waited = waited + begun.elapsed();
        let Some(chunk) = next.map_err(|_| io::Error::other(UploadError::Stalled))? else {
            return Ok(None);
        };
        let chunk = chunk.map_err(|_| io::Error::other(UploadError::Broken))?;
        let read = read + chunk.len() as u64;
        if read > max_bytes {
            return Err(io::Error::other(UploadError::TooLarge { max_bytes }));
        }
        Ok(Some((chunk, (body, read, waited))))
    })
}
