"""Runs blocking calls in daemon threads, which never hold up the end of the process."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import queue
import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from functools import partial
from typing import Any

_IDLE_SECONDS = 5.0

_Job = Callable[[], None]
_idle: list[queue.SimpleQueue[_Job]] = []
_lock = threading.Lock()


class ReservedThread:
    """A worker thread kept for the blocking calls of one case: some objects can be used only where they were made.

    A call that comes while it is busy runs in another thread.
    """

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._busy = False
        self._serves = False
        self._released = False

    @contextlib.contextmanager
    def reserved(self) -> Iterator[None]:
        """While it lasts, blocking calls of this task and of those that it starts run in this thread."""
        token = RESERVED.set(self)
        try:
            yield
        finally:
            RESERVED.reset(token)

    def take(self, job: _Job) -> bool:
        """Runs ``job``; False when the thread is busy or was released."""
        with _lock:
            if self._busy or self._released:
                return False
            self._busy = True
        if not self._serves:
            self._serves = True
            _submit(self._serve)
        self._jobs.put(job)
        return True

    def free(self) -> None:
        """Notes that the job is done."""
        self._busy = False

    def release(self) -> None:
        """Takes no further job."""
        self._released = True
        self._jobs.put(None)

    def _serve(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()
            del job


RESERVED: ContextVar[ReservedThread | None] = ContextVar("agentflow_eval_thread", default=None)
"""The thread in which the blocking calls of the running task are made; None: any."""


async def run_blocking(call: Callable[[], Any]) -> Any:
    """The result of ``call`` in a worker thread with this task's context variables.

    A thread whose caller gave up (was cancelled) finishes by itself and its result is dropped. The threads are daemons,
    unlike those of `asyncio.to_thread`, so that an agent that hangs does not keep the process alive.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()
    context = contextvars.copy_context()
    reserved = RESERVED.get()

    def job(thread: ReservedThread | None = None) -> None:
        try:
            result, error = context.run(call), None
        except BaseException as exc:  # the stranger may raise SystemExit; it belongs to the case, not to the thread
            result, error = None, exc
        if thread is not None:
            thread.free()  # before anybody can know that it is done
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(_resolve, future, result, error)

    if reserved is None or not reserved.take(partial(job, reserved)):
        _submit(job)
    return await future


def _resolve(future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(result)
    elif isinstance(error, (StopIteration, GeneratorExit)):  # a coroutine would take them for its own
        future.set_exception(RuntimeError(f"a {type(error).__name__} was raised: {error}"))
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
