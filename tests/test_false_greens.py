"""Passes that were not earned, and agents that meddle: each was once possible."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from agentflow_eval import (
    AgentEvaluator,
    CriteriaConfig,
    CriterionConfig,
    EvalCase,
    EvalConfig,
    EvalReport,
    EvalSet,
    Invocation,
    LoadError,
    ReporterConfig,
    ToolNameMatchConfig,
    TrajectoryCollector,
)
from agentflow_eval.cli import main
from agentflow_eval.result import ErrorKind, Outcome
from agentflow_eval.testing import assert_criterion_passed


def run(agent: Any, criteria: CriteriaConfig, *cases: EvalCase, **settings: Any) -> EvalReport:
    """The report of a run without reporters."""
    config = EvalConfig(criteria=criteria, reporter=ReporterConfig(enabled=False), **settings)
    return asyncio.run(AgentEvaluator(agent, config=config).evaluate(EvalSet(eval_set_id="s", eval_cases=list(cases))))


def silent(text: str) -> None:
    """Does and says nothing."""


NOTHING_EXPECTED = EvalCase(
    eval_id="c", conversation=[Invocation.simple("q", expected_tools=[], expected_node_order=[])]
)


@pytest.mark.parametrize(
    "criteria",
    [
        CriteriaConfig(tool_name_match=CriterionConfig.tool_name_match()),
        CriteriaConfig(trajectory=CriterionConfig.trajectory()),
        CriteriaConfig(node_order=CriterionConfig.node_order()),
        CriteriaConfig(budget=CriterionConfig.budget(max_tool_calls=3)),
        CriteriaConfig(budget=CriterionConfig.budget(max_duration_seconds=3)),
    ],
)
def test_dead_agent(criteria: CriteriaConfig) -> None:
    """An agent that leaves no trace has not earned a pass by calling no tool."""
    result = run(silent, criteria, NOTHING_EXPECTED).results[0]
    assert (result.outcome, result.error_kind) == (Outcome.ERROR, ErrorKind.WIRING)


def test_forbidden_tool_at_threshold_zero() -> None:
    """A forbidden tool fails whatever the threshold is."""

    def agent(text: str, run: TrajectoryCollector) -> str:
        run.tool("rm")
        return "done"

    criteria = CriteriaConfig(tool_name_match=ToolNameMatchConfig(threshold=0.0, forbidden=["rm"]))
    assert run(agent, criteria, EvalCase.single_turn("c", "q")).results[0].outcome is Outcome.FAILED


@pytest.mark.parametrize("slot", ["exact_match", "rouge_match", "contains_keywords", "response_match", "llm_judge"])
def test_earlier_turn_without_an_answer(slot: str) -> None:
    """A turn that expects an answer and got none fails each criterion that reads answers, wherever the turn stands."""
    asked: list[str] = []

    def agent(text: str) -> str | None:
        return None if text == "first" else text

    async def judge(prompt: str) -> str:
        asked.append(prompt)
        return '{"reasoning": "good", "score": 1.0}'

    criteria = CriteriaConfig.model_validate({slot: {"keywords": ["last"]} if slot == "contains_keywords" else {}})
    turns = [Invocation.simple("first", "first"), Invocation.simple("last", "last")]
    config = EvalConfig(criteria=criteria, reporter=ReporterConfig(enabled=False))
    cases = [EvalCase(eval_id="c", conversation=turns), EvalCase(eval_id="d", conversation=turns[1:] * 2)]
    evaluator = AgentEvaluator(agent, config=config, judge=judge)
    report = asyncio.run(evaluator.evaluate(EvalSet(eval_cases=cases)))
    silent, answered = report.results
    assert silent.outcome is Outcome.FAILED
    assert silent.criterion_results[0].reason == "the agent gave no response in turn 1"
    assert answered.passed
    expected = (
        []
        if slot == "contains_keywords"
        else ['not compared: the expected answer of turn 1 (scope "turn" compares each)']
    )
    assert answered.criterion_results[0].details.get("notes", []) == expected


def test_damaged_record() -> None:
    """An agent that breaks its recorder breaks its own case; the others go on."""

    def agent(text: str, run: TrajectoryCollector) -> str:
        if text == "break":
            run.trajectory = None  # type: ignore[assignment]  # what a hostile agent does
        return "x"

    cases = [EvalCase.single_turn(text, text, "x") for text in ("first", "break", "last")]
    report = run(agent, CriteriaConfig(exact_match=CriterionConfig.exact_match()), *cases)
    assert [case.outcome.value for case in report.results] == ["passed", "error", "passed"]
    assert "damaged" in (report.results[1].error or "")


def test_working_directory_and_streams_are_put_back(tmp_path: Path) -> None:
    """Reports go where they were to go, whatever the agent did to the process."""
    before, streams = os.getcwd(), (sys.stdout, sys.stderr)

    def agent(text: str) -> str:
        os.chdir(tmp_path)
        sys.stdout.close()
        sys.stdout = sys.stderr = None  # what a hostile agent does
        return "x"

    try:
        report = run(
            agent, CriteriaConfig(exact_match=CriterionConfig.exact_match()), EvalCase.single_turn("c", "q", "x")
        )
        assert (os.getcwd(), (sys.stdout, sys.stderr)) == (before, streams)
        assert report.passed
        assert not sys.stdout.closed
    finally:
        os.chdir(before)
        sys.stdout, sys.stderr = streams


def test_budget_said_twice(tmp_path: Path) -> None:
    """Two budgets in one case are a load error: neither may win silently."""
    turn = {"user_content": {"role": "user", "content": "q"}}
    budgets = {"budget": {"max_tool_calls": 5}, "criteria": {"budget": {"max_tool_calls": 1}}}
    path = tmp_path / "s.json"
    path.write_text(
        json.dumps({"eval_set_id": "s", "eval_cases": [{"eval_id": "c", "conversation": [turn], **budgets}]})
    )
    with pytest.raises(LoadError, match=r"eval_cases\[0\]\.budget: criteria\.budget says it too"):
        EvalSet.from_file(path)


@pytest.mark.parametrize("name", ["respnse_match", "rouge_match"])
def test_controls_name_judged_slots(name: str, tmp_path: Path) -> None:
    """A control for a slot that no judge judges is a load error."""
    path = tmp_path / "c.json"
    control = {"question": "q", "answer": "a", "good": True, "criteria": [name]}
    path.write_text(json.dumps({"criteria": {}, "judge_controls": [control]}))
    with pytest.raises(LoadError, match=r"judge_controls\[0\]\.criteria\[0\]: must be 'response_match'"):
        EvalConfig.from_file(path)


def test_criterion_that_failed_has_not_passed() -> None:
    """Without a least mean score, every case has to have passed the criterion."""
    report = run(
        lambda text: "no",
        CriteriaConfig(exact_match=CriterionConfig.exact_match()),
        EvalCase.single_turn("c", "q", "x"),
    )
    with pytest.raises(AssertionError, match="failed 1 of 1"):
        assert_criterion_passed(report, "exact_match")
    assert_criterion_passed(report, "exact_match", 0.0)


def test_retries_are_in_the_summary() -> None:
    """A pass that took a second try says so."""
    calls: list[str] = []

    def agent(text: str) -> str:
        calls.append(text)
        if len(calls) == 1:
            raise ConnectionError("reset")
        return "x"

    criteria = CriteriaConfig(exact_match=CriterionConfig.exact_match())
    report = run(agent, criteria, EvalCase.single_turn("c", "q", "x"), retries=1)
    assert report.passed
    assert "1 retry in 1 cases, the first after ConnectionError: reset" in report.format_summary()


def test_empty_agent_option(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An unset variable of a CI script does not silently choose the config's agent."""
    EvalSet(eval_set_id="s", eval_cases=[EvalCase.single_turn("c", "q", "x")]).save(tmp_path / "s.json")
    (tmp_path / "c.json").write_text('{"agent": "agentflow_eval.examples.echo:agent", "criteria": {"rouge_match": {}}}')
    assert main(["run", str(tmp_path / "s.json"), "--config", str(tmp_path / "c.json"), "--agent", ""]) == 2
    assert "--agent is empty" in capsys.readouterr().err


def test_expectations_that_nothing_reads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A run says which expectations its criteria do not look at."""
    case = EvalCase.single_turn("c", "q", "q", expected_node_order=["MAIN"])
    case.forbidden_keywords = ["never"]
    EvalSet(eval_set_id="s", eval_cases=[case]).save(tmp_path / "s.json")
    (tmp_path / "c.json").write_text('{"agent": "agentflow_eval.examples.echo:agent", "criteria": {"rouge_match": {}}}')
    main(["run", str(tmp_path / "s.json"), "--config", str(tmp_path / "c.json"), "--no-report"])
    said = capsys.readouterr().err
    assert "expected_node_order of case 'c' is read by no criterion (node_order would)" in said
    assert "forbidden_keywords of case 'c' is read by no criterion" in said
    assert "expected_final_response" not in said
