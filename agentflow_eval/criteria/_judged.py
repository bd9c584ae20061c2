"""Criteria that ask a model; until a judge is there they answer with an error, never with a score."""

from __future__ import annotations

from typing import ClassVar

from agentflow_eval.config import REPORTED_NAMES, BaseCriterionConfig, JudgedConfig
from agentflow_eval.criteria._base import BaseCriterion
from agentflow_eval.dataset import EvalCase
from agentflow_eval.result import CriterionResult, ErrorKind, ExecutionResult


class JudgedCriterion(BaseCriterion):
    """A criterion of a config slot that asks a model.

    Class attributes:
        slot: The name of the slot.
        needs_answer: Whether it compares with an expected answer and is skipped without one.
    """

    slot: ClassVar[str]
    needs_answer: ClassVar[bool] = False

    def __init__(self, config: BaseCriterionConfig | None = None) -> None:
        super().__init__(config or JudgedConfig())
        self.name = REPORTED_NAMES[self.slot]

    async def evaluate(self, actual: ExecutionResult, expected: EvalCase) -> CriterionResult:  # noqa: ARG002
        """An error that says what is missing; skipped when the case states nothing to compare with."""
        threshold = self.config.threshold
        if self.needs_answer and all(turn.expected_text is None for turn in expected.conversation):
            return CriterionResult.skipped(self.name, threshold, "no expected_final_response is stated")
        model = getattr(self.config, "judge_model", "")
        message = (
            f"{self.slot} asks the judge model {model!r}, and this version has no judge; "
            f"switch the slot off (enabled: false) or use exact_match, rouge_match or contains_keywords"
        )
        return CriterionResult.broken(self.name, threshold, message, {"error_kind": ErrorKind.JUDGE.value})
