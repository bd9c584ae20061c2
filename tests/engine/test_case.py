"""One case from its first message to its result."""

from __future__ import annotations

import asyncio
import re
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from agentflow_eval.collector import TrajectoryCollector
from agentflow_eval.config import (
    BudgetConfig,
    ContainsKeywordsConfig,
    CriteriaConfig,
    CriterionConfig,
    ExactMatchConfig,
    NodeOrderConfig,
    TrajectoryConfig,
)
from agentflow_eval.criteria import BaseCriterion
from agentflow_eval.dataset import EvalCase, Invocation, SessionInput, ToolCall
from agentflow_eval.evaluator import AgentEvaluator
from agentflow_eval.result import CriterionResult, EvalCaseResult, EvalReport, ExecutionResult, Outcome
from tests.engine.runs import (
    Instant,
    Waiting,
    case,
    config,
    eval_set,
    numbered,
    ok,
    outcomes,
    records,
    run,
    run_one,
    talk,
)


class EvilError(Exception):
    """An exception whose cause cannot be looked at."""

    __cause__ = property(lambda self: 1 / 0)


class UnreadableError(Exception):
    """An exception that cannot be shown."""

    def __str__(self) -> str:
        raise ValueError("no text for you")

    __repr__ = __str__


# Limits


async def hangs(text: str, run: TrajectoryCollector) -> None:
    """Records something and never answers."""
    run.node("MAIN")
    run.tool("look", {"n": 1}, result="seen")
    await asyncio.Event().wait()


def test_async_timeout() -> None:
    """An agent that hangs is an error that names the limit; what it recorded is kept and nothing is scored."""
    began = time.monotonic()
    report = run(hangs, *numbered(3), timeout=0.05)
    assert time.monotonic() - began < 3
    assert outcomes(report) == ["error"] * 3
    result = report.results[1]
    assert result.error == "the agent timed out after 0.05 s (turn 1)"
    assert (result.error_kind, result.timed_out, result.error_traceback) == ("timeout", True, None)
    assert [call.result for call in result.actual_tool_calls] == ["seen"]
    assert [step.name for step in result.actual_trajectory] == ["MAIN", "look"]
    assert result.turn_results[0].outcome == "error"
    assert [r.score for r in result.criterion_results] == [None]
    assert str(result.criterion_results[0].reason).startswith("not scored, because the run broke: the agent timed out")


def test_sync_timeout() -> None:
    """A sync agent that hangs is left behind, and its late records are dropped."""
    release = threading.Event()
    late: list[bool] = []

    def agent(text: str, run: TrajectoryCollector) -> str:
        run.node("EARLY")
        release.wait(5)
        run.node("LATE")
        late.append(True)
        return "ok"

    result = run_one(agent, timeout=0.5)
    assert (result.error_kind, result.node_visits) == ("timeout", ["EARLY"])
    release.set()
    while not late:
        time.sleep(0.001)
    assert (result.node_visits, result.actual_response) == (["EARLY"], "")


def test_late_result() -> None:
    """A sync agent that ends after its limit changes nothing, even while the run goes on."""
    release = threading.Event()

    def agent(text: str) -> str:
        if text == "c1":
            release.wait(5)
            return "late"
        release.set()
        time.sleep(0.05)
        return "ok"

    report = run(agent, *numbered(2), timeout=0.5)
    assert outcomes(report) == ["error", "passed"]
    assert [result.actual_response for result in report.results] == ["", "ok"]


def test_cleanup_that_raises() -> None:
    """What the agent raises while it is stopped is told too."""

    async def agent(text: str) -> None:
        try:
            await asyncio.sleep(5)
        finally:
            raise ValueError("disk full")

    result = run_one(agent, timeout=0.05)
    assert result.error == (
        "the agent timed out after 0.05 s (turn 1); while it was stopped it raised ValueError: disk full"
    )
    assert "disk full" in str(result.error_traceback)
    assert result.error_kind == "timeout"


def test_late_answer() -> None:
    """An answer that comes after the cancellation does not count."""

    async def agent(text: str) -> str:
        try:
            await asyncio.sleep(5)
        except asyncio.CancelledError:
            return "ok"
        return "never"

    assert run_one(agent, timeout=0.05).error_kind == "timeout"


