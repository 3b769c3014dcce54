"""Workers through faults: the API is away, forgets them and loses responses; processes are stopped, paused and killed."""

from __future__ import annotations

import signal
import subprocess
import threading
import time
from collections import deque
from contextlib import AbstractContextManager
from pathlib import Path

import anyio
import pytest
from protocol_server import KEY, ProtocolServer

from rejoin import AsyncCallContext, ToolFailure, tool
from test_worker import LIMIT_S, add, serving
from worker_program import worker_process

pytestmark = pytest.mark.anyio
# Short enough to wait for its end.
LEASE_S = 3.0


async def test_an_api_that_is_not_there_yet_is_waited_for(api: ProtocolServer, caplog: pytest.LogCaptureFixture) -> None:
    api.away()
    async with serving(api, add):
        call = api.offer("add", a=1, b=2)
        await api.until(lambda: "cannot reach the API" in caplog.text)
        api.back()
        assert (await api.ended(call)).output == 3
    assert "the API is back after" in caplog.text


async def test_calls_outlast_an_api_that_is_away(caplog: pytest.LogCaptureFixture) -> None:
    api = ProtocolServer()
    free = threading.Event()

    @tool
    def hold() -> str:
        """Waits."""
        free.wait(LIMIT_S)
        return "done"

    @tool
    async def save(call: AsyncCallContext) -> str:
        """Stores while the API is away."""
        await anyio.to_thread.run_sync(free.wait)
        await call.save_checkpoint("kept")
        raise ToolFailure("stored")

    async with serving(api, hold, save, add):
        calls = [api.offer("hold"), api.offer("save")]
        await api.until(lambda: all(call.status == "running" for call in calls))
        api.away()
        free.set()
        await anyio.sleep(1.5)
        api.back()
        assert (await api.ended(calls[0])).output == "done"
        assert ((await api.ended(calls[1])).error, calls[1].checkpoint) == ("stored", "kept")
        assert (await api.ended(api.offer("add", a=1, b=1))).output == 2
        assert api.count("registrations") == 1
    assert [call.attempt for call in calls] == [1, 1]
    # Not one line an attempt. A request that had arrived before may still get its response: then there are two outages.
    assert caplog.text.count("trying again") == caplog.text.count("the API is back") <= 2
    api.away()
    assert api.violations == []


async def test_requests_are_repeated_until_they_are_confirmed() -> None:
    # After a heartbeat, a result whose response was lost is known to be recorded, and not sent again.
    api = ProtocolServer(heartbeat_s=20)

    @tool
    async def fail(call: AsyncCallContext) -> None:
        """Stores, and fails."""
        await call.save_checkpoint(7)
        raise ToolFailure("no")

    # 0: it is carried out, and its response is lost.
    api.faults = {
        "progress": deque([503, 0]),
        "completion": deque([0, 503, 429, 0]),
        "failure": deque([500, 0, 0]),
    }
    async with serving(api, add, fail):
        done, failed = api.offer("add", a=1, b=2), api.offer("fail")
        assert (await api.ended(done)).output == 3
        assert ((await api.ended(failed)).error, failed.checkpoint) == ("no", 7)
        await api.until(lambda: not any(api.faults.values()))
        await api.until(lambda: (api.count("completion"), api.count("failure")) == (5, 4))
    assert (done.attempt, failed.attempt) == (1, 1)
    api.away()
    assert api.violations == []


async def test_a_worker_lives_through_responses_that_are_lost(api: ProtocolServer) -> None:
    api.faults = {"registrations": deque([503, 502, 0]), "heartbeats": deque([500, 429, 0]), "claims": deque([503, 429])}
    async with serving(api, add):
        assert (await api.ended(api.offer("add", a=1, b=2))).output == 3
        await api.until(lambda: not any(api.faults.values()))
        assert (await api.ended(api.offer("add", a=1, b=3))).output == 4
    assert api.count("registrations") == 4


async def test_a_worker_that_the_api_has_forgotten_registers_again(api: ProtocolServer) -> None:
    async with serving(api, add):
        await api.until(lambda: api.count("claims"))
        for times in range(2, 4):
            api.forget_workers()
            assert (await api.ended(api.offer("add", a=times, b=0))).output == times
            assert api.count("registrations") == times


def program(api: ProtocolServer, drain_timeout_s: float = 60) -> AbstractContextManager[subprocess.Popen[bytes]]:
    """A worker in another process."""
    return worker_process(api.url, KEY, drain_timeout_s)


async def exit_code(process: subprocess.Popen[bytes]) -> int:
    """Waits for the end of a process."""
    return await anyio.to_thread.run_sync(process.wait, LIMIT_S)


