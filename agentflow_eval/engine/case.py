"""One case from its first message to its result."""

from __future__ import annotations

import asyncio
import copy
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agentflow_eval._files import printable
from agentflow_eval.adapters import Session, Target, Turn
from agentflow_eval.collector import CURRENT, TrajectoryCollector
from agentflow_eval.config import EvalConfig
from agentflow_eval.criteria import BaseCriterion, for_case
from agentflow_eval.criteria._judged import JudgedCriterion
from agentflow_eval.dataset import EvalCase, Invocation
from agentflow_eval.engine._bounded import Ended, bounded
from agentflow_eval.engine._controls import why_distrusted
from agentflow_eval.engine._mock import replay
from agentflow_eval.engine._strangers import being_cancelled, short_traceback, sound
from agentflow_eval.engine._trials import combined
from agentflow_eval.engine._users import User, user_of
from agentflow_eval.engine.checks import CheckContext, has_checks, run_checks
from agentflow_eval.engine.fixtures import Fixtures
from agentflow_eval.errors import AgentError, JudgeError, exception_text
from agentflow_eval.judge import Judges, no_judge
from agentflow_eval.result import (
    EMPTY_LIST,
    NO_TOKENS,
    CriterionResult,
    ErrorKind,
    EvalCaseResult,
    ExecutionResult,
    NodeDetail,
    Outcome,
    TokenUsage,
    TurnResult,
    maker,
    total_cost,
    verdict,
)

_make_case_result = maker(EvalCaseResult)
_put = object.__setattr__  # the models are frozen for everybody else, and __dict__ would cost memory
_ids = random.Random()  # not the shared one: a user may have seeded it


@dataclass(slots=True)
class Plan:
    """What all cases of a run share.

    Attributes:
        target: The agent; None in a mock run.
        config: The run's settings.
        criteria: Those of the config and the evaluator's own.
        extra_criteria: The evaluator's own, which a case cannot override.
        judges: The models that criteria ask.
        new_collector: Makes the collector of an attempt.
        distrusted: The judged criteria that got a control wrong, as `distrusted` gives them.
        named: Kind and name -> target, check or fixture, of all that the cases name.
    """

    target: Target | None
    config: EvalConfig
    criteria: Sequence[BaseCriterion]
    extra_criteria: Sequence[BaseCriterion] = ()
    judges: Judges = field(default_factory=lambda: Judges(no_judge))
    new_collector: Callable[[], TrajectoryCollector] = TrajectoryCollector
    distrusted: dict[str, str] = field(default_factory=dict)
    named: Mapping[tuple[str, str], Any] = field(default_factory=dict)


@dataclass(slots=True)
class Break:
    """Why a run could not be finished."""

    kind: ErrorKind
    message: str
    traceback: str | None = None


@dataclass(slots=True)
class _Played:
    """What one attempt did.

    Attributes:
        turns: The turns that were played.
        broke: Why it could not be finished; None when it could.
        session: The conversation; None when none was begun.
    """

    turns: list[Invocation] = field(default_factory=list)
    broke: Break | None = None
    session: Session | None = None


async def run_case(case: EvalCase, plan: Plan) -> EvalCaseResult:
    """The result of a case: of its one run, or of all its trials. Nothing that the agent does raises here."""
    if case.skip:
        return unrun(case, Outcome.SKIPPED, skip_reason=case.skip)
    trials = case.trials or plan.config.trials
    if trials == 1 or plan.config.mock_mode:
        return await _run_with_retries(case, plan)
    return combined([await _run_with_retries(case, plan) for _ in range(trials)])


def unrun(case: EvalCase, outcome: Outcome, **values: Any) -> EvalCaseResult:
    """The result of a case that was not run."""
    return EvalCaseResult(
        eval_id=printable(case.eval_id), name=printable(case.name), outcome=outcome, tags=case.tags, **values
    )


async def _run_with_retries(case: EvalCase, plan: Plan) -> EvalCaseResult:
    earlier: list[str] = []
    while True:
        try:
            result = await _run_once(case, plan)
        except Exception as exc:  # an agent that damages its own recorder breaks its case, not the run
            message = printable(f"the record of the run is damaged: {exception_text(exc)}")
            return unrun(case, Outcome.ERROR, error_kind=ErrorKind.AGENT, error=message)
        if result.error_kind is not ErrorKind.AGENT or len(earlier) >= plan.config.retries:
            break
        earlier.append("; ".join([result.error or "", *result.side_errors]))
    if earlier:
        _put(result, "attempts", len(earlier) + 1)
        _put(result, "retried_errors", earlier)
    return result


