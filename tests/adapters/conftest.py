"""One real server, one scripted model and all programs, for as long as the tests run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from programs import ALL, Programs
from responses_model import ResponsesModel

from live_server import LiveServer, live_server
from rejoin import Client


@pytest.fixture(scope="session")
def model() -> Iterator[ResponsesModel]:
    """The model of the programs."""
    model = ResponsesModel()
    yield model
    model.stop()


@pytest.fixture(scope="session")
def server(model: ResponsesModel) -> Iterator[LiveServer]:
    """The live server."""
    yield from live_server(model.url)


@pytest.fixture(scope="session")
def client(server: LiveServer) -> Iterator[Client]:
    """A client of the live server."""
    with server.client() as client:
        yield client


@pytest.fixture(scope="session")
def programs(server: LiveServer, client: Client, model: ResponsesModel, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Programs]:
    """All programs, at work."""
    programs = Programs(server, client, model.url, tmp_path_factory.mktemp("adapters"))
    try:
        programs.start(ALL)
        yield programs
    finally:
        programs.stop()