async def test_after_sigterm_calls_end_and_no_others_begin(api: ProtocolServer, tmp_path: Path) -> None:
    with program(api) as process:
        call = api.offer("hold", folder=str(tmp_path))
        await api.until((tmp_path / "begun-1").exists)
        process.send_signal(signal.SIGTERM)
        await api.until(lambda: any(body["draining"] for kind, body in api.requests if kind == "heartbeats"))
        later = api.offer("echo", text="late")
        (tmp_path / "end").touch()
        assert (await api.ended(call)).output == f"process {process.pid}"
        assert await exit_code(process) == 0
    assert (later.status, api.workers, api.requests[-1][0]) == ("waiting", {}, "DELETE registrations")


async def test_a_second_signal_ends_the_process_at_once(api: ProtocolServer, tmp_path: Path) -> None:
    api.lease_s = LEASE_S
    with program(api) as process:
        call = api.offer("hold", folder=str(tmp_path))
        await api.until((tmp_path / "begun-1").exists)
        process.send_signal(signal.SIGINT)
        await api.until(lambda: any(body["draining"] for kind, body in api.requests if kind == "heartbeats"))
        process.send_signal(signal.SIGINT)
        assert await exit_code(process) == -signal.SIGINT
        assert (await api.ended(call)).status == "outcome_unknown"


async def test_calls_that_do_not_end_in_time_are_left(api: ProtocolServer, tmp_path: Path) -> None:
    with program(api, drain_timeout_s=0.5) as process:
        call = api.offer("hold", folder=str(tmp_path))
        await api.until((tmp_path / "begun-1").exists)
        process.send_signal(signal.SIGTERM)
        # A thread that runs for ever does not keep it.
        assert await exit_code(process) == 0
    assert (call.status, api.workers) == ("outcome_unknown", {})


async def test_a_call_of_a_killed_worker_is_unknown_unless_it_may_be_repeated(api: ProtocolServer, tmp_path: Path) -> None:
    folders = [tmp_path / "once", tmp_path / "twice"]
    for folder in folders:
        folder.mkdir()
    api.lease_s = LEASE_S
    with program(api) as first:
        once, twice = api.offer("hold", folder=str(folders[0])), api.offer("hold_idempotent", folder=str(folders[1]))
        await api.until(lambda: all((folder / "begun-1").exists() for folder in folders))
        first.kill()
        with program(api) as second:
            assert (await api.ended(once)).status == "outcome_unknown"
            await api.until((folders[1] / "begun-2").exists)
            (folders[1] / "end").touch()
            assert ((await api.ended(twice)).output, twice.attempt) == (f"process {second.pid}", 2)
    assert not (folders[0] / "begun-2").exists()


async def test_a_process_that_was_paused_for_longer_than_its_lease_drops_its_results(api: ProtocolServer, tmp_path: Path) -> None:
    api.lease_s = LEASE_S
    with program(api) as process:
        call = api.offer("hold", folder=str(tmp_path))
        await api.until((tmp_path / "begun-1").exists)
        process.send_signal(signal.SIGSTOP)
        assert (await api.ended(call)).status == "outcome_unknown"
        # Its last claim has kept the registration.
        await api.until(lambda: not api.workers)
        (tmp_path / "end").touch()
        process.send_signal(signal.SIGCONT)
        assert (await api.ended(api.offer("echo", text="again"))).output == "again"
    assert (call.status, call.output) == ("outcome_unknown", None)
    assert api.count("registrations") == 2


async def test_a_call_that_arrives_after_its_lease_does_not_begin(api: ProtocolServer, tmp_path: Path) -> None:
    api.lease_s = LEASE_S
    with program(api) as process:
        await api.until(lambda: api.count("claims"))
        process.send_signal(signal.SIGSTOP)
        # Handed out to a process that does not read it.
        call = api.offer("hold", folder=str(tmp_path))
        assert (await api.ended(call)).status == "outcome_unknown"
        process.send_signal(signal.SIGCONT)
        assert (await api.ended(api.offer("echo", text="again"))).output == "again"
        await api.until(lambda: call.lost == {1})
    assert not (tmp_path / "begun-1").exists()


async def test_a_pause_that_is_shorter_than_the_lease_changes_nothing(tmp_path: Path) -> None:
    api = ProtocolServer()
    with program(api) as process:
        call = api.offer("hold", folder=str(tmp_path))
        await api.until((tmp_path / "begun-1").exists)
        process.send_signal(signal.SIGSTOP)
        began = time.monotonic()
        (tmp_path / "end").touch()
        await api.until(lambda: time.monotonic() > began + 1)
        process.send_signal(signal.SIGCONT)
        assert (await api.ended(call)).attempt == 1
        assert call.output == f"process {process.pid}"
    api.away()
    assert api.violations == []
