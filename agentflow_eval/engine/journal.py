"""Finished cases on disk, one line each, so that a run that dies loses nothing it earned."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from agentflow_eval._files import explain, model_line, read_text
from agentflow_eval.errors import LoadError, Problem, ReportError, exception_text
from agentflow_eval.result import EvalCaseResult, EvalReport


class Journal:
    """Appends each result as it comes; removed when the whole report is on disk.

    A disk that fills up ends the journal, not the run.

    Raises:
        ReportError: The file cannot be written.
    """

    def __init__(self, path: Path, header: Mapping[str, Any]) -> None:
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_TRUNC, 0o666)
        except OSError as exc:
            raise ReportError(f"{path}: cannot be written: {exception_text(exc)}") from exc
        self._whole = True
        self._write(json.dumps(dict(header)))

    def append(self, result: EvalCaseResult) -> None:
        """Writes one result with one system call."""
        if self._whole:
            self._write(model_line(result))

    def _write(self, line: str) -> None:
        encoded = line.encode("utf-8", "backslashreplace") + b"\n"
        try:
            self._whole = os.write(self._handle, encoded) == len(encoded)
        except OSError:
            self._whole = False

    def close(self) -> None:
        """Closes the file and leaves it."""
        os.close(self._handle)

    def remove(self) -> None:
        """Removes the closed file."""
        self.path.unlink(missing_ok=True)


def read_journal(path: Path) -> EvalReport:
    """The report of the cases that a run finished before it died.

    A last line that was cut off is left out.

    Raises:
        LoadError: The file is no journal.
    """
    lines = read_text(path, "journal").split("\n")
    try:
        header = json.loads(lines[0])
        results = list(_results(path, lines[1:]))
        return EvalReport.create(results=results, interrupted=True, **header)
    except LoadError:
        raise
    except ValidationError as exc:
        raise LoadError(str(path), explain(exc, EvalReport)) from exc
    except (ValueError, TypeError, RecursionError) as exc:
        raise LoadError(str(path), [Problem("", f"not a journal of a run: {exception_text(exc)}")]) from exc


def _results(path: Path, lines: list[str]) -> Iterator[EvalCaseResult]:
    whole = lines[:-1]  # what follows the last newline was cut off
    for number, line in enumerate(whole, start=2):
        try:
            yield EvalCaseResult.model_validate_json(line)
        except ValidationError as exc:
            found = explain(exc, EvalCaseResult)
            problems = [Problem(" ".join([f"line {number}", place]).strip(), text) for place, text in found]
            raise LoadError(str(path), problems) from exc
