"""Limits of a run."""

from __future__ import annotations

from typing import Any

import pytest

from agentflow_eval import (
    BudgetConfig,
    BudgetCriterion,
    CriteriaConfig,
    CriterionResult,
    ExecutionResult,
    NodeResponse,
    TokenUsage,
    ToolCall,
)
from tests.criteria.runs import case, expecting, run


def judge(actual: ExecutionResult, **limits: Any) -> CriterionResult:
    """The judgement of a run within these limits."""
    return BudgetCriterion(BudgetConfig(**limits)).evaluate_sync(actual, case(expecting()))


def execution(**values: Any) -> ExecutionResult:
    """A run that called two tools in three node visits."""
    tools = [ToolCall(name="a"), ToolCall(name="b")]
    return ExecutionResult(**{"tool_calls": tools, "node_visits": ["A", "B", "A"], "actual_response": "x", **values})


@pytest.mark.parametrize(
    ("values", "limits", "score", "reason"),
    [
        ({}, {"max_tool_calls": 2}, 1.0, None),
        ({}, {"max_tool_calls": 1}, 0.0, "max_tool_calls is 1, used 2"),
        ({}, {"max_tool_calls": 0}, 0.0, "max_tool_calls is 0, used 2"),
        ({}, {"max_iterations": 3}, 1.0, None),
        ({}, {"max_iterations": 2}, 0.0, "max_iterations is 2, used 3"),
        ({"node_responses": [NodeResponse()]}, {"max_iterations": 1}, 1.0, None),
        ({"duration_seconds": 1.5}, {"max_duration_seconds": 1.5}, 1.0, None),
        ({"duration_seconds": 1.5}, {"max_duration_seconds": 1.25}, 0.0, "max_duration_seconds is 1.25, used 1.5"),
        ({"agent_token_usage": TokenUsage(input_tokens=9)}, {"max_total_tokens": 8}, 0.0, "is 8, used 9"),
        ({"agent_token_usage": TokenUsage(input_tokens=9)}, {"max_total_tokens": 9}, 1.0, None),
        (
            {"duration_seconds": 9.0},
            {"max_tool_calls": 1, "max_iterations": 5, "max_duration_seconds": 2.0, "threshold": 0.5},
            1 / 3,
            "max_tool_calls is 1, used 2; max_duration_seconds is 2, used 9",
        ),
    ],
)
def test_scores(values: dict[str, Any], limits: dict[str, Any], score: float, reason: str | None) -> None:
    """The share of limits that were respected; reaching one respects it."""
    result = judge(execution(**values), **limits)
    assert score == result.score
    assert (result.reason is None) if reason is None else (reason in (result.reason or ""))


@pytest.mark.parametrize(
    ("values", "limits", "reason"),
    [
        ({}, {"max_total_tokens": 5}, "reported no tokens"),
        ({"node_visits": []}, {"max_iterations": 5}, "neither model turns nor node visits"),
        ({"node_visits": [], "tool_calls": []}, {"max_tool_calls": 5}, "the collector saw no events"),
    ],
)
def test_limits_that_cannot_be_checked(values: dict[str, Any], limits: dict[str, Any], reason: str) -> None:
    """What the run does not show is an error, not a pass."""
    result = judge(execution(**values), **limits)
    assert result.outcome == "error"
    assert reason in (result.reason or "")


def test_a_turn_with_limits_of_its_own() -> None:
    """A turn's limits are for what that turn did."""
    actual = run({"tools": ["a", "b"]}, {"tools": ["a"]}, {"tools": ["a", "b"]})
    turns = [expecting(), expecting(), expecting()]
    turns[1].criteria = CriteriaConfig(budget=BudgetConfig(max_tool_calls=1))
    turns[2].criteria = CriteriaConfig(budget=BudgetConfig(max_tool_calls=1, max_duration_seconds=60.0))
    result = BudgetCriterion(BudgetConfig(max_tool_calls=2)).evaluate_sync(actual, case(*turns))
    assert [row["score"] for row in result.details["turns"]] == [1.0, 1.0, 0.5]
    assert result.reason == "turn 3: max_tool_calls is 1, used 2"


@pytest.mark.parametrize("limit", ["max_total_tokens", "max_iterations"])
def test_limits_that_a_turn_cannot_have(limit: str) -> None:
    """What is known for the whole run only is not passed off as a turn's."""
    actual = run({"nodes": ["A"]}, {"nodes": ["A"]})
    turns = [expecting(), expecting(criteria=CriteriaConfig(budget=BudgetConfig(**{limit: 5})))]
    result = BudgetCriterion(BudgetConfig(max_tool_calls=2)).evaluate_sync(actual, case(*turns))
    assert result.outcome == "error"
    assert f"turn 2: {limit} is counted for the whole run, not for one turn" in (result.reason or "")
