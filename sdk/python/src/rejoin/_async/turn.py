"""A turn: a message that was sent, and the run that answers it."""

from __future__ import annotations

from ..calls import run as get_run
from ..errors import RunError
from ..log_reader import LogReader
from ..records import Accepted, Failure, TurnResult, Usage
from ..turn_state import TurnState
from .follower import AsyncFollower
from .http import AsyncHttp


class AsyncTurn(AsyncFollower):
    """The turn that answers a message. `AsyncClient.send` returns it as soon as the message is stored.

    Iterate it for its events, wait for its end with `text` or `result`, or do both. Leaving it stops nothing: the run goes on.
    """

    def __init__(self, http: AsyncHttp, reader: LogReader, accepted: Accepted, client_turn_id: str | None) -> None:
        super().__init__(http, reader)
        self.run_id: str = accepted.run_id
        """The run that answers the message."""
        self.conversation_id: str | None = accepted.conversation_id or None
        """The conversation. None: the run belongs to none."""
        self.message_id: str | None = accepted.message_id or None
        """The stored message."""
        self.client_turn_id: str | None = client_turn_id
        """The idempotency key: sending the same message with it again returns the same turn."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(run_id={self.run_id!r}, conversation_id={self.conversation_id!r})"

    @property
    def state(self) -> TurnState:
        """The turn so far: text, tool calls, questions. What a lost worker had written is discarded, so show this rather than a sum of
        tokens.
        """
        return self.transcript.turn(self.run_id) or TurnState(self.run_id, self.run_id)

    async def result(self, timeout_s: float | None = None) -> TurnResult:
        """Waits for the turn's end, and returns how it has ended: also if it has failed, was cancelled or is paused.

        A run that asks a question waits until it is answered: see `AsyncClient.answer`.

        Raises `RunTimeoutError` if it has not ended within `timeout_s` seconds (checked with each event and heartbeat; None: no limit), and
        what an iteration raises.
        """
        async for _ in self._events(timeout_s):
            pass
        state = self.state
        if state.over and not state.partial:
            return TurnResult(
                run_id=self.run_id,
                conversation_id=self.conversation_id,
                status=state.status,
                text=state.message.content if state.message else state.text,
                message=state.message,
                output=state.output,
                usage=state.usage or Usage(),
                error=state.errors[-1] if state.errors and state.status == "failed" else None,
            )
        # Its last events are no longer stored, and were not received before.
        run = await self._http.run_surely(get_run(self.run_id))
        return TurnResult(
            run_id=run.id,
            conversation_id=run.conversation_id,
            status=run.state,
            text=state.message.content if state.message else run.summary or "",
            message=state.message,
            output=run.output,
            usage=run.usage,
            error=Failure(error=run.error, code=run.error_code or "") if run.error else None,
        )

    async def text(self, timeout_s: float | None = None) -> str:
        """Waits for the turn's end, and returns the stored answer.

        Raises `RunError` if the run has failed or was cancelled, and what `result` raises.
        """
        result = await self.result(timeout_s)
        if result.status in ("failed", "cancelled"):
            raise RunError(result)
        return result.text
