"""What the synchronous client needs of the operating system. Its twin is `_async/os.py`; the other modules here are generated."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

sleep = time.sleep

_CHUNK_BYTES = 256 * 1024


def chunks(path: Path) -> Iterator[bytes]:
    """Returns the content of a file, piece by piece."""
    with path.open("rb") as file:
        while data := file.read(_CHUNK_BYTES):
            yield data


def size_bytes(path: Path) -> int:
    """Returns the size of a file."""
    return path.stat().st_size
