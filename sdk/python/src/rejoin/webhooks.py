"""Verifies webhooks, which are signed as Standard Webhooks specifies: an HMAC-SHA256 of id, timestamp and body.

Example, in any web framework:

    event = rejoin.webhooks.verify(request.headers, request.body, os.environ["WEBHOOK_SECRET"])
    if event.type == "run.ended":
        print(event.data["runId"], event.data["state"])

A delivery may arrive more than once: skip an `id` that you know.
"""

from __future__ import annotations

import binascii
import hmac
import json
import time
from base64 import b64decode, b64encode
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from .errors import WebhookVerificationError
from .model import Model

TOLERANCE_S = 300
"""Default for how far the timestamp may be from this machine's clock, in seconds."""

_PREFIX = "whsec_"
_VERSION = "v1"
_SECRET_MIN_BYTES = 16
_TIMESTAMP_MAX_DIGITS = 15


class WebhookEvent(Model):
    """A verified event."""

    id: str
    """The delivery, the same in each attempt and after a replay."""
    type: str
    """Such as `run.ended`, `question.asked`, `dag.ended`, `budget.reached` or `webhook.test`."""
    timestamp: datetime
    """When it happened."""
    data: dict[str, Any]
    """Its fields, as `docs/guide/webhooks.md` lists them."""


def verify(
    headers: Mapping[str, str], body: bytes | str, secret: str, *, tolerance_s: float = TOLERANCE_S, now_s: float | None = None
) -> WebhookEvent:
    """Verifies a request, and returns its event.

    - `headers`: of the request; the case of their names does not matter.
    - `body`: as it was received, not parsed and serialized again.
    - `secret`: the webhook's secret, `whsec_…`. While it is being rotated, either secret is accepted.
    - `tolerance_s`: how far the timestamp may be from this machine's clock, in either direction, in seconds.
    - `now_s`: the time in seconds since 1970, for tests.

    Raises `WebhookVerificationError` if the request is not genuine, is too old, or is not an event.
    """
    key = _key(secret)
    content = body.encode() if isinstance(body, str) else bytes(body)
    values = {name.lower(): value for name, value in headers.items()}
    delivery, timestamp, signatures = (_header(values, f"webhook-{name}") for name in ("id", "timestamp", "signature"))
    if not (timestamp.isascii() and timestamp.isdigit() and len(timestamp) <= _TIMESTAMP_MAX_DIGITS):
        raise WebhookVerificationError("the header webhook-timestamp is not a number of seconds")
    expected = hmac.digest(key, f"{delivery}.{timestamp}.".encode() + content, "sha256")
    # All are compared, in constant time each.
    matches = [hmac.compare_digest(expected, signature) for signature in _signatures(signatures)]
    if not any(matches):
        raise WebhookVerificationError("no signature matches: the secret is that of another webhook, or the body was changed on its way")
    age_s = (time.time() if now_s is None else now_s) - int(timestamp)
    if abs(age_s) > tolerance_s:
        raise WebhookVerificationError(f"the timestamp is {abs(age_s):.0f} s from this machine's clock; {tolerance_s:g} s are allowed")
    return _event(content, delivery)


def sign(body: bytes | str, secret: str, *, id: str, timestamp_s: int) -> dict[str, str]:  # noqa: A002
    """Returns the headers of a webhook with this body, for tests of a receiver."""
    content = body.encode() if isinstance(body, str) else bytes(body)
    signature = b64encode(hmac.digest(_key(secret), f"{id}.{timestamp_s}.".encode() + content, "sha256")).decode()
    return {"webhook-id": id, "webhook-timestamp": str(timestamp_s), "webhook-signature": f"{_VERSION},{signature}"}


def _key(secret: str) -> bytes:
    try:
        key = b64decode(secret.removeprefix(_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) < _SECRET_MIN_BYTES:
        # Without the secret itself.
        raise WebhookVerificationError(f"the webhook's secret is malformed: it must be {_PREFIX} and base64")
    return key


def _header(values: Mapping[str, str], name: str) -> str:
    value = values.get(name)
    if not value:
        raise WebhookVerificationError(f"the header {name} is missing")
    return value


def _signatures(header: str) -> list[bytes]:
    """Returns the signatures of our version. Others are ignored."""
    found: list[bytes] = []
    for signature in header.split(" "):
        version, _, encoded = signature.partition(",")
        if version == _VERSION:
            try:
                found.append(b64decode(encoded, validate=True))
            except (binascii.Error, ValueError):
                continue
    return found


def _event(content: bytes, delivery: str) -> WebhookEvent:
    try:
        return WebhookEvent.model_validate({**json.loads(content), "id": delivery})
    except (ValueError, TypeError) as error:
        raise WebhookVerificationError("the body is signed correctly, but is not an event of Rejoin") from error