def test_ignored_cancellation() -> None:
    """An agent that ignores its cancellation is left to itself, and the next case is run."""
    ended = False

    async def agent(text: str) -> str:
        while text == "c1" and not ended:
            try:
                await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                continue
        return "ok"

    async def main() -> EvalReport:
        nonlocal ended
        report = await AgentEvaluator(agent, config=config(timeout=0.3)).evaluate(eval_set(*numbered(2)))
        ended = True
        await asyncio.sleep(0.05)
        return report

    report = asyncio.run(main())
    assert outcomes(report) == ["error", "passed"]
    assert "it ignored its cancellation and was left to itself" in str(report.results[0].error)


def test_blocked_loop() -> None:
    """An async agent that blocks the event loop past its limit has timed out, and the report says what blocked."""

    async def agent(text: str) -> str:
        time.sleep(0.1)
        return "ok"

    result = run_one(agent, timeout=0.02)
    assert result.error_kind == "timeout"
    assert "the event loop was blocked for 0.1 s: a blocking call inside async code" in str(result.error)


def test_limit_spans_all_turns() -> None:
    """The limit bounds the turns together."""

    async def agent(text: str) -> str:
        await asyncio.sleep(0.4)
        return "ok"

    result = run_one(agent, talk("a", "b", "c"), timeout=0.7)
    assert result.error == "the agent timed out after 0.7 s (turn 2)"
    assert [turn.outcome for turn in result.turn_results] == ["ok", "error", "not_run"]


def test_limit_of_a_case() -> None:
    """A case may have a limit of its own, longer or shorter."""

    async def agent(text: str) -> str:
        await asyncio.sleep(0.05)
        return "ok"

    slow, quick = case("slow", timeout=5), case("quick", timeout=0.01)
    assert outcomes(run(agent, slow, quick, case("plain"), timeout=0.02)) == ["passed", "error", "error"]
    assert outcomes(run(agent, slow, quick, case("plain"))) == ["passed", "error", "passed"]


# What agents raise


def test_raising_agent() -> None:
    """A case whose agent raises is an error that says what and where; the others go on."""

    async def agent(text: str) -> str:
        if text == "c2":
            raise RuntimeError("case 2")
        return "ok"

    report = run(agent, *numbered(3))
    assert outcomes(report) == ["passed", "error", "passed"]
    result = report.results[1]
    assert (result.error, result.error_kind) == ("RuntimeError: case 2", "agent")
    assert "in agent\n" in str(result.error_traceback)
    assert "evaluator.py" not in str(result.error_traceback)
    assert result.turn_results[0].error == "RuntimeError: case 2"
    assert result.explanation()[0] == "RuntimeError: case 2"


def raising(exc: BaseException) -> list[Callable[[str], Any]]:
    """Agents of every kind that raise ``exc``."""

    async def waits(text: str) -> None:
        raise exc

    def sync(text: str) -> None:
        raise exc

    async def pieces(text: str) -> AsyncIterator[str]:
        if text:
            raise exc
        yield "never"

    return [waits, sync, pieces]


@pytest.mark.parametrize("kind", [0, 1, 2])
@pytest.mark.parametrize(
    ("exc", "message"),
    [
        (ModuleNotFoundError("No module named 'acme'"), "ModuleNotFoundError: No module named 'acme'"),
        (UnreadableError(), "UnreadableError: <message unreadable: ValueError in __str__>"),
        (EvilError("evil"), "EvilError: evil"),
        (asyncio.CancelledError("leaked"), "CancelledError: leaked"),
        (TimeoutError(), "TimeoutError"),
        (SystemExit(3), "SystemExit: 3"),
        (BaseException("base"), "BaseException: base"),
        (GeneratorExit(), "GeneratorExit"),
        (StopAsyncIteration("x"), "StopAsyncIteration"),
        (StopIteration("x"), "StopIteration"),
        (BaseExceptionGroup("many", [SystemExit(1)]), "BaseExceptionGroup: many (1 sub-exception)"),
        (ValueError("half \ud83d \x00"), r"ValueError: half \ud83d \x00"),
    ],
)
def test_everything_an_agent_raises(exc: BaseException, message: str, kind: int) -> None:
    """Whatever an agent raises is its case's error, and the next case is run."""
    bad = raising(exc)[kind]

    def agent(text: str) -> Any:
        return bad(text) if text == "c1" else "ok"

    report = run(agent, *numbered(2))
    assert outcomes(report) == ["error", "passed"]
    assert message in str(report.results[0].error)
    assert report.results[0].error_kind == "agent"


