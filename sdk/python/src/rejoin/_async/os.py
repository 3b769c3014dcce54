"""What the asynchronous client needs of the operating system. Its twin is `_sync/os.py`; the other modules here have generated twins."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import anyio

sleep = anyio.sleep

_CHUNK_BYTES = 256 * 1024


async def chunks(path: Path) -> AsyncIterator[bytes]:
    """Returns the content of a file, piece by piece."""
    async with await anyio.open_file(path, "rb") as file:
        while data := await file.read(_CHUNK_BYTES):
            yield data


async def size_bytes(path: Path) -> int:
    """Returns the size of a file."""
    return (await anyio.Path(path).stat()).st_size
