"""Which cases run when: bounded workers, results in order, a stop that keeps what was earned."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from agentflow_eval.dataset import EvalCase
from agentflow_eval.result import EvalCaseResult

RunOne = Callable[[EvalCase], Awaitable[EvalCaseResult]]
OnResult = Callable[[EvalCaseResult], None]

_TURNS_TO_OTHERS = 50
"""After so many cases that never waited, a worker lets the event loop do other things."""


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

    if concurrency <= 1 or len(cases) <= 1:
        await worker()
        return
    async with asyncio.TaskGroup() as group:
        for _ in range(min(concurrency, len(cases))):
            group.create_task(worker())
