"""Where the API is, and the key for it: from arguments, else from the environment, else from the file that `rejoin dev` leaves on this
machine, as the command line does it.

Invariant: the file's key is sent to the file's API only.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias, cast
from urllib.parse import urlsplit

from .errors import ConfigurationError

DEFAULT_URL = "http://127.0.0.1:7420"

ApiKey: TypeAlias = str | Callable[[], str]
"""An API key or a token, or a function that returns one for each request."""


@dataclass(frozen=True)
class Settings:
    """An API and its credentials."""

    url: str
    api_key: ApiKey = field(repr=False)
    project_id: str | None

    def headers(self) -> dict[str, str]:
        """Returns the headers of each request."""
        key = self.api_key() if callable(self.api_key) else self.api_key
        headers = {"authorization": f"Bearer {key}"}
        if self.project_id:
            headers["x-project-id"] = self.project_id
        return headers

    @property
    def is_local(self) -> bool:
        """Whether the API is on this machine, so that no proxy leads to it."""
        host = urlsplit(self.url).hostname or ""
        return host == "localhost" or host == "::1" or host.startswith("127.")


def resolve(
    url: str | None = None, api_key: ApiKey | None = None, project_id: str | None = None, environ: Mapping[str, str] | None = None
) -> Settings:
    """Returns the API to use, with its key. An empty variable counts as absent.

    Raises `ConfigurationError` if no key is known.
    """
    environ = os.environ if environ is None else environ
    url = url or environ.get("REJOIN_URL") or None
    api_key = api_key or environ.get("REJOIN_API_KEY") or None
    project_id = project_id or environ.get("REJOIN_PROJECT_ID") or None
    instance = _dev_instance(environ)
    # The file applies to its own API only.
    if url is not None and _trimmed(url) != _trimmed(instance.get("url", "")):
        instance = {}
    url = _trimmed(url or instance.get("url") or DEFAULT_URL)
    api_key = api_key or instance.get("apiKey")
    if not api_key:
        raise ConfigurationError(
            f"no API key for {url}: start `rejoin dev` on this machine, or set REJOIN_API_KEY (and REJOIN_URL) for your server; "
            "`rejoin keys create` creates a key"
        )
    # The project of another key is unknown.
    if api_key == instance.get("apiKey"):
        project_id = project_id or instance.get("projectId")
    return Settings(url, api_key, project_id)


def _trimmed(url: str) -> str:
    return url.rstrip("/")


def _dev_instance(environ: Mapping[str, str]) -> dict[str, str]:
    """Returns what `rejoin dev` has written for other programs on this machine; empty if there is nothing to read."""
    if environ.get("REJOIN_DATA_DIR"):
        folder = Path(environ["REJOIN_DATA_DIR"])
    elif environ.get("XDG_DATA_HOME"):
        folder = Path(environ["XDG_DATA_HOME"], "rejoin", "dev")
    elif environ.get("HOME"):
        folder = Path(environ["HOME"], ".local", "share", "rejoin", "dev")
    else:
        return {}
    try:
        found: object = json.loads((folder / "current.json").read_bytes())
    except (OSError, ValueError):
        return {}
    if not isinstance(found, dict):
        return {}
    fields = cast("dict[str, object]", found)
    return {name: value for name, value in fields.items() if isinstance(value, str)}