def test_agent_that_cancels_itself() -> None:
    """Cancelling one's own task is an agent's error, not an answer and not the end of the run."""

    async def agent(text: str) -> str:
        task = asyncio.current_task()
        if text == "c1" and task is not None:
            task.cancel()
            await asyncio.sleep(1)
        return "ok"

    report = run(agent, *numbered(2))
    assert outcomes(report) == ["error", "passed"]
    assert report.results[0].error == "AgentError: the agent cancelled its own task"


def test_endless_recursion() -> None:
    """Even a stack that overflows."""

    def agent(text: str) -> str:
        return agent(text)

    assert str(run_one(agent).error).startswith("RecursionError")


def test_all_cases_errored() -> None:
    """A report in which nothing ran is not passed."""
    report = run(raising(ModuleNotFoundError("acme"))[0], *numbered(3), min_pass_rate=0.01)
    assert (report.passed, report.gate_passed, report.summary.pass_rate) == (False, False, 0.0)
    assert (report.summary.error_cases, report.summary.criterion_stats["exact_match"].avg_score) == (3, None)


# Several turns


def raises_on(wanted: str) -> Any:
    """An agent that raises when it is told so."""

    async def agent(text: str, run: TrajectoryCollector) -> str:
        run.node(text)
        if text == wanted:
            raise RuntimeError("lost it")
        return "ok"

    return agent


def test_broken_turn() -> None:
    """After a broken turn the rest is not run, and the report says which one broke."""
    result = run_one(raises_on("two"), talk("one", "two", "three"))
    assert (result.outcome, result.error) == (Outcome.ERROR, "turn 2: RuntimeError: lost it")
    assert [turn.outcome for turn in result.turn_results] == ["ok", "error", "not_run"]
    assert [turn.user_input for turn in result.turn_results] == ["one", "two", "three"]
    assert [turn.expected_response for turn in result.turn_results] == ["ok", "ok", "ok"]
    assert result.node_visits == ["one", "two"]


def test_broken_turn_and_on() -> None:
    """With on_turn_error continue the later turns are played; the case is an error all the same."""
    result = run_one(raises_on("two"), talk("one", "two", "three", on_turn_error="continue"))
    assert (result.outcome, result.error) == (Outcome.ERROR, "turn 2: RuntimeError: lost it")
    assert [turn.outcome for turn in result.turn_results] == ["ok", "error", "ok"]
    assert [turn.answered for turn in result.turn_results] == [True, False, True]


def test_history() -> None:
    """Each turn gets the conversation before it once, the agent's answers included."""
    seen: list[list[tuple[str, str]]] = []

    async def agent(text: str, messages: list[dict[str, Any]]) -> str | None:
        seen.append([(message["role"], message["content"]) for message in messages])
        messages.clear()
        return None if text == "b" else text.upper()

    run_one(agent, talk("a", "b", "c"))
    assert seen == [
        [("user", "a")],
        [("user", "a"), ("assistant", "A"), ("user", "b")],
        [("user", "a"), ("assistant", "A"), ("user", "b"), ("user", "c")],
    ]


# Session


def test_state_is_copied() -> None:
    """Every case starts with the state that the file says, and the eval set stays as it is."""
    seen: list[list[str]] = []
    state = {"cart": ["a"]}
    cases = [case(name, session_input=SessionInput(state=state, config={"tags": []})) for name in ("c1", "c2")]

    async def agent(text: str, session: SessionInput) -> str:
        seen.append(list(session.state["cart"]))
        session.state["cart"].append("b")
        session.config["tags"].append("x")
        return "ok"

    before = eval_set(*cases).model_dump_json()
    assert run(agent, *cases, trials=2).passed
    assert seen == [["a"]] * 4
    assert before == eval_set(*cases).model_dump_json()
    assert state == {"cart": ["a"]}


def test_state_that_cannot_be_copied() -> None:
    """A state made in Python that cannot be copied breaks its case and not the run."""
    locked = case("c1", session_input=SessionInput(state={"lock": threading.Lock()}))
    report = run(ok, locked, case("c2"))
    assert outcomes(report) == ["error", "passed"]
    assert report.results[0].error_kind == "fixture"
    assert str(report.results[0].error).startswith("session_input cannot be copied: TypeError: ")
    assert report.results[0].turn_results[0].outcome == "not_run"


