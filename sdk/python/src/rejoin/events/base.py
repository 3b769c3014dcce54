"""What all events have in common."""

from __future__ import annotations

from pydantic import Field

from ..model import Model


class EventModel(Model):
    """What every event has."""

    seq: int | None = Field(default=None, exclude=True)
    """The event's number in its log: 1, 2, 3 … None: a frame about the connection."""


class RunEvent(EventModel):
    """An event of a run."""

    run_id: str
    agent: str | None = None
    """The agent's name, on events of sub-agents and plan steps. Also in `meta`."""
    parent_run_id: str | None = None
    """The run that started this one, if it is a sub-agent or executes a step of a plan."""
    source: str | None = None
    """`agent`, `planner`, `plan_step` or `sub_agent`."""
    step_number: int | None = None
    """The number of the plan's step."""
