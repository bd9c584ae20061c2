"""Functions that check a run: what they see, what they may return, and what becomes of everything else."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import pytest

from agentflow_eval.collector import TrajectoryCollector
from agentflow_eval.config import CriteriaConfig
from agentflow_eval.dataset import Check, EvalCase, Invocation
from agentflow_eval.engine.checks import CheckContext
from agentflow_eval.result import CriterionResult, ErrorKind, EvalCaseResult, Outcome, TokenUsage
from tests.engine.runs import case, ok, run, run_one, talk

NO_CRITERIA = CriteriaConfig()


def named(*names: str | dict[str, Any], **more: Any) -> EvalCase:
    """A case that names checks."""
    return case(checks=[Check.model_validate(name) for name in names], **more)


def checked(function: Callable[..., Any], threshold: float | None = None, agent: Any = ok) -> CriterionResult:
    """What one check made of a run."""
    one = named({"name": "own", "threshold": threshold})
    result = run_one(agent, one, criteria=NO_CRITERIA, named={"checks": {"own": function}})
    assert [r.criterion for r in result.criterion_results] == ["check:own"]
    return result.criterion_results[0]


@dataclass
class Verdict:
    """A result object of somebody else."""

    passed: Any = None
    score: Any = None
    reason: str | None = None


@pytest.mark.parametrize("value", [None, True, "", 1, 1.0, Verdict(passed=True), SimpleNamespace(score=1)])
def test_passes(value: Any) -> None:
    """None, true, no reason, a full score, and a result that passed are a pass."""
    result = checked(lambda ctx: value)
    assert (result.outcome, result.score, result.reason) == (Outcome.PASSED, 1.0, None)


@pytest.mark.parametrize(
    ("value", "score", "reason"),
    [
        (False, 0.0, "the check returned False"),
        ("too rude", 0.0, "too rude"),
        ("  ", 0.0, "the check gave an empty reason"),
        (0, 0.0, "score 0.00 is below the threshold 1.00"),
        (0.99, 0.99, "score 0.99 is below the threshold 1.00"),
        (Fraction(1, 2), 0.5, "score 0.50 is below the threshold 1.00"),
        (Verdict(passed=False, reason="no"), 0.0, "no"),
        (Verdict(passed=False, score=0.9), 0.9, "the result's passed is false"),
        (Verdict(score=0.4, reason="half"), 0.4, "half"),
        (SimpleNamespace(passed=False, message="bad"), 0.0, "bad"),
    ],
)
def test_fails(value: Any, score: float, reason: str) -> None:
    """False, a reason, a score below the threshold, and a result that did not pass are a failure with a reason."""
    result = checked(lambda ctx: value)
    assert (result.outcome, result.score, result.reason) == (Outcome.FAILED, score, reason)


@pytest.mark.parametrize(
    ("value", "error"),
    [
        ({"passed": True}, 'TypeError: the check returned {"passed": true}, a dict; a check returns None, True, '),
        ([], "TypeError: the check returned [], a list"),
        ((True, "fine"), "TypeError: the check returned"),
        (Verdict, "TypeError: the check returned"),
        (Verdict(), "TypeError: the check returned"),
        (Verdict(passed="false"), 'TypeError: the check returned a result whose passed is "false"; it must be true or'),
        (Verdict(passed=1), "TypeError: the check returned a result whose passed is 1; it must be true or false"),
        (Verdict(passed=True, score="1"), 'TypeError: the check returned a result whose score is "1"'),
        (Verdict(score=True), "TypeError: the check returned a result whose score is true"),
        (7, "ValueError: the check returned the score 7, which is not between 0 and 1"),
        (-0.1, "ValueError: the check returned the score -0.1"),
        (float("nan"), "ValueError: the check returned the score"),
        (CriterionResult(criterion="x", outcome=Outcome.PASSED, passed=True, score=1).model_copy(update={"score": 9}),
         "ValueError: returned a result that makes no sense: score: must be less than or equal to 1"),
    ],
)  # fmt: skip
def test_anything_else_is_an_error(value: Any, error: str) -> None:
    """What is none of these is an error of the check, never a verdict."""
    result = checked(lambda ctx: value)
    assert result.outcome is Outcome.ERROR
    assert (result.error or "").startswith(error)


@pytest.mark.parametrize(("threshold", "outcome"), [(0.8, "passed"), (0.81, "failed"), (None, "failed")])
def test_threshold(threshold: float | None, outcome: str) -> None:
    """A score is compared with the threshold of the eval set, which is 1 unless it says so."""
    result = checked(lambda ctx: 0.8, threshold)
    assert (result.outcome.value, result.threshold) == (outcome, 1.0 if threshold is None else threshold)


@pytest.mark.parametrize(
    ("threshold", "outcome", "bar"), [(None, "passed", 0.6), (0.6, "passed", 0.6), (0.7, "failed", 0.7)]
)
def test_result_objects_decide_and_a_stated_threshold_is_met_too(
    threshold: float | None, outcome: str, bar: float
) -> None:
    """An object that says passed has passed, unless its score misses the threshold that the eval set states."""
    result = checked(lambda ctx: Verdict(passed=True, score=0.6, reason="fine"), threshold)
    assert (result.outcome.value, result.threshold, result.details["said"]) == (outcome, bar, "fine")


def test_criterion_results_are_taken_as_they_are() -> None:
    """A CriterionResult keeps its details and tokens, and gets the check's name."""
    own = CriterionResult.scored("x", 0.7, 0.5, {"a": 1}, None, TokenUsage(input_tokens=3))
    result = checked(lambda ctx: own)
    assert (result.outcome, result.score, result.threshold) == (Outcome.PASSED, 0.7, 0.5)
    assert (result.details, result.token_usage.input_tokens) == ({"a": 1}, 3)
    assert checked(lambda ctx: own, 0.9).outcome is Outcome.FAILED
    assert checked(lambda ctx: CriterionResult.skipped("x", 0.5, "not today")).reason == "not today"


