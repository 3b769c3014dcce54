"""Bounds streams that have no end: of a `text/event-stream`, what comes within a moment is its body.

A reader of a conversation is never told that it has ended, and a client that generates requests would wait for ever.
"""

import socket

import requests
import schemathesis

# Silence after which a stream has said what it has to say for now, and how often it may speak.
SILENCE_S = 0.3
MAX_READS = 50

_send = requests.Session.send


def _send_bounded(session, request, **options):
    response = _send(session, request, **{**options, "stream": True})
    if response.headers.get("content-type", "").startswith("text/event-stream"):
        response._content = _beginning(response)
        response._content_consumed = True
        response.close()
    elif not options.get("stream"):
        # As the caller would have had it.
        response.content
    return response


def _beginning(response):
    read = []
    try:
        # The answer has taken the socket over: its connection closes at its end.
        response.raw._fp.fp.raw._sock.settimeout(SILENCE_S)
        for _ in range(MAX_READS):
            piece = response.raw.read1(65536)
            if not piece:
                break
            read.append(piece)
    except (OSError, socket.timeout, requests.RequestException):
        pass
    except Exception as silence:  # urllib3 wraps a timeout in errors of its own
        if "timed out" not in str(silence):
            raise
    return b"".join(read)


requests.Session.send = _send_bounded


@schemathesis.serializer("application/x-ndjson")
def lines(_context, value):
    """What is generated for an import: text, as it is."""
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogatepass")
