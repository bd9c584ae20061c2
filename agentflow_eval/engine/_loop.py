"""Runs one coroutine from synchronous code: Ctrl-C stops it in steps, and nothing that hangs holds up the end."""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import FrameType
from typing import Any, TypeVar

Result = TypeVar("Result")

_CLOSING_SECONDS = 2.0


def run(main: Coroutine[Any, Any, Result], on_interrupt: Callable[[], None]) -> Result:
    """The result of ``main``.

    The first Ctrl-C calls ``on_interrupt``, the second cancels ``main``, the third raises KeyboardInterrupt. Unlike
    `asyncio.run` it waits only briefly for tasks and threads that do not end.
    """
    loop = asyncio.new_event_loop()
    executor = ThreadPoolExecutor(thread_name_prefix="agentflow-eval")
    loop.set_default_executor(executor)
    try:
        asyncio.set_event_loop(loop)
        task = loop.create_task(main)
        with _interrupts(loop, task, on_interrupt):
            return loop.run_until_complete(task)
    finally:
        _close(loop, executor)


@contextmanager
def _interrupts(
    loop: asyncio.AbstractEventLoop, task: asyncio.Task[Any], on_interrupt: Callable[[], None]
) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    count = 0

    def interrupted(_signal: int, _frame: FrameType | None) -> None:
        nonlocal count
        count += 1
        if count == 1:
            print("\nstopping: no new cases, running ones finish; Ctrl-C again stops now", file=sys.stderr)
            loop.call_soon_threadsafe(on_interrupt)
        elif count == 2:
            loop.call_soon_threadsafe(task.cancel)
        else:
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, interrupted)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _close(loop: asyncio.AbstractEventLoop, executor: ThreadPoolExecutor) -> None:
    try:
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        if left:
            loop.run_until_complete(asyncio.wait(left, timeout=_CLOSING_SECONDS))
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        executor.shutdown(wait=False, cancel_futures=True)
        asyncio.set_event_loop(None)
        loop.close()
