"""Does a judge find that the answer means the same as the expected answer?"""

from __future__ import annotations

from agentflow_eval.criteria._judged import ComparingCriterion


class ResponseMatchCriterion(ComparingCriterion):
    """How far the answer means the same as the expected answer."""

    slot = "response_match"
