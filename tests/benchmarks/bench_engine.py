"""CPU per case and memory kept per case: a zero-latency function agent, 3 tool calls, 5 deterministic criteria.

Run by hand: python tests/benchmarks/bench_engine.py [cases ...]
"""

from __future__ import annotations

import gc
import sys
import time
import tracemalloc

from agentflow_eval.collector import TrajectoryCollector
from agentflow_eval.config import CriteriaConfig, CriterionConfig, EvalConfig, ReporterConfig
from agentflow_eval.dataset import EvalCase, EvalSet, ToolCall
from agentflow_eval.evaluator import AgentEvaluator

BUDGET_MS = 0.15
BUDGET_KB = 5.0


async def agent(text: str, run: TrajectoryCollector) -> str:
    """Visits two nodes, calls three tools, answers."""
    run.node("MAIN")
    run.tool("lookup_order", {"order_id": 7}, result={"status": "shipped"}, call_id="1")
    run.tool("track", {"carrier": "DHL", "code": "X1"}, result="in transit", call_id="2")
    run.tool("estimate", {"days": 2}, result=2, call_id="3")
    run.node("TOOL")
    run.node("MAIN")
    return "Order 7 was shipped with DHL and arrives in 2 days."


def eval_set(count: int) -> EvalSet:
    """``count`` cases that pass."""
    return EvalSet(
        eval_set_id="bench",
        eval_cases=[
            EvalCase.single_turn(
                f"case-{index}",
                "Where is order 7?",
                "Order 7 was shipped with DHL and arrives in 2 days.",
                [
                    ToolCall(name="lookup_order", args={"order_id": 7}),
                    ToolCall(name="track", args={"carrier": "DHL", "code": "X1"}),
                    ToolCall(name="estimate", args={"days": 2}),
                ],
                ["MAIN", "TOOL", "MAIN"],
            )
            for index in range(count)
        ],
    )


def config(parallel: bool) -> EvalConfig:
    """Five deterministic criteria, no reporters."""
    return EvalConfig(
        criteria=CriteriaConfig(
            tool_name_match=CriterionConfig.tool_name_match(),
            trajectory=CriterionConfig.trajectory(check_args=True),
            node_order=CriterionConfig.node_order(),
            rouge_match=CriterionConfig.rouge_match(),
            contains_keywords=CriterionConfig.contains_keywords(["order", "DHL"]),
        ),
        parallel=parallel,
        max_concurrency=16,
        reporter=ReporterConfig(enabled=False),
    )


def cpu_per_case(count: int, parallel: bool) -> float:
    """Milliseconds of CPU per case."""
    cases, evaluator = eval_set(count), AgentEvaluator(agent, config=config(parallel))
    gc.collect()
    began = time.process_time()
    report = evaluator.run_sync(cases)
    spent = time.process_time() - began
    if not report.passed:
        raise SystemExit(report.format_summary())
    return spent / count * 1000


def kilobytes_per_case(count: int) -> float:
    """Memory that a report keeps per case."""
    cases, evaluator = eval_set(count), AgentEvaluator(agent, config=config(False))
    evaluator.run_sync(eval_set(10))
    gc.collect()
    tracemalloc.start()
    report = evaluator.run_sync(cases)
    gc.collect()
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return kept / len(report.results) / 1024


def calibration() -> float:
    """Seconds of CPU for a million calls of an empty function: how fast this machine is just now."""

    def nothing(first: int, second: int) -> int:
        return first

    began = time.process_time()
    for index in range(1_000_000):
        nothing(index, index)
    return time.process_time() - began


def main() -> None:
    """Prints the figures."""
    print(f"a million empty calls take {calibration():.3f} s CPU (0.06 when this machine is quiet)")
    counts = [int(arg) for arg in sys.argv[1:]] or [1_000, 10_000, 100_000]
    cpu_per_case(200, False)
    for count in counts:
        for parallel in (False, True):
            best = min(cpu_per_case(count, parallel) for _ in range(3 if count <= 10_000 else 1))
            mode = "concurrency 16" if parallel else "sequential"
            print(f"{count:>7} cases, {mode:<14}: {best:.3f} ms CPU per case (budget {BUDGET_MS})")
    print(f"memory kept per case: {kilobytes_per_case(2_000):.2f} KB (budget {BUDGET_KB})")


if __name__ == "__main__":
    main()