class KeepsThreads:
    """A target that notes the thread ids it gets."""

    def __init__(self) -> None:
        self.ids: list[str] = []

    async def run_turn(self, turn: Any, session: Any, collector: TrajectoryCollector) -> None:
        self.ids.append(session.thread_id)
        if turn.text == "again" and len(self.ids) == 1:
            raise ConnectionError("reset")
        collector.say("ok")


def test_thread_ids() -> None:
    """Each attempt has an id of its own that any runtime takes, and its turns share it."""
    target = KeepsThreads()
    assert run(target, talk("again", "b"), case("c2"), retries=1, trials=2).passed
    first, second, third, fourth, *_ = target.ids
    assert second == third
    assert first != second
    assert fourth != second
    assert len(set(target.ids)) == 5
    for thread_id in target.ids:
        assert re.fullmatch(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?", thread_id)
        assert len(thread_id) <= 63


# Retries


def test_retry() -> None:
    """An agent that raised is asked again, and the report says so."""
    answers: list[Any] = [ConnectionError("reset"), "ok"]

    async def agent(text: str, run: TrajectoryCollector) -> str:
        run.node(f"attempt-{2 - len(answers) + 1}")
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return str(answer)

    result = run_one(agent, retries=1)
    assert (result.passed, result.attempts) == (True, 2)
    assert result.retried_errors == ["ConnectionError: reset"]
    assert result.node_visits == ["attempt-2"]


def test_retries_run_out() -> None:
    """The last error counts, and the earlier ones are listed."""
    result = run_one(raising(ConnectionError("reset"))[0], retries=2)
    assert (result.outcome, result.attempts, result.error) == (Outcome.ERROR, 3, "ConnectionError: reset")
    assert result.retried_errors == ["ConnectionError: reset"] * 2


@pytest.mark.parametrize("answer", ["wrong", None])
def test_no_retry_after_an_answer(answer: str | None) -> None:
    """A wrong or missing answer is never asked for again, nor is a timeout."""
    calls: list[str] = []

    async def agent(text: str) -> str | None:
        calls.append(text)
        if text == "slow":
            await asyncio.sleep(5)
        return answer

    report = run(agent, case(), case("c2", query="slow"), retries=5, timeout=0.3)
    assert outcomes(report) == ["failed", "error"]
    assert calls == ["hi", "slow"]
    assert [result.attempts for result in report.results] == [1, 1]


# Records


def test_later_changes_are_not_seen() -> None:
    """What was recorded stays as it was when it was recorded."""

    async def agent(text: str, run: TrajectoryCollector) -> str:
        args: dict[str, Any] = {"n": 1, "deep": {"items": [1]}}
        result = ["a"]
        run.tool("look", args, result=result)
        args["n"] = 2
        args["deep"]["items"].append(2)
        result.append("b")
        return "ok"

    (call,) = run_one(agent).actual_tool_calls
    assert call.args == {"n": 1, "deep": {"items": [1]}}
    assert call.result == ["a"]


def test_no_events() -> None:
    """An agent that answered while the collector saw nothing is a wiring error for criteria that need events."""
    criteria = CriteriaConfig(trajectory=TrajectoryConfig(), exact_match=ExactMatchConfig())
    one = EvalCase.single_turn("c1", "hi", "ok", [ToolCall(name="look")])
    result = run_one(ok, one, criteria=criteria)
    assert (result.outcome, result.error_kind) == (Outcome.ERROR, "wiring")
    trajectory, exact = result.criterion_results
    assert (trajectory.outcome, trajectory.score) == (Outcome.ERROR, None)
    assert "collector saw no events" in str(trajectory.error)
    assert "run.tool" in str(result.error)
    assert exact.passed
    assert run_one(records, one, criteria=criteria).passed


def test_recorder_that_fails() -> None:
    """When something could not be recorded the case says so instead of scoring half a run."""

    async def agent(text: str, run: TrajectoryCollector) -> str:
        run.tokens({"input_tokens": "many"})
        return "ok"

    result = run_one(agent)
    assert (result.outcome, result.error_kind) == (Outcome.ERROR, "wiring")
    assert str(result.error).startswith("the recorder could not follow the agent: ValueError")


def test_streamed_pieces() -> None:
    """Pieces without a final event are joined and the turn says so; a final answer replaces them."""

    async def pieces(text: str) -> AsyncIterator[Any]:
        yield "o"
        yield "k"
        if text == "final":
            yield {"response": "ok"}

    joined, final = run_one(pieces), run_one(pieces, case(query="final"))
    assert (joined.passed, final.passed) == (True, True)
    assert "no final event" in str(joined.turn_results[0].note)
    assert final.turn_results[0].note is None


@pytest.mark.parametrize("answer", [None, "", "  "])
def test_no_answer(answer: str | None) -> None:
    """An agent that gives no answer, or an empty one, has failed."""

    async def agent(text: str) -> str | None:
        return answer

    result = run_one(agent)
    assert result.outcome is Outcome.FAILED
    assert not result.turn_results[0].answered
    assert result.criterion_results[0].reason == "the agent gave no response"


def test_skipped_case() -> None:
    """A case with a reason to skip it is not run."""
    report = run(raising(RuntimeError("no"))[0], case(skip="flaky upstream", tags=["x"]), case("c2"))
    assert outcomes(report) == ["skipped", "error"]
    skipped = report.results[0]
    assert (skipped.skip_reason, skipped.criterion_results, skipped.tags) == ("flaky upstream", [], ["x"])
    assert (report.summary.skipped_cases, report.summary.pass_rate) == (1, 0.0)


def test_all_skipped() -> None:
    """A set of skipped cases passes nothing."""
    report = run(ok, case(skip="later"))
    assert (report.passed, report.gate_passed) == (False, False)


# Criteria


def test_nothing_checked() -> None:
    """A case that no criterion judged is an error that says what was missing."""
    result = run_one(ok, case(answer=None))
    assert (result.outcome, result.error_kind) == (Outcome.ERROR, "nothing_checked")
    assert "exact_match: no expected_final_response is stated" in str(result.error)
    result = run_one(ok, criteria=CriteriaConfig())
    assert result.error == "nothing was checked (no criterion is switched on)"


def test_failed_before_broken() -> None:
    """One failed criterion fails the case, even when another broke."""
    broken = Instant(lambda actual: 1 / 0)
    assert run_one(ok, own=[broken]).outcome is Outcome.ERROR
    result = run_one(ok, case(answer="other"), own=[broken])
    assert (result.outcome, result.error_kind, result.error) == (Outcome.FAILED, None, None)


def test_mixed_scores() -> None:
    """Each criterion has its own row; a good mean does not save a case."""
    own = [Instant(lambda actual: CriterionResult.scored("own", 1.0, 0.5))]
    result = run_one(ok, case(answer="other"), own=own)
    assert [(r.criterion, r.passed) for r in result.criterion_results] == [("exact_match", False), ("own", True)]
    assert not result.passed


def own_result(criterion: BaseCriterion, **settings: Any) -> CriterionResult:
    """What becomes of a criterion of one's own; the built-in one beside it passes."""
    result = run_one(ok, own=[criterion], **settings)
    assert result.criterion_results[0].passed
    return result.criterion_results[1]


def garbage(value: Any) -> list[BaseCriterion]:
    """Criteria that give ``value``, sync and async; an exception is raised."""

    def give() -> Any:
        if isinstance(value, BaseException):
            raise value
        return value

    async def give_later() -> Any:
        await asyncio.sleep(0)
        return give()

    return [Instant(lambda actual: give()), Waiting(give_later)]


@pytest.mark.parametrize("kind", [0, 1])
@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, "the criterion returned NoneType, not a CriterionResult"),
        (True, "the criterion returned bool, not a CriterionResult"),
        (0.9, "the criterion returned float, not a CriterionResult"),
        (KeyError("x"), "the criterion raised KeyError: 'x'"),
        (SystemExit(2), "the criterion raised SystemExit: 2"),
        (asyncio.CancelledError("x"), "the criterion raised CancelledError: x"),
        (UnreadableError(), "the criterion raised UnreadableError: <message unreadable: ValueError in __str__>"),
    ],
)
def test_criterion_that_gives_garbage(value: Any, message: str, kind: int) -> None:
    """A criterion that raises or returns no result is an error of its own and of nobody else."""
    result = own_result(garbage(value)[kind])
    assert (result.criterion, result.outcome, result.score, result.error) == ("own", Outcome.ERROR, None, message)


