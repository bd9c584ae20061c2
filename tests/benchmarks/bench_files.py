"""Seconds to load and save a large eval set, and milliseconds to import the package.

Run by hand: python tests/benchmarks/bench_files.py [cases]
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from agentflow_eval.dataset import EvalCase, EvalSet, ToolCall


def large_set(count: int) -> EvalSet:
    """``count`` cases as people write them."""
    cases = []
    for index in range(count):
        case = EvalCase.single_turn(
            f"case-{index}",
            f"Where is order {index}?",
            f"Order {index} was shipped with DHL and arrives in 2 days.",
            [
                ToolCall(name="lookup_order", args={"order_id": index}),
                ToolCall(name="track", args={"code": f"X{index}"}),
            ],
            ["MAIN", "TOOL", "MAIN"],
            name=f"Order {index}",
        )
        case.tags = ["orders", "smoke"]
        cases.append(case)
    return EvalSet(eval_set_id="large", name="Large", eval_cases=cases)


def timed(what: str, budget: float, action: Callable[[], object]) -> None:
    """Prints how long an action takes; what it made is freed after the clock has stopped."""
    began = time.process_time()
    made = action()
    print(f"{what}: {time.process_time() - began:.2f} s CPU (budget {budget})")
    del made


def import_milliseconds(code: str) -> float:
    """CPU of a fresh interpreter that runs ``code``, median of 7."""
    measure = f"import time; t = time.process_time(); {code}; print((time.process_time() - t) * 1000)"
    runs = [float(subprocess.check_output([sys.executable, "-c", measure])) for _ in range(7)]
    return sorted(runs)[3]


def command_seconds(*command: str) -> float:
    """Wall clock of a command, median of 5."""
    runs = []
    for _ in range(5):
        began = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        runs.append(time.perf_counter() - began)
    return sorted(runs)[2]


def main() -> None:
    """Prints the figures."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    eval_set = large_set(count)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "large.evalset.json"
        timed(f"save {count} cases", 2.0, lambda: eval_set.to_file(path))
        print(f"file: {path.stat().st_size / 1e6:.1f} MB")
        timed(f"load {count} cases", 3.0, lambda: EvalSet.from_file(path))
    alone = import_milliseconds("import pydantic; pydantic.BaseModel")
    names = "import pydantic; pydantic.BaseModel; import agentflow_eval"
    print(f"import agentflow_eval over pydantic: {import_milliseconds(names) - alone:.1f} ms CPU (budget 60)")
    used = f"{names}; agentflow_eval.EvalSet; agentflow_eval.EvalConfig; agentflow_eval.AgentEvaluator"
    print(f"  and its main names used: {import_milliseconds(used) - alone:.1f} ms CPU")
    help_seconds = command_seconds(sys.executable, "-m", "agentflow_eval", "--help")
    print(f"agentflow-eval --help: {help_seconds:.2f} s wall clock (budget 0.4)")


if __name__ == "__main__":
    main()
