"""Size of the HTML report of 10,000 cases and the CPU time of rendering it; run by hand."""

from __future__ import annotations

import sys
import time

from agentflow_eval.reporters.html import HTMLReporter
from tests.reporters.samples import large_report


def main(count: int = 10_000) -> None:
    """Prints the figures."""
    report = large_report(count)
    reporter = HTMLReporter()
    reporter.render(large_report(1))
    started = time.process_time()
    html = reporter.render(report)
    seconds = time.process_time() - started
    print(f"{count} cases: {len(html.encode()) / 1e6:.1f} MB, {seconds:.2f} s of CPU")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
