"""``tulip.evaluation`` over this engine: change the import, keep the suite.

Where it differs, on purpose:

- A tool that failed was not called as expected: it meets neither ``expected_tools`` nor ``expected_tool_sequence``.
- An agent that says nothing meets no expectation about its answer, also not ``expected_output_not_contains``.
- An agent that stopped at a limit or to ask a human, and a graph that failed, was capped or skipped a node, is an
  error.
- ``"passed": "false"`` in a verdict is false, and a verdict that is quoted or ambiguous is none.
- ``error`` names the type of what was raised. An unavailable judge stops the suite after its cases, not before.
- `EvalRunner.run` may be called inside an event loop; `EvalReport.to_report` gives the report of this package.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, Field, PrivateAttr

from agentflow_eval._files import printable
from agentflow_eval._values import as_text, jsonable
from agentflow_eval.adapters import Session, Target, Turn, adapt
from agentflow_eval.adapters._threads import run_blocking
from agentflow_eval.adapters.tulip import TulipGraphTarget
from agentflow_eval.collector import TrajectoryCollector
from agentflow_eval.config import CriteriaConfig, EvalConfig, ReporterConfig
from agentflow_eval.criteria._judged import verdict_schema
from agentflow_eval.dataset import Check, EvalSet, Invocation, MessageContent
from agentflow_eval.dataset import EvalCase as EngineCase
from agentflow_eval.engine.checks import CheckContext
from agentflow_eval.errors import exception_text
from agentflow_eval.evaluator import AgentEvaluator
from agentflow_eval.judge import UnusableReplyError, read_verdict, render
from agentflow_eval.result import EvalCaseResult
from agentflow_eval.result import EvalReport as EngineReport

_ENDLESS = 10.0 * 365 * 24 * 3600
"""Seconds; a case without ``max_duration_ms`` knows no limit, and a judge brings its own."""


class EvalCase(BaseModel):
    """What an agent is asked, and what is expected of it.

    Attributes:
        name: Names the result.
        prompt: What the agent is asked.
        expected_tools: Tools, or nodes of a graph, that have to be called.
        expected_output_contains: Texts that the answer has to contain, in upper or lower case.
        expected_output_not_contains: Texts that it must not contain.
        max_iterations: The most model turns, or node visits of a graph.
        max_duration_ms: The most milliseconds; the agent is stopped there.
        expected_tool_sequence: Tools that have to be called in this order; others may come between.
        exact_tool_sequence: Whether no others may.
        rubric: What an `LLMJudge` grades the answer by.
        tags: For the report.
        metadata: For the report.
    """

    name: str
    prompt: str
    expected_tools: list[str] = Field(default_factory=list)
    expected_output_contains: list[str] = Field(default_factory=list)
    expected_output_not_contains: list[str] = Field(default_factory=list)
    max_iterations: int | None = None
    max_duration_ms: float | None = None
    expected_tool_sequence: list[str] = Field(default_factory=list)
    exact_tool_sequence: bool = False
    rubric: str | None = None
    tags: list[str] = Field(default_factory=list)
    metadata: dict[str, Any] = Field(default_factory=dict)


class EvalResult(BaseModel):
    """How one case went.

    Attributes:
        case_name: Of the case.
        passed: Whether every check, at least one, passed and nothing broke.
        score: The share of the checks that passed, 0..1, and at most the judge's score.
        output: The answer.
        tools_called: In order; of a graph the visited nodes.
        iterations: Model turns, or node visits of a graph.
        duration_ms: Milliseconds that the agent took.
        checks: Name -> whether it passed.
        error: Why the run broke; None when it did not.
        timed_out: Whether it was stopped at ``max_duration_ms``.
    """

    case_name: str
    passed: bool
    score: float = 0.0
    output: str = ""
    tools_called: list[str] = Field(default_factory=list)
    iterations: int = 0
    duration_ms: float = 0.0
    checks: dict[str, bool] = Field(default_factory=dict)
    error: str | None = None
    timed_out: bool = False


class EvalReport(BaseModel):
    """All results of a suite.

    Attributes:
        results: In the order of the cases.
        total_cases: How many there are.
        passed: How many passed.
        failed: How many did not.
        timed_out: How many were stopped at their limit.
        avg_score: The mean of the scores; 0 for an empty suite.
        total_duration_ms: The sum of the durations.
    """

    results: list[EvalResult] = Field(default_factory=list)
    total_cases: int = 0
    passed: int = 0
    failed: int = 0
    timed_out: int = 0
    avg_score: float = 0.0
    total_duration_ms: float = 0.0
    _report: EngineReport | None = PrivateAttr(None)

    def summary(self) -> str:
        """The report as text: a head line, a line for each case, and the checks that failed."""
        head = f"Eval Report: {self.passed}/{self.total_cases} passed (avg score: {self.avg_score:.2f})"
        lines = [head, f"Total duration: {self.total_duration_ms:.0f}ms", ""]
        for result in self.results:
            word = "PASS" if result.passed else "FAIL"
            lines.append(f"  [{word}] {result.case_name} (score: {result.score:.2f}, {result.duration_ms:.0f}ms)")
            if not result.passed:
                failed = [name for name, passed in result.checks.items() if not passed]
                lines += [f"         - {name}: FAILED" for name in failed]
                lines += [f"         - error: {result.error}"] if result.error else []
        return "\n".join(lines)

    def to_report(self) -> EngineReport:
        """The report of this package; empty for one that no runner made."""
        return self._report or EngineReport.create("tulip", [])


class Verdict(BaseModel):
    """What a judge decided.

    Attributes:
        passed: Whether the answer meets the rubric.
        score: 0..1.
        reason: The judge's words, or why there is no verdict.
        unparseable: Whether the reply held no usable verdict.
    """

    passed: bool
    score: float = 0.0
    reason: str = ""
    unparseable: bool = False


class JudgeUnavailableError(RuntimeError):
    """The judge could not be asked.

    Attributes:
        report: What a runner found out before it stopped; None when a judge raises it by itself.
    """

    report: EvalReport | None = None


class LLMJudge:
    """A model that grades an answer by a rubric. It is asked once: a judge that is asked until it passes is none.

    Args:
        model: A model of tulip, or anything with ``complete(messages, max_tokens=)``.
        max_tokens: What the verdict may take; models that reason need room for that.
    """

    def __init__(self, model: Any, *, max_tokens: int = 2048) -> None:
        self.model = model
        self.max_tokens = max_tokens

    async def score(self, *, prompt: str, output: str, rubric: str) -> Verdict:
        """The verdict on an answer.

        Raises:
            JudgeUnavailableError: The model could not be asked.
        """
        from tulip.core.messages import Message

        shown = {"rubric": rubric.strip(), "turns": [{"user": prompt, "agent": output}], "tools": ""}
        asked = render("rubric_based", {**shown, "instructions": "", "scale": "binary"}, verdict_schema("binary"))
        messages = [getattr(Message, message["role"])(message["content"]) for message in asked.messages]
        try:
            reply = await self.model.complete(messages, max_tokens=self.max_tokens)
            said = as_text(getattr(reply, "content", reply)) or ""
        except Exception as exc:
            raise JudgeUnavailableError(f"the judge could not be asked: {exception_text(exc)}") from exc
        if not said.strip():
            problem = "the judge said nothing; a model that reasons may need a larger max_tokens"
            return Verdict(passed=False, reason=problem, unparseable=True)
        try:
            verdict = read_verdict(said, "binary", prompt=asked)
        except UnusableReplyError as exc:
            return Verdict(passed=False, reason=f"the judge gave no verdict: {exc}", unparseable=True)
        graded = verdict.values.get("score")
        usable = isinstance(graded, (int, float)) and not isinstance(graded, bool) and 0 <= graded <= 1
        return Verdict(
            passed=verdict.score == 1.0,
            score=float(graded) if usable and graded is not None else verdict.score,
            reason=verdict.reasoning,
        )


def check_trajectory(actual: Sequence[str], expected: Sequence[str], *, exact: bool = False) -> tuple[bool, str]:
    """Whether tools were called in an order.

    Args:
        actual: Names in the order of the calls.
        expected: The order that is asked for; others may come between.
        exact: Whether no others may.

    Returns:
        Whether they were, and what was found.
    """
    called, wanted = list(actual), list(expected)
    if exact:
        return (True, "called exactly so") if called == wanted else (False, f"expected exactly {wanted}, got {called}")
    place = 0
    for index, name in enumerate(wanted):
        try:
            place = called.index(name, place) + 1
        except ValueError:
            return False, f"expected {wanted} in order; {wanted[index:]} did not follow, got {called}"
    return True, "called in the expected order"


@dataclass(frozen=True, slots=True)
class NodeExecution:
    """A visited node, as a tool call of an agent looks."""

    tool_name: str


@dataclass(frozen=True, slots=True)
class GraphEvalResult:
    """What a run of a graph came to, as the result of an agent looks.

    Attributes:
        message: The answer.
        iterations: Visited nodes.
        tool_executions: The nodes in order.
    """

    message: str
    iterations: int
    tool_executions: tuple[NodeExecution, ...]


class GraphEvalTarget:
    """A tulip ``StateGraph`` for `EvalRunner`; its nodes count as tools.

    Args:
        graph: The graph.
        input_key: Field of the initial state that takes the prompt.
        output_key: Field of the final state that holds the answer.
        output_node: Node whose own output is the answer.
        initial_state: Fields that every run starts with.

    Raises:
        ValueError: ``output_key`` and ``output_node`` are both given.
    """

    def __init__(
        self,
        graph: Any,
        *,
        input_key: str = "prompt",
        output_key: str | None = None,
        output_node: str | None = None,
        initial_state: dict[str, Any] | None = None,
    ) -> None:
        if output_key is not None and output_node is not None:
            raise ValueError("give output_key (a field of the final state) or output_node (a node's output), not both")
        self.graph = graph
        self.input_key = input_key
        self.output_key = output_key
        self.output_node = output_node
        self.initial_state = dict(initial_state or {})
        self._target = TulipGraphTarget(
            graph,
            input_key=input_key,
            output_key=output_key,
            output_node=output_node,
            initial_state=self.initial_state,
        )

    async def run_turn(self, turn: Turn, session: Session, collector: TrajectoryCollector) -> None:
        """Plays one turn."""
        await self._target.run_turn(turn, session, collector)

    def run_sync(self, prompt: str) -> GraphEvalResult:
        """Runs the graph once, without evaluating it.

        Raises:
            AgentError: The graph did not end well.
        """
        collector = TrajectoryCollector()
        collector.begin_turn(prompt)
        turn = Turn(0, prompt, MessageContent.user(prompt))
        asyncio.run(self.run_turn(turn, Session(thread_id="graph"), collector))
        nodes = [NodeExecution(name) for name in collector.node_visits if "/" not in name]
        return GraphEvalResult(collector.final_response, len(nodes), tuple(nodes))


def as_eval_target(graph: Any, **options: Any) -> GraphEvalTarget:
    """A graph for `EvalRunner`; the options are those of `GraphEvalTarget`."""
    return GraphEvalTarget(graph, **options)


class EvalRunner:
    """Runs cases against an agent.

    Args:
        agent: An agent of tulip, a `GraphEvalTarget`, anything with ``run_sync(prompt)``, or any agent of this package.
        judge: Grades the cases that have a ``rubric``; without one they fail.
        concurrency: Cases at once in `arun`.
    """

    def __init__(self, agent: Any, *, judge: Any = None, concurrency: int = 4) -> None:
        self.agent = agent
        self.judge = judge
        self.concurrency = max(1, concurrency)

    def run(self, cases: list[EvalCase]) -> EvalReport:
        """Runs the cases one after the other. Rubrics need `arun`: here they fail."""
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(asyncio.run, self._report(cases, 1, None, "rubric:requires_arun")).result()

    async def arun(self, cases: list[EvalCase]) -> EvalReport:
        """Runs the cases, several at once, and grades rubrics.

        Raises:
            JudgeUnavailableError: The judge could not be asked; its ``report`` has what was found out.
        """
        return await self._report(cases, self.concurrency, self.judge, "rubric:no_judge_configured")

    async def _report(self, cases: Sequence[EvalCase], concurrency: int, judge: Any, ungraded: str) -> EvalReport:
        if not cases:
            return EvalReport()
        graded = [_Graded(case, judge, ungraded, isinstance(self.agent, GraphEvalTarget)) for case in cases]
        evaluator = AgentEvaluator(
            _target_of(self.agent),
            checks={str(index): one.check for index, one in enumerate(graded)},
            config=EvalConfig(
                criteria=CriteriaConfig(),
                parallel=concurrency > 1,
                max_concurrency=concurrency,
                criterion_timeout=_ENDLESS,
                reporter=ReporterConfig(enabled=False),
            ),
        )
        made = [_engine_case(case, index) for index, case in enumerate(cases)]
        report = await evaluator.evaluate(EvalSet(eval_set_id="tulip", eval_cases=made))
        results = [one.result(found) for one, found in zip(graded, report.results, strict=True)]
        suite = _summed(results)
        suite._report = report
        unavailable = next((one.unavailable for one in graded if one.unavailable is not None), None)
        if unavailable is not None:
            unavailable.report = suite
            raise unavailable
        return suite


def _summed(results: list[EvalResult]) -> EvalReport:
    passed = sum(result.passed for result in results)
    return EvalReport(
        results=results,
        total_cases=len(results),
        passed=passed,
        failed=len(results) - passed,
        timed_out=sum(result.timed_out for result in results),
        avg_score=sum(result.score for result in results) / len(results),
        total_duration_ms=sum(result.duration_ms for result in results),
    )


def _engine_case(case: EvalCase, index: int) -> EngineCase:
    return EngineCase(
        eval_id=f"{index + 1} {printable(case.name)}".strip(),
        conversation=[Invocation.simple(printable(case.prompt))],
        checks=[Check(name=str(index))],
        tags=[printable(tag) for tag in case.tags if tag],
        metadata=jsonable(case.metadata),
        timeout=_ENDLESS if case.max_duration_ms is None else max(case.max_duration_ms / 1000, 1e-6),
    )


@dataclass
class _Said:
    """What the check of a case gives the engine."""

    passed: bool
    score: float
    reason: str


class _Graded:
    """The checks of one case."""

    def __init__(self, case: EvalCase, judge: Any, ungraded: str, is_graph: bool) -> None:
        self._case = case
        self._judge = judge
        self._ungraded = ungraded
        self._is_graph = is_graph
        self._checks: dict[str, bool] = {}
        self._score = 0.0
        self.unavailable: JudgeUnavailableError | None = None

    async def check(self, context: CheckContext) -> _Said:
        """All checks of the case on its run."""
        case, output = self._case, context.response
        called = self._worked(context)
        checks = {f"tool_called:{name}": name in called for name in case.expected_tools}
        folded = output.casefold()
        checks |= {f"output_contains:{text}": text.casefold() in folded for text in case.expected_output_contains}
        unwanted = case.expected_output_not_contains
        answered = bool(output.strip())
        checks |= {f"output_not_contains:{text}": answered and text.casefold() not in folded for text in unwanted}
        if case.max_iterations is not None:
            checks["within_iteration_budget"] = context.execution.iterations <= case.max_iterations
        if case.max_duration_ms is not None:
            checks["within_duration_budget"] = context.duration_seconds * 1000 <= case.max_duration_ms
        if case.expected_tool_sequence:
            exact = case.exact_tool_sequence
            checks["tool_sequence"] = check_trajectory(called, case.expected_tool_sequence, exact=exact)[0]
        most = 1.0
        if case.rubric:
            name, graded, most = await self._rubric(output, case.rubric)
            checks[name] = graded
        self._checks = checks or {"has_expectations": False}
        self._score = min(most, sum(self._checks.values()) / len(self._checks))
        failed = [name for name, passed in self._checks.items() if not passed]
        return _Said(not failed, self._score, "; ".join(f"{name}: FAILED" for name in failed))

    def _worked(self, context: CheckContext) -> list[str]:
        if self._is_graph:
            return [name for name in context.node_visits if "/" not in name]
        return [call.name for call in context.tool_calls if call.error is None]

    async def _rubric(self, output: str, rubric: str) -> tuple[str, bool, float]:
        """Name and outcome of the judge's check, and the most that the case can score."""
        if self._judge is None:
            return self._ungraded, False, 1.0
        try:
            verdict = await self._judge.score(prompt=self._case.prompt, output=output, rubric=rubric)
        except JudgeUnavailableError as exc:
            self.unavailable = exc
            raise
        name = "judge_unparseable" if getattr(verdict, "unparseable", False) else "rubric"
        passed = verdict.passed is True
        return f"{name}:{verdict.reason or 'graded'}", passed, float(verdict.score)

    def result(self, found: EvalCaseResult) -> EvalResult:
        """The case's result in the words of the original."""
        case, error, checks = self._case, found.error, dict(self._checks)
        if found.timed_out and case.max_duration_ms is not None:
            error = f"timed out: still running at its {case.max_duration_ms:g}ms budget"
            checks = {"within_duration_budget": False}
        nodes = [name for name in found.node_visits if "/" not in name]
        return EvalResult(
            case_name=case.name,
            passed=found.passed,
            score=self._score,
            output=found.actual_response,
            tools_called=nodes if self._is_graph else [call.name for call in found.actual_tool_calls],
            iterations=len(found.node_responses) or len(found.node_visits),
            duration_ms=found.duration_seconds * 1000,
            checks=checks,
            error=error,
            timed_out=found.timed_out,
        )


def _target_of(agent: Any) -> Target:
    """What drives the agent; one that only has ``run_sync`` is called in a thread."""
    of_tulip = type(agent).__module__.partition(".")[0] == "tulip"
    if not of_tulip and not isinstance(agent, Target) and callable(getattr(agent, "run_sync", None)):
        return _SyncAgent(agent)
    return adapt(agent)


class _SyncAgent:
    """Anything with ``run_sync(prompt)`` whose result has ``message``, ``iterations`` and ``tool_executions``."""

    def __init__(self, agent: Any) -> None:
        self._agent = agent

    async def run_turn(self, turn: Turn, session: Session, collector: TrajectoryCollector) -> None:
        """Runs it and records what the result tells."""
        result = await run_blocking(lambda: self._agent.run_sync(turn.text))
        session.raw[turn.index] = result
        for made in getattr(result, "tool_executions", None) or ():
            arguments: Mapping[str, Any] = getattr(made, "arguments", None) or {}
            error = getattr(made, "error", None)
            collector.tool(made.tool_name, arguments, result=getattr(made, "result", None), error=error or None)
        for _ in range(getattr(result, "iterations", 0) or 0):
            collector.node("agent")
        collector.say(result.message)
