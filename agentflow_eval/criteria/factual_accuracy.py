"""Does a judge find the facts of the answer right?"""

from __future__ import annotations

from agentflow_eval.criteria._judged import JudgedCriterion


class FactualAccuracyCriterion(JudgedCriterion):
    """Does a judge find the facts of the answer right?"""

    slot = "factual_accuracy"
