"""One coroutine from synchronous code, and Ctrl-C in steps."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from collections.abc import AsyncIterator

import pytest

from agentflow_eval.engine import _loop


def interrupts(times: int, stopped: list[str]) -> str:
    """What becomes of a coroutine that gets Ctrl-C so many times."""

    async def main() -> str:
        for _ in range(times):
            signal.raise_signal(signal.SIGINT)
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.001)
        return "done"

    return _loop.run(main(), lambda: stopped.append("stop"))


def test_result() -> None:
    """The result of the coroutine."""
    stopped: list[str] = []
    assert interrupts(0, stopped) == "done"
    assert stopped == []


def test_first_interrupt(capsys: pytest.CaptureFixture[str]) -> None:
    """The first Ctrl-C asks the coroutine to come to an end, and says what the next one does."""
    stopped: list[str] = []
    before = signal.getsignal(signal.SIGINT)
    assert interrupts(1, stopped) == "done"
    assert stopped == ["stop"]
    assert "stopping: no new cases" in capsys.readouterr().err
    assert before == signal.getsignal(signal.SIGINT)


def test_second_interrupt() -> None:
    """The second one cancels it."""
    stopped: list[str] = []
    with pytest.raises(asyncio.CancelledError):
        interrupts(2, stopped)
    assert stopped == ["stop"]


def test_third_interrupt() -> None:
    """The third one does not ask."""

    async def main() -> None:
        for _ in range(3):
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        _loop.run(main(), lambda: None)


def test_other_thread() -> None:
    """Outside of the main thread there is no Ctrl-C to handle."""
    results: list[str] = []
    thread = threading.Thread(target=lambda: results.append(interrupts(0, [])))
    thread.start()
    thread.join()
    assert results == ["done"]


def test_exception() -> None:
    """What the coroutine raises is raised, and the loop is closed."""
    loops: list[asyncio.AbstractEventLoop] = []

    async def main() -> None:
        loops.append(asyncio.get_running_loop())
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        _loop.run(main(), lambda: None)
    assert loops[0].is_closed()


def test_what_is_left_is_cleaned_up() -> None:
    """Tasks that are left are cancelled and may clean up; generators are closed."""
    seen: list[str] = []

    async def left() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            seen.append("task")

    async def pieces() -> AsyncIterator[int]:
        try:
            yield 1
        finally:
            seen.append("generator")

    kept: list[object] = []

    async def main() -> None:
        kept.append(asyncio.create_task(left()))
        generator = pieces()
        kept.append(generator)
        await anext(generator)

    _loop.run(main(), lambda: None)
    assert seen == ["task", "generator"]


def test_a_thread_that_hangs() -> None:
    """A thread of the default executor that goes on is not waited for."""
    release = threading.Event()

    async def main() -> str:
        loop = asyncio.get_running_loop()
        kept.append(loop.run_in_executor(None, release.wait))
        return "done"

    kept: list[object] = []
    began = time.monotonic()
    assert _loop.run(main(), lambda: None) == "done"
    assert time.monotonic() - began < 1
    release.set()
