"""A server of answers in sixty lines: POST /turns streams an answer, GET /turns/ID reads it again. It keeps everything in memory.

MODEL_URL is the base URL of an OpenAI-compatible model. Argument: the port.
"""

import json
import os
import sys
import threading
import urllib.request
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TURNS = {}


class Turn:
    def __init__(self):
        self.events, self.changed = [], threading.Condition()

    def add(self, **event):
        with self.changed:
            self.events.append(event)
            self.changed.notify_all()

    def event(self, number):
        with self.changed:
            self.changed.wait_for(lambda: len(self.events) > number)
            return self.events[number]

    def run(self, message):
        body = {"model": "scripted", "stream": True, "messages": [{"role": "user", "content": message}]}
        request = urllib.request.Request(os.environ["MODEL_URL"] + "/chat/completions", json.dumps(body).encode())
        request.add_header("content-type", "application/json")
        try:
            for line in urllib.request.urlopen(request):
                choices = json.loads(line[6:])["choices"] if line.startswith(b"data: {") else []
                if choices and choices[0]["delta"].get("content"):
                    self.add(type="text", text=choices[0]["delta"]["content"])
            self.add(type="end")
        except OSError as error:
            self.add(type="error", error=str(error))


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))["message"]
        name, turn = str(uuid.uuid4()), Turn()
        TURNS[name] = turn
        threading.Thread(target=turn.run, args=(message,), daemon=True).start()
        self.stream(name, turn, 0)

    def do_GET(self):
        name, after = self.path.rsplit("/", 1)[-1], self.headers.get("last-event-id", "0")
        turn = TURNS.get(name)
        if name == "ready":
            self.send_response(204), self.end_headers()
        elif turn is None or not after.isdigit() or int(after) > len(turn.events):
            self.send_error(404 if turn is None else 400)
        else:
            self.stream(name, turn, int(after))

    def stream(self, name, turn, number):
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("x-turn", name)
        self.end_headers()
        event = {"type": ""}
        while event["type"] not in ("end", "error"):
            event, number = turn.event(number), number + 1
            self.wfile.write(f"id: {number}\ndata: {json.dumps(event, ensure_ascii=False)}\n\n".encode())

    def log_message(self, *_):
        pass


ThreadingHTTPServer.request_queue_size = 128
ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
