"""Did the run stay within its limits?"""

from __future__ import annotations

from typing import Any

from agentflow_eval.config import BudgetConfig
from agentflow_eval.criteria._base import CannotJudgeError, SlotCriterion, View
from agentflow_eval.result import CriterionResult


class BudgetCriterion(SlotCriterion[BudgetConfig]):
    """Share of the limits that were respected; reaching a limit respects it."""

    slot = "budget"
    reads_events = True
    config_class = BudgetConfig

    def score(self, view: View, config: BudgetConfig) -> CriterionResult:
        """The share of limits that were respected."""
        limits = config.limits()
        used = {name: _used(name, view) for name in limits}
        over = [name for name, limit in limits.items() if used[name] > limit]
        details: dict[str, Any] = {"limits": limits, "used": used}
        reason = "; ".join(f"{name} is {limits[name]:g}, used {used[name]:g}" for name in over) or None
        return self.scored((len(limits) - len(over)) / len(limits), config, details, reason)


def _used(limit: str, view: View) -> float:
    execution = view.execution
    whole = len(view.answers) == len(execution.turns) or not execution.turns
    if limit == "max_duration_seconds":
        return execution.duration_seconds if whole else sum(turn.duration_seconds for turn, _ in view.answers)
    if not whole and limit in ("max_total_tokens", "max_iterations"):
        raise CannotJudgeError(f"{limit} is counted for the whole run, not for one turn; give it to the case")
    if limit == "max_total_tokens":
        tokens = execution.token_usage.total_tokens
        if not tokens:
            raise CannotJudgeError("the run reported no tokens, so max_total_tokens cannot be checked")
        return tokens
    view.check_events()
    if limit == "max_tool_calls":
        return len(view.tool_calls)
    if not execution.iterations:
        raise CannotJudgeError(
            "the run showed neither model turns nor node visits, so max_iterations cannot be checked"
        )
    return execution.iterations
