"""The examples of examples/adapters, as programs: several are started, killed and started again at the same time."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest

from live_server import LiveServer
from rejoin import Client

LIMIT_S = 240.0
EXAMPLES = Path(__file__).parents[2] / "examples" / "adapters"
# No program sends what it does to a service of its maker.
QUIET = {
    "OPENAI_AGENTS_DISABLE_TRACING": "1",
    "LANGSMITH_TRACING": "false",
    "MASTRA_TELEMETRY_DISABLED": "1",
    "AI_SDK_LOG_WARNINGS": "false",
    "PYTHONUNBUFFERED": "1",
}


@dataclass(frozen=True)
class Example:
    """An agent of another framework."""

    file: str
    agent: str
    edits: tuple[tuple[str, str], ...] = ()
    """What is replaced in the file."""


ALL = [
    Example("langgraph_agent.py", "langgraph_clerk"),
    Example("openai_agents_agent.py", "openai_agents_clerk"),
    Example("pydantic_ai_agent.py", "pydantic_ai_clerk"),
    Example("ai-sdk-agent.ts", "ai_sdk_clerk"),
    Example("mastra-agent.ts", "mastra_clerk"),
]


def until(condition: Callable[[], bool]) -> None:
    """Waits for a condition."""
    deadline = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < deadline, "never true"
        time.sleep(0.05)


def node() -> tuple[str, Path]:
    """Node.js, and the packages of the examples in TypeScript. Without them, a test is skipped; with CI=true it fails."""
    program, modules = os.environ.get("REJOIN_TEST_NODE", ""), Path(os.environ.get("REJOIN_TEST_NODE_MODULES", "/nowhere"))
    if not os.access(program, os.X_OK) or not modules.is_dir():
        reason = f"REJOIN_TEST_NODE and REJOIN_TEST_NODE_MODULES name no Node.js with packages: {program}, {modules}"
        if os.environ.get("CI") == "true":
            pytest.fail(f"{reason}, and with CI=true nothing is skipped")
        pytest.skip(reason)
    return program, modules


class Programs:
    """The programs, each in its own folder."""

    def __init__(self, server: LiveServer, client: Client, model_url: str, folder: Path) -> None:
        self._client = client
        self._running: dict[Example, subprocess.Popen[bytes]] = {}
        self._folder = folder
        own = {name: value for name, value in os.environ.items() if not name.startswith(("OPENAI_", "REJOIN_"))}
        reach = {"REJOIN_URL": server.url, "REJOIN_API_KEY": server.api_key}
        self._settings = {**own, **reach, **QUIET, "OPENAI_BASE_URL": model_url, "OPENAI_API_KEY": "scripted"}

    def folder(self, example: Example) -> Path:
        """Where a program runs, with the file of its refunds."""
        return self._folder / example.agent

    def start(self, examples: Iterable[Example]) -> None:
        """Starts programs, and waits until each of them is registered."""
        started = [self._start(example) for example in examples]
        until(lambda: self._are_registered(started))

    def _start(self, example: Example) -> subprocess.Popen[bytes]:
        folder = self.folder(example)
        folder.mkdir(exist_ok=True)
        command = [sys.executable, example.file]
        if example.file.endswith(".ts"):
            program, modules = node()
            command[0] = program
            (folder / "package.json").write_text('{"type": "module"}')
            if not (folder / "node_modules").exists():
                (folder / "node_modules").symlink_to(modules)
        for file in EXAMPLES.glob(f"*{Path(example.file).suffix}"):
            shutil.copy(file, folder)
        program_file = folder / example.file
        for old, new in example.edits:
            text = program_file.read_text()
            assert text.count(old) == 1, f"{example.file}: {old}"
            program_file.write_text(text.replace(old, new))
        with (folder / "log").open("ab") as log:
            process = subprocess.Popen(command, cwd=folder, env=self._settings, stdout=log, stderr=log)
        self._running[example] = process
        return process

    def _are_registered(self, started: list[subprocess.Popen[bytes]]) -> bool:
        self.check()
        names = [one["name"] for one in self._client.request("GET", "/api/workers")["items"]]
        return all(any(name.endswith(f"-{process.pid}") for name in names) for process in started)

    def check(self) -> None:
        """Fails if a program has ended by itself."""
        for example, process in self._running.items():
            assert process.poll() is None, f"{example.file} has ended:\n{(self.folder(example) / 'log').read_text()[-3000:]}"

    def kill(self, examples: Iterable[Example]) -> None:
        """Kills programs, as the kernel does."""
        for example in examples:
            process = self._running.pop(example)
            process.kill()
            process.wait()

    def wait_in(self, example: Example, file: Path) -> None:
        """Waits until a program has opened a file."""
        descriptors = Path(f"/proc/{self._running[example].pid}/fd")
        until(lambda: os.path.realpath(file) in map(os.path.realpath, descriptors.iterdir()))

    def stop(self) -> None:
        """Kills all programs."""
        self.kill(list(self._running))
