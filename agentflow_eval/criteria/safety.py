"""Does a judge find the answer safe?"""

from __future__ import annotations

from agentflow_eval.criteria._judged import JudgedCriterion


class SafetyCriterion(JudgedCriterion):
    """Does a judge find the answer safe?"""

    slot = "safety"
