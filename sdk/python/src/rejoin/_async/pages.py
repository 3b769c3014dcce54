"""Lists that the API returns page by page."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Generic, TypeVar

from ..calls import Call, at_cursor
from ..records import Page
from .http import AsyncHttp

T = TypeVar("T")


class AsyncPages(Generic[T]):
    """A list. Iterate it: `async for item in pages` requests page after page, as needed."""

    def __init__(self, http: AsyncHttp, call: Call[Page[T]]) -> None:
        self._http = http
        self._call = call

    async def __aiter__(self) -> AsyncIterator[T]:
        """Returns the items. Raises `APIError` and `UnreachableError`."""
        cursor: str | None = None
        while True:
            page = await self.page(cursor)
            for item in page.items:
                yield item
            cursor = page.next_cursor
            if cursor is None:
                return

    async def page(self, cursor: str | None = None) -> Page[T]:
        """Returns one page: the first, or the one at `cursor`, which is the previous page's `next_cursor`. Raises as an iteration does."""
        return await self._http.run(at_cursor(self._call, cursor))
