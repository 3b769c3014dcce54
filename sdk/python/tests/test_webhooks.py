"""Only genuine webhooks are accepted."""

from __future__ import annotations

import json
from base64 import b64encode

import pytest

from rejoin import WebhookVerificationError, webhooks

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
OTHER = "whsec_" + b64encode(b"another secret of 24 byt").decode()
NOW_S = 1_614_265_330
BODY = json.dumps(
    {"type": "run.ended", "timestamp": "2026-11-25T16:43:38.120493Z", "data": {"runId": "r", "state": "completed"}, "new": 1}
).encode()


def headers(body: bytes = BODY, secret: str = SECRET, timestamp_s: int = NOW_S) -> dict[str, str]:
    return webhooks.sign(body, secret, id="msg_1", timestamp_s=timestamp_s)


def refused(match: str, given: dict[str, str], body: bytes | str = BODY, secret: str = SECRET) -> None:
    with pytest.raises(WebhookVerificationError, match=match) as caught:
        webhooks.verify(given, body, secret, now_s=NOW_S)
    assert secret.removeprefix("whsec_") not in str(caught.value)


def test_the_example_of_the_specification_is_signed_as_it_says() -> None:
    signed = webhooks.sign('{"test": 2432232314}', SECRET, id="msg_p5jXN8AQM9LWM0D4loKWxJek", timestamp_s=NOW_S)
    assert signed["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_a_genuine_webhook_is_an_event() -> None:
    for body in (BODY, BODY.decode(), bytearray(BODY)):
        event = webhooks.verify(headers(), body, SECRET, now_s=NOW_S)  # type: ignore[arg-type]
        assert (event.id, event.type, event.data, event.timestamp.year) == (
            "msg_1",
            "run.ended",
            {"runId": "r", "state": "completed"},
            2026,
        )
        assert event.model_extra == {"new": 1}


def test_the_case_of_headers_does_not_matter() -> None:
    given = {name.title(): value for name, value in headers().items()}
    assert webhooks.verify(given, BODY, SECRET.removeprefix("whsec_"), now_s=NOW_S).id == "msg_1"


def test_one_of_several_signatures_is_enough() -> None:
    first, second = headers(secret=OTHER)["webhook-signature"], headers()["webhook-signature"]
    for signatures in (f"{first} {second}", f"{second} {first}", f"v1a,xyz v1,!!! {second} v2,{second}", f"  {second}"):
        assert webhooks.verify({**headers(), "webhook-signature": signatures}, BODY, SECRET, now_s=NOW_S).type == "run.ended"


def test_what_was_changed_is_refused() -> None:
    signed = headers()
    refused("no signature matches", signed, BODY + b" ")
    refused("no signature matches", {**signed, "webhook-id": "msg_2"})
    refused("no signature matches", {**signed, "webhook-timestamp": str(NOW_S + 1)})
    refused("no signature matches", signed, secret=OTHER)
    for signature in ("v1,", "v1", "v2," + signed["webhook-signature"][3:], signed["webhook-signature"][3:], "v1,!", "v1,é"):
        refused("no signature matches", {**signed, "webhook-signature": signature})
    flipped = bytearray(signed["webhook-signature"].encode())
    flipped[5] ^= 1
    refused("no signature matches", {**signed, "webhook-signature": flipped.decode()})


def test_what_is_missing_is_named() -> None:
    for name in ("webhook-id", "webhook-timestamp", "webhook-signature"):
        refused(f"the header {name} is missing", {key: value for key, value in headers().items() if key != name})
        refused(f"the header {name} is missing", {**headers(), name: ""})


def test_the_time_must_be_near() -> None:
    for offset in (-300, 300):
        webhooks.verify(headers(timestamp_s=NOW_S + offset), BODY, SECRET, now_s=NOW_S)
    for offset in (-301, 301):
        refused("from this machine's clock; 300 s are allowed", headers(timestamp_s=NOW_S + offset))
    webhooks.verify(headers(timestamp_s=NOW_S - 4000), BODY, SECRET, now_s=NOW_S, tolerance_s=5000)
    refused("not a number of seconds", {**headers(), "webhook-timestamp": "now"})
    refused("not a number of seconds", {**headers(), "webhook-timestamp": "-1"})
    # By default it is this machine's time.
    with pytest.raises(WebhookVerificationError, match="clock"):
        webhooks.verify(headers(), BODY, SECRET)


def test_a_malformed_secret_is_refused() -> None:
    for secret in ("whsec_", "", "whsec_***", "whsec_YWJj"):
        with pytest.raises(WebhookVerificationError, match="secret is malformed"):
            webhooks.verify(headers(), BODY, secret, now_s=NOW_S)


def test_a_body_that_is_no_event_is_refused() -> None:
    for body in (b"", b"{", b"[]", b"{}", b'"x"', b'{"type": "x"}', b"\xff"):
        refused("not an event", headers(body), body)
