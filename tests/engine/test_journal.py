"""Finished cases on disk."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agentflow_eval.config import ReporterConfig
from agentflow_eval.engine.journal import Journal, read_journal
from agentflow_eval.errors import LoadError, ReportError
from agentflow_eval.evaluator import AgentEvaluator
from agentflow_eval.result import CriterionResult, EvalCaseResult, Outcome
from tests.engine.runs import config, eval_set, numbered, ok

HEADER = {"eval_set_id": "s", "eval_set_name": "Orders", "run_id": "r1"}


def result(eval_id: str, **more: Any) -> EvalCaseResult:
    """A case that passed."""
    scored = CriterionResult.scored("exact_match", 1.0, 1.0)
    values = {"passed": True, "outcome": Outcome.PASSED, "criterion_results": [scored]} | more
    return EvalCaseResult(eval_id=eval_id, **values)


def written(path: Path, *results: EvalCaseResult) -> Journal:
    """A closed journal."""
    journal = Journal(path, HEADER)
    for item in results:
        journal.append(item)
    journal.close()
    return journal


def test_round_trip(tmp_path: Path) -> None:
    """What was appended is read again, as a report of a run that was cut short."""
    path = tmp_path / "deep" / "x.partial.jsonl"
    broken = CriterionResult.broken("exact_match", 1.0, "no idea")
    results = [result("c1"), result("c2", passed=False, outcome=Outcome.ERROR, criterion_results=[broken])]
    journal = written(path, *results)
    report = read_journal(path)
    assert results == report.results
    assert (
        report.eval_set_id,
        report.eval_set_name,
        report.run_id,
        report.interrupted,
    ) == ("s", "Orders", "r1", True)
    assert (report.summary.total_cases, report.summary.passed_cases, report.gate_passed) == (2, 1, False)
    assert report.results[1].criterion_results[0].score is None
    journal.remove()
    journal.remove()
    assert not path.exists()


@pytest.mark.parametrize("cut", [1, 5, 100])
def test_torn_last_line(tmp_path: Path, cut: int) -> None:
    """A last line that was cut off is left out."""
    path = tmp_path / "x.jsonl"
    written(path, result("c1"), result("c2"))
    path.write_bytes(path.read_bytes()[:-cut])
    assert [item.eval_id for item in read_journal(path).results] == ["c1"]


def test_header_only(tmp_path: Path) -> None:
    """A run that died before its first result has an empty report."""
    written(tmp_path / "x.jsonl")
    report = read_journal(tmp_path / "x.jsonl")
    assert (report.summary.total_cases, report.passed) == (0, False)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "not found"),
        ("", "empty"),
        ("nonsense\n", "not a journal of a run"),
        ("[1]\n", "not a journal of a run"),
        ('{"run_id": "x"}\n', "not a journal of a run"),
        ('{"eval_set_id": "s", "colour": "red"}\n', "colour"),
        ('{"eval_set_id": "s"}\n{"eval_id": 7}\n', "eval_id"),
        ('{"eval_set_id": "s"}\nnonsense\n', "line 2"),
    ],
)
def test_not_a_journal(tmp_path: Path, text: str | None, message: str) -> None:
    """Anything else is a load error that names the file."""
    path = tmp_path / "x.jsonl"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    with pytest.raises(LoadError) as caught:
        read_journal(path)
    assert str(path) in str(caught.value)
    assert message in str(caught.value)


def test_place_that_cannot_be_written(tmp_path: Path) -> None:
    """A journal that cannot be made says so."""
    (tmp_path / "file").touch()
    with pytest.raises(ReportError, match="cannot be written"):
        Journal(tmp_path / "file" / "x.jsonl", HEADER)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_full_disk() -> None:
    """A full disk ends the journal and not the run."""
    journal = Journal(Path("/dev/full"), HEADER)
    journal.append(result("c1"))
    journal.close()


@pytest.mark.skipif(sys.platform == "win32", reason="needs a limit on the size of files")
def test_disk_that_fills_up(tmp_path: Path) -> None:
    """What was written until then can be read, and nothing is appended to a torn line."""
    program = (
        "import resource\n"
        "from pathlib import Path\n"
        "from tests.engine.test_journal import result, written\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000))\n"
        "written(Path('x.jsonl'), *[result(f'c{n}') for n in range(20)])\n"
    )
    here = str(Path(__file__).parents[2])
    subprocess.run([sys.executable, "-c", program], check=True, cwd=tmp_path, env={"PYTHONPATH": here, "PATH": ""})
    report = read_journal(tmp_path / "x.jsonl")
    assert [f"c{n}" for n in range(len(report.results))] == [item.eval_id for item in report.results]
    assert 0 < len(report.results) < 20


def test_journal_of_a_run(tmp_path: Path) -> None:
    """While a run goes on its results are on disk; when the report is written the journal goes."""
    seen: list[int] = []

    async def agent(text: str) -> str:
        (journal,) = tmp_path.glob("s-*.partial.jsonl")
        seen.append(len(read_journal(journal).results))
        return "ok"

    reporter = ReporterConfig(output_dir=str(tmp_path), console=False, html=False)
    report = AgentEvaluator(agent, config=config(reporter=reporter)).run_sync(eval_set(*numbered(3)))
    assert report.passed
    assert seen == [0, 1, 2]
    assert [path.suffix for path in tmp_path.iterdir()] == [".json"]


def test_journal_stays_without_a_report(tmp_path: Path) -> None:
    """When the JSON report could not be written, the journal stays."""
    reporter = ReporterConfig(output_dir=str(tmp_path), console=False, html=False, timestamp_files=False)
    (tmp_path / "s.json").mkdir()
    evaluator = AgentEvaluator(ok, config=config(reporter=reporter))
    with pytest.warns(RuntimeWarning, match="json report: "):
        asyncio.run(evaluator.evaluate(eval_set(*numbered(2))))
    (journal,) = tmp_path.glob("s-*.partial.jsonl")
    assert len(read_journal(journal).results) == 2
