"""Reporters, each imported when it is first used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agentflow_eval.reporters._base import BaseReporter
    from agentflow_eval.reporters.console import ConsoleReporter, print_report
    from agentflow_eval.reporters.html import HTMLReporter
    from agentflow_eval.reporters.json import JSONReporter
    from agentflow_eval.reporters.junit import JUnitXMLReporter
    from agentflow_eval.reporters.manager import ReporterManager, ReporterOutput
    from agentflow_eval.reporters.template import TemplateReporter

__all__ = [
    "BaseReporter",
    "ConsoleReporter",
    "HTMLReporter",
    "JSONReporter",
    "JUnitXMLReporter",
    "ReporterManager",
    "ReporterOutput",
    "TemplateReporter",
    "print_report",
]

_HOMES = {
    "BaseReporter": "_base",
    "ConsoleReporter": "console",
    "HTMLReporter": "html",
    "JSONReporter": "json",
    "JUnitXMLReporter": "junit",
    "ReporterManager": "manager",
    "ReporterOutput": "manager",
    "TemplateReporter": "template",
    "print_report": "console",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
