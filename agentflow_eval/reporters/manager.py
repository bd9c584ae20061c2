"""Runs the reporters that a config asks for."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from agentflow_eval._files import safe_name, write_text
from agentflow_eval.config import ReporterConfig
from agentflow_eval.errors import ReportError, exception_text
from agentflow_eval.reporters._base import Shown
from agentflow_eval.reporters._trimmed import trimmed
from agentflow_eval.result import EvalReport

_MOST_TRIES = 10_000


class Renders(Protocol):
    """What a reporter of the user's own has to be; ``name`` and ``file_name`` are optional attributes."""

    def render(self, report: EvalReport, /) -> str:
        """The report as text."""
        ...


@dataclass(slots=True)
class ReporterOutput:
    """What the reporters of one run made.

    Attributes:
        json_path: The JSON report, None when it was not written.
        html_path: The HTML report, None when it was not written.
        junit_path: The JUnit report, None when it was not written.
        console_output: What was printed, without colours; None when nothing was.
        template_paths: The files that the user's own templates made.
        extra_paths: The files that the user's own reporters made.
        errors: What could not be done: name of the reporter and message.
    """

    json_path: str | None = None
    html_path: str | None = None
    junit_path: str | None = None
    console_output: str | None = None
    template_paths: list[str] = field(default_factory=list)
    extra_paths: list[str] = field(default_factory=list)
    errors: list[tuple[str, str]] = field(default_factory=list)

    @property
    def has_errors(self) -> bool:
        """Whether a report could not be made or written."""
        return bool(self.errors)

    @property
    def generated_files(self) -> list[str]:
        """The paths of all written files."""
        own = [self.json_path, self.html_path, self.junit_path]
        return [path for path in own if path] + self.template_paths + self.extra_paths


class ReporterManager:
    """Runs the configured reporters and some of the user's own, each whatever becomes of the others.

    Args:
        config: Which reports are made and how much they show.
        extra: Objects with ``render(report) -> str``; each is written to ``STEM_`` and its ``file_name``.
    """

    def __init__(self, config: ReporterConfig, extra: Sequence[Renders] = ()) -> None:
        self.config = config
        self.extra = list(extra)

    def run_all(self, report: EvalReport, output_dir: Path | str | None = None) -> ReporterOutput:
        """Prints the report and writes its files; does nothing when the config switches reports off.

        Files are named after the eval set, and with ``timestamp_files`` never replace others.

        Args:
            report: The report.
            output_dir: Folder for the files instead of the config's; made when it is missing.

        Returns:
            What was made, and what could not be.
        """
        output = ReporterOutput()
        if not self.config.enabled:
            return output
        if self.config.console:
            output.console_output = _attempt(output, "console", lambda: self._print(report))
        files = list(_distinct(self._files(report)))
        folder = Path(self.config.output_dir if output_dir is None else output_dir)
        reserved: list[Path] = []
        try:
            stem = _attempt(output, "output directory", lambda: self._stem(report, folder, files, reserved))
            if stem is not None:
                _write_all(output, folder / stem, files)
        finally:
            _remove_empty(reserved)
        return output

    def _print(self, report: EvalReport) -> str:
        from agentflow_eval.reporters.console import ConsoleReporter

        return ConsoleReporter(verbose=self.config.verbose).generate(trimmed(report, Shown.of(self.config)))

    def _files(self, report: EvalReport) -> Iterator[_File]:
        config, shown = self.config, asdict(Shown.of(self.config))
        shorter = trimmed(report, Shown.of(config))
        if config.json_report:
            yield _File("json", ".json", lambda: _reporters().JSONReporter(**shown).render(report))
        if config.html:
            yield _File("html", ".html", lambda: _reporters().HTMLReporter(**shown).render(report))
        if config.junit_xml:
            profile = config.junit_profile
            yield _File("junit", "_junit.xml", lambda: _reporters().JUnitXMLReporter(profile=profile).render(shorter))
        for path in config.templates:
            ending = _ending(_template_output(path))
            yield _File("template", ending, partial(_through_template, path, shorter), path)
        for extra in self.extra:
            name = str(getattr(extra, "name", "") or type(extra).__name__)
            ending = _ending(str(getattr(extra, "file_name", "") or f"{name}.txt"))
            yield _File("extra", ending, partial(_rendered, extra, report), name)

    def _stem(self, report: EvalReport, folder: Path, files: Sequence[_File], reserved: list[Path]) -> str:
        """What all file names begin with; with a timestamp the files are made, so that no other run takes them."""
        stem = safe_name(report.eval_set_id)
        if not self.config.timestamp_files:
            return stem
        stem += f"_{datetime.now():%Y%m%d_%H%M%S}"
        for number in range(1, _MOST_TRIES):
            candidate = stem if number == 1 else f"{stem}-{number}"
            if _reserve([folder / f"{candidate}{file.ending}" for file in files], reserved):
                return candidate
        raise ReportError(f"{folder}: too many reports of the same second")


