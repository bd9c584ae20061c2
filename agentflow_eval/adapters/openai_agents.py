"""Drives an agent of the OpenAI Agents SDK and records what it does.

A tool that raises is seen as failed when the SDK answers for it with its own text; what a ``failure_error_function`` of
the user's returns cannot be told from a result. Agents used as tools are recorded as that tool.
"""

from __future__ import annotations

import functools
from typing import Any

from agentflow_eval.adapters._target import Session, Turn
from agentflow_eval.collector import ToolRecord, TrajectoryCollector
from agentflow_eval.result import TokenUsage


class OpenAIAgentTarget:
    """An ``Agent``, which may hand over to others; every agent that takes over is a node visit, a handoff an edge.

    The conversation goes on with the agent that answered last. ``session_input.config`` of a case goes to
    ``Runner.run``: ``context``, ``max_turns``, ``run_config`` and the like. Traces are sent nowhere unless a
    ``run_config`` says so.
    """

    def __init__(self, agent: Any) -> None:
        self._agent = agent

    async def run_turn(self, turn: Turn, session: Session, collector: TrajectoryCollector) -> None:
        """Plays one turn; the records are written as the run's hooks are called."""
        from agents import RunConfig, Runner

        said = [*session.memory.get("history", ()), {"role": "user", "content": turn.text}]
        agent = session.memory.get("agent", self._agent)
        options = {"run_config": RunConfig(tracing_disabled=True), **session.config}
        result = await Runner.run(agent, said, hooks=_hooks(collector), **options)
        session.memory.update(history=result.to_input_list(), agent=result.last_agent)
        session.raw[turn.index] = result
        collector.say(result.final_output)


def _hooks(collector: TrajectoryCollector) -> Any:
    return _hooks_class()(collector)


@functools.cache
def _hooks_class() -> type:
    from agents import Handoff, RunHooks
    from agents.tool import default_tool_error_function

    class Recorder(RunHooks[Any]):
        """Writes what the hooks tell; an observer never raises into the agent."""

        def __init__(self, collector: TrajectoryCollector) -> None:
            self.collector = collector
            self.open: dict[str, ToolRecord] = {}

        async def on_agent_start(self, context: Any, agent: Any) -> None:  # noqa: ARG002
            self.collector.node(agent.name)

        async def on_handoff(self, context: Any, from_agent: Any, to_agent: Any) -> None:  # noqa: ARG002
            self.collector.conditional(from_agent.name, to_agent.name)

        async def on_llm_end(self, context: Any, agent: Any, response: Any) -> None:  # noqa: ARG002
            try:
                self.record(agent, response)
            except Exception as exc:
                self.collector.observer_failed(exc)

        async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: Any) -> None:  # noqa: ARG002
            record = self.open.get(getattr(context, "tool_call_id", ""))
            if record is None:
                return
            if result == default_tool_error_function(context, Exception()):
                record.error = result
            else:
                record.result = result

        def record(self, agent: Any, response: Any) -> None:
            handoffs = {
                handoff.tool_name if isinstance(handoff, Handoff) else Handoff.default_tool_name(handoff)
                for handoff in agent.handoffs
            }
            items = [item.model_dump() if hasattr(item, "model_dump") else dict(item) for item in response.output]
            calls = [item for item in items if str(item.get("type", "")).endswith("_call")]
            tools = [(call, call.get("name") or call["type"]) for call in calls if call.get("name") not in handoffs]
            self.collector.node_response(
                agent.name,
                response_text="".join(
                    part.get("text") or ""
                    for item in items
                    if item.get("type") == "message"
                    for part in item["content"]
                ),
                tool_call_names=[name for _, name in tools],
                token_usage=_usage(response.usage),
            )
            for call, name in tools:
                call_id = call.get("call_id") or call.get("id") or ""
                self.open[call_id] = self.collector.tool(name, call.get("arguments"), call_id=call_id)

    return Recorder


def _usage(usage: Any) -> TokenUsage:
    return TokenUsage(
        input_tokens=usage.input_tokens or 0,
        output_tokens=usage.output_tokens or 0,
        total_tokens=usage.total_tokens or 0,
        cache_read_tokens=getattr(usage.input_tokens_details, "cached_tokens", 0) or 0,
    )
