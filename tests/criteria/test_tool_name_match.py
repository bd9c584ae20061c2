"""Names of the called tools."""

from __future__ import annotations

from typing import Any

import pytest

from agentflow_eval import CriterionResult, ToolNameMatchConfig, ToolNameMatchCriterion
from tests.criteria.runs import case, expecting, run


def judge(expected: list[str] | None, actual: list[str], **config: Any) -> CriterionResult:
    """The judgement of a run that called these tools."""
    criterion = ToolNameMatchCriterion(ToolNameMatchConfig(**{"threshold": 1.0, **config}))
    return criterion.evaluate_sync(run(tools=actual, nodes=["MAIN"]), case(expecting(tools=expected)))


@pytest.mark.parametrize(
    ("expected", "actual", "config", "score", "reason"),
    [
        (["a", "b"], ["b", "a"], {}, 1.0, None),
        (["a"], ["a", "x"], {}, 1.0, None),
        (["a", "a"], ["a"], {}, 0.5, "a was not called (called: a)"),
        (["a"], ["a", "a"], {}, 1.0, None),
        (["a", "b"], ["b", "x"], {}, 0.5, "a was not called (called: b, x)"),
        (["get_fare"], ["getFare"], {}, 0.0, "get_fare was not called (did you mean getFare?) (called: getFare)"),
        (["a"], [], {}, 0.0, "a was not called (called: nothing)"),
        (["a"], ["a", "x"], {"allow_additional": False}, 0.0, "x was called and is not expected (called: a, x)"),
        (
            ["a"],
            ["x"],
            {"allow_additional": False},
            0.0,
            "a was not called; x was called and is not exp",
        ),
        (["a"], ["a"], {"allow_additional": False}, 1.0, None),
        ([], [], {}, 1.0, None),
        ([], ["x"], {}, 0.0, "x was called and is not expected (called: x)"),
        (["a"], ["a", "drop"], {"forbidden": ["drop", "wipe"]}, 0.0, "forbidden tool called: drop"),
        (["drop"], ["drop", "drop"], {"forbidden": ["drop"]}, 0.0, "forbidden tool called: drop"),
        (None, ["a", "drop"], {"forbidden": ["drop"]}, 0.0, "forbidden tool called: drop"),
        (None, ["a"], {"forbidden": ["drop"]}, 1.0, None),
    ],
)
def test_scores(
    expected: list[str] | None, actual: list[str], config: dict[str, Any], score: float, reason: str | None
) -> None:
    """The share of expected names that were called, each call counted once."""
    result = judge(expected, actual, **config)
    assert score == result.score
    assert (result.reason is None) if reason is None else (result.reason or "").startswith(reason)
    assert result.details["actual_names"] == actual
    assert result.details["expected_names"] == (expected or [])


def test_nothing_stated() -> None:
    """Without an expectation there is nothing to judge."""
    result = judge(None, ["a"])
    assert (result.outcome, result.score, result.reason) == ("skipped", None, "no expected_tool_trajectory is stated")
