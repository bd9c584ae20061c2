"""A mock run replays each case's own expectations."""

from __future__ import annotations

from typing import Any

import pytest

from agentflow_eval.config import CriteriaConfig, CriterionConfig
from agentflow_eval.dataset import EvalCase, Invocation, MessageContent, ToolCall
from agentflow_eval.evaluator import AgentEvaluator
from agentflow_eval.result import EvalReport
from tests.engine.runs import case, config, eval_set, outcomes

ALL = CriteriaConfig(
    tool_name_match=CriterionConfig.tool_name_match(),
    trajectory=CriterionConfig.trajectory(check_args=True),
    node_order=CriterionConfig.node_order(),
    rouge_match=CriterionConfig.rouge_match(1.0),
    exact_match=CriterionConfig.exact_match(),
    contains_keywords=CriterionConfig.contains_keywords(["shipped"]),
    budget=CriterionConfig.budget(max_tool_calls=3, max_total_tokens=100),
)


def mock(*cases: EvalCase, criteria: CriteriaConfig = ALL, **settings: Any) -> EvalReport:
    """The report of a mock run."""
    return AgentEvaluator(config=config(criteria=criteria, mock_mode=True, **settings)).run_sync(eval_set(*cases))


def test_perfect_run_passes() -> None:
    """A case whose expectations agree with one another passes, with matchers filled in."""
    calls = [ToolCall(name="find", args={"id": {"$type": "integer"}}), ToolCall(name="track")]
    first = Invocation.simple("where?", "Which order? None was shipped.", [calls[0]], ["MAIN", "TOOL", "MAIN"])
    last = Invocation.simple("7", "It was shipped.", [calls[1]], ["MAIN"])
    report = mock(EvalCase(eval_id="c1", conversation=[first, last]))
    assert outcomes(report) == ["passed"]
    result = report.results[0]
    assert [call.name for call in result.actual_tool_calls] == ["find", "track"]
    assert isinstance(result.actual_tool_calls[0].args["id"], int)
    assert result.node_visits == ["MAIN", "TOOL", "MAIN", "MAIN"]
    assert result.actual_response == "It was shipped."


def test_contradiction_shows() -> None:
    """Expectations that no run can meet fail without an agent."""
    report = mock(case(answer="It was lost."))
    assert outcomes(report) == ["failed"]
    assert [r.criterion for r in report.results[0].failed_criteria] == ["contains_keywords"]


def test_never_passes_the_gate() -> None:
    """A mock run passes neither the report nor the gate, whatever the cases do."""
    report = mock(case(answer="It was shipped."), min_pass_rate=0.1)
    assert (outcomes(report), report.summary.pass_rate) == (["passed"], 1.0)
    assert (report.mock, report.passed, report.gate_passed) == (True, False, False)


def test_answer_without_expectation() -> None:
    """Where no answer is stated, the keywords of the turn, the config and the case are one."""
    turn = Invocation.simple("hi")
    turn.expected_keywords = ["one"]
    report = mock(EvalCase(eval_id="c1", conversation=[turn, turn], expected_keywords=["two"]))
    said = [turn.agent_response for turn in report.results[0].turn_results]
    assert said == ["one shipped", "one shipped two"]
    only_exact = CriteriaConfig(exact_match=CriterionConfig.exact_match())
    assert mock(case(answer=None), criteria=only_exact).results[0].actual_response == "mock answer"


def test_own_keywords_of_a_case() -> None:
    """A case's own criteria are replayed, not the config's."""
    own = CriteriaConfig(contains_keywords=CriterionConfig.contains_keywords(["lost"]))
    report = mock(case(answer=None, criteria=own), criteria=CriteriaConfig(contains_keywords=ALL.contains_keywords))
    assert report.results[0].actual_response == "lost"
    assert outcomes(report) == ["passed"]


def test_nodes_without_expectation() -> None:
    """A case that states no nodes visits one, so that wiring is not in question."""
    assert mock(case()).results[0].node_visits == ["MOCK"]


@pytest.mark.parametrize("given", [[], ["A"]])
def test_stated_nodes(given: list[str]) -> None:
    """Stated nodes are visited, even when there are none."""
    one = EvalCase.single_turn("c1", "hi", "It was shipped.", expected_node_order=given)
    assert given == mock(one).results[0].node_visits


def test_trials_are_not_repeated() -> None:
    """A replay is the same every time, so one is enough."""
    assert mock(case(answer="shipped", trials=3), trials=5).results[0].trials == []


def test_text_is_made_valid() -> None:
    """What the user says is made printable as in a real run."""
    one = case(answer=None)
    one.conversation[0].user_content = MessageContent(role="user", content="half \ud83d")
    assert mock(one).results[0].turn_results[0].user_input == "half \\ud83d"
