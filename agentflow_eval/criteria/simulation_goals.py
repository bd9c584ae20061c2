"""Does a judge find that the conversation reached its goals?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agentflow_eval.criteria._base import NothingToJudgeError, View
from agentflow_eval.criteria._judged import JudgedCriterion, conversation, tool_lines
from agentflow_eval.judge import Answer


class SimulationGoalsCriterion(JudgedCriterion):
    """The mean over the goals, each judged by itself; a goal is reached when its own score meets the threshold.

    Goals are those of the case's scenario, else ``metadata["goals"]``, so that fixed conversations can have some too.
    """

    slot = "simulation_goals"
    default_scale = "binary"

    def asks(self, view: View) -> Sequence[tuple[str, float, dict[str, Any]]]:
        """One question for each goal."""
        goals = _goals(view)
        if not goals:
            raise NothingToJudgeError('no goal is stated: neither a scenario nor metadata["goals"]')
        common = {"turns": conversation(view), "tools": tool_lines(view)}
        return [(goal, 1.0, {"goal": goal, **common}) for goal in goals]

    def findings(self, answers: Mapping[str, Answer]) -> dict[str, Any]:
        """Which goals were reached."""
        reached = {goal: self.meets(answer) for goal, answer in answers.items()}
        return {
            "achieved_goals": [goal for goal, yes in reached.items() if yes],
            "unachieved_goals": [goal for goal, yes in reached.items() if not yes],
        }


def _goals(view: View) -> list[str]:
    case = view.case
    if case is None:
        return []
    goals = case.scenario.goals if case.scenario is not None else case.metadata.get("goals")
    return list(dict.fromkeys(str(goal) for goal in goals)) if isinstance(goals, list) else []
