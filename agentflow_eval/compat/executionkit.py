"""``executionkit.evals`` over this engine: change the import, keep the suite.

Where it differs, on purpose:

- An empty suite has not passed: nothing was checked. Nor has one in which nothing passed, whatever ``min_accuracy`` is.
- A check may be asynchronous; one that returns anything but None, a bool or a text is an error of its own, and every
  ``reason`` is text.
- ``min_accuracy`` has to lie between 0 and 1.
- ``SystemExit`` and the like end their case, not the suite; so does an exception whose text cannot be read.
- Context variables that a run sets reach its check (not an asynchronous one), not the next run.
- A call of `EvalReport.to_report` gives the report of this package, for HTML, JUnit and the other formats.
"""

from __future__ import annotations

import dataclasses
import inspect
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, TypeAlias

from agentflow_eval._files import printable
from agentflow_eval._values import jsonable, shown
from agentflow_eval.adapters import Session, Target
from agentflow_eval.adapters import Turn as EngineTurn
from agentflow_eval.collector import TrajectoryCollector
from agentflow_eval.config import CriteriaConfig, EvalConfig, ReporterConfig
from agentflow_eval.dataset import Check, EvalSet, Invocation
from agentflow_eval.dataset import EvalCase as EngineCase
from agentflow_eval.engine.checks import CheckContext
from agentflow_eval.errors import exception_text
from agentflow_eval.evaluator import AgentEvaluator
from agentflow_eval.result import CriterionResult, EvalCaseResult, Outcome
from agentflow_eval.result import EvalReport as EngineReport

EvalRun: TypeAlias = Callable[[], Awaitable[Any] | Any]
"""Runs what is evaluated; what it returns goes to the check."""
EvalCheck: TypeAlias = Callable[[Any], bool | str | Awaitable[bool | str | None] | None]
"""Judges a result: None, True and ``""`` pass, False and any other text fail; the text is the reason."""

LIVE_EVAL_MIN_ACCURACY = 0.9
"""The ``min_accuracy`` for suites against a live model, which may fail now and then."""

_ENDLESS = 10.0 * 365 * 24 * 3600
"""Seconds; these suites know no time limits."""
_ANY = 1e-9
"""The ``min_pass_rate`` that a ``min_accuracy`` of 0 comes to: one pass is enough."""


@dataclass(frozen=True, slots=True)
class EvalCase:
    """Something to run, and what judges its result.

    Attributes:
        name: Names the result.
        run: Called without arguments; may be asynchronous.
        check: Given what ``run`` returned.
        metadata: Handed on to the result.
    """

    name: str
    run: EvalRun
    check: EvalCheck
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EvalResult:
    """How one case, or one turn of a script, went.

    Attributes:
        name: Of the case; ``script[i]`` for a turn.
        passed: Whether the check passed.
        reason: ``passed``, why the check failed, or what was raised.
        metadata: The case's.
    """

    name: str
    passed: bool
    reason: str = ""
    metadata: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True)
