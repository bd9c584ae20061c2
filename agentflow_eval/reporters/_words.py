"""How results are put into words, the same in every text report."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from agentflow_eval._files import printable
from agentflow_eval._values import shown
from agentflow_eval.dataset import ToolCall
from agentflow_eval.result import CriterionResult, ErrorKind, EvalCaseResult, EvalReport, Outcome, TurnResult

OUTCOME_WORDS = {
    Outcome.PASSED: "PASS",
    Outcome.FAILED: "FAIL",
    Outcome.ERROR: "ERROR",
    Outcome.SKIPPED: "SKIPPED",
}
NO_ANSWER = "(no answer)"
NO_TOOLS = "(no tool call)"
NO_NODES = "(no node)"

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\^_])")
_ANSI_MADE_VISIBLE = re.compile(r"\\x1b\[[0-9;]*[mK]")
_C1 = re.compile("[\x80-\x9f]")
_REORDERING = re.compile("[\u202a-\u202e\u2066-\u2069]")
_TURN = re.compile(r"^turn \d+: ")
_TURN_NUMBER = re.compile(r"\bturn (\d+)\b")
_EXCEPTION = re.compile(r"([A-Za-z_][\w.]*): |([A-Za-z_][\w.]*)$")
_RESTATED = re.compile(r"(?:score|rouge\w*|ROUGE-\w+(?: F1)?) \S+ is below (?:the threshold )?[\d.]+(?:; |$)")
_MOST_DIGITS = 9


def clean(text: str) -> str:
    """``text`` without terminal colours, with ``\\n`` line ends, and with other control characters made visible."""
    if text.isprintable():
        return text
    text = _ANSI.sub("", text).replace("\r\n", "\n").replace("\r", "\n")
    return _C1.sub(lambda match: f"\\x{ord(match.group()):02x}", printable(text))


def clean_output(text: str) -> str:
    """`clean` for what an agent printed, where the collector has made the colours visible already."""
    return clean(_ANSI_MADE_VISIBLE.sub("", text))


def steady(text: str) -> str:
    """``text`` with the characters made visible that would reorder what stands around them."""
    return _REORDERING.sub(lambda match: f"\\u{ord(match.group()):04x}", text)


def one_line(text: str, longest: int = 0) -> str:
    """``text`` cleaned, on one line, cut to ``longest`` characters when that is given."""
    line = " ".join(clean(text).split())
    return cut(line, longest) if longest else line


def cut(text: str, longest: int) -> str:
    """``text``, or its beginning with ``...``; never longer than ``longest`` characters."""
    return text if len(text) <= longest else f"{text[: longest - 3].rstrip()}..."


def percent(share: float) -> str:
    """A share as percent, rounded down, so that only all of them are 100%."""
    return f"{math.floor(share * 1000 + 1e-6) / 10:.1f}%".replace(".0%", "%")


def seconds(value: float) -> str:
    """A duration for people."""
    if not math.isfinite(value) or value <= 0:
        return "0 s"
    if value < 1:
        return f"{value * 1000:.0f} ms" if value >= 0.0005 else "<1 ms"
    if value < 59.95:
        return f"{value:.1f} s"
    minutes, rest = divmod(round(value), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s"


def score(value: float | None) -> str:
    """A score with two digits, or ``n/a`` when there is none."""
    return "n/a" if value is None else f"{value:.2f}"


def count(number: int, noun: str) -> str:
    """``1 case``, ``2 cases``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def score_and_threshold(result: CriterionResult) -> tuple[str, str]:
    """Both as text, with as many digits as it takes to tell a missed threshold from the score."""
    value = result.score or 0.0
    for digits in range(2, _MOST_DIGITS):
        texts = f"{value:.{digits}f}", f"{result.threshold:.{digits}f}"
        if result.passed or texts[0] != texts[1]:
            break
    return texts


def criterion_line(result: CriterionResult) -> str:
    """``rouge_match 0.62 (threshold 0.80) FAIL``."""
    name, word = one_line(result.criterion), OUTCOME_WORDS[result.outcome]
    if result.score is None:
        return f"{name} {word}"
    value, threshold = score_and_threshold(result)
    return f"{name} {value} (threshold {threshold}) {word}"


