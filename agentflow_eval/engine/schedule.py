"""Which cases run when: bounded workers, results in order, a stop that keeps what was earned."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from agentflow_eval.dataset import EvalCase
from agentflow_eval.result import EvalCaseResult

RunOne = Callable[[EvalCase], Awaitable[EvalCaseResult]]
OnResult = Callable[[EvalCaseResult], None]

_TURNS_TO_OTHERS = 50
"""After so many cases that never waited, a worker lets the event loop do other things."""
_YOUNG_OBJECTS = 20_000


@dataclass(slots=True)
class Progress:
    """Results so far, in file order; None where a case is not finished.

    Attributes:
        results: One place for each case.
        started: Indices of cases that were begun.
        stopped: Set to begin no further case.
    """

    results: list[EvalCaseResult | None]
    started: set[int] = field(default_factory=set)
    stopped: bool = False

    def stop(self) -> None:
        """Begins no further case; running ones go on to their end."""
        self.stopped = True


async def run_cases(
    cases: Sequence[EvalCase], run_one: RunOne, concurrency: int, progress: Progress, on_result: OnResult
) -> None:
    """Runs the cases with at most ``concurrency`` at once and fills ``progress`` as they end."""
    waiting = iter(range(len(cases)))

    async def worker() -> None:
        for index in waiting:
            if progress.stopped:
                return
            progress.started.add(index)
            result = await run_one(cases[index])
            progress.results[index] = result
            on_result(result)
            if index % _TURNS_TO_OTHERS == 0:
                await asyncio.sleep(0)

    with _collector_relaxed():
        if concurrency <= 1 or len(cases) <= 1:
            await worker()
            return
        async with asyncio.TaskGroup() as group:
            for _ in range(min(concurrency, len(cases))):
                group.create_task(worker())


@contextmanager
def _collector_relaxed() -> Iterator[None]:
    """Lets the cyclic garbage collector look less often: results are kept, so most looks find nothing."""
    before = gc.get_threshold()
    if before[0]:
        gc.set_threshold(max(before[0], _YOUNG_OBJECTS), *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
