"""A limit that a stranger's coroutine cannot ignore."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time

import pytest

from agentflow_eval.engine._bounded import Ended, bounded


def test_in_time() -> None:
    """Work that ends in time is reported with its seconds."""
    ended = asyncio.run(bounded(asyncio.sleep(0.01), 5))
    assert 0.005 < ended.seconds < 5
    assert Ended(seconds=ended.seconds) == ended


def test_past_the_limit() -> None:
    """Work past the limit is cancelled and may clean up."""
    cleaned: list[bool] = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            cleaned.append(True)

    ended = asyncio.run(bounded(work(), 0.02))
    assert (ended.timed_out, ended.abandoned, ended.cancelled, ended.blocked_seconds) == (True, False, False, 0.0)
    assert cleaned == [True]


def test_cleanup_that_raises() -> None:
    """What the cleanup of cancelled work raises is nobody's surprise."""

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise ValueError("disk full")

    assert asyncio.run(bounded(work(), 0.02)).timed_out


def test_ignored_cancellation() -> None:
    """Work that ignores its cancellation is left to itself after a grace period."""

    released = False

    async def work() -> None:
        while not released:
            try:
                await asyncio.sleep(0.02)
            except asyncio.CancelledError:
                continue

    async def main() -> Ended:
        nonlocal released
        ended = await bounded(work(), 0.02)
        released = True
        await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()})
        return ended

    ended = asyncio.run(main())
    assert (ended.timed_out, ended.abandoned) == (True, True)
    assert ended.seconds >= 1.0


def test_blocked_loop() -> None:
    """Work that blocks the event loop past its limit has timed out, and the seconds are told."""

    async def work() -> None:
        time.sleep(0.1)

    ended = asyncio.run(bounded(work(), 0.02))
    assert ended.timed_out
    assert ended.blocked_seconds > 0.05


def test_blocked_loop_and_late_timer() -> None:
    """A timer that fires much too late says that the loop was blocked."""

    async def work() -> None:
        time.sleep(0.6)
        await asyncio.sleep(5)

    ended = asyncio.run(bounded(work(), 0.02))
    assert ended.timed_out
    assert ended.blocked_seconds > 0.5


def test_cancelled_from_outside() -> None:
    """Cancelling the caller cancels the work and raises."""
    seen: list[str] = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    async def main() -> None:
        task = asyncio.create_task(bounded(work(), 5))
        await asyncio.sleep(0.01)
        task.cancel()
        await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(main())
    assert seen == ["cancelled"]


def test_cancelled_by_itself() -> None:
    """Work that cancels its own task has not timed out and says so."""

    async def work() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(1)

    ended = asyncio.run(bounded(work(), 5))
    assert (ended.cancelled, ended.timed_out) == (True, False)


STUBBORN = """
import asyncio
from agentflow_eval.engine._bounded import bounded

async def stubborn():
    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            pass

async def main():
    return (await bounded(stubborn(), 0.05)).abandoned

print(asyncio.run(main()))
"""


def test_what_ignores_its_cancellation_does_not_hold_up_the_end() -> None:
    """`asyncio.run` returns although a task goes on, and nothing is said about it."""
    done = subprocess.run([sys.executable, "-c", STUBBORN], capture_output=True, text=True, timeout=30, check=False)
    assert (done.stdout, done.stderr) == ("True\n", "")
