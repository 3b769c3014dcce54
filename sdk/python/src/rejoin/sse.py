"""Server-sent events: bytes become frames, wherever the network has cut them.

Invariants: the frames depend on the bytes alone, not on how they were cut. A frame that its stream does not finish is not returned.
"""

from __future__ import annotations

from dataclasses import dataclass

from .errors import ResponseError
from .limits import Limits

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass
class Frame:
    """One server-sent event."""

    id: str | None = None
    event: str | None = None
    data: str = ""


class SseParser:
    """Parses one stream. A new connection needs a new parser."""

    def __init__(self, line_max_bytes: int = Limits.line_max_bytes) -> None:
        self.retry_s: float | None = None
        """How long to wait before the next connection, as the stream requested last, in seconds."""
        self._line_max_bytes = line_max_bytes
        # The beginning of a line that is not complete yet: joined when it is, because a snapshot's line comes in many pieces.
        self._pieces: list[bytes] = []
        self._length = 0
        self._after_cr = False
        self._begun = False
        self._frame = Frame()
        self._has_data = False

    def push(self, data: bytes) -> list[Frame]:
        """Returns the frames that these bytes complete.

        Raises `ResponseError` if a line is longer than the limit.
        """
        frames: list[Frame] = []
        if not data:
            return frames
        # A LF after a CR belongs to it, even if it comes in the next bytes.
        start = 1 if self._after_cr and data.startswith(b"\n") else 0
        self._after_cr = data.endswith(b"\r")
        while (end := _line_end(data, start)) >= 0:
            self._keep(data[start:end])
            start = end + (2 if data.startswith(b"\r\n", end) else 1)
            self._end_line(frames)
        self._keep(data[start:])
        return frames

    def _keep(self, piece: bytes) -> None:
        if piece:
            self._pieces.append(piece)
            self._length += len(piece)
        if self._length > self._line_max_bytes:
            raise ResponseError(f"a line of the stream is longer than {self._line_max_bytes} bytes")

    def _end_line(self, frames: list[Frame]) -> None:
        line = b"".join(self._pieces)
        self._pieces.clear()
        self._length = 0
        if not self._begun:
            self._begun = True
            line = line.removeprefix(_BYTE_ORDER_MARK)
        if not line:
            if self._has_data:
                frames.append(self._frame)
            self._frame = Frame()
            self._has_data = False
            return
        # Complete lines only, so that no character is decoded in two halves.
        field, _, value = line.decode(errors="replace").partition(":")
        value = value.removeprefix(" ")
        if field == "data":
            self._frame.data = f"{self._frame.data}\n{value}" if self._has_data else value
            self._has_data = True
        elif field == "id" and "\0" not in value:
            self._frame.id = value
        elif field == "event":
            self._frame.event = value
        elif field == "retry" and value.isascii() and value.isdigit():
            self.retry_s = int(value) / 1000
        # Comments (an empty field) and unknown fields are ignored.


def _line_end(data: bytes, start: int) -> int:
    """Returns the position of the next CR or LF; -1: there is none."""
    lf = data.find(b"\n", start)
    cr = data.find(b"\r", start, lf if lf >= 0 else len(data))
    return cr if cr >= 0 else lf
