"""Puts known answers before the judges: those that get one wrong are not believed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from agentflow_eval.config import JudgeControl
from agentflow_eval.criteria import BaseCriterion
from agentflow_eval.criteria._judged import JudgedCriterion
from agentflow_eval.dataset import EvalCase
from agentflow_eval.result import ExecutionResult, Outcome, TurnResult


def known_run(
    question: str, answer: str, expected_response: str | None, metadata: dict[str, object]
) -> tuple[ExecutionResult, EvalCase]:
    """A run of one turn that gave a known answer."""
    case = EvalCase.single_turn("known", question, expected_response)
    case.metadata = metadata
    turn = TurnResult(turn_index=0, user_input=question, agent_response=answer, answered=bool(answer.strip()))
    messages = [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
    return ExecutionResult(actual_response=answer, messages=messages, turns=[turn]), case


async def distrusted(criteria: Sequence[BaseCriterion], controls: Sequence[JudgeControl]) -> dict[str, str]:
    """The judged criteria that get a control wrong, by reported name, each with what it got wrong."""
    pairs = [
        (criterion, number, control)
        for criterion in criteria
        if isinstance(criterion, JudgedCriterion)
        for number, control in enumerate(controls, start=1)
        if not control.criteria or criterion.slot in control.criteria
    ]
    problems = await asyncio.gather(*(_problem(*pair) for pair in pairs))
    found: dict[str, str] = {}
    for (criterion, _, _), problem in zip(pairs, problems, strict=True):
        if problem is not None:
            found.setdefault(criterion.name, problem)
    return found


async def _problem(criterion: JudgedCriterion, number: int, control: JudgeControl) -> str | None:
    metadata: dict[str, object] = {} if control.context is None else {"context": control.context}
    execution, case = known_run(control.question, control.answer, control.expected_response, metadata)
    result = await criterion.evaluate(execution, case)
    if result.outcome is Outcome.SKIPPED or result.passed == control.good:
        return None
    kind = "good" if control.good else "bad"
    said = f"could not judge it ({result.error})" if result.is_error else f"gave it {result.score:.2f}"
    return (
        f"the judge {criterion.config.judge_model!r} is not to be trusted: judge_controls[{number - 1}] is a known "
        f"{kind} answer, and it {said} (threshold {result.threshold:.2f})"
    )
