"""What a suite is made of, and what comes out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from agentflow_eval._files import printable
from agentflow_eval.result import ErrorKind, EvalCaseResult, EvalReport, Outcome

_PAYLOAD = (
    *("name", "agent_id", "team_id", "tags", "session_id", "duration_seconds", "judge_passed", "judge_reason"),
    *("judge_score", "reliability_passed", "output", "tools_called", "timed_out", "skipped", "passed", "error"),
)


class JudgeMode(str, Enum):  # noqa: UP042  # its text is that of the original: JudgeMode.BINARY
    """How a judge grades."""

    BINARY = "binary"
    """Passed or not."""
    NUMERIC = "numeric"
    """A score of 1 to 10, which has to meet ``judge_threshold``."""


@dataclass(frozen=True)
class Case:
    """One input for one agent or team, and what is checked.

    Attributes:
        name: Names the case.
        input: What the agent or team is asked.
        agent: The agent; None for a team.
        team: The team; None for an agent.
        tags: For selecting cases.
        timeout_seconds: Seconds the run may take; None takes the runner's.
        criteria: What a judge checks of the answer; None asks no judge.
        judge_model: The agno model that judges; None takes the runner's.
        judge_mode: A `JudgeMode` or its text.
        judge_threshold: 1 to 10; the least score that passes in numeric mode.
        expected_tool_calls: Tools that have to be called, without failing; None checks none.
        allow_additional_tool_calls: Whether other tools may be called too.
        setup: Called before the run, outside its timeout; sync (in a thread) or async.
        teardown: Called with what ``setup`` returned and the result, whenever ``setup`` came to its end.

    Raises:
        ValueError: Not exactly one of agent and team, no check, or a setting that makes no sense.
    """

    name: str
    input: str
    agent: Any = None
    team: Any = None
    tags: tuple[str, ...] = ()
    timeout_seconds: int | None = None
    criteria: str | None = None
    judge_model: Any = None
    judge_mode: JudgeMode = JudgeMode.BINARY
    judge_threshold: int = 7
    expected_tool_calls: tuple[str, ...] | None = None
    allow_additional_tool_calls: bool = True
    setup: Callable[[], Any] | None = None
    teardown: Callable[[Any, CaseResult], Any] | None = None

    def __post_init__(self) -> None:
        if self.agent is None and self.team is None:
            raise self._wrong("provide one of 'agent' or 'team'")
        if self.agent is not None and self.team is not None:
            raise self._wrong("provide only one of 'agent' or 'team'")
        if isinstance(self.expected_tool_calls, str):
            raise self._wrong(f"expected_tool_calls is a tuple of names, such as ({self.expected_tool_calls!r},)")
        if not self.criteria and not self.expected_tool_calls:
            raise self._wrong("no checks: set criteria, expected_tool_calls, or both")
        try:
            object.__setattr__(self, "judge_mode", JudgeMode(self.judge_mode))
        except ValueError as exc:
            raise self._wrong(f"judge_mode must be a JudgeMode, got {self.judge_mode!r}") from exc
        if isinstance(self.judge_threshold, bool) or not 1 <= self.judge_threshold <= 10:
            raise self._wrong(f"judge_threshold must be 1-10, got {self.judge_threshold}")
        if self.timeout_seconds is not None and not self.timeout_seconds > 0:
            raise self._wrong(f"timeout_seconds must be above 0, got {self.timeout_seconds}")

    def _wrong(self, problem: str) -> ValueError:
        return ValueError(f"case {self.name!r}: {problem}")

    @property
    def component(self) -> Any:
        """The agent or the team."""
        return self.agent if self.agent is not None else self.team


@dataclass
class CaseResult:
    """How one case went.

    Attributes:
        name: Of the case.
        tags: Of the case.
        agent_id: Id of the agent; None for a team.
        team_id: Id of the team; None for an agent.
        session_id: Of the run; empty when there was none.
        duration_seconds: Wall clock, setup and teardown included.
        judge_passed: The judge's verdict; None when none was asked or none was given.
        judge_reason: The judge's words.
        judge_score: 1 to 10 in numeric mode.
        reliability_passed: Whether the expected tools were called; None when none are expected or nothing was run.
        output: The answer; None when there is none.
        tools_called: In order, members of a team included.
        timed_out: Whether the run took too long.
        skipped: Whether the suite was aborted before.
        error: All that went wrong beside the checks, joined with ``; ``.
        response: What agno returned.
    """

    name: str
    tags: tuple[str, ...] = ()
    agent_id: str | None = None
    team_id: str | None = None
    session_id: str = ""
    duration_seconds: float = 0.0
    judge_passed: bool | None = None
    judge_reason: str | None = None
    judge_score: int | None = None
    reliability_passed: bool | None = None
    output: str | None = None
    tools_called: tuple[str, ...] = ()
    timed_out: bool = False
    skipped: bool = False
    error: str | None = None
    response: Any = None
    evidence: EvalCaseResult | None = field(default=None, repr=False, compare=False)

    @property
    def passed(self) -> bool:
        """Whether there is no error and every check, at least one, passed."""
        checks = [passed for passed in (self.judge_passed, self.reliability_passed) if passed is not None]
        return not self.error and not self.skipped and bool(checks) and all(checks)

    def add_error(self, error: str) -> None:
        """Notes something that went wrong, once."""
        known = self.error.split("; ") if self.error else []
        if error not in known:
            self.error = "; ".join([*known, error])

    def to_dict(self) -> dict[str, Any]:
        """The entry of the payload; without ``response``."""
        values = {name: getattr(self, name) for name in _PAYLOAD}
        return values | {"tags": list(self.tags), "tools_called": list(self.tools_called)}


@dataclass
class SuiteResult:
    """How a suite went.

    Attributes:
        results: One for each selected case, also for those that were skipped.
    """

    results: list[CaseResult] = field(default_factory=list)

    @property
    def total(self) -> int:
        """How many cases there are."""
        return len(self.results)

    @property
    def passed(self) -> int:
        """How many passed."""
        return sum(result.passed for result in self.results)

    @property
    def failed(self) -> int:
        """How many did not."""
        return self.total - self.passed

    @property
    def status(self) -> str:
        """``PASS`` when there are cases and all passed, else ``FAIL``."""
        return "PASS" if self.results and not self.failed else "FAIL"

    def to_dict(self) -> dict[str, Any]:
        """The payload for CI."""
        summary = {"total": self.total, "passed": self.passed, "failed": self.failed, "status": self.status}
        return {"summary": summary, "cases": [result.to_dict() for result in self.results]}

    def to_report(self) -> EvalReport:
        """The report of this package, for HTML, JUnit and the other formats."""
        return EvalReport.create("agno", [_case_of(result) for result in self.results])


def _case_of(result: CaseResult) -> EvalCaseResult:
    """The engine's result, broken when something went wrong around it that the verdict of the suite counts."""
    recorded = result.evidence or EvalCaseResult(
        eval_id=printable(result.name) or "case", error=result.error, actual_response=result.output or ""
    )
    changes: dict[str, Any] = {"duration_seconds": result.duration_seconds, "tags": list(result.tags)}
    if recorded.passed and not result.passed:
        changes |= {"passed": False, "outcome": Outcome.ERROR, "error_kind": ErrorKind.FIXTURE, "error": result.error}
    if result.skipped:
        changes |= {"error_kind": ErrorKind.NOT_RUN}
    elif result.timed_out:
        changes |= {"error_kind": ErrorKind.TIMEOUT}
    elif result.evidence is None:
        changes |= {"error_kind": ErrorKind.FIXTURE}
    return recorded.model_copy(update=changes)
