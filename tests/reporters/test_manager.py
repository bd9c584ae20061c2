"""All reports of a run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

import agentflow_eval.reporters as package
from agentflow_eval.config import ReporterConfig
from agentflow_eval.reporters import ConsoleReporter, ReporterManager, ReporterOutput
from agentflow_eval.reporters._base import Shown
from agentflow_eval.result import EvalReport
from tests.reporters.samples import plain_passes, report_of, sample_report

SUMMARY = str(Path(__file__).parents[2] / "reporters" / "summary.md.j2")


def run(folder: Path, extra: tuple[Any, ...] = (), report: EvalReport | None = None, **config: Any) -> ReporterOutput:
    """What the reporters make, without console and timestamps unless asked for."""
    values = {"console": False, "timestamp_files": False} | config
    return ReporterManager(ReporterConfig(**values), extra).run_all(report or report_of(plain_passes()), folder)


class Lines:
    """A reporter of the user's own."""

    name = "lines"
    file_name = "lines.csv"

    def render(self, report: EvalReport) -> str:
        return "".join(f"{case.eval_id}\n" for case in report.results)


def test_everything(tmp_path: Path) -> None:
    """Every kind of report is written under the name of the set."""
    output = run(tmp_path, (Lines(),), junit_xml=True, templates=[SUMMARY])
    names = ["travel.json", "travel.html", "travel_junit.xml", "travel_summary.md", "travel_lines.csv"]
    assert [str(tmp_path / name) for name in names] == output.generated_files
    assert sorted(names) == sorted(path.name for path in tmp_path.iterdir())
    assert (output.json_path, output.html_path, output.junit_path) == tuple(output.generated_files[:3])
    assert not output.has_errors
    assert len((tmp_path / "travel_lines.csv").read_text(encoding="utf-8").splitlines()) == 5


def test_default_selection(tmp_path: Path) -> None:
    """JUnit is written only on request."""
    assert sorted(Path(path).name for path in run(tmp_path).generated_files) == ["travel.html", "travel.json"]


def test_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A config that switches reports off prints and writes nothing."""
    assert ReporterOutput() == run(tmp_path / "x", enabled=False, console=True)
    assert (capsys.readouterr().out, (tmp_path / "x").exists()) == ("", False)


def test_console(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The console report is printed, and kept in the output."""
    output = run(tmp_path, console=True, json_report=False, html=False)
    text = ConsoleReporter(verbose=True).render(report_of(plain_passes()))
    assert [text, text] == [output.console_output, capsys.readouterr().out]
    assert output.generated_files == []
    run(tmp_path, console=True, verbose=False)
    assert "PASSED   " not in capsys.readouterr().out


def test_configured_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The config's folder is relative to the working directory."""
    monkeypatch.chdir(tmp_path)
    config = ReporterConfig(console=False, html=False, output_dir="out/deep", timestamp_files=False)
    assert [os.path.join("out", "deep", "travel.json")] == ReporterManager(config).run_all(
        report_of([])
    ).generated_files


def test_timestamps(tmp_path: Path) -> None:
    """Names carry the local time, and runs of the same second do not replace each other."""
    outputs = [run(tmp_path, timestamp_files=True, html=False, junit_xml=True) for _ in range(3)]
    files = {path for output in outputs for path in output.generated_files}
    assert len(files) == 6
    for path in files:
        assert re.fullmatch(r"travel_\d{8}_\d{6}(-\d)?(\.json|_junit\.xml)", Path(path).name)


def test_timestamps_of_threads(tmp_path: Path) -> None:
    """Runs at the same time in the same folder do not replace each other."""
    with ThreadPoolExecutor(8) as pool:
        outputs = list(pool.map(lambda _: run(tmp_path, timestamp_files=True, html=False), range(24)))
    assert 24 == len({output.json_path for output in outputs}) == len(list(tmp_path.iterdir()))


def test_clashing_sets(tmp_path: Path) -> None:
    """Sets whose ids give the same file name do not replace each other."""
    for eval_set_id in ("a.b", "a_b"):
        report = report_of(plain_passes()).model_copy(update={"eval_set_id": eval_set_id})
        run(tmp_path, report=report, timestamp_files=True, html=False)
    ids = {EvalReport.from_file(path).eval_set_id for path in tmp_path.iterdir()}
    assert {"a.b", "a_b"} == ids


@pytest.mark.parametrize("eval_set_id", ["../../x", "/etc/x", "..", "", "a\x00b", "C:\\x", "x" * 300])
def test_hostile_ids(tmp_path: Path, eval_set_id: str) -> None:
    """No id leads out of the folder."""
    report = report_of([]).model_copy(update={"eval_set_id": eval_set_id})
    output = run(tmp_path / "out", report=report, timestamp_files=True)
    assert [output.errors, len(list((tmp_path / "out").iterdir()))] == [[], 2]
    assert [tmp_path / "out"] == list(tmp_path.iterdir())