def own_reason(result: CriterionResult) -> str:
    """The reason on one line, without what score and threshold say already; maybe empty."""
    reason = one_line(str(result.reason or result.error or ""))
    match = _RESTATED.match(reason)
    return reason[match.end() :] if match else reason


def finding(result: CriterionResult) -> str:
    """A failed or broken criterion on one line: ``rouge_match 0.62 < 0.80: missing words: Paris``."""
    return _finding(result, "{} {} < {}")


def spoken_finding(result: CriterionResult) -> str:
    """The same for people: ``rouge_match scored 0.62, needs 0.80: missing words: Paris``."""
    return _finding(result, "{} scored {}, needs {}")


def _finding(result: CriterionResult, form: str) -> str:
    name, reason = one_line(result.criterion), own_reason(result)
    if result.score is None:
        return f"{name} could not judge: {reason}" if result.is_error else f"{name}: {reason}"
    return form.format(name, *score_and_threshold(result)) + (f": {reason}" if reason else "")


def own_error(case: EvalCaseResult) -> str:
    """What broke the case itself, on one line without its turn; empty when only criteria broke, or nothing."""
    if not case.error:
        return ""
    if case.error_kind in (None, ErrorKind.CRITERION, ErrorKind.JUDGE) and case.findings:
        return ""
    return _TURN.sub("", one_line(case.error))


def repeats_error(case: EvalCaseResult, result: CriterionResult) -> bool:
    """Whether a criterion could not judge for the very reason that broke the case."""
    error, reason = own_error(case), one_line(str(result.reason or ""))
    return bool(error) and result.is_error and (error in reason or reason in error)


def findings(case: EvalCaseResult, say: Callable[[CriterionResult], str] = finding) -> list[str]:
    """Everything that kept a case from passing, one line each, nothing twice."""
    error = own_error(case)
    own = [error] if error else []
    return own + [say(result) for result in case.findings if not repeats_error(case, result)]


def exception_name(case: EvalCaseResult) -> str | None:
    """The type of the exception that an error text begins with."""
    match = _EXCEPTION.match(own_error(case))
    return (match.group(1) or match.group(2)) if match else None


def call_text(call: ToolCall) -> str:
    """A call as people write it: ``lookup(order_id=7)``."""
    args = ", ".join(f"{name}={shown(value)}" for name, value in call.args.items())
    failed = f" raised {call.error}" if call.error else ""
    return one_line(f"{call.name}({args}){failed}")


def calls_text(calls: Sequence[ToolCall]) -> str:
    """Calls in order, on one line."""
    return ", ".join(map(call_text, calls)) or NO_TOOLS


class Comparison(NamedTuple):
    """What was expected beside what happened."""

    what: str
    expected: str
    actual: str


def comparisons(turn: TurnResult) -> Iterator[Comparison]:
    """Where a turn differs from what it states as expected; differing need not mean failing."""
    if turn.expected_response is not None and turn.expected_response != turn.agent_response:
        actual = turn.agent_response if turn.agent_response or not turn.answered else "(not shown)"
        yield Comparison("answer", turn.expected_response, actual if turn.answered else NO_ANSWER)
    if turn.expected_tool_calls is not None:
        expected, got = calls_text(turn.expected_tool_calls), calls_text(turn.tool_calls)
        if expected != got:
            yield Comparison("tools", expected, got)
    if turn.expected_node_order is not None and turn.expected_node_order != turn.node_visits:
        yield Comparison("nodes", nodes_text(turn.expected_node_order), nodes_text(turn.node_visits))


def nodes_text(names: Sequence[str]) -> str:
    """Nodes in order, on one line."""
    return one_line(" > ".join(names)) or NO_NODES


