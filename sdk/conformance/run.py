"""Plays the cases of `cases.json` to a program that implements the worker protocol: README.md.

run.py [--case NAME] -- COMMAND…
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from protocol_records import Offered
from protocol_server import KEY, ProtocolServer

HERE = Path(__file__).parent
LIMIT_S = 60.0
STOP_LIMIT_S = 30.0


class Failure(Exception):
    """What the program did not do, or did and must not."""


class Case:
    """One case: an API, a folder, and the program."""

    def __init__(self, case: dict[str, Any], command: list[str], folder: Path) -> None:
        lease_s = float(case.get("lease", 60))
        self.api = ProtocolServer(lease_s=lease_s, heartbeat_s=min(0.2, lease_s / 5))
        self.api.records_max = case.get("records", 0)
        self._case = case
        self._command = command
        self._folder = folder
        self._calls: dict[str, Offered] = {}
        self._program: subprocess.Popen[bytes] | None = None

    def play(self) -> None:
        """Raises `Failure`."""
        try:
            self._start()
            for action in self._case["do"]:
                self._act(dict(action))
            if self.api.violations:
                raise Failure("; ".join(self.api.violations))
        finally:
            if self._program is not None:
                self._program.kill()
                self._program.wait()
            self.api.away()

    def _start(self) -> None:
        settings = {**os.environ, "REJOIN_URL": self.api.url, "REJOIN_API_KEY": KEY, "CONFORMANCE_DIR": str(self._folder)}
        before = self.api.count("registrations")
        self._program = subprocess.Popen(self._command, env=settings)
        if "faults" not in self._case["do"][0]:
            self._until(lambda: self.api.count("registrations") > before, "the program does not register")

    def _act(self, action: dict[str, Any]) -> None:
        kind = next(iter(action))
        getattr(self, "_start_again" if kind == "start" else f"_{kind}")(action.pop(kind), **action)

    def _until(self, condition: Callable[[], Any], otherwise: str) -> None:
        deadline = time.monotonic() + LIMIT_S
        while not condition():
            if self._program is not None and self._program.poll() is not None:
                raise Failure(f"the program has ended with {self._program.returncode}, before: {otherwise}")
            if time.monotonic() > deadline:
                files = sorted(path.name for path in self._folder.iterdir())
                raise Failure("; ".join([otherwise, f"files: {files}", *self.api.violations]))
            with self.api.changed:
                self.api._sweep()
            time.sleep(0.01)

    # Actions: README.md.

    def _offer(self, name: str, tool: str, input: dict[str, Any], timeoutS: int = 60) -> None:  # noqa: A002, N803
        self._calls[name] = self.api.offer(tool, timeout_s=timeoutS, **input)

    def _ended(self, name: str, **expected: Any) -> None:
        call = self._calls[name]
        self._until(lambda: call.status not in ("waiting", "running", "suspended"), f"the call {name} does not end")
        for field, value in expected.items():
            found = getattr(call, field)
            if value not in (found or "") if field == "error" else found != value:
                raise Failure(f"{field} of the call {name} is {found!r}, not {value!r}; its error is {call.error!r}")

    def _file(self, pattern: str, least: int = 1) -> None:
        self._until(lambda: len(list(self._folder.glob(pattern))) >= least, f"there are no {least} files {pattern}")

    def _create(self, name: str) -> None:
        (self._folder / name).touch()

    def _lines(self, name: str, are: list[str]) -> None:
        found = (self._folder / name).read_text().splitlines()
        if found != are:
            raise Failure(f"{name} has the lines {found}, not {are}")

    def _suspended(self, name: str, waits: list[dict[str, Any]] | None = None) -> None:
        call = self._calls[name]
        self._until(lambda: call.waits, f"the call {name} is not handed back; {call}")
        found = [one["wait"] for one in call.waits]
        expected = found if waits is None else waits
        if len(found) != len(expected) or any(one.get(key) != value for one, other in zip(found, expected) for key, value in other.items()):
            raise Failure(f"the call {name} waits for {found}, not {waits}")

    def _happen(self, name: str, outputs: list[Any] | None = None, errors: list[str] | None = None) -> None:
        self.api.happen(self._calls[name], *(outputs or [Exception(one) for one in errors or []]))

    def _text(self, name: str, **expected: Any) -> None:
        call = self._calls[name]

        def text() -> str:
            return "".join(call.texts[key] for key in sorted(call.texts))

        self._until(lambda: text() == expected["is"], f"the answer is not {expected['is']!r}")
        if call.taken_back != expected.get("takenBack", call.taken_back):
            raise Failure(f"taken back was {call.taken_back}, not {expected['takenBack']}")

    def _events(self, name: str, are: list[list[Any]]) -> None:
        call = self._calls[name]

        def found() -> list[list[Any]]:
            return [[event["name"], event["data"]] for event in call.events.values()]

        self._until(lambda: len(found()) >= len(are), f"the call {name} has emitted {found()}, not {are}")
        if found() != are:
            raise Failure(f"the call {name} has emitted {found()}, not {are}")

    def _announced(self, name: str, fields: dict[str, Any], least: int = 1) -> None:
        def found() -> list[dict[str, Any]]:
            return [agent for agent in self.api.agents if agent["name"] == name]

        self._until(lambda: len(found()) >= least, f"the agent {name} was announced {len(found())} times, not {least}")
        for agent in found():
            if agent != {"name": name, **fields}:
                raise Failure(f"the agent {name} was announced as {agent}, not with {fields}")

    def _faults(self, faults: dict[str, list[int]]) -> None:
        self.api.faults |= {kind: deque(statuses) for kind, statuses in faults.items()}

    def _cancel(self, name: str) -> None:
        self.api.cancel(self._calls[name])

    def _take(self, name: str) -> None:
        self.api.take(self._calls[name])

    def _forget(self, _: bool) -> None:
        self.api.forget_workers()

    def _away(self, _: bool) -> None:
        self.api.away()

    def _back(self, _: bool) -> None:
        self.api.back()

    def _kill(self, _: bool) -> None:
        assert self._program is not None
        self._program.kill()
        self._program.wait()
        self._program = None

    def _start_again(self, _: bool) -> None:
        self._start()

    def _stop(self, _: bool) -> None:
        assert self._program is not None
        self._program.send_signal(signal.SIGTERM)
        try:
            status = self._program.wait(STOP_LIMIT_S)
        except subprocess.TimeoutExpired as error:
            raise Failure(f"the program does not end within {STOP_LIMIT_S} s after SIGTERM") from error
        self._program = None
        if status != 0:
            raise Failure(f"the program ends with {status} after SIGTERM")

    def _requested(self, kind: str, min: int = 0, max: int = sys.maxsize) -> None:  # noqa: A002
        # A heartbeat that names an ended call as lost takes the place of a repeated request: the program must send nothing more about it.
        def enough() -> bool:
            return self.api.count(kind) + (self.api.named_as_ended() if kind == "completion" else 0) >= min

        self._until(enough, f"{kind} was requested {self.api.count(kind)} times, not {min}")
        if self.api.count(kind) > max:
            raise Failure(f"{kind} was requested {self.api.count(kind)} times, at most {max} were expected")


def main() -> int:
    parser = argparse.ArgumentParser(description="Checks a program that implements the worker protocol.")
    parser.add_argument("--case", action="append", help="only this case")
    parser.add_argument("command", nargs="+", help="the program, after --")
    given = parser.parse_args()
    cases = [case for case in json.loads((HERE / "cases.json").read_text()) if not given.case or case["name"] in given.case]
    failed = 0
    for case in cases:
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="rejoin-conformance-") as folder:
            try:
                Case(case, given.command, Path(folder)).play()
                outcome = "ok"
            except Failure as failure:
                outcome, failed = f"FAILED: {failure}", failed + 1
        print(f"{case['name']:<28} {time.monotonic() - began:4.1f} s  {outcome}", flush=True)
    print(f"{len(cases) - failed} of {len(cases)} cases passed")
    return 1 if failed or not cases else 0


if __name__ == "__main__":
    sys.exit(main())
