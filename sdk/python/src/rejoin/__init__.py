"""The client of Rejoin: chats with LLM agents that neither lose nor repeat events.

    from rejoin import Client

    with Client() as client:
        turn = client.send("Which packages need libssl3, and why?")
        print(turn.text())

# Layout

Pure, without I/O:

- `sse`         bytes become frames
- `events`      frames become events
- `transcript`  events become what a chat shows; `turn_state` folds one turn, `snapshot` fills it from a snapshot
- `log_reader`  the cursor of a follower: what to request next, what to return, when to give up
- `calls`       the requests of the API; `records`: what it returns
- `retries`     when to send a request again
- `settings`    where the API is
- `webhooks`    verifies what the API sends
- `limits`, `errors`, `model`, `version`

With I/O, thin:

- `_async`      `AsyncClient`, on httpx
- `_sync`       `Client`, made from it by `tools/sync_client.py`
"""

from . import errors, events, webhooks
from ._async.client import AsyncClient
from ._async.follower import AsyncFollower
from ._async.pages import AsyncPages
from ._async.turn import AsyncTurn
from ._sync.client import Client
from ._sync.follower import Follower
from ._sync.pages import Pages
from ._sync.turn import Turn
from .errors import (
    APIError,
    AuthenticationError,
    BadRequestError,
    ConfigurationError,
    ConflictError,
    FileRefusedError,
    GoneError,
    IdempotencyError,
    NotFoundError,
    PermissionDeniedError,
    RateLimitError,
    RejoinError,
    ResponseError,
    RunError,
    RunTimeoutError,
    ServerError,
    UnreachableError,
    WebhookVerificationError,
)
from .events import Event, parse_event
from .limits import Limits
from .records import (
    Agent,
    Cancelled,
    CatalogueModel,
    Conversation,
    Failure,
    File,
    FileRef,
    Message,
    Page,
    Question,
    Run,
    TurnResult,
    Usage,
)
from .sse import Frame, SseParser
from .transcript import Transcript
from .turn_state import TurnState
from .version import __version__
from .webhooks import WebhookEvent

__all__ = [
    "APIError",
    "Agent",
    "AsyncClient",
    "AsyncFollower",
    "AsyncPages",
    "AsyncTurn",
    "AuthenticationError",
    "BadRequestError",
    "Cancelled",
    "CatalogueModel",
    "Client",
    "ConfigurationError",
    "ConflictError",
    "Conversation",
    "Event",
    "Failure",
    "File",
    "FileRef",
    "FileRefusedError",
    "Follower",
    "Frame",
    "GoneError",
    "IdempotencyError",
    "Limits",
    "Message",
    "NotFoundError",
    "Page",
    "Pages",
    "PermissionDeniedError",
    "Question",
    "RateLimitError",
    "RejoinError",
    "ResponseError",
    "Run",
    "RunError",
    "RunTimeoutError",
    "ServerError",
    "SseParser",
    "Transcript",
    "Turn",
    "TurnResult",
    "TurnState",
    "UnreachableError",
    "Usage",
    "WebhookEvent",
    "WebhookVerificationError",
    "__version__",
    "errors",
    "events",
    "parse_event",
    "webhooks",
]
