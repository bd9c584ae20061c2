"""A report as JSON, which `EvalReport.from_file` reads back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic_core import PydanticSerializationError

from agentflow_eval._values import jsonable
from agentflow_eval.reporters._base import BaseReporter, Shown
from agentflow_eval.reporters._trimmed import trimmed
from agentflow_eval.result import EvalReport

_DEEPEST = 200
"""Nesting that a report file may have."""


class JSONReporter(BaseReporter):
    """One JSON object; with everything included, loading it gives an equal report.

    Args:
        indent: Spaces of each level; None for a single line.
        include_details: Keep what each criterion compared; reasons are always kept.
        include_trajectory: Keep the recorded steps.
        include_node_responses: Keep input and output of each node.
        include_actual_response: Keep answers and messages.
        include_tool_call_details: Keep arguments and results of tool calls, not only their names.
    """

    file_name = "report.json"

    def __init__(
        self,
        indent: int | None = 2,
        include_details: bool = True,
        include_trajectory: bool = True,
        include_node_responses: bool = True,
        include_actual_response: bool = True,
        include_tool_call_details: bool = True,
    ) -> None:
        self.indent = indent
        self.shown = Shown(
            include_details=include_details,
            include_trajectory=include_trajectory,
            include_node_responses=include_node_responses,
            include_actual_response=include_actual_response,
            include_tool_call_details=include_tool_call_details,
        )

    def render(self, report: EvalReport) -> str:
        """The text of the file: strict JSON, real UTF-8, one newline at the end.

        NaN and the infinities become the texts ``NaN``, ``Infinity`` and ``-Infinity``.
        """
        return _text(trimmed(report, self.shown), self.indent) + "\n"

    def to_json(self, report: EvalReport) -> str:
        """Same as `render`."""
        return self.render(report)

    def to_dict(self, report: EvalReport) -> dict[str, Any]:
        """What the file holds, as objects of JSON types."""
        content: dict[str, Any] = json.loads(self.render(report))
        return content

    @classmethod
    def quick_save(cls, report: EvalReport, path: Path | str, indent: int | None = 2) -> Path:
        """Writes the whole report.

        Raises:
            ReportError: The file cannot be written.
        """
        return cls(indent=indent).save(report, path)


def _text(report: EvalReport, indent: int | None) -> str:
    try:
        text = report.model_dump_json(indent=indent)
    except (PydanticSerializationError, UnicodeEncodeError):
        # Text that UTF-8 cannot hold, or a value that JSON does not know.
        return _dumps(_plain(report), indent)
    if "NaN" not in text and "Infinity" not in text:
        return text
    constants: list[str] = []

    def as_text(constant: str) -> str:
        constants.append(constant)
        return constant

    value = json.loads(text, parse_constant=as_text)
    return _dumps(value, indent) if constants else text


def _dumps(value: Any, indent: int | None) -> str:
    separators = (",", ":") if indent is None else None
    return json.dumps(value, ensure_ascii=False, allow_nan=False, indent=indent, separators=separators)


def _plain(value: Any) -> Any:
    """``value`` as JSON types, models field by field, so that one odd value costs nothing else."""
    if isinstance(value, BaseModel):
        return {name: _plain(getattr(value, name)) for name in type(value).model_fields}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return jsonable(value, _DEEPEST) if not isinstance(value, dict) else {str(k): _plain(v) for k, v in value.items()}
