"""A language model for tests of adapters: it speaks OpenAI's Responses protocol on this machine, and answers what a test has scripted."""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from collections.abc import Generator, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeAlias

from scripted_model import GATE_LIMIT_S, Reply

Event: TypeAlias = dict[str, Any]


class ResponsesModel:
    """Serves replies, by a marker in the last message of the user."""

    def __init__(self) -> None:
        self._replies: dict[str, deque[Reply]] = {}
        self._requests: dict[str, list[dict[str, Any]]] = {}
        self._lock = threading.Lock()
        model = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                request = json.loads(self.rfile.read(int(self.headers["content-length"])))
                self.close_connection = True
                if not self.path.endswith("/responses"):
                    self.send_error(404)
                    return
                self.send_response(200)
                self.send_header("content-type", "text/event-stream")
                self.send_header("connection", "close")
                self.end_headers()
                try:
                    for number, event in enumerate(events(request, model.reply_to(request))):
                        data = json.dumps({**event, "sequence_number": number})
                        self.wfile.write(f"event: {event['type']}\ndata: {data}\n\n".encode())
                        self.wfile.flush()
                except OSError:
                    # The program was killed.
                    pass

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                """Writes nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        """The value of OPENAI_BASE_URL."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def script(self, marker: str, *replies: Reply) -> None:
        """Sets the replies to requests whose last message of the user contains the marker, in their order."""
        self._replies[marker] = deque(replies)

    def reply_to(self, request: dict[str, Any]) -> Reply:
        """Returns the reply to a request."""
        assert request["stream"] is True
        asked = [json.dumps(one["content"]) for one in request["input"] if one.get("role") == "user"]
        with self._lock:
            for marker, replies in self._replies.items():
                if replies and asked and marker in asked[-1]:
                    self._requests.setdefault(marker, []).append(request)
                    return replies.popleft()
        return Reply("Nothing was scripted for this.")

    def requests(self, marker: str) -> list[str]:
        """Returns the input of the requests that were replied to, as JSON."""
        return [json.dumps(one["input"]) for one in self._requests.get(marker, [])]

    def stop(self) -> None:
        """Ends the server."""
        self._server.shutdown()
        self._server.server_close()


def events(request: dict[str, Any], reply: Reply) -> Iterator[Event]:
    """The events of a response."""
    response: dict[str, Any] = {
        "id": f"resp_{time.monotonic_ns()}",
        "object": "response",
        "created_at": 0,
        "model": request["model"],
        "status": "in_progress",
        "output": [],
        "parallel_tool_calls": False,
        "tool_choice": "auto",
        "tools": [],
    }
    yield {"type": "response.created", "response": response}
    output: list[dict[str, Any]] = []
    if reply.text:
        output.append((yield from message(reply, f"msg_{time.monotonic_ns()}")))
    for tool, arguments in reply.tools:
        output.append((yield from function_call(tool, json.dumps(arguments), len(output))))
    usage = {
        "input_tokens": 10,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": 10,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 20,
    }
    yield {"type": "response.completed", "response": {**response, "status": "completed", "output": output, "usage": usage}}


def message(reply: Reply, item_id: str) -> Generator[Event, None, Event]:
    """The events of a text. Returns the item."""
    item: dict[str, Any] = {"id": item_id, "type": "message", "role": "assistant", "status": "in_progress", "content": []}
    part = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
    place = {"output_index": 0, "content_index": 0, "item_id": item_id}
    yield {"type": "response.output_item.added", "output_index": 0, "item": item}
    yield {"type": "response.content_part.added", **place, "part": part}
    words = reply.text.split(" ")
    for at, word in enumerate(words):
        if reply.gate and at == reply.words_before_gate:
            reply.gate.wait(GATE_LIMIT_S)
        yield {"type": "response.output_text.delta", **place, "delta": word if at == len(words) - 1 else f"{word} ", "logprobs": []}
        time.sleep(reply.pace_s)
    part = {**part, "text": reply.text}
    item = {**item, "status": "completed", "content": [part]}
    yield {"type": "response.output_text.done", **place, "text": reply.text, "logprobs": []}
    yield {"type": "response.content_part.done", **place, "part": part}
    yield {"type": "response.output_item.done", "output_index": 0, "item": item}
    return item


def function_call(tool: str, arguments: str, index: int) -> Generator[Event, None, Event]:
    """The events of a call. Returns the item."""
    unique = time.monotonic_ns()
    item: dict[str, Any] = {
        "id": f"fc_{unique}",
        "type": "function_call",
        "status": "in_progress",
        "call_id": f"call_{unique}",
        "name": tool,
        "arguments": "",
    }
    place = {"output_index": index, "item_id": item["id"]}
    yield {"type": "response.output_item.added", "output_index": index, "item": item}
    yield {"type": "response.function_call_arguments.delta", **place, "delta": arguments}
    yield {"type": "response.function_call_arguments.done", **place, "name": tool, "arguments": arguments}
    item = {**item, "status": "completed", "arguments": arguments}
    yield {"type": "response.output_item.done", "output_index": index, "item": item}
    return item
