from __future__ import annotations

import asyncio
from typing import Any

import pytest
from lxml import etree
from tulip import evaluation as original
from tulip.testing import FunctionModel, text

from agentflow_eval.compat import tulip as ours
from agentflow_eval.compat.tulip import (
    EvalCase,
    EvalReport,
    EvalResult,
    EvalRunner,
    JudgeUnavailableError,
    LLMJudge,
    Verdict,
    as_eval_target,
    check_trajectory,
)
from agentflow_eval.reporters import HTMLReporter, JUnitXMLReporter
from tests.adapters.test_tulip import agent
from tests.compat.tulip_suite import ADD, broken, cases, graph_cases, judge, route, seen, worker

GOOD = '{"passed": true, "score": 0.9, "reason": "ok"}'


def one(subject: Any, **expected: Any) -> EvalResult:
    """The result of one case."""
    return EvalRunner(subject).run([EvalCase(name="c", prompt="hi", **expected)]).results[0]


class Mute:
    """An agent that says nothing."""

    def run_sync(self, prompt: str) -> Any:
        return type("Result", (), {"message": "", "iterations": 1, "tool_executions": ()})()


# The same suite here and there


def test_side_by_side() -> None:
    """The same suite says the same in every field, one after the other and several at once."""
    runs = [seen(evals.EvalRunner(worker()).run(cases(evals))) for evals in (original, ours)]
    assert runs[0] == runs[1]
    both = [
        seen(asyncio.run(evals.EvalRunner(worker(), judge=judge(evals, GOOD), concurrency=3).arun(cases(evals))))
        for evals in (original, ours)
    ]
    assert both[0] == both[1]
    assert (both[1]["passed"], both[1]["failed"]) == (14, 8)
    without = [seen(asyncio.run(evals.EvalRunner(worker()).arun(cases(evals)))) for evals in (original, ours)]
    assert without[0] == without[1]


def test_graphs_side_by_side() -> None:
    """Nodes count as tools, and the answer is found where it was said to be."""
    for where in ({"output_key": "answer"}, {"output_node": "billing"}):
        reports = []
        for evals in (original, ours):
            target = evals.as_eval_target(route(), input_key="question", initial_state={"shop": "Berlin"}, **where)
            reports.append(evals.EvalRunner(agent=target).run(graph_cases(evals)))
        mine, theirs = seen(reports[1]), seen(reports[0])
        if "output_node" in where:  # how another value than text is shown is not the point
            for result in [*mine["results"], *theirs["results"]]:
                result["output"] = "Refunded" in result["output"]
        assert mine == theirs


@pytest.mark.parametrize(
    ("actual", "expected", "exact"),
    [
        (["a", "b", "c"], ["a", "c"], False),
        (["a", "b"], ["b", "a"], False),
        (["a"], ["a", "a"], False),
        (["a", "b", "a"], ["b", "a"], False),
        ([], [], False),
        (["a"], [], False),
        ([], ["a"], False),
        (["a"], ["a"], True),
        (["a", "b"], ["a"], True),
        (["a"], [], True),
    ],
)
def test_trajectories_side_by_side(actual: list[str], expected: list[str], exact: bool) -> None:
    """The same verdict, and the same words where it fails."""
    theirs = original.check_trajectory(actual, expected, exact=exact)
    mine = check_trajectory(actual, expected, exact=exact)
    assert mine[0] == theirs[0]
    assert mine[0] or mine[1] == theirs[1]


def test_models_side_by_side() -> None:
    """Same fields, same defaults."""
    for name in ("EvalCase", "EvalResult", "EvalReport", "Verdict"):
        fields = [getattr(evals, name).model_fields for evals in (original, ours)]
        assert list(fields[0]) == list(fields[1])
        assert [f.get_default(call_default_factory=True) for f in fields[0].values()] == [
            f.get_default(call_default_factory=True) for f in fields[1].values()
        ]


# False greens


def test_failed_tool_was_not_called_as_expected() -> None:
    """A tool that raised meets no expectation; that it was called is told."""
    result = one(agent(("fail", {"why": "x"})), expected_tools=["fail"], expected_tool_sequence=["fail"])
    assert (result.passed, result.score, result.tools_called) == (False, 0.0, ["fail"])


def test_mute_agent() -> None:
    """Nothing said is not the absence of something bad."""
    assert one(Mute(), expected_output_not_contains=["error"]).checks == {"output_not_contains:error": False}


def test_suite_that_checked_nothing() -> None:
    """An empty suite, and a case without expectations, have not passed."""
    report = EvalRunner(worker()).run([])
    assert (report.passed, report.to_report().gate_passed) == (0, False)
    assert one(worker()).checks == {"has_expectations": False}


def test_broken_agent() -> None:
    """What is raised is the case's error, and no check passed."""
    result = one(broken(), expected_output_not_contains=["error"])
    assert (result.passed, result.checks) == (False, {})
    assert "no model" in str(result.error)


def test_time_budget() -> None:
    """An agent is stopped at its limit, and nothing of it counts."""
    report = EvalRunner(agent(("hang", {}))).run([EvalCase(name="c", prompt="hi", max_duration_ms=50)])
    result = report.results[0]
    assert (result.timed_out, report.timed_out) == (True, 1)
    assert result.checks == {"within_duration_budget": False}
    assert result.error == "timed out: still running at its 50ms budget"


# Judges


