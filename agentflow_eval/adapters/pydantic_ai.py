"""Drives an agent of pydantic-ai and records what it does.

Agents that an agent runs inside its tools are not seen, only the tool.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from agentflow_eval.adapters._target import Session, Turn
from agentflow_eval.collector import ToolRecord, TrajectoryCollector
from agentflow_eval.errors import AgentError
from agentflow_eval.result import TokenUsage


class PydanticAITarget:
    """An ``Agent``. Every model request is a visit of the node that is named like the agent.

    ``session_input.config`` of a case goes to ``agent.iter``: ``deps``, ``usage_limits`` and the like.
    """

    def __init__(self, agent: Any) -> None:
        self._agent = agent

    async def run_turn(self, turn: Turn, session: Session, collector: TrajectoryCollector) -> None:
        """Plays one turn; the records are written after each step of the agent's graph.

        Raises:
            AgentError: The run stopped to wait for a human or for a tool that runs elsewhere.
        """
        recorder = _Recorder(collector, self._agent.name or "agent")
        history = session.memory.get("history")
        async with self._agent.iter(turn.text, message_history=history, **session.config) as run:
            async for node in run:
                if self._agent.is_model_request_node(node):
                    recorder.ended(node.request.parts)
                elif self._agent.is_call_tools_node(node):
                    recorder.replied(node.model_response)
        recorder.ended(part for message in run.result.new_messages() for part in message.parts)
        session.memory["history"] = run.result.all_messages()
        session.raw[turn.index] = run.result
        output = run.result.output
        if type(output).__name__ == "DeferredToolRequests":
            waiting = ", ".join(call.tool_name for call in [*output.approvals, *output.calls])
            raise AgentError(f"the run stopped to wait for the tools {waiting}")
        collector.say(output)


class _Recorder:
    """Turns the messages of one turn into records."""

    def __init__(self, collector: TrajectoryCollector, name: str) -> None:
        self._collector = collector
        self._name = name
        self._open: dict[str, ToolRecord] = {}

    def replied(self, response: Any) -> None:
        """Records what a model said and the tools that it wants; the tool that carries the output is none."""
        wanted = [
            part for part in response.parts if part.part_kind.endswith("tool-call") and part.tool_kind != "output"
        ]
        wanted = [part for part in wanted if not _carries_output(part)]
        self._collector.node(self._name)
        self._collector.node_response(
            self._name,
            response_text="".join(part.content for part in response.parts if part.part_kind == "text"),
            tool_call_names=[part.tool_name for part in wanted],
            token_usage=_usage(response.usage),
        )
        for part in wanted:
            self._open[part.tool_call_id] = self._collector.tool(part.tool_name, part.args, call_id=part.tool_call_id)
        self.ended(response.parts)  # those that run at the provider

    def ended(self, parts: Iterable[Any]) -> None:
        """Notes what tools returned, or why they failed."""
        for part in parts:
            record = self._open.get(getattr(part, "tool_call_id", None) or "")
            if record is None:
                continue
            if part.part_kind == "retry-prompt":
                record.error = part.model_response()
            elif part.part_kind.endswith("tool-return"):
                failed = getattr(part, "outcome", "success") not in ("success", None)
                record.result = None if failed else part.content
                record.error = part.content if failed else None


def _carries_output(part: Any) -> bool:
    return str(part.tool_name).startswith("final_result")


def _usage(usage: Any) -> TokenUsage:
    return TokenUsage(
        input_tokens=usage.input_tokens or 0,
        output_tokens=usage.output_tokens or 0,
        cache_read_tokens=usage.cache_read_tokens or 0,
        cache_creation_tokens=usage.cache_write_tokens or 0,
    )
