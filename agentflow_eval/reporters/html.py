"""A report as one HTML page that needs nothing else."""

from __future__ import annotations

import base64
import hashlib
import math
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from agentflow_eval._files import printable
from agentflow_eval.reporters._base import BaseReporter, Shown
from agentflow_eval.reporters._island import KIND_WORDS, packed, packed_cases
from agentflow_eval.result import ErrorKind, EvalCaseResult, EvalReport, Outcome

_CASES_IN_BLOCK = 50
"""Cases that are unpacked together when one of them is opened."""

_LONGEST_REASON = 400
_CASES_WITHOUT_SCRIPT = 100
_CAUSES_SHOWN = 12

_FIRST = (Outcome.FAILED, Outcome.ERROR, Outcome.PASSED, Outcome.SKIPPED)
_TURN_PREFIX = re.compile(r"^turn \d+: ")


class HTMLReporter(BaseReporter):
    """One HTML file: summary, causes, and every case with what was expected beside what happened.

    Args:
        include_details: Show what each criterion compared; reasons are always shown.
        include_trajectory: Show the recorded steps.
        include_node_responses: Show input and output of each node.
        include_actual_response: Show answers.
        include_tool_call_details: Show arguments and results of tool calls, not only their names. What criteria say of
            them belongs to the details.
    """

    file_name = "report.html"

    def __init__(
        self,
        include_details: bool = True,
        include_trajectory: bool = True,
        include_node_responses: bool = True,
        include_actual_response: bool = True,
        include_tool_call_details: bool = True,
    ) -> None:
        self.shown = Shown(
            include_details=include_details,
            include_trajectory=include_trajectory,
            include_node_responses=include_node_responses,
            include_actual_response=include_actual_response,
            include_tool_call_details=include_tool_call_details,
        )

    def render(self, report: EvalReport) -> str:
        """The page; the same report gives the same text."""
        rank = {outcome: place for place, outcome in enumerate(_FIRST)}
        cases = sorted(report.results, key=lambda case: rank[case.outcome])
        causes = _causes(cases)
        page = _environment().get_template("report.html.j2")
        return page.render(
            report=report,
            summary=report.summary,
            verdict=_verdict(report),
            finished=_finished(report),
            shares=_shares(report),
            causes=[_Cause.of(key, members, cases) for key, members in causes][:_CAUSES_SHOWN],
            broken=[case for case in cases if case.explanation()][:_CASES_WITHOUT_SCRIPT],
            index=Markup(packed(list(_rows(cases, causes)))),  # noqa: S704 - base64
            blocks=[Markup(block) for block in self._blocks(cases)],  # noqa: S704 - base64
            block_size=_CASES_IN_BLOCK,
            **_assets(),
        )

    def to_html(self, report: EvalReport) -> str:
        """Same as `render`."""
        return self.render(report)

    @classmethod
    def quick_save(cls, report: EvalReport, path: Path | str) -> Path:
        """Writes the page with everything shown.

        Raises:
            ReportError: The file cannot be written.
        """
        return cls().save(report, path)

    def _blocks(self, cases: Sequence[EvalCaseResult]) -> Iterator[str]:
        for start in range(0, len(cases), _CASES_IN_BLOCK):
            yield packed_cases(cases[start : start + _CASES_IN_BLOCK], self.shown)


_CauseKey = tuple[Outcome, str, str]
"""Outcome, the criterion or the kind of error, and the text of the error."""


class _Cause(NamedTuple):
    """Cases that did not pass for the same reason."""

    outcome: Outcome
    what: str
    text: str
    cases: int
    all_of_them: bool

    @classmethod
    def of(cls, key: _CauseKey, members: Sequence[int], cases: Sequence[EvalCaseResult]) -> _Cause:
        outcome, what, text = key
        if outcome is Outcome.FAILED:
            reasons = [result.reason if (result := cases[i].get_criterion_result(what)) else "" for i in members[:50]]
            text = reasons[0] or ""
            if len(set(reasons)) > 1:
                text = f"for example {text}"
        same_outcome = sum(case.outcome is outcome for case in cases)
        everyone = outcome is Outcome.ERROR and len(members) == same_outcome > 1
        return cls(outcome, what, _short(text), len(members), everyone)


def _causes(cases: Sequence[EvalCaseResult]) -> list[tuple[_CauseKey, list[int]]]:
    """Positions of the cases by cause, the most frequent first."""
    groups: dict[_CauseKey, list[int]] = {}
    for position, case in enumerate(cases):
        if case.outcome in (Outcome.FAILED, Outcome.ERROR):
            for key in dict.fromkeys(_cause_keys(case)):
                groups.setdefault(key, []).append(position)
    return sorted(groups.items(), key=lambda item: -len(item[1]))


def _cause_keys(case: EvalCaseResult) -> Iterator[_CauseKey]:
    broken = case.findings
    for result in broken:
        text = "" if result.outcome is Outcome.FAILED else _first_line(result.error)
        yield result.outcome, result.criterion, text
    if case.error and (not broken or case.error_kind not in (None, ErrorKind.CRITERION, ErrorKind.JUDGE)):
        kind = KIND_WORDS[case.error_kind] if case.error_kind else "error"
        yield Outcome.ERROR, kind, _first_line(case.error)