async def _run_once(case: EvalCase, plan: Plan) -> EvalCaseResult:
    if not case.fixtures or plan.config.mock_mode:
        return await _attempt(case, plan, None)
    makers = {name: plan.named["fixtures", name] for name in case.fixtures}
    async with Fixtures(case, makers, plan.config.fixture_timeout) as fixtures:
        with fixtures.thread():
            result = await _attempt(case, plan, fixtures)
    return _torn_down(result, fixtures)


async def _attempt(case: EvalCase, plan: Plan, fixtures: Fixtures | None) -> EvalCaseResult:
    collector = plan.new_collector()
    user = user_of(case, plan.config.user_simulator_config, plan.judges)
    target = _target(case, plan)
    if fixtures is not None and fixtures.broke is not None:
        message, frames = fixtures.broke
        played = _Played(broke=Break(ErrorKind.FIXTURE, message, frames))
    elif target is None:
        replay(case, plan.config.criteria.overridden_by(case.criteria), collector)
        played = _Played(case.conversation)
    else:
        played = await _drive(case, user, target, collector, case.timeout or plan.config.timeout, fixtures)
    collector.finish()
    broke = played.broke
    execution = collector.execution(broke.message if broke else None)
    scored_case = case if case.scenario is None else case.model_copy(update={"conversation": played.turns})
    _add_expectations(execution, scored_case)
    own = for_case(scored_case, plan.config.criteria, plan.judges)
    criteria = plan.criteria if own is None else [*own, *plan.extra_criteria]
    if broke is None:
        results = await _judge_all(criteria, execution, scored_case, plan)
    else:
        reason = f"not scored, because the run broke: {broke.message}"
        results = [CriterionResult.broken(c.name, _threshold(c), reason, {"run_broke": True}) for c in criteria]
    if has_checks(case):
        results += await _checked_by_functions(scored_case, execution, played, plan, collector)
    return _result(case, execution, results, broke, collector.stdout, user.token_usage)


def _target(case: EvalCase, plan: Plan) -> Target | None:
    """The agent of a case; None in a mock run."""
    if case.target is None or plan.config.mock_mode:
        return plan.target
    target: Target = plan.named["targets", case.target]
    return target


def _torn_down(result: EvalCaseResult, fixtures: Fixtures) -> EvalCaseResult:
    """The result with what the fixtures printed, and broken if it passed and one of them broke afterwards."""
    _put(result, "stdout", printable(fixtures.printed.stdout) + result.stdout)
    if fixtures.errors:
        _put(result, "side_errors", [f"fixture: {error}" for error in fixtures.errors])
        if result.passed:
            broke = {"outcome": Outcome.ERROR, "passed": False, "error_kind": ErrorKind.FIXTURE}
            for name, value in (broke | {"error": "; ".join(fixtures.errors)}).items():
                _put(result, name, value)
    return result


# Driving


async def _drive(
    case: EvalCase,
    user: User,
    target: Target,
    collector: TrajectoryCollector,
    limit: float,
    fixtures: Fixtures | None,
) -> _Played:
    """Plays the conversation; ``limit`` bounds the agent's time over all turns, not the simulated user's."""
    played, seconds_left = _Played(), limit
    try:
        session = _session(case)
    except Exception as exc:  # a state that was made in Python may hold anything
        played.broke = Break(ErrorKind.FIXTURE, printable(f"session_input cannot be copied: {exception_text(exc)}"))
        return played
    played.session = session
    if fixtures is not None:
        session.fixtures = fixtures.values
    while True:
        try:
            invocation = await user.next_turn(session.messages)
        except JudgeError as exc:
            played.broke = played.broke or Break(ErrorKind.JUDGE, printable(str(exc)))
            return played
        if invocation is None:
            break
        turn = Turn(len(played.turns), invocation.user_content.get_text(), invocation.user_content)
        played.turns.append(invocation)
        collector.begin_turn(printable(turn.text))
        raised: list[BaseException] = []
        ended = await bounded(_turn(turn, target, session, collector, raised), seconds_left)
        seconds_left -= ended.seconds
        if ended.timed_out:
            played.broke = _timeout(ended, limit, turn, raised, collector)
            return played
        if ended.cancelled and not raised:
            raised.append(AgentError("the agent cancelled its own task"))
        collector.end_turn(printable(exception_text(raised[0])) if raised else None)
        if raised:
            played.broke = played.broke or _agent_broke(raised[0], turn, case)
            if case.on_turn_error == "stop":
                return played
        session.messages.append({"role": "user", "content": turn.text})
        if collector.final_response:
            session.messages.append({"role": "assistant", "content": collector.final_response})
    if collector.failures and played.broke is None:
        message = f"the recorder could not follow the agent: {collector.failures[0]}"
        played.broke = Break(ErrorKind.WIRING, printable(message))
    return played


