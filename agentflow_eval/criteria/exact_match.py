"""Is the answer the expected text?"""

from __future__ import annotations

import unicodedata

from agentflow_eval._values import shown
from agentflow_eval.config import ExactMatchConfig
from agentflow_eval.criteria._base import SlotCriterion, View, notes
from agentflow_eval.result import CriterionResult


class ExactMatchCriterion(SlotCriterion[ExactMatchConfig]):
    """1 when the answer equals the expected answer after NFC and without white space at its ends, else 0."""

    slot = "exact_match"
    config_class = ExactMatchConfig

    def score(self, view: View, config: ExactMatchConfig) -> CriterionResult:
        """1.0 or 0.0."""
        turn, expected, remarks = view.answer_to_compare()
        wanted, got = _normal(expected), _normal(turn.agent_response)
        match = wanted == got
        details = {"match": match, "actual_length": len(got), "expected_length": len(wanted)}
        return self.scored(
            1.0 if match else 0.0, config, notes(details, remarks), None if match else _reason(wanted, got)
        )


def _normal(text: str) -> str:
    return unicodedata.normalize("NFC", text).strip()


def _reason(wanted: str, got: str) -> str:
    pairs = enumerate(zip(wanted, got, strict=False))
    first = next((index for index, (a, b) in pairs if a != b), min(len(wanted), len(got)))
    begin = max(0, first - 20)
    differing = wanted[first : first + 1], got[first : first + 1]
    hint = f" ({' / '.join(map(_character, differing))})" if any(map(_looks_like_nothing, differing)) else ""
    return f"differs at character {first + 1}: expected {shown(wanted[begin:])}, got {shown(got[begin:])}{hint}"


def _looks_like_nothing(char: str) -> bool:
    return char not in ("", " ") and unicodedata.category(char) in ("Zs", "Zl", "Zp", "Cf")


def _character(char: str) -> str:
    return f"U+{ord(char):04X} {unicodedata.name(char, '')}".rstrip() if char else "the end"
