"""Drives an agent that is a function: sync, async, or a generator of text pieces."""

from __future__ import annotations

import copy
import functools
import inspect
import itertools
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from types import CoroutineType
from typing import Any

from agentflow_eval.adapters._target import Session, Turn
from agentflow_eval.adapters._threads import run_blocking
from agentflow_eval.collector import TrajectoryCollector
from agentflow_eval.dataset import SessionInput
from agentflow_eval.errors import AgentError, TargetError

_FILLED = ("text", "messages", "session", "run", "fixtures")


class FunctionTarget:
    """A function agent.

    Its parameters are filled by name: ``text`` (also the first parameter of any other name, and ``*args``),
    ``messages`` (the whole conversation so far, this turn's message last), ``session`` (a copy, the same in every turn
    of the conversation), ``run`` (the recorder of this case), ``fixtures`` (the values of the case's fixtures by name)
    and the name of a fixture (its value).

    Args:
        function: The agent.
        fixtures: The names of the fixtures that cases may have.

    Raises:
        TargetError: The function needs a parameter that nothing fills.
    """

    def __init__(self, function: Callable[..., Any], fixtures: Sequence[str] = ()) -> None:
        self._function = function
        self._positional, self._named = _parameters(function, fixtures)
        self._is_async = is_async(function)

    async def run_turn(self, turn: Turn, session: Session, collector: TrajectoryCollector) -> None:
        """Calls the function and records what it returns or yields."""
        positional = [self._value(filled, turn, session, collector) for filled in self._positional]
        named = {name: self._value(filled, turn, session, collector) for name, filled in self._named.items()}
        call = functools.partial(self._function, *positional, **named)
        if self._is_async:
            outcome = call()
        else:
            outcome = await run_blocking(functools.partial(_called, call, collector))
        if type(outcome) is CoroutineType or inspect.isawaitable(outcome):
            outcome = await outcome
        session.raw[turn.index] = outcome
        if type(outcome) is str:
            collector.say(outcome)
        elif isinstance(outcome, AsyncIterator):
            async for item in outcome:
                _take_piece(item, collector)
        elif isinstance(outcome, Iterator):
            await run_blocking(functools.partial(_exhaust, outcome, collector))
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
        if name == "fixtures":
            return session.fixtures
        if name != "session":
            return _fixture(name, session)
        if "session" not in session.memory:
            own = session.memory["session"] = SessionInput(
                app_name=session.app_name, user_id=session.user_id, state=session.state, config=session.config
            )
            session.state = own.state  # what the agent changes, checks see
        return session.memory["session"]


def _fixture(name: str, session: Session) -> Any:
    if name not in session.fixtures:
        there = ", ".join(session.fixtures) or "none"
        raise AgentError(f"the agent needs the fixture {name!r}, and the case does not name it (its fixtures: {there})")
    return session.fixtures[name]


def _called(call: Callable[[], Any], collector: TrajectoryCollector) -> Any:
    """The call and, when it returns a generator, the whole of it, in the worker thread."""
    outcome = call()
    return _exhaust(outcome, collector) if isinstance(outcome, Iterator) else outcome


def _exhaust(pieces: Iterator[Any], collector: TrajectoryCollector) -> None:
    for item in pieces:
        _take_piece(item, collector)


def _take_piece(item: Any, collector: TrajectoryCollector) -> None:
    if isinstance(item, str):
        collector.piece(item)
    else:
        collector.take(item)


def is_async(function: Callable[..., Any]) -> bool:
    """Whether a call of ``function`` gives something to await or to iterate asynchronously, and so does not block."""
    inner: Any = function  # never unwrapped: a wrapper may be sync although what it wraps is not
    while isinstance(inner, functools.partial):
        inner = inner.func
    candidates = [inner] if inspect.isroutine(inner) else [inner, type(inner).__call__]
    return any(inspect.iscoroutinefunction(f) or inspect.isasyncgenfunction(f) for f in candidates)


def _parameters(function: Callable[..., Any], fixtures: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """What fills the positional parameters, and parameter -> what fills it for the others."""
    name = getattr(function, "__name__", type(function).__name__)
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError) as exc:
        raise TargetError(f"{name}: its parameters cannot be read; wrap it in `def agent(text): ...`") from exc
    usable = [p for p in parameters if p.kind is not p.VAR_KEYWORD]
    filled = {p.name: p.name for p in usable if p.name in _FILLED and p.kind is not p.VAR_POSITIONAL}
    filled |= {p.name: p.name for p in usable if p.name in fixtures and p.default is p.empty}
    if usable and "text" not in filled and usable[0].name not in filled:
        filled = {usable[0].name: "text"} | filled
    unfilled = [p.name for p in usable if p.name not in filled and p.default is p.empty and p.kind != p.VAR_POSITIONAL]
    if unfilled:
        raise TargetError(
            f"{name}: nothing fills the parameter {unfilled[0]!r}; an agent function takes any of {', '.join(_FILLED)} "
            "by name, and its first parameter may have another name"
        )
    by_position = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_POSITIONAL)
    positional = itertools.takewhile(lambda p: p.kind in by_position and p.name in filled, usable)
    return [filled.pop(p.name) for p in list(positional)], filled
