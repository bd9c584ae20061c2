"""What every criterion is, and what it looks at: one run, or one turn of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, TypeVar

from agentflow_eval.config import REPORTED_NAMES, BaseCriterionConfig
from agentflow_eval.dataset import EvalCase, Invocation, ToolCall
from agentflow_eval.errors import AgentflowEvalError
from agentflow_eval.result import (
    NO_TOKENS,
    CriterionResult,
    ErrorKind,
    ExecutionResult,
    Outcome,
    TurnResult,
    total_cost,
)

Config = TypeVar("Config", bound=BaseCriterionConfig)

NO_RESPONSE = "the agent gave no response"
WIRING = (
    "the collector saw no events, so nothing can be said about the agent's tools and nodes; "
    "record them with run.node(...) and run.tool(...) in a function agent, or compile the graph with the collector's "
    "callback manager"
)


class WiringError(AgentflowEvalError):
    """The agent answered and the collector saw nothing of how."""

    def __init__(self) -> None:
        super().__init__(WIRING)


class CannotJudgeError(AgentflowEvalError):
    """The evidence does not allow a judgement; the message says what is missing."""


class NothingToJudgeError(AgentflowEvalError):
    """The case states no expectation for the criterion; the message says which one would be read."""


class NoResponseError(AgentflowEvalError):
    """The agent owes an answer; the message says in which turns."""


class BaseCriterion(ABC):
    """Judges a run. Subclass it (or `SyncCriterion`) for criteria of your own.

    A raised exception is this criterion's error and nobody else's.

    Attributes:
        name: The name in reports.
        config: Threshold and settings.
    """

    name: str = "criterion"
    waits: ClassVar[bool] = True
    """Whether `evaluate` has to be awaited."""
    trusted: ClassVar[bool] = False
    """Whether its results need no checking: the criteria of the config slots."""

    def __init__(self, config: BaseCriterionConfig | None = None) -> None:
        self.config: BaseCriterionConfig = config or BaseCriterionConfig()

    @abstractmethod
    async def evaluate(self, actual: ExecutionResult, expected: EvalCase) -> CriterionResult:
        """The judgement of a run that did what ``actual`` says, for a case that expects ``expected``."""


class SyncCriterion(BaseCriterion):
    """A criterion that needs no waiting."""

    waits = False

    @abstractmethod
    def evaluate_sync(self, actual: ExecutionResult, expected: EvalCase) -> CriterionResult:
        """The judgement of a run that did what ``actual`` says, for a case that expects ``expected``."""

    async def evaluate(self, actual: ExecutionResult, expected: EvalCase) -> CriterionResult:
        """Same as `evaluate_sync`."""
        return self.evaluate_sync(actual, expected)


@dataclass(slots=True)
class View:
    """The evidence and the expectations that one judgement looks at: of a whole case, or of one turn.

    Attributes:
        tool_calls: Recorded calls.
        node_visits: Recorded visits.
        expected_tools: None when not stated.
        expected_nodes: None when not stated.
        answers: Turns whose answers are judged, each with its expectations; the last one comes last.
        case: The case, for keywords of its own; None when a turn before the last is viewed.
        forbidden_keywords: Those of the case, which count in every answer.
        execution: The run as a whole.
        own_slots: Slots that some turn of the case gives itself.
        tool_names: Names of the recorded calls.
        expected_tool_names: Names of the expected calls; empty when none are stated.
    """

    tool_calls: list[ToolCall]
    node_visits: list[str]
    expected_tools: list[ToolCall] | None
    expected_nodes: list[str] | None
    answers: list[tuple[TurnResult, Invocation]]
    case: EvalCase | None
    execution: ExecutionResult
    forbidden_keywords: Sequence[str]
    own_slots: frozenset[str] = frozenset()
    tool_names: list[str] = field(init=False)
    expected_tool_names: list[str] = field(init=False)

    def __post_init__(self) -> None:
        self.tool_names = [call.name for call in self.tool_calls]
        self.expected_tool_names = [call.name for call in self.expected_tools or ()]
        if self.expected_tool_names == self.tool_names:
            self.expected_tool_names = self.tool_names

    def shows_nothing(self) -> bool:
        """Whether the run left no trace: no event and no answer. Doing nothing asked for is not earned by that."""
        return not self.execution.saw_events and not any(turn.answered for turn in self.execution.turns)

    def check_events(self) -> None:
        """Raises `WiringError` when the agent answered and nothing was recorded of how."""
        execution = self.execution
        if not execution.saw_events and execution.actual_response.strip():
            raise WiringError

    def check_answers(self) -> None:
        """Raises `NoResponseError` when a turn that expects an answer got none."""
        silent = [
            turn.turn_index + 1
            for turn, expectation in self.answers
            if not (turn.answered and turn.agent_response.strip())
            and turn.outcome != "not_run"
            and (expectation.expected_text or "").strip()
        ]
        if silent:
            where = f" in {', '.join(f'turn {number}' for number in silent)}" if len(self.answers) > 1 else ""
            raise NoResponseError(f"{NO_RESPONSE}{where}")

    def answer_to_compare(self) -> tuple[TurnResult, str, list[str]]:
        """The last turn that states an expected answer, that answer, and remarks on earlier such turns.

        Raises:
            NothingToJudgeError: No turn states one.
            NoResponseError: A turn that states one got no answer.
        """
        self.check_answers()
        stated = [(result, text) for result, turn in self.answers if (text := turn.expected_text) is not None]
        if not stated:
            raise NothingToJudgeError("no expected_final_response is stated")
        result, text = stated[-1]
        others = ", ".join(f"turn {other.turn_index + 1}" for other, _ in stated[:-1])
        remarks = [f'not compared: the expected answer of {others} (scope "turn" compares each)'] if others else []
        return result, text, remarks


_latest: tuple[ExecutionResult, EvalCase, View] | None = None


def view_of_case(actual: ExecutionResult, case: EvalCase) -> View:
    """Everything a case recorded beside everything it expects, all turns together.

    The criteria of one case ask for it one after the other, so the latest one is kept.
    """
    global _latest
    latest = _latest
    if latest is not None and latest[0] is actual and latest[1] is case:
        return latest[2]
    view = _new_view_of_case(actual, case)
    _latest = (actual, case, view)
    return view


def _new_view_of_case(actual: ExecutionResult, case: EvalCase) -> View:
    turns = case.conversation
    if len(turns) == 1:
        tools, nodes = turns[0].expected_tools, turns[0].expected_nodes
    else:
        tools = _joined([turn.expected_tools for turn in turns])
        nodes = _joined([turn.expected_nodes for turn in turns])
    return View(
        tool_calls=actual.tool_calls,
        node_visits=actual.node_visits,
        expected_tools=tools,
        expected_nodes=nodes,
        answers=list(zip(_turns_of(actual, case), turns, strict=False)),
        case=case,
        execution=actual,
        forbidden_keywords=case.forbidden_keywords,
        own_slots=frozenset(slot for turn in turns if turn.criteria for slot in turn.criteria.model_fields_set),
    )


def view_of_turn(actual: ExecutionResult, result: TurnResult, turn: Invocation, case: EvalCase) -> View:
    """What one turn recorded beside what it expects."""
    return View(
        tool_calls=result.tool_calls,
        node_visits=result.node_visits,
        expected_tools=turn.expected_tools,
        expected_nodes=turn.expected_nodes,
        answers=[(result, turn)],
        case=case if turn is case.conversation[-1] else None,
        execution=actual,
        forbidden_keywords=case.forbidden_keywords,
    )


def _joined(lists: Sequence[list[Any] | None]) -> list[Any] | None:
    stated = [items for items in lists if items is not None]
    return [item for items in stated for item in items] if stated else None


def _turns_of(actual: ExecutionResult, case: EvalCase) -> list[TurnResult]:
    """The turns of a run; a run that somebody built by hand without turns counts as its last turn."""
    if actual.turns or not case.conversation:
        return actual.turns
    last = len(case.conversation) - 1
    quiet = [TurnResult(turn_index=i, user_input="", answered=False, outcome="not_run") for i in range(last)]
    answer = actual.actual_response
    final = TurnResult(turn_index=last, user_input="", agent_response=answer, answered=bool(answer.strip()))
    return [*quiet, final]


class SlotCriterion(SyncCriterion, Generic[Config]):
    """A criterion of a config slot, scored over the whole case or turn by turn.

    Class attributes:
        slot: The name of the slot.
        config_class: The slot's settings.
    """

    trusted = True
    slot: ClassVar[str]
    config_class: ClassVar[type[BaseCriterionConfig]]
    reads_events: ClassVar[bool] = False
    """Whether it judges what was recorded, not what was answered."""
    turns_only: bool = False
    """Whether the slot is on only in the turns that give it themselves."""
    config: Config

    def __init__(self, config: Config | None = None) -> None:
        super().__init__(config or self.config_class())
        self.name = REPORTED_NAMES[self.slot]

    @abstractmethod
    def score(self, view: View, config: Config) -> CriterionResult:
        """The judgement of what ``view`` shows.

        Raises:
            NothingToJudgeError: The view states no expectation that this criterion reads.
            NoResponseError: The agent owes an answer.
            CannotJudgeError: The evidence does not allow a judgement.
        """

    def scored(
        self, score: float, config: Config, details: dict[str, Any], reason: str | None = None
    ) -> CriterionResult:
        """A judgement under this criterion's name."""
        return CriterionResult.scored(self.name, score, config.threshold, details, reason)

    def evaluate_sync(self, actual: ExecutionResult, expected: EvalCase) -> CriterionResult:
        """The judgement of the case, once or turn by turn as ``scope`` and the turns' own criteria say."""
        view = view_of_case(actual, expected)
        if not by_turn(self.slot, self.config, view):
            return self._judge(view, self.config)
        parts = turn_parts(self.slot, self.config, self.turns_only, actual, expected)
        rows = [(number, self._judge(part, config)) for number, part, config in parts]
        return over_turns(self.name, self.config.threshold, rows)

    def _judge(self, view: View, config: Config) -> CriterionResult:
        try:
            result = self.score(view, config)
            if result.passed and self.reads_events and view.shows_nothing():
                raise WiringError
            return result
        except NothingToJudgeError as nothing:
            return CriterionResult.skipped(self.name, config.threshold, str(nothing))
        except NoResponseError as silence:
            return CriterionResult.failed(self.name, 0.0, config.threshold, {}, str(silence))
        except WiringError as exc:
            return CriterionResult.broken(self.name, config.threshold, str(exc), {"error_kind": ErrorKind.WIRING.value})
        except CannotJudgeError as exc:
            return CriterionResult.broken(self.name, config.threshold, str(exc))


