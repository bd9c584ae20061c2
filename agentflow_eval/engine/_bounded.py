"""Gives a stranger's coroutine a time limit that it cannot ignore."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any

_GRACE_SECONDS = 1.0
"""How long a cancelled coroutine may clean up before it is left to itself."""
_LATE_SECONDS = 0.5
"""A timer that fires this late was held up by something that blocked the event loop."""


@dataclass(slots=True)
class Ended:
    """How a bounded run ended.

    Attributes:
        seconds: How long it took.
        timed_out: Whether it took longer than allowed.
        abandoned: Whether it went on although it was cancelled.
        cancelled: Whether it was cancelled by somebody else: by itself, or by what it awaited.
        blocked_seconds: How long the event loop was blocked past the limit; 0 when it was not.
    """

    seconds: float = 0.0
    timed_out: bool = False
    abandoned: bool = False
    cancelled: bool = False
    blocked_seconds: float = 0.0


async def bounded(work: Coroutine[Any, Any, None], limit: float) -> Ended:
    """Runs ``work``, which handles its own exceptions, in a task of its own for at most ``limit`` seconds.

    Past the limit the task is cancelled; if it does not end soon after, it is left to itself.
    """
    loop = asyncio.get_running_loop()
    ended = Ended()
    started = loop.time()
    waiter: asyncio.Future[None] = loop.create_future()

    def wake() -> None:
        if not waiter.done():
            waiter.set_result(None)

    async def work_then_wake() -> None:
        # Waking from inside the task, not from a callback of it, saves a turn of the event loop in every case.
        try:
            await work
        except asyncio.CancelledError:
            ended.cancelled = not ended.timed_out
            raise
        finally:
            wake()

    task = loop.create_task(work_then_wake())
    timers: list[asyncio.TimerHandle] = []

    def give_up() -> None:
        ended.abandoned = True
        wake()

    def time_out() -> None:
        late = loop.time() - started - limit
        ended.timed_out = True
        ended.blocked_seconds = late if late > _LATE_SECONDS else 0.0
        task.cancel()
        timers.append(loop.call_later(_GRACE_SECONDS, give_up))

    timers.append(loop.call_later(limit, time_out))
    try:
        await waiter
    except asyncio.CancelledError:
        task.cancel()
        await asyncio.wait([task], timeout=_GRACE_SECONDS)
        raise
    finally:
        for timer in timers:
            timer.cancel()
        if ended.timed_out:
            task.add_done_callback(_seen)
        if ended.abandoned:
            _leave_to_itself(task)
    ended.seconds = loop.time() - started
    if not ended.timed_out and ended.seconds > limit:
        ended.timed_out = True
        ended.blocked_seconds = ended.seconds - limit
    return ended


def _leave_to_itself(task: asyncio.Task[None]) -> None:
    """Keeps a task that will not end from holding up the end of its loop, as `asyncio.run` waits for all it knows."""
    asyncio._unregister_task(task)
    task._log_destroy_pending = False  # type: ignore[attr-defined]  # that it never ended is in the report


def _seen(task: asyncio.Task[None]) -> None:
    """Marks the exception of a task that nobody awaits as seen."""
    if not task.cancelled():
        task.exception()
