"""Runs the cases of a suite one after the other on this engine."""

from __future__ import annotations

import asyncio
import inspect
import math
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from agentflow_eval._files import printable
from agentflow_eval._values import as_text
from agentflow_eval.adapters import Session, Turn
from agentflow_eval.adapters._threads import run_blocking
from agentflow_eval.adapters.agno import AgnoTarget
from agentflow_eval.collector import TrajectoryCollector
from agentflow_eval.compat.agno._types import Case, CaseResult, JudgeMode, SuiteResult
from agentflow_eval.config import DEFAULT_JUDGE_MODEL, CriteriaConfig, EvalConfig, ReporterConfig
from agentflow_eval.dataset import Check, EvalCase, Invocation
from agentflow_eval.engine._strangers import being_cancelled
from agentflow_eval.engine.checks import CheckContext
from agentflow_eval.errors import exception_text
from agentflow_eval.evaluator import AgentEvaluator
from agentflow_eval.judge import JudgeReply, JudgeRequest
from agentflow_eval.result import CriterionResult, ErrorKind, EvalCaseResult

Hook = Callable[..., Any]

_ASYNC_HOOK = "a hook is called on the event loop and cannot be async; use setup and teardown"


async def arun_cases(
    cases: Sequence[Case],
    *,
    tag: str | None = None,
    name: str | None = None,
    default_timeout: int = 120,
    judge_model: Any = None,
    db: Any = None,  # noqa: ARG001  # part of the call shape; the report is the record
    on_case_start: Callable[[Case], None] | None = None,
    on_case_end: Callable[[Case, CaseResult], None] | None = None,
    on_run_event: Callable[[Case, Any], None] | None = None,
) -> SuiteResult:
    """Runs the selected cases; a run that is cancelled aborts the suite, and the rest count as skipped.

    Args:
        cases: To select from.
        tag: Only cases with this tag.
        name: Only the case of this name.
        default_timeout: Seconds for a run whose case does not say.
        judge_model: The agno model that judges where the case names none; None is this package's default.
        db: Not used.
        on_case_start: Called before each case.
        on_case_end: Called after each case, also a skipped one.
        on_run_event: Called with every event of a run.
    """
    suite = SuiteResult()
    aborted = False
    for case in select(cases, tag, name):
        result = _new_result(case)
        if aborted:
            result.skipped = True
            result.add_error("skipped: the suite was aborted after a cancelled run")
        else:
            _tell(result, "on_case_start", on_case_start, case)
            run = _Run(case, result, default_timeout, case.judge_model or judge_model, on_run_event)
            aborted = await run.played()
        _tell(result, "on_case_end", on_case_end, case, result)
        suite.results.append(result)
    return suite


def run_cases(cases: Sequence[Case], **options: Any) -> SuiteResult:
    """`arun_cases` for synchronous code, with the same arguments."""
    return asyncio.run(arun_cases(cases, **options))


def select(cases: Sequence[Case], tag: str | None, name: str | None) -> list[Case]:
    """The cases with this tag and this name; None selects all."""
    return [case for case in cases if (tag is None or tag in case.tags) and (name is None or case.name == name)]


def _new_result(case: Case) -> CaseResult:
    component_id = getattr(case.component, "id", None) or getattr(case.component, "name", None)
    of_agent = case.agent is not None
    return CaseResult(
        name=case.name,
        tags=tuple(case.tags),
        agent_id=component_id if of_agent else None,
        team_id=None if of_agent else component_id,
    )


def _tell(result: CaseResult, name: str, hook: Hook | None, *args: Any) -> None:
    """Calls a hook; what it raises is an error of the case."""
    if hook is None:
        return
    try:
        if inspect.iscoroutinefunction(hook):
            raise TypeError(_ASYNC_HOOK)
        value: Any = hook(*args)
        if inspect.isawaitable(value):
            if inspect.iscoroutine(value):
                value.close()
            raise TypeError(_ASYNC_HOOK)
    except (Exception, SystemExit, asyncio.CancelledError) as exc:  # a stranger's; nothing is awaited, so not our end
        result.add_error(printable(f"hook: {name} {exception_text(exc)}"))


