"""All exceptions of this package. Each is a `RejoinError`.

RejoinError
├── ConfigurationError         there is no API key
├── UnreachableError           no response
├── APIError                   a response that is not a success, by its status
│   ├── BadRequestError        400
│   ├── AuthenticationError    401
│   ├── PermissionDeniedError  403
│   ├── NotFoundError          404
│   ├── ConflictError          409
│   ├── GoneError              410
│   ├── FileRefusedError       413, 415
│   ├── IdempotencyError       422
│   ├── RateLimitError         429
│   └── ServerError            500 and above
├── ResponseError              a response that this version can't read
├── RunError                   the run has failed, or was cancelled
├── RunTimeoutError            the run has not ended in time
├── WebhookVerificationError   the request is not a genuine webhook
├── ToolFailure                raised by a tool: an error for the model
├── RetryCall                  raised by a tool: nothing has happened, call it again
├── CallCancelledError         raised in a tool: its result is not wanted
├── StepFailedError            raised in a durable function: the step has failed
├── StepOutcomeUnknownError    raised in a durable function: a worker was lost during the step
└── StepChangedError           raised in a durable function: its steps differ from those of an earlier execution
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .records import TurnResult

_HINTS = {
    401: "set REJOIN_API_KEY, or pass api_key=, to a key of this server; `rejoin keys create` creates one",
    403: "the key lacks the required scope; `rejoin keys create --scopes read,write,admin,worker` creates one with all scopes",
}
# Statuses after which the same request may succeed later. Of those from 500 on, these mean that it will not.
_TEMPORARY = (408, 429)
_PERMANENT = (501, 505, 507)


class RejoinError(Exception):
    """The base of all errors of this package."""

    @property
    def temporary(self) -> bool:
        """Whether the same request may succeed later."""
        return False


class ConfigurationError(RejoinError):
    """The client lacks a setting; the message explains how to provide it."""


class UnreachableError(RejoinError):
    """The API did not respond: no connection, no response in time, or a response that was cut off."""

    @property
    def temporary(self) -> bool:
        """Always true."""
        return True


class ResponseError(RejoinError):
    """The response is not as this version expects it: the URL may be that of another program, or a proxy has changed the response."""


class APIError(RejoinError):
    """The API's response is not a success."""

    status: int
    """The HTTP status."""
    code: str
    """A stable identifier for programs, such as `run_not_found`. `http_error`, if the response does not come from the API."""
    detail: str
    """What went wrong."""
    retry_after: float | None
    """How long the server asks to wait before the next request, in seconds."""
    problem: Mapping[str, Any]
    """The whole response, with further fields such as `oldest` or `lastSeq`."""

    def __init__(
        self, status: int, code: str, detail: str, retry_after: float | None = None, problem: Mapping[str, Any] | None = None
    ) -> None:
        hint = _HINTS.get(status)
        super().__init__(f"{detail} ({status} {code})" + (f"; {hint}" if hint else ""))
        self.status = status
        self.code = code
        self.detail = detail
        self.retry_after = retry_after
        self.problem = problem or {}

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.status, self.code, self.detail, self.retry_after, dict(self.problem))

    @property
    def temporary(self) -> bool:
        """Whether the same request may succeed later."""
        return self.status in _TEMPORARY or (self.status >= 500 and self.status not in _PERMANENT)


class BadRequestError(APIError):
    """400: the request is malformed, or refers to something that can't be used."""


class AuthenticationError(APIError):
    """401: there is no valid API key."""


class PermissionDeniedError(APIError):
    """403: the key lacks the required scope."""


class NotFoundError(APIError):
    """404: not found, or not visible to this key."""


class ConflictError(APIError):
    """409: the state does not allow it. For example, a run of the conversation is active, or a question is closed."""


class GoneError(APIError):
    """410: retention has removed it."""


class FileRefusedError(APIError):
    """413 or 415: the file or the body is too large, or of a type that is not accepted."""


class IdempotencyError(APIError):
    """422: the same `client_turn_id` was used for another message."""


