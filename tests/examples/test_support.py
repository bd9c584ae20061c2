"""The example agents, eval sets and configs."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest

from agentflow_eval.adapters import Session, Turn, adapt
from agentflow_eval.cli import main
from agentflow_eval.collector import TrajectoryCollector
from agentflow_eval.config import EvalConfig, ReporterConfig
from agentflow_eval.dataset import EvalSet
from agentflow_eval.evaluator import AgentEvaluator
from agentflow_eval.examples import echo, triage
from agentflow_eval.examples.support import agent, broken, checks, store
from agentflow_eval.result import EvalReport

ROOT = Path(__file__).parents[2]
EVALSETS = sorted((ROOT / "evalsets").glob("*.json"))
CONFIGS = sorted((ROOT / "configs").glob("*.json"))
SUPPORT = ROOT / "evalsets" / "support.evalset.json"
TRIAGE = ROOT / "evalsets" / "triage.evalset.json"
CRITERIA = {
    "tool_name_match_score",
    "tool_trajectory_avg_score",
    "node_order_score",
    "rouge_match",
    "contains_keywords",
    "exact_match",
    "budget",
}


def config(name: str, **settings: Any) -> EvalConfig:
    loaded = EvalConfig.from_file(ROOT / "configs" / f"{name}.json")
    return loaded.model_copy(update={"reporter": ReporterConfig(enabled=False), **settings})


def run(graph: Any, name: str, eval_set: EvalSet | Path = SUPPORT, **settings: Any) -> EvalReport:
    return AgentEvaluator(graph, config=config(name, **settings)).run_sync(eval_set)


def reasons(report: EvalReport, eval_id: str) -> str:
    result = report.get_case_result(eval_id)
    assert result is not None
    return "\n".join(result.explanation())


@pytest.fixture(scope="module")
def bad() -> EvalReport:
    return run(broken.graph, "ci")


def test_folders_are_not_empty() -> None:
    """The folders of the examples hold what the README names."""
    assert {path.name for path in EVALSETS} >= {"support.evalset.json", "triage.evalset.json"}
    assert {path.name for path in CONFIGS} >= {"smoke.json", "strict.json", "ci.json", "triage.json"}


@pytest.mark.parametrize("path", EVALSETS, ids=lambda path: path.name)
def test_every_eval_set_loads(path: Path) -> None:
    """Every file in evalsets/ loads, and every case has a name and an id of its own."""
    eval_set = EvalSet.from_file(path)
    assert len(eval_set) == len({case.eval_id for case in eval_set})
    assert [case.eval_id for case in eval_set if not case.name] == []


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.name)
def test_every_config_loads(path: Path) -> None:
    """Every file in configs/ loads and switches something on."""
    assert EvalConfig.from_file(path).criteria.enabled()


def test_check_command() -> None:
    """The files pass the check command."""
    assert main(["check", *map(str, [*EVALSETS, *CONFIGS])]) == 0


@pytest.mark.parametrize("name", ["smoke", "strict", "ci"])
def test_good_agent_passes(name: str) -> None:
    """The support agent passes every case under every config."""
    report = run(agent.graph, name)
    assert [result.explanation() for result in report.failed_cases] == []
    assert report.gate_passed


def test_all_deterministic_criteria_judge() -> None:
    """Together the cases give every criterion that needs no judge something to do."""
    stats = run(agent.graph, "ci").summary.criterion_stats
    assert {name for name, one in stats.items() if one.scored} == CRITERIA


def test_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The README's command exits with 0 and writes all reports; with the broken agent it exits with 1."""
    for folder in ("evalsets", "configs", "reporters"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    monkeypatch.chdir(tmp_path)
    command = ["run", "evalsets/support.evalset.json", "--config", "configs/ci.json"]
    assert main(command) == 0
    written = {path.name for path in (tmp_path / "eval_reports").iterdir()}
    assert {"support.json", "support.html", "support_junit.xml", "support_summary.md"} == written
    assert main([*command, "--agent", "agentflow_eval.examples.support.broken:graph"]) == 1
    assert "1003" in (tmp_path / "eval_reports" / "support_summary.md").read_text("utf-8")


def test_broken_agent_fails(bad: EvalReport) -> None:
    """Only the two questions that the broken agent gets right pass."""
    assert [result.eval_id for result in bad.passed_cases] == ["greeting", "human-wanted"]
    assert not bad.gate_passed


@pytest.mark.parametrize(
    ("eval_id", "text"),
    [
        ("parcel-on-its-way", 'args.order_id: expected 1002, got "1002" (type string, not number)'),
        ("refund-in-full", "lookup_order was not called"),
        ("what-and-where", "search_policy was called and is not expected"),
        ("what-and-where", "expected lookup_order(order_id=1002), got track_shipment(order_id=1002)"),
        ("order-status", "got get_order(order_id=1001)"),
        ("policy-refunds", "missing words"),
        ("policy-unknown", 'forbidden keyword in the answer: "days"'),
        ("policy-warranty", "the agent gave no response"),
        ("talk-refund", 'not in the answer: "189.00 euros"'),
        ("address-change", "RuntimeError: no address service for [1005]"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_every_kind_of_failure(bad: EvalReport, eval_id: str, text: str) -> None:
    """The report shows what went wrong."""
    assert text in reasons(bad, eval_id)


def test_tool_errors_are_evidence(bad: EvalReport) -> None:
    """A tool that does not exist is a call with an error; a tool that refuses is one too."""
    unknown, refused = bad.get_case_result("order-status"), bad.get_case_result("refund-twice")
    assert unknown is not None
    assert refused is not None
    assert "not a valid tool" in (unknown.actual_tool_calls[0].error or "")
    assert refused.actual_tool_calls[0].error == "Order 1006 has already been refunded."


def test_same_refund_in_parallel() -> None:
    """Sixteen conversations refund the same order at once; none sees another's refund."""
    case = EvalSet.from_file(SUPPORT).get_case("talk-refund-again")
    assert case is not None
    cases = [case.model_copy(update={"eval_id": f"{case.eval_id}-{number}"}) for number in range(16)]
    report = run(agent.graph, "ci", EvalSet(eval_set_id="same", eval_cases=cases), parallel=True, max_concurrency=16)
    assert report.summary.passed_cases == 16


def test_old_conversations_are_forgotten() -> None:
    """Thousands of conversations leave the latest ones behind and no more."""
    graph: Any = agent.build_graph()

    async def greet() -> None:
        for number in range(store.CONVERSATIONS_KEPT + 50):
            config = {"configurable": {"thread_id": f"many-{number}"}}
            await graph.ainvoke({"messages": [{"role": "user", "content": "hi"}]}, config)

    asyncio.run(greet())
    assert len(graph.checkpointer.storage) == store.CONVERSATIONS_KEPT
    for number in range(store.CONVERSATIONS_KEPT + 50):
        store.store_of(f"shop-{number}")
    assert len(store._stores) == store.CONVERSATIONS_KEPT


def test_examples_know_nothing_of_the_package() -> None:
    """No example imports the package that evaluates it."""
    sources = (ROOT / "agentflow_eval" / "examples").rglob("*.py")
    assert [path.name for path in sources if "agentflow_eval" in path.read_text("utf-8")] == []


def test_triage_passes() -> None:
    """A graph without messages passes its set through input_key and output_key."""
    report = run(triage.graph, "triage", TRIAGE)
    assert [result.explanation() for result in report.failed_cases] == []
    assert report.gate_passed


def test_echo() -> None:
    """The function agent records its nodes and its tool."""
    eval_set = EvalSet.model_validate(
        {
            "eval_set_id": "echo",
            "eval_cases": [
                {
                    "eval_id": "shout",
                    "conversation": [
                        {
                            "user_content": {"role": "user", "content": "shout: hi"},
                            "expected_tool_trajectory": [{"name": "upper", "args": {"text": "hi"}}],
                            "expected_node_order": ["LISTEN", "SPEAK"],
                            "expected_final_response": {"role": "assistant", "content": "You said: HI!"},
                        }
                    ],
                }
            ],
        }
    )
    assert run(echo.agent, "ci", eval_set).gate_passed


def refunds(graph: Any) -> EvalReport:
    """The report of the eval set that is judged by functions."""
    config = EvalConfig.from_file(ROOT / "configs" / "refunds.json")
    config.reporter = ReporterConfig(enabled=False)
    return AgentEvaluator(graph, config=config).run_sync(ROOT / "evalsets" / "refunds.evalset.json")


def test_checks_of_our_own() -> None:
    """Functions find in the database and in each turn's answer what the agent says; the broken agent names no order."""
    good = refunds(agent.graph)
    assert [result.explanation() for result in good.failed_cases] == []
    names = ["budget", "check:refund_is_booked", "check:within_the_limit", "check:names_the_order"]
    assert list(good.summary.criterion_stats) == names
    failed = {criterion.criterion for result in refunds(broken.graph).results for criterion in result.failed_criteria}
    assert failed == {"check:names_the_order"}


class Run:
    """What a check is given, as far as ours look."""

    def __init__(self, **call: Any) -> None:
        self.session = type("Session", (), {"thread_id": "nobody-asked-for-a-refund-here"})()
        self.tool_calls = [type("Call", (), {"name": "refund_order", "error": None, "args": call})()] if call else []
        self.response = "Done."


def test_what_is_not_booked_is_found() -> None:
    """An agent that only says so is found out."""
    assert checks.refund_is_booked(Run()) == "no refund was granted"
    said = checks.refund_is_booked(Run(order_id=1002, amount=24.0))
    assert said == "order 1002 is not refunded in the database"
    assert checks.names_the_order(Run(order_id=1002)) == 0.0
    assert checks.names_the_order(Run()) == "no tool worked on an order in this turn"


def test_refund_that_is_only_talk_is_found() -> None:
    """An agent that does the first refund and only claims the second fails that case."""

    class Lazy:
        inner = adapt(agent.graph)

        async def run_turn(self, turn: Turn, session: Session, collector: TrajectoryCollector) -> None:
            if turn.index == 0:
                await self.inner.run_turn(turn, session, collector)
            else:
                collector.say("I have refunded 20 euros of order 1001 too.")

    report = refunds(Lazy())
    assert [result.eval_id for result in report.passed_cases] == ["booked"]
    assert "no tool worked on an order in this turn" in reasons(report, "two-orders")
