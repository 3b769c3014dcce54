"""OpenAI's client for Python, told by a test what to call: `python driver.py '{"url", "key", "call", "args"}'` prints one line of JSON, the
result or the error. Streams are read to their end. `times` and `cutSeed` are those of driver.mjs."""

import json
import random
import sys
import time
import uuid

import httpx2
import openai

task = json.loads(sys.argv[1])


class Cut(httpx2.SyncByteStream):
    """Ends a stream after a number of bytes."""

    def __init__(self, stream, left):
        self.stream, self.left = stream, left

    def __iter__(self):
        for chunk in self.stream:
            yield chunk[: self.left]
            self.left -= len(chunk)
            if self.left <= 0:
                return

    def close(self):
        self.stream.close()


class Cutting(httpx2.HTTPTransport):
    """Cuts streams at random places, those of an answer later each time, so that it ends."""

    chance = random.Random(task.get("cutSeed"))
    connections = 0

    def handle_request(self, request):
        response = super().handle_request(request)
        if response.headers.get("content-type", "").startswith("text/event-stream"):
            self.connections += 1
            response.stream = Cut(response.stream, 1 + self.chance.randrange(1500 * self.connections))
        return response


transport = Cutting() if "cutSeed" in task else None
client = openai.OpenAI(
    api_key=task["key"],
    base_url=task["url"] + "/v1",
    max_retries=0,
    http_client=transport and httpx2.Client(transport=transport, timeout=60),
)
BROKEN = (openai.APIConnectionError, httpx2.TransportError)


def plain(value):
    return value.model_dump(mode="json") if hasattr(value, "model_dump") else value


def call():
    method = client
    for name in task["call"].split("."):
        method = getattr(method, name)
    result = method(**task["args"])
    if isinstance(result, openai.Stream) or hasattr(result, "has_next_page"):
        return {"items": [plain(item) for item in result]}
    return plain(result)


def gather():
    text = ""
    with client.responses.stream(**task["args"]) as stream:
        for event in stream:
            if event.type == "response.output_text.delta":
                text += event.delta
        return {"final": plain(stream.get_final_response()), "text": text}


def gather_chat():
    text = ""
    with client.chat.completions.stream(**task["args"]) as stream:
        for event in stream:
            if event.type == "content.delta":
                text += event.delta
        return {"final": plain(stream.get_final_completion()), "text": text}


def resumes():
    """Streams a background response; when the connection breaks, reads on after the last event."""
    response_id, last, final, text, breaks = None, None, None, "", 0
    headers = {"Idempotency-Key": str(uuid.uuid4())}
    while True:
        try:
            if response_id is None:
                events = client.responses.create(background=True, stream=True, extra_headers=headers, **task["body"])
            else:
                events = client.responses.retrieve(response_id, stream=True, starting_after=last)
            for event in events:
                last = event.sequence_number
                response_id = response_id or getattr(event, "response", None) and event.response.id
                if event.type == "response.output_text.delta":
                    text += event.delta
                elif event.type == "response.completed":
                    final = plain(event.response)
        except BROKEN:
            pass
        if final is not None:
            return {"final": final, "text": text, "breaks": breaks}
        breaks += 1
        time.sleep(0.1)


def repeats():
    """Streams a completion; when the connection breaks, sends the same request with its key, and reads it from its beginning."""
    headers, breaks = {"Idempotency-Key": str(uuid.uuid4())}, 0
    while True:
        text = ""
        try:
            for chunk in client.chat.completions.create(stream=True, extra_headers=headers, **task["body"]):
                choice = chunk.choices[0] if chunk.choices else None
                text += choice and choice.delta.content or ""
                if choice and choice.finish_reason:
                    return {"text": text, "finish": choice.finish_reason, "breaks": breaks}
        except BROKEN:
            pass
        breaks += 1
        time.sleep(0.1)


def cuts():
    """Reads a response's stream again after each of its events; `wrong` are the cuts after which something else came."""
    read = lambda **more: [plain(event) for event in client.responses.retrieve(task["id"], stream=True, **more)]  # noqa: E731
    events = read()
    wrong = [
        event["sequence_number"]
        for at, event in enumerate(events)
        if read(starting_after=event["sequence_number"]) != events[at + 1 :]
    ]
    return {"events": events, "wrong": wrong, "whole": plain(client.responses.retrieve(task["id"]))}


tasks = {
    "call": call, "gather": gather, "gatherChat": gather_chat, "resumes": resumes, "repeats": repeats, "cuts": cuts,
}
try:
    results = []
    for _ in range(task.get("times", 1)):
        if transport:
            transport.connections = 0
        results.append(tasks[task.get("task", "call")]())
    print(json.dumps({"result": results if "times" in task else results[0]}))
except openai.APIError as error:
    told = {"name": type(error).__name__, "message": error.message}
    for field in ("status_code", "code", "type", "param"):
        told[field.removesuffix("_code")] = getattr(error, field, None)
    print(json.dumps({"error": told}))
