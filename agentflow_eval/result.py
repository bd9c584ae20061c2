"""What happened in a run, how it scored, and what counts as passed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, computed_field, model_validator

from agentflow_eval._files import model_text, read_model, write_text
from agentflow_eval.dataset import ToolCall, TrajectoryStep

FORMAT_VERSION = 1
"""Version of the JSON report. 1: the first."""

TOLERANCE = 1e-9
"""A score that misses its threshold by no more than this meets it."""

Record = TypeVar("Record")


def maker(cls: type[Record]) -> Callable[..., Record]:
    """A constructor of ``cls`` for values that are known to be valid: it takes every field, as a keyword.

    For records made by the thousand: no validation, and one set of field names shared by all instances. Like the
    standard library's dataclasses it is compiled from source, which is five times as fast as a loop over the fields.
    """
    is_model = hasattr(cls, "model_fields")
    names: list[str] = list(getattr(cls, "__dataclass_fields__", ()) or getattr(cls, "model_fields", ()))
    # Attributes are set one by one, not through __dict__: a dict that nobody asked for is 64 bytes in each record.
    if is_model:
        own = {"__pydantic_fields_set__": "all_fields", "__pydantic_extra__": "None", "__pydantic_private__": "None"}
        values = {name: name for name in names} | own
        lines = [f"    put(self, {name!r}, {value})" for name, value in values.items()]
    else:
        lines = [f"    self.{name} = {name}" for name in names]
    source = "\n".join([f"def make(*, {', '.join(names)}):", "    self = new(cls)", *lines, "    return self"])
    namespace: dict[str, Any] = {
        "cls": cls,
        "new": cls.__new__,
        "put": object.__setattr__,
        "all_fields": set(names),
    }
    exec(source, namespace)  # noqa: S102  # the source is made of field names only
    make: Callable[..., Record] = namespace["make"]
    make(**dict.fromkeys(names))  # the first instance decides which keys all of them share
    return make


def shape(*names: str) -> Callable[..., dict[str, Any]]:
    """A maker of dictionaries with these keys, in order, from as many values.

    All dictionaries of one shape share their keys, which halves the memory that thousands of small ones take.
    """

    assigned = "\n".join(f"        self.{name} = {name}" for name in names)
    source = f"class Shape:\n    def __init__(self, {', '.join(names)}):\n{assigned}\n"
    source += f"def make({', '.join(names)}):\n    return Shape({', '.join(names)}).__dict__"
    namespace: dict[str, Any] = {}
    exec(source, namespace)  # noqa: S102  # the source is made of key names only
    make: Callable[..., dict[str, Any]] = namespace["make"]
    return make


class _Empty:
    def _refuse(self, *_args: Any, **_options: Any) -> Any:
        raise TypeError("this value of a finished result is shared and cannot be changed; make a copy")

    __setitem__ = __delitem__ = append = extend = insert = update = setdefault = _refuse


class _EmptyDict(_Empty, dict[str, Any]):
    __ior__ = _Empty._refuse

    def __reduce__(self) -> tuple[type, tuple[()]]:
        return dict, ()  # copies can be filled


class _EmptyList(_Empty, list[Any]):
    __iadd__ = _Empty._refuse

    def __reduce__(self) -> tuple[type, tuple[()]]:
        return list, ()  # copies can be filled


EMPTY_DICT: dict[str, Any] = _EmptyDict()
"""The one empty object of all finished results that have none; it cannot be filled."""
EMPTY_LIST: list[Any] = _EmptyList()
"""The one empty list of all finished results that have none; it cannot be filled."""


class Outcome(StrEnum):
    """How a criterion, a trial or a case ended."""

    PASSED = "passed"
    FAILED = "failed"
    ERROR = "error"
    """It could not be judged; there is no score."""
    SKIPPED = "skipped"
    """There was nothing to judge, or it was not wanted; there is no score."""


class ErrorKind(StrEnum):
    """What broke a case."""

    AGENT = "agent"
    TIMEOUT = "timeout"
    JUDGE = "judge"
    CRITERION = "criterion"
    WIRING = "wiring"
    """The agent answered and the collector saw nothing."""
    NOTHING_CHECKED = "nothing_checked"
    """No criterion judged the case."""
    FIXTURE = "fixture"
    NOT_RUN = "not_run"
    """The run was interrupted before the case."""
    CANCELLED = "cancelled"
    """The run was interrupted during the case."""


class _Record(BaseModel):
    """A result: closed, and short when printed, since asyncio prints what it returns."""

    model_config = ConfigDict(extra="forbid", ser_json_inf_nan="constants")

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    __str__ = __repr__


class TokenUsage(_Record):
    """Tokens used; all counts are 0 or more."""

    model_config = ConfigDict(frozen=True)

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_creation_tokens: int = 0
    total_tokens: int = Field(0, description="As the runtime says, else input + output.")

    @model_validator(mode="after")
    def _total(self) -> Self:
        if not self.total_tokens:
            self.__dict__["total_tokens"] = self.input_tokens + self.output_tokens
        return self

    def __add__(self, other: TokenUsage) -> TokenUsage:
        if not other:
            return self
        if not self:
            return other
        return TokenUsage(**{name: getattr(self, name) + getattr(other, name) for name in TokenUsage.model_fields})

    def __bool__(self) -> bool:
        return any(self.__dict__.values())

    def __repr__(self) -> str:
        return f"TokenUsage(input={self.input_tokens}, output={self.output_tokens}, total={self.total_tokens})"

    __str__ = __repr__


NO_TOKENS = TokenUsage()


class NodeResponse(_Record):
    """What went into one call of a node's model and what came out."""

    node_name: str = ""
    input_messages: list[dict[str, Any]] = []
    response_text: str = ""
    has_tool_calls: bool = False
    tool_call_names: list[str] = []
    is_final: bool = False
    timestamp: float = 0.0
    token_usage: TokenUsage = NO_TOKENS


