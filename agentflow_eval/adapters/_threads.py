"""Runs blocking calls in daemon threads, which never hold up the end of the process."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import queue
import threading
from collections.abc import Callable
from typing import Any

_IDLE_SECONDS = 5.0

_Job = Callable[[], None]
_idle: list[queue.SimpleQueue[_Job]] = []
_lock = threading.Lock()


async def run_blocking(call: Callable[[], Any]) -> Any:
    """The result of ``call`` in a worker thread with this task's context variables.

    A thread whose caller gave up (was cancelled) finishes by itself and its result is dropped. The threads are daemons,
    unlike those of `asyncio.to_thread`, so that an agent that hangs does not keep the process alive.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()
    context = contextvars.copy_context()

    def job() -> None:
        try:
            result, error = context.run(call), None
        except BaseException as exc:  # the stranger may raise SystemExit; it belongs to the case, not to the thread
            result, error = None, exc
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(_resolve, future, result, error)

    _submit(job)
    return await future


def _resolve(future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(result)
    elif isinstance(error, (StopIteration, GeneratorExit)):  # a coroutine would take them for its own
        future.set_exception(RuntimeError(f"the agent raised {type(error).__name__}({error})"))
    else:
        future.set_exception(error)


def _submit(job: _Job) -> None:
    with _lock:
        jobs = _idle.pop() if _idle else None
    if jobs is None:
        jobs = queue.SimpleQueue()
        threading.Thread(target=_work, args=(jobs,), name="agentflow-eval-agent", daemon=True).start()
    jobs.put(job)


def _work(jobs: queue.SimpleQueue[_Job]) -> None:
    while True:
        try:
            job = jobs.get(timeout=_IDLE_SECONDS)
        except queue.Empty:
            with _lock:
                if jobs in _idle:
                    _idle.remove(jobs)
                    return
            continue  # a job was promised between the timeout and the lock
        job()
        del job
        with _lock:
            _idle.append(jobs)
