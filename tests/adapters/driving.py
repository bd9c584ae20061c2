"""Drives any agent without its runtime's help, turn by turn or through the evaluator."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from agentflow_eval.adapters import Session, Turn, adapt, release_connections
from agentflow_eval.collector import TrajectoryCollector
from agentflow_eval.config import CriteriaConfig, EvalConfig, ReporterConfig, RougeMatchConfig
from agentflow_eval.dataset import EvalCase, EvalSet, Invocation, MessageContent
from agentflow_eval.evaluator import AgentEvaluator
from agentflow_eval.result import EvalCaseResult, ExecutionResult


async def talk(agent: Any, *texts: str, session: Session | None = None, **options: Any) -> ExecutionResult:
    """What a conversation with the agent records."""
    target, collector = adapt(agent, **options), TrajectoryCollector()
    session = session or Session(thread_id="t1")
    try:
        for index, text in enumerate(texts):
            collector.begin_turn(text)
            await target.run_turn(Turn(index, text, MessageContent.user(text)), session, collector)
            collector.end_turn()
            session.messages.append({"role": "user", "content": text})
            if collector.final_response:
                session.messages.append({"role": "assistant", "content": collector.final_response})
    finally:
        await release_connections([target])
    collector.finish()
    assert collector.failures == []
    return collector.execution()


def say(agent: Any, *texts: str, session: Session | None = None, **options: Any) -> ExecutionResult:
    """`talk` from synchronous code."""
    return asyncio.run(talk(agent, *(texts or ("hi",)), session=session, **options))


def calls(execution: ExecutionResult | EvalCaseResult) -> list[tuple[str, dict[str, Any]]]:
    """Name and arguments of each recorded call."""
    made = execution.tool_calls if isinstance(execution, ExecutionResult) else execution.actual_tool_calls
    return [(call.name, call.args) for call in made]


def config(**settings: Any) -> EvalConfig:
    """Lenient criteria and no reports."""
    return EvalConfig(
        criteria=CriteriaConfig(rouge_match=RougeMatchConfig(threshold=0.1)),
        reporter=ReporterConfig(enabled=False),
        **settings,
    )


def judged(agent: Any, *texts: str, **settings: Any) -> EvalCaseResult:
    """The result of one case through the front door."""
    case = EvalCase(eval_id="c1", conversation=[Invocation.simple(text, "hello") for text in texts or ("hi",)])
    evaluator = AgentEvaluator(agent, config=config(**settings))
    return evaluator.run_sync(EvalSet(eval_set_id="s", eval_cases=[case])).results[0]


def check_isolation(agent: Any, check: Callable[[int, EvalCaseResult], None], turns: int = 1) -> None:
    """Runs 200 cases, 16 at a time, and checks each: case n says ``n`` in every turn."""
    cases = [
        EvalCase(eval_id=f"c{n}", conversation=[Invocation.simple(str(n), str(n)) for _ in range(turns)])
        for n in range(200)
    ]
    evaluator = AgentEvaluator(agent, config=config(parallel=True, max_concurrency=16))
    report = evaluator.run_sync(EvalSet(eval_set_id="s", eval_cases=cases))
    assert [result.error for result in report.results if result.error] == []
    for number, result in enumerate(report.results):
        check(number, result)