class _Run:
    """One case on its way to a result."""

    def __init__(
        self, case: Case, result: CaseResult, default_timeout: float, judge_model: Any, on_run_event: Hook | None
    ) -> None:
        self._case = case
        self._result = result
        self._timeout = case.timeout_seconds or default_timeout
        self._judge = None if judge_model is None else _ModelJudge(judge_model)
        self._target = _Watched(case.component, lambda event: _tell(result, "on_run_event", on_run_event, case, event))

    async def played(self) -> bool:
        """Fills the result; whether the run was cancelled."""
        began = time.perf_counter()
        context, problem = await _called(self._case.setup)
        if problem is not None:
            self._result.add_error(f"setup: {problem}")
        else:
            try:
                await self._judged_in_time()
            finally:
                self._result.duration_seconds = round(time.perf_counter() - began, 3)
                _, problem = await _called(self._case.teardown, context, self._result)
                if problem is not None:
                    self._result.add_error(f"cleanup: {problem}")
        self._result.duration_seconds = round(time.perf_counter() - began, 3)
        return self._target.cancelled

    async def _judged_in_time(self) -> None:
        """Runs and judges within the case's limit: the engine bounds the run, and the judges get what it leaves."""
        ends = asyncio.get_running_loop().time() + self._timeout
        try:
            async with asyncio.timeout(None) as timer:
                self._target.on_answer = partial(timer.reschedule, ends)
                made = await self._evaluated()
        except TimeoutError:
            if not timer.expired():
                raise
            self._read_run(self._target.tools_called())
            self._result.timed_out = True
            self._result.add_error(f"timeout: the run and its checks took longer than {self._timeout} s")
        else:
            self._read(made)

    async def _evaluated(self) -> EvalCaseResult:
        case, checks = self._case, []
        if case.expected_tool_calls:
            checks = [Check(name="reliability")]
        evaluator = AgentEvaluator(
            self._target,
            config=EvalConfig(
                criteria=self._criteria(), timeout=float(self._timeout), reporter=ReporterConfig(enabled=False)
            ),
            judge=self._judge,
            checks={"reliability": self._reliable},
        )
        return await evaluator.evaluate_case(
            EvalCase(
                eval_id=printable(case.name) or "case",
                conversation=[Invocation.simple(case.input)],
                tags=[printable(tag) for tag in case.tags if tag],
                checks=checks,
            )
        )

    def _criteria(self) -> CriteriaConfig:
        case = self._case
        if not case.criteria:
            return CriteriaConfig()
        numeric = case.judge_mode is JudgeMode.NUMERIC
        judged = {
            "rubrics": [{"rubric_id": "criteria", "content": case.criteria}],
            "scale": "1-10" if numeric else "binary",
            "threshold": case.judge_threshold / 10 if numeric else 1.0,
            "num_samples": 1,
            "judge_model": DEFAULT_JUDGE_MODEL,
        }
        return CriteriaConfig.model_validate({"rubric_based": judged})

    def _reliable(self, context: CheckContext) -> str | None:
        """The check of the expected tools: each was called and did not fail, and no other was if that is forbidden."""
        expected = self._case.expected_tool_calls or ()
        worked = {call.name for call in context.tool_calls if call.error is None}
        failed = {call.name: call.error for call in context.tool_calls if call.name not in worked}
        problems = [
            f"{name} failed: {failed[name]}" if name in failed else f"{name} was not called"
            for name in expected
            if name not in worked
        ]
        if not self._case.allow_additional_tool_calls:
            others = dict.fromkeys(call.name for call in context.tool_calls if call.name not in expected)
            problems += [f"{name} was called and is not expected" for name in others]
        return "; ".join(problems) or None

    def _read(self, made: EvalCaseResult) -> None:
        """Puts what the engine found into the result."""
        result = self._result
        result.evidence = made
        self._read_run(tuple(call.name for call in made.actual_tool_calls))
        result.timed_out = made.timed_out
        if made.error_kind is ErrorKind.TIMEOUT:
            result.add_error(f"timeout: the run took longer than {self._timeout} s")
        elif made.error_kind in (ErrorKind.AGENT, ErrorKind.WIRING, ErrorKind.FIXTURE):
            result.add_error(f"agent: {made.error}")
        for criterion in made.criterion_results:
            if not criterion.not_reached:
                self._read_criterion(criterion)

    def _read_run(self, tools_called: tuple[str, ...]) -> None:
        result, target = self._result, self._target
        result.session_id = target.session_id
        result.response = target.response
        result.output = None if target.response is None else as_text(getattr(target.response, "content", None))
        result.tools_called = tools_called

    def _read_criterion(self, criterion: CriterionResult) -> None:
        result = self._result
        reliability = criterion.criterion == "check:reliability"
        if criterion.is_error:
            result.add_error(f"{'reliability' if reliability else 'judge'}: {criterion.error}")
        elif reliability:
            result.reliability_passed = criterion.passed
        else:
            result.judge_passed = criterion.passed
            result.judge_reason = next(iter(criterion.details.get("reasonings", ())), None) or criterion.reason
            scores = criterion.details.get("individual_scores")
            if self._case.judge_mode is JudgeMode.NUMERIC and scores:
                result.judge_score = math.floor(scores[0] * 10 + 1e-9)  # 6.6 does not meet a bar of 7


