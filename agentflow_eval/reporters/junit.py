"""A report as JUnit XML, for CI servers."""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from junit_xml import TestCase, TestSuite

from agentflow_eval.errors import UsageError
from agentflow_eval.reporters._base import BaseReporter
from agentflow_eval.reporters._words import (
    calls_text,
    clean,
    clean_output,
    comparisons,
    criterion_line,
    cut,
    exception_name,
    findings,
    nodes_text,
    one_line,
    own_error,
    own_reason,
    percent,
    repeats_error,
    telling_turns,
)
from agentflow_eval.result import ErrorKind, EvalCaseResult, EvalReport, Outcome, TurnResult

Profile = Literal["default", "strict", "extended"]

_ATTACHMENT = "[[ATTACHMENT|"
"""By this, servers attach files of the machine that ran the tests; an agent's text must not be able to ask for that."""

PACKAGE = "agentflow_eval"
NOTHING_SELECTED = "no cases selected"

_LONGEST_NAME = 250
_LONGEST_MESSAGE = 300
_LONGEST_BODY = 20_000
_LONGEST_TEXT = 4_000
"""Characters of one question, answer or list of calls, so that the traceback still fits into the body."""

_MOST_SECONDS = 999_999_999.0
_UNFINISHED = (ErrorKind.NOT_RUN, ErrorKind.CANCELLED)

_ERROR_TYPES = {
    ErrorKind.AGENT: "AgentError",
    ErrorKind.TIMEOUT: "Timeout",
    ErrorKind.JUDGE: "JudgeError",
    ErrorKind.CRITERION: "CriterionError",
    ErrorKind.WIRING: "WiringError",
    ErrorKind.NOTHING_CHECKED: "NothingChecked",
    ErrorKind.FIXTURE: "FixtureError",
    ErrorKind.NOT_RUN: "NotRun",
    ErrorKind.CANCELLED: "Cancelled",
}


class JUnitXMLReporter(BaseReporter):
    """One ``<testsuites>`` with one ``<testsuite>`` per eval set and one ``<testcase>`` per run of a case.

    Args:
        suite_name: Name of the root element.
        profile: ``default`` is read by every common CI server and valid in the schema of the Jenkins xUnit plugin;
            ``strict`` is also valid in the Ant schema, which wants no name and no counts on the root and knows output
            of suites only; ``extended`` adds scores as properties of each test case, which that Jenkins plugin rejects.

    Raises:
        UsageError: There is no such profile.
    """

    file_name = "junit.xml"

    def __init__(self, suite_name: str = "agent-evaluation", profile: Profile = "default") -> None:
        if profile not in get_args(Profile):
            raise UsageError(f"profile must be one of {', '.join(get_args(Profile))}, got {profile!r}")
        self.suite_name = suite_name
        self.profile = profile

    def render(self, report: EvalReport) -> str:
        """The XML document."""
        return render_many([report], self.profile, self.suite_name)

    def to_xml(self, report: EvalReport) -> str:
        """Same as `render`."""
        return self.render(report)


def render_many(
    reports: Sequence[EvalReport], profile: Profile = "default", suite_name: str = "agent-evaluation"
) -> str:
    """Several reports as one XML document, one suite for each."""
    names, classes = _Names(), _Names("_{}")
    suites = [_Suite(report, index, profile, names, classes).element() for index, report in enumerate(reports)]
    if not suites:
        nothing = EvalReport(eval_set_id=suite_name)
        suites = [_Suite(nothing, 0, profile, names, classes).element()]
    root = ET.Element("testsuites")
    if profile != "strict":
        root.set("name", one_line(suite_name) or PACKAGE)
        for key in ("tests", "failures", "errors"):
            root.set(key, str(sum(int(suite.attrib[key]) for suite in suites)))
        root.set("time", _time(sum(float(suite.attrib["time"]) for suite in suites)))
    root.extend(suites)
    ET.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(root, encoding="unicode")}\n'


class _Names:
    """Names that are short enough, each given out once."""

    def __init__(self, mark: str = " ({})") -> None:
        self._mark = mark
        self._taken: dict[str, int] = {}

    def unique(self, text: str, suffix: str = "") -> str:
        name = _with_suffix(text, suffix)
        while name in self._taken:
            self._taken[name] += 1
            name = _with_suffix(text, self._mark.format(self._taken[name]) + suffix)
        self._taken[name] = 1
        return name


def _with_suffix(text: str, suffix: str) -> str:
    return cut(text, _LONGEST_NAME - len(suffix)) + suffix


class _Row(NamedTuple):
    """A test case and what it stands for; ``run`` is None when it stands for no run of a case."""

    test: Any
    run: EvalCaseResult | None
    output: str


