"""The report on a terminal or in a log, and the progress of a run."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest

from agentflow_eval.reporters.console import ConsoleReporter, print_report, progress
from agentflow_eval.result import CriterionResult, ErrorKind, EvalCaseResult, EvalReport, Outcome
from tests.reporters.golden import golden, golden_report
from tests.reporters.samples import broken_agents, case, plain_passes, report_of, rouge, sample_report, turn

ANSI = re.compile("\x1b")


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No variable of the surroundings decides about colours."""
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "COLORTERM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")


def shown(report: EvalReport, verbose: bool = False, everything: bool = False) -> str:
    """The text of a report, with steps and whole answers when ``everything`` is wanted."""
    reporter = ConsoleReporter(
        verbose=verbose, include_trajectory=everything, include_actual_response=everything, use_color=False
    )
    return reporter.render(report)


def errored(count: int, error: str = "ModuleNotFoundError: No module named 'acme'") -> list[EvalCaseResult]:
    """Cases that broke alike, as the engine reports them."""
    why = f"not scored, because the run broke: {error}"
    return [
        case(
            f"c{number}",
            Outcome.ERROR,
            [CriterionResult.broken("rouge_match", 0.5, why)],
            error=error,
            error_kind=ErrorKind.AGENT,
        )
        for number in range(count)
    ]


def test_golden() -> None:
    """The whole text for a report with every outcome."""
    text = shown(golden_report(), verbose=True)
    assert golden("console.txt", text) == text


def test_all_errored_alike() -> None:
    """When every case broke alike, that is said once, with the exception."""
    text = shown(report_of(errored(3)))
    assert "all 3 cases errored: ModuleNotFoundError: No module named 'acme'\n" in text
    assert text.count("acme") == 1
    assert "FAILED: 0 of 3 cases passed (0%), 100% needed" in text


def test_turns_do_not_tell_errors_apart() -> None:
    """The turn in which a case broke does not keep it from its group; the traceback is shown once."""
    text = shown(report_of(broken_agents()[:3]))
    assert "all 3 cases errored: ModuleNotFoundError: No module named 'acme'" in text
    assert text.count("from acme import client") == 1


def test_some_errored_alike() -> None:
    """A group of errors among other cases lists its cases, a few of them if there are many."""
    text = shown(report_of([*plain_passes(), *errored(14)]))
    assert "14 cases errored alike: ModuleNotFoundError" in text
    assert "    c9\n    ... and 4 more\n" in text
    assert "    c13\n" in shown(report_of([*plain_passes(), *errored(14)]), verbose=True)


def test_not_run() -> None:
    """Cases that an interrupted run did not reach are counted, and the verdict says that it was cut short."""
    missing = [
        case(
            f"c{number}", Outcome.ERROR, error="the run was interrupted before this case", error_kind=ErrorKind.NOT_RUN
        )
        for number in range(4)
    ]
    text = shown(report_of([*plain_passes(), *missing], interrupted=True))
    assert "4 cases not run: the run was interrupted before this case" in text
    assert "INTERRUPTED: the run was cut short; 5 of 9 cases passed (55.5%)" in text


def test_expected_beside_actual() -> None:
    """A failed case shows what was expected right above what happened."""
    text = shown(sample_report())
    assert (
        "    expected answer  Yes, light rain on Tuesday.\n"
        "    actual answer    Light rain is likely on Tuesday; the other days stay dry.\n"
    ) in text
    assert "    - rouge_match scored 0.31, needs 0.60\n" in text


@pytest.mark.parametrize(
    ("results", "more", "verdict"),
    [
        (plain_passes(), {}, "PASSED: 5 of 5 cases passed (100%), 100% needed"),
        ([*plain_passes(), *errored(1)], {}, "FAILED: 5 of 6 cases passed (83.3%), 100% needed"),
        ([*plain_passes(), *errored(1)], {"min_pass_rate": 0.8}, "PASSED: 5 of 6 cases passed (83.3%), 80% needed"),
        (plain_passes(), {"mock": True}, "MOCK RUN: no agent was run; 5 of 5 cases passed (100%) with their own"),
        ([], {}, "FAILED: no cases selected, so there is nothing to judge by"),
        ([case("c", Outcome.SKIPPED, skip_reason="x")], {}, "FAILED: every case was skipped"),
    ],
)
def test_verdicts(results: list[EvalCaseResult], more: dict[str, bool], verdict: str) -> None:
    """The last line is the verdict with its reason."""
    assert shown(report_of(results, **more)).splitlines()[-1].startswith(verdict)


def test_summary_line() -> None:
    """The line before the verdict has all counts, the time and the tokens."""
    line = "26 cases: 6 passed, 14 failed, 5 errors, 1 skipped; 48.2 s; 1,558 tokens"
    line += "; 2 retries (TimeoutError: connect timed out)"
    line += "; 1 problem beside the verdicts (hook: on_run_event raised ValueError: no such tool)"
    assert line == shown(sample_report()).splitlines()[-2]


