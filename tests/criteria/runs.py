"""Recorded runs and cases for the tests of criteria."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agentflow_eval import EvalCase, ExecutionResult, Invocation, ToolCall, TrajectoryCollector

Call = str | dict[str, Any] | ToolCall


def call(given: Call) -> ToolCall:
    """A call from its name, from the values of one, or as it is."""
    if isinstance(given, ToolCall):
        return given
    return ToolCall(name=given) if isinstance(given, str) else ToolCall(**given)


def calls(*given: Call) -> list[ToolCall]:
    """Calls from names or values."""
    return [call(one) for one in given]


def record(
    collector: TrajectoryCollector,
    answer: Any = "Done.",
    tools: Sequence[Call] = (),
    nodes: Sequence[str] = (),
    said: Sequence[str] = (),
) -> None:
    """Records one turn."""
    collector.begin_turn("question")
    for name in nodes:
        collector.node(name)
    for one in map(call, tools):
        collector.tool(one.name, one.args, result=one.result, error=one.error, call_id=one.call_id)
    for text in said:
        collector.message("assistant", text)
    collector.say(answer)
    collector.end_turn()


def run(*turns: dict[str, Any], **turn: Any) -> ExecutionResult:
    """A run of these turns; the values of a single turn may be given by name."""
    collector = TrajectoryCollector()
    for values in turns or (turn,):
        record(collector, **values)
    collector.finish()
    return collector.execution()


def case(*turns: Invocation, **more: Any) -> EvalCase:
    """A case of these turns."""
    return EvalCase(eval_id="c", conversation=list(turns), **more)


def expecting(
    answer: str | None = None,
    tools: Sequence[Call] | None = None,
    nodes: Sequence[str] | None = None,
    **more: Any,
) -> Invocation:
    """A turn with these expectations; None states nothing."""
    turn = Invocation.simple("question", answer, None if tools is None else calls(*tools), nodes)
    for name, value in more.items():
        setattr(turn, name, value)
    return turn
