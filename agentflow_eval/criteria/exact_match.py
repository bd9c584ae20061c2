"""Is the answer the expected text?"""

from __future__ import annotations

import unicodedata
from typing import Any

from agentflow_eval._values import shown
from agentflow_eval.config import ExactMatchConfig
from agentflow_eval.criteria._base import NO_RESPONSE, SlotCriterion, View, notes
from agentflow_eval.result import CriterionResult


class ExactMatchCriterion(SlotCriterion[ExactMatchConfig]):
    """1 when the answer equals the expected answer after NFC and without white space at its ends, else 0."""

    slot = "exact_match"
    config_class = ExactMatchConfig

    def score(self, view: View, config: ExactMatchConfig) -> CriterionResult:
        """1.0 or 0.0."""
        turn, expected, others = view.answer_to_compare()
        wanted, got = _normal(expected), _normal(turn.agent_response)
        match = wanted == got
        details: dict[str, Any] = {"match": match, "actual_length": len(got), "expected_length": len(wanted)}
        if others:
            listed = ", ".join(str(number) for number in others)
            details = notes(details, [f"turns {listed} expect answers too; scope turn would score them"])
        return self.scored(1.0 if match else 0.0, config, details, None if match else _reason(wanted, got))


def _normal(text: str) -> str:
    return unicodedata.normalize("NFC", text).strip()


def _reason(wanted: str, got: str) -> str:
    if not got:
        return NO_RESPONSE
    pairs = enumerate(zip(wanted, got, strict=False))
    first = next((index for index, (a, b) in pairs if a != b), min(len(wanted), len(got)))
    begin = max(0, first - 20)
    return f"differs at character {first + 1}: expected {shown(wanted[begin:])}, got {shown(got[begin:])}"
