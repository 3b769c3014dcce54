"""Events arrive once and in order, whatever happens to connections."""

from __future__ import annotations

import random
from dataclasses import replace

import httpx
import pytest
from pydantic import BaseModel

import rejoin
from logs import RECORDED, RECORDED_RUN, SMALL, Log, message, meta, numbered, only, reset, snapshot, token
from rejoin import Client, Event, Limits, RunError, RunTimeoutError, UnreachableError
from rejoin.log_reader import LogReader
from scripted import QUICK, ScriptedApi, body_of, frame, of_log, problem, stream

TEXT = "Ä€😀 new\nend"
ACCEPTED = {"conversationId": "c", "messageId": "m", "runId": "r", "cursor": 0}
# Events of which each reader gets each once; those about the connection have no number.
NUMBERS = [seq for seq, _ in SMALL]


def numbers(events: list[Event]) -> list[int]:
    return [event.seq for event in events if event.seq is not None]


def bytes_of(log: Log) -> bytes:
    return b"".join(frame(seq, event) for seq, event in log)


@pytest.mark.parametrize("breaks", [False, True], ids=["ended", "reset"])
def test_a_connection_that_is_cut_at_any_byte_is_continued(breaks: bool) -> None:
    data = bytes_of(SMALL)
    api = ScriptedApi(otherwise=lambda request: of_log(SMALL, request))
    with api.client() as client:
        for cut in range(len(data)):
            api.replies.append(stream(data[:cut], breaks=breaks))
            follower = client.follow_run("r")
            assert numbers(list(follower)) == NUMBERS, f"cut at {cut}"
            turn = only(follower.transcript)
            assert turn.message is not None
            assert (turn.text, turn.message.content) == (TEXT, TEXT)


@pytest.mark.anyio
async def test_the_asynchronous_client_does_the_same() -> None:
    data = bytes_of(SMALL)
    api = ScriptedApi(otherwise=lambda request: of_log(SMALL, request))
    async with api.async_client() as client:
        for cut in range(0, len(data), 5):
            api.replies.append(stream(data[:cut], breaks=True))
            follower = client.follow_run("r")
            assert numbers([event async for event in follower]) == NUMBERS, f"cut at {cut}"
            assert only(follower.transcript).text == TEXT


def test_a_recorded_run_survives_many_cuts() -> None:
    chance = random.Random(5)
    for _ in range(30):

        def cut(request: httpx.Request) -> httpx.Response:
            whole = of_log(RECORDED, request)
            if whole.status_code == 204 or chance.random() < 0.2:
                return whole
            data = whole.read()
            return stream(data[: chance.randint(0, min(len(data), 6000))], breaks=chance.random() < 0.5)

        api = ScriptedApi(otherwise=cut)
        follower = api.client().follow_run(RECORDED_RUN)
        assert numbers(list(follower)) == [seq for seq, _ in RECORDED]
        turn = only(follower.transcript)
        assert turn.message is not None
        assert turn.text == turn.message.content


def test_an_iteration_that_is_left_continues_where_it_was() -> None:
    for taken in range(len(SMALL) + 1):
        api = ScriptedApi(otherwise=lambda request: of_log(SMALL, request))
        follower = api.client().follow_run("r")
        seen: list[Event] = []
        for event in follower:
            if len(seen) == taken:
                # It was returned, so it is the program's.
                seen.append(event)
                break
            seen.append(event)
        # Another process continues at the cursor, and this one where it was.
        cursor = follower.cursor
        assert cursor == max(numbers(seen), default=0)
        assert numbers([*seen, *api.client().follow_run("r", after=cursor)]) == NUMBERS
        assert numbers([*seen, *follower]) == NUMBERS
        assert list(follower) == []


def test_it_connects_with_its_cursor_and_its_key() -> None:
    api = ScriptedApi([stream(bytes_of(SMALL[:4]))], lambda request: of_log(SMALL, request))
    list(api.client(project_id="p").follow_run("r"))
    assert api.paths == ["GET /api/runs/r/events?on_gap=event"] * 3
    assert [request.headers["last-event-id"] for request in api.requests] == ["0", "4", "10"]
    assert {(request.headers["authorization"], request.headers["x-project-id"]) for request in api.requests} == {
        ("Bearer rejoin_secret_key", "p")
    }


