"""How far a judge agrees with people who labelled the same answers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field

from agentflow_eval._files import read_model
from agentflow_eval.config import NonEmptyText
from agentflow_eval.criteria._judged import JudgedCriterion
from agentflow_eval.engine._controls import known_run
from agentflow_eval.errors import UsageError
from agentflow_eval.result import CriterionResult
from agentflow_eval.stats import Interval, agreement, wilson


class LabelledExample(BaseModel):
    """One answer that a person has judged."""

    model_config = ConfigDict(extra="forbid")

    id: NonEmptyText = Field(description="Names the example.")
    question: NonEmptyText = Field(description="What the user asked.")
    answer: str = Field(description="What the agent answered.")
    expected_response: str | None = Field(None, description="The expected answer, where there is one.")
    good: Annotated[bool, Field(strict=True)] = Field(description="Whether the person found the answer good.")
    metadata: dict[str, Any] = Field(default_factory=dict, description="context, reference_facts, goals.")


class Labels(BaseModel):
    """A file of labelled examples."""

    model_config = ConfigDict(extra="forbid", serialize_by_alias=True, validate_by_name=True, validate_by_alias=True)

    schema_: str | None = Field(None, alias="$schema", description="The JSON Schema of this file, for editors.")
    examples: Annotated[list[LabelledExample], Field(min_length=1)] = Field(description="The examples.")

    @classmethod
    def from_file(cls, path: Path | str) -> Self:
        """The examples in a JSON file.

        Raises:
            LoadError: The file cannot be used.
        """
        return read_model(path, cls, "labels")


class Confusion(BaseModel):
    """An example on which judge and person differ.

    Attributes:
        id: Of the example.
        good: What the person said.
        score: What the judge gave, 0..1.
        reasonings: Why, in the judge's words.
    """

    id: str
    good: bool
    score: float
    reasonings: list[str]


class Calibration(BaseModel):
    """How one judged criterion agrees with the labels.

    Attributes:
        criterion: Its reported name.
        judge_model: The model or the function that judged.
        threshold: What counts as the judge's yes.
        judged: Examples that got a verdict.
        unjudged: Examples without one, each with the reason.
        agreement: Share of equal verdicts.
        agreement_interval: Its 95 % interval.
        kappa: Cohen's kappa; None when chance alone explains the agreement.
        kappa_interval: Its 95 % interval.
        false_pass_rate: Share of the bad answers that the judge passed; None without a bad one.
        false_fail_rate: Share of the good answers that the judge failed; None without a good one.
        confusions: The examples on which they differ.
    """

    criterion: str
    judge_model: str
    threshold: float
    judged: int
    unjudged: dict[str, str]
    agreement: float | None
    agreement_interval: Interval | None
    kappa: float | None
    kappa_interval: Interval | None
    false_pass_rate: float | None
    false_fail_rate: float | None
    confusions: list[Confusion]


async def calibrate(criteria: Sequence[JudgedCriterion], labels: Labels) -> list[Calibration]:
    """Runs every criterion over every example.

    Raises:
        UsageError: No judged criterion is switched on.
    """
    if not criteria:
        raise UsageError("no judged criterion is switched on in the config, so there is nothing to calibrate")
    return [await _one(criterion, labels.examples) for criterion in criteria]


async def _one(criterion: JudgedCriterion, examples: Sequence[LabelledExample]) -> Calibration:
    results = await asyncio.gather(*(_judged(criterion, example) for example in examples))
    pairs = [(e, r) for e, r in zip(examples, results, strict=True) if r.score is not None]
    unjudged = {e.id: r.error or r.reason or "" for e, r in zip(examples, results, strict=True) if r.score is None}
    good, passed = [e.good for e, _ in pairs], [r.passed for _, r in pairs]
    agreed = agreement(good, passed) if pairs else None
    same = sum(a == b for a, b in zip(good, passed, strict=True))
    return Calibration(
        criterion=criterion.name,
        judge_model=criterion.judge_name,
        threshold=criterion.config.threshold,
        judged=len(pairs),
        unjudged=unjudged,
        agreement=agreed.rate if agreed else None,
        agreement_interval=wilson(same, len(pairs)) if pairs else None,
        kappa=agreed.kappa if agreed else None,
        kappa_interval=agreed.kappa_interval if agreed else None,
        false_pass_rate=_share([p for g, p in zip(good, passed, strict=True) if not g]),
        false_fail_rate=_share([not p for g, p in zip(good, passed, strict=True) if g]),
        confusions=[_confusion(e, r) for e, r in pairs if e.good != r.passed],
    )


async def _judged(criterion: JudgedCriterion, example: LabelledExample) -> CriterionResult:
    execution, case = known_run(example.question, example.answer, example.expected_response, example.metadata)
    return await criterion.evaluate(execution, case)


def _share(flags: Sequence[bool]) -> float | None:
    return sum(flags) / len(flags) if flags else None


def _confusion(example: LabelledExample, result: CriterionResult) -> Confusion:
    reasons = [reason for reason in result.details.get("reasonings", []) if reason]
    return Confusion(id=example.id, good=example.good, score=result.score or 0.0, reasonings=reasons)
