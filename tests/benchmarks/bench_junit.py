"""CPU seconds for the JUnit, JSON and console reports of many cases.

Run by hand: python -m tests.benchmarks.bench_junit [cases]
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from agentflow_eval.reporters import ConsoleReporter, JSONReporter, JUnitXMLReporter
from agentflow_eval.result import EvalReport
from tests.reporters.samples import large_report

BUDGETS = {"junit": 2.0, "junit strict": 2.0, "junit extended": 2.0, "json": 1.5, "console": 2.0}
"""CPU seconds for 10,000 cases."""


def renderers() -> dict[str, Callable[[EvalReport], str]]:
    """What is measured, by name."""
    return {
        "junit": JUnitXMLReporter().render,
        "junit strict": JUnitXMLReporter(profile="strict").render,
        "junit extended": JUnitXMLReporter(profile="extended").render,
        "json": JSONReporter().render,
        "console": ConsoleReporter(verbose=True).render,
    }


def best_of(count: int, render: Callable[[EvalReport], str], report: EvalReport) -> tuple[float, int]:
    """The shortest CPU time of a few runs, and the length of the text."""
    seconds, length = float("inf"), 0
    for _ in range(count):
        start = time.process_time()
        length = len(render(report))
        seconds = min(seconds, time.process_time() - start)
    return seconds, length


def main() -> int:
    """Prints the times; 1 when one of them is over its budget."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    report = large_report(count)
    late = 0
    for name, render in renderers().items():
        seconds, length = best_of(3, render, report)
        budget = BUDGETS[name] * count / 10_000
        late += seconds > budget
        print(f"{name:<15} {seconds:6.2f} s of {budget:.2f} s, {length / 1e6:6.1f} million characters")
    return 1 if late else 0


if __name__ == "__main__":
    sys.exit(main())