@pytest.mark.parametrize("file_name", ["../../x.txt", "/etc/x.txt", "..\\x.txt", ".x.txt"])
def test_hostile_file_names(tmp_path: Path, file_name: str) -> None:
    """No reporter of the user's own leads out of the folder."""
    extra = Lines()
    extra.file_name = file_name
    output = run(tmp_path / "out", (extra,), json_report=False, html=False)
    assert [str(tmp_path / "out" / "travel_x.txt")] == output.extra_paths


def test_equal_file_names(tmp_path: Path) -> None:
    """Templates and reporters with the same file name do not replace each other."""
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "lines.csv.j2").write_text(folder, encoding="utf-8")
    templates = [str(tmp_path / folder / "lines.csv.j2") for folder in ("a", "b")]
    output = run(tmp_path / "out", (Lines(),), json_report=False, html=False, templates=templates)
    names = ["travel_lines.csv", "travel_lines-2.csv", "travel_lines-3.csv"]
    assert names == [Path(path).name for path in output.generated_files]


class Raises:
    """A reporter that fails."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def render(self, report: EvalReport) -> str:
        raise self.error


class Number:
    """A reporter that gives no text."""

    def render(self, report: EvalReport) -> Any:
        return 7


def test_failures_are_collected(tmp_path: Path) -> None:
    """Whatever fails is listed with its reason, and the rest is written; no empty file stays behind."""
    extra = (Raises(KeyError("x")), Raises(SystemExit(3)), Number(), Lines())
    output = run(tmp_path, extra, html=False, templates=["nope.j2"], timestamp_files=True)
    names = ["template nope.j2", "extra Raises", "extra Raises", "extra Number"]
    assert names == [name for name, _ in output.errors]
    messages = [message for _, message in output.errors]
    assert messages[1:] == ["KeyError: 'x'", "SystemExit: 3", "render returned int, not text"]
    assert output.has_errors
    assert sorted(output.generated_files) == sorted(map(str, tmp_path.iterdir()))
    assert len(output.generated_files) == 2


def test_interrupt_is_not_swallowed(tmp_path: Path) -> None:
    """Ctrl-C in a reporter stops all of them, and leaves no empty file behind."""
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, (Raises(KeyboardInterrupt()),), json_report=False, html=False, timestamp_files=True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("timestamp_files", [True, False])
def test_folder_that_is_a_file(tmp_path: Path, timestamp_files: bool) -> None:
    """A folder that cannot be made is reported, and nothing raises."""
    (tmp_path / "file").write_text("", encoding="utf-8")
    output = run(tmp_path / "file", timestamp_files=timestamp_files)
    assert (output.generated_files, output.has_errors) == ([], True)
    assert all(f"{tmp_path / 'file'}" in message and "cannot be written" in message for _, message in output.errors)


def test_console_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A closed standard output does not keep the files from being written."""
    stream = open(tmp_path / "stdout", "w", encoding="utf-8")  # noqa: SIM115
    stream.close()
    monkeypatch.setattr(sys, "stdout", stream)
    output = run(tmp_path / "out", console=True)
    assert ([name for name, _ in output.errors], len(output.generated_files)) == (["console"], 2)


def test_hidden_parts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What the config hides is in no report; passing it on leaves the report itself as it was."""
    report, before = sample_report(), sample_report()
    config: dict[str, Any] = {"console": True, "html": False, "junit_xml": True, "templates": [SUMMARY]}
    config |= dict.fromkeys((field.name for field in fields(Shown)), False)
    output = run(tmp_path, report=report, **config)
    texts = [Path(path).read_text(encoding="utf-8") for path in output.generated_files]
    for text in [*texts, capsys.readouterr().out]:
        assert "the other days stay dry" not in text
        assert "customer@example.com" not in text
    assert output.errors == []
    assert before == report


def test_junit_profile(tmp_path: Path) -> None:
    """The config's profile is the one of the JUnit report."""
    output = run(tmp_path, junit_xml=True, junit_profile="strict")
    assert "<testsuites>\n" in Path(str(output.junit_path)).read_text(encoding="utf-8")


def test_exports() -> None:
    """Every public name can be imported, and no other."""
    assert sorted(package.__all__) == package.__all__ == dir(package)
    assert all(getattr(package, name).__name__ == name for name in package.__all__)
    with pytest.raises(AttributeError, match="nothing"):
        package.nothing


@pytest.mark.parametrize("module", ["agentflow_eval.reporters", "agentflow_eval.reporters.console"])
def test_imports_are_cheap(module: str) -> None:
    """Reporters that are not used cost no import."""
    code = f"import sys, {module}; print({{'rich', 'jinja2', 'junit_xml'}} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
