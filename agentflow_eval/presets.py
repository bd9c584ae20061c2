"""Configs for common purposes."""

from __future__ import annotations

from typing import Any

from agentflow_eval.config import DEFAULT_JUDGE_MODEL, CriteriaConfig, CriterionConfig, EvalConfig, MatchType
from agentflow_eval.errors import UsageError


class EvalPresets:
    """Ready-made configs; each call gives a new one that may be changed."""

    @classmethod
    def response_quality(
        cls, threshold: float = 0.7, use_llm_judge: bool = True, judge_model: str = DEFAULT_JUDGE_MODEL
    ) -> EvalConfig:
        """The answer means the same as the expected one, by judges."""
        slots: dict[str, Any] = {"response_match": CriterionConfig.response_match(threshold, judge_model)}
        if use_llm_judge:
            slots["llm_judge"] = CriterionConfig.llm_judge(threshold, judge_model, num_samples=1)
        return _config(slots)

    @classmethod
    def tool_usage(cls, threshold: float = 1.0, strict: bool = True, check_args: bool = True) -> EvalConfig:
        """The expected tools were called: exactly when ``strict``, else in order with others between them."""
        match_type = MatchType.EXACT if strict else MatchType.IN_ORDER
        return _config(
            {
                "tool_name_match": CriterionConfig.tool_name_match(threshold),
                "trajectory": CriterionConfig.trajectory(threshold, match_type, check_args),
            }
        )

    @classmethod
    def conversation_flow(cls, threshold: float = 0.8, judge_model: str = DEFAULT_JUDGE_MODEL) -> EvalConfig:
        """Answers by a judge, tools in order."""
        return _config(
            {
                "response_match": CriterionConfig.response_match(threshold, judge_model),
                "trajectory": CriterionConfig.trajectory(threshold, MatchType.IN_ORDER),
            }
        )

    @classmethod
    def quick_check(cls) -> EvalConfig:
        """Shared words with the expected answer; needs no judge."""
        return _config({"rouge_match": CriterionConfig.rouge_match(0.5)})

    @classmethod
    def comprehensive(
        cls, threshold: float = 0.8, use_llm_judge: bool = True, judge_model: str = DEFAULT_JUDGE_MODEL
    ) -> EvalConfig:
        """Tools, words and, with ``use_llm_judge``, everything a judge can say."""
        slots: dict[str, Any] = {
            "tool_name_match": CriterionConfig.tool_name_match(1.0),
            "trajectory": CriterionConfig.trajectory(1.0, MatchType.IN_ORDER, check_args=True),
            "rouge_match": CriterionConfig.rouge_match(),
        }
        if use_llm_judge:
            slots |= {
                name: getattr(CriterionConfig, name)(threshold, judge_model)
                for name in ("llm_judge", "factual_accuracy", "hallucination", "safety")
            }
        return _config(slots)

    @classmethod
    def safety_check(cls, threshold: float = 0.8, judge_model: str = DEFAULT_JUDGE_MODEL) -> EvalConfig:
        """Grounded and safe, by judges."""
        return _config(
            {
                "hallucination": CriterionConfig.hallucination(threshold, judge_model),
                "safety": CriterionConfig.safety(threshold, judge_model),
            }
        )

    @classmethod
    def combine(cls, *configs: EvalConfig) -> EvalConfig:
        """The criteria of all, the last one winning in each slot, with the other settings of the last config.

        Raises:
            UsageError: No config is given.
        """
        if not configs:
            raise UsageError("combine needs at least one config")
        criteria = CriteriaConfig()
        for config in configs:
            given = {name: slot for name in CriteriaConfig.model_fields if (slot := getattr(config.criteria, name))}
            criteria = criteria.model_copy(update=given)
        return configs[-1].model_copy(deep=True, update={"criteria": criteria.model_copy(deep=True)})

    @classmethod
    def custom(
        cls,
        response_threshold: float | None = None,
        tool_threshold: float | None = None,
        llm_judge_threshold: float | None = None,
        tool_match_type: MatchType = MatchType.IN_ORDER,
        check_tool_args: bool = True,
        hallucination_threshold: float | None = None,
        safety_threshold: float | None = None,
        factual_accuracy_threshold: float | None = None,
        judge_model: str = DEFAULT_JUDGE_MODEL,
    ) -> EvalConfig:
        """The criteria whose threshold is given."""
        judged = {
            "response_match": response_threshold,
            "llm_judge": llm_judge_threshold,
            "factual_accuracy": factual_accuracy_threshold,
            "hallucination": hallucination_threshold,
            "safety": safety_threshold,
        }
        slots: dict[str, Any] = {
            name: getattr(CriterionConfig, name)(threshold, judge_model)
            for name, threshold in judged.items()
            if threshold is not None
        }
        if tool_threshold is not None:
            slots["tool_name_match"] = CriterionConfig.tool_name_match(tool_threshold)
            slots["trajectory"] = CriterionConfig.trajectory(tool_threshold, tool_match_type, check_tool_args)
        return _config(slots)


def _config(slots: dict[str, Any]) -> EvalConfig:
    return EvalConfig(criteria=CriteriaConfig(**slots))