def telling_turns(case: EvalCaseResult) -> list[TurnResult]:
    """The turns that the reasons name, else those that broke, else all."""
    text = " ".join(case.explanation())
    named = {int(number) for number in _TURN_NUMBER.findall(text)}
    turns = [turn for turn in case.turn_results if turn.turn_index + 1 in named or turn.outcome == "error"]
    return turns or case.turn_results


class ErrorGroup(NamedTuple):
    """Cases that broke in the same way."""

    text: str
    cases: list[EvalCaseResult]


def error_groups(report: EvalReport) -> list[ErrorGroup]:
    """Cases that could not be judged, by what broke them, in file order."""
    groups: dict[str, list[EvalCaseResult]] = {}
    for case in report.results:
        if case.outcome is Outcome.ERROR:
            groups.setdefault(error_text(case), []).append(case)
    return [ErrorGroup(text, cases) for text, cases in groups.items()]


def error_text(case: EvalCaseResult) -> str:
    """What broke a case, on one line."""
    return "; ".join(findings(case)) or "no reason was recorded"


def group_title(group: ErrorGroup, report: EvalReport) -> str:
    """``all 3 cases errored: ModuleNotFoundError: No module named 'acme'``."""
    number = len(group.cases)
    if group.cases[0].error_kind is ErrorKind.NOT_RUN:
        return f"{count(number, 'case')} not run: {group.text}"
    everyone = number == report.summary.total_cases - report.summary.skipped_cases
    if everyone:
        return f"{f'all {number} cases' if number > 1 else 'the only case'} errored: {group.text}"
    return f"{count(number, 'case')} errored alike: {group.text}"


class Verdict(NamedTuple):
    """The gate in words."""

    word: str
    sentence: str


def verdict(report: EvalReport) -> Verdict:
    """Whether the run passes, and why or why not."""
    summary = report.summary
    ran = summary.total_cases - summary.skipped_cases
    counted = f"{summary.passed_cases} of {count(ran, 'case')} passed ({percent(summary.pass_rate)})"
    needed = f"{percent(report.min_pass_rate)} needed"
    if report.mock:
        return Verdict("MOCK RUN", f"no agent was run; {counted} with their own expectations replayed")
    if report.interrupted:
        return Verdict("INTERRUPTED", f"the run was cut short; {counted}")
    if not summary.total_cases:
        return Verdict("FAILED", "no cases selected, so there is nothing to judge by")
    if not ran:
        return Verdict("FAILED", "every case was skipped, so there is nothing to judge by")
    return Verdict("PASSED" if report.gate_passed else "FAILED", f"{counted}, {needed}")


def summary_line(report: EvalReport) -> str:
    """``22 cases: 6 passed, 10 failed, 5 errors, 1 skipped; 48.2 s; 1,558 tokens``."""
    summary = report.summary
    counts = [
        (summary.passed_cases, "passed"),
        (summary.failed_cases, "failed"),
        (summary.error_cases, "error" if summary.error_cases == 1 else "errors"),
        (summary.skipped_cases, "skipped"),
    ]
    parts = ", ".join(f"{number} {word}" for number, word in counts if number or word == "passed")
    line = f"{count(summary.total_cases, 'case')}: {parts}"
    line += f"; {seconds(summary.wall_clock_seconds or summary.total_duration_seconds)}"
    tokens = summary.total_token_usage.total_tokens
    line = f"{line}; {tokens:,} tokens" if tokens else line
    return "; ".join(part for part in (line, retries(report.results), beside(report.results)) if part)


def beside(cases: Sequence[EvalCaseResult]) -> str:
    """``1 problem beside the verdicts (hook: ...)``; empty when there was none."""
    errors = [error for case in cases for error in case.side_errors]
    return f"{count(len(errors), 'problem')} beside the verdicts ({one_line(errors[0])})" if errors else ""


def retries(cases: Sequence[EvalCaseResult]) -> str:
    """``1 retry (ConnectionError: reset)``; empty when every case was run once."""
    errors = [error for case in cases for error in case.retried_errors]
    if not errors:
        return ""
    number = "1 retry" if len(errors) == 1 else f"{len(errors)} retries"
    return f"{number} ({one_line(errors[0])})"
