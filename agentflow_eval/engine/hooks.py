"""Tells observers what happens in a run while it happens; nothing that they do changes a verdict."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import threading
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Literal

from agentflow_eval._files import printable
from agentflow_eval.collector import CURRENT, ToolRecord, TrajectoryCollector
from agentflow_eval.dataset import EvalCase
from agentflow_eval.engine._strangers import called
from agentflow_eval.engine.case import Plan, run_case
from agentflow_eval.errors import UsageError, exception_text
from agentflow_eval.result import EvalCaseResult


@dataclass(frozen=True, slots=True)
class RunEvent:
    """Something that was recorded just now.

    Attributes:
        eval_id: The case.
        attempt: Which run of the case, from 1; more than 1 with trials and retries.
        turn_index: From 0.
        kind: ``turn`` (it begins), ``node`` (it is entered), ``tool_start``, ``tool_end``, ``answer``.
        name: Of the node or tool; empty for the others.
        timestamp: Unix time in seconds.
        text: What the user said, or what the agent answered; empty for the others.
        args: Of the tool call.
        result: What the tool returned; None before its end, and when it failed.
        error: Why the call failed; None when it did not.
        call_id: The runtime's id of the call.
    """

    eval_id: str
    attempt: int
    turn_index: int
    kind: Literal["turn", "node", "tool_start", "tool_end", "answer"]
    name: str = ""
    timestamp: float = 0.0
    text: str = ""
    args: dict[str, Any] | None = None
    result: Any = None
    error: str | None = None
    call_id: str | None = None


@dataclass(frozen=True, slots=True)
class EvalHooks:
    """Functions, sync or async, that are told how a run goes; they are called in the thread of the event loop.

    What a hook raises is noted in the case's ``side_errors`` and changes no verdict. A sync hook holds the run up while
    it lasts; an async one has ``fixture_timeout`` seconds, and events wait for the one before.

    Attributes:
        on_case_start: Gets each case before it runs; not those that are skipped.
        on_case_end: Gets each case and its result, also of a skipped one; not those that an interrupted run never
            began.
        on_run_event: Gets the case and each `RunEvent` as it is recorded.

    Raises:
        UsageError: A hook cannot be called.
    """

    on_case_start: Callable[[EvalCase], Any] | None = None
    on_case_end: Callable[[EvalCase, EvalCaseResult], Any] | None = None
    on_run_event: Callable[[EvalCase, RunEvent], Any] | None = None

    def __post_init__(self) -> None:
        for name in ("on_case_start", "on_case_end", "on_run_event"):
            hook = getattr(self, name)
            if hook is not None and not callable(hook):
                raise UsageError(f"{name} must be a function, got {type(hook).__name__}")


async def run_watched(case: EvalCase, plan: Plan, hooks: EvalHooks) -> EvalCaseResult:
    """As `run_case`, and the hooks are told."""
    watch = _Watch(case, hooks, plan.config.fixture_timeout)
    if not case.skip:
        await watch.call("on_case_start", case)
    try:
        result = await run_case(case, plan if hooks.on_run_event is None else watch.plan(plan))
        await watch.drained()
    finally:
        watch.close()
    _add_errors(result, watch)
    await watch.call("on_case_end", case, result)
    _add_errors(result, watch)
    return result


def _add_errors(result: EvalCaseResult, watch: _Watch) -> None:
    errors = watch.take_errors()
    if errors:
        object.__setattr__(result, "side_errors", [*result.side_errors, *errors])


class _Watch:
    """The hooks of one case: calls them and keeps what they raise."""

    def __init__(self, case: EvalCase, hooks: EvalHooks, limit: float) -> None:
        self._case = case
        self._hooks = hooks
        self._limit = limit
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._attempts = 0
        self._errors: Counter[str] = Counter()
        self._later: deque[Awaitable[Any]] = deque()
        self._drainer: asyncio.Task[None] | None = None

    def plan(self, plan: Plan) -> Plan:
        """The plan with collectors that tell what they record."""

        def new_collector() -> TrajectoryCollector:
            self._attempts += 1
            return _TellingCollector(plan.new_collector().capture_all_events, self, self._case, self._attempts)

        return replace(plan, new_collector=new_collector)

    async def call(self, name: str, *args: Any) -> None:
        """Calls a hook, if there is one."""
        hook = getattr(self._hooks, name)
        if hook is not None:
            call = await called(hook, *args, limit=self._limit, in_thread=False)
            if call.problem is not None:
                self._errors[f"hook: {name} {call.problem}"] += 1

    def tell(self, event: RunEvent) -> None:
        """Passes an event on; from another thread than the loop's it arrives a little later, in order."""
        if threading.get_ident() == self._thread:
            self._deliver(event)
        else:
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody listens any more
                self._loop.call_soon_threadsafe(self._deliver, event)

    def _deliver(self, event: RunEvent) -> None:
        assert self._hooks.on_run_event is not None
        token = CURRENT.set(None)  # what a hook prints is not the agent's
        try:
            outcome = self._hooks.on_run_event(self._case, event)
        except KeyboardInterrupt:
            raise
        except BaseException as exc:  # a hook is a stranger, and the agent that is recorded must not meet its errors
            self._errors[printable(f"hook: on_run_event raised {exception_text(exc)}")] += 1
        else:
            if inspect.isawaitable(outcome):
                self._later.append(outcome)
                if self._drainer is None or self._drainer.done():
                    self._drainer = self._loop.create_task(self._drain())
        finally:
            CURRENT.reset(token)

    async def _drain(self) -> None:
        while self._later:
            call = await called(self._later.popleft, limit=self._limit, in_thread=False)
            if call.problem is not None:
                self._errors[f"hook: on_run_event {call.problem}"] += 1

    async def drained(self) -> None:
        """Waits until the asynchronous hook has had every event."""
        if self._drainer is not None:
            await asyncio.wait([self._drainer])

    def close(self) -> None:
        """Drops what was not delivered."""
        if self._drainer is not None:
            self._drainer.cancel()
        while self._later:
            waiting = self._later.popleft()
            if inspect.iscoroutine(waiting):
                waiting.close()

    def take_errors(self) -> list[str]:
        """What the hooks did wrong since the last time, the same thing once."""
        errors = [text if count == 1 else f"{text} ({count} times)" for text, count in self._errors.items()]
        self._errors.clear()
        return errors