def test_verbose() -> None:
    """Passed and skipped cases are listed when that is wanted only."""
    assert "PASSED   greeting_en - Greeting (en) (100 ms)\n" in shown(sample_report(), verbose=True)
    assert "SKIPPED  payment_live - Live payment: waits for the new payment sandbox\n" in shown(sample_report(), True)
    assert "greeting_en" not in shown(sample_report())


def test_many_failures() -> None:
    """Only so many failed cases are explained, unless it is verbose; the others are counted."""
    report = report_of([case(f"c{number}", Outcome.FAILED, [rouge(0.1)]) for number in range(130)])
    assert "... and 30 more failed cases" in shown(report)
    assert "c129\n" in shown(report, verbose=True)


def test_many_turns() -> None:
    """Of many turns that may be at fault the first three are shown."""
    turns = [turn(number, "q", "a", expected_response="b") for number in range(5)]
    assert "... and 2 more turns\n" in shown(report_of([case("c", Outcome.FAILED, [rouge(0.1)], turns)]))


def test_whole_answers_and_steps() -> None:
    """Steps and whole answers are shown on request."""
    text = shown(sample_report(), verbose=True, everything=True)
    assert "    steps            node MAIN > node TOOL > tool get_weather > node MAIN\n" in text
    assert "    answer           It is 18 degrees and clear in Paris.\n" in text
    none = report_of([case("c", Outcome.FAILED, [rouge(0.0)], [turn(0, "q", expected_response="x")])])
    assert "    answer           (no answer)\n" in shown(none, everything=True)
    assert "    actual answer    (no answer)\n" in shown(none)


def test_hidden_answers() -> None:
    """An answer that is kept out of the report is not mistaken for none."""
    hidden = turn(0, "q", "", answered=True, expected_response="x")
    assert "    actual answer    (not shown)\n" in shown(report_of([case("c", Outcome.FAILED, [rouge(0.0)], [hidden])]))


def test_ids_are_not_wrapped() -> None:
    """Ids and words longer than the line stay whole, other text is wrapped below itself."""
    eval_id = "case-" + "x" * 150
    text = shown(report_of([case(eval_id, Outcome.FAILED, [rouge(0.1, "word " * 40 + eval_id)])]))
    assert f"FAILED   {eval_id}\n" in text
    assert f"\n      {eval_id}\n" in text
    assert max(len(line) for line in text.splitlines() if eval_id not in line) <= 100


def test_wide_characters() -> None:
    """Wide characters count as two columns when text is wrapped and tables are aligned."""
    wide = CriterionResult.scored("你好", 0.1, 0.5, {}, " ".join(["你好"] * 40))
    text = shown(report_of([case("c", Outcome.FAILED, [wide])]))
    rows = [line for line in text.splitlines() if line.startswith("      你")]
    columns = [len(row) + row.count("你") + row.count("好") for row in rows]
    assert (len(rows), 95 <= max(columns) <= 100) == (2, True)
    assert "criterion  passed  mean score\n你好       0 of 1        0.10\n" in text


def test_hostile_text() -> None:
    """Neither markup, nor terminal sequences, nor direction marks in texts do anything."""
    reason = "[bold]x[/bold] :smile: \x1b[2J\x9b31m \u202eabc\u202c {x}"
    text = shown(report_of([case("[red]c", Outcome.FAILED, [rouge(0.1, reason)])]))
    assert "[bold]x[/bold] :smile: \\x9b31m \\u202eabc\\u202c {x}" in text
    assert "FAILED   [red]c\n" in text
    terminal = Terminal()
    ConsoleReporter(output=terminal).report(report_of([case("[red]c", Outcome.FAILED, [rouge(0.1, reason)])]))
    assert "[bold]x[/bold] :smile: \\x9b31m \\u202eabc\\u202c {x}" in terminal.getvalue()


def test_no_colour_in_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not a terminal gets no colours, even when the environment wants to force them."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    stream = io.StringIO()
    ConsoleReporter(output=stream).report(sample_report())
    assert shown(sample_report()) == stream.getvalue()


def test_colour_on_a_terminal() -> None:
    """On a terminal outcomes are coloured, and the text is the same."""
    terminal = Terminal()
    text = ConsoleReporter(output=terminal).generate(sample_report())
    assert ANSI.search(terminal.getvalue())
    assert text == re.sub("\x1b\\[[0-9;]*m", "", terminal.getvalue())


