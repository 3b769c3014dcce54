"""An API for workers, on a real socket: docs/reference/worker-protocol.md, read strictly. What a worker may not do is in `violations`.

The numbers are smaller than those of a real server, so that no test waits for long.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from uuid import uuid4

from protocol_agents import AgentRules
from protocol_records import TOOL_FIELDS, Offered, ProblemError, Registered

KEY = "rejoin_worker_key"
WAIT_LIMIT_S = 60.0
ATTEMPTS_MAX = 5
# How long a request may be on its way.
IN_FLIGHT_S = 0.5


class ProtocolServer(AgentRules):
    """The workers and calls of one workspace."""

    def __init__(self, lease_s: float = 60.0, heartbeat_s: float = 0.2, claim_wait_max_s: int = 1) -> None:
        self.lease_s = lease_s
        self.heartbeat_s = heartbeat_s
        self.claim_wait_max_s = claim_wait_max_s
        self.records_max = 0
        """Maximum number of records of a request. 0: it takes none with others, as an older server."""
        self.retry_s = 0.05
        self.allowed = True
        self.workers: dict[str, Registered] = {}
        self.agents: list[dict[str, Any]] = []
        self.calls: dict[str, Offered] = {}
        self.requests: list[tuple[str, Any]] = []
        """What was requested: the kind, such as `claims`, and the body."""
        self.violations: list[str] = []
        self.faults: dict[str, deque[int]] = {}
        """Statuses of the next responses, by kind of the request. 0: the request is carried out, and the connection is cut."""
        self.changed = threading.Condition()
        self._epoch = 0
        self._connections: list[Any] = []
        self._port = 0
        self._http: ThreadingHTTPServer | None = None
        self.back()

    # What a test does.

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self._port}"

    def offer(self, tool: str, version: str = "1", timeout_s: int = 60, **arguments: Any) -> Offered:
        """An agent calls a tool."""
        with self.changed:
            call = Offered(str(uuid4()), tool, version, arguments, timeout_s)
            self.calls[call.id] = call
            self.changed.notify_all()
            return call

    def cancel(self, call: Offered) -> None:
        """The run of a call is cancelled."""
        with self.changed:
            call.cancelled = True

    def take(self, call: Offered) -> None:
        """Gives a call to another worker, as if its lease had expired."""
        with self.changed:
            call.attempt += 1
            call.worker_id = "another"
            call.lease_until = float("inf")

    def forget_workers(self) -> None:
        """Loses all registrations."""
        with self.changed:
            self.workers.clear()
            self.changed.notify_all()

    def away(self) -> None:
        """Ends: connections are cut and refused."""
        with self.changed:
            self._epoch += 1
            self.changed.notify_all()
        assert self._http is not None
        self._http.shutdown()
        self._http.server_close()
        while self._connections:
            with contextlib.suppress(OSError):
                self._connections.pop().shutdown(socket.SHUT_RDWR)

    def back(self) -> None:
        """Begins, at the same address."""
        server = self

        class Handler(_Handler):
            api = server

        self._http = ThreadingHTTPServer(("127.0.0.1", self._port), Handler)
        self._http.daemon_threads = True
        self._port = int(self._http.server_address[1])
        threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True).start()

    def count(self, kind: str) -> int:
        """How often something was requested."""
        return sum(one == kind for one, _ in self.requests)

    def named_as_ended(self) -> int:
        """How many calls a heartbeat has named as lost after their attempt had ended them."""
        return sum(call.recorded is not None and call.recorded[0] in call.lost for call in self.calls.values())

    async def until(self, condition: Callable[[], Any]) -> None:
        """Waits for a condition."""
        deadline = time.monotonic() + WAIT_LIMIT_S
        while not condition():
            assert time.monotonic() < deadline, f"never true; {self.calls}; {self.violations}"
            await asyncio.sleep(0.01)
            with self.changed:
                self._sweep()

    async def ended(self, call: Offered) -> Offered:
        """Waits for the end of a call."""
        await self.until(lambda: call.status not in ("waiting", "running", "suspended"))
        return call

    async def suspended(self, call: Offered) -> list[dict[str, Any]]:
        """Waits until a call was handed back. Returns what it waits for."""
        await self.until(lambda: call.waits)
        return [one["wait"] for one in call.waits]

    # What a worker does.

    def respond(self, method: str, path: str, body: Any, authorization: str | None) -> tuple[int, Any]:
        """Returns the status and the JSON of a response."""
        path, _, query = path.partition("?")
        match = re.fullmatch(r"/api/workers/([A-Za-z0-9_.-]{1,64})/(registrations|claims|heartbeats|records|calls)((?:/[^/]+)*)", path)
        if not match:
            raise self.violation(404, "not_found", f"{method} {path}")
        if authorization != f"Bearer {KEY}":
            raise ProblemError(401, "unauthenticated")
        if not self.allowed:
            raise ProblemError(403, "forbidden")
        queue, kind, rest = match[1], match[2], match[3].split("/")[1:]
        with self.changed:
            self._sweep()
            if (method, kind, len(rest)) == ("DELETE", "registrations", 1):
                self._leave(rest[0])
                return 204, None
            if (method, kind, rest[1:]) == ("GET", "calls", ["steps"]):
                return 200, {"items": self.steps(rest[0], query)}
            if method != "POST" or len(rest) != (2 if kind == "calls" else 0):
                raise self.violation(404, "not_found", f"{method} {path}")
            if kind == "registrations":
                return 201, self._register(queue, body)
            if kind == "claims":
                return 200, self._claim(queue, body)
            if kind == "heartbeats":
                return 200, self._heartbeat(queue, body)
            if kind == "records":
                return 200, {"records": self._records(body)}
            return 200, {"status": self._about(rest[0], rest[1], body)}

    def _register(self, queue: str, body: Any) -> Any:
        self.fields(body, name=str, version=str, language=str, slots=int, tools=list, agents_=list)
        self.check_agents(body.get("agents", []), {tool["name"] for tool in body["tools"]})
        self.agents += body.get("agents", [])
        for tool in body["tools"]:
            self.fields(tool, **TOOL_FIELDS)
            named = re.fullmatch(r"[A-Za-z0-9_-]{1,64} [A-Za-z0-9_.-]{1,32}", f"{tool['name']} {tool['version']}")
            ranged = 1 <= tool["timeoutS"] <= 86_400 and tool["whenAbsent"] in ("wait", "hide") and tool["description"]
            if not named or not ranged or tool["inputSchema"].get("type") != "object":
                raise self.violation(400, "bad_request", f"tool {tool}")
        tools = {(tool["name"], tool["version"]): tool for tool in body["tools"]}
        for other in self.workers.values():
            if any(tools[key] != tool for key, tool in other.tools.items() if key in tools):
                raise ProblemError(409, "tool_conflict")
        worker = Registered(str(uuid4()), queue, body["slots"], tools, time.monotonic() + self.lease_s)
        self.workers[worker.id] = worker
        times = {"leaseS": self.lease_s, "heartbeatS": self.heartbeat_s, "claimWaitMaxS": self.claim_wait_max_s}
        return {"workerId": worker.id, "queue": queue, **times, **({"recordsMax": self.records_max} if self.records_max else {})}

    def _worker(self, queue: str, body: Any) -> Registered:
        worker = self.workers.get(body["workerId"])
        if worker is None or worker.queue != queue:
            raise ProblemError(404, "worker_unknown")
        return worker

    def _claim(self, queue: str, body: Any) -> Any:
        self.fields(body, workerId=str, max=int, waitS=int)
        has = sum(
            call.worker_id == body["workerId"] and call.status == "running" and call.delivered and not call.cancelled
            for call in self.calls.values()
        )
        worker = self._worker(queue, body)
        if body["max"] < 1 or body["waitS"] > self.claim_wait_max_s or has + body["max"] > worker.slots:
            raise self.violation(400, "bad_request", f"claim {body} of a worker with {has} calls")
        # A claim that was sent before may arrive after.
        if worker.draining_since + 0.5 < time.monotonic():
            self.violations.append("a claim of a worker that drains")
        deadline, epoch = time.monotonic() + body["waitS"], self._epoch
        while True:
            now = time.monotonic()
            # A claim that waits renews the registration.
            self._worker(queue, body).alive_until = now + self.lease_s
            waiting = [
                c for c in self.calls.values() if c.status == "waiting" and c.not_before <= now and (c.tool, c.version) in worker.tools
            ]
            if epoch != self._epoch or worker.draining_since <= now:
                waiting = []
            if waiting or now >= deadline:
                return {"calls": [self._hand_out(call, worker) for call in waiting[: body["max"]]]}
            self.changed.wait(min(deadline - now, 0.02))
            self._sweep()

    def _hand_out(self, call: Offered, worker: Registered) -> Any:
        tool = worker.tools[call.tool, call.version]
        call.attempt += 1
        call.status, call.worker_id, call.lease_until = "running", worker.id, time.monotonic() + self.lease_s
        call.repeatable, call.delivered = tool["readOnly"] or tool["idempotent"], True
        return {
            "id": call.id,
            "attempt": call.attempt,
            "tool": call.tool,
            "version": call.version,
            "input": call.input,
            "idempotencyKey": f"key-{call.id}",
            "timeoutS": call.timeout_s,
            "runId": "run",
            "conversationId": None,
            "callId": "call_1",
            "createdAt": "2026-11-26T12:00:00Z",
            "checkpoint": call.checkpoint,
            "steps": len(call.steps),
        }

    def _heartbeat(self, queue: str, body: Any) -> Any:
        self.fields(body, workerId=str, calls=list, draining=bool)
        worker = self._worker(queue, body)
        worker.alive_until = time.monotonic() + self.lease_s
        if body["draining"]:
            worker.draining_since = min(worker.draining_since, time.monotonic())
        answer: dict[str, list[str]] = {"held": [], "cancelled": [], "lost": []}
        for one in body["calls"]:
            self.fields(one, id=str, attempt=int)
            call = self.calls[one["id"]]
            if (call.status, call.worker_id, call.attempt) != ("running", worker.id, one["attempt"]):
                call.lost.add(one["attempt"])
                call.lost_at.setdefault(one["attempt"], time.monotonic())
                answer["lost"].append(call.id)
                continue
            call.lease_until = worker.alive_until
            answer["cancelled" if call.cancelled else "held"].append(call.id)
        return answer

    def _records(self, body: Any) -> list[Any]:
        self.fields(body, workerId=str, records=list)
        if not 1 <= len(body["records"]) <= self.records_max:
            raise self.violation(400, "invalid_records", f"{len(body['records'])} records")
        return [self._record(body["workerId"], record) for record in body["records"]]

    def _record(self, worker_id: str, record: Any) -> Any:
        self.fields(record, callId=str, attempt=int, step_=dict, output_=object)
        if ("step" in record) == ("output" in record):
            raise self.violation(400, "invalid_record", f"record {record}")
        kind, fields = ("steps", record["step"]) if "step" in record else ("completion", {"output": record["output"]})
        body = {"workerId": worker_id, "attempt": record["attempt"], **fields}
        self.requests.append((kind, body))
        try:
            return {"status": self._about(record["callId"], kind, body)}
        except ProblemError as problem:
            return {"problem": {"status": problem.status, "code": problem.code, "title": problem.code}}

    def _about(self, id_: str, kind: str, body: Any) -> str:
        """A completion, failure or progress."""
        call = self.calls.get(id_)
        if call is None:
            raise self.violation(404, "call_not_found", f"{kind} of {id_}")
        kinds: dict[str, dict[str, Any]] = {
            "completion": {"output": object},
            "failure": {"error": str, "retry": bool},
            "progress": {"message_": str, "checkpoint_": object},
            "steps": {"number": int, "name": str, "status": str, "output_": object, "error_": str},
            "suspension": {"steps": list},
            "text": {"step": int, "piece": int, "text_": str, "event_": dict},
        }
        self.fields(body, workerId=str, attempt=int, **kinds[kind])
        if call.recorded == (body["attempt"], kind, body):
            return call.status
        if (call.status, call.worker_id, call.attempt) != ("running", body["workerId"], body["attempt"]):
            # What was sent before the response may arrive after it.
            if call.lost_at.get(body["attempt"], float("inf")) + IN_FLIGHT_S < time.monotonic() and not call.recorded:
                self.violations.append(f"{kind} of an attempt that was lost")
            raise ProblemError(409, "stale_attempt")
        if kind == "progress":
            call.messages += [body["message"]] if "message" in body else []
            call.checkpoint = body.get("checkpoint", call.checkpoint)
            return "running"
        if kind == "text":
            return self.write(call, body, any(agent.get("tool") == call.tool for agent in self.agents))
        if kind == "steps":
            return self.record_step(call, body)
        if call.writing is not None:
            self.settle(call, body["attempt"], None, completed=False)
        call.recorded = (body["attempt"], kind, body)
        if kind == "suspension":
            return self.suspend(call, body["steps"])
        if kind == "completion":
            if call.cancelled:
                self.violations.append("a completion of a call that was cancelled")
            call.status, call.output = "completed", body["output"]
        elif body["retry"] and call.attempt - call.suspensions < ATTEMPTS_MAX:
            call.status, call.not_before = "waiting", time.monotonic() + self.retry_s
        else:
            call.status, call.error = "error", body["error"]
        self.changed.notify_all()
        return call.status

    def _leave(self, worker_id: str) -> None:
        if self.workers.pop(worker_id, None) is None:
            raise ProblemError(404, "worker_unknown")
        self._lose([call for call in self.calls.values() if call.worker_id == worker_id])
        self.changed.notify_all()

    def _sweep(self) -> None:
        now = time.monotonic()
        for worker in [one for one in self.workers.values() if one.alive_until < now]:
            del self.workers[worker.id]
        self._lose([call for call in self.calls.values() if call.lease_until < now])

    def _lose(self, calls: list[Offered]) -> None:
        for call in calls:
            if call.status == "running":
                again = (call.repeatable or call.checkpoint is not None or call.steps) and call.attempt - call.suspensions < ATTEMPTS_MAX
                call.status = "waiting" if again else "outcome_unknown"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    api: ProtocolServer

    def setup(self) -> None:
        super().setup()
        self.api._connections.append(self.connection)

    def handle(self) -> None:
        # A program that was killed, or has left.
        with contextlib.suppress(OSError):
            super().handle()

    def do_POST(self) -> None:
        length = int(self.headers.get("content-length", "0"))
        raw = self.rfile.read(length)
        if len(raw) < length:
            return
        body = json.loads(raw) if raw else None
        kind = self.path.partition("?")[0].split("/")[-2 if self.command == "DELETE" else -1]
        self.api.requests.append((f"{self.command} {kind}" if self.command != "POST" else kind, body))
        faults = self.api.faults.get(kind)
        fault = faults.popleft() if faults else None
        try:
            if fault:
                raise ProblemError(fault, "fault")
            status, answer = self.api.respond(self.command, self.path, body, self.headers.get("authorization"))
        except ProblemError as problem:
            status, answer = problem.status, {"status": problem.status, "code": problem.code, "title": problem.code}
        if fault == 0:
            for call in (answer or {}).get("calls", []):
                self.api.calls[call["id"]].delivered = False
            self.close_connection = True
            return
        content = b"" if status == 204 else json.dumps(answer).encode()
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.send_response(status)
            self.send_header("content-type", "application/json" if status < 400 else "application/problem+json")
            if status != 204:
                self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)
            self.close_connection = False

    do_DELETE = do_GET = do_POST  # noqa: N815

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Writes nothing."""
