"""OpenAI's client for Python, told by a test what to call: `python driver.py '{"url", "key", "call", "args"}'` prints one line of JSON, the
result or the error. Streams are read to their end."""

import json
import sys
import time

import httpx
import openai

task = json.loads(sys.argv[1])
client = openai.OpenAI(api_key=task["key"], base_url=task["url"] + "/v1", max_retries=0)


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
    stream = lambda: client.responses.create(background=True, stream=True, **task["body"])  # noqa: E731
    response_id, last, final, text, breaks = None, None, None, "", 0
    while final is None:
        try:
            for event in stream():
                last = event.sequence_number
                response_id = response_id or getattr(event, "response", None) and event.response.id
                if event.type == "response.output_text.delta":
                    text += event.delta
                elif event.type == "response.completed":
                    final = plain(event.response)
        except (openai.APIConnectionError, httpx.TransportError):
            if response_id is None:
                raise
        if final is None:
            breaks += 1
            time.sleep(0.1)
            stream = lambda: client.responses.retrieve(response_id, stream=True, starting_after=last)  # noqa: E731
    return {"final": final, "text": text, "breaks": breaks}


try:
    result = {"call": call, "gather": gather, "gatherChat": gather_chat, "resumes": resumes}[task.get("task", "call")]()
    print(json.dumps({"result": result}))
except openai.APIError as error:
    told = {"name": type(error).__name__, "message": error.message}
    for field in ("status_code", "code", "type", "param"):
        told[field.removesuffix("_code")] = getattr(error, field, None)
    print(json.dumps({"error": told}))
