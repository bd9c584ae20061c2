"""A report as plain text for a terminal or a log, and the progress of a run."""

from __future__ import annotations

import os
import shutil
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self, TextIO
from unicodedata import combining, east_asian_width

from agentflow_eval.reporters._base import BaseReporter
from agentflow_eval.reporters._words import (
    NO_ANSWER,
    ErrorGroup,
    clean,
    comparisons,
    count,
    cut,
    error_groups,
    findings,
    group_title,
    one_line,
    score,
    seconds,
    spoken_finding,
    steady,
    summary_line,
    telling_turns,
    verdict,
)
from agentflow_eval.result import ErrorKind, EvalCaseResult, EvalReport, Outcome, TurnResult

if TYPE_CHECKING:
    from rich.console import Console

_PLAIN_WIDTH = 100
_WIDEST = 140
_LONGEST_LABEL = 250
_LONGEST_REASON = 600
_LONGEST_EVIDENCE = 300
_CASES_EXPLAINED = 100
_CASES_OF_GROUP = 10
_TURNS_SHOWN = 3
_TRACEBACK_LINES = 6
_SECONDS_BETWEEN_LINES = 5.0

_STYLES = {"PASSED": "bold green", "FAILED": "bold red", "ERROR": "bold red", "SKIPPED": "yellow"}
_VERDICT_STYLES = {"PASSED": "bold green", "FAILED": "bold red"}


class _Line(NamedTuple):
    """A line of the report; what does not fit beside ``head`` goes on below the text."""

    indent: int = 0
    head: str = ""
    text: str = ""
    style: str = ""
    whole: bool = False
    """Never broken into several lines: ids, which people search for."""


