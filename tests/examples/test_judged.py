from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from agentflow_eval import AgentEvaluator, EvalConfig, EvalSet
from agentflow_eval.examples.support.agent import graph
from agentflow_eval.result import ErrorKind, EvalReport

ROOT = Path(__file__).parents[2]


def run(config: str, tmp_path: Path) -> EvalReport:
    """The support cases with one of the judged configs."""
    loaded = EvalConfig.from_file(ROOT / "configs" / config)
    loaded.reporter.enabled = False
    if loaded.judge_cache is not None:
        loaded.judge_cache = str(tmp_path / "cache.sqlite")
    eval_set = EvalSet.from_file(ROOT / "evalsets" / "support.evalset.json")
    return asyncio.run(AgentEvaluator(graph, config=loaded).evaluate(eval_set))


def test_offline_judge(tmp_path: Path) -> None:
    """The judged criteria run without a key: the judge is a function, and it gets its controls right."""
    report = run("judged-offline.json", tmp_path)
    assert report.gate_passed, report.format_summary()
    assert {"response_match_score", "hallucinations_v1", "safety_v1"} <= report.summary.criterion_stats.keys()
    assert report.judge_use["errors"] == 0


def test_without_a_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The real judge without its key is an error that says what to set, in every case, and no score."""
    for name in ("GEMINI_API_KEY", "GOOGLE_API_KEY", "AGENTFLOW_EVAL_API_KEY", "AGENTFLOW_EVAL_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    report = run("judged.json", tmp_path)
    assert report.summary.error_cases == report.summary.total_cases
    assert {case.error_kind for case in report.results} == {ErrorKind.JUDGE}
    assert "set GEMINI_API_KEY or GOOGLE_API_KEY" in (report.results[0].error or "")
    assert report.summary.criterion_stats["safety_v1"].avg_score is None
