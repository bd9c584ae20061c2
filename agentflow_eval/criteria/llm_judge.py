"""How good does a judge find the answer, given the expected answer?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agentflow_eval.criteria._base import View
from agentflow_eval.criteria._judged import JudgedCriterion, compared


class LLMJudgeCriterion(JudgedCriterion):
    """How good the answer is, with the expected answer as the reference."""

    slot = "llm_judge"

    def asks(self, view: View) -> Sequence[tuple[str, float, dict[str, Any]]]:
        """One question about the last turn that states an expected answer."""
        return [("answer", 1.0, compared(view))]
