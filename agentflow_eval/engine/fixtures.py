"""Sets up what a case needs before its agent runs, and tears it down after everything, whatever happened between."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from agentflow_eval._files import printable
from agentflow_eval.adapters._threads import RESERVED, ReservedThread, run_blocking
from agentflow_eval.adapters.function import is_async
from agentflow_eval.collector import CURRENT, TrajectoryCollector
from agentflow_eval.dataset import EvalCase
from agentflow_eval.engine._strangers import being_cancelled, short_traceback
from agentflow_eval.errors import UsageError, exception_text

_GRACE_SECONDS = 1.0
"""How long a fixture that is out of time may clean up before it is left to itself."""
_FILLED = ("ctx", "case", "fixtures")

Close = Callable[[], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class FixtureContext:
    """What a fixture gets as ``ctx``.

    Attributes:
        case: The case that it is set up for.
        fixtures: Name -> value of the fixtures that were set up before it.
    """

    case: EvalCase
    fixtures: Mapping[str, Any]


class Fixtures:
    """The fixtures of one attempt of a case.

    One task sets all of them up and tears them down, as some (task groups, cancel scopes) require, and their blocking
    parts run in one thread, as others (connections) do.

    Attributes:
        values: Name -> value of those that are set up.
        broke: What the one that could not be set up says, and its traceback; None when all could.
        errors: What went wrong while they were torn down.
        printed: A collector that records nothing but what they print.
    """

    def __init__(self, case: EvalCase, made_by: Mapping[str, Any], limit: float) -> None:
        self.values: dict[str, Any] = {}
        self.broke: tuple[str, str | None] | None = None
        self.errors: list[str] = []
        self.printed = TrajectoryCollector()
        self.printed.finish()
        self._case = case
        self._made_by = made_by
        self._limit = limit
        self._open: list[tuple[str, Close]] = []
        self._now = ""
        self._steps = 0

    async def __aenter__(self) -> Fixtures:
        """Sets them up, in order, until one breaks."""
        loop = asyncio.get_running_loop()
        self._thread = ReservedThread()
        token = RESERVED.set(self._thread)
        self._ready: asyncio.Future[None] = loop.create_future()
        self._over = asyncio.Event()
        self._task = loop.create_task(self._live())
        try:
            if not await self._ends(self._ready):
                self.broke = (f"{self._now}: ignored its cancellation after {self._limit:g} s", None)
        except asyncio.CancelledError:
            await self._end()
            raise
        finally:
            RESERVED.reset(token)
        return self

    async def __aexit__(self, *_raised: object) -> None:
        """Tears them down, last one first."""
        await self._end()

    def thread(self) -> contextlib.AbstractContextManager[None]:
        """While it lasts, the blocking calls of this task run in the thread of the fixtures."""
        return self._thread.reserved()

    async def _live(self) -> None:
        CURRENT.set(self.printed)
        with contextlib.suppress(asyncio.CancelledError):  # whatever ends it, what is open has to be closed
            for name, maker in self._made_by.items():
                self._now = f"fixture {name!r}"
                problem = await self._step(self._set_up(name, maker))
                if problem is not None:
                    self.broke = problem
                    break
            self._settle()
            await self._over.wait()
        self._settle()
        await self._close_all()

    def _settle(self) -> None:
        if not self._ready.done():
            self._ready.set_result(None)

    async def _set_up(self, name: str, maker: Any) -> None:
        made = maker
        if callable(maker) and not _is_manager(maker):
            call = partial(maker, **self._arguments(maker))
            made = call() if is_async(maker) or hasattr(maker, "__aenter__") else await run_blocking(call)
        if inspect.isawaitable(made):
            made = await made
        if inspect.isasyncgen(made):
            made = contextlib.asynccontextmanager(partial(_same, made))()
        elif inspect.isgenerator(made):
            made = contextlib.contextmanager(partial(_same, made))()
        entered = made is maker or hasattr(maker, "__enter__") or hasattr(maker, "__aenter__") or _is_manager(made)
        self.values[name] = await self._entered(name, made) if entered else made

    async def _entered(self, name: str, manager: Any) -> Any:
        cls = type(manager)
        if hasattr(cls, "__aenter__"):
            value = await cls.__aenter__(manager)
            self._open.append((name, partial(cls.__aexit__, manager, None, None, None)))
            return value
        leave = partial(cls.__exit__, manager, None, None, None)

        def enter() -> Any:
            value = cls.__enter__(manager)
            if given_up:
                leave()
            return value

        given_up = False
        try:
            value = await run_blocking(enter)
        except asyncio.CancelledError:
            given_up = True
            raise
        self._open.append((name, partial(run_blocking, leave)))
        return value

    def _arguments(self, maker: Any) -> dict[str, Any]:
        """What fills the parameters that ask for something, by name."""
        try:
            parameters = inspect.signature(maker).parameters.values()
        except (TypeError, ValueError):  # a class written in C
            return {}
        given = {
            "ctx": FixtureContext(self._case, dict(self.values)),
            "case": self._case,
            "fixtures": dict(self.values),
        }
        arguments: dict[str, Any] = {}
        for parameter in parameters:
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                continue
            if parameter.name in given:
                arguments[parameter.name] = given[parameter.name]
            elif parameter.default is parameter.empty and parameter.name in self.values:
                arguments[parameter.name] = self.values[parameter.name]
            elif parameter.default is parameter.empty:
                earlier = ", ".join([*_FILLED, *self.values])
                raise UsageError(f"nothing fills its parameter {parameter.name!r}; it may take any of {earlier}")
        return arguments

    async def _close_all(self) -> None:
        while self._open:
            name, close = self._open.pop()
            self._now = f"fixture {name!r}"
            problem = await self._step(_awaited(close))
            if problem is not None:
                self.errors.append(f"{problem[0]} (while it was torn down)")

    async def _step(self, work: Awaitable[None]) -> tuple[str, str | None] | None:
        """Does one thing in bounded time; what is wrong with it, and the traceback."""
        self._steps += 1
        try:
            async with asyncio.timeout(self._limit) as timer:
                await work
        except asyncio.CancelledError as exc:
            if being_cancelled():
                raise
            return self._problem(exc)
        except KeyboardInterrupt:
            raise
        except BaseException as exc:  # a fixture is a stranger
            if timer.expired():
                return f"{self._now}: timed out after {self._limit:g} s", None
            return self._problem(exc)
        return None

    def _problem(self, exc: BaseException) -> tuple[str, str | None]:
        return printable(f"{self._now}: {exception_text(exc)}"), short_traceback(exc)

    async def _ends(self, work: asyncio.Future[None]) -> bool:
        """Waits for ``work``; False when it has been stuck in one step for longer than a step may take."""
        while True:
            step = self._steps
            await asyncio.wait([work], timeout=self._limit + _GRACE_SECONDS)
            if work.done() or step == self._steps:
                return work.done()

    async def _end(self) -> None:
        self._over.set()
        if not self._ready.done():
            self._task.cancel()
        work = self._task
        try:
            while not await self._ends(work) and self._open:
                self.errors.append(f"{self._now}: ignored its cancellation and was left to itself")
                work = asyncio.get_running_loop().create_task(self._close_all())
        finally:
            self._thread.release()


def _is_manager(value: Any) -> bool:
    """Whether a value is made to be entered, as those of `contextlib` are.

    Having ``__enter__`` is not enough: paths, locks and mocks have it, and are what a fixture gives.
    """
    return not {contextlib.AbstractContextManager, contextlib.AbstractAsyncContextManager}.isdisjoint(
        type(value).__mro__
    )


def _same(generator: Any) -> Any:
    return generator


async def _awaited(close: Close) -> None:
    await close()
