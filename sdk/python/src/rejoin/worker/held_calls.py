"""The calls that a worker has: their leases, and why they are stopped. Pure: times are arguments.

A call occupies its slot until its function has ended and its result is recorded or void, even if it was cancelled or lost before.

Invariant: of a call that was lost, nothing more is sent.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum

from .outcomes import Completed, Failed, Interrupted, Outcome, Suspended
from .requests import ClaimedCall, Heartbeat


class Stop(Enum):
    """Why a function is stopped."""

    CANCELLED = "its run does not want the result"
    TIMED_OUT = "its time is used up"
    LEAVING = "the worker ends"
    LOST = "another attempt has the call, or it has ended"


@dataclass(eq=False)
class HeldCall:
    """One attempt of a call."""

    call: ClaimedCall
    worker_id: str
    """The registration that has claimed it."""
    lease_until_s: float
    """When the API may give the call to another worker, unless a heartbeat renews the lease."""
    stop: Stop | None = None
    cancellation: threading.Event = field(default_factory=threading.Event)
    """The function's view of `stop`."""

    def __str__(self) -> str:
        return f"{self.call.tool} (call {self.call.id}, attempt {self.call.attempt})"

    def ask_to_stop(self, why: Stop) -> bool:
        """Notes that the function should stop. Returns false if that is known; a call that was lost remains lost."""
        known = self.stop is not None
        if not known or why is Stop.LOST:
            self.stop = why
        self.cancellation.set()
        return not known

    def to_record(self, outcome: Outcome) -> Completed | Failed | Suspended | None:
        """Returns what to record of this outcome. None: nothing."""
        match self.stop, outcome:
            case (Stop.LOST, _) | (Stop.LEAVING, Interrupted()):
                return None
            case Stop.CANCELLED, Suspended():
                return Failed("The call was cancelled.")
            case _, Suspended():
                return outcome
            case Stop.CANCELLED, Completed():
                return Failed("The call was cancelled, but had completed.")
            case Stop.CANCELLED, Interrupted():
                return Failed("The call was cancelled.")
            case Stop.TIMED_OUT, Interrupted():
                return Failed(f"The tool did not end within {self.call.timeout_s:g} s and was stopped. It may have had an effect.")
            case _, Interrupted():
                return Failed("The tool was cancelled by its own code. It may have had an effect.")
            case _, (Completed() | Failed()) as ended:
                return ended


class HeldCalls:
    """The attempts that occupy the slots of a worker."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._held: dict[tuple[str, int], HeldCall] = {}

    def __len__(self) -> int:
        return len(self._held)

    @property
    def free(self) -> int:
        """How many calls there is room for."""
        return max(0, self._slots - len(self._held))

    def all(self) -> list[HeldCall]:
        """Returns all attempts."""
        return list(self._held.values())

    def add(self, call: ClaimedCall, worker_id: str, lease_until_s: float) -> HeldCall | None:
        """Adds a claimed call. None: it is here already."""
        key = (call.id, call.attempt)
        if key in self._held:
            return None
        held = HeldCall(call, worker_id, lease_until_s)
        self._held[key] = held
        return held

    def older(self, held: HeldCall) -> list[HeldCall]:
        """Returns earlier attempts of the same call: that this one was handed out means that they were lost."""
        return [other for other in self._held.values() if other.call.id == held.call.id and other.call.attempt < held.call.attempt]

    def remove(self, held: HeldCall) -> None:
        """Frees the slot."""
        self._held.pop((held.call.id, held.call.attempt), None)

    def to_renew(self) -> list[HeldCall]:
        """Returns the attempts that a heartbeat names."""
        return [held for held in self._held.values() if held.stop is not Stop.LOST]

    @staticmethod
    def renewed(sent: Iterable[HeldCall], answer: Heartbeat, lease_until_s: float) -> list[tuple[HeldCall, Stop]]:
        """Applies the response to a heartbeat that has named these attempts. Returns those to stop."""
        stops: list[tuple[HeldCall, Stop]] = []
        for held in sent:
            if held.call.id in answer.lost:
                stops.append((held, Stop.LOST))
                continue
            held.lease_until_s = lease_until_s
            if held.call.id in answer.cancelled:
                stops.append((held, Stop.CANCELLED))
        return stops