def test_an_assertion_is_a_failure() -> None:
    """AssertionError is a failed check: its message is the reason, or else the line that says so."""

    def told(ctx: CheckContext) -> None:
        raise AssertionError("no greeting")

    def untold(ctx: CheckContext) -> None:
        exec(compile("assert 'x' in ''", "their_checks.py", "exec"))

    assert checked(told).reason == "no greeting"
    assert checked(untold).reason == "AssertionError in their_checks.py line 1: assert"
    assert "AssertionError" in checked(told).details["traceback"]


@pytest.mark.parametrize("exc", [ValueError("oops"), SystemExit(3), asyncio.CancelledError(), StopIteration()])
def test_an_exception_is_an_error_of_that_check(exc: BaseException) -> None:
    """What a check raises is its own error; the others still judge, sync or async."""

    def broken(ctx: CheckContext) -> None:
        raise exc

    async def broken_too(ctx: CheckContext) -> None:
        raise exc

    functions = {"a": broken, "b": lambda ctx: True, "c": broken_too}
    result = run_one(ok, named("a", "b", "c"), named={"checks": functions})
    assert [(r.criterion, r.outcome.value) for r in result.criterion_results] == [
        ("exact_match", "passed"),
        ("check:a", "error"),
        ("check:b", "passed"),
        ("check:c", "error"),
    ]
    assert (result.outcome, result.error_kind) == (Outcome.ERROR, ErrorKind.CRITERION)
    assert "the check raised" in (result.error or "")


def test_reading_a_result_may_raise() -> None:
    """A result object whose attributes raise is an error of the check."""

    class Mean:
        @property
        def passed(self) -> bool:
            raise OSError("gone")

    assert checked(lambda ctx: Mean()).error == "OSError: gone"