class EvalReport:
    """All results of a suite.

    Attributes:
        results: In the order of the cases.
        min_accuracy: The least share that has to pass, 0..1; None when all have to.
    """

    results: tuple[EvalResult, ...]
    min_accuracy: float | None = None
    _report: EngineReport | None = field(default=None, repr=False, compare=False)

    @property
    def total(self) -> int:
        """How many results there are."""
        return len(self.results)

    @property
    def failures(self) -> tuple[EvalResult, ...]:
        """The results that did not pass."""
        return tuple(result for result in self.results if not result.passed)

    @property
    def failed_count(self) -> int:
        """How many did not pass."""
        return len(self.failures)

    @property
    def passed_count(self) -> int:
        """How many passed."""
        return self.total - self.failed_count

    @property
    def accuracy(self) -> float:
        """Share that passed, 0..1; 0 for an empty suite."""
        return self.passed_count / self.total if self.results else 0.0

    @property
    def passed(self) -> bool:
        """Whether there are results and all of them passed."""
        return bool(self.results) and not self.failures

    @property
    def accuracy_passed(self) -> bool:
        """Whether at least one passed, and enough for ``min_accuracy``; same as ``passed`` without one."""
        if self.min_accuracy is None:
            return self.passed
        return self.passed_count > 0 and self.accuracy >= self.min_accuracy

    def summary(self) -> str:
        """One line, such as ``7/9 passed (77.8% accuracy)``."""
        return f"{self.passed_count}/{self.total} passed ({self.accuracy:.1%} accuracy)"

    def to_report(self) -> EngineReport:
        """The report of this package: with all that was recorded, or of the results alone when there is no more."""
        if self._report is not None:
            return self._report
        made = [_made_of(result) for result in self.results]
        return EngineReport.create("suite", made, min_pass_rate=_min_pass_rate(self.min_accuracy))


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn of a script.

    Attributes:
        user: What the user says.
        check: Given what ``kit.turn`` returned.
    """

    user: str
    check: EvalCheck


@dataclass(frozen=True, slots=True)
class ConversationScript:
    """Turns that one kit plays one after the other.

    Attributes:
        name: Names the results: ``name[0]``, ``name[1]``...
        turns: In order.
    """

    name: str
    turns: tuple[Turn, ...]


async def run_eval_suite(cases: Sequence[EvalCase], *, min_accuracy: float | None = None) -> EvalReport:
    """Runs the cases one after the other.

    Args:
        cases: What to run.
        min_accuracy: The least share that has to pass, 0..1; None when all have to.

    Raises:
        ValueError: ``min_accuracy`` is no number of 0..1.
    """
    if not _is_share(min_accuracy):
        raise ValueError(f"min_accuracy must be a number between 0 and 1, got {min_accuracy!r}")
    cases = tuple(cases)
    if not cases:
        return EvalReport((), min_accuracy)
    reasons = [_Reason() for _ in cases]
    evaluator = AgentEvaluator(
        targets={str(index): _Runner(case.run, reasons[index]) for index, case in enumerate(cases)},
        checks={str(index): reasons[index].of(case.check) for index, case in enumerate(cases)},
        config=_config(min_accuracy),
    )
    ids = _unique([printable(str(case.name)) for case in cases])
    made = [
        EngineCase(
            eval_id=ids[index],
            conversation=[Invocation.simple(ids[index])],
            target=str(index),
            checks=[Check(name=str(index))],
            metadata=jsonable(dict(case.metadata)),
        )
        for index, case in enumerate(cases)
    ]
    report = await evaluator.evaluate(EvalSet(eval_set_id="suite", eval_cases=made))
    results = [
        EvalResult(case.name, result.passed, reason.text(result), MappingProxyType(dict(case.metadata)))
        for case, reason, result in zip(cases, reasons, report.results, strict=True)
    ]
    return EvalReport(tuple(results), min_accuracy, report)


async def run_conversation_script(script: ConversationScript, kit: Any) -> EvalReport:
    """Plays a script with one kit, whose conversation goes on from turn to turn, also after one that broke.

    Args:
        script: The turns.
        kit: An executionkit ``Kit``, or anything with an asynchronous ``turn(text)``.
    """
    played = tuple(script.turns)
    if not played:
        return EvalReport(())
    reasons = [_Reason() for _ in played]
    checks = {str(index): reasons[index].of(turn.check) for index, turn in enumerate(played)}
    evaluator = AgentEvaluator(_KitTurns(kit, played, reasons), checks=checks, config=_config(None))
    turns = [Invocation.simple(printable(turn.user) or " ") for turn in played]
    for index, turn in enumerate(turns):
        turn.checks = [Check(name=str(index))]
    name = printable(str(script.name)) or "script"
    case = EngineCase(eval_id=name, conversation=turns, on_turn_error="continue")
    report = await evaluator.evaluate(EvalSet(eval_set_id="script", eval_cases=[case]))
    judged = {result.criterion: result for result in report.results[0].criterion_results}
    results = [
        EvalResult(f"{script.name}[{index}]", judged[f"check:{index}"].passed, reason.text(judged[f"check:{index}"]))
        for index, reason in enumerate(reasons)
    ]
    return EvalReport(tuple(results), None, report)


def live_provider_from_env() -> Any:
    """executionkit's ``Provider`` from ``EXECUTIONKIT_BASE_URL``, ``_MODEL`` and ``_API_KEY`` (optional).

    Returns:
        None unless ``EXECUTIONKIT_LIVE_EVAL`` is ``1``.

    Raises:
        ValueError: It is, and the address or the model is missing; the message names every missing variable.
    """
    if os.environ.get("EXECUTIONKIT_LIVE_EVAL") != "1":
        return None
    names = ("EXECUTIONKIT_BASE_URL", "EXECUTIONKIT_MODEL")
    missing = [name for name in names if not os.environ.get(name)]
    if missing:
        raise ValueError(f"{', '.join(missing)} required for live evals")
    from executionkit.provider import Provider

    base_url, model = (os.environ[name] for name in names)
    return Provider(base_url=base_url, model=model, api_key=os.environ.get("EXECUTIONKIT_API_KEY", ""))


# Translation


class _Reason:
    """Why a case or a turn did not pass, in the words of the original."""

    def __init__(self) -> None:
        self.said: str | None = None
        self.context: Context | None = None

    def ran(self) -> None:
        """Keeps the context variables of the run for the check, which the engine calls in a task of its own."""
        self.context = copy_context()

    def raised(self, exc: BaseException) -> None:
        """The original's words, also when the message is empty."""
        text = exception_text(exc)
        self.said = f"{text}: " if text == type(exc).__name__ else text

    def of(self, check: EvalCheck) -> Callable[[CheckContext], Awaitable[bool | str]]:
        """The check as this engine calls it."""

        async def judged(context: CheckContext) -> bool | str:
            try:
                verdict: Any = self.context.run(check, context.raw) if self.context else check(context.raw)
                verdict = await verdict if inspect.isawaitable(verdict) else verdict
                if verdict is not None and not isinstance(verdict, (bool, str)):
                    kind = type(verdict).__name__
                    raise TypeError(f"a check returns None, True, False or a text, got {shown(verdict)}, a {kind}")
                if verdict is None or verdict is True or verdict == "":
                    return True
            except BaseException as exc:
                self.raised(exc)
                raise
            self.said = verdict or "check returned False"
            return verdict

        return judged

    def text(self, result: EvalCaseResult | CriterionResult) -> str:
        """The reason of a result."""
        if result.passed:
            return "passed"
        if self.said is not None:
            return self.said
        return "; ".join(result.explanation()) if isinstance(result, EvalCaseResult) else result.reason or ""


