"""A language model for tests: it speaks OpenAI's Chat Completions protocol on this machine, and answers what a test has scripted."""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

GATE_LIMIT_S = 90


@dataclass
class Reply:
    """An answer: words, then calls. With a gate, it stops after some words until the gate is opened."""

    text: str = ""
    tools: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    gate: threading.Event | None = None
    words_before_gate: int = 0
    pace_s: float = 0.0
    """Pause after each word, as models make it."""

    def deltas(self) -> Iterator[dict[str, Any]]:
        """The parts of the answer, as they are sent."""
        words = self.text.split(" ")
        for at, word in enumerate(words):
            if self.gate and at == self.words_before_gate:
                self.gate.wait(GATE_LIMIT_S)
            yield {"content": word if at == len(words) - 1 else f"{word} "}
            time.sleep(self.pace_s)
        for index, (name, arguments) in enumerate(self.tools):
            function = {"name": name, "arguments": json.dumps(arguments)}
            yield {"tool_calls": [{"index": index, "id": f"call_{name}_{index}", "type": "function", "function": function}]}


class ScriptedModel:
    """Serves replies, by a marker in the last message of the user."""

    def __init__(self) -> None:
        self._replies: dict[str, deque[Reply]] = {}
        self._requests: dict[str, list[dict[str, Any]]] = {}
        model = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                request = json.loads(self.rfile.read(int(self.headers["content-length"])))
                try:
                    self._answer(request, model.reply_to(request))
                except OSError:
                    # The worker was killed.
                    self.close_connection = True

            def _answer(self, request: dict[str, Any], reply: Reply) -> None:
                self.send_response(200)
                self.send_header("content-type", "text/event-stream")
                self.send_header("connection", "close")
                self.end_headers()
                for delta in reply.deltas():
                    self._chunk(request, [{"index": 0, "delta": delta, "finish_reason": None}])
                self._chunk(request, [{"index": 0, "delta": {}, "finish_reason": "tool_calls" if reply.tools else "stop"}])
                self._chunk(request, [], usage={"prompt_tokens": 10, "completion_tokens": 10, "total_tokens": 20})
                self.wfile.write(b"data: [DONE]\n\n")
                self.close_connection = True

            def _chunk(self, request: dict[str, Any], choices: list[dict[str, Any]], **more: Any) -> None:
                chunk = {"id": "c", "object": "chat.completion.chunk", "created": 0, "model": request["model"], "choices": choices, **more}
                self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())
                self.wfile.flush()

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
        asked = [json.dumps(message["content"]) for message in request["messages"] if message["role"] == "user"]
        for marker, replies in self._replies.items():
            if replies and asked and marker in asked[-1]:
                self._requests.setdefault(marker, []).append(request)
                return replies.popleft()
        return Reply("Nothing was scripted for this.")

    def prompts(self, marker: str) -> list[str]:
        """Returns the system prompts of the requests that were replied to."""
        return [str(one["content"]) for request in self._requests[marker] for one in request["messages"] if one["role"] == "system"]

    def learned(self, marker: str) -> str:
        """Returns the outcome of the last call, as the last request that was replied to has it."""
        return str([one["content"] for one in self._requests[marker][-1]["messages"] if one["role"] == "tool"][-1])

    def stop(self) -> None:
        """Ends the server."""
        self._server.shutdown()
        self._server.server_close()
