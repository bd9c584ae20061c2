"""Short ways to make cases and run them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agentflow_eval.collector import TrajectoryCollector
from agentflow_eval.config import CriteriaConfig, EvalConfig, ExactMatchConfig, ReporterConfig
from agentflow_eval.criteria import BaseCriterion, SyncCriterion
from agentflow_eval.dataset import EvalCase, EvalSet, Invocation
from agentflow_eval.evaluator import AgentEvaluator
from agentflow_eval.result import CriterionResult, EvalCaseResult, EvalReport, ExecutionResult

NO_REPORTS = ReporterConfig(enabled=False)


def config(**settings: Any) -> EvalConfig:
    """An exact comparison with the expected answer and no reports, unless ``settings`` say otherwise."""
    values: dict[str, Any] = {"criteria": CriteriaConfig(exact_match=ExactMatchConfig()), "reporter": NO_REPORTS}
    return EvalConfig(**values | settings)


def case(eval_id: str = "c1", query: str = "hi", answer: str | None = "ok", **more: Any) -> EvalCase:
    """A case of one turn."""
    return EvalCase(eval_id=eval_id, conversation=[Invocation.simple(query, answer)], **more)


def talk(*queries: str, eval_id: str = "c1", answer: str | None = "ok", **more: Any) -> EvalCase:
    """A case of several turns; ``answer`` is expected of each."""
    return EvalCase(eval_id=eval_id, conversation=[Invocation.simple(query, answer) for query in queries], **more)


def eval_set(*cases: EvalCase, **more: Any) -> EvalSet:
    """A set named ``s``."""
    return EvalSet(**{"eval_set_id": "s", "eval_cases": list(cases)} | more)


def numbered(count: int) -> list[EvalCase]:
    """Cases ``c1``, ``c2``..."""
    return [case(f"c{number}", query=f"c{number}") for number in range(1, count + 1)]


def run(
    agent: Any,
    *cases: EvalCase,
    own: Sequence[BaseCriterion] = (),
    named: Mapping[str, Any] | None = None,
    **settings: Any,
) -> EvalReport:
    """The report of a run; one case named ``c1`` when none is given. ``named``: targets, checks, fixtures, hooks."""
    evaluator = AgentEvaluator(agent, config=config(**settings), criteria=own, **named or {})
    return evaluator.run_sync(eval_set(*(cases or [case()])))


def run_one(
    agent: Any,
    one: EvalCase | None = None,
    own: Sequence[BaseCriterion] = (),
    named: Mapping[str, Any] | None = None,
    **settings: Any,
) -> EvalCaseResult:
    """The result of one case."""
    return run(agent, one or case(), own=own, named=named, **settings).results[0]


def outcomes(report: EvalReport) -> list[str]:
    """The outcome of each case."""
    return [result.outcome.value for result in report.results]


async def ok(text: str) -> str:
    """An agent that answers what the cases expect."""
    return "ok"


async def records(text: str, run: TrajectoryCollector) -> str:
    """An agent that visits a node and calls a tool."""
    run.node("MAIN")
    run.tool("look", {"n": 1})
    return "ok"


class Waiting(BaseCriterion):
    """A criterion that is an async function."""

    name = "own"

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    async def evaluate(self, actual: ExecutionResult, expected: EvalCase) -> CriterionResult:
        result: CriterionResult = await self.function()
        return result


class Instant(SyncCriterion):
    """A criterion that is a function of the run."""

    name = "own"

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def evaluate_sync(self, actual: ExecutionResult, expected: EvalCase) -> CriterionResult:
        result: CriterionResult = self.function(actual)
        return result
