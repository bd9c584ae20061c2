"""Matches a recorded sequence with the expected one."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from agentflow_eval.config import MatchType

Expected = TypeVar("Expected")
Actual = TypeVar("Actual")


@dataclass(slots=True)
class SequenceMatch:
    """How much of an expected sequence was found.

    Attributes:
        score: 0..1.
        pairs: (expected index, actual index) of items that match.
        missing: Indices of expected items without a partner.
        extra: Indices of actual items without a partner.
    """

    score: float
    pairs: list[tuple[int, int]]
    missing: list[int]
    extra: list[int]


def match_sequence(
    expected: Sequence[Expected],
    actual: Sequence[Actual],
    match_type: MatchType,
    equal: Callable[[Expected, Actual], bool],
) -> SequenceMatch:
    """Compares two sequences.

    EXACT scores equal items at equal positions / the longer length; IN_ORDER the longest common subsequence and
    ANY_ORDER a maximum bipartite matching / the number of expected items. When nothing is expected, nothing may be
    there, whatever the match type.
    """
    if not expected:
        return SequenceMatch(0.0 if actual else 1.0, [], [], list(range(len(actual))))
    if len(expected) == len(actual) and all(map(equal, expected, actual)):
        return SequenceMatch(1.0, [(i, i) for i in range(len(expected))], [], [])
    pairs = _PAIRINGS[match_type](expected, actual, equal)
    whole = max(len(expected), len(actual)) if match_type is MatchType.EXACT else len(expected)
    found, used = {i for i, _ in pairs}, {j for _, j in pairs}
    return SequenceMatch(
        score=len(pairs) / whole,
        pairs=pairs,
        missing=[i for i in range(len(expected)) if i not in found],
        extra=[j for j in range(len(actual)) if j not in used],
    )


def _same_positions(
    expected: Sequence[Expected], actual: Sequence[Actual], equal: Callable[[Expected, Actual], bool]
) -> list[tuple[int, int]]:
    return [(i, i) for i, (want, got) in enumerate(zip(expected, actual, strict=False)) if equal(want, got)]


def _common_subsequence(
    expected: Sequence[Expected], actual: Sequence[Actual], equal: Callable[[Expected, Actual], bool]
) -> list[tuple[int, int]]:
    """A longest common subsequence, by the usual dynamic programme over suffixes."""
    same = [[equal(want, got) for got in actual] for want in expected]
    rows, columns = len(expected), len(actual)
    longest = [[0] * (columns + 1) for _ in range(rows + 1)]
    for i in range(rows - 1, -1, -1):
        below, row = longest[i + 1], longest[i]
        for j in range(columns - 1, -1, -1):
            row[j] = below[j + 1] + 1 if same[i][j] else max(below[j], row[j + 1])
    pairs, i, j = [], 0, 0
    while i < rows and j < columns:
        if same[i][j] and longest[i][j] == longest[i + 1][j + 1] + 1:
            pairs.append((i, j))
            i, j = i + 1, j + 1
        elif longest[i + 1][j] >= longest[i][j + 1]:
            i += 1
        else:
            j += 1
    return pairs


def _maximum_matching(
    expected: Sequence[Expected], actual: Sequence[Actual], equal: Callable[[Expected, Actual], bool]
) -> list[tuple[int, int]]:
    """A maximum bipartite matching by augmenting paths (Berge 1957), each found breadth first."""
    edges = [[j for j, got in enumerate(actual) if equal(want, got)] for want in expected]
    partner_of_actual: dict[int, int] = {}
    partner_of_expected: dict[int, int] = {}
    for start in range(len(expected)):
        reached_from: dict[int, int] = {}
        queue = deque([start])
        free = -1
        while queue and free < 0:
            i = queue.popleft()
            for j in edges[i]:
                if j in reached_from:
                    continue
                reached_from[j] = i
                if j not in partner_of_actual:
                    free = j
                    break
                queue.append(partner_of_actual[j])
        while free >= 0:
            i = reached_from[free]
            before = partner_of_expected.get(i, -1)
            partner_of_actual[free], partner_of_expected[i] = i, free
            free = before
    return sorted(partner_of_expected.items())


_PAIRINGS: dict[MatchType, Callable[..., list[tuple[int, int]]]] = {
    MatchType.EXACT: _same_positions,
    MatchType.IN_ORDER: _common_subsequence,
    MatchType.ANY_ORDER: _maximum_matching,
}
