"""How well does a judge find that the answer follows each rubric?"""

from __future__ import annotations

from agentflow_eval.criteria._judged import JudgedCriterion


class RubricBasedCriterion(JudgedCriterion):
    """How well does a judge find that the answer follows each rubric?"""

    slot = "rubric_based"
