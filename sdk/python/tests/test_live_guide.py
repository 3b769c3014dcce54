"""The programs of the guide (docs/guide/python-tools.md) work as they are printed there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from live_server import LiveServer
from rejoin import Client
from scripted_model import Reply, ScriptedModel
from test_live_worker import until

GUIDE = Path(__file__).parents[3] / "docs" / "guide" / "python-tools.md"
LIMIT_S = 60.0


@pytest.mark.skipif(not GUIDE.exists(), reason="only in the repository")
def test_the_programs_of_the_guide_work(server: LiveServer, client: Client, model: ScriptedModel, tmp_path: Path) -> None:
    tools, ask = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    model.script("Where is my order A-7?", Reply(tools=[("order_status", {"order": "A-7"})]), Reply("It was shipped."))
    (tmp_path / "tools.py").write_text(tools)
    (tmp_path / "ask.py").write_text(ask)
    surroundings = {**os.environ, "REJOIN_URL": server.url, "REJOIN_API_KEY": server.api_key}
    worker = subprocess.Popen([sys.executable, "tools.py"], cwd=tmp_path, env=surroundings)
    try:
        until(lambda: any("order_status@1" in one["tools"] for one in client.request("GET", "/api/workers")["items"]))
        asked = subprocess.run(
            [sys.executable, "ask.py"], cwd=tmp_path, env=surroundings, check=True, capture_output=True, text=True, timeout=LIMIT_S
        )
        assert asked.stdout == "It was shipped.\n"
    finally:
        worker.terminate()
        assert worker.wait(LIMIT_S) == 0
