"""The command line.

Exit codes: 0 the gate passed; 1 cases failed or broke, or a report could not be written; 2 nothing to run: a bad file,
a bad option, no case selected, an agent that cannot be imported; 130 interrupted.
"""

from __future__ import annotations

from agentflow_eval.cli import check, measure, run, show
from agentflow_eval.cli._app import commands, main, script

__all__ = ["check", "commands", "main", "measure", "run", "script", "show"]
