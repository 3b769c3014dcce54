"""Events are models, whatever the server sends."""

from __future__ import annotations

import re

from pydantic import TypeAdapter

from logs import RECORDED, REPOSITORY, snapshot
from rejoin import Event, Message, parse_event
from rejoin.events import HandoffEvent, SnapshotEvent, TokenEvent, UnknownEvent


def test_every_documented_type_has_a_model() -> None:
    page = (REPOSITORY / "docs/reference/streams.md").read_text()
    table = page.split("<!-- events -->")[1].split("<!-- /events -->")[0]
    documented = set(re.findall(r"^\| `(\w+)`", table, re.MULTILINE))
    assert len(documented) > 30
    schema = TypeAdapter(Event).json_schema()
    assert documented | {"unknown"} == set(schema["discriminator"]["mapping"])


def test_a_recorded_log_has_no_unknown_event() -> None:
    events = [parse_event(event, seq) for seq, event in RECORDED]
    assert [event.type for event in events] == [event["type"] for _, event in RECORDED]
    assert [event.seq for event in events] == [seq for seq, _ in RECORDED]


def test_an_event_keeps_what_this_version_does_not_know() -> None:
    event = parse_event({"type": "token", "runId": "r", "token": "a", "colour": "red"}, 7)
    assert isinstance(event, TokenEvent)
    assert (event.seq, event.run_id, event.token, event.model_extra) == (7, "r", "a", {"colour": "red"})


def test_what_is_not_known_or_not_as_expected_never_raises() -> None:
    for data in [{"type": "new", "runId": "r"}, {"type": "token", "runId": "r"}, {"type": 7}, {}, {"type": "unknown"}, [1], None, "x"]:
        event = parse_event(data, 3)
        assert isinstance(event, UnknownEvent)
        assert event.seq == 3
    assert parse_event({"type": "new", "runId": "r"}).run_id == "r"  # type: ignore[union-attr]


def test_names_of_the_wire_that_python_reserves_have_others() -> None:
    event = parse_event({"type": "handoff", "runId": "r", "from": "ada", "to": "bea"}, 1)
    assert isinstance(event, HandoffEvent)
    assert (event.from_agent, event.to_agent) == ("ada", "bea")


def test_a_snapshot_is_an_event() -> None:
    event = parse_event(snapshot(RECORDED[:40]), 40)
    assert isinstance(event, SnapshotEvent)
    assert event.turn is not None
    assert event.turn.meta is not None
    assert event.messages[0].role == "user"


def test_attached_files_are_read_as_events_and_as_lists_name_them() -> None:
    named = {"fileId": "f", "name": "n", "mediaType": "text/plain", "sizeBytes": 1, "sha256": "0"}
    listed = {"fileId": "f", "title": "n", "mediaType": "text/plain", "sizeBytes": 1, "metadata": {"sha256": "0"}, "url": "/u"}
    message = {"id": "m", "role": "user", "content": "", "createdAt": "2026-01-01T00:00:00Z"}
    for attachments in ([named], [listed, {"id": "c", "type": "console", "title": "t"}]):
        (file,) = Message.model_validate({**message, "attachments": attachments}).attachments
        assert (file.file_id, file.name, file.sha256) == ("f", "n", "0")
    assert Message.model_validate({**message, "attachments": None}).attachments == []
