"""The table of criteria: one per slot of `CriteriaConfig`."""

from __future__ import annotations

from agentflow_eval.config import BaseCriterionConfig, CriteriaConfig
from agentflow_eval.criteria._base import BaseCriterion, SlotCriterion, SyncCriterion
from agentflow_eval.criteria._judged import JudgedCriterion
from agentflow_eval.criteria.budget import BudgetCriterion
from agentflow_eval.criteria.contains_keywords import ContainsKeywordsCriterion
from agentflow_eval.criteria.exact_match import ExactMatchCriterion
from agentflow_eval.criteria.factual_accuracy import FactualAccuracyCriterion
from agentflow_eval.criteria.hallucination import HallucinationCriterion
from agentflow_eval.criteria.llm_judge import LLMJudgeCriterion
from agentflow_eval.criteria.node_order import NodeOrderMatchCriterion
from agentflow_eval.criteria.response_match import ResponseMatchCriterion
from agentflow_eval.criteria.rouge_match import RougeMatchCriterion
from agentflow_eval.criteria.rubric_based import RubricBasedCriterion
from agentflow_eval.criteria.safety import SafetyCriterion
from agentflow_eval.criteria.simulation_goals import SimulationGoalsCriterion
from agentflow_eval.criteria.tool_name_match import ToolNameMatchCriterion
from agentflow_eval.criteria.trajectory import TrajectoryMatchCriterion
from agentflow_eval.dataset import EvalCase
from agentflow_eval.judge import Judges

__all__ = ["CRITERIA", "BaseCriterion", "SyncCriterion", "build", "for_case"]

CRITERIA: dict[str, type[BaseCriterion]] = {
    "tool_name_match": ToolNameMatchCriterion,
    "trajectory": TrajectoryMatchCriterion,
    "node_order": NodeOrderMatchCriterion,
    "response_match": ResponseMatchCriterion,
    "rouge_match": RougeMatchCriterion,
    "contains_keywords": ContainsKeywordsCriterion,
    "exact_match": ExactMatchCriterion,
    "budget": BudgetCriterion,
    "llm_judge": LLMJudgeCriterion,
    "rubric_based": RubricBasedCriterion,
    "factual_accuracy": FactualAccuracyCriterion,
    "hallucination": HallucinationCriterion,
    "safety": SafetyCriterion,
    "simulation_goals": SimulationGoalsCriterion,
}


def build(criteria: CriteriaConfig, judges: Judges | None = None) -> list[BaseCriterion]:
    """The criteria that a config switches on, in running order; those that ask a model ask ``judges``."""
    return [_made(slot, config, judges) for slot, config in criteria.enabled().items()]


def _made(slot: str, config: BaseCriterionConfig, judges: Judges | None) -> BaseCriterion:
    cls = CRITERIA[slot]
    return cls(config, judges) if issubclass(cls, JudgedCriterion) else cls(config)


def for_case(case: EvalCase, criteria: CriteriaConfig, judges: Judges | None = None) -> list[BaseCriterion] | None:
    """The criteria of a case that states some of its own, or None when the config's serve: turn > case > config."""
    by_turn = [turn.criteria for turn in case.conversation if turn.criteria is not None]
    if case.criteria is None and case.budget is None and not by_turn:
        return None
    merged = criteria.overridden_by(case.criteria)
    if case.budget is not None:
        merged = merged.model_copy(update={"budget": case.budget})
    built = build(merged, judges)
    slots = {slot for own in by_turn for slot in own.enabled()} - merged.enabled().keys()
    for slot in slots:
        config = next(config for own in by_turn if (config := own.enabled().get(slot)))
        criterion = _made(slot, config, judges)
        if isinstance(criterion, (SlotCriterion, JudgedCriterion)):
            criterion.turns_only = True
        built.append(criterion)
    order = list(CRITERIA.values())
    return sorted(built, key=lambda criterion: order.index(type(criterion)))
