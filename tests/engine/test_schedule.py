"""Which cases run when."""

from __future__ import annotations

import asyncio
import gc
import random
import time
from typing import Any

import pytest

from agentflow_eval.collector import TrajectoryCollector
from agentflow_eval.config import CriteriaConfig, CriterionConfig
from agentflow_eval.dataset import EvalCase, ToolCall
from agentflow_eval.engine.schedule import Progress, run_cases
from agentflow_eval.evaluator import AgentEvaluator
from agentflow_eval.result import EvalCaseResult, EvalReport, Outcome
from tests.engine.runs import config, eval_set, numbered, ok, outcomes, run


class Counting:
    """An agent that counts how many runs of it are under way."""

    def __init__(self) -> None:
        self.now = 0
        self.most = 0

    async def __call__(self, text: str) -> str:
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(0.005)
        self.now -= 1
        return "ok"


def test_file_order() -> None:
    """Results stand in the order of the file, whatever ended first."""
    ended: list[str] = []
    before = {"c1": "c3", "c2": None, "c3": "c2"}

    async def agent(text: str) -> str:
        while before[text] not in [None, *ended]:
            await asyncio.sleep(0)
        ended.append(text)
        return "ok"

    report = run(agent, *numbered(3), parallel=True)
    assert ended == ["c2", "c3", "c1"]
    assert [result.eval_id for result in report.results] == ["c1", "c2", "c3"]


@pytest.mark.parametrize(("settings", "most"), [({}, 1), ({"parallel": True}, 4), ({"max_concurrency": 3}, 1)])
def test_concurrency_of_the_config(settings: dict[str, Any], most: int) -> None:
    """Cases run one at a time unless parallel is on, then as many as max_concurrency says (4)."""
    agent = Counting()
    assert run(agent, *numbered(10), **settings).passed
    assert most == agent.most


@pytest.mark.parametrize("settings", [{"max_concurrency": 2}, {"max_concurrency": 2, "parallel": True}])
def test_concurrency_of_a_call(settings: dict[str, Any]) -> None:
    """A call may ask for it too."""
    agent = Counting()
    evaluator = AgentEvaluator(agent, config=config(**settings))
    assert asyncio.run(evaluator.evaluate(eval_set(*numbered(10)), parallel=True)).passed
    assert agent.most == 2
    asyncio.run(evaluator.evaluate(eval_set(*numbered(10)), parallel=True, max_concurrency=5))
    assert agent.most == 5


def own_tool(case: EvalCase) -> EvalCase:
    """The case, expecting a call of its own tool."""
    case.conversation[0].expected_tool_trajectory = [ToolCall(name=f"tool_{case.eval_id}", args={"id": case.eval_id})]
    return case


def isolated(agent: Any, count: int, concurrency: int) -> EvalReport:
    """A run of cases that each expect their own tool and nothing else."""
    criteria = CriteriaConfig(trajectory=CriterionConfig.trajectory(check_args=True))
    cases = [own_tool(case) for case in numbered(count)]
    return run(agent, *cases, criteria=criteria, parallel=True, max_concurrency=concurrency)


async def calls_own_tool(text: str, run: TrajectoryCollector) -> str:
    """Calls tool_<id> after a random delay."""
    await asyncio.sleep(random.random() / 500)
    with run.tool(f"tool_{text}", {"id": text}) as call:
        await asyncio.sleep(random.random() / 500)
        call.result = text
    print(text)
    return text


def calls_own_tool_in_a_thread(text: str, run: TrajectoryCollector) -> str:
    """The same, in a thread."""
    time.sleep(random.random() / 500)
    run.tool(f"tool_{text}", {"id": text}, result=text)
    print(text)
    return text


@pytest.mark.parametrize("agent", [calls_own_tool, calls_own_tool_in_a_thread])
def test_isolation(agent: Any) -> None:
    """8 cases, 4 at once, 20 times: no case sees anything of another."""
    for _ in range(20):
        report = isolated(agent, 8, 4)
        assert outcomes(report) == ["passed"] * 8
        assert [f"c{n}\n" for n in range(1, 9)] == [result.stdout for result in report.results]


@pytest.mark.parametrize("agent", [calls_own_tool, calls_own_tool_in_a_thread])
def test_isolation_of_many(agent: Any) -> None:
    """200 cases, 16 at once."""
    report = isolated(agent, 200, 16)
    assert outcomes(report) == ["passed"] * 200
    names = [[call.name for call in result.actual_tool_calls] for result in report.results]
    assert [[f"tool_c{n}"] for n in range(1, 201)] == names


def test_five_thousand_cases() -> None:
    """5000 cases of an instant agent complete, sequential or not."""
    cases = numbered(5000)
    for parallel in (False, True):
        report = run(ok, *cases, parallel=parallel)
        assert (report.summary.total_cases, report.summary.passed_cases) == (5000, 5000)


def test_others_get_their_turn() -> None:
    """A run whose cases never wait lets the rest of the event loop work."""
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0)

    async def instant(case: EvalCase) -> EvalCaseResult:
        return EvalCaseResult(eval_id=case.eval_id, passed=True, outcome=Outcome.PASSED)

    async def main() -> None:
        ticking = asyncio.create_task(tick())
        cases = numbered(500)
        await run_cases(cases, instant, 1, Progress([None] * len(cases)), lambda result: None)
        ticking.cancel()

    asyncio.run(main())
    assert 9 <= ticks <= 11


@pytest.mark.parametrize("parallel", [False, True])
def test_stop(parallel: bool) -> None:
    """After stop no case begins; running ones end, the rest are not run, and the gate is not passed."""

    async def agent(text: str) -> str:
        await asyncio.sleep(0.002)
        if text == "c4":
            evaluator.stop()
        return "ok"

    evaluator = AgentEvaluator(agent, config=config(parallel=parallel, max_concurrency=2, min_pass_rate=0.1))
    report = evaluator.run_sync(eval_set(*numbered(10)))
    done = outcomes(report).count("passed")
    assert 4 <= done <= 5
    rest = report.results[done:]
    assert {("not_run", "the run was interrupted before this case")} == {(r.error_kind, r.error) for r in rest}
    assert (report.interrupted, report.gate_passed, evaluator.stopped) == (True, False, True)
    assert report.summary.total_cases == 10
    evaluator.stop()
    assert AgentEvaluator(ok, config=config()).run_sync(eval_set(*numbered(2))).gate_passed


def test_next_run_after_a_stop() -> None:
    """A stop is for one run only."""
    evaluator = AgentEvaluator(ok, config=config())
    evaluator.stop()
    assert evaluator.run_sync(eval_set(*numbered(2))).passed
    assert not evaluator.stopped


def test_collector_of_garbage() -> None:
    """The garbage collector looks less often during a run and as ever afterwards, and stays off when it was off."""
    before = gc.get_threshold()
    seen: list[int] = []

    async def agent(text: str) -> str:
        seen.append(gc.get_threshold()[0])
        return "ok"

    run(agent)
    assert before == gc.get_threshold()
    gc.set_threshold(0)
    try:
        run(agent)
        assert gc.get_threshold()[0] == 0
    finally:
        gc.set_threshold(*before)
    assert seen == [20_000, 0]
