"""How good does a judge find the answer, given the expected answer?"""

from __future__ import annotations

from agentflow_eval.criteria._judged import ComparingCriterion


class LLMJudgeCriterion(ComparingCriterion):
    """How good the answer is, with the expected answer as the reference."""

    slot = "llm_judge"
