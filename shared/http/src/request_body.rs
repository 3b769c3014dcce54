//! Receives a request's body: complete, within a timeout, at a minimum rate, and up to a maximum size. Called by
//! the API's admission control.

use std::time::Duration;

use axum::body::Body;
use axum::http::header::CONTENT_LENGTH;
use axum::http::{HeaderMap, StatusCode};
use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use tokio::time::{Instant, timeout_at};

use crate::problem::Problem;
use crate::settings::HttpArgs;

/// Returns the deadline of a body's next byte, counted from its beginning, after `bytes` of it.
///
/// A body has a grace period, and must then keep the minimum rate; and it must be complete by the deadline.
pub fn due(bytes: u64, args: &HttpArgs) -> Duration {
    let by_rate = args.body_grace() + Duration::from_secs_f64(bytes as f64 / f64::from(args.body_min_bytes_per_s));
    by_rate.min(args.body_timeout())
}

/// Returns the complete body. One of more than `max` bytes is refused.
pub async fn read_whole(headers: &HeaderMap, body: Body, max: usize, args: &HttpArgs) -> Result<Bytes, Problem> {
    let length = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok());
    if length
        .and_then(|text| text.parse::<usize>().ok())
        .is_some_and(|length| length > max)
    {
        return Err(too_large(max));
    }
    let begun = Instant::now();
    let mut chunks = body.into_data_stream();
    let mut bytes = BytesMut::new();
    loop {
        let due = begun + due(bytes.len() as u64, args);
        let chunk = match timeout_at(due, chunks.next()).await {
            Ok(Some(chunk)) => {
                chunk.map_err(|_| Problem::bad_request("body_unreadable", "the body could not be read"))?
            }
            Ok(None) => return Ok(bytes.freeze()),
            Err(_) => {
                metrics::counter!("rejoin_slow_bodies_total").increment(1);
                return Err(Problem::new(
                    StatusCode::REQUEST_TIMEOUT,
                    "body_too_slow",
                    slow(bytes.len(), args),
                ));
            }
        };
        if bytes.len() + chunk.len() > max {
            return Err(too_large(max));
        }
        bytes.extend_from_slice(&chunk);
    }
}

fn slow(bytes: usize, args: &HttpArgs) -> String {
    format!(
        "only {bytes} bytes of the body arrived in time; it must arrive at {} bytes per second or faster, and within \
        {} ms; send the request again",
        args.body_min_bytes_per_s, args.body_timeout_ms
    )
}

fn too_large(max: usize) -> Problem {
    Problem::new(
        StatusCode::PAYLOAD_TOO_LARGE,
        "body_too_large",
        format!("the body is larger than {max} bytes"),
    )
}

#[cfg(test)]
mod tests {
    use futures::stream;

    use super::*;

    fn args() -> HttpArgs {
        let mut args = HttpArgs::default();
        (
            args.body_grace_ms,
            args.body_min_bytes_per_s,
            args.body_timeout_ms,
            args.max_body_bytes,
        ) = (100, 1_000, 1_000, 1_000);
        args
    }

    #[test]
    fn a_body_has_grace_then_a_least_rate_and_a_deadline() {
        let args = args();
        for (bytes, due_ms) in [(0, 100), (1, 101), (500, 600), (900, 1_000), (1_000_000, 1_000)] {
            assert_eq!(due(bytes, &args), Duration::from_millis(due_ms), "{bytes} bytes");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_stalled_body_is_given_up_and_a_slow_whole_one_is_read() {
        let dripping = |chunk: usize, every_ms: u64, chunks: usize| {
            Body::from_stream(stream::unfold(0, move |sent| async move {
                tokio::time::sleep(Duration::from_millis(every_ms)).await;
                (sent < chunks).then(|| (Ok::<_, std::io::Error>(vec![b'x'; chunk]), sent + 1))
            }))
        };
        let args = args();
        let none = HeaderMap::new();
        let come = read_whole(&none, dripping(100, 90, 9), args.max_body_bytes, &args)
            .await
            .unwrap();
        assert_eq!(come.len(), 900);
        for (what, body) in [
            (
                "one byte, then silence",
                dripping(1, 50, 1).into_data_stream().chain(stream::pending()).boxed(),
            ),
            ("a byte now and then", dripping(1, 50, 900).into_data_stream().boxed()),
            ("just too slow", dripping(45, 50, 20).into_data_stream().boxed()),
        ] {
            let problem = read_whole(&none, Body::from_stream(body), args.max_body_bytes, &args)
                .await
                .unwrap_err();
            assert_eq!(
                (problem.status, problem.code),
                (StatusCode::REQUEST_TIMEOUT, "body_too_slow"),
                "{what}"
            );
        }
        let problem = read_whole(&none, dripping(600, 1, 2), args.max_body_bytes, &args)
            .await
            .unwrap_err();
        assert_eq!(problem.code, "body_too_large");
        let too_long = HeaderMap::from_iter([(CONTENT_LENGTH, "1001".parse().unwrap())]);
        let problem = read_whole(&too_long, Body::empty(), args.max_body_bytes, &args)
            .await
            .unwrap_err();
        assert_eq!(problem.code, "body_too_large");
    }
}
