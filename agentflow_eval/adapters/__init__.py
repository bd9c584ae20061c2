"""Turns any agent into a `Target`: what the engine drives turn by turn."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from agentflow_eval.adapters._target import AgentShape, Session, Target, Turn, shape_of
from agentflow_eval.adapters.function import FunctionTarget
from agentflow_eval.config import HttpEndpoint
from agentflow_eval.errors import AgentflowEvalError, TargetError, exception_text

__all__ = ["AgentShape", "Session", "Target", "Turn", "adapt", "release_connections", "shape_of"]


def adapt(
    agent: Any,
    *,
    input_key: str | None = None,
    output_key: str | None = None,
    output_node: str | None = None,
    initial_state: Mapping[str, Any] | None = None,
    fixtures: Sequence[str] = (),
) -> Target:
    """The agent as something that can be driven turn by turn.

    Takes a compiled LangGraph graph, a graph of 10xgraph, an agent or a graph of tulip, an agent or a team of agno, a
    kit of executionkit, an agent of pydantic-ai or of the OpenAI Agents SDK, an `HttpEndpoint`, an object with
    ``ainvoke``, a function (sync, async, generator), or a `Target`.

    Args:
        agent: The agent.
        input_key: Field of the graph's state that takes the user's text; None for a state with ``messages``.
        output_key: Field of the final state that holds the answer; None for the last message.
        output_node: Node whose last own output is the answer, instead of ``output_key``.
        initial_state: Fields that every run of the graph starts with.
        fixtures: Names of fixtures that parameters of a function can be named like.

    Raises:
        TargetError: The object is none of these; the message says what it is and what would do.
    """
    options: dict[str, Any] = {
        "input_key": input_key,
        "output_key": output_key,
        "output_node": output_node,
        "initial_state": dict(initial_state or {}),
    }
    try:
        return _target(agent, options, fixtures)
    except AgentflowEvalError:
        raise
    except Exception as exc:  # an object may raise from anything that is asked of it
        raise TargetError(
            f"cannot drive a {type(agent).__qualname__}: looking at it raised {exception_text(exc)}"
        ) from exc


def _target(agent: Any, options: Mapping[str, Any], fixtures: Sequence[str]) -> Target:
    if isinstance(agent, type):
        raise TargetError(f"the agent is the class {agent.__name__}; give an instance of it")
    if isinstance(agent, HttpEndpoint):
        from agentflow_eval.adapters.http import HttpTarget

        return _without_options(HttpTarget(agent), agent, options)
    if isinstance(agent, Target):
        return _without_options(agent, agent, options)
    drive = _DRIVEN.get(_origin(agent))
    if drive is not None:
        return drive(agent, options)
    if callable(getattr(agent, "ainvoke", None)):
        from agentflow_eval.adapters.ainvoke import AinvokeTarget

        return AinvokeTarget(agent, **options)
    if inspect.isroutine(agent) or callable(agent):
        return _without_options(FunctionTarget(agent, fixtures), agent, options)
    raise TargetError(
        f"cannot drive {_named(agent)}: an agent is a compiled LangGraph graph, an object with `ainvoke`, or a "
        "function such as `async def agent(text): ...`"
    )


async def release_connections(targets: Iterable[Any]) -> None:
    """Closes the connections that targets keep from turn to turn; the next turn opens new ones."""
    for target in targets:
        release = getattr(target, "release_connections", None)
        if release is not None:
            await release()


def _origin(agent: Any) -> str:
    """The first package of an agent's class or base classes that is a known runtime; empty when there is none."""
    roots = [cls.__module__.partition(".")[0] for cls in type(agent).__mro__]
    return next((root for root in roots if root in _DRIVEN), "")


def _langgraph(agent: Any, options: Mapping[str, Any]) -> Target:
    from agentflow_eval.adapters.langgraph import LangGraphTarget

    return LangGraphTarget(agent, **options)


def _agentflow(agent: Any, options: Mapping[str, Any]) -> Target:
    from agentflow_eval.adapters.agentflow import AgentflowTarget

    return AgentflowTarget(agent, **options)


def _tulip(agent: Any, options: Mapping[str, Any]) -> Target:
    from agentflow_eval.adapters.tulip import TulipAgentTarget, TulipGraphTarget

    kinds = {cls.__name__ for cls in type(agent).__mro__}
    if "StateGraph" in kinds:
        return TulipGraphTarget(agent, **{**options, "input_key": options["input_key"] or "prompt"})
    if "Agent" in kinds:
        return _without_options(TulipAgentTarget(agent), agent, options)
    raise TargetError(f"cannot drive {_named(agent)}: of tulip an Agent and a StateGraph can be driven")


def _agno(agent: Any, options: Mapping[str, Any]) -> Target:
    from agentflow_eval.adapters.agno import AgnoTarget

    if not {"Agent", "Team"} & {cls.__name__ for cls in type(agent).__mro__}:
        raise TargetError(f"cannot drive {_named(agent)}: of agno an Agent and a Team can be driven")
    return _without_options(AgnoTarget(agent), agent, options)


def _executionkit(agent: Any, options: Mapping[str, Any]) -> Target:
    from agentflow_eval.adapters.executionkit import KitTarget

    if not callable(getattr(agent, "turn", None)):
        raise TargetError(f"cannot drive {_named(agent)}: of executionkit a Kit can be driven")
    return _without_options(KitTarget(agent, getattr(agent, "tools", ())), agent, options)


def _pydantic_ai(agent: Any, options: Mapping[str, Any]) -> Target:
    from agentflow_eval.adapters.pydantic_ai import PydanticAITarget

    if not callable(getattr(agent, "iter", None)):
        raise TargetError(f"cannot drive {_named(agent)}: of pydantic-ai an Agent can be driven")
    return _without_options(PydanticAITarget(agent), agent, options)


def _openai_agents(agent: Any, options: Mapping[str, Any]) -> Target:
    from agentflow_eval.adapters.openai_agents import OpenAIAgentTarget

    if not hasattr(agent, "handoffs"):
        raise TargetError(f"cannot drive {_named(agent)}: of the OpenAI Agents SDK an Agent can be driven")
    return _without_options(OpenAIAgentTarget(agent), agent, options)


def _without_options(target: Target, agent: Any, options: Mapping[str, Any]) -> Target:
    given = [name for name, value in options.items() if value]
    if given:
        raise TargetError(f"{', '.join(given)} only make sense for a graph, and the agent is {_named(agent)}")
    return target


def _named(agent: Any) -> str:
    return f"{type(agent).__module__}.{type(agent).__qualname__}"


_DRIVEN: dict[str, Callable[[Any, Mapping[str, Any]], Target]] = {
    "langgraph": _langgraph,
    "tenxgraph": _agentflow,
    "agentflow": _agentflow,
    "tulip": _tulip,
    "agno": _agno,
    "executionkit": _executionkit,
    "pydantic_ai": _pydantic_ai,
    "agents": _openai_agents,
}
"""Package of an agent's class -> what drives it."""
