"""Fills a turn from a snapshot. Only `Transcript` uses it."""

from __future__ import annotations

from collections.abc import Callable

from .events import SnapshotAgent, SnapshotToolCall, SnapshotTurn
from .turn_state import AgentPart, ToolCall, TurnState


def fill_turn(turn: TurnState, through: int, snapshot: SnapshotTurn, begin: Callable[[TurnState, str], TurnState]) -> None:
    """Replaces a turn's content by what a snapshot has of its run. `begin` makes the turn of a sub-agent."""
    known = {agent.run_id for agent in snapshot.agents}
    children: dict[str, list[SnapshotAgent]] = {}
    for agent in snapshot.agents:
        # A sub-agent of an unknown parent belongs to the turn itself.
        parent = agent.parent_run_id if agent.parent_run_id in known else None
        children.setdefault(parent or turn.run_id, []).append(agent)

    def fill(filled: TurnState, text: str, calls: list[SnapshotToolCall], values: Callable[[], None]) -> None:
        # The sub-agents' turns are made once, and stay when a reset folds the turn again.
        agents: list[tuple[int, AgentPart]] = []
        for agent in children.get(filled.run_id, []):
            child = begin(filled, agent.run_id)
            child.source, child.step_number = agent.source or "sub_agent", agent.step_number
            fill(child, agent.text, agent.tool_calls, _values_of_agent(child, agent))
            if child.over:
                child.settle()
            agents.append((agent.after_text, AgentPart(child)))

        def base() -> None:
            values()
            _lay_out(filled, text, calls, agents)

        filled.fill(through, base)

    fill(turn, snapshot.text, snapshot.tool_calls, _values_of_turn(turn, snapshot))


def _values_of_turn(turn: TurnState, snapshot: SnapshotTurn) -> Callable[[], None]:
    def fill() -> None:
        if snapshot.meta is not None:
            waits = snapshot.questions or any(agent.status == "started" for agent in snapshot.agents)
            turn.status = "waiting" if waits else "running"
            turn.model, turn.attempt, turn.citations = snapshot.meta.model, snapshot.meta.attempt, snapshot.meta.citations
            turn.agent, turn.agent_definition_id = snapshot.meta.agent, snapshot.meta.agent_definition_id
        turn.append("reasoning", snapshot.reasoning)
        for question in snapshot.questions:
            turn.ask(question)

    return fill


def _values_of_agent(turn: TurnState, snapshot: SnapshotAgent) -> Callable[[], None]:
    def fill() -> None:
        turn.status = "running" if snapshot.status == "started" else snapshot.status
        turn.agent, turn.task = snapshot.agent, snapshot.task

    return fill


def _lay_out(turn: TurnState, text: str, calls: list[SnapshotToolCall], agents: list[tuple[int, AgentPart]]) -> None:
    """Adds text, calls and sub-agents in the order in which they happened."""
    # Positions are counted in UTF-16 units. At the same position, calls come first: a call may start sub-agents.
    units = text.encode("utf-16-le")
    marks: list[tuple[int, SnapshotToolCall | AgentPart]] = [(call.after_text, call) for call in calls]
    marks += agents
    marks.sort(key=lambda mark: mark[0])
    shown = 0
    for position, mark in marks:
        turn.append("text", units[2 * shown : 2 * position].decode("utf-16-le", errors="replace"))
        shown = max(shown, position)
        if isinstance(mark, AgentPart):
            turn.parts.append(mark)
        else:
            turn.call(ToolCall(mark.call_id, mark.tool, mark.status, mark.input, mark.result, mark.error))
    turn.append("text", units[2 * shown :].decode("utf-16-le", errors="replace"))
