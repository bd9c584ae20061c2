"""Does a judge find that the conversation reached its goals?"""

from __future__ import annotations

from agentflow_eval.criteria._judged import JudgedCriterion


class SimulationGoalsCriterion(JudgedCriterion):
    """Does a judge find that the conversation reached its goals?"""

    slot = "simulation_goals"