def by_turn(slot: str, config: BaseCriterionConfig, view: View) -> bool:
    """Whether a slot is scored turn by turn: its scope says so, or some turn gives it itself."""
    return getattr(config, "scope", "case") == "turn" or slot in view.own_slots


def turn_parts(
    slot: str, config: Any, turns_only: bool, actual: ExecutionResult, case: EvalCase
) -> Iterator[tuple[int, View, Any]]:
    """Number (from 1), view and settings of each turn in which the slot is on; a turn's own settings win."""
    turns = zip(_turns_of(actual, case), case.conversation, strict=False)
    for number, (result, turn) in enumerate(turns, start=1):
        own = turn.criteria is not None and slot in turn.criteria.model_fields_set
        chosen = getattr(turn.criteria, slot) if own else None if turns_only else config
        if chosen is not None and chosen.enabled:
            yield number, view_of_turn(actual, result, turn, case), chosen


def over_turns(name: str, threshold: float, rows: Sequence[tuple[int, CriterionResult]]) -> CriterionResult:
    """One judgement of the turns': the mean score, passed when every judged turn passed, failed when one failed."""
    details: dict[str, Any] = {"turns": [_row(number, result) for number, result in rows]}
    judged = [(number, result) for number, result in rows if not _skipped(result)]
    reason = "; ".join(f"turn {number}: {result.reason}" for number, result in judged if result.reason)
    tokens = sum((result.token_usage for _, result in judged), NO_TOKENS)
    cost = total_cost(result.cost for _, result in judged)
    scores = [result.score for _, result in judged if result.score is not None]
    mean = sum(scores) / len(scores) if scores else 0.0
    outcomes = {result.outcome for _, result in judged}
    if Outcome.FAILED in outcomes:
        return CriterionResult.failed(name, mean, threshold, details, reason, tokens, cost)
    if Outcome.ERROR in outcomes:
        kinds = [r.details["error_kind"] for _, r in judged if r.is_error and "error_kind" in r.details]
        kind = {"error_kind": kinds[0]} if kinds else {}
        return CriterionResult.broken(name, threshold, reason, details | kind, tokens, cost)
    if not judged:
        result = CriterionResult.skipped(name, threshold, "no turn states an expectation for it")
        result.details.update(details)
        return result
    return CriterionResult.scored(name, mean, min(mean, threshold), details, None, tokens, cost)


def _skipped(result: CriterionResult) -> bool:
    return result.outcome is Outcome.SKIPPED


def _row(number: int, result: CriterionResult) -> dict[str, Any]:
    row: dict[str, Any] = {"turn": number, "outcome": result.outcome.value, "score": result.score}
    return row | ({"reason": result.reason} if result.reason else {})


def notes(details: dict[str, Any], lines: Sequence[str]) -> dict[str, Any]:
    """``details`` with remarks that do not change the score, if there are any."""
    return details | {"notes": list(lines)} if lines else details