def test_a_conversation_is_joined_by_a_snapshot_and_continued_after_goaway() -> None:
    goaway = frame(None, {"type": "goaway"})
    api = ScriptedApi([stream(frame(6, snapshot(SMALL[:6])), goaway), stream(bytes_of(SMALL[6:])), problem(404, "gone")])
    follower = api.client().follow("c")
    with pytest.raises(rejoin.NotFoundError):
        list(follower)
    assert api.paths[:2] == ["GET /api/conversations/c/events?on_gap=event&from=snapshot", "GET /api/conversations/c/events?on_gap=event"]
    assert api.requests[1].headers["last-event-id"] == "6"
    assert only(follower.transcript).text == TEXT
    assert follower.cursor == 10


def test_a_reader_of_what_is_new_misses_nothing_between_two_connections() -> None:
    first = stream(frame(None, {"type": "caught_up", "through": 7}))
    api = ScriptedApi([first, stream(bytes_of(SMALL[7:])), problem(404, "gone")])
    follower = api.client().follow("c", after="now")
    with pytest.raises(rejoin.NotFoundError):
        list(follower)
    assert api.paths[0] == "GET /api/conversations/c/events?on_gap=event&after=now"
    assert api.requests[1].headers["last-event-id"] == "7"


def test_a_gap_in_a_conversations_numbers_is_closed_by_a_snapshot() -> None:
    api = ScriptedApi([stream(bytes_of([SMALL[0], SMALL[2]])), stream(frame(10, snapshot(SMALL))), problem(404, "gone")])
    follower = api.client().follow("c", after=0)
    with pytest.raises(rejoin.NotFoundError):
        list(follower)
    assert api.paths[1].endswith("from=snapshot")
    assert only(follower.transcript).text == TEXT


def test_a_cursor_that_retention_has_passed_is_replaced_by_a_snapshot() -> None:
    api = ScriptedApi([stream(bytes_of(SMALL[:3]))], lambda request: of_log(SMALL, request, oldest=8))
    follower = api.client().follow_run("r")
    assert [event.type for event in follower] == ["message", "meta", "token", "gap", "snapshot"]
    turn = only(follower.transcript)
    assert (turn.text, turn.status) == (TEXT, "completed")


def test_a_server_without_gap_events_is_joined_by_a_snapshot() -> None:
    for refusal in (problem(410, "cursor_gone", oldest=8), problem(400, "cursor_ahead", lastSeq=3)):
        api = ScriptedApi([stream(bytes_of(SMALL[:4])), refusal, stream(frame(10, snapshot(SMALL)))], lambda _: httpx.Response(204))
        follower = api.client().follow_run("r")
        list(follower)
        assert api.paths[2] == "GET /api/runs/r/events?on_gap=event&from=snapshot"
        assert "last-event-id" not in api.requests[2].headers
        assert only(follower.transcript).text == TEXT


def test_a_restored_database_replaces_what_was_shown() -> None:
    # Events 4 to 8 are lost with the restore, and others get their numbers.
    other: Log = [
        *SMALL[:3],
        *[(seq + 3, event) for seq, event in numbered([token("other"), {"type": "done", "runId": "r", "status": "completed"}])],
    ]
    api = ScriptedApi(
        [stream(bytes_of(SMALL[:8])), lambda request: of_log(other, request, through=4)], lambda request: of_log(other, request)
    )
    follower = api.client().follow_run("r")
    assert numbers(list(follower)) == [1, 2, 3, 4, 5, 6, 7, 8, 4, 5]
    assert only(follower.transcript).text == "Ä€😀 other"


def test_a_cursor_of_another_history_is_replaced_by_a_snapshot() -> None:
    # The log was taken back to event 3, and has grown past the cursor again.
    answer = {"id": "answer", "role": "assistant", "content": "Ä€😀 other words", "createdAt": "2026-01-01T00:00:00Z"}
    words = [
        token("other"),
        token(" words"),
        {"type": "message", "runId": "r", "message": answer},
        {"type": "done", "runId": "r", "status": "completed"},
    ]
    other: Log = [*SMALL[:3], *[(seq + 3, event) for seq, event in numbered(words)]]
    rewound = frame(None, {"type": "rewound", "after": 5, "last": 7})
    api = ScriptedApi(
        [stream(bytes_of(SMALL[:5]), epoch="one"), stream(rewound, frame(7, snapshot(other)), epoch="two")], lambda _: httpx.Response(204)
    )
    follower = api.client().follow_run("r")
    assert [event.type for event in follower][-2:] == ["rewound", "snapshot"]
    assert [path.split("?")[1] for path in api.paths] == ["on_gap=event", "on_gap=event&epoch=one", "on_gap=event&epoch=two"]
    assert only(follower.transcript).text == "Ä€😀 other words"


