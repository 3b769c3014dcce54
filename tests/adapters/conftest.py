"""One real server, one scripted model and all programs, for as long as the tests run."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from programs import ALL, Programs
from responses_model import ResponsesModel

from live_server import LiveServer
from rejoin import Client


@pytest.fixture(scope="session")
def model() -> Iterator[ResponsesModel]:
    """The model of the programs."""
    model = ResponsesModel()
    yield model
    model.stop()


@pytest.fixture(scope="session")
def server(model: ResponsesModel) -> Iterator[LiveServer]:
    """The live server. Without a binary, its tests are skipped; with CI=true they fail."""
    binary = os.environ.get("REJOIN_TEST_BIN")
    if not binary or not os.access(binary, os.X_OK):
        reason = f"REJOIN_TEST_BIN names no binary that can be executed: {binary}"
        if os.environ.get("CI") == "true":
            pytest.fail(f"{reason}, and with CI=true nothing is skipped")
        pytest.skip(reason)
    server = LiveServer(binary, model.url)
    yield server
    server.stop()


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
