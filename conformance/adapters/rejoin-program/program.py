"""A user's program that executes the turns of an agent, and a tool, by the worker protocol alone: docs/reference/worker-protocol.md.

    program.py serve    until SIGTERM, which hands back the turns that it has
    program.py ready    whether a program serves

In the environment: REJOIN_URL, REJOIN_API_KEY, MODEL_URL, EFFECT_URL. A turn is a durable function: each answer of the model, which is written while it
comes, and each call of the tool is a step. Before it acts, it asks whether it still has its call; apart from that it does not look at refusals, since
the server has to keep out what an attempt sends that has lost its call.
"""

import http.client
import json
import os
import signal
import sys
import threading
import time
import urllib.error
import urllib.request

QUEUE = "/api/workers/default"
SLOTS = 200
# A claim that still waits when the program is paused would be answered.
CLAIM_WAIT_S = 2
RETRY_S = 0.1
PARAMETERS = {"type": "object", "properties": {"call": {"type": "string"}}, "required": ["call"]}
RECORD = {"name": "record", "description": "Records an effect that can't be undone.", "inputSchema": PARAMETERS, "timeoutS": 600}
MESSAGE = {"type": "object", "properties": {"message": {"type": "string"}}, "required": ["message"]}
TURN = {"name": "turn", "description": "Answers.", "inputSchema": MESSAGE, "idempotent": True, "timeoutS": 600}
OFFERED = [{"type": "function", "function": {"name": "record", "description": RECORD["description"], "parameters": PARAMETERS}}]


def ask(url, body=None, method=None, **headers):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"content-type": "application/json", **headers}, method=method)
    return urllib.request.urlopen(request, timeout=600)


def send(path, body=None, method=None):
    """The response, as often as it takes. None: it was refused."""
    while True:
        try:
            with ask(os.environ["REJOIN_URL"] + path, body, method, authorization="Bearer " + os.environ["REJOIN_API_KEY"]) as response:
                return json.loads(response.read() or "{}")
        except urllib.error.HTTPError as error:
            if error.code < 500 and error.code != 429:
                return None
        except (OSError, http.client.HTTPException, ValueError):
            # No response, or a half one.
            pass
        time.sleep(RETRY_S)


def act(call):
    with ask(os.environ["EFFECT_URL"], {"call": call}) as response:
        return json.load(response)


class Call:
    def __init__(self, worker, call):
        self.worker, self.id, self.attempt, self.tool, self.input = worker, call["id"], call["attempt"], call["tool"], call["input"]
        self.steps = {}
        if call["steps"]:
            found = send(f"{QUEUE}/calls/{self.id}/steps") or {"items": []}
            self.steps = {step["number"]: step for step in found["items"]}

    def tell(self, what, **fields):
        return send(f"{QUEUE}/calls/{self.id}/{what}", {"workerId": self.worker, "attempt": self.attempt, **fields})

    def execute(self):
        try:
            self.tell("completion", output=act(self.input["call"]) if self.tool == "record" else self.turn())
        except PermissionError:
            # It has lost its call.
            pass
        except Exception as error:
            self.tell("failure", error=str(error))

    def turn(self):
        messages = [{"role": "user", "content": self.input["message"]}]
        for number in range(1, 100, 2):
            step = self.steps.get(number)
            message = step["output"] if step else self.answer(number, messages)
            messages.append(message)
            if "tool_calls" not in message:
                break
            call = message["tool_calls"][0]
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": self.result(number + 1, call)})
        # All of it was written.
        return None

    def answer(self, number, messages):
        message, piece = {"role": "assistant", "content": ""}, 0
        body = {"model": "scripted", "stream": True, "messages": messages, "tools": OFFERED}
        with ask(os.environ["MODEL_URL"] + "/chat/completions", body) as response:
            for line in response:
                choices = json.loads(line[6:])["choices"] if line.startswith(b"data: {") else []
                delta = choices[0]["delta"] if choices else {}
                if delta.get("content"):
                    piece += 1
                    message["content"] += delta["content"]
                    self.tell("text", step=number, piece=piece, text=delta["content"])
                for part in delta.get("tool_calls") or []:
                    if part.get("id"):
                        message["tool_calls"] = [{"id": part["id"], "type": "function", "function": {"name": "record", "arguments": ""}}]
                    message["tool_calls"][0]["function"]["arguments"] += part["function"].get("arguments") or ""
        self.tell("steps", number=number, name="model", status="completed", output=message)
        return message

    def result(self, number, call):
        step = self.steps.get(number)
        if step is None:
            if self.tell("steps", number=number, name="record", status="begun") is None:
                raise PermissionError("another attempt has the call")
            result = act(json.loads(call["function"]["arguments"])["call"])
            self.tell("steps", number=number, name="record", status="completed", output=result)
        elif step["status"] == "begun":
            return "The outcome is unknown: the program was lost while it acted."
        else:
            result = step["output"]
        return json.dumps(result)


class Program:
    def __init__(self):
        self.worker, self.calls, self.changing = None, {}, threading.Lock()
        # The first of the project by name: the adapter asks for that one.
        agent = {"name": "answers", "description": "Says what it is asked to say.", "tool": "turn"}
        self.about = {"name": "suite", "language": "python", "slots": SLOTS, "tools": [RECORD, TURN], "agents": [agent]}

    def serve(self):
        while True:
            registered = send(f"{QUEUE}/registrations", self.about)
            if registered is None:
                sys.exit("the registration was refused")
            self.worker = registered["workerId"]
            threading.Thread(target=self.beat, args=(self.worker, registered["heartbeatS"]), daemon=True).start()
            while (claimed := send(f"{QUEUE}/claims", {"workerId": self.worker, "max": SLOTS, "waitS": CLAIM_WAIT_S})) is not None:
                for call in claimed["calls"]:
                    threading.Thread(target=self.execute, args=(self.worker, call), daemon=True).start()

    def execute(self, worker, claimed):
        key = (worker, claimed["id"], claimed["attempt"])
        with self.changing:
            self.calls[key] = claimed["tool"]
        Call(worker, claimed).execute()
        with self.changing:
            del self.calls[key]

    def held(self, worker):
        with self.changing:
            return [(call, attempt, tool) for (of, call, attempt), tool in self.calls.items() if of == worker]

    def beat(self, worker, every_s):
        while True:
            time.sleep(every_s)
            calls = [{"id": call, "attempt": attempt} for call, attempt, _ in self.held(worker)]
            if calls:
                send(f"{QUEUE}/heartbeats", {"workerId": worker, "calls": calls})

    def leave(self):
        # Its turns go on elsewhere; what the tool has begun can't be handed back.
        for call, attempt, tool in self.held(self.worker):
            if tool == "turn":
                body = {"workerId": self.worker, "attempt": attempt, "error": "the program stops", "retry": True}
                send(f"{QUEUE}/calls/{call}/failure", body)
        if self.worker:
            send(f"{QUEUE}/registrations/{self.worker}", method="DELETE")


def ready():
    workers = send("/api/workers") or {"items": []}
    return any(worker["alive"] for worker in workers["items"])


if __name__ == "__main__":
    if sys.argv[1] == "ready":
        sys.exit(not ready())
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    program = Program()
    try:
        program.serve()
    finally:
        program.leave()