class _TellingCollector(TrajectoryCollector):
    """Tells a watch what it records."""

    def __init__(self, capture_all_events: bool, watch: _Watch, case: EvalCase, attempt: int) -> None:
        super().__init__(capture_all_events)
        self._watch = watch
        self._case = case
        self._attempt = attempt

    def tell(self, kind: Any, **values: Any) -> None:
        index = max(0, len(self._turns) - 1)
        self._watch.tell(RunEvent(self._case.eval_id, self._attempt, index, kind, timestamp=time.time(), **values))

    def begin_turn(self, user_input: str) -> None:
        super().begin_turn(user_input)
        self.tell("turn", text=user_input)

    def node(self, name: str, **metadata: Any) -> None:
        super().node(name, **metadata)
        if not self.closed:
            self.tell("node", name=self.node_visits[-1])

    def tool(self, name: str, args: Any = None, **options: Any) -> ToolRecord:
        record = super().tool(name, args, **options)
        if self.closed:
            return record
        telling = _TellingRecord(self, record)
        telling.started()
        return telling

    def end_turn(self, error: str | None = None) -> None:
        super().end_turn(error)
        answer = self._turns[-1].answer
        if answer is not None:
            self.tell("answer", text=answer)


class _TellingRecord(ToolRecord):
    """A recorded call that tells when it starts and when it has ended: with its block, or with its result or error."""

    __slots__ = ("_ended", "_in_block", "_teller")

    def __init__(self, collector: _TellingCollector, record: ToolRecord) -> None:
        super().__init__(collector, record.call, record.step)
        self._teller = collector
        self._in_block = False
        self._ended = False

    def started(self) -> None:
        call = self.call
        self._teller.tell("tool_start", name=call.name, args=call.args, call_id=call.call_id)
        if call.result is not None or call.error is not None:
            self._end()

    def _end(self) -> None:
        if self._ended or self._in_block or self._teller.closed:
            return
        self._ended = True
        call = self.call
        self._teller.tell(
            "tool_end", name=call.name, args=call.args, result=call.result, error=call.error, call_id=call.call_id
        )

    @property
    def result(self) -> Any:
        return self.call.result

    @result.setter
    def result(self, value: Any) -> None:
        ToolRecord.result.__set__(self, value)  # type: ignore[attr-defined]  # a property's setter
        self._end()

    @property
    def error(self) -> str | None:
        return self.call.error

    @error.setter
    def error(self, value: object) -> None:
        ToolRecord.error.__set__(self, value)  # type: ignore[attr-defined]  # a property's setter
        self._end()

    def __enter__(self) -> _TellingRecord:
        self._in_block = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        super().__exit__(kind, exc, traceback)
        self._in_block = False
        self._end()