class NodeDetail(_Record):
    """Input, output and tokens of one call of a node's model."""

    node_name: str = ""
    input_messages: list[dict[str, Any]] = []
    response_text: str = ""
    token_usage: TokenUsage = NO_TOKENS
    timestamp: float = 0.0


class TurnResult(_Record):
    """One turn of a run beside what was expected of it. Fields can also be read as ``turn["agent_response"]``."""

    turn_index: int = Field(description="From 0.")
    user_input: str
    agent_response: str = Field("", description="Empty when the agent gave no response.")
    answered: bool = Field(True, description="Whether the agent gave a response.")
    tool_calls: list[ToolCall] = []
    node_visits: list[str] = []
    trajectory_steps: list[TrajectoryStep] = []
    outcome: str = Field("ok", description="ok, error or not_run.")
    error: str | None = None
    duration_seconds: float = 0.0
    note: str | None = Field(None, description="Something about the recording worth knowing.")
    expected_response: str | None = Field(None, description="None: not stated.")
    expected_tool_calls: list[ToolCall] | None = Field(None, description="None: not stated.")
    expected_node_order: list[str] | None = Field(None, description="None: not stated.")

    def __getitem__(self, key: str) -> Any:
        if key not in type(self).model_fields:
            raise KeyError(key)
        return getattr(self, key)

    def get(self, key: str, default: Any = None) -> Any:
        """The field of this name, or ``default`` when there is none."""
        return getattr(self, key) if key in type(self).model_fields else default

    def keys(self) -> Iterable[str]:
        """The names of the fields."""
        return type(self).model_fields.keys()


class ExecutionResult(_Record):
    """What one run of one case recorded: the evidence that criteria score.

    A function agent may return one with any of ``actual_response``, ``tool_calls``, ``node_visits``, ``trajectory``.
    """

    tool_calls: list[ToolCall] = Field([], description="In the order in which the model requested them.")
    trajectory: list[TrajectoryStep] = []
    messages: list[dict[str, Any]] = []
    actual_response: str = Field("", description="The last answer; empty when there was none.")
    node_responses: list[NodeResponse] = []
    node_visits: list[str] = []
    duration_seconds: float = 0.0
    turns: list[TurnResult] = Field([], description="The same, turn by turn.")
    agent_token_usage: TokenUsage | None = None
    error: str | None = Field(None, description="Set when the run broke; what was recorded before is kept.")

    @property
    def token_usage(self) -> TokenUsage:
        """Tokens of the agent: as recorded for the run, else summed over its nodes."""
        if self.agent_token_usage is not None:
            return self.agent_token_usage
        return sum((response.token_usage for response in self.node_responses), NO_TOKENS)

    @property
    def tool_trajectory(self) -> list[ToolCall]:
        """Same as ``tool_calls``."""
        return self.tool_calls

    @property
    def iterations(self) -> int:
        """Model turns where the runtime shows them, else node visits."""
        return len(self.node_responses) or len(self.node_visits)

    @property
    def saw_events(self) -> bool:
        """Whether a node or a tool was recorded."""
        return bool(self.trajectory or self.tool_calls or self.node_visits)

    def get_tool_names(self) -> list[str]:
        """The names of the called tools, in order."""
        return [call.name for call in self.tool_calls]


