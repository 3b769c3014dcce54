"""What the API for workers in `protocol_server` knows of workers and calls."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

TOOL_FIELDS = {
    "name": str,
    "version": str,
    "description": str,
    "inputSchema": dict,
    "outputSchema": (dict, type(None)),
    "readOnly": bool,
    "idempotent": bool,
    "confirm": bool,
    "timeoutS": int,
    "whenAbsent": str,
}


class ProblemError(Exception):
    """A response that is not a success."""

    def __init__(self, status: int, code: str) -> None:
        self.status = status
        self.code = code


@dataclass
class Registered:
    """A live worker."""

    id: str
    queue: str
    slots: int
    tools: dict[tuple[str, str], dict[str, Any]]
    alive_until: float
    draining_since: float = float("inf")


@dataclass
class Offered:
    """A call of an agent."""

    id: str
    tool: str
    version: str
    input: dict[str, Any]
    timeout_s: int
    status: str = "waiting"
    attempt: int = 0
    worker_id: str = ""
    lease_until: float = 0.0
    not_before: float = 0.0
    repeatable: bool = False
    cancelled: bool = False
    delivered: bool = True
    """Whether the response arrived that handed it out."""
    checkpoint: Any = None
    output: Any = None
    error: str | None = None
    messages: list[str] = field(default_factory=list)
    recorded: tuple[int, str, Any] | None = None
    """The attempt, and the request that has ended it."""
    steps: dict[int, dict[str, Any]] = field(default_factory=dict)
    """Recorded steps by number, as the API returns them."""
    begun: dict[int, int] = field(default_factory=dict)
    """The attempt that has recorded a step last."""
    texts: dict[tuple[int, int], str] = field(default_factory=dict)
    """What readers have of the answer, by step and piece, in the order in which it arrived. Events have no text."""
    events: dict[tuple[int, int], dict[str, Any]] = field(default_factory=dict)
    """The events that readers have, by step and piece. Step 0: outside of steps."""
    writing: tuple[int, int] | None = None
    """The attempt and the step that write."""
    taken_back: list[str] = field(default_factory=list)
    """Texts that readers have discarded."""
    waits: list[dict[str, Any]] = field(default_factory=list)
    """What the call waits for, as the program has asked for it."""
    suspensions: int = 0
    """How often it was handed back to wait."""
    lost_at: dict[int, float] = field(default_factory=dict)
    """When the response to a heartbeat has named an attempt as lost."""
    lost: set[int] = field(default_factory=set)
    """The attempts that the response to a heartbeat has named as lost."""
