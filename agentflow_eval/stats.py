"""Rates, intervals and agreement: numbers in, numbers out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

_Z95 = 1.959963984540054


class Interval(NamedTuple):
    """Bounds that hold the true value with 95 % confidence."""

    low: float
    high: float


class Agreement(NamedTuple):
    """How two raters agree on yes or no.

    Attributes:
        rate: Share of equal ratings.
        kappa: Cohen's kappa (1960), agreement beyond chance; None when chance alone explains everything.
        kappa_interval: Its 95 % interval, by the large-sample standard error (Fleiss, Cohen and Everitt 1969, in the
            simple form); None without a kappa.
    """

    rate: float
    kappa: float | None
    kappa_interval: Interval | None


def wilson(successes: int, total: int) -> Interval:
    """The 95 % interval of a rate (Wilson 1927); 0..1 when nothing was counted."""
    if not total:
        return Interval(0.0, 1.0)
    rate, z2 = successes / total, _Z95**2
    centre = (rate + z2 / (2 * total)) / (1 + z2 / total)
    half = _Z95 * math.sqrt(rate * (1 - rate) / total + z2 / (4 * total**2)) / (1 + z2 / total)
    return Interval(max(0.0, centre - half), min(1.0, centre + half))


def agreement(first: Sequence[bool], second: Sequence[bool]) -> Agreement:
    """How two raters agree.

    Raises:
        ValueError: The ratings are not of the same, at least one, items.
    """
    total = len(first)
    if not total or total != len(second):
        raise ValueError(f"two ratings of the same items are needed, got {total} and {len(second)}")
    rate = sum(a == b for a, b in zip(first, second, strict=True)) / total
    yes_first, yes_second = sum(first) / total, sum(second) / total
    chance = yes_first * yes_second + (1 - yes_first) * (1 - yes_second)
    if chance >= 1.0:
        return Agreement(rate, None, None)
    kappa = (rate - chance) / (1 - chance)
    half = _Z95 * math.sqrt(rate * (1 - rate) / total) / (1 - chance)
    return Agreement(rate, kappa, Interval(max(-1.0, kappa - half), min(1.0, kappa + half)))
