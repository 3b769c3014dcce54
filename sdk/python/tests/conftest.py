"""What all tests share: no settings of this machine, and one real server for the live tests."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from protocol_server import ProtocolServer

from cutting_proxy import CuttingProxy
from live_server import LiveServer, live_server
from rejoin import Client
from scripted_model import ScriptedModel


@pytest.fixture
def anyio_backend() -> str:
    """Asynchronous tests run on asyncio."""
    return "asyncio"


@pytest.fixture(autouse=True)
def _no_settings_of_this_machine(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    for name in [name for name in os.environ if name.startswith("REJOIN_") and not name.startswith("REJOIN_TEST_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("REJOIN_DATA_DIR", str(tmp_path_factory.getbasetemp() / "none"))


@pytest.fixture(scope="session")
def model() -> Iterator[ScriptedModel]:
    """The model of the live server."""
    model = ScriptedModel()
    yield model
    model.stop()


@pytest.fixture(scope="session")
def server(model: ScriptedModel) -> Iterator[LiveServer]:
    """The live server."""
    yield from live_server(model.url)


@pytest.fixture
def client(server: LiveServer) -> Iterator[Client]:
    """A client of the live server."""
    with server.client() as client:
        yield client


@pytest.fixture
def proxy(server: LiveServer) -> Iterator[CuttingProxy]:
    """A proxy to the live server."""
    proxy = CuttingProxy(server.url)
    yield proxy
    proxy.close()


@pytest.fixture
def api() -> Iterator[ProtocolServer]:
    """A strict API for workers. A worker that has violated the protocol fails its test."""
    api = ProtocolServer()
    yield api
    api.away()
    assert api.violations == []