class ConsoleReporter(BaseReporter):
    """Prints what did not pass and why, a table of criteria, and the verdict.

    Args:
        use_color: Use colours on a terminal; never when ``NO_COLOR`` is set.
        verbose: List passed and skipped cases too, and explain every failed case however many there are.
        output: Where to print; standard output when None.
        include_trajectory: Show the recorded steps of each listed case.
        include_actual_response: Show whole answers; otherwise they are shown, shortened, where another was expected.
    """

    file_name = "report.txt"

    def __init__(
        self,
        use_color: bool = True,
        verbose: bool = False,
        output: TextIO | None = None,
        include_trajectory: bool = False,
        include_actual_response: bool = False,
    ) -> None:
        self.use_color = use_color
        self.verbose = verbose
        self.output = output
        self.include_trajectory = include_trajectory
        self.include_actual_response = include_actual_response

    def render(self, report: EvalReport) -> str:
        """The text without colours, for lines of 100 characters."""
        return _plain(self._lines(report), _PLAIN_WIDTH)

    def report(self, report: EvalReport) -> None:
        """Prints the report."""
        self.generate(report)

    def generate(self, report: EvalReport, output_dir: Path | str | None = None) -> str:
        """Prints the report and returns the printed text without colours; with ``output_dir`` writes a file instead."""
        if output_dir is not None:
            return super().generate(report, output_dir)
        stream = self.output or sys.stdout
        lines, width = list(self._lines(report)), _width(stream)
        text = _plain(lines, width)
        if self.use_color and _takes_color(stream):
            _print_styled(lines, width, stream)
        else:
            stream.write(_encodable(text, stream))
        stream.flush()
        return text

    def _lines(self, report: EvalReport) -> Iterator[_Line]:
        name = one_line(report.eval_set_name or report.eval_set_id)
        more = f" ({one_line(report.eval_set_id)})" if report.eval_set_name else ""
        yield _Line(head=name + more, style="bold", whole=True)
        if report.mock:
            yield _Line(text="MOCK RUN: no agent was run. Each case's own expectations were replayed as its result.")
        yield _Line()
        if self.verbose:
            yield from self._listed(report)
        yield from self._failed(report)
        for group in error_groups(report):
            yield from self._broken(group, report)
        yield from _table(report)
        yield _Line(text=summary_line(report), whole=True)
        word, sentence = verdict(report)
        yield _Line(head=f"{word}: ", text=sentence, style=_VERDICT_STYLES.get(word, "bold yellow"))

    def _listed(self, report: EvalReport) -> Iterator[_Line]:
        """Passed and skipped cases, a line each."""
        before = len(report.failed_cases)
        for case in report.results:
            if case.outcome is Outcome.PASSED:
                yield _headline(case)
                yield from self._requested(case)
            elif case.outcome is Outcome.SKIPPED:
                yield _headline(case, f": {one_line(case.skip_reason or 'no reason given')}")
        if before < len(report.results):
            yield _Line()

    def _failed(self, report: EvalReport) -> Iterator[_Line]:
        failed = [case for case in report.results if case.outcome is Outcome.FAILED]
        explained = failed if self.verbose else failed[:_CASES_EXPLAINED]
        for case in explained:
            yield _headline(case)
            yield from self._explained(case)
            yield _Line()
        if len(explained) < len(failed):
            hidden = count(len(failed) - len(explained), "more failed case")
            yield _Line(text=f"... and {hidden}, which verbose output and the other reports explain")
            yield _Line()

    def _broken(self, group: ErrorGroup, report: EvalReport) -> Iterator[_Line]:
        first = group.cases[0]
        ran = report.summary.total_cases - report.summary.skipped_cases
        if len(group.cases) == 1 and (ran > 1 or first.error_kind is ErrorKind.NOT_RUN):
            yield _headline(first)
            yield from self._explained(first)
        else:
            yield _Line(head="ERROR    ", text=cut(group_title(group, report), _LONGEST_REASON), style=_STYLES["ERROR"])
            shown = group.cases if self.verbose else group.cases[:_CASES_OF_GROUP]
            yield from (_Line(4, text=one_line(case.label, _LONGEST_LABEL), whole=True) for case in shown)
            if len(shown) < len(group.cases):
                yield _Line(4, text=f"... and {len(group.cases) - len(shown)} more")
            yield from _traceback(first)
        yield _Line()

    def _explained(self, case: EvalCaseResult) -> Iterator[_Line]:
        """Why a case did not pass: reasons, then what was expected beside what happened."""
        if case.trials:
            passed = sum(trial.passed for trial in case.trials)
            yield _Line(4, text=f"{passed} of {count(len(case.trials), 'run')} passed")
        yield from (_Line(4, "- ", cut(line, _LONGEST_REASON)) for line in findings(case, spoken_finding))
        turns = telling_turns(case)
        for turn in turns[:_TURNS_SHOWN]:
            yield from self._turn(turn, len(case.turn_results) > 1)
        if len(turns) > _TURNS_SHOWN:
            yield _Line(4, text=f"... and {count(len(turns) - _TURNS_SHOWN, 'more turn')}")
        yield from self._requested(case)
        yield from _traceback(case)

    def _turn(self, turn: TurnResult, one_of_many: bool) -> Iterator[_Line]:
        where = f"asked, turn {turn.turn_index + 1}" if one_of_many else "asked"
        yield _evidence(where, turn.user_input)
        for what, expected, actual in comparisons(turn):
            yield _evidence(f"expected {what}", expected, style="green")
            yield _evidence(f"actual {what}", actual, style="red")

    def _requested(self, case: EvalCaseResult) -> Iterator[_Line]:
        """The steps and the answers, when they are wanted."""
        if self.include_trajectory and case.actual_trajectory:
            steps = " > ".join(f"{step.step_type.value} {step.name}" for step in case.actual_trajectory)
            yield _evidence("steps", steps, longest=0)
        if self.include_actual_response:
            for line in clean(case.actual_response).split("\n") if case.actual_response else [NO_ANSWER]:
                yield _evidence("answer", line, longest=0)


def _headline(case: EvalCaseResult, more: str = "") -> _Line:
    word = "ERROR" if case.outcome is Outcome.ERROR else case.outcome.value.upper()
    took = f" ({seconds(case.duration_seconds)})" if case.duration_seconds > 0 else ""
    return _Line(0, f"{word:<9}", f"{one_line(case.label, _LONGEST_LABEL)}{took}{more}", _STYLES[word], whole=True)


