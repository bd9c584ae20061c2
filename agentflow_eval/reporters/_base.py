"""What every reporter is: a way to make text of a report."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from pathlib import Path
from typing import ClassVar

from agentflow_eval._files import write_text
from agentflow_eval.config import ReporterConfig
from agentflow_eval.result import EvalReport


@dataclass(frozen=True, slots=True)
class Shown:
    """How much of each case a report shows."""

    include_details: bool = True
    include_trajectory: bool = True
    include_node_responses: bool = True
    include_actual_response: bool = True
    include_tool_call_details: bool = True

    @classmethod
    def of(cls, config: ReporterConfig) -> Shown:
        """What a config asks for."""
        return cls(**{field.name: getattr(config, field.name) for field in fields(cls)})


class BaseReporter(ABC):
    """Turns a report into text."""

    file_name: ClassVar[str]
    """Name of the file that `generate` writes."""

    @abstractmethod
    def render(self, report: EvalReport) -> str:
        """The report as text."""

    def save(self, report: EvalReport, path: Path | str) -> Path:
        """Writes the text, whole or not at all.

        Raises:
            ReportError: The file cannot be written.
        """
        return write_text(path, self.render(report))

    def generate(self, report: EvalReport, output_dir: Path | str | None = None) -> str:
        """Without ``output_dir`` the text itself; with it the path of the file written there."""
        if output_dir is None:
            return self.render(report)
        return str(self.save(report, Path(output_dir) / self.file_name))