async def _called(function: Callable[..., Any] | None, *args: Any) -> tuple[Any, str | None]:
    """What a setup or a teardown returns, and what it raised, in words; a sync one runs in a thread."""
    if function is None:
        return None, None
    try:
        if inspect.iscoroutinefunction(function):
            return await function(*args), None
        value = await run_blocking(partial(function, *args))
        return (await value if inspect.isawaitable(value) else value), None
    except asyncio.CancelledError as exc:
        if being_cancelled():
            raise
        return None, printable(exception_text(exc))
    except KeyboardInterrupt:
        raise
    except BaseException as exc:  # it is a stranger's: SystemExit and the like stay here
        return None, printable(exception_text(exc))


class _Watched:
    """An agent or team whose run is kept as agno returned it.

    Attributes:
        on_answer: Called when a run has ended well.
        response: What agno returned; None before that.
        session_id: Of the run; empty before it.
    """

    def __init__(self, component: Any, on_event: Callable[[Any], None]) -> None:
        self._target = AgnoTarget(component, on_event)
        self._collector: TrajectoryCollector | None = None
        self.on_answer: Callable[[], None] = lambda: None
        self.response: Any = None
        self.session_id = ""

    @property
    def cancelled(self) -> bool:
        """Whether agno cancelled the run."""
        status = getattr(self.response, "status", None)
        return getattr(status, "value", status) == "CANCELLED"

    def tools_called(self) -> tuple[str, ...]:
        """The names of the tools called so far."""
        if self._collector is None:
            return ()
        return tuple(call.name for call in self._collector.execution().tool_calls)

    async def run_turn(self, turn: Turn, session: Session, collector: TrajectoryCollector) -> None:
        """Plays the turn."""
        self.session_id = session.thread_id
        self._collector = collector
        try:
            await self._target.run_turn(turn, session, collector)
        finally:
            self.response = session.raw.get(turn.index)
        self.on_answer()


class _ModelJudge:
    """A model of agno as a judge."""

    def __init__(self, model: Any) -> None:
        self._model = model

    async def ask(self, request: JudgeRequest) -> JudgeReply:
        """What the model answers."""
        from agno.models.message import Message

        messages = [Message(role=message["role"], content=message["content"]) for message in request.messages]
        answer = await self._model.aresponse(messages=messages)
        return JudgeReply(as_text(answer.content) or "", model=str(getattr(self._model, "id", "")))
