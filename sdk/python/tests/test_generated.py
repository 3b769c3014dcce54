"""The synchronous client is made from the asynchronous one, and nothing is left behind."""

from __future__ import annotations

import importlib.util
import inspect
import re
import sys
from pathlib import Path
from types import ModuleType

import rejoin
from logs import REPOSITORY

SDK = REPOSITORY / "sdk/python"
LINES_MAX = 400


def _generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("sync_client", SDK / "tools/sync_client.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_synchronous_client_is_up_to_date() -> None:
    assert _generator().stale() == []


def test_both_clients_have_the_same_methods() -> None:
    def methods(kind: type) -> dict[str, list[str]]:
        public = {name: value for name, value in inspect.getmembers(kind) if not name.startswith("_")}
        return {
            name.replace("aclose", "close"): list(inspect.signature(value).parameters) if callable(value) else []
            for name, value in public.items()
        }

    assert methods(rejoin.Client) == methods(rejoin.AsyncClient)
    assert methods(rejoin.Turn) == methods(rejoin.AsyncTurn)


def test_no_word_of_asynchronous_code_is_left() -> None:
    for path in (SDK / "src/rejoin/_sync").glob("*.py"):
        code = path.read_text().replace("_async/", "").replace("`_async`", "")
        assert not re.search(r"async|await|anyio|aclose", code, re.IGNORECASE), path.name


def test_files_are_short_and_the_version_is_that_of_the_repository() -> None:
    sources = [path for folder in ("src", "tests", "tools") for path in (SDK / folder).rglob("*.py")]
    assert {path.name: count for path in sources if (count := len(path.read_text().splitlines())) > LINES_MAX} == {}
    assert f'version = "{rejoin.__version__}"' in (SDK / "pyproject.toml").read_text()
    assert f'version = "{rejoin.__version__}"' in (REPOSITORY / "Cargo.toml").read_text()


def test_everything_public_is_documented() -> None:
    for name in rejoin.__all__:
        value = getattr(rejoin, name)
        if not inspect.isclass(value):
            continue
        assert (value.__doc__ or "").strip(), name
        for member, method in vars(value).items():
            if not member.startswith("_") and (inspect.isfunction(method) or isinstance(method, property)):
                assert inspect.getdoc(method), f"{name}.{member}"


def test_the_types_are_shipped() -> None:
    assert Path(rejoin.__file__).with_name("py.typed").exists()
    assert sys.version_info >= (3, 10)
