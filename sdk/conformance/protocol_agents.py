"""The rules of agents in the API of `protocol_server`: a tool executes the turns of an agent, or a language model does, with a prompt."""

from __future__ import annotations

from typing import Any

from protocol_steps import StepRules

AGENTS_MAX = 128
TEXT_MAX_CHARS = 200
PROMPT_MAX_CHARS = 200_000
TOOLS_MAX = 500
KINDS: dict[str, dict[str, Any]] = {
    "tool": {"tool": str},
    "systemPrompt": {
        "systemPrompt": str,
        "tools_": list,
        "model_": (str, type(None)),
        "outputSchema_": (dict, type(None)),
        "maxSteps_": int,
    },
}
"""The fields of both kinds, by the one that decides."""


class AgentRules(StepRules):
    """The part of the API that checks agents."""

    def check_agents(self, agents: list[Any], served: set[str]) -> None:
        """Raises `ProblemError` if a registration must not have these agents. `served`: the names of its tools."""
        for agent in agents:
            self._check_agent(agent, served)
        names = [agent["name"] for agent in agents]
        if len(names) > AGENTS_MAX or len(set(names)) < len(names):
            raise self.violation(400, "invalid_registration", f"agents {names}")

    def _check_agent(self, agent: Any, served: set[str]) -> None:
        [kind, *more] = [kind for kind in KINDS if kind in agent] or [""]
        if more or not kind:
            raise self.violation(400, "invalid_registration", f"an agent with either a tool or a systemPrompt, not {agent}")
        self.fields(agent, name=str, description=str, **KINDS[kind])
        texts = [agent["name"], agent["description"]]
        if not agent["name"].strip() or any(len(text) > TEXT_MAX_CHARS or "\0" in text for text in texts):
            raise self.violation(400, "invalid_registration", f"the name and the description of the agent {agent}")
        if kind == "tool":
            if agent["tool"] not in served:
                raise self.violation(400, "invalid_registration", f"the tool of the agent {agent}")
            return
        tools, schema = agent.get("tools", []), agent.get("outputSchema")
        if len(agent["systemPrompt"]) > PROMPT_MAX_CHARS or "\0" in agent["systemPrompt"] or agent.get("maxSteps", 1) < 1:
            raise self.violation(400, "invalid_registration", f"the prompt or the limit of the agent {agent['name']}")
        if len(tools) > TOOLS_MAX or not all(isinstance(tool, str) and tool.strip() for tool in tools):
            raise self.violation(400, "invalid_registration", f"the tools of the agent {agent['name']}: {tools}")
        if schema is not None and schema.get("type") != "object":
            raise self.violation(400, "invalid_registration", f"the output of the agent {agent['name']}: {schema}")
        # The key has the scope `worker`, and no other.
        if not served.issuperset(tools):
            raise self.violation(403, "scope_missing", f"the agent {agent['name']} may call {tools}, and the worker serves {served}")
