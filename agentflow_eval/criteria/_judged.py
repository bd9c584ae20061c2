"""Criteria that ask a model: what they ask, and what the answers come to."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from agentflow_eval._values import as_text, shown
from agentflow_eval.config import REPORTED_NAMES, SLOTS, BaseCriterionConfig, JudgedConfig
from agentflow_eval.criteria._base import (
    NO_RESPONSE,
    BaseCriterion,
    NoResponseError,
    NothingToJudgeError,
    View,
    by_turn,
    over_turns,
    turn_parts,
    view_of_case,
)
from agentflow_eval.criteria.trajectory import call_text
from agentflow_eval.dataset import EvalCase
from agentflow_eval.errors import LoadError
from agentflow_eval.judge import Answer, Question, Sample, render, together
from agentflow_eval.result import NO_TOKENS, TOLERANCE, CriterionResult, ErrorKind, ExecutionResult, TokenUsage

if TYPE_CHECKING:
    from agentflow_eval.judge import Judges, Scale

_TOOL_RESULT_SHOWN = 2000


class JudgedCriterion(BaseCriterion):
    """A criterion of a config slot that asks a model.

    Class attributes:
        slot: The name of the slot.
        default_scale: What scores mean when the config does not say.
    """

    trusted = True
    slot: ClassVar[str]
    default_scale: ClassVar[Scale] = "0-1"
    turns_only: bool = False
    """Whether the slot is on only in the turns that give it themselves."""
    config: JudgedConfig

    def __init__(self, config: BaseCriterionConfig | None = None, judges: Judges | None = None) -> None:
        super().__init__(config or SLOTS[self.slot]())
        self.name = REPORTED_NAMES[self.slot]
        self.judges = judges

    @property
    def judge_name(self) -> str:
        """Who judges: the function or object that was given as the judge, else the model of the config."""
        given = None if self.judges is None else self.judges.name
        return self.config.judge_model if given is None else given

    @abstractmethod
    def asks(self, view: View) -> Sequence[tuple[str, float, dict[str, Any]]]:
        """What the judge is asked: (id, weight, values for the prompt), one for each question.

        Raises:
            NothingToJudgeError: The case states nothing to judge by.
        """

    def schema(self, scale: Scale) -> dict[str, Any]:
        """JSON Schema of the verdict, with an ``example``."""
        return verdict_schema(scale)

    def score_names(self) -> tuple[str, ...]:
        """The scores that one verdict holds; empty for a single one."""
        return ()

    def findings(self, answers: Mapping[str, Answer]) -> dict[str, Any]:  # noqa: ARG002  # for subclasses
        """What the details say beside scores and reasons."""
        return {}

    def remarks(self, view: View) -> list[str]:  # noqa: ARG002  # for subclasses
        """What the judge was not asked, for people who may think so."""
        return []

    async def evaluate(self, actual: ExecutionResult, expected: EvalCase) -> CriterionResult:
        """The judgement, once or turn by turn; an error when the judge gave no usable verdict, never a score."""
        view = view_of_case(actual, expected)
        if not by_turn(self.slot, self.config, view):
            return await self._evaluate(view)
        parts = list(turn_parts(self.slot, self.config, self.turns_only, actual, expected))
        asked = (type(self)(config, self.judges)._evaluate(part) for _, part, config in parts)
        results = await together(asked)
        rows = [(number, part) for (number, _, _), part in zip(parts, results, strict=True)]
        result = over_turns(self.name, self.config.threshold, rows)
        for row, part in zip(result.details["turns"], results, strict=True):
            row.update({key: value for key, value in part.details.items() if key not in ("reason", "error_kind")})
        result.details |= self._judge()
        return result

    async def _evaluate(self, view: View) -> CriterionResult:
        threshold = self.config.threshold
        try:
            asked = self.asks(view)
            _check_answers(view, asked)
        except NothingToJudgeError as nothing:
            return CriterionResult.skipped(self.name, threshold, str(nothing))
        except NoResponseError as silence:
            return CriterionResult.failed(self.name, 0.0, threshold, self._judge(), str(silence))
        if self.judges is None:
            return self._broken(f"{self.slot} asks the judge model {self.config.judge_model!r}, and no judge was given")
        try:
            questions = {key: self._question(values) for key, _, values in asked}
        except LoadError as exc:
            return self._broken(f"{self.slot}: {exc}")
        answers = dict(zip(questions, await self.judges.answers(list(questions.values())), strict=True))
        spent = [sample for answer in answers.values() for sample in answer.samples]
        given = {key: answer for key, answer in answers.items() if isinstance(answer, Answer)}
        if len(given) < len(answers):
            problems = dict.fromkeys(str(answer) for answer in answers.values() if not isinstance(answer, Answer))
            return self._broken(f"{self.slot}: {'; '.join(problems)}", spent)
        result = self._judged({key: weight for key, weight, _ in asked}, given, spent)
        if remarks := self.remarks(view):
            result.details["notes"] = [*result.details.get("notes", ()), *remarks]
        return result

    def meets(self, answer: Answer) -> bool:
        """Whether an answer's score meets the threshold."""
        return answer.score >= self.config.threshold - TOLERANCE

    def _question(self, values: dict[str, Any]) -> Question:
        config = self.config
        scale = config.scale or self.default_scale
        shown_values = {"instructions": config.instructions or "", "scale": scale, **values}
        return Question(
            prompt=render(self.slot, shown_values, self.schema(scale), config.prompt),
            model=config.judge_model,
            samples=config.num_samples,
            scale=scale,
            names=self.score_names(),
            aggregate=config.aggregate,
            threshold=config.threshold,
        )

    def _judged(
        self, weights: Mapping[str, float], answers: Mapping[str, Answer], spent: Sequence[Sample]
    ) -> CriterionResult:
        total = sum(weights.values())
        score = sum(answers[key].score * weight for key, weight in weights.items()) / total
        details = self._details(spent) | {"spread": max(answer.spread for answer in answers.values())}
        details |= self.findings(answers)
        reasons = dict.fromkeys(v.reasoning for answer in answers.values() for v in answer.verdicts if v.reasoning)
        says = f"; the judge says: {' / '.join(reasons)}" if reasons else ""
        threshold = self.config.threshold
        reason = f"score {score:.2f} is below the threshold {threshold:.2f}{says}"
        return CriterionResult.scored(
            self.name, min(score, 1.0), threshold, details, reason, _tokens(spent), self._cost(spent)
        )

    def _judge(self) -> dict[str, Any]:
        """The model that the config names, and the judge that was given to ask instead, if one was."""
        given = None if self.judges is None else self.judges.name
        return {"judge_model": self.config.judge_model} | ({} if given is None else {"judge": given})

    def _details(self, spent: Sequence[Sample]) -> dict[str, Any]:
        verdicts = [sample.verdict for sample in spent if sample.verdict is not None]
        details: dict[str, Any] = {
            **self._judge(),
            "samples": len(spent),
            "valid_samples": len(verdicts),
            "individual_scores": [verdict.score for verdict in verdicts],
            "reasonings": [verdict.reasoning for verdict in verdicts],
            "attempts": sum(sample.attempts for sample in spent),
        }
        remarks = [note for verdict in verdicts for note in verdict.notes]
        problems = [sample.error for sample in spent if sample.error]
        extras = {
            "notes": list(dict.fromkeys(remarks)),
            "sample_errors": problems,
            "reused": sum(sample.reused for sample in spent),
        }
        details |= {key: value for key, value in extras.items() if value}
        if self.judges is not None and self.judges.include_io:
            details["judge_io"] = [{"prompt": sample.prompt, "replies": sample.replies} for sample in spent]
        return details

    def _broken(self, message: str, spent: Sequence[Sample] = ()) -> CriterionResult:
        details = {**(self._details(spent) if spent else self._judge()), "error_kind": ErrorKind.JUDGE.value}
        return CriterionResult.broken(
            self.name, self.config.threshold, message, details, _tokens(spent), self._cost(spent)
        )

    def _cost(self, spent: Sequence[Sample]) -> float | None:
        return self.judges.cost(self.config.judge_model, _tokens(spent)) if self.judges is not None else None


