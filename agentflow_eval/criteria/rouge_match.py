"""How many words does the answer share with the expected answer?"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable

from agentflow_eval.config import RougeMatchConfig
from agentflow_eval.criteria._base import CannotJudgeError, SlotCriterion, View, notes
from agentflow_eval.criteria._text import tokens
from agentflow_eval.result import CriterionResult, shape

_TEXT_SHOWN = 500
_WORDS_SHOWN = 10
_details = shape("precision", "recall", "f1")


class RougeMatchCriterion(SlotCriterion[RougeMatchConfig]):
    """ROUGE F1 of the answer (Lin 2004): clipped counts of words or word pairs, or the longest common subsequence."""

    slot = "rouge_match"
    config_class = RougeMatchConfig

    def score(self, view: View, config: RougeMatchConfig) -> CriterionResult:
        """The F1 of the answer against the expected answer."""
        turn, expected, remarks = view.answer_to_compare()
        if not expected.strip():
            empty = not turn.agent_response.strip()
            reason = None if empty else f"expected an empty answer, got {turn.agent_response[:_TEXT_SHOWN]!r}"
            return self.scored(1.0 if empty else 0.0, config, {}, reason)
        wanted = tokens(expected)
        got = wanted if turn.agent_response == expected else tokens(turn.agent_response)
        if not wanted:
            raise CannotJudgeError(f"the expected answer {expected!r} has no word to compare; use exact_match for it")
        precision, recall, f1 = rouge(wanted, got, config.variant)
        details = notes(_details(precision, recall, f1), remarks)
        passed = f1 >= config.threshold
        if not passed:
            details["actual_response"] = turn.agent_response[:_TEXT_SHOWN]
            details["expected_response"] = expected[:_TEXT_SHOWN]
        return self.scored(f1, config, details, None if passed else _reason(f1, config, wanted, got))


def _reason(f1: float, config: RougeMatchConfig, wanted: list[str], got: list[str]) -> str:
    missing, extra = list((Counter(wanted) - Counter(got)).keys()), list((Counter(got) - Counter(wanted)).keys())
    parts = [f"{config.variant} {f1:.2f} is below {config.threshold:.2f}"]
    if missing:
        parts.append(f"missing words: {_some(missing)}")
    if extra:
        parts.append(f"other words: {_some(extra)}")
    if not missing and not extra:
        parts.append("the words are the same in another order")
    return "; ".join(parts)


def _some(words: list[str]) -> str:
    return ", ".join(words[:_WORDS_SHOWN]) + (", ..." if len(words) > _WORDS_SHOWN else "")


def rouge(expected: list[str], actual: list[str], variant: str) -> tuple[float, float, float]:
    """Precision, recall and F1, each 0..1; ``rouge2`` compares words when one of the texts has a single word."""
    if expected == actual and expected:
        return 1.0, 1.0, 1.0
    if variant == "rougeL":
        overlap, wanted, got = common_length(expected, actual), len(expected), len(actual)
    elif variant == "rouge2" and min(len(expected), len(actual)) > 1:
        overlap = _clipped(itertools.pairwise(expected), itertools.pairwise(actual))
        wanted, got = len(expected) - 1, len(actual) - 1
    else:
        overlap, wanted, got = _clipped(expected, actual), len(expected), len(actual)
    if not overlap:
        return 0.0, 0.0, 0.0
    return overlap / got, overlap / wanted, 2 * overlap / (wanted + got)


def _clipped(expected: Iterable[object], actual: Iterable[object]) -> int:
    """How many items of ``actual`` find a partner in ``expected``, each of which serves once."""
    left: dict[object, int] = Counter(expected)
    overlap = 0
    for item in actual:
        if left.get(item):
            left[item] -= 1
            overlap += 1
    return overlap


def common_length(first: list[str], second: list[str]) -> int:
    """Length of the longest common subsequence, bit-parallel (Hyyro 2004)."""
    positions: dict[str, int] = {}
    for index, word in enumerate(first):
        positions[word] = positions.get(word, 0) | 1 << index
    full = (1 << len(first)) - 1
    state = full
    for word in second:
        matched = state & positions.get(word, 0)
        state = ((state + matched) | (state - matched)) & full
    return len(first) - state.bit_count()
