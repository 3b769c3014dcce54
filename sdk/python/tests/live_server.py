"""A real server, for as long as the tests run: `rejoin dev`, with the binary of REJOIN_TEST_BIN and a scripted model.

It ends only what it has started.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from rejoin import Client, Limits

READY_LIMIT_S = float(os.environ.get("REJOIN_TEST_READY_S", "110"))
STOP_LIMIT_S = 40
# Neither a model nor a database of the surroundings.
FOREIGN = ("REJOIN_", "DATABASE_URL", "OPENAI_", "ANTHROPIC_", "GEMINI_", "OLLAMA_")
# Retries that do not keep a test waiting.
EAGER = Limits(pause_min_s=0.01, pause_max_s=0.05, first_contact_s=30)


def live_server(model_url: str) -> Iterator[LiveServer]:
    """The server of a fixture. Without a binary, its tests are skipped; with CI=true they fail."""
    binary = os.environ.get("REJOIN_TEST_BIN")
    if not binary or not os.access(binary, os.X_OK):
        reason = f"REJOIN_TEST_BIN names no binary that can be executed: {binary}"
        if os.environ.get("CI") == "true":
            pytest.fail(f"{reason}, and with CI=true nothing is skipped")
        pytest.skip(reason)
    server = LiveServer(binary, model_url)
    yield server
    server.stop()


class LiveServer:
    """PostgreSQL, API and one worker."""

    def __init__(self, binary: str, model_url: str) -> None:
        self.data_dir = Path(tempfile.mkdtemp(prefix="rejoin-sdk-"))
        own = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN) or name == "REJOIN_PG_BIN"}
        settings = {
            "OPENAI_BASE_URL": model_url,
            "OPENAI_API_KEY": "scripted",
            "REJOIN_MODEL": "openai:scripted",
            # A worker that is killed is missed soon.
            "REJOIN_LEASE_MS": "3000",
            "REJOIN_HEARTBEAT_MS": "1000",
            "REJOIN_HEARTBEAT_S": "1",
            "REJOIN_REMOTE_LEASE_S": "3",
        }
        self._log = (self.data_dir / "log").open("w+b")
        command = [binary, "dev", "--json", "--port", "0", "--data-dir", str(self.data_dir)]
        self._process = subprocess.Popen(command, env={**own, **settings}, stdout=subprocess.PIPE, stderr=self._log)
        ready = self._ready()
        self.url: str = ready["url"]
        self.api_key: str = ready["apiKey"]
        self.project_id: str = ready["projectId"]

    def _ready(self) -> dict[str, Any]:
        lines: list[bytes] = []
        assert self._process.stdout is not None
        reading = threading.Thread(target=lambda out: lines.append(out.readline()), args=(self._process.stdout,), daemon=True)
        reading.start()
        reading.join(READY_LIMIT_S)
        if not lines or not lines[0]:
            self._log.seek(0)
            log = self._log.read()[-4000:].decode(errors="replace")
            self.stop()
            raise AssertionError(f"rejoin dev was not ready within {READY_LIMIT_S} s:\n{log}")
        found: dict[str, Any] = json.loads(lines[0])
        return found

    def client(self, url: str | None = None) -> Client:
        """A client of it, perhaps through a proxy."""
        return Client(url or self.url, self.api_key, limits=EAGER)

    def agent(self, *tools: str, **more: Any) -> str:
        """Defines an agent of the scripted model, and returns its name."""
        name = f"agent-{uuid4().hex[:8]}"
        definition = {"name": name, "description": "For a test.", "systemPrompt": "Answer.", "model": {"name": "openai:scripted"}}
        with self.client() as client:
            path = f"/api/admin/projects/{self.project_id}/agent-definitions"
            client.request("POST", path, json={**definition, "tools": list(tools), "flowType": "single", **more})
        return name

    def kill_workers(self) -> None:
        """Kills the worker processes of this moment: children of the process that was started here."""
        killed = 0
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                # The fields after the name, which may contain anything.
                parent = int(stat.read_text().rsplit(") ", 1)[1].split()[1])
                words = (stat.parent / "cmdline").read_bytes().split(b"\0")
            except (OSError, IndexError):
                continue
            if parent == self._process.pid and words[1:2] == [b"worker"]:
                os.kill(int(stat.parent.name), signal.SIGKILL)
                killed += 1
        assert killed == 1

    def stop(self) -> None:
        """Ends it, and removes its data."""
        self._process.terminate()
        try:
            self._process.wait(STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._log.close()
        shutil.rmtree(self.data_dir, ignore_errors=True)
