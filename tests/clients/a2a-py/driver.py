"""Drives the unmodified client of A2A, as driver.mjs of a2a-js: the same argument and the same lines."""

import asyncio
import json
import random
import sys

import httpx
from a2a.client import ClientConfig, ClientFactory
from a2a.client.errors import A2AClientError
from a2a.types import a2a_pb2 as types
from a2a.utils.errors import UnsupportedOperationError
from google.protobuf.json_format import MessageToDict, ParseDict

asked = json.loads(sys.argv[1])
last = {"$task": "", "$context": ""}
resumes, cuts_streams = asked.get("resumes", False), "cutSeed" in asked
chance = random.Random(asked.get("cutSeed"))
RESTS = ("COMPLETED", "FAILED", "CANCELED", "INPUT_REQUIRED")
cuts = 0


class Cut(httpx.AsyncByteStream):
    """Ends a stream after a random number of bytes."""

    def __init__(self, stream):
        self.stream, self.left = stream, 1 + chance.randrange(4000)

    async def __aiter__(self):
        global cuts
        async for chunk in self.stream:
            yield chunk[: self.left]
            self.left -= len(chunk)
            if self.left <= 0:
                cuts += 1
                return

    async def aclose(self):
        await self.stream.aclose()


class Cutting(httpx.AsyncHTTPTransport):
    async def handle_async_request(self, request):
        response = await super().handle_async_request(request)
        if cuts_streams and response.headers.get("content-type", "").startswith("text/event-stream"):
            response.stream = Cut(response.stream)
        return response


def say(said):
    print(json.dumps(said), flush=True)


def note(task):
    last["$task"], last["$context"] = task.id, task.context_id


async def read(stream, until=None):
    """Returns whether the task has ended, or waits. `until`: a state of the task after which no more is read."""
    rests = False
    async for response in stream:
        if response.HasField("task"):
            note(response.task)
        event = MessageToDict(response)
        say({"event": event})
        state = ((event.get("task") or event.get("statusUpdate") or {}).get("status") or {}).get("state", "")
        rests = rests or state.endswith(RESTS)
        if until and state == until:
            break
    return rests


async def main():
    headers = {"Authorization": f"Bearer {asked['key']}"}
    async with httpx.AsyncClient(headers=headers, timeout=60, transport=Cutting()) as http:

        async def client(streaming):
            config = ClientConfig(
                streaming=streaming, httpx_client=http, supported_protocol_bindings=[asked["binding"]]
            )
            agent = f"?agent={asked['agent']}" if asked.get("agent") else ""
            path = f"/.well-known/agent-card.json{agent}"
            return await ClientFactory(config).create_from_url(asked["url"], relative_card_path=path)

        streaming, waiting = await client(True), await client(False)

        async def stream(params):
            global cuts
            last["$task"] = ""
            while True:
                rests = False
                try:
                    if last["$task"]:
                        events = streaming.subscribe(types.SubscribeToTaskRequest(id=last["$task"]))
                    else:
                        # The same message again is the same task.
                        events = streaming.send_message(ParseDict(params, types.SendMessageRequest()))
                    rests = await read(events)
                except UnsupportedOperationError:
                    # It has ended meanwhile.
                    if not last["$task"]:
                        raise
                    ended = await waiting.get_task(types.GetTaskRequest(id=last["$task"]))
                    say({"event": {"task": MessageToDict(ended)}})
                    rests = True
                except A2AClientError as error:
                    # The connection broke, or there is no server just now.
                    if not (resumes and "Network communication error" in str(error)):
                        raise
                if rests or not (resumes or cuts_streams):
                    return {"cuts": cuts}
                if resumes:
                    cuts += 1
                    await asyncio.sleep(0.1)

        async def subscribe(params):
            until = params.pop("until", None)
            await read(streaming.subscribe(ParseDict(params, types.SubscribeToTaskRequest())), until)
            return {}

        async def send(params):
            async for response in waiting.send_message(ParseDict(params, types.SendMessageRequest())):
                note(response.task)
                return MessageToDict(response.task)

        async def get(params):
            return MessageToDict(await waiting.get_task(ParseDict(params, types.GetTaskRequest())))

        async def cancel(params):
            return MessageToDict(await waiting.cancel_task(ParseDict(params, types.CancelTaskRequest())))

        async def list_tasks(params):
            return MessageToDict(await waiting.list_tasks(ParseDict(params, types.ListTasksRequest())))

        async def push_create(params):
            config = ParseDict(params, types.TaskPushNotificationConfig())
            return MessageToDict(await waiting.create_task_push_notification_config(config))

        async def push_get(params):
            asked_for = ParseDict(params, types.GetTaskPushNotificationConfigRequest())
            return MessageToDict(await waiting.get_task_push_notification_config(asked_for))

        async def push_list(params):
            asked_for = ParseDict(params, types.ListTaskPushNotificationConfigsRequest())
            return MessageToDict(await waiting.list_task_push_notification_configs(asked_for))

        async def push_delete(params):
            asked_for = ParseDict(params, types.DeleteTaskPushNotificationConfigRequest())
            await waiting.delete_task_push_notification_config(asked_for)
            return {}

        async def card(_):
            return MessageToDict(await waiting.get_extended_agent_card(types.GetExtendedAgentCardRequest()))

        methods = {
            "stream": stream, "subscribe": subscribe, "send": send, "get": get, "cancel": cancel, "list": list_tasks,
            "pushCreate": push_create, "pushGet": push_get, "pushList": push_list, "pushDelete": push_delete, "card": card,
        }
        for call in asked["calls"]:
            filled = json.dumps(call.get("params") or {})
            for name, value in last.items():
                filled = filled.replace(name, json.dumps(value)[1:-1])
            try:
                say({"result": await methods[call["call"]](json.loads(filled))})
            except Exception as error:  # noqa: BLE001: whatever it is, the test looks at it
                say({"error": {"name": type(error).__name__, "message": str(error)}})


asyncio.run(main())
