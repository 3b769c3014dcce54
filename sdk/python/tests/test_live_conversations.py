"""Conversations, files, webhooks and settings with a real server."""

from __future__ import annotations

import os
import queue
import random
import re
import struct
import subprocess
import sys
import threading
import zlib
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from uuid import uuid4

import pytest

from live_server import LiveServer
from logs import REPOSITORY
from rejoin import AuthenticationError, Client, FileRefusedError, Message, NotFoundError, WebhookVerificationError, webhooks
from scripted_model import Reply, ScriptedModel

UNKNOWN = "0192f0c1-0000-7000-8000-000000000000"
DELIVERY_LIMIT_S = 60


def test_a_conversation_is_followed_over_its_turns(client: Client, model: ScriptedModel) -> None:
    asked, gate = uuid4().hex, threading.Event()
    model.script(f"one {asked}", Reply("First answer.", gate=gate, words_before_gate=1))
    model.script(f"two {asked}", Reply("Second answer."))
    first = client.send(f"one {asked}")
    second = client.send(f"two {asked}", conversation_id=first.conversation_id, on_busy="enqueue")
    assert first.conversation_id is not None
    follower = client.follow(first.conversation_id)

    def shown() -> list[str]:
        return [item.content if isinstance(item, Message) else f"{item.run_id} {item.text}" for item in follower.transcript.items]

    wanted = [f"one {asked}", f"{first.run_id} First answer.", f"two {asked}", f"{second.run_id} Second answer."]
    for event in follower:
        gate.set()
        if event.type == "done" and event.run_id == second.run_id:
            break
    assert shown() == wanted
    assert follower.transcript.active is None
    # A late reader sees the same.
    follower = client.follow(first.conversation_id)
    assert next(iter(follower)).type == "snapshot"
    assert shown() == wanted
    assert [message.role for message in client.messages(first.conversation_id, limit=1)] == ["user"] * 2 + ["assistant"] * 2
    assert first.conversation_id in [conversation.id for conversation in client.conversations(text=asked)]
    assert client.conversation(first.conversation_id).id == first.conversation_id


def picture(chance: random.Random) -> bytes:
    """A PNG of random pixels."""
    width = height = 64
    rows = b"".join(b"\0" + chance.randbytes(3 * width) for _ in range(height))

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def test_files_come_back_byte_for_byte(client: Client, model: ScriptedModel, tmp_path: Path) -> None:
    chance = random.Random(3)
    png, text = picture(chance), "".join(chance.choices("aä€😀\n", k=300_000)).encode()
    (tmp_path / "lång name.txt").write_bytes(text)
    image = client.upload(png, name="picture.png", media_type="image/png")
    document = client.upload(tmp_path / "lång name.txt")
    assert (image.media_type, image.size_bytes, image.name) == ("image/png", len(png), "picture.png")
    assert (document.kind, document.size_bytes, document.name) == ("text", len(text), "lång name.txt")
    assert (client.download(image.id), client.download(document.id)) == (png, text)
    assert client.file(image.id) == image
    assert {image.id, document.id} <= {file.id for file in client.files(limit=1)}
    asked = uuid4().hex
    model.script(asked, Reply("Read."))
    turn = client.send(f"Read it. {asked}", attachments=[document])
    assert turn.text() == "Read."
    assert turn.conversation_id is not None
    message = next(iter(client.messages(turn.conversation_id)))
    wanted = (document.id, document.name, document.size_bytes, document.sha256)
    sent = next(event.message for event in client.follow_run(turn.run_id) if event.type == "message")
    for shown in (message, sent, client.snapshot(turn.conversation_id).messages[0]):
        assert [(file.file_id, file.name, file.size_bytes, file.sha256) for file in shown.attachments] == [wanted]
    client.delete_file(image.id)
    with pytest.raises(NotFoundError):
        client.download(image.id)
    with pytest.raises(FileRefusedError):
        client.upload(b"PK\x03\x04" + bytes(100), name="archive.zip")


def test_lists_of_what_there_is(client: Client, server: LiveServer) -> None:
    name = server.agent()
    assert name in [agent.name for agent in client.agents()]
    assert client.models(can=["tools", "images"])
    with pytest.raises(NotFoundError, match=name):
        client.send("Hello.", agent="unknown")


def test_refusals_are_errors(client: Client, server: LiveServer) -> None:
    for call in (client.run, client.cancel, client.question, client.conversation, client.download, client.snapshot):
        with pytest.raises(NotFoundError):
            call(UNKNOWN)
    for reader in (client.follow(UNKNOWN), client.follow_run(UNKNOWN)):
        with pytest.raises(NotFoundError) as caught:
            list(reader)
        assert caught.value.code in ("conversation_not_found", "run_not_found")
    with Client(server.url, "rejoin_wrong") as stranger, pytest.raises(AuthenticationError, match="REJOIN_API_KEY"):
        stranger.send("Hello.")


def test_a_webhook_of_the_server_is_genuine(client: Client, server: LiveServer, model: ScriptedModel) -> None:
    received: queue.Queue[tuple[Mapping[str, str], bytes]] = queue.Queue()

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.put((dict(self.headers.items()), self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Writes nothing."""

    with HTTPServer(("127.0.0.1", 0), Receiver) as receiver:
        threading.Thread(target=receiver.serve_forever, daemon=True).start()
        path = f"/api/admin/projects/{server.project_id}/webhooks"
        url = f"http://127.0.0.1:{receiver.server_address[1]}/hook"
        created = client.request("POST", path, json={"url": url, "events": ["run.ended"]})
        asked = uuid4().hex
        model.script(asked, Reply("Done."))
        turn = client.send(f"Say it. {asked}")
        turn.text()
        headers, body = received.get(timeout=DELIVERY_LIMIT_S)
        client.request("DELETE", f"{path}/{created['webhook']['id']}")
        receiver.shutdown()
    event = webhooks.verify(headers, body, created["secret"])
    assert (event.type, event.data["runId"], event.data["state"]) == ("run.ended", turn.run_id, "completed")
    with pytest.raises(WebhookVerificationError):
        webhooks.verify(headers, body + b" ", created["secret"])


def test_a_client_without_arguments_finds_rejoin_dev(server: LiveServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REJOIN_DATA_DIR", str(server.data_dir))
    with Client() as client:
        assert client.url == server.url
        assert client.request("GET", "/api/me")["projectId"] == server.project_id


def test_the_programs_of_the_readme_work_as_they_stand_there(server: LiveServer, model: ScriptedModel) -> None:
    readme = (REPOSITORY / "sdk/python/README.md").read_text()
    quick_start, events, asynchronous, *_ = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    assert len(quick_start.splitlines()) <= 5
    environ = {**os.environ, "REJOIN_URL": server.url, "REJOIN_API_KEY": server.api_key}
    model.script("And who maintains them?", Reply("The OpenSSL team."))
    for code, wanted in ((quick_start + events, "Because of TLS.\nThe OpenSSL team."), (asynchronous, "done 15\nBecause of TLS.\n")):
        model.script("libssl3", Reply("Because of TLS."))
        ended = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=False)
        assert (ended.returncode, ended.stderr) == (0, "")
        assert ended.stdout.endswith(wanted)