def test_async_checks_and_awaitables() -> None:
    """An async check is awaited, and so is what a sync one returns."""

    async def slow(ctx: CheckContext) -> str:
        await asyncio.sleep(0)
        return f"got {ctx.response}"

    assert checked(slow).reason == "got ok"
    assert checked(lambda ctx: slow(ctx)).reason == "got ok"


@pytest.mark.parametrize("is_async", [True, False])
def test_time_limit(is_async: bool) -> None:
    """A check has `criterion_timeout` seconds, and a blocking one does not hold up the loop."""
    go_on = threading.Event()

    async def hangs(ctx: CheckContext) -> None:
        await asyncio.sleep(60)

    def blocks(ctx: CheckContext) -> None:
        go_on.wait(60)

    started = time.perf_counter()
    function = hangs if is_async else blocks
    result = run_one(ok, named("own"), named={"checks": {"own": function}}, criterion_timeout=0.05)
    go_on.set()
    assert result.criterion_results[1].error == "the check timed out after 0.05 s"
    assert time.perf_counter() - started < 10


def test_a_sync_check_runs_beside_the_loop() -> None:
    """Sync checks run in a worker thread."""
    threads: list[bool] = []
    checked(lambda ctx: threads.append(threading.current_thread() is threading.main_thread()))
    assert threads == [False]


def test_context_of_a_whole_run() -> None:
    """A check of a case sees everything: answers, messages, calls, nodes, state, metadata, times, the raw result."""
    seen: list[CheckContext] = []

    def agent(text: str, run: TrajectoryCollector, session: Any) -> dict[str, Any]:
        session.state["asked"] = session.state.get("asked", 0) + 1
        run.node("MAIN")
        run.tool("look", {"for": text})
        return {"response": f"re {text}"}

    one = talk("a", "b", answer=None, checks=[Check(name="see")], metadata={"topic": "x"})
    run_one(agent, one, named={"checks": {"see": seen.append}})
    ctx = seen[0]
    assert (ctx.case.eval_id, ctx.turn_index, ctx.turn, ctx.error) == ("c1", None, None, None)
    assert (ctx.response, ctx.responses, ctx.raw) == ("re b", ["re a", "re b"], {"response": "re b"})
    assert [message["content"] for message in ctx.messages] == ["a", "re a", "b", "re b"]
    assert [call.args for call in ctx.tool_calls] == [{"for": "a"}, {"for": "b"}]
    assert (ctx.node_visits, ctx.state, ctx.metadata) == (["MAIN", "MAIN"], {"asked": 2}, {"topic": "x"})
    assert ctx.session.user_id == "test_user"
    assert ctx.duration_seconds == ctx.execution.duration_seconds > 0
    assert ctx.fixtures == {}


def test_context_of_a_turn() -> None:
    """A check of a turn sees that turn, and the answers up to it."""
    seen: list[CheckContext] = []

    async def agent(text: str, run: TrajectoryCollector) -> str:
        run.node(text)
        run.tool(text)
        return f"re {text}"

    turns = [Invocation.simple(text) for text in "abc"]
    turns[1].checks = [Check(name="see")]
    run_one(agent, EvalCase(eval_id="c1", conversation=turns), named={"checks": {"see": seen.append}})
    ctx = seen[0]
    assert ctx.turn is not None
    assert (ctx.turn_index, ctx.turn.user_content.content) == (1, "b")
    assert (ctx.response, ctx.responses, ctx.raw) == ("re b", ["re a", "re b"], "re b")
    assert ([call.name for call in ctx.tool_calls], ctx.node_visits) == (["b"], ["b"])
    assert ctx.duration_seconds == ctx.execution.turns[1].duration_seconds


def by_turn(agent: Any, check: Callable[..., Any], *texts: str, **more: Any) -> EvalCaseResult:
    """The result of a case whose every turn names the check."""
    turns = [Invocation(**dict(Invocation.simple(text)) | {"checks": [Check(name="own")]}) for text in texts]
    one = EvalCase(eval_id="c1", conversation=turns, **more)
    return run_one(agent, one, criteria=NO_CRITERIA, named={"checks": {"own": check}})


