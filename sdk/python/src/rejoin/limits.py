"""The limits of a client: timeouts, retries and sizes. Everything that waits, repeats or buffers is bounded by one of them."""

from __future__ import annotations

from dataclasses import dataclass

# A stream is considered dead after this many heartbeats without a byte.
_SILENT_HEARTBEATS = 2.5


@dataclass(frozen=True)
class Limits:
    """Timeouts, retries and sizes of a client. Units are in the names: `_s` are seconds, `_bytes` are bytes.

    Example: `Client(limits=Limits(retry_s=20))`.
    """

    connect_s: float = 10.0
    """Timeout of opening a connection."""

    answer_s: float = 30.0
    """Longest silence while a response that is not a stream is awaited or received."""

    transfer_s: float = 600.0
    """The same while a file is uploaded or downloaded."""

    heartbeat_s: float = 10.0
    """Heartbeat interval of a silent stream, as the server has it (`REJOIN_HEARTBEAT_S`). A stream without a byte for 2.5 intervals is
    considered dead, and is opened again."""

    retry_s: float = 120.0
    """How long a message, or the result of a worker's call, is sent again while the server is unreachable or busy."""

    outage_s: float = 120.0
    """How long a stream is opened again while the server is unreachable. `float("inf")`: without end."""

    first_contact_s: float = 10.0
    """Replaces `retry_s` and `outage_s` while the server has never responded to this client: a wrong URL is likelier than a restart."""

    pause_min_s: float = 0.25
    """Largest pause before the first retry. It doubles with each further one; the pause is a random part of it. If the server requests a
    longer one (`retry:` of a stream), that one counts."""

    pause_max_s: float = 10.0
    """Largest pause between two retries, unless the server sends `Retry-After`."""

    retry_after_max_s: float = 30.0
    """Largest `Retry-After` that is waited for. Beyond it, a stream is opened after this time, and any other request fails."""

    line_max_bytes: int = 64 * 1024 * 1024
    """Maximum length of a line of a stream: a snapshot of a long conversation is one line."""

    unusable_frames: int = 5
    """Number of connections in a row that may end at a frame that is no event, before following fails."""

    connections: int = 1000
    """Number of simultaneous connections of a client. A stream occupies one."""

    @property
    def silence_s(self) -> float:
        """Longest silence of a stream before it is considered dead."""
        return self.heartbeat_s * _SILENT_HEARTBEATS
