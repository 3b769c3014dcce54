"""The program that `rejoin init` makes works as its README says, also if it is killed while it waits."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from live_server import LiveServer
from rejoin import Client
from scripted_model import Reply, ScriptedModel
from test_live_worker import until

LIMIT_S = 60.0


def test_the_program_of_the_template_refunds_once(server: LiveServer, client: Client, model: ScriptedModel, tmp_path: Path) -> None:
    binary = os.environ["REJOIN_TEST_BIN"]
    subprocess.run([binary, "init", "my-agent"], cwd=tmp_path, check=True, timeout=LIMIT_S)
    folder = tmp_path / "my-agent"
    tested = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"], cwd=folder, capture_output=True, text=True, timeout=LIMIT_S
    )
    assert tested.returncode == 0, tested.stdout
    assert "3 passed" in tested.stdout

    surroundings = {**os.environ, "REJOIN_URL": server.url, "REJOIN_API_KEY": server.api_key, "PYTHONUNBUFFERED": "1"}
    model.script("Refund order A-7", Reply(tools=[("refund", {"order": "A-7"})]), Reply("It was refunded."))
    programs: list[subprocess.Popen[Any]] = []

    def start() -> None:
        known = len(client.request("GET", "/api/workers")["items"])
        programs.append(subprocess.Popen([sys.executable, "tools.py"], cwd=folder, env=surroundings))
        until(lambda: len(client.request("GET", "/api/workers")["items"]) > known)

    try:
        start()
        asking = subprocess.Popen(
            [sys.executable, "ask.py", "Refund order A-7"],
            cwd=folder,
            env=surroundings,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        programs.append(asking)
        until(lambda: any(one.question == "Refund 12.5 euros for A-7?" for one in client.questions()))
        programs[0].send_signal(signal.SIGKILL)
        programs[0].wait(LIMIT_S)
        start()
        said, _ = asking.communicate("yes\n", LIMIT_S)
        assert said.endswith("It was refunded.\n"), said
        assert (folder / "refunds.txt").read_text() == "A-7 12.5\n"
    finally:
        for program in programs:
            program.kill()
            program.wait(LIMIT_S)