def _first_line(text: str | None) -> str:
    return _TURN_PREFIX.sub("", (text or "").strip().split("\n", 1)[0])


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST_REASON else f"{text[:_LONGEST_REASON]}..."


def _rows(
    cases: Sequence[EvalCaseResult], causes: Sequence[tuple[_CauseKey, Sequence[int]]]
) -> Iterator[dict[str, Any]]:
    """What the list shows of each case and searches in."""
    causes_of: dict[int, list[int]] = {}
    for number, (_, members) in enumerate(causes[:_CAUSES_SHOWN]):
        for position in members:
            causes_of.setdefault(position, []).append(number)
    for position, case in enumerate(cases):
        row = {"id": case.eval_id, "outcome": case.outcome, "seconds": case.duration_seconds}
        reasons = [] if case.outcome is Outcome.PASSED else [_short(line) for line in case.explanation()]
        runs = [sum(trial.passed for trial in case.trials), len(case.trials)] if case.trials else None
        more = {"name": case.name, "tags": case.tags, "why": reasons, "causes": causes_of.get(position), "runs": runs}
        yield row | {key: value for key, value in more.items() if value}


class _Verdict(NamedTuple):
    """The gate in words; ``state`` is passed, failed or neutral."""

    state: str
    headline: str
    sentence: str


def _verdict(report: EvalReport) -> _Verdict:
    summary = report.summary
    ran = summary.total_cases - summary.skipped_cases
    needed = f"{_percent(report.min_pass_rate)} needed"
    sentence = f"{summary.passed_cases:,} of {ran:,} cases passed ({_percent(summary.pass_rate)}), {needed}."
    if not summary.total_cases:
        return _Verdict("failed", "Not passed", "No case was run, so there is nothing to judge by.")
    if report.mock:
        return _Verdict("neutral", "Mock run", "No agent was run: expectations were replayed, so there is no verdict.")
    if report.interrupted:
        return _Verdict("failed", "Interrupted", f"The run was cut short, so it does not pass. {sentence}")
    if report.gate_passed:
        return _Verdict("passed", "Passed", sentence)
    if not ran:
        return _Verdict("failed", "Not passed", "Every case was skipped, so there is nothing to judge by.")
    return _Verdict("failed", "Not passed", sentence)


def _finished(report: EvalReport) -> tuple[str, str]:
    """When the run finished: ISO 8601 for machines, and for people."""
    try:
        moment = datetime.fromisoformat(report.finished_at).astimezone(UTC)
    except ValueError:
        moment = datetime.fromtimestamp(report.timestamp, UTC)
    return moment.isoformat(timespec="seconds"), f"{moment:%Y-%m-%d %H:%M:%S} UTC"


class _Share(NamedTuple):
    """A part of the bar, in percent of its width."""

    outcome: str
    start: float
    width: float


def _shares(report: EvalReport) -> list[_Share]:
    summary = report.summary
    counts = {
        "passed": summary.passed_cases,
        "failed": summary.failed_cases,
        "error": summary.error_cases,
        "skipped": summary.skipped_cases,
    }
    shares, start = [], 0.0
    for outcome, count in counts.items():
        width = 100 * count / summary.total_cases if count else 0.0
        shares.append(_Share(outcome, round(start, 3), round(width, 3)))
        start += width
    return [share for share in shares if share.width]


def _percent(share: float) -> str:
    """Rounded down, so that only all of them are 100%."""
    return f"{math.floor(share * 1000 + 1e-6) / 10:.1f}%".replace(".0%", "%")


def _breakable(name: str) -> Markup:
    """A long name that may be broken after each underscore."""
    return Markup("_<wbr>").join(printable(name).split("_"))


def _score(score: float | None) -> str:
    return f"{score:.2f}" if isinstance(score, (int, float)) and math.isfinite(score) else "n/a"


def _duration(seconds: float) -> str:
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s"


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("agentflow_eval", "reporters/templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: printable(value) if type(value) is str else value,
    )
    environment.filters |= {"breakable": _breakable, "percent": _percent, "score": _score, "duration": _duration}
    return environment


@cache
def _assets() -> dict[str, Any]:
    """Style and script with the hashes by which the page's policy allows them."""
    assets: dict[str, Any] = {}
    for name, file in {"style": "report.css", "script": "report.js"}.items():
        text = _template_text(file)
        assets[name] = Markup(text)  # noqa: S704 - our own file
        digest = hashlib.sha256(text.encode()).digest()
        assets[f"{name}_hash"] = base64.b64encode(digest).decode("ascii")
    return assets


def _template_text(file: str) -> str:
    environment = _environment()
    assert environment.loader is not None
    # A parser reads line ends as \n, and the hash is of what it reads.
    return environment.loader.get_source(environment, file)[0].replace("\r\n", "\n").replace("\r", "\n")