ScoreValue = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


def _outcome_of_old(values: Any) -> Any:
    """Fills in the outcome of a result that only says passed and error, as older reports do."""
    if isinstance(values, dict) and "outcome" not in values and "passed" in values:
        broken = values.get("error")
        outcome = Outcome.ERROR if broken else Outcome.PASSED if values["passed"] is True else Outcome.FAILED
        values = values | {"outcome": outcome}
        if broken:
            values |= {"passed": False} | ({"score": None} if "score" in values else {})
    return values


class CriterionResult(_Record):
    """How one criterion judged one case."""

    criterion: str = Field(description="The reported name of the criterion.")
    score: ScoreValue | None = Field(None, description="0..1; None exactly when the outcome is error or skipped.")
    passed: bool = Field(False, description="Whether the outcome is passed.")
    threshold: float = 0.0
    details: dict[str, Any] = {}
    error: str | None = Field(None, description="Why the criterion could not judge.")
    token_usage: TokenUsage = Field(NO_TOKENS, description="Tokens of the judge.")
    cost: float | None = Field(None, description="What the judge's tokens cost, where the config gives its price.")
    outcome: Outcome = Outcome.SKIPPED

    @model_validator(mode="wrap")
    @classmethod
    def _consistent(cls, value: Any, handler: Any) -> Self:
        result: Self = handler(_outcome_of_old(value))
        if result.passed != (result.outcome is Outcome.PASSED):
            raise ValueError(f"passed is {result.passed} and outcome is {result.outcome}")
        if (result.score is None) != (result.outcome in (Outcome.ERROR, Outcome.SKIPPED)):
            raise ValueError(f"score is {result.score} and outcome is {result.outcome}")
        if result.passed and result.score is not None and result.score < result.threshold - TOLERANCE:
            raise ValueError(f"passed is true, and score {result.score} is below threshold {result.threshold}")
        return result

    @property
    def reason(self) -> str | None:
        """Why the outcome is not passed; what was expected, what was seen, where."""
        return self.details.get("reason")

    @property
    def is_error(self) -> bool:
        """Whether the criterion could not judge."""
        return self.outcome is Outcome.ERROR

    @property
    def not_reached(self) -> bool:
        """Whether it never judged because the run itself broke."""
        return self.details.get("run_broke") is True

    @classmethod
    def scored(
        cls,
        criterion: str,
        score: float,
        threshold: float,
        details: dict[str, Any] | None = None,
        reason: str | None = None,
        token_usage: TokenUsage = NO_TOKENS,
        cost: float | None = None,
    ) -> CriterionResult:
        """A judgement: passed when the score meets the threshold, else failed for ``reason``.

        Raises:
            ValueError: The score is not a finite number of 0..1.
        """
        score = float(score)
        if not 0.0 <= score <= 1.0:
            raise ValueError(f"{criterion}: score {score!r} is not between 0 and 1")
        passed = score >= threshold - TOLERANCE
        details = {} if details is None else details
        if not passed:
            details["reason"] = reason or f"score {score:.2f} is below the threshold {threshold:.2f}"
        return _make_criterion_result(
            criterion=criterion,
            score=score,
            passed=passed,
            threshold=threshold,
            details=details,
            error=None,
            token_usage=token_usage,
            cost=cost,
            outcome=Outcome.PASSED if passed else Outcome.FAILED,
        )

    @classmethod
    def failed(
        cls,
        criterion: str,
        score: float,
        threshold: float,
        details: dict[str, Any],
        reason: str,
        token_usage: TokenUsage = NO_TOKENS,
        cost: float | None = None,
    ) -> CriterionResult:
        """A judgement that did not pass whatever the score is: one turn failed, or there was no answer to judge."""
        return cls._not_passed(criterion, threshold, Outcome.FAILED, reason, None, details, token_usage, cost, score)

    @classmethod
    def skipped(cls, criterion: str, threshold: float, reason: str) -> CriterionResult:
        """No judgement, because the case states nothing to judge by."""
        return cls._not_passed(criterion, threshold, Outcome.SKIPPED, reason, None, {})

    @classmethod
    def broken(
        cls,
        criterion: str,
        threshold: float,
        error: str,
        details: dict[str, Any] | None = None,
        token_usage: TokenUsage = NO_TOKENS,
        cost: float | None = None,
    ) -> CriterionResult:
        """No judgement, because the criterion could not judge."""
        return cls._not_passed(criterion, threshold, Outcome.ERROR, error, error, details or {}, token_usage, cost)

    @classmethod
    def _not_passed(
        cls,
        criterion: str,
        threshold: float,
        outcome: Outcome,
        reason: str,
        error: str | None,
        details: dict[str, Any],
        token_usage: TokenUsage = NO_TOKENS,
        cost: float | None = None,
        score: float | None = None,
    ) -> CriterionResult:
        return _make_criterion_result(
            criterion=criterion,
            score=score,
            passed=False,
            threshold=threshold,
            details=details | {"reason": reason},
            error=error,
            token_usage=token_usage,
            cost=cost,
            outcome=outcome,
        )


