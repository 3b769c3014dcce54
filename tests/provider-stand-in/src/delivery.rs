//! Delivery of an answer: frames with pauses, gates, and failures.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use tokio::sync::Notify;

use super::protocol::Protocol;
use super::turn::{Trouble, Turn};

enum Action {
    Send(Vec<u8>),
    Wait(Duration),
    Gate(Arc<Notify>),
    Cut,
    Hang,
}

/// Streams the frames at the turn's pace. `error` is the frame of an error in the middle.
pub(super) fn stream(turn: &Turn, protocol: Protocol, frames: Vec<String>, error: &str) -> Response {
    let mut actions = VecDeque::new();
    if !turn.delay.is_zero() {
        actions.push_back(Action::Wait(turn.delay));
    }
    let middle = frames.len() / 2;
    for (position, frame) in frames.into_iter().enumerate() {
        if position == middle {
            if let Some(gate) = &turn.gate {
                actions.push_back(Action::Gate(gate.clone()));
            }
            match turn.trouble {
                Trouble::None | Trouble::Status(..) => {}
                Trouble::ErrorEvent => {
                    actions.push_back(Action::Send(protocol.encode(error.to_owned())));
                    break;
                }
                Trouble::Cut => {
                    actions.push_back(Action::Cut);
                    break;
                }
                Trouble::Hang => {
                    actions.push_back(Action::Hang);
                    break;
                }
            }
        }
        actions.push_back(Action::Send(protocol.encode(frame)));
        if !turn.pace.is_zero() {
            actions.push_back(Action::Wait(turn.pace));
        }
    }
    let body = futures::stream::unfold(actions, |mut actions| async move {
        loop {
            match actions.pop_front()? {
                Action::Send(frame) => return Some((Ok(Bytes::from(frame)), actions)),
                Action::Wait(pause) => tokio::time::sleep(pause).await,
                Action::Gate(gate) => gate.notified().await,
                Action::Hang => std::future::pending().await,
                // Lets hyper write what it has: the error makes it drop the rest.
                Action::Cut => {
                    tokio::task::yield_now().await;
                    return Some((Err(std::io::Error::other("scripted cut")), VecDeque::new()));
                }
            }
        }
    });
    (
        [
            (header::CONTENT_TYPE, protocol.content_type()),
            (header::CACHE_CONTROL, "no-cache"),
        ],
        Body::from_stream(body),
    )
        .into_response()
}

/// Waits as scripted before a non-streamed answer.
pub(super) async fn hold(turn: &Turn) {
    if !turn.delay.is_zero() {
        tokio::time::sleep(turn.delay).await;
    }
    if let Some(gate) = &turn.gate {
        gate.notified().await;
    }
    if turn.trouble == Trouble::Hang {
        std::future::pending::<()>().await;
    }
}
