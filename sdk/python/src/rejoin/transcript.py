"""Folds a log into what a chat shows: messages, and the turns that answer them.

Invariants: every event counts once, in the order of its number; what is shown of a turn that has ended equals its stored message.
"""

from __future__ import annotations

from typing import TypeAlias

from .events import Event, FocusEvent, MessageEvent, QuestionAnsweredEvent, RunEvent, SnapshotEvent, SubAgentEvent, UnknownEvent
from .records import Message
from .snapshot import fill_turn
from .turn_state import OVER, AgentPart, OpenQuestion, ReceivedPart, TurnState

Item: TypeAlias = Message | TurnState


class Transcript:
    """The state of a log. A `Turn` or a `Follower` feeds its own; programs with their own connection call `apply` with each event."""

    def __init__(self) -> None:
        self.items: list[Item] = []
        """What a chat shows, in order: users' messages, and the turns that answer them."""
        self.cursor: int = 0
        """The number of the last event in it."""
        self._messages: dict[str, Message] = {}
        # The newest turn of each run, and the number of its turns.
        self._runs: dict[str, TurnState] = {}
        self._counts: dict[str, int] = {}

    @property
    def messages(self) -> list[Message]:
        """All stored messages that are known, in the order of the log."""
        return list(self._messages.values())

    @property
    def turns(self) -> list[TurnState]:
        """All turns that are known, without those of sub-agents."""
        return [item for item in self.items if isinstance(item, TurnState)]

    @property
    def active(self) -> TurnState | None:
        """The turn that is running or waiting, else the first that is queued."""
        turns = self.turns
        running = next((turn for turn in turns if turn.status in ("running", "waiting")), None)
        return running or next((turn for turn in turns if turn.status == "queued"), None)

    @property
    def questions(self) -> list[OpenQuestion]:
        """The unanswered questions of turns that have not ended, including those of sub-agents."""
        return [question for turn in self.turns if not turn.over for question in turn.open_questions]

    def turn(self, run_id: str) -> TurnState | None:
        """Returns the newest turn of a run, also of a sub-agent's."""
        return self._runs.get(run_id)

    def __repr__(self) -> str:
        return f"Transcript({len(self.items)} items, cursor {self.cursor})"

    def clear(self) -> None:
        """Forgets everything: the log is not the same as before."""
        self.items = []
        self.cursor = 0
        for known in (self._messages, self._runs, self._counts):
            known.clear()

    def apply(self, event: Event) -> bool:
        """Takes in an event; one without a number changes nothing. False: it can't be taken in, and a new snapshot is needed."""
        if event.seq is None:
            return True
        if isinstance(event, SnapshotEvent):
            self._snapshot(event)
        elif isinstance(event, MessageEvent):
            self._message(event.seq, event.message, event.run_id)
        elif isinstance(event, RunEvent):
            turn = self._turn_of(event.seq, event)
            if turn is not None and not turn.take(event.seq, event):
                return False
        elif isinstance(event, FocusEvent | UnknownEvent):
            # Not about a turn, or not known.
            pass
        self.cursor = event.seq
        return True

    def _turn_of(self, seq: int, event: RunEvent) -> TurnState | None:
        """Returns the turn that an event belongs to, which may begin with it."""
        turn = self._runs.get(event.run_id)
        parent = self._runs.get(event.parent_run_id) if event.parent_run_id and event.parent_run_id != event.run_id else None
        if turn is None:
            # An answer to a question that was asked before the reader came.
            begins = not isinstance(event, QuestionAnsweredEvent)
        elif not turn.over:
            begins = False
        elif parent is not None:
            begins = isinstance(event, SubAgentEvent) and event.status == "started" and turn.root.over
        else:
            begins = not isinstance(event, QuestionAnsweredEvent)
        if begins:
            turn = self._begin(event.run_id, parent)
            if parent is not None:
                parent.add(seq, AgentPart(turn))
            else:
                self.items.append(turn)
        if turn is not None and event.parent_run_id and turn.source is None:
            turn.source, turn.step_number = event.source, event.step_number
        return turn

    def _begin(self, run_id: str, parent: TurnState | None = None) -> TurnState:
        count = self._counts.get(run_id, 0) + 1
        self._counts[run_id] = count
        turn = TurnState(run_id if count == 1 else f"{run_id}#{count}", run_id, parent)
        self._runs[run_id] = turn
        return turn

    def _message(self, seq: int, message: Message, run_id: str | None) -> None:
        if message.id in self._messages:
            return
        self._messages[message.id] = message
        turn = self._runs.get(run_id) if run_id else None
        if message.role == "assistant" and turn is not None:
            turn.message = message
        elif message.role == "user" and turn is not None and not turn.over:
            turn.add(seq, ReceivedPart(message))
        else:
            if message.role != "assistant":
                self.items.append(message)
            if run_id:
                turn = self._begin(run_id)
                self.items.append(turn)
                if message.role == "user":
                    turn.message_id = message.id
                else:
                    _show_stored(turn, message)

    def _snapshot(self, snapshot: SnapshotEvent) -> None:
        """Lays the state up to a number over what is known."""
        for message in snapshot.messages:
            if message.role == "assistant":
                self._stored_answer(snapshot.through, message)
                continue
            if message.id not in self._messages:
                self._messages[message.id] = message
                self.items.append(message)
            if message.run_id and message.run_state:
                self._stored_state(message.run_id, message.id, message.run_state)
        if snapshot.turn is not None:
            turn = self._runs.get(snapshot.turn.run_id)
            if turn is None or turn.over:
                turn = self._begin(snapshot.turn.run_id)
                self.items.append(turn)
            if turn.message_id is None:
                turn.message_id = next((message.id for message in snapshot.messages if message.run_id == turn.run_id), None)
            fill_turn(turn, snapshot.through, snapshot.turn, self._child)

    def _stored_state(self, run_id: str, message_id: str, state: str) -> None:
        """The turn that answers a message, as far as it is known by its state alone."""
        turn = self._runs.get(run_id)
        if turn is None:
            turn = self._begin(run_id)
            turn.message_id = message_id
            self.items.append(turn)
        elif turn.over:
            return
        turn.status = state
        if state in OVER:
            turn.partial = True
            turn.settle()

    def _stored_answer(self, through: int, message: Message) -> None:
        """The turn of which a snapshot has the answer."""
        if message.id in self._messages:
            return
        self._messages[message.id] = message
        run_id = (message.retrieval_context or {}).get("agent_run_id") or message.run_id
        if not isinstance(run_id, str):
            self.items.append(message)
            return
        turn = self._runs.get(run_id)
        if turn is None or turn.message is not None or (turn.over and not turn.partial):
            # Nothing is known of it, or it is another turn of a run that was resumed.
            turn = self._begin(run_id)
            self.items.append(turn)
        status = turn.status if turn.over else "completed"
        turn.fill(through, lambda: None)
        turn.status = status
        _show_stored(turn, message)

    def _child(self, parent: TurnState, run_id: str) -> TurnState:
        """Begins the turn of a sub-agent that a snapshot has."""
        self._counts.pop(run_id, None)
        return self._begin(run_id, parent)


def _show_stored(turn: TurnState, message: Message) -> None:
    """Shows a turn of which only the stored message is known."""
    turn.append("text", message.content)
    turn.message = message
    turn.citations = message.citations or []
    turn.status = turn.status if turn.over else "completed"
    turn.partial = True
    turn.settle()