@dataclass(frozen=True, slots=True)
class _File:
    """A file to be written: ``kind`` says where its path goes, ``ending`` follows the stem."""

    kind: str
    ending: str
    render: Callable[[], str]
    origin: str = ""


def _reporters() -> Any:
    return import_module("agentflow_eval.reporters")


def _template_output(path: str) -> str:
    from agentflow_eval.reporters.template import TemplateReporter

    return TemplateReporter(path).file_name


def _through_template(path: str, report: EvalReport) -> str:
    from agentflow_eval.reporters.template import TemplateReporter

    return TemplateReporter(path).render(report)


def _ending(file_name: str) -> str:
    """``_`` and the last part of ``file_name``, made safe."""
    return "_" + (re.sub(r"[^A-Za-z0-9._-]", "_", re.split(r"[/\\]", file_name)[-1]).lstrip(".") or "report.txt")


def _distinct(files: Iterable[_File]) -> Iterator[_File]:
    taken: set[str] = set()
    for file in files:
        ending, number = file.ending, 1
        while ending.lower() in taken:
            number += 1
            base, dot, suffix = file.ending.partition(".")
            ending = f"{base}-{number}{dot}{suffix}"
        taken.add(ending.lower())
        yield replace(file, ending=ending)


def _rendered(extra: Renders, report: EvalReport) -> str:
    text = extra.render(report)
    if not isinstance(text, str):
        raise ReportError(f"render returned {type(text).__name__}, not text")
    return text


def _reserve(paths: Sequence[Path], reserved: list[Path]) -> bool:
    """Makes empty files of these names, all or none; False when one of them is there already."""
    made: list[Path] = []
    try:
        for path in paths:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch(exist_ok=False)
            made.append(path)
    except OSError as exc:
        _remove_empty(made)
        if isinstance(exc, FileExistsError) and path.parent.is_dir():
            return False
        raise ReportError(f"{path.parent}: cannot be written: {exception_text(exc)}") from exc
    reserved += made
    return True


def _remove_empty(paths: Iterable[Path]) -> None:
    for path in paths:
        with suppress(OSError):
            if path.stat().st_size == 0:
                path.unlink()


def _write_all(output: ReporterOutput, stem: Path, files: Iterable[_File]) -> None:
    for file in files:
        name = f"{file.kind} {file.origin}" if file.origin else file.kind
        target = stem.with_name(stem.name + file.ending)
        path = _attempt(output, name, partial(_write, target, file))
        if path is None:
            continue
        if file.kind in ("template", "extra"):
            (output.template_paths if file.kind == "template" else output.extra_paths).append(path)
        else:
            setattr(output, f"{file.kind}_path", path)


def _write(target: Path, file: _File) -> str:
    return str(write_text(target, file.render()))


def _attempt(output: ReporterOutput, name: str, make: Callable[[], str]) -> str | None:
    try:
        return make()
    except ReportError as exc:
        output.errors.append((name, str(exc)))
    except (Exception, SystemExit) as exc:  # a reporter of the user's own may raise anything
        output.errors.append((name, exception_text(exc)))
    return None