_make_criterion_result = maker(CriterionResult)


class EvalCaseResult(_Record):
    """How one case went."""

    eval_id: str
    name: str = ""
    passed: bool = Field(False, description="Whether the outcome is passed.")
    criterion_results: list[CriterionResult] = Field([], description="In running order.")
    actual_trajectory: list[TrajectoryStep] = []
    actual_tool_calls: list[ToolCall] = []
    actual_response: str = ""
    messages: list[dict[str, Any]] = []
    node_responses: list[NodeResponse] = []
    node_visits: list[str] = []
    duration_seconds: float = Field(0.0, description="Seconds the agent took.")
    error: str | None = Field(None, description="Why the case could not be judged.")
    metadata: dict[str, Any] = {}
    turn_results: list[TurnResult] = []
    token_usage: TokenUsage = Field(NO_TOKENS, description="Agent and judges together.")
    agent_token_usage: TokenUsage = NO_TOKENS
    simulator_token_usage: TokenUsage = Field(NO_TOKENS, description="Tokens of the model that played the user.")
    judge_cost: float | None = Field(None, description="What the judges' tokens cost, where their price is known.")
    node_details: list[NodeDetail] = []
    outcome: Outcome = Outcome.ERROR
    error_kind: ErrorKind | None = None
    error_traceback: str | None = Field(None, description="The last frames, when the agent or a criterion raised.")
    skip_reason: str | None = None
    tags: list[str] = []
    stdout: str = Field("", description="What the agent printed.")
    attempts: int = Field(1, description="Runs that were needed; more than 1 after a retry.")
    retried_errors: list[str] = Field([], description="What the earlier attempts raised.")
    side_errors: list[str] = Field(
        [], description="What went wrong beside the verdict: `fixture: ` while torn down, `hook: ` in a hook."
    )
    trials: list[EvalCaseResult] = Field([], description="Every run of a case that is run more than once.")

    @model_validator(mode="wrap")
    @classmethod
    def _consistent(cls, value: Any, handler: Any) -> Self:
        said = value.get("timed_out") if isinstance(value, dict) else None
        if said is not None:
            value = {name: given for name, given in value.items() if name != "timed_out"}
        result: Self = handler(_outcome_of_old(value))
        if result.passed != (result.outcome is Outcome.PASSED):
            raise ValueError(f"passed is {result.passed} and outcome is {result.outcome}")
        if said is not None and said != result.timed_out:
            raise ValueError(f"timed_out is {said} and error_kind is {result.error_kind}")
        return result

    @computed_field  # type: ignore[prop-decorator]
    @property
    def timed_out(self) -> bool:
        """Whether the agent took longer than allowed."""
        return self.error_kind is ErrorKind.TIMEOUT

    def get_criterion_result(self, name: str) -> CriterionResult | None:
        """The result of the criterion with this reported name, or None."""
        return next((result for result in self.criterion_results if result.criterion == name), None)

    @property
    def failed_criteria(self) -> list[CriterionResult]:
        """Criteria that judged and did not pass, or could not judge."""
        return [r for r in self.criterion_results if r.outcome in (Outcome.FAILED, Outcome.ERROR)]

    @property
    def findings(self) -> list[CriterionResult]:
        """The failed criteria that say something of their own: not those that a broken run kept from judging."""
        return [result for result in self.failed_criteria if not result.not_reached]

    @property
    def passed_criteria(self) -> list[CriterionResult]:
        """Criteria that passed."""
        return [result for result in self.criterion_results if result.passed]

    @property
    def is_error(self) -> bool:
        """Whether the case could not be judged."""
        return self.outcome is Outcome.ERROR

    @property
    def label(self) -> str:
        """``eval_id``, and the name when there is one."""
        return f"{self.eval_id} - {self.name}" if self.name else self.eval_id

    @property
    def trial_pass_rate(self) -> float:
        """Share of the trials that passed; 1.0 or 0.0 for a case that was run once."""
        if not self.trials:
            return 1.0 if self.passed else 0.0
        return sum(trial.passed for trial in self.trials) / len(self.trials)

    @property
    def flaky(self) -> bool:
        """Whether some trials passed and some did not."""
        return 0.0 < self.trial_pass_rate < 1.0

    def explanation(self) -> list[str]:
        """Why the case did not pass, one line for each reason; empty when it did."""
        if self.outcome is Outcome.PASSED:
            return []
        if self.outcome is Outcome.SKIPPED:
            return [f"skipped: {self.skip_reason}"]
        lines = [f"{r.criterion}: {r.reason}" for r in self.findings]
        own = self.error if self.error_kind not in (None, ErrorKind.CRITERION, ErrorKind.JUDGE) or not lines else None
        beside = [error for error in self.side_errors if own is None or error != f"fixture: {own}"]
        return [*([own] if own else []), *lines, *beside]