class _Suite:
    """One report as a ``<testsuite>``."""

    def __init__(self, report: EvalReport, index: int, profile: Profile, names: _Names, classes: _Names) -> None:
        self.report = report
        self.index = index
        self.profile = profile
        label = one_line(report.eval_set_name) or one_line(report.eval_set_id) or "eval"
        self.name = names.unique(f"{label} [mock run]" if report.mock else label)
        self.classname = classes.unique(_classname(report))
        self.case_names = _Names()

    def element(self) -> ET.Element:
        """What junit-xml builds, with what servers refuse or misread put right."""
        rows = list(self._rows())
        suite: ET.Element = TestSuite(
            self.name,
            [row.test for row in rows],
            hostname="localhost",
            id=str(self.index),
            package=PACKAGE,
            timestamp=_timestamp(self.report),
            file=None if self.profile == "strict" else _file(self.report),
        ).build_xml_doc()
        del suite.attrib["disabled"]
        suite.attrib = {"name": self.name, **suite.attrib}
        for element, row in zip(suite, rows, strict=True):
            self._correct(element, row)
        suite.set("time", _time(sum(float(element.attrib["time"]) for element in suite)))
        suite.insert(0, _properties(_about(self.report)))
        if self.profile == "strict":
            texts = [f"{row.test.name}\n{row.output}" for row in rows if row.output]
            ET.SubElement(suite, "system-out").text = "\n\n".join(texts)
            ET.SubElement(suite, "system-err")
        return suite

    def _correct(self, element: ET.Element, row: _Row) -> None:
        element.set("time", _time(row.run.duration_seconds if row.run else 0.0))
        for skipped in element.iter("skipped"):
            del skipped.attrib["type"]
        if self.profile == "extended" and row.run:
            element.insert(0, _properties(_scores(row.run)))

    def _rows(self) -> Iterator[_Row]:
        for case in self.report.results:
            for number, run in enumerate(case.trials, 1):
                yield self._row(case, run, f" [run {number}/{len(case.trials)}]")
            if not case.trials:
                yield self._row(case, case, "")
        # Servers take a suite without cases, or one that is cut short after passed cases, for success.
        if not self.report.results:
            yield self._stand_in(NOTHING_SELECTED, "NothingSelected", "no case was selected, so nothing was checked")
        elif self.report.interrupted and all(case.error_kind not in _UNFINISHED for case in self.report.results):
            yield self._stand_in(
                "run interrupted", "NotRun", "the run was cut short; cases that were not run are missing"
            )

    def _row(self, case: EvalCaseResult, run: EvalCaseResult, suffix: str) -> _Row:
        name = self.case_names.unique(one_line(case.label) or "unnamed", suffix)
        output = "\n".join(self._output(run, case.label, name.removesuffix(suffix)))
        output = output.replace(_ATTACHMENT, "[ [ATTACHMENT|")
        test = self._test(name, output)
        if run.outcome is Outcome.ERROR or any(result.is_error for result in run.criterion_results):
            test.add_error_info(_message(run), _body(run), _error_type(run))
        elif run.outcome is Outcome.FAILED:
            test.add_failure_info(_message(run), _body(run), "CriterionFailed")
        elif run.outcome is Outcome.SKIPPED:
            test.add_skipped_info(one_line(run.skip_reason or "no reason given", _LONGEST_MESSAGE))
        return _Row(test, run, output)

    def _stand_in(self, name: str, error_type: str, message: str) -> _Row:
        test = self._test(self.case_names.unique(name), "")
        test.add_error_info(message, message, error_type)
        return _Row(test, None, "")

    def _test(self, name: str, output: str) -> Any:
        return TestCase(
            name,
            self.classname,
            stdout=None if self.profile == "strict" else output,
            file=_file(self.report) if self.profile == "extended" else None,
        )

    def _output(self, run: EvalCaseResult, label: str, shown_label: str) -> Iterator[str]:
        if self.report.mock:
            yield "MOCK RUN: no agent was run, expectations were replayed"
        if shown_label != label:
            yield f"full name: {clean(label)}"
        yield from map(criterion_line, run.criterion_results)
        for error in run.retried_errors:
            yield f"an earlier attempt broke: {one_line(error, _LONGEST_MESSAGE)}"
        for error in run.side_errors:
            yield f"beside the verdict: {one_line(error, _LONGEST_MESSAGE)}"
        if run.stdout and run.outcome in (Outcome.FAILED, Outcome.ERROR):
            yield f"\nprinted by the agent:\n{_shortened(clean_output(run.stdout), _LONGEST_BODY)}"


def _classname(report: EvalReport) -> str:
    name = re.sub(r"[\s.]+", "_", one_line(report.eval_set_id)) or "eval"
    return f"{PACKAGE}.mock.{name}" if report.mock else f"{PACKAGE}.{name}"


def _timestamp(report: EvalReport) -> str:
    moment = datetime(1970, 1, 1, tzinfo=UTC)
    with suppress(ValueError, OverflowError, OSError):
        moment = datetime.fromtimestamp(report.timestamp - report.summary.wall_clock_seconds, UTC)
    with suppress(ValueError, OverflowError):
        moment = datetime.fromisoformat(report.started_at)
        moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    return moment.replace(tzinfo=None).isoformat(timespec="seconds")


