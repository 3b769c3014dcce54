"""What a tool's function can know and do about its call: a parameter of type `CallContext`, or `AsyncCallContext` with `async def`."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Protocol

from ..errors import CallCancelledError
from .outcomes import checkpoint_json


class Link(Protocol):
    """What a context needs of the worker. Thread-safe; neither method waits."""

    def progress(self, message: str) -> None:
        """Sends a message to the readers of the run."""

    def store(self, checkpoint: Any) -> Future[None]:
        """Stores a checkpoint."""
        ...


@dataclass
class _Context:
    """What both contexts have. Without arguments it is one for unit tests, which sends nothing."""

    id: str = "call"
    """The call. All its attempts have the same id."""
    attempt: int = 1
    """How often the call was handed out."""
    idempotency_key: str = "call"
    """A key for the systems that the function changes: the same in all attempts."""
    run_id: str | None = None
    """The run of the agent that has called."""
    conversation_id: str | None = None
    """The conversation of that run, if it has one."""
    tool: str = ""
    """The name of the tool."""
    version: str = "1"
    """The version of the tool."""
    timeout_s: float = 60.0
    """Maximum duration of this attempt, in seconds."""
    checkpoint: Any = None
    """What was stored last, by this attempt or an earlier one. None: nothing."""
    cancellation: threading.Event = field(default_factory=threading.Event, repr=False)
    """Set by the worker when the function should stop."""
    link: Link | None = field(default=None, repr=False)
    """Where messages and checkpoints go."""

    @property
    def cancelled(self) -> bool:
        """Whether the function should stop: its run was cancelled, its time is used up, the worker ends, or another attempt has it."""
        return self.cancellation.is_set()

    def progress(self, message: str) -> None:
        """Shows a message to the readers of the run. It does not wait: if messages follow each other fast, the newest is sent."""
        if self.link is not None:
            self.link.progress(message)


class CallContext(_Context):
    """The context of a call, for functions with `def`.

    Python can't stop a thread. So a function that runs for long looks at `cancelled`, waits with `wait_cancelled`, or calls `progress` or
    `save_checkpoint`, which raise `CallCancelledError` when the function should stop.
    """

    def wait_cancelled(self, timeout_s: float | None = None) -> bool:
        """Waits until the function should stop, at most this long. Returns whether it should."""
        return self.cancellation.wait(timeout_s)

    def progress(self, message: str) -> None:
        """Shows a message to the readers of the run. It does not wait: if messages follow each other fast, the newest is sent.

        Raises `CallCancelledError` if the function should stop.
        """
        self._raise_if_cancelled()
        super().progress(message)

    def save_checkpoint(self, value: Any) -> None:
        """Stores any JSON, at most 256 KiB, for the next attempt, and returns when it is stored.

        A call with a checkpoint is handed out again after a lost worker: begin by looking at `checkpoint`, and continue from there.

        Raises `CallCancelledError` if the function should stop, and `ValueError` if the value is too large or is not JSON.
        """
        self._raise_if_cancelled()
        stored = checkpoint_json(value)
        if self.link is not None:
            self.link.store(stored).result()
        self.checkpoint = stored

    def _raise_if_cancelled(self) -> None:
        if self.cancelled:
            raise CallCancelledError(f"call {self.id} should stop")


class AsyncCallContext(_Context):
    """The context of a call, for functions with `async def`. When the function should stop, its task is cancelled, as with `asyncio`."""

    async def save_checkpoint(self, value: Any) -> None:
        """Stores any JSON, at most 256 KiB, for the next attempt, and returns when it is stored.

        A call with a checkpoint is handed out again after a lost worker: begin by looking at `checkpoint`, and continue from there.

        Raises `CallCancelledError` if another attempt has the call, and `ValueError` if the value is too large or is not JSON.
        """
        stored = checkpoint_json(value)
        if self.link is not None:
            await asyncio.wrap_future(self.link.store(stored))
        self.checkpoint = stored
