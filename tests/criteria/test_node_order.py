"""Node visits."""

from __future__ import annotations

import pytest

from agentflow_eval import CriterionResult, MatchType, NodeOrderConfig, NodeOrderMatchCriterion
from tests.criteria.runs import case, expecting, run

EXACT, IN_ORDER, ANY_ORDER = MatchType.EXACT, MatchType.IN_ORDER, MatchType.ANY_ORDER


def judge(expected: list[str] | None, actual: list[str], match_type: MatchType = EXACT) -> CriterionResult:
    """The judgement of a run that visited these nodes."""
    criterion = NodeOrderMatchCriterion(NodeOrderConfig(threshold=1.0, match_type=match_type))
    return criterion.evaluate_sync(run(nodes=actual, tools=["t"]), case(expecting(nodes=expected)))


@pytest.mark.parametrize(
    ("match_type", "expected", "actual", "score", "reason"),
    [
        (EXACT, ["MAIN", "TOOL", "MAIN"], ["MAIN", "TOOL", "MAIN"], 1.0, None),
        (
            EXACT,
            ["A", "B"],
            ["A", "C", "B"],
            1 / 3,
            "visit 2: expected B, got C (expected A > B; visited A > C > B)",
        ),
        (EXACT, ["A"], ["A", "B"], 0.5, "visit 2: expected the end, got B (expected A; visited A > B)"),
        (EXACT, ["A", "B"], ["A"], 0.5, "visit 2: expected B, got the end (expected A > B; visited A)"),
        (
            EXACT,
            ["Router"],
            ["ROUTER"],
            0.0,
            "visit 1: expected Router, got ROUTER (did you mean ROUTER?) (expected Router; visited ROUTER)",
        ),
        (EXACT, [], ["A"], 0.0, "visit 1: expected the end, got A (expected nothing; visited A)"),
        (EXACT, [], [], 1.0, None),
        (IN_ORDER, ["ROUTER", "BILLING"], ["ROUTER", "AUDIT", "BILLING", "AUDIT"], 1.0, None),
        (
            IN_ORDER,
            ["A", "B"],
            ["B", "A"],
            0.5,
            "B was not visited in the expected order (expected A > B; visited B > A)",
        ),
        (ANY_ORDER, ["A", "A"], ["A", "B"], 0.5, "A was not visited often enough (expected A > A; visited A > B)"),
        (ANY_ORDER, ["B", "A"], ["A", "X", "B"], 1.0, None),
        (ANY_ORDER, ["C"], ["A"], 0.0, "C was not visited (expected C; visited A)"),
    ],
)
def test_scores(
    match_type: MatchType, expected: list[str], actual: list[str], score: float, reason: str | None
) -> None:
    """The share of expected visits, with both ways in the reason."""
    result = judge(expected, actual, match_type)
    assert result.score == pytest.approx(score)
    if reason is not None and match_type is IN_ORDER:
        assert result.reason is not None
        assert "in the expected order" in result.reason
    else:
        assert reason == result.reason


@pytest.mark.parametrize(
    ("expected", "actual", "passed"),
    [
        (["A", "B"], ["A", "A/x", "A/y", "B"], True),
        (["A", "A/x", "B"], ["A", "A/x", "B"], True),
        (["A", "A/x", "B"], ["A", "A/x", "A/y", "B"], False),
        ([], ["A/x"], True),
    ],
)
def test_nested_nodes(expected: list[str], actual: list[str], passed: bool) -> None:
    """Visits inside a subgraph count only when the expected list names some."""
    assert passed == judge(expected, actual).passed


def test_nothing_stated() -> None:
    """Without an expectation there is nothing to judge."""
    result = judge(None, ["A"])
    assert (result.outcome, result.reason) == ("skipped", "no expected_node_order is stated")
