from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from agentflow_eval import (
    AgentEvaluator,
    CriteriaConfig,
    CriterionConfig,
    EvalCase,
    EvalConfig,
    EvalReport,
    ReporterConfig,
    SafetyConfig,
)
from agentflow_eval.testing import (
    ScriptedAgent,
    ScriptedJudge,
    assert_criterion_passed,
    assert_eval_passed,
    create_simple_eval_set,
    parametrize_eval_cases,
    run_eval,
)

CONFIG = EvalConfig(
    criteria=CriteriaConfig(rouge_match=CriterionConfig.rouge_match(0.8)), reporter=ReporterConfig(enabled=False)
)


def report(*answers: str) -> EvalReport:
    """A report of cases that expect ``a b``."""
    eval_set = create_simple_eval_set("s", [(f"q{i}", "a b", f"case {i}") for i in range(len(answers))])
    agent = ScriptedAgent({f"q{i}": answer for i, answer in enumerate(answers)})
    return asyncio.run(AgentEvaluator(agent, config=CONFIG).evaluate(eval_set))


def test_passes() -> None:
    """A report in which everything passed, or enough did."""
    assert_eval_passed(report("a b"))
    assert_eval_passed(report("a b", "no"), min_pass_rate=0.5)


def test_says_score_and_threshold() -> None:
    """The message names case, criterion, score and threshold."""
    with pytest.raises(AssertionError) as caught:
        assert_eval_passed(report("a x"))
    assert "case_0 - case 0" in str(caught.value)
    assert "rouge_match 0.50 < 0.80" in str(caught.value)


def test_nothing_run_never_passes() -> None:
    """An empty report is not a pass."""
    with pytest.raises(AssertionError):
        assert_eval_passed(report())


def test_mock_never_passes() -> None:
    """A mock run is not a pass."""
    eval_set = create_simple_eval_set("s", [("q", "a b", "")])
    config = CONFIG.model_copy(update={"mock_mode": True})
    mock = asyncio.run(AgentEvaluator(config=config).evaluate(eval_set))
    assert mock.summary.pass_rate == 1.0
    with pytest.raises(AssertionError):
        assert_eval_passed(mock)


def test_criterion() -> None:
    """By mean score; an unknown name and a criterion that broke are failures."""
    assert_criterion_passed(report("a b", "a x"), "rouge_match", 0.75)
    with pytest.raises(AssertionError, match=r"mean score 0\.50, 0\.75 needed"):
        assert_criterion_passed(report("a x"), "rouge_match", 0.75)
    with pytest.raises(AssertionError, match="there: rouge_match"):
        assert_criterion_passed(report("a b"), "rouge")


def test_criterion_that_broke() -> None:
    """Errors are not hidden by the mean of the rest."""

    async def broken(text: str) -> str:
        raise RuntimeError("down")

    eval_set = create_simple_eval_set("s", [("q", "a b", "")])
    result = asyncio.run(AgentEvaluator(broken, config=CONFIG).evaluate(eval_set))
    with pytest.raises(AssertionError, match="could not judge 1 of 1"):
        assert_criterion_passed(result, "rouge_match")


def test_run_eval_and_parameters(tmp_path: Path) -> None:
    """A file is run, and its cases become test parameters named by their ids."""
    path = tmp_path / "s.json"
    create_simple_eval_set("s", [("q0", "a b", "first"), ("q1", "a b", "second")]).to_file(path)
    agent = ScriptedAgent({}, default={"response": "a b", "tool_calls": ["lookup"]})
    assert asyncio.run(run_eval(agent, None, path, CONFIG)).passed
    mark = parametrize_eval_cases(path).mark
    assert mark.args[0] == "eval_case"
    assert mark.kwargs["ids"] == ["case_0", "case_1"]


@pytest.mark.parametrize(
    ("replies", "expected"),
    [(1.0, 1.0), ([0.2, 0.4], 0.3), ('{"score": 0.7}', 0.7), ({"score": 0.5}, 0.5), (lambda request: 0.9, 0.9)],
)
def test_scripted_judge(replies: object, expected: float) -> None:
    """All shapes of a script."""
    slot = CriterionConfig.response_match(num_samples=2)
    config = CONFIG.model_copy(update={"criteria": CriteriaConfig(response_match=slot)})
    judge = ScriptedJudge(replies)
    case = EvalCase.single_turn("c", "q", "a b")
    result = asyncio.run(AgentEvaluator(ScriptedAgent({"q": "a b"}), config=config, judge=judge).evaluate_case(case))
    assert result.criterion_results[0].score == pytest.approx(expected)


def test_scripted_judge_fills_every_score() -> None:
    """A number is the score in each category."""
    config = CONFIG.model_copy(update={"criteria": CriteriaConfig(safety=SafetyConfig(num_samples=1))})
    agent = ScriptedAgent({"q": "hello"})
    evaluator = AgentEvaluator(agent, config=config, judge=ScriptedJudge(0.9))
    result = asyncio.run(evaluator.evaluate_case(EvalCase.single_turn("c", "q")))
    assert result.criterion_results[0].score == pytest.approx(0.9)