@pytest.mark.parametrize("variable", [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_no_colour_by_environment(monkeypatch: pytest.MonkeyPatch, variable: tuple[str, str]) -> None:
    """NO_COLOR and a dumb terminal switch colours off."""
    monkeypatch.setenv(*variable)
    terminal = Terminal()
    ConsoleReporter(output=terminal).report(sample_report())
    assert not ANSI.search(terminal.getvalue())


def test_no_colour_by_choice() -> None:
    """use_color=False switches colours off."""
    terminal = Terminal()
    ConsoleReporter(use_color=False, output=terminal).report(sample_report())
    assert not ANSI.search(terminal.getvalue())


@pytest.mark.parametrize("encoding", ["cp1252", "ascii", "utf-8"])
@pytest.mark.parametrize("tty", [True, False])
def test_narrow_encodings(encoding: str, tty: bool) -> None:
    """What a stream cannot express is written as an escape."""
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding)
    stream.isatty = lambda: tty  # type: ignore[method-assign]
    only = turn(0, "✓ 😀 你好", "✓ 😀 你好", expected_response="é")
    ConsoleReporter(output=stream, verbose=True).report(report_of([case("✓", Outcome.FAILED, [rouge(0.1)], [only])]))
    text = raw.getvalue().decode(encoding)
    assert ("✓ 😀 你好" if encoding == "utf-8" else "\\u2713 \\U0001f600 \\u4f60\\u597d") in text


def test_print_report(capsys: pytest.CaptureFixture[str]) -> None:
    """`print_report` prints to standard output, as it is at that moment."""
    print_report(sample_report(), verbose=True)
    assert shown(sample_report(), verbose=True) == capsys.readouterr().out


def test_generate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`generate` prints and returns the text; with a folder it writes a file and prints nothing."""
    report = report_of(plain_passes())
    assert ConsoleReporter().generate(report) == capsys.readouterr().out
    path = Path(ConsoleReporter().generate(report, tmp_path))
    assert (tmp_path / "report.txt", shown(report), "") == (
        path,
        path.read_text(encoding="utf-8"),
        capsys.readouterr().out,
    )


def test_stand_in_for_a_stream() -> None:
    """A stream that is neither a terminal nor a file will do."""

    class Sink:
        written = ""

        def write(self, text: str) -> None:
            self.written += text

        def flush(self) -> None:
            pass

    sink = Sink()
    ConsoleReporter(output=sink).report(report_of([]))  # type: ignore[arg-type]
    assert shown(report_of([])) == sink.written


# Progress


def test_plain_progress() -> None:
    """In a log nothing is written for quick cases but the end."""
    stream = io.StringIO()
    with progress(3, stream) as shown_progress:
        for result in [*plain_passes()[:2], *errored(1)]:
            shown_progress.case_done(result)
    assert re.fullmatch(r"3/3 cases: 2 passed, 1 error \(<?\d+ m?s\)\n", stream.getvalue())


def test_plain_progress_of_slow_cases() -> None:
    """In a log a line is written every few seconds."""
    stream = io.StringIO()
    with progress(3, stream) as shown_progress:
        shown_progress.case_done(plain_passes()[0])
        shown_progress.started -= 100
        shown_progress.__dict__["told"] -= 100
        shown_progress.case_done(plain_passes()[0])
        shown_progress.case_done(plain_passes()[0])
    first, last = stream.getvalue().splitlines()
    assert first == "2/3 cases: 2 passed (1 min 40 s)"
    assert last.startswith("3/3 cases: 3 passed (")


def test_verbose_progress() -> None:
    """Verbose progress has a line for each case, with the first reason."""
    stream = io.StringIO()
    with progress(10, stream, verbose=True) as shown_progress:
        shown_progress.case_done(plain_passes()[0])
        shown_progress.case_done(errored(1)[0])
    lines = stream.getvalue().splitlines()
    assert lines[0] == "[ 1/10] PASSED   greeting_en - Greeting (en) (100 ms)"
    assert lines[1] == "[ 2/10] ERROR    c0: ModuleNotFoundError: No module named 'acme'"


@pytest.mark.parametrize("verbose", [True, False])
def test_live_progress(verbose: bool) -> None:
    """On a terminal a bar shows the counts, and is gone in the end."""
    terminal = Terminal()
    with progress(2, terminal, verbose=verbose) as shown_progress:
        shown_progress.case_done(plain_passes()[0])
        shown_progress.case_done(case("[b]x", Outcome.FAILED, [rouge(0.1)]))
    text = re.sub("\x1b\\[[0-9;?]*[a-zA-Z]", "", terminal.getvalue())
    assert "2/2 1 passed, 1 failed" in text
    assert verbose is ("[2/2] FAILED   [b]x: rouge_match scored 0.10, needs 0.60\n" in text)


def test_progress_writes_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    """Progress does not mix with what a program prints."""
    with progress(0):
        pass
    captured = capsys.readouterr()
    assert (captured.out, captured.err.startswith("0/0 cases: none done yet")) == ("", True)


def test_progress_on_a_broken_stream() -> None:
    """A stream that cannot be written does not disturb the run."""
    stream = io.StringIO()
    stream.close()
    with progress(1, stream, verbose=True) as shown_progress:
        shown_progress.case_done(plain_passes()[0])
    assert shown_progress.count == 1


def test_width_of_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal lines are as long as it is wide."""
    monkeypatch.setenv("COLUMNS", "60")
    terminal = Terminal()
    ConsoleReporter(use_color=False, output=terminal).report(golden_report())
    assert max(len(line) for line in terminal.getvalue().splitlines() if line.startswith("      ")) <= 60
