"""How good does a judge find the answer, given the expected answer?"""

from __future__ import annotations

from agentflow_eval.criteria._judged import JudgedCriterion


class LLMJudgeCriterion(JudgedCriterion):
    """How good does a judge find the answer, given the expected answer?"""

    slot = "llm_judge"
    needs_answer = True
