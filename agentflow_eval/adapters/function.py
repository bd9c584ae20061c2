"""Drives an agent that is a function: sync, async, or a generator of text pieces."""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

from agentflow_eval.adapters._target import Session, Turn
from agentflow_eval.adapters._threads import run_blocking
from agentflow_eval.collector import TrajectoryCollector
from agentflow_eval.dataset import SessionInput
from agentflow_eval.errors import TargetError

_FILLED = ("text", "messages", "session", "run")


class FunctionTarget:
    """A function agent.

    Its parameters are filled by name: ``text`` (also the first parameter of any other name), ``messages`` (the whole
    conversation so far, this turn's message last), ``session`` (a copy) and ``run`` (the recorder of this case).

    Raises:
        TargetError: The function needs a parameter that nothing fills.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._names = _parameters(function)
        self._is_async = _is_async(function)

    async def run_turn(self, turn: Turn, session: Session, collector: TrajectoryCollector) -> None:
        """Calls the function and records what it returns or yields."""
        arguments = {
            parameter: self._value(filled, turn, session, collector) for parameter, filled in self._names.items()
        }
        call = functools.partial(self._function, **arguments)
        if self._is_async:
            outcome = call()
        else:
            outcome = await run_blocking(functools.partial(_called, call, collector))
        if inspect.isawaitable(outcome):
            outcome = await outcome
        if isinstance(outcome, AsyncIterator):
            async for item in outcome:
                _take_piece(item, collector)
        else:
            collector.take(outcome)

    @staticmethod
    def _value(name: str, turn: Turn, session: Session, collector: TrajectoryCollector) -> Any:
        if name == "text":
            return turn.text
        if name == "run":
            return collector
        if name == "messages":
            return [*copy.deepcopy(session.messages), {"role": "user", "content": turn.text}]
        return SessionInput(
            app_name=session.app_name, user_id=session.user_id, state=session.state, config=session.config
        )


def _called(call: Callable[[], Any], collector: TrajectoryCollector) -> Any:
    """The call and, when it returns a generator, the whole of it, in the worker thread."""
    outcome = call()
    if isinstance(outcome, Iterator):
        for item in outcome:
            _take_piece(item, collector)
        return None
    return outcome


def _take_piece(item: Any, collector: TrajectoryCollector) -> None:
    if isinstance(item, str):
        collector.piece(item)
    else:
        collector.take(item)


def _is_async(function: Callable[..., Any]) -> bool:
    inner = inspect.unwrap(function, stop=lambda f: inspect.iscoroutinefunction(f))
    while isinstance(inner, functools.partial):
        inner = inner.func
    candidates = [inner] if inspect.isroutine(inner) else [inner, type(inner).__call__]
    return any(inspect.iscoroutinefunction(f) or inspect.isasyncgenfunction(f) for f in candidates)


def _parameters(function: Callable[..., Any]) -> dict[str, str]:
    """Parameter -> what fills it."""
    name = getattr(function, "__name__", type(function).__name__)
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError) as exc:
        raise TargetError(f"{name}: its parameters cannot be read; wrap it in `def agent(text): ...`") from exc
    named = [p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    positional_only = [p.name for p in parameters if p.kind is p.POSITIONAL_ONLY and p.default is p.empty]
    filled = {p.name: p.name for p in named if p.name in _FILLED}
    if named and "text" not in filled and named[0].name not in _FILLED:
        filled = {named[0].name: "text"} | filled
    unfilled = [p.name for p in named if p.name not in filled and p.default is p.empty] + positional_only
    if unfilled:
        raise TargetError(
            f"{name}: nothing fills the parameter {unfilled[0]!r}; an agent function takes any of {', '.join(_FILLED)} "
            "by name, and its first parameter may have another name"
        )
    return filled