async def _turn(
    turn: Turn, target: Target, session: Session, collector: TrajectoryCollector, raised: list[BaseException]
) -> None:
    """Plays one turn; what the agent raises goes to ``raised``, only cancellation by us and Ctrl-C go on."""
    CURRENT.set(collector)
    try:
        await target.run_turn(turn, session, collector)
    except asyncio.CancelledError as exc:
        if being_cancelled():
            raise
        raised.append(exc)  # a CancelledError that leaked out of the agent is the agent's
    except KeyboardInterrupt:
        raise
    except BaseException as exc:  # the agent is a stranger: SystemExit and the like belong to its case
        raised.append(exc)
    else:
        raised += collector.exits  # the process would have ended, even if the agent caught what we raised instead
    collector.exits.clear()


def _agent_broke(exc: BaseException, turn: Turn, case: EvalCase) -> Break:
    several = len(case.conversation) > 1 or case.scenario is not None
    message = f"turn {turn.index + 1}: {exception_text(exc)}" if several else exception_text(exc)
    return Break(ErrorKind.AGENT, printable(message), short_traceback(exc))


def _session(case: EvalCase) -> Session:
    given = case.session_input
    return Session(
        thread_id=f"eval-{_ids.getrandbits(96):024x}",
        app_name=given.app_name,
        user_id=given.user_id,
        state=copy.deepcopy(given.state) if given.state else {},
        config=copy.deepcopy(given.config) if given.config else {},
    )


def _timeout(
    ended: Ended, limit: float, turn: Turn, raised: list[BaseException], collector: TrajectoryCollector
) -> Break:
    parts = [f"the agent timed out after {limit:g} s (turn {turn.index + 1})"]
    if ended.blocked_seconds:
        parts.append(
            f"the event loop was blocked for {ended.seconds:.1f} s: a blocking call inside async code, of this case or "
            "of one that ran beside it; make the agent function sync, or await instead"
        )
    if ended.abandoned:
        parts.append("it ignored its cancellation and was left to itself")
    if raised:
        parts.append(f"while it was stopped it raised {exception_text(raised[-1])}")
    message = printable("; ".join(parts))
    collector.end_turn(message)
    return Break(ErrorKind.TIMEOUT, message, short_traceback(raised[-1]) if raised else None)


def _add_expectations(execution: ExecutionResult, case: EvalCase) -> None:
    """Puts what each turn expects beside what it did; turns that were never played are added."""
    for index, invocation in enumerate(case.conversation):
        if index == len(execution.turns):
            text = printable(invocation.user_content.get_text())
            execution.turns.append(TurnResult(turn_index=index, user_input=text, answered=False, outcome="not_run"))
        turn = execution.turns[index]
        _put(turn, "expected_response", invocation.expected_text)
        _put(turn, "expected_tool_calls", invocation.expected_tools)
        _put(turn, "expected_node_order", invocation.expected_nodes)


# Judging


async def _judge_all(
    criteria: Sequence[BaseCriterion], execution: ExecutionResult, case: EvalCase, plan: Plan
) -> list[CriterionResult]:
    """The result of each criterion, in order; those that wait do so together."""
    if not any(criterion.waits for criterion in criteria):
        return [_judge_now(criterion, execution, case) for criterion in criteria]
    limit = plan.config.criterion_timeout
    refused = {index: why for index, c in enumerate(criteria) if (why := why_distrusted(c, case, plan.distrusted))}
    waiting = {
        index: _judge(criterion, execution, case)
        if isinstance(criterion, JudgedCriterion)
        else _judge_within(limit, criterion, execution, case)
        for index, criterion in enumerate(criteria)
        if criterion.waits and index not in refused
    }
    waited = dict(zip(waiting, await asyncio.gather(*waiting.values()), strict=True)) if waiting else {}
    return [
        _judge_now(criterion, execution, case)
        if not criterion.waits
        else waited.get(index) or _distrusted(criterion, refused[index])
        for index, criterion in enumerate(criteria)
    ]


async def _checked_by_functions(
    case: EvalCase, execution: ExecutionResult, played: _Played, plan: Plan, collector: TrajectoryCollector
) -> list[CriterionResult]:
    """The results of the checks that the case and its turns name."""
    session = played.session or Session(thread_id="")
    raw = session.raw.get(len(played.turns) - 1)
    context = CheckContext(case, execution, session=session, fixtures=session.fixtures, raw=raw)
    functions = None if plan.config.mock_mode else {n: f for (kind, n), f in plan.named.items() if kind == "checks"}
    return await run_checks(context, functions, plan.config.criterion_timeout, collector)


def _distrusted(criterion: BaseCriterion, why: str) -> CriterionResult:
    details = {"error_kind": ErrorKind.JUDGE.value}
    return CriterionResult.broken(criterion.name, _threshold(criterion), why, details)


