//! How a session with a server begins. Since its revision 2026-07-28, the protocol has no handshake: a client asks a server what it supports
//! (`server/discover`), and each request stands for itself. Servers of older revisions expect a handshake (`initialize`).
//!
//! - Over HTTP, the current revision is tried first: a server of an older one refuses it at once, in whichever way, and is then connected
//!   to again with the handshake.
//! - A process is started with the handshake first. One that starts slowly looks like an old one that ignores an unknown request, and
//!   some old ones end at it. Only if it refuses the handshake, it is started again with the current revision.

use std::sync::Arc;
use std::time::Duration;

use rmcp::ClientServiceExt;
use rmcp::model::{ProtocolVersion, SubscriptionFilter};
use rmcp::service::{ClientInitializeError, ClientLifecycleMode, Peer, RoleClient, RunningService};
use rmcp::transport::IntoTransport;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::debug;

use crate::transport::NotificationHandler;

/// How long a server over HTTP may take to say which revisions it supports. An older one may not answer at all.
const DISCOVER_LIMIT: Duration = Duration::from_secs(5);
/// Pause before a subscription that has ended is opened again.
const LISTEN_PAUSE: Duration = Duration::from_secs(5);

pub(crate) type Running = RunningService<RoleClient, NotificationHandler>;
pub(crate) type Begun = Result<Running, ClientInitializeError>;

fn current() -> ClientLifecycleMode {
    ClientLifecycleMode::Discover {
        preferred_versions: vec![ProtocolVersion::V_2026_07_28],
    }
}

/// Begins a session by the current revision, in which a server may ask the user.
pub(crate) async fn discover<T, E, A>(handler: NotificationHandler, transport: T) -> Begun
where
    T: IntoTransport<RoleClient, E, A> + Send,
    E: std::error::Error + Send + Sync + 'static,
{
    let handler = NotificationHandler {
        has_forms: true,
        ..handler
    };
    handler.serve_with_lifecycle(transport, current()).await
}

/// Begins a session with the handshake.
pub(crate) async fn handshake<T, E, A>(handler: NotificationHandler, transport: T) -> Begun
where
    T: IntoTransport<RoleClient, E, A> + Send,
    E: std::error::Error + Send + Sync + 'static,
{
    handler
        .serve_with_lifecycle(transport, ClientLifecycleMode::Initialize)
        .await
}

/// Begins a session over HTTP. `transport` opens a connection.
pub(crate) async fn over_http<T, E, A>(handler: NotificationHandler, transport: impl Fn() -> T) -> Begun
where
    T: IntoTransport<RoleClient, E, A> + Send,
    E: std::error::Error + Send + Sync + 'static,
{
    match timeout(DISCOVER_LIMIT, discover(handler.clone(), transport())).await {
        Ok(Ok(running)) => return Ok(running),
        // It would refuse the handshake, too.
        Ok(Err(error)) if error.auth_challenge().is_some() => return Err(error),
        Ok(Err(error)) => debug!(%error, "the newest revision was refused; trying the handshake"),
        Err(_) => debug!("the newest revision was not answered; trying the handshake"),
    }
    handshake(handler, transport()).await
}

/// Whether a server that was sent the handshake has refused it, rather than failed.
pub(crate) fn refuses_handshake(error: &ClientInitializeError) -> bool {
    matches!(
        error,
        ClientInitializeError::JsonRpcError(_) | ClientInitializeError::UncorrelatedErrorResponse { .. }
    )
}

/// Notifies of changes to the list of tools until `over`, if the session has no handshake and the server offers that: then changes are sent to
/// those only that have subscribed. In sessions with a handshake, the handler is notified.
pub(crate) async fn follow_tools(peer: Peer<RoleClient>, list_changed: Arc<Notify>, over: CancellationToken) {
    let offers = peer.peer_info().is_some_and(|server| {
        let tools = server.capabilities.tools.as_ref();
        !server.protocol_version.has_initialize() && tools.is_some_and(|tools| tools.list_changed == Some(true))
    });
    if !offers {
        return;
    }
    let following = async {
        loop {
            let filter = SubscriptionFilter::builder().tools_list_changed().build();
            if let Ok(mut subscription) = peer.listen(filter).await {
                // It may have changed before.
                list_changed.notify_one();
                while let Ok(Some(_)) = subscription.next().await {
                    list_changed.notify_one();
                }
            }
            sleep(LISTEN_PAUSE).await;
        }
    };
    tokio::select! {
        () = following => {}
        () = over.cancelled() => {}
    }
}
