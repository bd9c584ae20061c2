"""Scores a run by functions of the user's: a check is given what happened and says whether that is right."""

from __future__ import annotations

import traceback
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field, replace
from numbers import Real
from pathlib import Path
from typing import Any

from agentflow_eval._files import printable
from agentflow_eval._values import shown
from agentflow_eval.adapters import Session
from agentflow_eval.adapters.function import is_async
from agentflow_eval.collector import CURRENT, TrajectoryCollector
from agentflow_eval.criteria._base import over_turns
from agentflow_eval.dataset import Check, EvalCase, Invocation, ToolCall
from agentflow_eval.engine._strangers import called, short_traceback, sound
from agentflow_eval.errors import exception_text
from agentflow_eval.result import CriterionResult, ExecutionResult, TurnResult

_BAR = 1.0
"""The threshold of a check that states none."""
_ACCEPTED = (
    "a check returns None, True, False, a text (why it failed), a score of 0..1, or a result with passed or score"
)


@dataclass(frozen=True, slots=True)
class CheckContext:
    """What a check sees: a whole run, or one turn of it.

    Attributes:
        case: The case.
        turn_index: The turn that is checked, from 0; None for a check of the whole case.
        turn: What the eval set says about that turn; None for a check of the whole case.
        execution: Everything that was recorded, all turns.
        session: The conversation's state, user and thread, as the agent left them.
        fixtures: Name -> value of the case's fixtures.
        raw: What the runtime returned, as it is; of the checked turn, or of the last one. None when it is not kept.
    """

    case: EvalCase
    execution: ExecutionResult
    turn_index: int | None = None
    turn: Invocation | None = None
    session: Session = field(default_factory=lambda: Session(thread_id=""))
    fixtures: Mapping[str, Any] = field(default_factory=dict)
    raw: Any = None

    @property
    def _turn_result(self) -> TurnResult | None:
        return None if self.turn_index is None else self.execution.turns[self.turn_index]

    @property
    def response(self) -> str:
        """The answer: of the turn, or the last one; empty when there is none."""
        turn = self._turn_result
        return self.execution.actual_response if turn is None else turn.agent_response

    @property
    def responses(self) -> list[str]:
        """The answers of all turns up to the checked one, in order; empty text where there is none."""
        last = len(self.execution.turns) if self.turn_index is None else self.turn_index + 1
        return [turn.agent_response for turn in self.execution.turns[:last]]

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The whole conversation as recorded: ``{"role", "content"}``."""
        return self.execution.messages

    @property
    def tool_calls(self) -> list[ToolCall]:
        """The recorded calls: of the turn, or of the whole run."""
        turn = self._turn_result
        return self.execution.tool_calls if turn is None else turn.tool_calls

    @property
    def node_visits(self) -> list[str]:
        """The visited nodes: of the turn, or of the whole run."""
        turn = self._turn_result
        return self.execution.node_visits if turn is None else turn.node_visits

    @property
    def state(self) -> dict[str, Any]:
        """The session's state."""
        return self.session.state

    @property
    def metadata(self) -> dict[str, Any]:
        """The case's."""
        return self.case.metadata

    @property
    def duration_seconds(self) -> float:
        """Seconds that the agent took: for the turn, or for the whole run."""
        turn = self._turn_result
        return self.execution.duration_seconds if turn is None else turn.duration_seconds

    @property
    def error(self) -> str | None:
        """Why the run broke in another turn; None when it did not. A broken turn itself is not checked."""
        return self.execution.error


CheckFunction = Callable[[CheckContext], Any]


async def run_checks(
    context: CheckContext,
    functions: Mapping[str, CheckFunction] | None,
    limit: float,
    collector: TrajectoryCollector,
) -> list[CriterionResult]:
    """A result for each check of a case and its turns, ``check:NAME``, in file order, one after the other.

    Args:
        context: Of the whole case.
        functions: Name -> check; None in a mock run, which knows no run that they could check.
        limit: Seconds that each may take.
        collector: Of the run; it takes what checks print.
    """
    token = CURRENT.set(collector)
    try:
        return [result async for result in _results(context, functions, limit)]
    finally:
        CURRENT.reset(token)


async def _results(
    context: CheckContext, functions: Mapping[str, CheckFunction] | None, limit: float
) -> AsyncIterator[CriterionResult]:
    case, broken = context.case, context.execution.error
    for check in case.checks:
        if functions is None:
            yield _mock(check)
        elif broken is not None:
            yield _unreached(check, f"not scored, because the run broke: {broken}")
        else:
            yield await _judged(check, functions[check.name], context, limit)
    by_name: dict[str, list[tuple[int, Check]]] = {}
    for index, turn in enumerate(case.conversation):
        for check in turn.checks:
            by_name.setdefault(check.name, []).append((index, check))
    for name, stated in by_name.items():
        if functions is None:
            yield _mock(stated[0][1])
            continue
        rows = [(index + 1, await _of_turn(index, check, functions[name], context, limit)) for index, check in stated]
        if all(result.not_reached for _, result in rows):
            yield rows[0][1]
        else:
            yield over_turns(_reported(name), _bar(stated[0][1]), rows)


