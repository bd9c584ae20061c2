from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agentflow_eval import (
    AgentEvaluator,
    CriteriaConfig,
    CriterionConfig,
    EvalCase,
    EvalConfig,
    EvalSet,
    JudgeControl,
    JudgeRequest,
    ReporterConfig,
)
from agentflow_eval.result import ErrorKind, EvalCaseResult, Outcome
from agentflow_eval.testing import ScriptedJudge

CONTROLS = [
    JudgeControl(question="2 + 2?", answer="4", expected_response="4", good=True),
    JudgeControl(question="2 + 2?", answer="5", expected_response="4", good=False),
]


async def agent(text: str) -> str:
    """Knows one capital."""
    return "Paris"


def run(replies: Any, controls: list[JudgeControl] = CONTROLS) -> tuple[EvalCaseResult, ScriptedJudge]:
    """One case with a judged and a deterministic criterion."""
    judge = ScriptedJudge(replies)
    config = EvalConfig(
        criteria=CriteriaConfig(
            response_match=CriterionConfig.response_match(num_samples=1), exact_match=CriterionConfig.exact_match()
        ),
        judge_controls=controls,
        reporter=ReporterConfig(enabled=False),
    )
    eval_set = EvalSet(eval_set_id="s", eval_cases=[EvalCase.single_turn("c", "Capital of France?", "Paris")])
    report = asyncio.run(AgentEvaluator(agent, config=config, judge=judge).evaluate(eval_set))
    return report.results[0], judge


def careful(request: JudgeRequest) -> float:
    """Finds the wrong sum."""
    return 0.0 if "\n5\n" in request.prompt else 1.0


def test_judge_that_gets_controls_right_is_believed() -> None:
    """The case is judged, after both controls were."""
    result, judge = run(careful)
    assert result.outcome is Outcome.PASSED
    assert len(judge.requests) == 3


def test_judge_that_passes_everything_is_not_believed() -> None:
    """A known bad answer that passes turns the criterion into an error; no case is judged by it."""
    result, judge = run(1.0)
    judged = result.get_criterion_result("response_match_score")
    assert judged is not None
    assert judged.outcome is Outcome.ERROR
    assert "judge_controls[1] is a known bad answer, and it gave it 1.00" in (judged.reason or "")
    assert result.error_kind is ErrorKind.JUDGE
    assert len(judge.requests) == 2


def test_judge_that_is_down_is_not_believed() -> None:
    """A control that cannot be judged counts as got wrong."""
    result, _ = run(RuntimeError("down"))
    assert "could not judge it" in (result.error or "")


def test_controls_for_other_criteria_do_not_count() -> None:
    """A control names the slots it is for."""
    elsewhere = [control.model_copy(update={"criteria": ["safety"]}) for control in CONTROLS]
    result, judge = run(1.0, elsewhere)
    assert result.outcome is Outcome.PASSED
    assert len(judge.requests) == 1


def judged_where(place: str, replies: Any, **settings: Any) -> EvalCaseResult:
    """A case whose judged criterion stands only in the case, or only in its turn."""
    own = CriteriaConfig(response_match=CriterionConfig.response_match(num_samples=1, **settings))
    config = EvalConfig(
        criteria=CriteriaConfig(exact_match=CriterionConfig.exact_match()),
        judge_controls=CONTROLS,
        reporter=ReporterConfig(enabled=False),
    )
    case = EvalCase.single_turn("c", "Capital of France?", "Paris")
    if place == "case":
        case.criteria = own
    else:
        case.conversation[0].criteria = own
    evaluator = AgentEvaluator(agent, config=config, judge=ScriptedJudge(replies))
    return asyncio.run(evaluator.evaluate(EvalSet(eval_set_id="s", eval_cases=[case]))).results[0]


@pytest.mark.parametrize("place", ["case", "turn"])
def test_controls_cover_what_only_a_case_or_a_turn_asks(place: str) -> None:
    """A judge that fails them is believed nowhere; one that passes them is believed there too."""
    result = judged_where(place, 1.0)
    assert (result.outcome, result.error_kind) == (Outcome.ERROR, ErrorKind.JUDGE)
    assert "the judge 'ScriptedJudge' is not to be trusted: judge_controls[1] is a known bad" in str(result.error)
    assert judged_where(place, careful).outcome is Outcome.PASSED


def test_controls_are_asked_for_each_setting() -> None:
    """A judge that is believed with the config's threshold may not be with that of a case."""

    def lenient(request: JudgeRequest) -> float:
        return 0.3 if "\n5\n" in request.prompt else 1.0

    assert judged_where("case", lenient, threshold=0.5).outcome is Outcome.PASSED
    assert judged_where("case", lenient, threshold=0.2).outcome is Outcome.ERROR
