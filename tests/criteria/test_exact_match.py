"""Equal answers."""

from __future__ import annotations

from typing import Any

import pytest

from agentflow_eval import CriterionResult, ExactMatchConfig, ExactMatchCriterion
from tests.criteria.runs import case, expecting, run


def judge(expected: str | None, actual: Any) -> CriterionResult:
    """The judgement of this answer."""
    return ExactMatchCriterion(ExactMatchConfig()).evaluate_sync(run(answer=actual), case(expecting(expected)))


@pytest.mark.parametrize(
    ("expected", "actual", "reason"),
    [
        ("42", " 42\n", None),
        ("Zürich", "Zu\u0308rich", None),
        ("", "", None),
        ("", None, None),
        ("Yes", "yes", 'differs at character 1: expected "Yes", got "yes"'),
        ("1 2", "1  2", 'differs at character 3: expected "1 2", got "1  2"'),
        ("ab", "abc", 'differs at character 3: expected "ab", got "abc"'),
        ("ab", None, "the agent gave no response"),
        ("ab", " ", "the agent gave no response"),
        ("", "x", 'differs at character 1: expected "", got "x"'),
        ("4", 4, None),
        (
            "New York",
            "New\u00a0York",
            'differs at character 4: expected "New York", got "New\u00a0York" (U+0020 SPACE / U+00A0 NO-BREAK SPACE)',
        ),
        ("ab", "ab\u200b", 'differs at character 3: expected "ab", got "ab\u200b" (the end / U+200B ZERO WIDTH SPACE)'),
        ("\x1b[1mbold", "\x1b[1mbold", None),
    ],
)
def test_scores(expected: str, actual: Any, reason: str | None) -> None:
    """Equal after normal form and white space at the ends, and nothing else."""
    result = judge(expected, actual)
    assert (1.0 if reason is None else 0.0) == result.score
    assert reason == result.reason


def test_reason_shows_where() -> None:
    """Long texts are shown from just before the difference on."""
    result = judge("a" * 500 + "b" + "c" * 500, "a" * 500 + "x")
    assert result.reason is not None
    assert result.reason.startswith(f'differs at character 501: expected "{"a" * 20}bccc')
    assert len(result.reason) < 300


def test_other_turns() -> None:
    """The last stated answer is compared; the others are named."""
    actual = run({"answer": "one"}, {"answer": "two"})
    result = ExactMatchCriterion(ExactMatchConfig()).evaluate_sync(actual, case(expecting("x"), expecting("two")))
    assert result.passed
    assert result.details["notes"] == ['not compared: the expected answer of turn 1 (scope "turn" compares each)']
    assert judge(None, "x").outcome == "skipped"
