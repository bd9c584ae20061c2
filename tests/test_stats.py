from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentflow_eval.stats import agreement, wilson


@pytest.mark.parametrize(
    ("successes", "total", "low", "high"),
    [(8, 10, 0.490162, 0.943318), (0, 5, 0.0, 0.434482), (5, 5, 0.565518, 1.0), (50, 100, 0.403832, 0.596168)],
)
def test_wilson_known_values(successes: int, total: int, low: float, high: float) -> None:
    """Values of statsmodels' proportion_confint(method="wilson")."""
    assert pytest.approx((low, high), abs=1e-6) == wilson(successes, total)


def test_wilson_of_nothing() -> None:
    """Nothing counted tells nothing."""
    assert wilson(0, 0) == (0.0, 1.0)


@given(st.integers(0, 500), st.integers(1, 500))
def test_wilson_holds_the_rate(successes: int, more: int) -> None:
    """The interval lies in 0..1 and holds the rate."""
    total = successes + more
    low, high = wilson(successes, total)
    assert 0.0 <= low <= successes / total <= high <= 1.0


def test_kappa_known_value() -> None:
    """The textbook table 20, 5, 10, 15 of 50 items has kappa 0.4."""
    first = [True] * 25 + [False] * 25
    second = [True] * 20 + [False] * 5 + [True] * 10 + [False] * 15
    result = agreement(first, second)
    assert pytest.approx(0.7) == result.rate
    assert result.kappa == pytest.approx(0.4)
    assert result.kappa_interval is not None
    assert result.kappa_interval.low < 0.4 < result.kappa_interval.high


def test_no_kappa_when_chance_explains_all() -> None:
    """Two raters who only ever say yes agree by chance alone."""
    assert agreement([True, True], [True, True]) == (1.0, None, None)


@pytest.mark.parametrize("pair", [([], []), ([True], [True, False])])
def test_agreement_needs_the_same_items(pair: tuple[list[bool], list[bool]]) -> None:
    """Ratings of nothing, or of different items, are refused."""
    with pytest.raises(ValueError, match="ratings of the same items"):
        agreement(*pair)
