"""Where the API is: arguments, else the environment, else the file of `rejoin dev`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rejoin import ConfigurationError
from rejoin.settings import resolve

HERE = "http://127.0.0.1:7420"


def dev(folder: Path, content: object | None = None) -> dict[str, str]:
    """An environment in which `rejoin dev` has left its file."""
    instance = {"url": HERE, "apiKey": "of dev", "projectId": "p", "databaseUrl": None}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "current.json").write_text(json.dumps(instance if content is None else content))
    return {"REJOIN_DATA_DIR": str(folder)}


def test_what_is_given_beats_the_environment_and_that_beats_the_file(tmp_path: Path) -> None:
    environ = dev(tmp_path)

    def chosen(url: str | None = None, key: str | None = None, **more: str) -> tuple[str, object, str | None]:
        settings = resolve(url, key, None, {**environ, **more})
        return settings.url, settings.api_key, settings.project_id

    assert chosen() == (HERE, "of dev", "p")
    assert chosen(REJOIN_URL="", REJOIN_API_KEY="", REJOIN_PROJECT_ID="") == (HERE, "of dev", "p")
    assert chosen(key="mine") == (HERE, "mine", None)
    assert chosen(REJOIN_API_KEY="mine") == (HERE, "mine", None)
    assert chosen(REJOIN_URL="https://far.example/", REJOIN_API_KEY="mine") == ("https://far.example", "mine", None)
    assert chosen("https://other.example", REJOIN_URL="https://far.example/", REJOIN_API_KEY="k") == ("https://other.example", "k", None)
    assert chosen(f"{HERE}/") == (HERE, "of dev", "p")
    assert chosen(REJOIN_PROJECT_ID="q") == (HERE, "of dev", "q")


def test_the_key_of_dev_goes_to_no_other_server(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="REJOIN_API_KEY"):
        resolve("https://far.example", None, None, dev(tmp_path))


def test_the_file_is_found_where_the_command_line_writes_it(tmp_path: Path) -> None:
    dev(tmp_path / "xdg/rejoin/dev")
    dev(tmp_path / "home/.local/share/rejoin/dev")
    assert resolve(environ={"XDG_DATA_HOME": str(tmp_path / "xdg"), "HOME": "/none"}).api_key == "of dev"
    assert resolve(environ={"HOME": str(tmp_path / "home")}).api_key == "of dev"


def test_without_anything_the_error_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken/current.json").write_text("{")
    for environ in (
        {},
        {"HOME": str(tmp_path)},
        {"REJOIN_DATA_DIR": str(tmp_path / "broken")},
        dev(tmp_path, [1]),
        dev(tmp_path, {"url": 1}),
    ):
        with pytest.raises(ConfigurationError, match="rejoin dev.*REJOIN_API_KEY"):
            resolve(environ=environ)


def test_a_server_on_this_machine_needs_no_proxy() -> None:
    local = ["http://127.0.0.1:7420", "http://localhost", "http://[::1]:80"]
    assert [resolve(url, "k").is_local for url in [*local, "https://localhost.example", "http://10.0.0.1"]] == [True] * 3 + [False] * 2