def verdict(reply: str) -> Any:
    """What a judge's reply comes to."""
    return asyncio.run(judge(ours, reply).score(prompt="p", output="o", rubric="r"))


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (GOOD, (True, 0.9, "ok", False)),
        ('{"passed": true}', (True, 1.0, "", False)),
        ('{"passed": false, "reason": "bad"}', (False, 0.0, "bad", False)),
        ('{"passed": "false"}', (False, 0.0, "", False)),
        ('```json\n{"passed": true, "score": 0.8}\n```', (True, 0.8, "", False)),
        ('{"passed": true, "score": 9}', (True, 1.0, "", False)),
    ],
)
def test_verdicts(reply: str, expected: tuple[Any, ...]) -> None:
    """What a judge says is read as it says it."""
    said = verdict(reply)
    assert (said.passed, said.score, said.reason, said.unparseable) == expected


@pytest.mark.parametrize("reply", ["", "  ", "looks good to me", '{"score": 7}', '{"passed": "maybe"}', "{"])
def test_replies_without_a_verdict(reply: str) -> None:
    """A reply without a verdict is none, and fails with its reason."""
    said = verdict(reply)
    assert (said.passed, said.score, said.unparseable) == (False, 0.0, True)
    assert said.reason


def test_judge_is_asked_once() -> None:
    """No second try, whatever it says."""
    asked: list[Any] = []

    def rule(messages: Any, tools: Any) -> Any:
        asked.append(messages)
        return text("no verdict")

    runner = EvalRunner(worker(), judge=LLMJudge(FunctionModel(rule)))
    report = asyncio.run(runner.arun([EvalCase(name="c", prompt="hi", rubric="Is it nice?")]))
    assert (report.passed, len(asked)) == (0, 1)
    assert next(iter(report.results[0].checks)).startswith("judge_unparseable:")


def test_unavailable_judge() -> None:
    """A judge that is down is an error of its own, and what was found out before is kept."""

    def down(messages: Any, tools: Any) -> Any:
        raise ConnectionError("down")

    runner = EvalRunner(worker(), judge=LLMJudge(FunctionModel(down)))
    suite = [EvalCase(name="a", prompt="hi", expected_tools=["add"]), EvalCase(name="b", prompt="hi", rubric="r")]
    with pytest.raises(JudgeUnavailableError, match="ConnectionError: down") as raised:
        asyncio.run(runner.arun(suite))
    assert isinstance(raised.value, RuntimeError)
    assert raised.value.report is not None
    assert [result.passed for result in raised.value.report.results] == [True, False]


def test_other_judge() -> None:
    """Anything that scores is a judge."""

    class Strict:
        async def score(self, *, prompt: str, output: str, rubric: str) -> Verdict:
            return Verdict(passed=False, score=0.25, reason=f"{rubric}: {output}")

    report = asyncio.run(EvalRunner(agent(), judge=Strict()).arun([EvalCase(name="c", prompt="hi", rubric="short")]))
    assert (report.results[0].checks, report.avg_score) == ({"rubric:short: hello": False}, 0.0)


# Other doors


def test_run_inside_a_loop() -> None:
    """The sync door works for callers that have a loop already."""

    async def main() -> int:
        return EvalRunner(worker()).run([EvalCase(name="c", prompt="hi", expected_tools=["add"])]).passed

    assert asyncio.run(main()) == 1


def test_anything_with_run_sync() -> None:
    """An object that is called like an agent of tulip is one."""

    class Own:
        def run_sync(self, prompt: str) -> Any:
            call = type("Call", (), {"tool_name": "look", "arguments": {"for": prompt}, "error": None})()
            bad = type("Call", (), {"tool_name": "book", "arguments": {}, "error": "full"})()
            return type("Result", (), {"message": "there", "iterations": 2, "tool_executions": (call, bad)})()

    result = one(Own(), expected_tools=["look", "book"], expected_output_contains=["there"], max_iterations=2)
    assert result.checks == {
        "tool_called:look": True,
        "tool_called:book": False,
        "output_contains:there": True,
        "within_iteration_budget": True,
    }


def test_graph_target() -> None:
    """A target by itself, and the error of the document."""
    target = as_eval_target(route(), input_key="question", output_key="answer", initial_state={"shop": "Berlin"})
    result = target.run_sync("order 7")
    assert (result.message, result.iterations) == ("Refunded order 7, Berlin", 2)
    assert [node.tool_name for node in result.tool_executions] == ["classify", "billing"]
    with pytest.raises(ValueError, match="not both"):
        as_eval_target(route(), output_key="a", output_node="billing")


def test_examples_of_the_document() -> None:
    """The examples, word for word but for the agents."""
    case = EvalCase(
        name="ioc_triage",
        prompt="Is 198.51.100.23 malicious? Enrich it and decide.",
        expected_tools=["enrich_indicator"],
        expected_output_contains=["malicious", "198.51.100.23"],
        max_iterations=5,
    )
    assert case.max_iterations == 5
    runner = EvalRunner(agent=agent(ADD))
    report = runner.run(
        [
            EvalCase(name="basic", prompt="Hello", expected_output_contains=["3"]),
            EvalCase(name="tool_use", prompt="Search for X", expected_tools=["add"]),
        ]
    )
    assert report.summary().startswith("Eval Report: 2/2 passed (avg score: 1.00)\nTotal duration: ")


def test_to_report() -> None:
    """The suite as HTML and JUnit, with the same verdicts."""
    suite = EvalRunner(worker()).run(cases(ours))
    report = suite.to_report()
    assert [result.passed for result in report.results] == [result.passed for result in suite.results]
    assert "tool_called:search: FAILED" in HTMLReporter().render(report)
    document = etree.fromstring(JUnitXMLReporter().render(report).encode())
    assert document.get("tests") == "22"
    assert EvalReport().to_report().results == []
