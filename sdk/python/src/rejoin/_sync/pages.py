# Made by tools/sync_client.py from _async/pages.py: do not edit.
"""Lists that the API returns page by page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

from ..calls import Call, at_cursor
from ..records import Page
from .http import Http

T = TypeVar("T")


class Pages(Generic[T]):
    """A list. Iterate it: `for item in pages` requests page after page, as needed."""

    def __init__(self, http: Http, call: Call[Page[T]]) -> None:
        self._http = http
        self._call = call

    def __iter__(self) -> Iterator[T]:
        """Returns the items. Raises `APIError` and `UnreachableError`."""
        cursor: str | None = None
        while True:
            page = self.page(cursor)
            for item in page.items:
                yield item
            cursor = page.next_cursor
            if cursor is None:
                return

    def page(self, cursor: str | None = None) -> Page[T]:
        """Returns one page: the first, or the one at `cursor`, which is the previous page's `next_cursor`. Raises as an iteration does."""
        return self._http.run(at_cursor(self._call, cursor))
