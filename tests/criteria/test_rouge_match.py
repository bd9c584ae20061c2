"""Shared words."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rouge_score import rouge_scorer

from agentflow_eval import CriterionResult, RougeMatchConfig, RougeMatchCriterion
from agentflow_eval.criteria._text import tokens
from agentflow_eval.criteria.rouge_match import rouge
from tests.criteria.runs import case, expecting, run

Variant = Literal["rouge1", "rouge2", "rougeL"]


def judge(expected: str | None, actual: Any, **config: Any) -> CriterionResult:
    """The judgement of this answer."""
    criterion = RougeMatchCriterion(RougeMatchConfig(**config))
    return criterion.evaluate_sync(run(answer=actual), case(expecting(expected)))


@pytest.mark.parametrize(
    ("expected", "actual", "low", "high"),
    [
        ("one two three", "one two three", 1.0, 1.0),
        ("one two three", "Three, TWO; one!", 1.0, 1.0),
        ("one two three", "one one one one", 0.28, 0.29),
        ("苹果是红色的", "苹果是绿色的", 0.83, 0.84),
        ("ขอบคุณค่ะ", "ขอบคุณค่ะ", 1.0, 1.0),
        ("пёс спит дома", "пёс играет дома", 0.66, 0.67),
        ("naïve café", "naive cafe", 0.0, 0.0),
        ("it costs 3.50", "it costs 350", 0.66, 0.67),
        ("minus −5", "minus -5", 1.0, 1.0),
        ("", "", 1.0, 1.0),
        (" ", None, 1.0, 1.0),
        ("", "something", 0.0, 0.0),
        ("something", None, 0.0, 0.0),
        ("something", "?!", 0.0, 0.0),
    ],
)
def test_scores(expected: str, actual: str | None, low: float, high: float) -> None:
    """Words of every script count once each."""
    result = judge(expected, actual)
    assert result.score is not None
    assert low <= result.score <= high


@pytest.mark.parametrize(
    ("variant", "expected", "actual", "score"),
    [
        ("rouge2", "a b c", "a b d", 0.5),
        ("rouge2", "a", "a", 1.0),
        ("rouge2", "a", "a b", 2 / 3),
        ("rougeL", "a b c d", "a c b d", 0.75),
        ("rougeL", "a b", "b a", 0.5),
        ("rouge1", "a b", "b a", 1.0),
    ],
)
def test_variants(variant: Variant, expected: str, actual: str, score: float) -> None:
    """Word pairs and the common subsequence respect the order."""
    assert judge(expected, actual, variant=variant).score == pytest.approx(score)


@pytest.mark.parametrize(
    ("expected", "actual", "reason"),
    [
        ("red and blue", "red or green", "missing words: and, blue; other words: or, green"),
        ("a b c d e f g h i j k l", "z", "missing words: a, b, c, d, e, f, g, h, i, j, ...; other words: z"),
        ("open", None, "the agent gave no response"),
        ("", "x", "expected an empty answer, got 'x'"),
    ],
)
def test_reasons(expected: str, actual: str | None, reason: str) -> None:
    """What is missing and what is there instead."""
    result = judge(expected, actual, threshold=0.9)
    assert result.outcome == "failed"
    assert reason in (result.reason or "")


def test_same_words_in_another_order() -> None:
    """An order that matters is named as the reason."""
    result = judge("a b c", "c b a", variant="rouge2", threshold=0.5)
    assert result.reason == "rouge2 0.00 is below 0.50; the words are the same in another order"
    assert result.details["actual_response"] == "c b a"


def test_nothing_to_compare() -> None:
    """Without an expected answer nothing is judged; one without words cannot be judged."""
    assert judge(None, "something").outcome == "skipped"
    result = judge("?!", "something")
    assert result.outcome == "error"
    assert "has no word to compare; use exact_match" in (result.reason or "")


def test_the_last_expected_answer_counts() -> None:
    """Over several turns the last stated answer is compared with its own turn."""
    actual = run({"answer": "one"}, {"answer": "two"}, {"answer": "three"})
    expected = case(expecting("one"), expecting("two"), expecting())
    result = RougeMatchCriterion(RougeMatchConfig()).evaluate_sync(actual, expected)
    assert result.score == 1.0
    assert result.details["notes"] == ['not compared: the expected answer of turn 1 (scope "turn" compares each)']


sentences = st.lists(st.sampled_from(["red", "blue", "a1", "go", "42"]), min_size=2, max_size=8).map(" ".join)


@given(sentences, sentences, st.sampled_from(["rouge1", "rouge2", "rougeL"]))
@settings(max_examples=60)
def test_against_the_reference(expected: str, actual: str, variant: str) -> None:
    """The numbers are those of Google's implementation."""
    reference = rouge_scorer.RougeScorer([variant]).score(expected, actual)[variant]
    assert rouge(tokens(expected), tokens(actual), variant) == pytest.approx(tuple(reference))


@given(st.text(max_size=20), st.text(max_size=20), st.sampled_from(["rouge1", "rouge2", "rougeL"]))
def test_scores_are_shares(expected: str, actual: str, variant: str) -> None:
    """Any two texts give numbers of 0..1, alike both ways, and 1 for a text and itself."""
    wanted, got = tokens(expected), tokens(actual)
    assert all(0.0 <= number <= 1.0 for number in rouge(wanted, got, variant))
    assert rouge(wanted, got, variant)[2] == pytest.approx(rouge(got, wanted, variant)[2])
    assert rouge(wanted, wanted, variant)[2] == (1.0 if wanted else 0.0)
