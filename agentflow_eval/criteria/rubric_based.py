"""How well does a judge find that the answer follows each rubric?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agentflow_eval.config import RubricBasedConfig
from agentflow_eval.criteria._base import View
from agentflow_eval.criteria._judged import JudgedCriterion, conversation, tool_lines
from agentflow_eval.judge import Answer


class RubricBasedCriterion(JudgedCriterion):
    """The mean over the rubrics, weighted by their weights; each rubric is judged by itself."""

    slot = "rubric_based"
    config: RubricBasedConfig

    def asks(self, view: View) -> Sequence[tuple[str, float, dict[str, Any]]]:
        """One question for each rubric that has a weight."""
        common = {"turns": conversation(view), "tools": tool_lines(view)}
        return [
            (rubric.rubric_id, rubric.weight, {"rubric": rubric.content, **common})
            for rubric in self.config.rubrics
            if rubric.weight
        ]

    def findings(self, answers: Mapping[str, Answer]) -> dict[str, Any]:
        """Each rubric's own score and reasons."""
        by_id = {rubric.rubric_id: rubric for rubric in self.config.rubrics}
        rows = {
            key: {
                "score": answer.score,
                "weight": by_id[key].weight,
                "content": by_id[key].content,
                "reasonings": [verdict.reasoning for verdict in answer.verdicts],
            }
            for key, answer in answers.items()
        }
        return {"rubrics": rows}
