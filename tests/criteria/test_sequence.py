"""Matching sequences."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentflow_eval import MatchType
from agentflow_eval.criteria._sequence import SequenceMatch, match_sequence
from agentflow_eval.criteria.rouge_match import common_length

EXACT, IN_ORDER, ANY_ORDER = MatchType.EXACT, MatchType.IN_ORDER, MatchType.ANY_ORDER

Slots = list[set[int]]
"""Expected items, each of which accepts several actual ones, as calls with matchers do."""

words = st.text("abc", max_size=7)
slots = st.lists(st.sets(st.integers(0, 4), max_size=3), max_size=5)
items = st.lists(st.integers(0, 4), max_size=6)


def match(expected: str, actual: str, match_type: MatchType) -> SequenceMatch:
    """The match of two texts, letter by letter."""
    return match_sequence(expected, actual, match_type, str.__eq__)


def match_slots(expected: Slots, actual: list[int], match_type: MatchType) -> SequenceMatch:
    """The match of slots that accept several items."""
    return match_sequence(expected, actual, match_type, lambda accepted, item: item in accepted)


@pytest.mark.parametrize(
    ("expected", "actual", "exact", "in_order", "any_order"),
    [
        ("abc", "abc", 1.0, 1.0, 1.0),
        ("abc", "acb", 1 / 3, 2 / 3, 1.0),
        ("abc", "xaxbxcx", 0.0, 1.0, 1.0),
        ("abc", "abcx", 3 / 4, 1.0, 1.0),
        ("abc", "ab", 2 / 3, 2 / 3, 2 / 3),
        ("ab", "ba", 0.0, 1 / 2, 1.0),
        ("aa", "a", 1 / 2, 1 / 2, 1 / 2),
        ("a", "aaa", 1 / 3, 1.0, 1.0),
        ("abcd", "dabc", 0.0, 3 / 4, 1.0),
        ("abcab", "bacb", 1 / 5, 3 / 5, 4 / 5),
        ("abc", "", 0.0, 0.0, 0.0),
        ("", "", 1.0, 1.0, 1.0),
        ("", "a", 0.0, 0.0, 0.0),
    ],
)
def test_scores(expected: str, actual: str, exact: float, in_order: float, any_order: float) -> None:
    """The three ways of counting; nothing expected means that nothing may be there."""
    scores = [match(expected, actual, match_type).score for match_type in (EXACT, IN_ORDER, ANY_ORDER)]
    assert scores == pytest.approx([exact, in_order, any_order])


@pytest.mark.parametrize(
    ("match_type", "missing", "extra"), [(EXACT, [1, 2], [1, 2, 3]), (IN_ORDER, [1], [2, 3]), (ANY_ORDER, [], [3])]
)
def test_missing_and_extra(match_type: MatchType, missing: list[int], extra: list[int]) -> None:
    """What has no partner is known by its place."""
    found = match("abc", "acbx", match_type)
    assert match_type is IN_ORDER or (found.missing, found.extra) == (missing, extra)
    assert len(found.pairs) + len(found.missing) == 3
    assert len(found.pairs) + len(found.extra) == 4


def test_a_wildcard_makes_room() -> None:
    """A slot that accepts anything leaves the picky one its only partner, whatever the order."""
    for expected in ([{1, 2}, {1}], [{1}, {1, 2}]):
        assert match_slots(expected, [1, 2], ANY_ORDER).score == 1.0


def test_a_long_chain_of_exchanges() -> None:
    """Every partner is exchanged when the last slot needs it; no recursion limit is met."""
    size = 400
    expected = [{number, number + 1} for number in range(size)] + [{0}]
    assert match_slots(expected, list(range(size + 1)), ANY_ORDER).score == 1.0


@given(slots, items)
@settings(max_examples=80)
def test_any_order_is_a_maximum(expected: Slots, actual: list[int]) -> None:
    """No assignment of slots to items has more pairs, as trying all of them shows."""
    found = match_slots(expected, actual, ANY_ORDER)
    assert len({j for _, j in found.pairs}) == len(found.pairs)
    assert all(actual[j] in expected[i] for i, j in found.pairs)
    assert len(found.pairs) == _best_assignment(expected, actual)


def _best_assignment(expected: Slots, actual: list[int]) -> int:
    if not expected:
        return 0
    first, rest = expected[0], expected[1:]
    options = [_best_assignment(rest, actual)]
    options += [
        1 + _best_assignment(rest, actual[:j] + actual[j + 1 :]) for j, item in enumerate(actual) if item in first
    ]
    return max(options)


@given(words, words)
def test_in_order_is_a_longest_common_subsequence(expected: str, actual: str) -> None:
    """No longer common subsequence exists, as trying all of them shows; two implementations agree."""
    subsequences = (
        "".join(part) for size in range(len(expected) + 1) for part in itertools.combinations(expected, size)
    )
    longest = max(len(part) for part in subsequences if _is_within(part, actual))
    found = match(expected, actual, IN_ORDER)
    assert len(found.pairs) == longest == common_length(list(expected), list(actual))
    assert found.pairs == sorted(found.pairs)


def _is_within(part: str, text: str) -> bool:
    rest = iter(text)
    return all(letter in rest for letter in part)


@given(words, words, st.sampled_from(MatchType))
def test_scores_are_shares(expected: str, actual: str, match_type: MatchType) -> None:
    """A score is 0..1, and 1 exactly when nothing is missing and, for EXACT, nothing is extra."""
    found = match(expected, actual, match_type)
    assert 0.0 <= found.score <= 1.0
    if expected:
        complete = not found.missing and (match_type is not EXACT or not found.extra)
        assert (found.score == 1.0) == complete


@given(slots.flatmap(lambda made: st.tuples(st.just(made), st.permutations(made))), items)
def test_any_order_ignores_order(pair: tuple[Slots, Slots], actual: list[int]) -> None:
    """The order of the expected items makes no difference, nor does that of the actual ones."""
    first, second = pair
    scores = {match_slots(first, actual, ANY_ORDER).score, match_slots(second, actual[::-1], ANY_ORDER).score}
    assert len(scores) == 1


@given(words, words, st.sampled_from("abcx"))
def test_an_extra_item_never_raises_exact(expected: str, actual: str, extra: str) -> None:
    """One more item at the end helps only where one was missing."""
    before, after = match(expected, actual, EXACT).score, match(expected, actual + extra, EXACT).score
    assert after <= before or len(actual) < len(expected)


@given(words, words)
def test_stricter_is_never_higher(expected: str, actual: str) -> None:
    """What EXACT finds IN_ORDER finds too, and ANY_ORDER finds what IN_ORDER finds."""
    exact, in_order, any_order = (match(expected, actual, match_type).score for match_type in MatchType)
    assert exact <= in_order <= any_order