class RateLimitError(APIError):
    """429: too many requests. `retry_after` is the time to wait."""


class ServerError(APIError):
    """500 and above: the server failed, is overloaded or is shutting down."""


class RunError(RejoinError):
    """The run has failed, or was cancelled: there is no complete answer."""

    result: TurnResult
    """What the run has left, with the text that was written before it ended."""
    code: str
    """A stable identifier, such as `provider_error`, or `cancelled`."""
    detail: str
    """What went wrong."""

    def __init__(self, result: TurnResult) -> None:
        failure = result.error
        self.result = result
        self.code = failure.code if failure else result.status
        self.detail = failure.error if failure else f"the run was {result.status}"
        super().__init__(f"{self.detail} ({result.status} {self.code}, run {result.run_id})")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.result,)


class RunTimeoutError(RejoinError):
    """The run has not ended within `timeout_s`. It continues; wait again, or cancel it."""


class WebhookVerificationError(RejoinError):
    """The request is not a genuine webhook, or it is too old."""


class ToolFailure(RejoinError):  # noqa: N818, an outcome that a tool chooses
    """Raised by a tool: the call ends as an error, and the model reads this text. It is not repeated.

    Example: `raise ToolFailure("There is no order A-7. Ask for the number on the invoice.")`.
    """


class RetryCall(RejoinError):  # noqa: N818, an outcome that a tool chooses
    """Raised by a tool: nothing has happened, and the call is handed out again, after 1 s that doubles, at most 5 times.

    The text is the reason, for the model if no attempt succeeds.
    """


class CallCancelledError(RejoinError):
    """Raised in a tool by its context: the result of the call is not wanted, or another attempt has the call. Clean up and leave."""


class StepFailedError(RejoinError):
    """Raised in a durable function: the step has failed, in this execution or in an earlier one. The text is the recorded error."""


class StepOutcomeUnknownError(RejoinError):
    """Raised in a durable function: a worker was lost during the step, which may have taken effect, and is not repeated.

    Catch it to find out, or mark a step that may be repeated as `idempotent`.
    """


class StepChangedError(RejoinError):
    """Raised in a durable function: it asks for other steps than in an earlier execution of the same call. The message names both."""


_BY_STATUS: dict[int, type[APIError]] = {
    400: BadRequestError,
    401: AuthenticationError,
    403: PermissionDeniedError,
    404: NotFoundError,
    409: ConflictError,
    410: GoneError,
    413: FileRefusedError,
    415: FileRefusedError,
    422: IdempotencyError,
    429: RateLimitError,
}


def error_of(status: int, headers: Mapping[str, str], body: bytes, now: datetime | None = None) -> APIError:
    """Returns the exception for a response that is not a success. `headers` must ignore case in names."""
    problem: dict[str, Any] = {}
    # Otherwise a proxy has answered.
    with suppress(ValueError, TypeError):
        problem = dict(json.loads(body))
    return problem_error(problem, status, retry_after_s(headers.get("retry-after"), now))


def problem_error(problem: dict[str, Any], status: int | None = None, retry_after: float | None = None) -> APIError:
    """Returns the exception for a problem of the API. `status`: that of its response; None: as it says itself."""
    status = int(problem["status"]) if status is None else status
    code = problem.get("code") or "http_error"
    detail = problem.get("detail") or problem.get("title") or f"the response has status {status}"
    kind = _BY_STATUS.get(status) or (ServerError if status >= 500 else APIError)
    return kind(status, str(code), str(detail), retry_after, problem)


def retry_after_s(header: str | None, now: datetime | None = None) -> float | None:
    """Returns the seconds that a `Retry-After` header names, as a number or as a date. None: there is none that can be read."""
    if not header:
        return None
    header = header.strip()
    if header.isascii() and header.isdigit():
        return float(header)
    try:
        date = parsedate_to_datetime(header)
    except ValueError:
        return None
    if date.tzinfo is None:
        date = date.replace(tzinfo=timezone.utc)
    return max(0.0, (date - (now or datetime.now(timezone.utc))).total_seconds())