def verdict(results: Sequence[CriterionResult]) -> tuple[Outcome, ErrorKind | None]:
    """The outcome of a case whose run did not break: failed before broken before passed before unchecked."""
    outcomes = {result.outcome for result in results}
    if Outcome.FAILED in outcomes:
        return Outcome.FAILED, None
    if Outcome.ERROR in outcomes:
        kinds = [result.details.get("error_kind", ErrorKind.CRITERION) for result in results if result.is_error]
        return Outcome.ERROR, ErrorKind(kinds[0]) if kinds[0] in list(ErrorKind) else ErrorKind.CRITERION
    if Outcome.PASSED in outcomes:
        return Outcome.PASSED, None
    return Outcome.ERROR, ErrorKind.NOTHING_CHECKED


class CriterionStats(_Record):
    """One criterion over all cases."""

    total: int = Field(0, description="Cases in which it judged or should have: all but the skipped.")
    passed: int = 0
    failed: int = 0
    avg_score: float | None = Field(None, description="Mean of the scores; None when nothing was scored.")
    pass_rate: float = Field(0.0, description="Passed share of total; 0.0 when total is 0.")
    scored: int = 0
    errored: int = 0
    skipped: int = 0
    token_usage: TokenUsage = Field(NO_TOKENS, description="Tokens of the judge.")
    cost: float | None = Field(None, description="What they cost, where the price is known.")

    @property
    def mean(self) -> float | None:
        """Same as ``avg_score``."""
        return self.avg_score

    def __getitem__(self, key: str) -> Any:
        if key not in type(self).model_fields:
            raise KeyError(key)
        return getattr(self, key)

    def get(self, key: str, default: Any = None) -> Any:
        """The field of this name, or ``default`` when there is none."""
        return getattr(self, key) if key in type(self).model_fields else default