class ComparingCriterion(JudgedCriterion):
    """A judged criterion that compares the last expected answer with what the agent answered there."""

    def asks(self, view: View) -> Sequence[tuple[str, float, dict[str, Any]]]:
        """One question about the last turn that states an expected answer."""
        turn, expected, _ = view.answer_to_compare()
        return [("answer", 1.0, {"question": turn.user_input, "answer": turn.agent_response, "expected": expected})]

    def remarks(self, view: View) -> list[str]:
        """The turns whose expected answers were not compared."""
        return view.answer_to_compare()[2]


def _check_answers(view: View, asked: Sequence[tuple[str, float, dict[str, Any]]]) -> None:
    """Raises `NoResponseError` when the agent said nothing at all, or nothing where an answer is expected or judged."""
    view.check_answers()
    silent = not any(turn.answered and turn.agent_response.strip() for turn, _ in view.answers)
    if silent or any("answer" in values and not values["answer"].strip() for _, _, values in asked):
        raise NoResponseError(NO_RESPONSE)


def _tokens(spent: Sequence[Sample]) -> TokenUsage:
    return sum((sample.token_usage for sample in spent), NO_TOKENS)


def verdict_schema(scale: Scale, **more: Any) -> dict[str, Any]:
    """JSON Schema of a verdict with one score and a reason; ``more`` are example values of further keys."""
    shapes: dict[str, tuple[str, dict[str, Any], Any]] = {
        "0-1": ("score", {"type": "number", "minimum": 0, "maximum": 1}, 0.5),
        "1-10": ("score", {"type": "number", "minimum": 1, "maximum": 10}, 5),
        "binary": ("passed", {"type": "boolean"}, False),
    }
    name, shape, sample = shapes[scale]
    properties: dict[str, Any] = {"reasoning": {"type": "string"}, name: shape}
    properties |= {key: {"type": "array", "items": {"type": "string"}} for key in more}
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
        "example": {"reasoning": "why, in one or two sentences", name: sample, **more},
    }


def last_answer(view: View) -> dict[str, Any]:
    """Question and answer of the last turn."""
    if not view.answers:
        raise NothingToJudgeError("the case has no turn")
    turn = view.answers[-1][0]
    return {"question": turn.user_input, "answer": turn.agent_response}


def conversation(view: View) -> list[dict[str, str]]:
    """What user and agent said, turn by turn."""
    return [{"user": turn.user_input, "agent": turn.agent_response} for turn, _ in view.answers]


def tool_lines(view: View) -> str:
    """The recorded tool calls with what they returned, one on a line."""
    return "\n".join(
        f"{call_text(call)} -> {f'error: {call.error}' if call.error else shown(call.result, _TOOL_RESULT_SHOWN)}"
        for call in view.tool_calls
    )


def all_said(answers: Mapping[str, Answer], key: str) -> list[str]:
    """What the verdicts list under ``key``, each once."""
    found = [verdict.values.get(key) for answer in answers.values() for verdict in answer.verdicts]
    items = [item for listed in found if isinstance(listed, list) for item in listed]
    return list(dict.fromkeys(text for item in items if (text := as_text(item))))
