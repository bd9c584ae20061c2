"""Templates of the user's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentflow_eval.errors import ReportError
from agentflow_eval.reporters import TemplateReporter
from agentflow_eval.result import EvalReport, Outcome
from tests.reporters.golden import golden, golden_report
from tests.reporters.samples import case, plain_passes, report_of, rouge, sample_report, turn

SUMMARY = Path(__file__).parents[2] / "reporters" / "summary.md.j2"


def rendered(folder: Path, template: str, report: EvalReport | None = None, name: str = "t.md.j2") -> str:
    """What a template makes of a report."""
    path = folder / name
    path.write_text(template, encoding="utf-8")
    return TemplateReporter(path).render(report or golden_report())


def test_golden() -> None:
    """The summary that comes with the project, for a report with every outcome."""
    text = TemplateReporter(SUMMARY).render(golden_report())
    assert golden("summary.md", text) == text


@pytest.mark.parametrize("report", [sample_report(), report_of([]), report_of(plain_passes(), mock=True)])
def test_summary(report: EvalReport) -> None:
    """The summary begins with the verdict, whatever is in the report."""
    assert TemplateReporter(SUMMARY).render(report).startswith(("# FAILED: ", "# MOCK RUN: "))


def test_context(tmp_path: Path) -> None:
    """A template gets the report and the parts of it that are asked for most."""
    template = (
        "{{ report.eval_set_id }} {{ summary.total_cases }} {{ cases | length }} {{ failed_cases | length }} "
        "{{ passed_cases | length }} {{ verdict.word }} {{ error_groups[0].cases | length }}|{{ summary_line }}"
    )
    line = "15 cases: 6 passed, 3 failed, 5 errors, 1 skipped; 48.2 s; 1,558 tokens"
    line += "; 2 retries (TimeoutError: connect timed out)"
    line += "; 1 problem beside the verdicts (hook: on_run_event raised ValueError: no such tool)"
    assert f"travel 15 15 8 6 FAILED 3|{line}" == rendered(tmp_path, template)


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{{ 0.995 | percent }} {{ 1 | percent }} {{ 0.9999 | percent }}", "99.5% 100% 99.9%"),
        (
            "{{ 75.2 | seconds }} {{ 0.25 | seconds }} {{ 4000 | seconds }} {{ -1 | seconds }}",
            "1 min 15 s 250 ms 1 h 06 min 0 s",
        ),
        ("{{ 0.5 | score }} {{ none | score }}", "0.50 n/a"),
        (r"{{ 'a\n b' | oneline }} {{ 'abcdefgh' | oneline(6) }}", "a b abc..."),
        ("{{ '<b>*x*|_y_' | mdescape }}", r"\<b\>\*x\*\|\_y\_"),
        ("{{ cases[6] | findings | last }}", "rouge_match scored 0.31, needs 0.60"),
        ("{{ (cases[6] | comparisons)[0].expected }}", "Yes, light rain on Tuesday."),
    ],
)
def test_filters(tmp_path: Path, template: str, text: str) -> None:
    """The filters that come with the package."""
    assert text == rendered(tmp_path, template)


def test_escaping(tmp_path: Path) -> None:
    """Values are escaped in HTML and XML templates and stay as they are in others."""
    report = report_of([case("<b>&", Outcome.PASSED, [rouge(1.0)], [turn(0, "q", "a")])])
    template = "{{ cases[0].eval_id }}"
    for name, text in {"t.html.j2": "&lt;b&gt;&amp;", "t.XML": "&lt;b&gt;&amp;", "t.md.j2": "<b>&"}.items():
        assert text == rendered(tmp_path, template, report, name)


def test_unprintable_text(tmp_path: Path) -> None:
    """Text that UTF-8 cannot hold is made visible."""
    report = golden_report().model_copy(update={"eval_set_name": "\ud83d"})
    assert rendered(tmp_path, "{{ report.eval_set_name }}", report) == "\\ud83d"


@pytest.mark.parametrize(
    ("template", "problem"),
    [
        ("a\n{{ report.nmae }}", "line 2: "),
        ("a\n\n{% for %}", "line 3: "),
        ("a\n{{ 1 / 0 }}", "line 2: ZeroDivisionError: division by zero"),
        ("{{ x | nosuch }}", "line 1: No filter named 'nosuch'"),
        ("{{ report.__class__.__mro__ }}", "line 1: access to attribute '__class__'"),
        ("{{ cases.clear() }}", "line 1: "),
        ("{% include 'other' %}", "line 1: "),
    ],
)
def test_faulty_templates(tmp_path: Path, template: str, problem: str) -> None:
    """A template that cannot be used, or that wants out of its sandbox, is an error with file and line."""
    with pytest.raises(ReportError) as caught:
        rendered(tmp_path, template)
    assert str(caught.value).startswith(f"{tmp_path / 't.md.j2'}: {problem}")


def test_missing_template(tmp_path: Path) -> None:
    """A template that is not there is an error that names it."""
    with pytest.raises(ReportError, match=r"nope\.j2: template file not found"):
        TemplateReporter(tmp_path / "nope.j2").render(golden_report())


@pytest.mark.parametrize(
    ("template", "file"),
    [("a/summary.md.j2", "summary.md"), ("x.html.jinja", "x.html"), ("x.jinja2", "x"), ("notes.txt", "notes.txt")],
)
def test_file_names(template: str, file: str) -> None:
    """The file is named as the template, without the ending that says it is one."""
    assert file == TemplateReporter(template).file_name


def test_generate(tmp_path: Path) -> None:
    """`generate` writes the file into a folder."""
    template = tmp_path / "a.txt.j2"
    template.write_text("{{ summary.total_cases }}\n", encoding="utf-8")
    path = TemplateReporter(template).generate(golden_report(), tmp_path / "out")
    assert (str(tmp_path / "out" / "a.txt"), "15\n") == (path, Path(path).read_text(encoding="utf-8"))