def test_a_reset_of_what_the_snapshot_holds_brings_a_new_snapshot() -> None:
    log = numbered([message("q"), meta(), token("a "), token("void")])
    whole: Log = [*log, (5, reset(3)), (6, token("b"))]
    api = ScriptedApi(
        [
            stream(frame(4, snapshot(log)), frame(5, reset(3))),
            stream(frame(6, snapshot(whole))),
            stream(frame(7, {"type": "done", "runId": "r", "status": "completed"})),
        ],
        lambda _: httpx.Response(204),
    )
    follower = api.client().follow_run("r", after=None)
    assert [event.type for event in follower] == ["snapshot", "snapshot", "done"]
    assert only(follower.transcript).text == "a b"


@pytest.mark.parametrize("status", [400, 401, 403, 404])
def test_a_permanent_refusal_is_raised(status: int) -> None:
    api = ScriptedApi([problem(status, "no")])
    with pytest.raises(rejoin.APIError) as caught:
        list(api.client().follow("c"))
    assert (caught.value.status, caught.value.code) == (status, "no")


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503])
def test_a_temporary_refusal_is_followed_by_another_request(status: int) -> None:
    api = ScriptedApi([problem(status, "later", {"retry-after": "0"})] * 3, lambda request: of_log(SMALL, request))
    assert numbers(list(api.client().follow_run("r"))) == NUMBERS


def test_a_response_that_is_no_stream_is_not_taken_for_one() -> None:
    api = ScriptedApi([httpx.Response(200, json={"hello": "from a proxy"})], lambda request: of_log(SMALL, request))
    assert numbers(list(api.client().follow_run("r"))) == NUMBERS


