"""The client of Rejoin: chats with LLM agents that neither lose nor repeat events.

    from rejoin import Client

    with Client() as client:
        turn = client.send("Which packages need libssl3, and why?")
        print(turn.text())

And tools in Python, with an agent that calls them:

    from rejoin import Agent, Worker, tool

    @tool(description="Returns the number of packages that need a package.")
    def dependents(package: str) -> int: ...

    clerk = Agent(name="clerk", description="Knows packages.", prompt="Look up before you answer.", tools=[dependents])

    Worker([clerk]).run()

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
- `worker`      `tool`, `agent`, `Agent` and `Worker`; its layout is there
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
    CallCancelledError,
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
    RetryCall,
    RunError,
    RunTimeoutError,
    ServerError,
    StepChangedError,
    StepFailedError,
    StepOutcomeUnknownError,
    ToolFailure,
    UnreachableError,
    WebhookVerificationError,
)
from .events import Event, parse_event
from .limits import Limits
from .records import (
    Cancelled,
    CatalogueModel,
    Conversation,
    Failure,
    File,
    FileRef,
    ListedAgent,
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
from .worker import (
    Agent,
    AgentFunction,
    AgentResult,
    AsyncCallContext,
    CallContext,
    Journal,
    ModelAnswer,
    Prompt,
    RecordedStep,
    Said,
    Tool,
    Worker,
    agent,
    tool,
)

__all__ = [
    "APIError",
    "Agent",
    "AgentFunction",
    "AgentResult",
    "AsyncCallContext",
    "AsyncClient",
    "AsyncFollower",
    "AsyncPages",
    "AsyncTurn",
    "AuthenticationError",
    "BadRequestError",
    "CallCancelledError",
    "CallContext",
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
    "Journal",
    "Limits",
    "ListedAgent",
    "Message",
    "ModelAnswer",
    "NotFoundError",
    "Page",
    "Pages",
    "PermissionDeniedError",
    "Prompt",
    "Question",
    "RateLimitError",
    "RecordedStep",
    "RejoinError",
    "ResponseError",
    "RetryCall",
    "Run",
    "RunError",
    "RunTimeoutError",
    "Said",
    "ServerError",
    "SseParser",
    "StepChangedError",
    "StepFailedError",
    "StepOutcomeUnknownError",
    "Tool",
    "ToolFailure",
    "Transcript",
    "Turn",
    "TurnResult",
    "TurnState",
    "UnreachableError",
    "Usage",
    "WebhookEvent",
    "WebhookVerificationError",
    "Worker",
    "__version__",
    "agent",
    "errors",
    "events",
    "parse_event",
    "tool",
    "webhooks",
]
