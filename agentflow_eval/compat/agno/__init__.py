"""``agno.eval``'s suites over this engine: change the import, keep the suite.

Where it differs, on purpose:

- A tool that failed has not fired: it meets no ``expected_tool_calls``.
- A judge that gives no usable verdict is an error that says why; ``"passed": "false"`` is false.
- An answer that is empty fails its ``criteria`` without asking the judge.
- ``expected_tool_calls="name"`` and thresholds that make no sense are construction errors, whatever the mode.
- ``SystemExit`` and a stray cancellation in an agent, a judge, a hook, ``setup`` or ``teardown`` are an error of that
  case; they end neither the suite nor the process.
- A score between two whole numbers is read; ``judge_score`` is the lower one.
- Without a ``judge_model`` the judge is this package's default, asked through the extra ``judge``.
- ``db`` is taken and not written to: the record of a suite is `SuiteResult.to_report`, which also gives HTML and JUnit.
- Messages after the prefixes ``agent:``, ``timeout:``, ``judge:``, ``reliability:``, ``setup:``, ``cleanup:`` and
  ``hook:`` are our own words.
"""

from __future__ import annotations

from agentflow_eval.compat.agno._cli import acli, cli
from agentflow_eval.compat.agno._runner import arun_cases, run_cases
from agentflow_eval.compat.agno._types import Case, CaseResult, JudgeMode, SuiteResult

__all__ = ["Case", "CaseResult", "JudgeMode", "SuiteResult", "acli", "arun_cases", "cli", "run_cases"]