def test_a_check_of_several_turns_is_one_row() -> None:
    """The row of a check that several turns name passes when each does, and shows each."""

    async def agent(text: str) -> str:
        return text

    result = by_turn(agent, lambda ctx: ctx.response != "b" or "rude", "a", "b")
    [row] = result.criterion_results
    assert (row.criterion, row.outcome, row.score, row.reason) == ("check:own", Outcome.FAILED, 0.5, "turn 2: rude")
    assert [turn["outcome"] for turn in row.details["turns"]] == ["passed", "failed"]
    assert by_turn(agent, lambda ctx: True, "a", "b").passed


def test_turns_beside_a_broken_one_are_checked() -> None:
    """A broken turn is not checked, the others are and may ask why; the case stays broken."""
    errors: list[str | None] = []

    async def agent(text: str) -> str:
        if text == "b":
            raise OSError("down")
        return text

    result = by_turn(agent, lambda ctx: errors.append(ctx.error), "a", "b", "c", on_turn_error="continue")
    [row] = result.criterion_results
    assert [turn["outcome"] for turn in row.details["turns"]] == ["passed", "error", "passed"]
    assert row.reason == "turn 2: not scored, because the turn broke: OSError: down"
    assert (result.outcome, result.error_kind) == (Outcome.ERROR, ErrorKind.AGENT)
    assert errors == ["turn 2: OSError: down"] * 2


def test_a_broken_run_is_not_checked() -> None:
    """Nothing that a check would say about a run that broke counts."""

    async def agent(text: str) -> str:
        raise OSError("down")

    calls: list[Any] = []
    whole = run_one(agent, named("own"), named={"checks": {"own": calls.append}})
    turns = by_turn(agent, calls.append, "a")
    assert calls == []
    for result in (whole, turns):
        row = result.criterion_results[-1]
        assert (result.error_kind, row.outcome, row.not_reached) == (ErrorKind.AGENT, Outcome.ERROR, True)


def test_checks_alone_judge_a_case() -> None:
    """A case without any criterion is judged by its checks; without those nothing judged it."""
    report = run(ok, named("own"), case("c2"), criteria=NO_CRITERIA, named={"checks": {"own": lambda ctx: True}})
    assert [r.outcome.value for r in report.results] == ["passed", "error"]
    assert report.results[1].error_kind is ErrorKind.NOTHING_CHECKED
    assert report.summary.criterion_stats["check:own"].passed == 1


def test_a_mock_run_checks_nothing() -> None:
    """A check is skipped in a mock run: there is no run that it could look at."""
    turn = Invocation.simple("hi", "ok")
    turn.checks = [Check(name="b")]
    one = EvalCase(eval_id="c1", conversation=[turn], checks=[Check(name="a")])
    result = run_one(None, one, mock_mode=True, named={"checks": {"a": ok, "b": ok}})
    assert [(r.criterion, r.outcome.value) for r in result.criterion_results] == [
        ("exact_match", "passed"),
        ("check:a", "skipped"),
        ("check:b", "skipped"),
    ]


def test_checks_are_part_of_every_trial() -> None:
    """Each trial is checked; the row says how many did not pass."""
    answers = iter([True, False, True])
    one = named("own", trials=3)
    result = run_one(ok, one, named={"checks": {"own": lambda ctx: next(answers)}})
    assert result.criterion_results[1].reason == "1 of 3 trials failed: the check returned False"


def test_what_a_check_prints_is_kept(capsys: pytest.CaptureFixture[str]) -> None:
    """Prints of a check go to its case."""
    result = run_one(ok, named("own"), named={"checks": {"own": lambda ctx: print("looking")}})
    assert result.stdout == "looking\n"
    assert capsys.readouterr().out == ""
