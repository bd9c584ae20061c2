"""Calls functions that users wrote: in bounded time, and whatever they raise is theirs."""

from __future__ import annotations

import asyncio
import inspect
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from pydantic import ValidationError

from agentflow_eval._files import explain, printable
from agentflow_eval._values import jsonable
from agentflow_eval.adapters._threads import run_blocking
from agentflow_eval.engine._bounded import bounded
from agentflow_eval.errors import exception_text
from agentflow_eval.result import CriterionResult, ErrorKind

_FRAMES_SHOWN = 8


@dataclass(slots=True)
class Called:
    """How a call ended.

    Attributes:
        value: What it returned; None when it did not.
        raised: What it raised.
        problem: Why there is no value, in words; None when there is one.
    """

    value: Any = None
    raised: BaseException | None = None
    problem: str | None = None


async def called(function: Callable[..., Any], *args: Any, limit: float, in_thread: bool) -> Called:
    """Calls ``function``, and awaits what it returns when that can be awaited, for at most ``limit`` seconds.

    Args:
        function: Anything that can be called.
        args: Its arguments.
        limit: Seconds.
        in_thread: Whether it may block, so that it is called in a worker thread.
    """
    call = Called()

    async def work() -> None:
        try:
            value = await run_blocking(partial(function, *args)) if in_thread else function(*args)
            call.value = await value if inspect.isawaitable(value) else value
        except asyncio.CancelledError as exc:
            if being_cancelled():
                raise
            call.raised = exc
        except KeyboardInterrupt:
            raise
        except BaseException as exc:  # it is a stranger's: SystemExit and the like stay here
            call.raised = exc

    ended = await bounded(work(), limit)
    if ended.timed_out:
        call.problem = f"timed out after {limit:g} s"
    elif call.raised is not None:
        call.problem = printable(f"raised {exception_text(call.raised)}")
    elif ended.cancelled:
        call.problem = "cancelled its own task"
    return call


def being_cancelled() -> bool:
    """Whether the running task is being cancelled by somebody else."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def short_traceback(exc: BaseException) -> str | None:
    """The last frames: where the stranger itself raised, not how we called it."""
    try:
        lines = traceback.format_exception(exc, limit=-_FRAMES_SHOWN)
    except Exception:  # formatting calls the stranger's __str__ and __repr__
        return None
    return printable("".join(lines)).rstrip()


def sound(result: CriterionResult) -> CriterionResult:
    """A result that a user's code made and may have filled with anything, checked.

    Raises:
        ValueError: It contradicts itself; the message says how.
    """
    values = {name: getattr(result, name) for name in CriterionResult.model_fields}
    details = jsonable(result.details)
    if isinstance(details, dict) and details.get("error_kind") not in list(ErrorKind):
        details.pop("error_kind", None)
    try:
        return CriterionResult.model_validate(values | {"details": details})
    except ValidationError as exc:
        problems = "; ".join(f"{place}: {text}" if place else text for place, text in explain(exc, CriterionResult))
        raise ValueError(f"returned a result that makes no sense: {problems}") from exc