def _judge_now(criterion: BaseCriterion, execution: ExecutionResult, case: EvalCase) -> CriterionResult:
    """The criterion's result; whatever it raises is its own error and nobody else's."""
    try:
        result = criterion.evaluate_sync(execution, case)  # type: ignore[attr-defined]  # it does not wait
        return result if criterion.trusted else _checked(criterion, result)
    except (Exception, SystemExit, asyncio.CancelledError) as exc:  # a user's criterion is a stranger too
        return _broken(criterion, f"raised {exception_text(exc)}")


async def _judge_within(
    limit: float, criterion: BaseCriterion, execution: ExecutionResult, case: EvalCase
) -> CriterionResult:
    """As `_judge`, for at most ``limit`` seconds; for criteria that have no limits of their own, as judges do."""
    results: list[CriterionResult] = []

    async def judge() -> None:
        results.append(await _judge(criterion, execution, case))

    ended = await bounded(judge(), limit)
    if ended.timed_out:
        return _broken(criterion, f"timed out after {limit:g} s")
    return results[0] if results else _broken(criterion, "cancelled its own task")


async def _judge(criterion: BaseCriterion, execution: ExecutionResult, case: EvalCase) -> CriterionResult:
    """As `_judge_now`, for a criterion that waits."""
    try:
        return _checked(criterion, await criterion.evaluate(execution, case))
    except asyncio.CancelledError as exc:
        if being_cancelled():
            raise
        return _broken(criterion, f"raised {exception_text(exc)}")
    except (Exception, SystemExit) as exc:  # a user's criterion is a stranger too
        return _broken(criterion, f"raised {exception_text(exc)}")


def _checked(criterion: BaseCriterion, result: Any) -> CriterionResult:
    """The result, which a user's criterion may have filled with anything."""
    if not isinstance(result, CriterionResult):
        return _broken(criterion, f"returned {type(result).__name__}, not a CriterionResult")
    if criterion.trusted:
        return result
    try:
        return sound(result)
    except ValueError as exc:
        return _broken(criterion, str(exc))


def _broken(criterion: BaseCriterion, problem: str) -> CriterionResult:
    return CriterionResult.broken(criterion.name, _threshold(criterion), printable(f"the criterion {problem}"))


def _threshold(criterion: BaseCriterion) -> float:
    return float(getattr(getattr(criterion, "config", None), "threshold", 0.0))


def _result(
    case: EvalCase,
    execution: ExecutionResult,
    results: list[CriterionResult],
    broke: Break | None,
    stdout: str,
    simulator_tokens: TokenUsage,
) -> EvalCaseResult:
    outcome, kind = (Outcome.ERROR, broke.kind) if broke else verdict(results)
    agent_tokens = execution.token_usage
    return _make_case_result(
        eval_id=printable(case.eval_id),
        name=printable(case.name),
        passed=outcome is Outcome.PASSED,
        criterion_results=results,
        actual_trajectory=execution.trajectory,
        actual_tool_calls=execution.tool_calls,
        actual_response=execution.actual_response,
        messages=execution.messages,
        node_responses=execution.node_responses or EMPTY_LIST,
        node_visits=execution.node_visits,
        duration_seconds=execution.duration_seconds,
        error=broke.message if broke else _why_unjudged(kind, results),
        metadata=case.metadata,
        turn_results=execution.turns,
        token_usage=sum((r.token_usage for r in results if r.token_usage is not NO_TOKENS), agent_tokens),
        agent_token_usage=agent_tokens,
        simulator_token_usage=simulator_tokens,
        judge_cost=total_cost(r.cost for r in results),
        node_details=_node_details(execution),
        outcome=outcome,
        error_kind=kind,
        error_traceback=broke.traceback if broke else None,
        skip_reason=None,
        tags=case.tags,
        stdout=printable(stdout),
        attempts=1,
        retried_errors=EMPTY_LIST,
        side_errors=EMPTY_LIST,
        trials=EMPTY_LIST,
    )


def _node_details(execution: ExecutionResult) -> list[NodeDetail]:
    if not execution.node_responses:
        return EMPTY_LIST
    names = list(NodeDetail.model_fields)
    return [NodeDetail(**{name: getattr(response, name) for name in names}) for response in execution.node_responses]


def _why_unjudged(kind: ErrorKind | None, results: Sequence[CriterionResult]) -> str | None:
    if kind is None:
        return None
    if kind is ErrorKind.NOTHING_CHECKED:
        reasons = "; ".join(f"{r.criterion}: {r.reason}" for r in results) or "no criterion is switched on"
        return f"nothing was checked ({reasons})"
    return "; ".join(f"{r.criterion}: {r.error}" for r in results if r.is_error)