def test_a_server_that_is_not_there_is_given_up_and_nothing_is_lost() -> None:
    def absent(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused")

    api = ScriptedApi([stream(bytes_of(SMALL[:4]), breaks=True)], absent)
    follower = api.client(replace(QUICK, outage_s=0.0)).follow("c", after=0)
    with pytest.raises(UnreachableError, match="cannot reach the API at http://api.test: connection reset"):
        list(follower)
    with pytest.raises(UnreachableError, match="cannot reach the API at http://api.test: refused"):
        list(follower)
    api.otherwise = lambda request: of_log(SMALL, request)
    with pytest.raises(UnreachableError, match="nothing is lost: read on later, after event 10"):
        list(follower)
    assert only(follower.transcript).text == TEXT


def test_a_server_that_was_never_there_is_given_up_sooner() -> None:
    times = iter(range(1000))
    limits = Limits(outage_s=100, first_contact_s=10, pause_max_s=7, pause_min_s=7)
    reader = LogReader("/api/conversations/c", 0, limits, clock=lambda: next(times), fraction=lambda: 0.5)
    lost = UnreachableError("lost")
    assert [reader.lost(lost, 10) for _ in range(10)] == [3.5] * 10
    with pytest.raises(UnreachableError):
        reader.lost(lost, 10)
    assert reader.lost(lost, 100) == 3.5
    # A byte is a sign of life.
    reader.request()
    reader.receive(b":hb\n\n")
    assert reader.lost(lost, 10) == 3.5


def test_pauses_grow_to_a_limit_and_respect_the_server() -> None:
    limits = Limits()
    reader = LogReader("/api/runs/r", 0, limits, run_id="r", clock=lambda: 0.0, fraction=lambda: 1.0)
    assert [reader.lost(None, 1) for _ in range(8)] == [0.25, 0.5, 1, 2, 4, 8, 10, 10]
    busy = rejoin.errors.error_of(503, {"retry-after": "7"}, b"")
    assert reader.refused(busy, 1) == 10
    assert reader.refused(rejoin.errors.error_of(503, {"retry-after": "700"}, b""), 1) == limits.retry_after_max_s
    reader.request()
    # What is understood is a sign of health, and the stream has asked for pauses of at least two seconds.
    reader.receive(b"retry: 2000\n\n" + frame(*SMALL[0]))
    assert [reader.lost(None, 1) for _ in range(5)] == [2, 2, 2, 2, 4]
    # After a run's end there is no pause: the next response is 204.
    reader.request()
    reader.receive(frame(*SMALL[-1]))
    assert reader.lost(None, 1) == 0


def test_streams_that_cannot_be_read_are_given_up() -> None:
    broken = b'id: 1\ndata: {"type"\n\n'
    api = ScriptedApi(otherwise=lambda _: stream(broken))
    with pytest.raises(rejoin.ResponseError, match="can't be read"):
        list(api.client().follow("c"))
    assert len(api.requests) == QUICK.unusable_frames
    api = ScriptedApi([stream(broken), stream(b'id: 2\ndata: {"type":"token"}\n\n')], lambda request: of_log(SMALL, request))
    assert numbers(list(api.client().follow_run("r"))) == NUMBERS


def turn_of(api: ScriptedApi, **options: object) -> rejoin.Turn:
    api.replies.insert(0, httpx.Response(202, json=ACCEPTED))
    client: Client = api.client(**options)  # type: ignore[arg-type]
    return client.send("Tell me.")


def test_a_turn_ends_with_its_done() -> None:
    api = ScriptedApi(otherwise=lambda request: of_log(SMALL, request))
    turn = turn_of(api)
    assert numbers(list(turn)) == NUMBERS
    result = turn.result()
    assert (result.status, result.text, result.usage.steps, result.error) == ("completed", TEXT, 1, None)
    assert turn.text() == TEXT == turn.state.text
    # Neither the end nor the result needs another request.
    assert api.paths == ["POST /api/chat/stream", "GET /api/runs/r/events?on_gap=event"]


def test_a_turn_that_has_failed_raises_when_its_text_is_wanted() -> None:
    error = {"type": "error", "runId": "r", "error": "no key", "code": "provider_key_missing", "retryable": False}
    log = numbered([message("Tell me."), meta(), token("Half"), error, {"type": "done", "runId": "r", "status": "failed"}])
    turn = turn_of(ScriptedApi(otherwise=lambda request: of_log(log, request)))
    with pytest.raises(RunError, match=r"no key \(failed provider_key_missing, run r\)") as caught:
        turn.text()
    assert (caught.value.code, caught.value.result.text) == ("provider_key_missing", "Half")
    assert turn.result().status == "failed"


def test_a_turn_whose_end_is_no_longer_stored_is_looked_up() -> None:
    run = {
        "id": "r",
        "state": "completed",
        "rootRunId": "r",
        "attempt": 1,
        "totalSteps": 1,
        "createdAt": "2026-01-01T00:00:00Z",
        "summary": TEXT,
        "conversationId": "c",
        "output": {"a": 1},
        "usage": {"totalTokens": 3},
    }
    turn = turn_of(ScriptedApi([lambda request: of_log(SMALL, request, oldest=11), httpx.Response(204), httpx.Response(200, json=run)]))
    result = turn.result()
    assert (result.status, result.text, result.output, result.usage.total_tokens) == ("completed", TEXT, {"a": 1}, 3)
    assert result.message is not None


def test_waiting_has_a_limit_if_one_is_given() -> None:
    api = ScriptedApi(otherwise=lambda request: of_log(SMALL, request))
    turn = turn_of(api)
    with pytest.raises(RunTimeoutError, match="it continues"):
        turn.result(timeout_s=0)
    assert turn.result(timeout_s=1000).text == TEXT


def test_structured_output_becomes_a_model() -> None:
    class Answer(BaseModel):
        city: str

    output = {"type": "output", "runId": "r", "output": {"city": "Oslo"}}
    log = numbered([message("Tell me."), meta(), output, {"type": "done", "runId": "r", "status": "completed"}])
    api = ScriptedApi([httpx.Response(202, json=ACCEPTED)], lambda request: of_log(log, request))
    turn = api.client().send("Tell me.", output_schema=Answer)
    assert body_of(api.requests[0])["outputSchema"]["properties"]["city"]["type"] == "string"
    assert turn.result().parse(Answer).city == "Oslo"