def spoilt(**values: Any) -> CriterionResult:
    """A result that was changed after it was made."""
    result = CriterionResult.scored("own", 1.0, 0.5)
    for name, value in values.items():
        setattr(result, name, value)
    return result


@pytest.mark.parametrize("kind", [0, 1])
@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"score": float("nan")}, "score: must be a finite number, got number NaN"),
        ({"score": 7.5}, "score: must be less than or equal to 1, got number 7.5"),
        ({"score": None}, "score is None and outcome is passed"),
        ({"passed": False}, "passed is False and outcome is passed"),
        ({"details": 7}, "details: must be an object, got number 7"),
    ],
)
def test_criterion_that_contradicts_itself(values: dict[str, Any], message: str, kind: int) -> None:
    """A result that makes no sense is an error that says why."""
    result = own_result(garbage(spoilt(**values))[kind])
    assert result.error == f"the criterion returned a result that makes no sense: {message}"
    assert result.score is None


def test_nan_score() -> None:
    """NaN is no score."""
    result = own_result(Instant(lambda actual: CriterionResult.scored("own", float("nan"), 0.5)))
    assert result.error == "the criterion raised ValueError: own: score nan is not between 0 and 1"


def test_details_that_are_no_json() -> None:
    """Details become JSON, and a kind of error that nobody knows counts as the criterion's."""
    details = {"when": {1, 2}, "error_kind": "mood", "text": "half \ud83d"}
    result = run_one(ok, own=[Instant(lambda actual: CriterionResult.broken("own", 0.5, "no", details))])
    assert (result.outcome, result.error_kind) == (Outcome.ERROR, "criterion")
    assert result.criterion_results[1].details == {"when": [1, 2], "text": "half \\ud83d", "reason": "no"}
    assert result == EvalCaseResult.model_validate_json(result.model_dump_json())