class EvalSummary(_Record):
    """The numbers of a report."""

    total_cases: int = 0
    passed_cases: int = 0
    failed_cases: int = 0
    error_cases: int = 0
    skipped_cases: int = 0
    pass_rate: float = Field(0.0, description="Passed share of the cases that were not skipped; 0.0 without any.")
    avg_duration_seconds: float = 0.0
    total_duration_seconds: float = Field(0.0, description="Sum over the cases; wall_clock_seconds is what passed.")
    wall_clock_seconds: float = 0.0
    criterion_stats: dict[str, CriterionStats] = {}
    total_token_usage: TokenUsage = NO_TOKENS
    per_case_token_usage: dict[str, TokenUsage] = Field({}, description="Cases that used tokens.")
    avg_tokens_per_case: float = 0.0
    judge_cost: float | None = Field(None, description="What the judges' tokens cost, where their price is known.")

    @classmethod
    def from_results(cls, results: Sequence[EvalCaseResult], wall_clock_seconds: float = 0.0) -> EvalSummary:
        """The numbers of some case results."""
        count = dict.fromkeys(Outcome, 0)
        for result in results:
            count[result.outcome] += 1
        ran = len(results) - count[Outcome.SKIPPED]
        seconds = sum(result.duration_seconds for result in results)
        tokens = {result.eval_id: result.token_usage for result in results if result.token_usage}
        total_tokens = sum(tokens.values(), NO_TOKENS)
        return cls(
            total_cases=len(results),
            passed_cases=count[Outcome.PASSED],
            failed_cases=count[Outcome.FAILED],
            error_cases=count[Outcome.ERROR],
            skipped_cases=count[Outcome.SKIPPED],
            pass_rate=count[Outcome.PASSED] / ran if ran else 0.0,
            avg_duration_seconds=seconds / ran if ran else 0.0,
            total_duration_seconds=seconds,
            wall_clock_seconds=wall_clock_seconds,
            criterion_stats=_criterion_stats(results),
            total_token_usage=total_tokens,
            per_case_token_usage=tokens,
            avg_tokens_per_case=total_tokens.total_tokens / ran if ran else 0.0,
            judge_cost=total_cost(result.judge_cost for result in results),
        )


def total_cost(costs: Iterable[float | None]) -> float | None:
    """The sum of the known costs; None when none is known."""
    known = [cost for cost in costs if cost is not None]
    return sum(known) if known else None


def _criterion_stats(results: Iterable[EvalCaseResult]) -> dict[str, CriterionStats]:
    by_name: dict[str, list[CriterionResult]] = {}
    for case in results:
        for result in case.criterion_results:
            by_name.setdefault(result.criterion, []).append(result)
    return {name: _stats(group) for name, group in by_name.items()}


def _stats(group: Sequence[CriterionResult]) -> CriterionStats:
    count = dict.fromkeys(Outcome, 0)
    total_score = 0.0
    for result in group:
        count[result.outcome] += 1
        total_score += result.score or 0.0
    scored = count[Outcome.PASSED] + count[Outcome.FAILED]
    total = scored + count[Outcome.ERROR]
    return CriterionStats(
        total=total,
        passed=count[Outcome.PASSED],
        failed=count[Outcome.FAILED],
        avg_score=total_score / scored if scored else None,
        pass_rate=count[Outcome.PASSED] / total if total else 0.0,
        scored=scored,
        errored=count[Outcome.ERROR],
        skipped=count[Outcome.SKIPPED],
        token_usage=sum((r.token_usage for r in group if r.token_usage is not NO_TOKENS), NO_TOKENS),
        cost=total_cost(result.cost for result in group),
    )


