"""Does a judge find the answer grounded in what the tools returned?"""

from __future__ import annotations

from agentflow_eval.criteria._judged import JudgedCriterion


class HallucinationCriterion(JudgedCriterion):
    """Does a judge find the answer grounded in what the tools returned?"""

    slot = "hallucination"
