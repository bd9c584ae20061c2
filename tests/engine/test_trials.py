"""Several runs of a case as one result."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest

from agentflow_eval.collector import TrajectoryCollector
from agentflow_eval.dataset import SessionInput
from agentflow_eval.engine._trials import combined
from agentflow_eval.result import CriterionResult, EvalCaseResult, Outcome, TokenUsage
from tests.engine.runs import Instant, case, ok, run_one, talk


def scripted(*answers: Any) -> Any:
    """An agent that says or raises one thing after the other."""
    left = iter(answers)

    async def agent(text: str, run: TrajectoryCollector) -> str:
        run.tokens({"input_tokens": 10})
        answer = next(left)
        if isinstance(answer, Exception):
            raise answer
        return str(answer)

    return agent


def trials_of(*answers: Any, **settings: Any) -> EvalCaseResult:
    """The result of as many trials as there are answers."""
    return run_one(scripted(*answers), trials=len(answers), **settings)


def test_flaky() -> None:
    """A case that passes three of five times has failed, is flaky, and lists its runs."""
    result = trials_of("ok", "no", "ok", "ok", "no")
    assert (result.outcome, result.passed, result.flaky) == (Outcome.FAILED, False, True)
    assert result.trial_pass_rate == 0.6
    assert [trial.passed for trial in result.trials] == [True, False, True, True, False]
    exact = result.criterion_results[0]
    assert exact.details["trial_scores"] == [1.0, 0.0, 1.0, 1.0, 0.0]
    assert pytest.approx(0.6) == exact.score
    assert str(exact.reason).startswith("2 of 5 trials failed: ")
    assert result.actual_response == "no"


def test_all_passed() -> None:
    """It passes when every trial passes, and tokens and time are those of all."""
    result = trials_of("ok", "ok", "ok")
    assert (result.passed, result.flaky, result.trial_pass_rate) == (True, False, 1.0)
    assert TokenUsage(input_tokens=30) == result.agent_token_usage == result.token_usage
    assert sum(trial.duration_seconds for trial in result.trials) == result.duration_seconds


@pytest.mark.parametrize(
    ("answers", "outcome", "reason"),
    [
        (["ok", RuntimeError("down")], Outcome.ERROR, "1 of 2 trials could not be judged: "),
        (["no", RuntimeError("down")], Outcome.FAILED, "1 of 2 trials failed: "),
        ([RuntimeError("down"), "no"], Outcome.FAILED, "1 of 2 trials failed: "),
    ],
)
def test_broken_trials(answers: list[Any], outcome: Outcome, reason: str) -> None:
    """A failed trial weighs more than a broken one, and a broken one more than a passed one."""
    result = trials_of(*answers)
    assert outcome == result.outcome
    assert str(result.criterion_results[0].reason).startswith(reason)
    assert (outcome is Outcome.ERROR) == (result.criterion_results[0].score is None)
    assert (outcome is Outcome.ERROR) == (result.error is not None)


def test_equal_scores_at_the_threshold() -> None:
    """The mean of equal scores meets a threshold of the same value."""
    own = Instant(lambda actual: CriterionResult.scored("own", 0.7, 0.7))
    result = run_one(ok, own=[own], trials=3)
    assert [r.passed for r in result.criterion_results] == [True, True]
    assert pytest.approx(0.7) == result.criterion_results[1].score


def test_every_trial_starts_afresh() -> None:
    """An agent sees only this trial's messages and state."""
    seen: list[tuple[int, list[str]]] = []

    async def agent(text: str, messages: list[Any], session: SessionInput) -> str:
        session.state["cart"].append(text)
        seen.append((len(messages), list(session.state["cart"])))
        return "ok"

    one = talk("x", "y", session_input=SessionInput(state={"cart": ["a"]}))
    assert run_one(agent, one, trials=2).passed
    assert seen == [(1, ["a", "x"]), (3, ["a", "x", "y"])] * 2
    assert one.session_input.state == {"cart": ["a"]}


def test_trials_of_a_case() -> None:
    """A case may say how often it is run."""
    calls = itertools.count(1)

    async def agent(text: str) -> str:
        next(calls)
        return "ok"

    assert len(run_one(agent, case(trials=3)).trials) == 3
    assert run_one(agent, case(trials=1), trials=5).trials == []
    assert next(calls) == 5


def test_sums() -> None:
    """Tokens and costs are those of all trials; an unknown cost is none."""
    scored = CriterionResult.scored("own", 1.0, 0.5, token_usage=TokenUsage(input_tokens=2), cost=0.5)
    values: dict[str, Any] = {
        "eval_id": "c1",
        "passed": True,
        "outcome": Outcome.PASSED,
        "criterion_results": [scored],
        "judge_cost": 0.5,
        "token_usage": TokenUsage(input_tokens=7),
        "agent_token_usage": TokenUsage(input_tokens=5),
        "simulator_token_usage": TokenUsage(input_tokens=3),
    }
    free = {**values, "judge_cost": None, "criterion_results": [scored.model_copy(update={"cost": None})]}
    result = combined([EvalCaseResult(**values), EvalCaseResult(**values), EvalCaseResult(**free)])
    assert (result.judge_cost, result.criterion_results[0].cost) == (1.0, 1.0)
    sums = [result.token_usage, result.agent_token_usage, result.simulator_token_usage]
    assert [tokens.input_tokens for tokens in sums] == [21, 15, 9]
    assert result.criterion_results[0].token_usage.input_tokens == 6


def test_trials_of_a_timeout() -> None:
    """A trial that times out keeps its kind."""

    async def agent(text: str) -> None:
        await asyncio.Event().wait()

    result = run_one(agent, trials=2, timeout=0.02)
    assert (result.error_kind, result.timed_out) == ("timeout", True)