def _file(report: EvalReport) -> str | None:
    """The path of the eval set as servers look for it: relative, with ``/``."""
    if not report.eval_set_file:
        return None
    path = Path(report.eval_set_file)
    if path.is_absolute():
        path = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else Path(path.name)
    return one_line(path.as_posix().replace("\\", "/"))


def _time(seconds: float) -> str:
    return f"{min(max(seconds, 0.0), _MOST_SECONDS):.3f}" if math.isfinite(seconds) else "0.000"


def _properties(values: Iterable[tuple[str, str]]) -> ET.Element:
    element = ET.Element("properties")
    for name, value in values:
        ET.SubElement(element, "property", name=one_line(name), value=one_line(value))
    return element


def _about(report: EvalReport) -> Iterator[tuple[str, str]]:
    judges = {
        str(result.details["judge_model"])
        for case in report.results
        for result in case.criterion_results
        if "judge_model" in result.details
    }
    given = {
        "eval_set_id": report.eval_set_id,
        "eval_set_name": report.eval_set_name,
        "run_id": report.run_id,
        "config_hash": report.config_hash,
        "eval_set_hash": report.eval_set_hash,
        "judge_model": ", ".join(sorted(judges)),
        **{f"version.{name}": version for name, version in report.versions.items()},
    }
    yield from ((name, value) for name, value in given.items() if value)
    yield "pass_rate", percent(report.summary.pass_rate)
    yield "min_pass_rate", percent(report.min_pass_rate)
    yield "gate_passed", str(report.gate_passed).lower()
    yield "mock", str(report.mock).lower()
    yield "interrupted", str(report.interrupted).lower()


def _scores(run: EvalCaseResult) -> Iterator[tuple[str, str]]:
    yield "eval_id", run.eval_id
    yield "full_name", run.label
    for tag in run.tags:
        yield "tag", tag
    for result in run.criterion_results:
        yield f"outcome.{result.criterion}", result.outcome.value
        if result.score is not None:
            yield f"score.{result.criterion}", f"{result.score:.6g}"
            yield f"threshold.{result.criterion}", f"{result.threshold:.6g}"
    if run.token_usage:
        yield "total_tokens", str(run.token_usage.total_tokens)


def _error_type(run: EvalCaseResult) -> str:
    if run.outcome is Outcome.ERROR and own_error(run):
        kind = run.error_kind or ErrorKind.AGENT
        raised = exception_name(run) if kind in (ErrorKind.AGENT, ErrorKind.FIXTURE, ErrorKind.CRITERION) else None
        return raised or _ERROR_TYPES[kind]
    kinds = [result.details.get("error_kind") for result in run.criterion_results if result.is_error]
    return _ERROR_TYPES[ErrorKind.JUDGE if ErrorKind.JUDGE in kinds[:1] else ErrorKind.CRITERION]


def _message(run: EvalCaseResult) -> str:
    return one_line("; ".join(findings(run)) or run.outcome.value, _LONGEST_MESSAGE)


def _body(run: EvalCaseResult) -> str:
    """Each criterion, then question, expected and actual of the turns that matter, then the traceback."""
    lines = [f"{run.error_kind.value}: {clean(run.error)}"] if run.error and run.error_kind and own_error(run) else []
    for result in run.criterion_results:
        reason = "" if result.passed or repeats_error(run, result) else own_reason(result)
        lines.append(criterion_line(result) + (f": {reason}" if reason else ""))
    many = len(run.turn_results) > 1
    for turn in telling_turns(run):
        lines += ["", *([f"turn {turn.turn_index + 1}"] if many else []), *_turn_lines(turn)]
    if run.error_traceback:
        lines += ["", clean(run.error_traceback)]
    return _shortened("\n".join(lines), _LONGEST_BODY)


def _turn_lines(turn: TurnResult) -> Iterator[str]:
    yield _labelled("question", turn.user_input)
    compared = list(comparisons(turn))
    for what, expected, actual in compared:
        yield _labelled(f"expected {what}", expected)
        yield _labelled(f"actual {what}", actual)
    seen = {comparison.what for comparison in compared}
    if "answer" not in seen and turn.agent_response:
        yield _labelled("answer", turn.agent_response)
    if "tools" not in seen and turn.tool_calls:
        yield _labelled("tools", calls_text(turn.tool_calls))
    if "nodes" not in seen and turn.node_visits:
        yield _labelled("nodes", nodes_text(turn.node_visits))


def _labelled(label: str, text: str) -> str:
    return f"{label}: {_shortened(clean(text), _LONGEST_TEXT)}"


def _shortened(text: str, longest: int) -> str:
    hidden = len(text) - longest
    return text if hidden <= 0 else f"{text[:longest]}\n[... {hidden:,} more characters]"