def test_known_error_kind() -> None:
    """A criterion of one's own may say what kind of error it met."""
    result = run_one(
        ok, own=[Instant(lambda actual: CriterionResult.broken("own", 0.5, "no", {"error_kind": "judge"}))]
    )
    assert result.error_kind == "judge"


def test_criterion_timeout() -> None:
    """An async criterion that takes too long is an error and the case has not passed."""

    async def slow() -> CriterionResult:
        await asyncio.sleep(0.1)
        return CriterionResult.scored("own", 1.0, 0.5)

    assert own_result(Waiting(slow), criterion_timeout=0.02).error == "the criterion timed out after 0.02 s"
    assert own_result(Waiting(slow)).passed


def test_criterion_that_ignores_its_limit() -> None:
    """So is one that ignores its cancellation."""
    ended = False

    async def stubborn() -> None:
        while not ended:
            try:
                await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                continue

    async def main() -> EvalReport:
        nonlocal ended
        evaluator = AgentEvaluator(ok, config=config(criterion_timeout=0.02), criteria=[Waiting(stubborn)])
        report = await evaluator.evaluate(eval_set(case()))
        ended = True
        await asyncio.sleep(0.05)
        return report

    assert asyncio.run(main()).results[0].criterion_results[1].error == "the criterion timed out after 0.02 s"


def test_criterion_that_cancels_itself() -> None:
    """A criterion that cancels its own task breaks itself and not the run."""

    async def cancels() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(1)

    assert own_result(Waiting(cancels)).error == "the criterion cancelled its own task"


def test_waiting_criteria_wait_together() -> None:
    """Criteria that wait do so at the same time, and their results keep their places."""
    barrier = asyncio.Barrier(3)

    async def meets() -> CriterionResult:
        await barrier.wait()
        return CriterionResult.scored("own", 1.0, 0.5)

    criteria = [Waiting(meets), Instant(lambda actual: CriterionResult.scored("own", 0.0, 0.5)), Waiting(meets)]
    result = run_one(ok, own=[*criteria, Waiting(meets)], criterion_timeout=5)
    assert [r.score for r in result.criterion_results[1:]] == [1.0, 0.0, 1.0, 1.0]


