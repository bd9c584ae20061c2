"""Puts known answers before the judges: those that get one wrong are not believed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence

from agentflow_eval.config import EvalConfig, JudgeControl
from agentflow_eval.criteria import BaseCriterion, for_case
from agentflow_eval.criteria._judged import JudgedCriterion
from agentflow_eval.dataset import EvalCase
from agentflow_eval.judge import Judges
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


async def distrusted(
    criteria: Sequence[BaseCriterion], cases: Iterable[EvalCase], config: EvalConfig, judges: Judges
) -> dict[str, str]:
    """What each judged criterion that gets a control wrong got wrong, by `_key`; of cases and turns too."""
    candidates = {_key(criterion): criterion for criterion in criteria if isinstance(criterion, JudgedCriterion)}
    for case in cases:
        for criterion in () if case.skip else for_case(case, config.criteria, judges) or ():
            candidates |= {_key(asked): asked for asked in _asked(criterion, case)}
    pairs = [
        (key, criterion, number, control)
        for key, criterion in candidates.items()
        for number, control in enumerate(config.judge_controls)
        if not control.criteria or criterion.slot in control.criteria
    ]
    problems = await asyncio.gather(*(_problem(criterion, number, control) for _, criterion, number, control in pairs))
    found: dict[str, str] = {}
    for (key, _, _, _), problem in zip(pairs, problems, strict=True):
        if problem is not None:
            found.setdefault(key, problem)
    return found


def why_distrusted(criterion: BaseCriterion, case: EvalCase, distrust: Mapping[str, str]) -> str | None:
    """Why ``criterion`` may not judge ``case``; None when it may."""
    if not distrust:
        return None
    return next((distrust[key] for asked in _asked(criterion, case) if (key := _key(asked)) in distrust), None)


def _asked(criterion: BaseCriterion, case: EvalCase) -> Iterator[JudgedCriterion]:
    """The criterion with each of the settings it judges the case with: its own, and those that turns give."""
    if not isinstance(criterion, JudgedCriterion):
        return
    if not criterion.turns_only:
        yield criterion
    for turn in case.conversation:
        own = turn.criteria.enabled().get(criterion.slot) if turn.criteria is not None else None
        if own is not None:
            yield type(criterion)(own, criterion.judges)


def _key(criterion: JudgedCriterion) -> str:
    return f"{criterion.name} {criterion.config.model_dump_json()}"


async def _problem(criterion: JudgedCriterion, number: int, control: JudgeControl) -> str | None:
    metadata: dict[str, object] = {} if control.context is None else {"context": control.context}
    execution, case = known_run(control.question, control.answer, control.expected_response, metadata)
    result = await criterion.evaluate(execution, case)
    if result.outcome is Outcome.SKIPPED or result.passed == control.good:
        return None
    kind = "good" if control.good else "bad"
    said = f"could not judge it ({result.error})" if result.is_error else f"gave it {result.score:.2f}"
    return (
        f"the judge {criterion.judge_name!r} is not to be trusted: judge_controls[{number}] is a known "
        f"{kind} answer, and it {said} (threshold {result.threshold:.2f})"
    )
