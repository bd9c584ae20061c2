"""Keeps what an agent does to the process inside its case: exits and prints."""

from __future__ import annotations

import asyncio
import inspect
import sys
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from agentflow_eval.collector import CURRENT
from agentflow_eval.errors import AgentError

_LONGEST_OUTPUT = 100_000


@contextmanager
def contained(loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """While it lasts, ``sys.exit`` in a task of an agent ends that task only, and what it prints goes to its case."""
    with _tasks_contained(loop), _prints_contained():
        yield


@contextmanager
def _tasks_contained(loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    before = loop.get_task_factory()
    if isinstance(before, _Factory):
        yield
        return
    loop.set_task_factory(_Factory(before))
    try:
        yield
    finally:
        loop.set_task_factory(before)


class _Factory:
    """Makes tasks as before; those made by an agent cannot end the event loop with ``SystemExit``."""

    def __init__(self, before: Any) -> None:
        self._before = before

    def __call__(self, loop: asyncio.AbstractEventLoop, coro: Any, **options: Any) -> Any:
        if CURRENT.get() is not None and inspect.iscoroutine(coro):
            coro = _without_exit(coro)
        if self._before is not None:
            return self._before(loop, coro, **options)
        return asyncio.Task(coro, loop=loop, **options)


async def _without_exit(coro: Coroutine[Any, Any, Any]) -> Any:
    try:
        return await coro
    except SystemExit as exc:
        raise AgentError(f"SystemExit({exc.code!r}): the agent tried to end the process") from exc


@contextmanager
def _prints_contained() -> Iterator[None]:
    before = sys.stdout
    if isinstance(before, _Router):
        yield
        return
    sys.stdout = _Router(before)
    try:
        yield
    finally:
        sys.stdout = before


class _Router:
    """A standard output that sends what an agent prints to the collector of its case."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        collector = CURRENT.get()
        if collector is None:
            return self._stream.write(text)
        if len(collector.stdout) < _LONGEST_OUTPUT:
            collector.stdout += text[:_LONGEST_OUTPUT]
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