def has_checks(case: EvalCase) -> bool:
    """Whether a case or one of its turns names a check."""
    return bool(case.checks) or any(turn.checks for turn in case.conversation)


async def _of_turn(
    index: int, check: Check, function: CheckFunction, context: CheckContext, limit: float
) -> CriterionResult:
    turn = context.execution.turns[index]
    if turn.outcome != "ok":
        why = turn.error or context.execution.error or "it was not played"
        return _unreached(check, f"not scored, because the turn broke: {why}")
    own = replace(context, turn_index=index, turn=context.case.conversation[index], raw=context.session.raw.get(index))
    return await _judged(check, function, own, limit)


async def _judged(check: Check, function: CheckFunction, context: CheckContext, limit: float) -> CriterionResult:
    call = await called(function, context, limit=limit, in_thread=not is_async(function))
    if isinstance(call.raised, AssertionError):
        details = {"traceback": short_traceback(call.raised)}
        return CriterionResult.failed(_reported(check.name), 0.0, _bar(check), details, _claim(call.raised))
    if call.raised is not None:
        return _broken(check, f"the check {call.problem}", {"traceback": short_traceback(call.raised)})
    if call.problem is not None:
        return _broken(check, f"the check {call.problem}")
    try:
        return verdict_of(call.value, check)
    except Exception as exc:  # reading a stranger's result object may raise anything
        return _broken(check, exception_text(exc))


def verdict_of(value: Any, check: Check) -> CriterionResult:
    """What a check's return value says, as its criterion result.

    Raises:
        TypeError: The value is none of those that a check may return.
        ValueError: A score is not a finite number of 0..1, or a result contradicts itself.
    """
    name, bar = _reported(check.name), _bar(check)
    if value is None or value is True or (isinstance(value, str) and not value):
        return CriterionResult.scored(name, 1.0, bar)
    if value is False:
        return CriterionResult.failed(name, 0.0, bar, {}, "the check returned False")
    if isinstance(value, str):
        return CriterionResult.failed(name, 0.0, bar, {}, _text(value) or "the check gave an empty reason")
    if isinstance(value, Real):
        return CriterionResult.scored(name, _score(value), bar)
    if isinstance(value, CriterionResult):
        given = sound(value)
        return _barred(given.model_copy(update={"criterion": name}), check)
    return _of_object(value, check)


def _of_object(value: Any, check: Check) -> CriterionResult:
    """What an object with any of passed, score, reason and message says."""
    passed, score = getattr(value, "passed", None), getattr(value, "score", None)
    if isinstance(value, type) or (passed is None and score is None):
        raise TypeError(f"the check returned {shown(value)}, a {type(value).__name__}; {_ACCEPTED}")
    if passed is not None and not isinstance(passed, bool):
        raise TypeError(f"the check returned a result whose passed is {shown(passed)}; it must be true or false")
    name, bar = _reported(check.name), _bar(check)
    number = float(passed is True) if score is None else _score(score)
    reason = _text(getattr(value, "reason", None)) or _text(getattr(value, "message", None))
    details = {"said": reason} if reason else {}
    if passed is None:
        return CriterionResult.scored(name, number, bar, details, reason)
    if not passed:
        return CriterionResult.failed(name, number, bar, {}, reason or "the result's passed is false")
    return _barred(CriterionResult.scored(name, number, min(number, bar), details), check)


def _barred(result: CriterionResult, check: Check) -> CriterionResult:
    """A result that passed by its own judgement has to meet the threshold too that the eval set states."""
    if check.threshold is None or not result.passed or result.score is None:
        return result
    return CriterionResult.scored(
        result.criterion, result.score, check.threshold, dict(result.details), None, result.token_usage, result.cost
    )


def _score(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"the check returned a result whose score is {shown(value)}; it must be a number of 0..1")
    if not 0.0 <= float(value) <= 1.0:
        raise ValueError(f"the check returned the score {shown(value)}, which is not between 0 and 1")
    return float(value)


def _text(value: Any) -> str:
    return printable(value).strip() if isinstance(value, str) else ""


def _claim(exc: AssertionError) -> str:
    """What was asserted: the message, or where there is none the line that says so."""
    message = _text(exception_text(exc).partition(": ")[2])
    if message:
        return message
    last = traceback.extract_tb(exc.__traceback__)[-1]
    return printable(f"AssertionError in {Path(last.filename).name} line {last.lineno}: {last.line or 'assert'}")


def _broken(check: Check, why: str, details: dict[str, Any] | None = None) -> CriterionResult:
    return CriterionResult.broken(_reported(check.name), _bar(check), printable(why), details)


def _unreached(check: Check, why: str) -> CriterionResult:
    return _broken(check, why, {"run_broke": True})


def _mock(check: Check) -> CriterionResult:
    return CriterionResult.skipped(_reported(check.name), _bar(check), "a mock run has no run that could be checked")


def _reported(name: str) -> str:
    return printable(f"check:{name}")


def _bar(check: Check) -> float:
    return _BAR if check.threshold is None else check.threshold