def _evidence(label: str, text: str, longest: int = _LONGEST_EVIDENCE, style: str = "dim") -> _Line:
    return _Line(4, f"{label:<17}", one_line(text, longest), style)


def _traceback(case: EvalCaseResult) -> Iterator[_Line]:
    lines = clean(case.error_traceback or "").rstrip().split("\n")[-_TRACEBACK_LINES:]
    yield from (_Line(4, "| ", line, whole=True) for line in lines if line)


def _table(report: EvalReport) -> Iterator[_Line]:
    """Each criterion with its results over all cases; columns that would hold zeros only are left out."""
    stats = report.summary.criterion_stats
    if not stats:
        return
    columns = {
        "criterion": [one_line(name) for name in stats],
        "passed": [f"{item.passed} of {item.total}" for item in stats.values()],
        "mean score": [score(item.avg_score) for item in stats.values()],
        "could not judge": _counts([item.errored for item in stats.values()]),
        "skipped": _counts([item.skipped for item in stats.values()]),
    }
    shown = {title: [title, *cells] for title, cells in columns.items() if any(cells)}
    widths = {title: max(map(_cells, cells)) for title, cells in shown.items()}
    for row in zip(*shown.values(), strict=True):
        first, *rest = zip(row, widths.values(), strict=True)
        cells = [_padded(*first), *(f"{cell:>{width}}" for cell, width in rest)]
        yield _Line(text="  ".join(cells).rstrip(), whole=True)
    yield _Line()


def _counts(numbers: list[int]) -> list[str]:
    return [str(number) for number in numbers] if any(numbers) else []


def print_report(report: EvalReport, verbose: bool = False, use_color: bool = True) -> None:
    """Prints a report to standard output."""
    ConsoleReporter(use_color=use_color, verbose=verbose).report(report)


# Text on a stream


def _cells(text: str) -> int:
    """Columns that a terminal needs for ``text``."""
    if text.isascii():
        return len(text)
    return sum(2 if east_asian_width(char) in "WF" else 0 if combining(char) else 1 for char in text)


def _padded(text: str, width: int) -> str:
    return text + " " * (width - _cells(text))


def _plain(lines: Iterable[_Line], width: int) -> str:
    return "".join(f"{head}{text}\n" for line in lines for head, text in _laid_out(line, width))


def _laid_out(line: _Line, width: int) -> Iterator[tuple[str, str]]:
    """The line as one or more lines that fit, each as what is styled and the rest."""
    start = " " * line.indent + steady(line.head)
    room = max(width - _cells(start), 20)
    text = steady(line.text)
    rows = [text] if line.whole or _cells(text) <= room else _wrapped(text, room)
    for number, row in enumerate(rows):
        head = start if number == 0 else " " * _cells(start)
        yield (head, row) if row or line.head else ("", row)


def _wrapped(text: str, width: int) -> list[str]:
    """Rows of whole words; a word that is too long stays whole."""
    rows, used = [""], 0
    for word in text.split(" "):
        size = _cells(word)
        if rows[-1] and used + 1 + size > width:
            rows, used = [*rows, word], size
        else:
            rows[-1] += f" {word}" if rows[-1] else word
            used += size + (1 if used else 0)
    return rows