class EvalReport(_Record):
    """The results of one eval set."""

    format_version: int = FORMAT_VERSION
    eval_set_id: str
    eval_set_name: str = ""
    eval_set_file: str | None = Field(None, description="The file of the set, as it was given.")
    run_id: str = ""
    results: list[EvalCaseResult] = Field([], description="In file order.")
    summary: EvalSummary = Field(default_factory=EvalSummary)
    config_used: dict[str, Any] = {}
    config_hash: str = Field("", description="SHA-256 of the config, the first 16 hex digits.")
    eval_set_hash: str = Field("", description="SHA-256 of the eval set, the first 16 hex digits.")
    versions: dict[str, str] = Field({}, description="Package, Python and runtime versions.")
    started_at: str = Field("", description="UTC, ISO 8601.")
    finished_at: str = Field("", description="UTC, ISO 8601.")
    timestamp: float = Field(0.0, description="When the run finished, Unix time in seconds.")
    mock: bool = Field(False, description="No agent was run: expectations were replayed.")
    interrupted: bool = False
    judge_use: dict[str, int] = Field(
        {}, description="Judge calls, usable verdicts, verdicts reused from the cache, repaired ones, and errors."
    )
    min_pass_rate: float = 1.0
    metadata: dict[str, Any] = {}

    @classmethod
    def create(
        cls,
        eval_set_id: str,
        results: Sequence[EvalCaseResult],
        eval_set_name: str = "",
        config_used: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> Self:
        """A report with its summary computed; ``more`` sets further fields."""
        wall_clock = more.pop("wall_clock_seconds", 0.0)
        return cls(
            eval_set_id=eval_set_id,
            eval_set_name=eval_set_name,
            results=list(results),
            summary=EvalSummary.from_results(results, wall_clock),
            config_used=dict(config_used or {}),
            timestamp=more.pop("timestamp", time.time()),
            **more,
        )

    @property
    def passed(self) -> bool:
        """Whether there was at least one case, every case that was not skipped passed, and an agent was really run."""
        return self.summary.total_cases > 0 and self.summary.pass_rate == 1.0 and not self.mock

    @property
    def gate_passed(self) -> bool:
        """Whether enough cases passed (``min_pass_rate``) and at least one, in a run neither cut short nor mock."""
        enough = self.summary.pass_rate >= self.min_pass_rate - TOLERANCE
        return enough and self.summary.passed_cases > 0 and not self.mock and not self.interrupted

    @property
    def failed_cases(self) -> list[EvalCaseResult]:
        """Cases that did not pass, errors included, skipped ones not."""
        return [r for r in self.results if r.outcome in (Outcome.FAILED, Outcome.ERROR)]

    @property
    def passed_cases(self) -> list[EvalCaseResult]:
        """Cases that passed."""
        return [result for result in self.results if result.passed]

    def get_case_result(self, eval_id: str) -> EvalCaseResult | None:
        """The result of the case with this id, or None."""
        return next((result for result in self.results if result.eval_id == eval_id), None)

    def format_summary(self) -> str:
        """The numbers as a few lines of plain text."""
        return "\n".join(_summary_lines(self))

    def to_file(self, path: Path | str) -> None:
        """Writes the report as JSON.

        Raises:
            ReportError: The file cannot be written.
        """
        write_text(path, model_text(self, exclude_unset=False))

    @classmethod
    def from_file(cls, path: Path | str) -> Self:
        """The report in a JSON file.

        Raises:
            LoadError: The file cannot be used.
        """
        return read_model(path, cls, "report")


def _summary_lines(report: EvalReport) -> Iterator[str]:
    summary = report.summary
    word = "PASSED" if report.gate_passed else "MOCK RUN" if report.mock else "FAILED"
    yield f"{report.eval_set_name or report.eval_set_id}: {word}"
    counts = {
        "passed": summary.passed_cases,
        "failed": summary.failed_cases,
        "errors": summary.error_cases,
        "skipped": summary.skipped_cases,
    }
    shown = ", ".join(f"{count} {name}" for name, count in counts.items() if count or name == "passed")
    yield f"  cases: {summary.total_cases} ({shown}), pass rate {summary.pass_rate:.1%}"
    yield f"  time: {summary.wall_clock_seconds or summary.total_duration_seconds:.2f} s"
    retried = [case for case in report.results if case.attempts > 1]
    if retried:
        retries = sum(case.attempts - 1 for case in retried)
        first = retried[0].retried_errors[0] if retried[0].retried_errors else "unknown"
        yield f"  {retries} {'retry' if retries == 1 else 'retries'} in {len(retried)} cases, the first after {first}"
    if summary.total_token_usage:
        yield f"  tokens: {summary.total_token_usage.total_tokens}"
    for name, stats in summary.criterion_stats.items():
        mean = "no score" if stats.avg_score is None else f"mean {stats.avg_score:.2f}"
        broken = f", {stats.errored} errors" if stats.errored else ""
        skipped = f", {stats.skipped} skipped" if stats.skipped else ""
        yield f"  {name}: {stats.passed}/{stats.total} passed, {mean}{broken}{skipped}"