def test_criterion_sees_the_run() -> None:
    """A criterion gets what was recorded and what the case expects."""
    seen: list[ExecutionResult] = []

    def judge(actual: ExecutionResult) -> CriterionResult:
        seen.append(actual)
        return CriterionResult.scored("own", 1.0, 0.5)

    assert run_one(records, own=[Instant(judge)]).passed
    assert seen[0].get_tool_names() == ["look"]
    assert (seen[0].actual_response, seen[0].error) == ("ok", None)


# Overrides


def names(result: EvalCaseResult) -> dict[str, str]:
    """The outcome of each criterion."""
    return {r.criterion: r.outcome.value for r in result.criterion_results}


def test_criteria_of_a_case() -> None:
    """A case's slots replace the config's; enabled false switches one off; criteria of one's own stay."""
    own = CriteriaConfig(
        exact_match=ExactMatchConfig(enabled=False), contains_keywords=CriterionConfig.contains_keywords(["o"])
    )
    mine = Instant(lambda actual: CriterionResult.scored("own", 1.0, 0.5))
    report = run(ok, case("c1", criteria=own), case("c2"), own=[mine])
    assert [names(result) for result in report.results] == [
        {"contains_keywords": "passed", "own": "passed"},
        {"exact_match": "passed", "own": "passed"},
    ]


def test_threshold_of_a_case() -> None:
    """The whole slot is replaced."""
    criteria = CriteriaConfig(rouge_match=CriterionConfig.rouge_match(0.9))
    lenient = CriteriaConfig(rouge_match=CriterionConfig.rouge_match(0.1))
    strict, easy = case("c1", answer="ok then"), case("c2", answer="ok then", criteria=lenient)
    assert outcomes(run(ok, strict, easy, criteria=criteria)) == ["failed", "passed"]


def test_criteria_of_a_turn() -> None:
    """A turn's slots stand above the case's, and count in that turn."""
    one = talk("a", "b", answer="ok")
    one.conversation[0].criteria = CriteriaConfig(contains_keywords=ContainsKeywordsConfig(keywords=["xyz"]))
    result = run_one(ok, one)
    assert names(result) == {"exact_match": "passed", "contains_keywords": "failed"}
    assert "turn 1: " in str(result.criterion_results[1].reason or result.criterion_results[0].reason)


def test_budget_of_a_case() -> None:
    """A case's budget is short for the slot."""
    report = run(records, case("c1", budget=BudgetConfig(max_tool_calls=0)), case("c2"))
    assert outcomes(report) == ["failed", "passed"]
    assert names(report.results[0]) == {"exact_match": "passed", "budget": "failed"}


def test_expected_and_seen_stand_side_by_side() -> None:
    """Each turn of a result shows what it expected."""
    turn = Invocation.simple("hi", "ok", [ToolCall(name="look")], ["MAIN"])
    criteria = CriteriaConfig(node_order=NodeOrderConfig(), trajectory=TrajectoryConfig())
    result = run_one(records, EvalCase(eval_id="c1", conversation=[turn]), criteria=criteria)
    (seen,) = result.turn_results
    assert (seen.expected_response, seen.expected_node_order) == ("ok", ["MAIN"])
    assert [call.name for call in seen.expected_tool_calls or []] == ["look"]
    assert result.passed


def test_node_details() -> None:
    """What went into each model call and what came out is in the result."""

    async def agent(text: str, run: TrajectoryCollector) -> str:
        run.node_response("MAIN", input_messages=[{"role": "user", "content": text}], response_text="ok")
        return "ok"

    (detail,) = run_one(agent).node_details
    assert (detail.node_name, detail.response_text) == ("MAIN", "ok")
    assert detail.input_messages == [{"role": "user", "content": "hi"}]


def test_result_survives_json() -> None:
    """An error without a score stays one after saving and loading."""
    result = run_one(hangs, timeout=0.02, trials=2)
    again = EvalCaseResult.model_validate_json(result.model_dump_json())
    assert again == result
    assert again.criterion_results[0].score is None


def test_stderr_is_not_touched(capsys: pytest.CaptureFixture[str]) -> None:
    """Only standard output is a case's own."""

    async def agent(text: str) -> str:
        print("note", file=sys.stderr)
        return "ok"

    assert run_one(agent).stdout == ""
    assert capsys.readouterr().err == "note\n"