def _encodable(text: str, stream: TextIO) -> str:
    """``text`` with what the stream's encoding cannot express written as an escape."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)


def _is_terminal(stream: TextIO) -> bool:
    try:
        return stream.isatty() and os.environ.get("TERM") != "dumb"
    except (AttributeError, ValueError):  # a stand-in for a stream, or a closed one
        return False


def _takes_color(stream: TextIO) -> bool:
    return _is_terminal(stream) and not os.environ.get("NO_COLOR")


def _width(stream: TextIO) -> int:
    if not _is_terminal(stream):
        return _PLAIN_WIDTH
    return min(shutil.get_terminal_size((_PLAIN_WIDTH, 24)).columns, _WIDEST)


def _print_styled(lines: Iterable[_Line], width: int, stream: TextIO) -> None:
    from rich.text import Text

    console = _rich_console(stream)
    for line in lines:
        for head, text in _laid_out(line, width):
            styled = Text.assemble((_encodable(head, stream), line.style), _encodable(text, stream))
            console.print(styled, soft_wrap=True)


def _rich_console(stream: TextIO) -> Console:
    from rich.console import Console

    return Console(file=stream, force_terminal=True, force_jupyter=False, markup=False, emoji=False, highlight=False)


# Progress


class Progress(ABC):
    """Shows how far a run is; used as a context manager. Never raises for a stream that cannot be written."""

    def __init__(self, total: int, stream: TextIO, verbose: bool) -> None:
        self.total = total
        self.stream = stream
        self.verbose = verbose
        self.done = dict.fromkeys(Outcome, 0)
        self.started = time.monotonic()

    def __enter__(self) -> Self:
        with suppress(OSError, ValueError):
            self.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        with suppress(OSError, ValueError):
            self.finish()

    def case_done(self, result: EvalCaseResult) -> None:
        """Counts a finished case."""
        self.done[result.outcome] += 1
        with suppress(OSError, ValueError):
            self.advance(_encodable(self._case_line(result), self.stream) if self.verbose else "")

    @abstractmethod
    def start(self) -> None:
        """Begins to show."""

    @abstractmethod
    def advance(self, line: str) -> None:
        """Shows that a case is done, and the line about it when there is one."""

    @abstractmethod
    def finish(self) -> None:
        """Shows the end."""

    @property
    def count(self) -> int:
        """Cases that are done."""
        return sum(self.done.values())

    def counts(self) -> str:
        """``3 passed, 1 failed``."""
        words = {Outcome.PASSED: "passed", Outcome.FAILED: "failed", Outcome.SKIPPED: "skipped"}
        words[Outcome.ERROR] = "error" if self.done[Outcome.ERROR] == 1 else "errors"
        shown = [f"{self.done[outcome]} {words[outcome]}" for outcome in Outcome if self.done[outcome]]
        return ", ".join(shown) or "none done yet"

    def _case_line(self, result: EvalCaseResult) -> str:
        width = len(str(self.total))
        (head, text), *_ = _laid_out(_headline(result), _PLAIN_WIDTH)
        why = findings(result, spoken_finding)
        return f"[{self.count:>{width}}/{self.total}] {head}{text}" + (f": {cut(why[0], 120)}" if why else "")


class _PlainProgress(Progress):
    """A line now and then, for logs."""

    def start(self) -> None:
        self.told = self.started

    def advance(self, line: str) -> None:
        if line:
            self._tell(line)
        elif self.count < self.total and time.monotonic() - self.told >= _SECONDS_BETWEEN_LINES:
            self._tell(self._line())

    def finish(self) -> None:
        self._tell(self._line())

    def _line(self) -> str:
        elapsed = seconds(time.monotonic() - self.started)
        return f"{self.count}/{count(self.total, 'case')}: {self.counts()} ({elapsed})"

    def _tell(self, line: str) -> None:
        self.told = time.monotonic()
        self.stream.write(f"{line}\n")
        self.stream.flush()


class _LiveProgress(Progress):
    """A bar that moves."""

    def start(self) -> None:
        from rich import progress as bars

        self.bar = bars.Progress(
            bars.BarColumn(),
            bars.MofNCompleteColumn(),
            bars.TextColumn("{task.description}", markup=False),
            bars.TimeElapsedColumn(),
            console=_rich_console(self.stream),
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self.task = self.bar.add_task(self.counts(), total=self.total)
        self.bar.start()

    def advance(self, line: str) -> None:
        if line:
            self.bar.console.print(line, soft_wrap=True)
        self.bar.update(self.task, advance=1, description=self.counts())

    def finish(self) -> None:
        self.bar.stop()


def progress(total: int, stream: TextIO | None = None, verbose: bool = False) -> Progress:
    """What shows the progress of ``total`` cases: a bar on a terminal, else a line every few seconds.

    Args:
        total: How many cases there are.
        stream: Where to show it; standard error when None.
        verbose: Show a line for each case.
    """
    stream = stream or sys.stderr
    return (_LiveProgress if _is_terminal(stream) else _PlainProgress)(total, stream, verbose)
