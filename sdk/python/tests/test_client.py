"""Requests, and what becomes of their responses."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import httpx
import pytest

import rejoin
from rejoin import Client, IdempotencyError, Limits, NotFoundError, RateLimitError, RejoinError, ResponseError, UnreachableError
from rejoin.errors import error_of, retry_after_s
from scripted import KEY, QUICK, ScriptedApi, body_of, problem

ACCEPTED = {"conversationId": "c", "messageId": "m", "runId": "r", "cursor": 4}
UUID = "0192f0c1-0000-7000-8000-000000000000"
CONVERSATION = {"id": "c", "title": "t", "metadata": {}, "createdAt": "2026-01-01T00:00:00Z", "updatedAt": "2026-01-01T00:00:00Z"}
ME = {"userId": "u", "handle": "ann", "projectId": "p", "role": "owner", "scopes": ["read"]}


def accepted(_: httpx.Request) -> httpx.Response:
    return httpx.Response(202, json=ACCEPTED)


def test_a_message_carries_the_same_key_and_body_until_it_is_known_to_be_stored() -> None:
    api = ScriptedApi(
        [httpx.ReadError("cut"), httpx.ReadTimeout("slow"), *(problem(status, "later") for status in (502, 503, 429))], accepted
    )
    turn = api.client().send("hi", conversation_id="c", on_busy="reject", attachments=["f"], extra={"contextType": "project"})
    assert (turn.run_id, turn.conversation_id, turn.message_id, turn.cursor) == ("r", "c", "m", 4)
    assert api.paths == ["POST /api/chat/stream?onBusy=reject"] * 6
    bodies = [body_of(request) for request in api.requests]
    assert bodies == [bodies[0]] * 6
    key = bodies[0].pop("clientTurnId")
    assert (len(key), key) == (32, turn.client_turn_id)
    assert bodies[0] == {"message": "hi", "conversationId": "c", "attachments": [{"fileId": "f"}], "contextType": "project"}


@pytest.mark.anyio
async def test_the_asynchronous_client_retries_as_well() -> None:
    api = ScriptedApi([httpx.ReadError("cut"), problem(503, "later")], accepted)
    async with api.async_client() as client:
        turn = await client.send("hi")
    assert turn.run_id == "r"
    assert len({body_of(request)["clientTurnId"] for request in api.requests}) == 1


def test_an_own_key_is_used() -> None:
    api = ScriptedApi([accepted, problem(422, "idempotency_key_reused")])
    client = api.client()
    assert client.send("hi", client_turn_id="mine").client_turn_id == "mine"
    with pytest.raises(IdempotencyError):
        client.send("other", client_turn_id="mine")
    assert [body_of(request)["clientTurnId"] for request in api.requests] == ["mine", "mine"]


def test_a_message_is_not_sent_again_after_a_permanent_refusal() -> None:
    api = ScriptedApi([problem(400, "message_empty")])
    with pytest.raises(rejoin.BadRequestError):
        api.client().send("hi")
    assert len(api.requests) == 1


def test_a_message_is_given_up_when_the_time_is_used_up() -> None:
    api = ScriptedApi([problem(503, "later", {"retry-after": "20"})])
    with pytest.raises(rejoin.ServerError) as caught:
        api.client(Limits(retry_s=10)).send("hi")
    assert (caught.value.retry_after, len(api.requests)) == (20, 1)
    # A server that never answered is probably not there.
    api = ScriptedApi([httpx.ConnectError("refused")])
    with pytest.raises(UnreachableError, match="rejoin doctor"):
        api.client(Limits(first_contact_s=0)).send("hi")


def test_an_agent_is_found_by_its_name() -> None:
    def agents(*names: str, cursor: str | None = None) -> httpx.Response:
        items = [{"id": f"id of {name}", "name": name, "description": "", "flowType": "single", "isDefault": False} for name in names]
        return httpx.Response(200, json={"items": items, "nextCursor": cursor})

    api = ScriptedApi([httpx.Response(200, json=ME), agents("ada", cursor="n"), agents("bea"), accepted, agents("ada"), accepted])
    client = api.client()
    client.send("hi", agent="bea")
    assert body_of(api.requests[3])["agentDefinitionId"] == "id of bea"
    with pytest.raises(NotFoundError, match="no agent named cyd; its agents: ada"):
        client.send("hi", agent="cyd")
    # An id needs no look-up.
    client.send("hi", agent=UUID)
    assert api.paths == [
        "GET /api/me",
        "GET /api/projects/p/agents",
        "GET /api/projects/p/agents?cursor=n",
        "POST /api/chat/stream",
        "GET /api/projects/p/agents",
        "POST /api/chat/stream",
    ]


@pytest.mark.anyio
async def test_lists_are_read_page_by_page() -> None:
    def pages() -> Iterator[httpx.Response]:
        for name, cursor in (("a", "x/y"), ("b", "z"), ("c", None)):
            yield httpx.Response(200, json={"items": [{**CONVERSATION, "id": name, "colour": "red"}], "nextCursor": cursor})

    wanted = [f"GET /api/conversations?limit=1{cursor}" for cursor in ("", "&cursor=x%2Fy", "&cursor=z")]
    api = ScriptedApi(list(pages()))
    found = list(api.client().conversations(limit=1))
    assert ([one.id for one in found], api.paths) == (["a", "b", "c"], wanted)
    assert found[0].created_at == datetime(2026, 1, 1, tzinfo=timezone.utc)
    assert found[0].model_extra == {"colour": "red"}
    api = ScriptedApi(list(pages()))
    async with api.async_client() as client:
        assert [one.id async for one in client.conversations(limit=1)] == ["a", "b", "c"]
    api = ScriptedApi(list(pages()))
    page = api.client().conversations(limit=1).page("x/y")
    assert ([one.id for one in page.items], page.next_cursor, api.paths) == (["a"], "x/y", wanted[1:2])


def test_files_are_sent_as_they_are(tmp_path: Path) -> None:
    stored = {
        "id": "f",
        "name": "n",
        "mediaType": "text/plain",
        "sizeBytes": 3,
        "sha256": "0",
        "contentUrl": "/u",
        **CONVERSATION,
        "kind": None,
    }
    content = bytes(range(256)) * 2000
    (tmp_path / "ä b.txt").write_bytes(content)
    api = ScriptedApi([httpx.Response(201, json=stored)] * 2 + [httpx.Response(200, content=content)])
    client = api.client()
    client.upload(tmp_path / "ä b.txt")
    client.upload(b"abc", name="x", media_type="text/plain")
    assert client.download("f") == content
    first, second, _ = api.requests
    assert (first.content, first.headers["content-length"], first.headers["content-type"]) == (
        content,
        "512000",
        "application/octet-stream",
    )
    assert "transfer-encoding" not in first.headers
    assert (second.content, second.headers["content-type"]) == (b"abc", "text/plain")
    assert [request.url.path for request in api.requests] == ["/api/files", "/api/files", "/api/files/f/content"]
    assert [request.url.params["name"] for request in (first, second)] == ["ä b.txt", "x"]


def test_requests_have_the_paths_and_bodies_of_the_api() -> None:
    run = {"id": "r", "state": "running", "rootRunId": "r", "attempt": 1, "totalSteps": 0, "createdAt": "2026-01-01T00:00:00Z"}
    asked = {"id": "q", "runId": "r", "kind": "confirm", "question": "?", "interactionType": "confirm", "status": "answered"}
    asked["createdAt"] = "2026-01-01T00:00:00Z"
    page: dict[str, Any] = {"items": [], "nextCursor": None}
    replies: list[Any] = [
        {"runId": "r", "state": "running"},
        {"runId": "r", "messageId": "m", "seq": 3},
        run,
        {"runId": "r", "cursor": 9},
        run,
        *[asked] * 3,
        page,
        page,
        {"made": "2026-01-01", "items": [{"name": "openai:x", "provider": "openai", "can": ["tools"]}]},
        CONVERSATION,
        {"any": 1},
    ]
    api = ScriptedApi([httpx.Response(200, json=reply) for reply in replies] + [httpx.Response(204)])
    client = api.client()
    assert client.cancel("r").state == "running"
    assert client.steer("r", "hurry").seq == 3
    assert client.run("r").state == "running"
    assert client.resume("r", "go on").cursor == 9
    client.answer("q", "approve")
    client.answer("q", "edit", replacement={"a": 1})
    assert client.question("q").kind == "confirm"
    assert list(client.questions()) == []
    assert list(client.messages("c", limit=5)) == []
    assert [model.name for model in client.models(can=["tools", "pdf"], retired=True)] == ["openai:x"]
    assert client.conversation("a/b").title == "t"
    assert client.request("POST", "/api/x", json={"a": 1}, query={"b": True, "c": None}) == {"any": 1}
    client.delete_file("f")
    assert [(path, body_of(request) if request.content else None) for path, request in zip(api.paths, api.requests, strict=True)] == [
        ("POST /api/runs/r/cancel", None),
        ("POST /api/runs/r/messages", {"message": "hurry"}),
        ("GET /api/runs/r", None),
        ("POST /api/runs/r/resume", {"message": "go on"}),
        ("GET /api/runs/r", None),
        ("POST /api/questions/q/answer", {"answer": "approve"}),
        ("POST /api/questions/q/answer", {"answer": "edit", "input": {"a": 1}}),
        ("GET /api/questions/q", None),
        ("GET /api/questions?status=pending", None),
        ("GET /api/conversations/c/messages?limit=5", None),
        ("GET /api/models?can=tools%2Cpdf&retired=true", None),
        ("GET /api/conversations/a%2Fb", None),
        ("POST /api/x?b=true", {"a": 1}),
        ("DELETE /api/files/f", None),
    ]


def test_a_problem_becomes_an_error_of_its_status() -> None:
    kinds = {
        400: rejoin.BadRequestError,
        401: rejoin.AuthenticationError,
        403: rejoin.PermissionDeniedError,
        404: rejoin.NotFoundError,
        409: rejoin.ConflictError,
        410: rejoin.GoneError,
        413: rejoin.FileRefusedError,
        415: rejoin.FileRefusedError,
        422: rejoin.IdempotencyError,
        429: rejoin.RateLimitError,
        500: rejoin.ServerError,
        503: rejoin.ServerError,
        418: rejoin.APIError,
    }
    for status, kind in kinds.items():
        api = ScriptedApi([problem(status, "a_code", {"retry-after": "7"}, oldest=90)])
        with pytest.raises(rejoin.APIError) as caught:
            api.client().run("r")
        error = caught.value
        assert type(error) is kind
        assert (error.status, error.code, error.detail, error.retry_after, error.problem["oldest"]) == (
            status,
            "a_code",
            "a_code.",
            7.0,
            90,
        )
        assert str(error).startswith(f"a_code. ({status} a_code)")
        copy = pickle.loads(pickle.dumps(error))  # noqa: S301
        assert (type(copy), str(copy), copy.problem) == (kind, str(error), error.problem)


def test_the_errors_of_credentials_say_what_to_do() -> None:
    assert "REJOIN_API_KEY" in str(error_of(401, {}, b""))
    assert "rejoin keys create" in str(error_of(403, {}, b""))


def test_a_response_of_a_proxy_is_an_error_too() -> None:
    for body in (b"", b"<html>", b'"text"', b"[1]", b"null", b"\xff"):
        error = error_of(502, {}, body)
        assert (error.status, error.code, error.detail, error.temporary) == (502, "http_error", "the response has status 502", True)


def test_retry_after_is_a_number_or_a_date() -> None:
    now = datetime(2026, 1, 1, tzinfo=timezone.utc)
    assert retry_after_s("12") == 12
    assert retry_after_s("Thu, 01 Jan 2026 00:00:30 GMT", now) == 30
    assert retry_after_s("Wed, 31 Dec 2025 00:00:00 GMT", now) == 0
    assert [retry_after_s(header) for header in (None, "", "soon", "-1", "²")] == [None] * 5


def test_a_response_that_is_not_as_expected_is_an_error() -> None:
    for response in (httpx.Response(200, json={"id": 7}), httpx.Response(200, text="<html>")):
        with pytest.raises(ResponseError, match="is the URL that of a Rejoin API"):
            ScriptedApi([response]).client().run("r")


def test_without_a_response_there_is_an_error_with_its_cause() -> None:
    with pytest.raises(UnreachableError, match="cannot reach the API at http://api.test: ReadTimeout") as caught:
        ScriptedApi([httpx.ReadTimeout("")]).client().run("r")
    assert isinstance(caught.value.__cause__, httpx.ReadTimeout)


def test_a_plain_request_is_sent_once() -> None:
    api = ScriptedApi([problem(429, "rate_limited", {"retry-after": "1"})])
    with pytest.raises(RateLimitError):
        api.client().run("r")
    assert len(api.requests) == 1


def test_no_key_is_shown_by_anything() -> None:
    api = ScriptedApi([problem(401, "unauthorized"), accepted, httpx.ConnectError("refused")])
    client = api.client()
    shown = [repr(client), str(client), repr(vars(client)), repr(vars(client._http)), repr(client._http.settings)]
    with pytest.raises(RejoinError) as refused:
        client.run("r")
    turn = client.send("hi")
    with pytest.raises(RejoinError) as lost:
        client.run("r")
    for error in (refused.value, lost.value):
        shown += [repr(error), str(error), repr(vars(error))]
    shown += [repr(turn), repr(turn.state), repr(turn.transcript)]
    assert not [text for text in shown if KEY in text]
    assert {request.headers["authorization"] for request in api.requests} == {f"Bearer {KEY}"}


def test_a_key_may_come_from_a_function() -> None:
    keys = iter(["one", "two"])
    api = ScriptedApi([accepted, accepted])
    client = Client("http://api.test", lambda: next(keys), limits=QUICK, transport=httpx.MockTransport(api))
    client.send("hi")
    client.send("hi")
    assert [request.headers["authorization"] for request in api.requests] == ["Bearer one", "Bearer two"]
