"""Keeps what strangers' code does to the process inside its case: exits and prints."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import os
import sys
import threading
from collections.abc import Coroutine, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from agentflow_eval.collector import CURRENT
from agentflow_eval.errors import AgentError

_LONGEST_OUTPUT = 100_000

_inside: ContextVar[bool] = ContextVar("agentflow_eval_inside", default=False)
_lock = threading.Lock()


@contextmanager
def contained(loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """While it lasts, ``sys.exit`` in a task ends that task only, and what an agent prints goes to its case.

    Several runs may be inside at once; the last one that leaves puts everything back.
    """
    token, folder = _inside.set(True), os.getcwd()
    try:
        with _tasks_contained(loop), _prints_contained():
            yield
    finally:
        _inside.reset(token)
        with contextlib.suppress(OSError):
            os.chdir(folder)


@contextmanager
def _tasks_contained(loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    before = loop.get_task_factory()
    factory = before if isinstance(before, _Factory) else _Factory(before)
    factory.users += 1
    loop.set_task_factory(factory)
    try:
        yield
    finally:
        factory.users -= 1
        if not factory.users and loop.get_task_factory() is factory:
            loop.set_task_factory(factory.before)


class _Factory:
    """Makes tasks as before; those made inside a run cannot end the event loop with ``SystemExit``."""

    def __init__(self, before: Any) -> None:
        self.before = before
        self.users = 0

    def __call__(self, loop: asyncio.AbstractEventLoop, coro: Any, **options: Any) -> Any:
        if _inside.get() and inspect.iscoroutine(coro):
            coro = _without_exit(coro)
        if self.before is not None:
            return self.before(loop, coro, **options)
        return asyncio.Task(coro, loop=loop, **options)


async def _without_exit(coro: Coroutine[Any, Any, Any]) -> Any:
    try:
        return await coro
    except SystemExit as exc:
        error = AgentError(f"SystemExit({exc.code!r}): a task tried to end the process")
        collector = CURRENT.get()
        if collector is not None:
            collector.exits.append(error)
        raise error from exc


@contextmanager
def _prints_contained() -> Iterator[None]:
    with _lock:
        router = sys.stdout if isinstance(sys.stdout, _Router) else _Router(sys.stdout)
        router.users += 1
        sys.stdout, errors = router, sys.stderr
    try:
        yield
    finally:
        with _lock:
            router.users -= 1
            if not router.users:  # whatever the agent has put there instead
                sys.stdout, sys.stderr = router.stream, errors


class _Router:
    """A standard output, or its bytes, that sends what an agent prints to the collector of its case."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream
        self.users = 0

    def write(self, text: Any) -> int:
        collector = CURRENT.get()
        if collector is None:
            written: int = self.stream.write(text)
            return written
        room = max(0, _LONGEST_OUTPUT - len(collector.stdout))
        collector.stdout += text[:room] if isinstance(text, str) else bytes(text)[:room].decode("utf-8", "replace")
        return len(text)

    def writelines(self, lines: Iterable[Any]) -> None:
        for line in lines:
            self.write(line)

    def close(self) -> None:
        """Stays open: the stream is not the agent's."""

    @property
    def buffer(self) -> _Router:
        return _Router(self.stream.buffer)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)
