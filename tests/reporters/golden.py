"""Golden files: whole reports, kept to be read in review."""

from __future__ import annotations

import os
from pathlib import Path

from agentflow_eval.result import EvalReport
from tests.reporters.samples import report_of, sample_results

FOLDER = Path(__file__).parents[1] / "golden"


def golden_report() -> EvalReport:
    """Every outcome, without the hostile texts."""
    return report_of([case for case in sample_results() if not case.eval_id.startswith("hostile")])


def golden(name: str, text: str) -> str:
    """What the golden file holds; with ``UPDATE_GOLDEN=1`` in the environment the file is written first."""
    path = FOLDER / name
    if os.environ.get("UPDATE_GOLDEN") == "1":
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="\n")
    return path.read_text(encoding="utf-8")
