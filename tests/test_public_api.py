"""The names that users import."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import agentflow_eval

DOCUMENTED = [
    "AgentEvaluator",
    "EvalConfig",
    "CriteriaConfig",
    "CriterionConfig",
    "MatchType",
    "Rubric",
    "EvalSet",
    "EvalSetBuilder",
    "EvalCase",
    "Invocation",
    "MessageContent",
    "SessionInput",
    "ToolCall",
    "TrajectoryStep",
    "StepType",
    "EvalReport",
    "EvalCaseResult",
    "CriterionResult",
    "TrajectoryCollector",
    "make_trajectory_callback",
    "create_eval_app",
    "ConsoleReporter",
    "HTMLReporter",
    "JSONReporter",
    "JUnitXMLReporter",
    "print_report",
    "DEFAULT_JUDGE_MODEL",
    "EvaluationRunner",
    "ReporterManager",
    "EvalPresets",
    "ExecutionResult",
]


def test_documented_names() -> None:
    """Everything that the documentation imports is there."""
    assert set(DOCUMENTED) <= set(agentflow_eval.__all__)


def test_all_is_sorted_and_resolves() -> None:
    """Every public name leads to something, once, and is listed by `dir`."""
    names = agentflow_eval.__all__
    assert names == sorted(set(names))
    assert not [name for name in names if getattr(agentflow_eval, name) is None]
    assert {*names, "__version__"} == set(dir(agentflow_eval))


def test_type_checkers_see_the_same() -> None:
    """The imports for type checkers are the table of lazy ones."""
    source = Path(agentflow_eval.__file__).read_text(encoding="utf-8")
    block = next(node for node in ast.parse(source).body if isinstance(node, ast.If))
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    seen = {
        (alias.asname, (node.module or "").removeprefix("agentflow_eval.")) for node in imports for alias in node.names
    }
    lazy = {(name, module) for module, names in agentflow_eval._MODULES.items() for name in names.split()}
    assert lazy == seen


def test_unknown_name() -> None:
    """A misspelt name is the usual error."""
    with pytest.raises(AttributeError, match="module 'agentflow_eval' has no attribute 'EvalSett'"):
        agentflow_eval.EvalSett


def test_importing_is_cheap() -> None:
    """The package alone loads none of what it needs later."""
    code = (
        "import sys, agentflow_eval; "
        "heavy = {'pydantic', 'rich', 'jinja2', 'langgraph', 'openai', 'click', 'asyncio', 'regex'}; "
        "print(sorted(heavy & set(sys.modules)), agentflow_eval.__version__)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"[] {agentflow_eval.__version__}"


def test_loading_files_needs_no_runtime() -> None:
    """Data, config and results work without reporters, judges and agent runtimes."""
    code = (
        "import sys; from agentflow_eval import EvalSet, EvalConfig, EvalReport, EvalSetBuilder, EvalPresets; "
        "print(sorted({'rich', 'jinja2', 'langgraph', 'openai', 'click'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="10xgraph can be installed here")
@pytest.mark.parametrize("name", ["make_trajectory_callback", "create_eval_app"])
def test_wiring_needs_a_newer_python(name: str) -> None:
    """On a Python that is too old for 10xgraph the documented wiring says so."""
    expected = rf"{name} needs the extra 'agentflow' \(10xgraph\), which needs Python >= 3\.12; this is Python 3\.11"
    with pytest.raises(agentflow_eval.MissingExtraError, match=expected):
        getattr(agentflow_eval, name)(agentflow_eval.TrajectoryCollector())
