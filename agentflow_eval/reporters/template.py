"""A report through a Jinja2 template of the user's own."""

from __future__ import annotations

import re
import traceback
from pathlib import Path
from typing import Any

from jinja2 import StrictUndefined, TemplateError, TemplateSyntaxError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from agentflow_eval._files import printable, read_text
from agentflow_eval.errors import LoadError, ReportError, exception_text
from agentflow_eval.reporters import _words
from agentflow_eval.reporters._base import BaseReporter
from agentflow_eval.result import EvalCaseResult, EvalReport

_ENDINGS = (".jinja2", ".jinja", ".j2")
_MARKUP = (".html", ".htm", ".xhtml", ".xml", ".svg")
_MARKDOWN = re.compile(r"([\\`*_\[\]<>&#|~!$])")


class TemplateReporter(BaseReporter):
    """Text made by a Jinja2 template, which runs in a sandbox; in HTML and XML templates values are escaped.

    The template gets ``report``, ``summary``, ``cases``, ``failed_cases`` (errors included), ``passed_cases``,
    ``verdict`` (``word`` and ``sentence``), ``summary_line`` and ``error_groups`` (``text`` and ``cases``), and the
    filters ``percent``, ``seconds``, ``score``, ``oneline``, ``mdescape``, ``findings`` and ``comparisons``.

    Args:
        path: The template, as ``NAME.EXT.j2``.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)

    @property
    def file_name(self) -> str:  # type: ignore[override]  # of the instance here, not of the class
        """Name of the template without ``.j2``."""
        name = self.path.name
        return next((name.removesuffix(ending) for ending in _ENDINGS if name.endswith(ending)), name)

    def render(self, report: EvalReport) -> str:
        """What the template makes of the report.

        Raises:
            ReportError: The template cannot be read or used; the message names file and line.
        """
        try:
            source = read_text(self.path, "template")
        except LoadError as exc:
            raise ReportError(str(exc)) from exc
        try:
            return _environment(self.file_name).from_string(source).render(_context(report))
        except TemplateSyntaxError as exc:
            raise ReportError(f"{self.path}: line {exc.lineno}: {exc.message}") from exc
        except Exception as exc:  # a template may call anything that a value offers
            raise ReportError(f"{self.path}: {_where(exc)}{_what(exc)}") from exc


def _context(report: EvalReport) -> dict[str, Any]:
    return {
        "report": report,
        "summary": report.summary,
        "cases": report.results,
        "failed_cases": report.failed_cases,
        "passed_cases": report.passed_cases,
        "verdict": _words.verdict(report),
        "summary_line": _words.summary_line(report),
        "error_groups": _words.error_groups(report),
    }


def _environment(file_name: str) -> ImmutableSandboxedEnvironment:
    environment = ImmutableSandboxedEnvironment(
        undefined=StrictUndefined,
        autoescape=file_name.lower().endswith(_MARKUP),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=lambda value: printable(value) if type(value) is str else value,
    )
    environment.filters |= {
        "percent": _words.percent,
        "seconds": _words.seconds,
        "score": _words.score,
        "oneline": _oneline,
        "mdescape": _mdescape,
        "findings": lambda case: _words.findings(case, _words.spoken_finding),
        "comparisons": _comparisons,
    }
    return environment


def _oneline(text: object, longest: int = 0) -> str:
    return _words.one_line(str(text), longest)


def _mdescape(text: object) -> str:
    return _MARKDOWN.sub(r"\\\1", _words.steady(_words.clean(str(text))))


def _comparisons(case: EvalCaseResult) -> list[_words.Comparison]:
    return [comparison for turn in _words.telling_turns(case) for comparison in _words.comparisons(turn)]


def _where(exc: Exception) -> str:
    """The line of the template that raised, as Jinja2 writes it into the traceback."""
    frames = traceback.extract_tb(exc.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == "<template>"]
    return f"line {lines[-1]}: " if lines else ""


def _what(exc: Exception) -> str:
    return str(exc.message) if isinstance(exc, TemplateError) and exc.message else exception_text(exc)