class _Runner:
    """A case's ``run`` as an agent that is asked once."""

    def __init__(self, run: EvalRun, reason: _Reason) -> None:
        self._run = run
        self._reason = reason

    async def run_turn(self, turn: EngineTurn, session: Session, collector: TrajectoryCollector) -> None:
        """Runs it and keeps what it returned for the check."""
        try:
            value = self._run()
            session.raw[turn.index] = await value if inspect.isawaitable(value) else value
        except BaseException as exc:
            self._reason.raised(exc)
            raise
        self._reason.ran()
        collector.say(_answer(session.raw[turn.index]))


class _KitTurns:
    """One kit, shared with whoever gave it."""

    def __init__(self, kit: Any, turns: Sequence[Turn], reasons: Sequence[_Reason]) -> None:
        self._kit = kit
        self._turns = turns
        self._reasons = reasons
        self._recorded = _recording(kit)

    async def run_turn(self, turn: EngineTurn, session: Session, collector: TrajectoryCollector) -> None:
        """Plays a turn, in the words of the script, and keeps what the kit returned for the check."""
        user, reason = self._turns[turn.index].user, self._reasons[turn.index]
        try:
            if self._recorded is not None:
                await self._recorded.run_turn(dataclasses.replace(turn, text=user), session, collector)
            else:
                session.raw[turn.index] = await self._kit.turn(user)
        except BaseException as exc:
            reason.raised(exc)
            raise
        reason.ran()
        if self._recorded is None:
            collector.say(_answer(session.raw[turn.index]))


def _recording(kit: Any) -> Target | None:
    """What also records tool calls and tokens of a real kit; None for anything else."""
    if type(kit).__module__.partition(".")[0] != "executionkit":
        return None
    from agentflow_eval.adapters.executionkit import KitTarget

    return KitTarget(lambda: kit)


def _answer(value: Any) -> Any:
    """What the report shows as the answer: the ``value`` of a pattern's result, and anything else as it is."""
    try:
        return getattr(value, "value", value)
    except Exception:  # a stranger's property; the check is given the object itself
        return value


def _is_share(value: Any) -> bool:
    return value is None or (isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= 1)


def _min_pass_rate(min_accuracy: float | None) -> float:
    return 1.0 if min_accuracy is None else max(float(min_accuracy), _ANY)


def _config(min_accuracy: float | None) -> EvalConfig:
    return EvalConfig(
        criteria=CriteriaConfig(),
        min_pass_rate=_min_pass_rate(min_accuracy),
        timeout=_ENDLESS,
        criterion_timeout=_ENDLESS,
        reporter=ReporterConfig(enabled=False),
    )


def _unique(names: Sequence[str]) -> list[str]:
    """Ids for names that may be empty or occur more than once."""
    given = set(names)
    used: set[str] = set()
    ids = []
    for index, name in enumerate(names):
        made = name
        while not made or made in used or (made != name and made in given):
            made = f"{made or 'case'} ({index})"
        used.add(made)
        ids.append(made)
    return ids


def _made_of(result: EvalResult) -> EvalCaseResult:
    reason = result.reason or "it did not pass"
    judged = (
        CriterionResult.scored("check", 1.0, 1.0)
        if result.passed
        else CriterionResult.failed("check", 0.0, 1.0, {}, reason)
    )
    return EvalCaseResult(
        eval_id=printable(result.name),
        passed=result.passed,
        outcome=Outcome.PASSED if result.passed else Outcome.FAILED,
        criterion_results=[judged],
        metadata=jsonable(dict(result.metadata)),
    )
