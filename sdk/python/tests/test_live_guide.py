"""The guide (docs/guide/python-tools.md) works in an empty folder, as it is printed: what it installs, runs, asks and kills."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from live_server import LiveServer
from rejoin import Client
from scripted_model import Reply, ScriptedModel
from test_live_worker import until

REPOSITORY = Path(__file__).parents[3]
GUIDE = REPOSITORY / "docs" / "guide" / "python-tools.md"
LIMIT_S = 60.0
INSTALL_LIMIT_S = 150
BASH = "/bin/bash"
# The process that the guide kills.
KILLED = "4711"
# Modules are not compiled before they are used, and pip does not look for another pip.
QUICK = {"PIP_COMPILE": "0", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}

pytestmark = [pytest.mark.skipif(not GUIDE.exists(), reason="only in the repository"), pytest.mark.timeout(INSTALL_LIMIT_S + 100)]


def blocks(language: str) -> list[str]:
    """The blocks of the guide in this language."""
    return re.findall(rf"```{language}\n(.*?)```", GUIDE.read_text(), re.DOTALL)


@dataclass
class Program:
    """A program of the guide."""

    process: subprocess.Popen[bytes]
    output: Path

    def printed(self, line: str) -> None:
        """Waits for a line of the guide, which names another process."""
        until(lambda: re.sub("process .*", f"process {self.process.pid}", line) in self.output.read_text())


@dataclass
class Terminal:
    """The reader of the guide: a folder, and what commands find there."""

    folder: Path
    settings: dict[str, str]

    @contextmanager
    def asking(self, line: str) -> Iterator[subprocess.Popen[str]]:
        """Runs a command beside the block. Its output is what a terminal shows."""
        command = [BASH, "-c", f"exec {line}"]
        process = subprocess.Popen(command, cwd=self.folder, env=self.settings, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        try:
            yield process
        finally:
            process.kill()
            process.communicate()

    @contextmanager
    def serving(self, line: str, client: Client, *, killed: bool = False) -> Iterator[Program]:
        """Runs a program of the guide, which is registered in the block. Ctrl-C ends it, unless the block has killed it."""
        output = self.folder.parent / f"output-{time.monotonic_ns()}"
        with output.open("wb") as file:
            process = subprocess.Popen([BASH, "-c", f"exec {line}"], cwd=self.folder, env=self.settings, stdout=file)

            def is_registered() -> bool:
                assert process.poll() is None, f"{line} has ended"
                return any(one["name"].endswith(f"-{process.pid}") for one in client.request("GET", "/api/workers")["items"])

            try:
                until(is_registered)
                yield Program(process, output)
                if not killed:
                    process.send_signal(signal.SIGINT)
                assert process.wait(LIMIT_S) == (-signal.SIGKILL if killed else 0)
            finally:
                process.kill()
                process.wait()


@pytest.fixture(scope="module")
def terminal(server: LiveServer, tmp_path_factory: pytest.TempPathFactory) -> Terminal:
    """The package is installed by the lines of the guide, beside the repository."""
    beside = tmp_path_factory.mktemp("guide")
    (beside / "rejoin").symlink_to(REPOSITORY)
    (beside / "bin").mkdir()
    (beside / "bin" / "rejoin").symlink_to(os.environ["REJOIN_TEST_BIN"])
    here = {**os.environ, **QUICK, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    install = blocks("sh")[1]
    installed = subprocess.run(
        [BASH, "-ec", install], cwd=beside, env=here, capture_output=True, text=True, timeout=INSTALL_LIMIT_S, check=False
    )
    assert installed.returncode == 0, installed.stderr
    # What a terminal has in which the environment is active. The server is found by its data folder.
    path = f"{beside / 'my-tools' / '.venv' / 'bin'}:{beside / 'bin'}:{os.environ['PATH']}"
    found = {**os.environ, "PATH": path, "REJOIN_DATA_DIR": str(server.data_dir), "PYTHONUNBUFFERED": "1"}
    return Terminal(beside / "my-tools", found)


def test_the_first_program_of_the_guide_answers(terminal: Terminal, client: Client, model: ScriptedModel) -> None:
    tools, _ = blocks("python")
    start, _, run, ask, *_ = blocks("sh")
    assert (start, [path.name for path in terminal.folder.iterdir()]) == ("rejoin dev\n", [".venv"])
    expected = blocks("text")[0]
    model.script("Where is my order A-7?", Reply(tools=[("order_status", {"order": "A-7"})]), Reply(expected.splitlines()[-1]))
    (terminal.folder / "tools.py").write_text(tools)
    with terminal.serving(run, client), terminal.asking(ask) as asking:
        said, _ = asking.communicate(timeout=LIMIT_S)
    assert re.sub(r"\d+ ms", "9 ms", said) == expected


def test_a_killed_process_has_an_honest_outcome(terminal: Terminal, client: Client, model: ScriptedModel) -> None:
    guide = GUIDE.read_text()
    _, refunds = blocks("python")
    run, ask, kill, again = blocks("sh")[4:]
    called, outcome, answer = blocks("text")[1].splitlines()
    [repeated] = blocks("text")[2].splitlines()
    begun = f"refund of A-7: attempt 1, process {KILLED}"
    assert (again, f"`{begun}`" in guide) == (run, True)

    def killed(program: str, refunded: str, *prints: str) -> str:
        """Returns what the chat shows if the process is killed in the middle of the call, and started again."""
        model.script("Refund order A-7.", Reply(tools=[("refund", {"order": "A-7"})]), Reply(refunded))
        (terminal.folder / "refunds.py").write_text(program)
        with ExitStack() as stack:
            first = stack.enter_context(terminal.serving(run, client, killed=True))
            asking = stack.enter_context(terminal.asking(ask))
            first.printed(begun)
            subprocess.run([BASH, "-c", kill.replace(KILLED, str(first.process.pid))], check=True)
            second = stack.enter_context(terminal.serving(again, client))
            for line in prints:
                second.printed(line)
            return asking.communicate(timeout=LIMIT_S)[0]

    said = killed(refunds, answer)
    assert said.splitlines()[0] == called
    # The machine has another name here.
    begins, ends = outcome.removesuffix(" It was not repeated. …").split(f"shop-{KILLED}")
    assert begins in said
    assert ends in said
    assert said.endswith(f"{answer}\n")
    assert "It was not repeated." in model.learned("Refund order A-7.")

    # What the guide changes then. And the bank is faster.
    marked = '@tool(idempotent=True, version="2")'
    assert f"`{marked}` in the place of `@tool`" in guide
    repeatable = refunds.replace("@tool\n", f"{marked}\n").replace("time.sleep(30)", "time.sleep(10)")
    assert killed(repeatable, "It was refunded.", repeated).endswith("It was refunded.\n")
    assert "refunded" in model.learned("Refund order A-7.")
    # Other tests have a tool with this name, and killed processes are registered for a while.
    for worker in client.request("GET", "/api/workers")["items"]:
        if worker["alive"] and any(tool.startswith("refund@") for tool in worker["tools"]):
            client.request("DELETE", f"/api/workers/default/registrations/{worker['workerId']}")
