from __future__ import annotations

import json
from pathlib import Path

import pytest

from agentflow_eval.cli import main

EXAMPLES = [
    {"id": "right", "question": "2 + 2?", "answer": "4", "expected_response": "4", "good": True},
    {"id": "wrong", "question": "2 + 2?", "answer": "5", "expected_response": "4", "good": False},
    {"id": "subtle", "question": "2 + 3?", "answer": "6", "expected_response": "5", "good": False},
    {"id": "words", "question": "2 + 2?", "answer": "four", "expected_response": "4", "good": True},
]

JUDGE = """
async def judge(prompt):
    if "\\n5\\nanswer" in prompt.replace("answer ", "answer", 1) or "\\n5\\n" in prompt and "2 + 2" in prompt:
        return '{"score": 0.1, "reasoning": "wrong sum"}'
    if "four" in prompt:
        return "no idea"
    return '{"score": 0.9, "reasoning": "looks right"}'
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with labels, a config and a judge."""
    (tmp_path / "calibration_judge.py").write_text(JUDGE)
    (tmp_path / "labels.json").write_text(json.dumps({"examples": EXAMPLES}))
    config = {
        "criteria": {"response_match": {"num_samples": 1}, "rouge_match": {}},
        "judge": {"function": "calibration_judge:judge"},
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def test_figures(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Agreement, kappa, false passes and fails, the examples that differ, and those without a verdict."""
    code = main(["calibrate", "labels.json", "--config", "config.json", "--json-output", "out.json"])
    text = capsys.readouterr().out
    figures = json.loads((folder / "out.json").read_text())[0]
    assert code == 1  # one example could not be judged
    assert figures["judged"] == 3
    assert figures["agreement"] == pytest.approx(2 / 3)
    assert figures["false_pass_rate"] == 0.5
    assert figures["false_fail_rate"] == 0.0
    assert figures["kappa"] == pytest.approx(0.4)
    assert [confusion["id"] for confusion in figures["confusions"]] == ["subtle"]
    assert list(figures["unjudged"]) == ["words"]
    assert "differs on subtle: people say bad, the judge gave 0.90: looks right" in text
    assert "not judged: words" in text


def test_nothing_to_calibrate(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A config without a judged criterion is a usage error."""
    (folder / "config.json").write_text('{"criteria": {"rouge_match": {}}}')
    assert main(["calibrate", "labels.json", "--config", "config.json"]) == 2
    assert "no judged criterion is switched on" in capsys.readouterr().err


def test_bad_labels(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every problem of a labels file has its place."""
    (folder / "labels.json").write_text('{"examples": [{"id": "a", "question": "q", "answr": "a", "good": 1}]}')
    assert main(["calibrate", "labels.json", "--config", "config.json"]) == 2
    text = capsys.readouterr().err
    assert 'examples[0].answr: unknown key; did you mean "answer"?' in text
    assert "examples[0].good: must be true or false, got number 1" in text
