"""Makes the synchronous client from the asynchronous one: `_sync` from `_async`, by replacing words. `os.py` has a twin written by hand.

python tools/sync_client.py           writes the files
python tools/sync_client.py --check   fails if they are not up to date
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "src" / "rejoin"
MODULES = ("client", "follower", "http", "pages", "turn")
HEAD = "# Made by tools/sync_client.py from _async/{}.py: do not edit.\n"

# In this order: a longer one may contain a shorter one.
WORDS = (
    (r"\bAsyncGenerator\[(.*), None\]", r"Generator[\1, None, None]"),
    (r"AsyncBaseTransport", "BaseTransport"),
    (r"\bAsync(Client|Follower|Generator|Http|Iterator|Pages|Turn)\b", r"\1"),
    (r"\basync (def|for|with) ", r"\1 "),
    (r" async for ", " for "),
    (r"\bawait ", ""),
    (r"__a(enter|exit|iter)__", r"__\1__"),
    (r"\basynccontextmanager\b", "contextmanager"),
    (r"\baiter_raw\b", "iter_raw"),
    (r"\ba(close|read)\b", r"\1"),
)


def synchronous(source: str, module: str) -> str:
    """Returns the synchronous twin of a module."""
    for pattern, word in WORDS:
        source = re.sub(pattern, word, source)
    format_ = [sys.executable, "-m", "ruff", "format", "--stdin-filename", str(PACKAGE / "_sync" / f"{module}.py"), "-"]
    formatted = subprocess.run(format_, input=HEAD.format(module) + source, capture_output=True, text=True, check=True)
    sort = [sys.executable, "-m", "ruff", "check", "--select", "I", "--fix", "--quiet", *format_[4:]]
    return subprocess.run(sort, input=formatted.stdout, capture_output=True, text=True, check=True).stdout


def stale() -> list[str]:
    """Returns the modules whose twin is not up to date, and what it should be."""
    return [module for module in MODULES if twin(module) != _read(PACKAGE / "_sync" / f"{module}.py")]


def twin(module: str) -> str:
    """Returns what the twin of a module has to be."""
    return synchronous((PACKAGE / "_async" / f"{module}.py").read_text(), module)


def _read(path: Path) -> str | None:
    return path.read_text() if path.exists() else None


def main() -> int:
    """Writes the twins, or checks them."""
    found = stale()
    if "--check" in sys.argv:
        for module in found:
            print(f"_sync/{module}.py is not up to date: run python tools/sync_client.py", file=sys.stderr)
        return 1 if found else 0
    for module in found:
        (PACKAGE / "_sync" / f"{module}.py").write_text(twin(module))
        print(f"wrote _sync/{module}.py", file=sys.stderr)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
