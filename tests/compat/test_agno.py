from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from agno.eval import suite as original
from agno.models.message import Message
from agno.models.response import ModelResponse
from lxml import etree

from agentflow_eval.compat import agno as ours
from agentflow_eval.compat.agno import Case, CaseResult, JudgeMode, SuiteResult, acli, arun_cases, cli, run_cases
from agentflow_eval.reporters import HTMLReporter, JUnitXMLReporter
from agentflow_eval.result import ErrorKind
from tests.adapters.test_agno import RuleModel, once, text
from tests.compat.agno_suite import ADD, YES, cases, judge, named, seen


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """agno writes failed tools to standard error."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def one(case: Case, **options: Any) -> CaseResult:
    """The result of one case."""
    return run_cases([case], **options).results[0]


# The same suite here and there


def test_side_by_side() -> None:
    """The same suite gives the same payload, field by field, and calls setup and teardown alike."""
    logs: list[list[str]] = [[], []]
    both = [evals.run_cases(cases(evals, log)) for evals, log in zip((original, ours), logs, strict=True)]
    theirs, mine = (seen(suite) for suite in both)
    for case, expected in zip(mine["cases"], theirs["cases"], strict=True):
        if case["judge_passed"] is False and case["judge_reason"] is not None:
            case["judge_reason"] = expected["judge_reason"]
        assert case == expected
    assert mine == theirs
    assert logs[0] == logs[1]
    assert both[1].status == "FAIL"
    assert (both[1].total, both[1].passed, both[1].failed) == (27, 13, 14)


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--name", "judged"],
        ["--tag", "slow"],
        ["--name", "nobody"],
        ["--name", "judged", "--tag", "slow"],
        ["--list"],
        ["--list", "--tag", "slow", "--timeout", "5"],
        ["--name", "tool", "-v", "--timeout", "5"],
    ],
)
def test_command_lines_side_by_side(arguments: list[str], tmp_path: Path) -> None:
    """Same exit code, same file."""
    codes: list[int] = []
    files: list[Any] = []
    for evals in (original, ours):
        path = tmp_path / f"{evals.__name__}.json"
        codes.append(evals.cli(cases(evals, []), argv=[*arguments, "--json-output", str(path)]))
        files.append(json.loads(path.read_text()) if path.is_file() else None)
    assert codes[0] == codes[1]
    if files[0] is not None and "summary" in files[0]:
        assert [file["summary"] for file in files] == [files[0]["summary"]] * 2
        assert [[c["passed"] for c in file["cases"]] for file in files] == [
            [c["passed"] for c in files[0]["cases"]]
        ] * 2
    else:
        assert files[0] == files[1]


# Construction


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"criteria": "x"}, "provide one of 'agent' or 'team'"),
        ({"agent": 1, "team": 2, "criteria": "x"}, "provide only one of 'agent' or 'team'"),
        ({"agent": 1}, "no checks: set criteria"),
        ({"agent": 1, "criteria": "", "expected_tool_calls": ()}, "no checks: set criteria"),
        ({"agent": 1, "criteria": "x", "judge_mode": "odd"}, "judge_mode must be a JudgeMode, got 'odd'"),
        ({"agent": 1, "criteria": "x", "judge_threshold": 11}, "judge_threshold must be 1-10, got 11"),
        ({"agent": 1, "criteria": "x", "judge_threshold": 0}, "judge_threshold must be 1-10, got 0"),
        ({"agent": 1, "criteria": "x", "timeout_seconds": 0}, "timeout_seconds must be above 0, got 0"),
        ({"agent": 1, "expected_tool_calls": "add"}, "expected_tool_calls is a tuple of names, such as ('add',)"),
    ],
)
def test_construction_errors(options: dict[str, Any], problem: str) -> None:
    """A case that makes no sense cannot be made."""
    with pytest.raises(ValueError, match="case 'n': ") as raised:
        Case(name="n", input="hi", **options)
    assert problem in str(raised.value)


def test_modes() -> None:
    """A mode is itself or its text."""
    assert Case("n", "hi", agent=1, criteria="x", judge_mode="numeric").judge_mode is JudgeMode.NUMERIC  # type: ignore[arg-type]
    assert Case("n", "hi", agent=1, criteria="x").judge_mode is JudgeMode.BINARY
    assert (JudgeMode.BINARY.value, JudgeMode("numeric")) == ("binary", JudgeMode.NUMERIC)


# Judges


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (RuleModel(rule=lambda messages: text("no verdict")), "judge: rubric_based: "),
        (RuleModel(rule=lambda messages: 1 / 0), "ZeroDivisionError"),
        (judge(reason="nothing said"), "judge: rubric_based: "),
    ],
)
def test_broken_judge(model: Any, said: str) -> None:
    """A judge without a usable verdict is an error that says why, never a verdict."""
    result = one(Case("n", "hi", agent=named(), criteria="be nice", judge_model=model))
    assert (result.passed, result.judge_passed) == (False, None)
    assert said in str(result.error)


def test_score_between_two_numbers() -> None:
    """The score that is shown never says more than the verdict."""
    model = judge(score=6.6, reason="nearly")
    result = one(Case("n", "hi", agent=named(), criteria="x", judge_mode=JudgeMode.NUMERIC, judge_model=model))
    assert (result.passed, result.judge_passed, result.judge_score) == (False, False, 6)


def test_judge_of_the_suite() -> None:
    """The runner's judge serves cases without their own."""
    assert one(Case("n", "hi", agent=named(), criteria="be nice"), judge_model=YES).passed


def test_no_judge(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without any, the default is asked, and a missing key is an error."""
    for name in ("GEMINI_API_KEY", "GOOGLE_API_KEY", "AGENTFLOW_EVAL_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    result = one(Case("n", "hi", agent=named(), criteria="be nice"))
    assert "needs a key: set GEMINI_API_KEY" in str(result.error)


def test_empty_answer() -> None:
    """Nothing said is not judged, and is not nice."""
    result = one(Case("n", "hi", agent=named(lambda messages: text("")), criteria="be nice", judge_model=YES))
    assert (result.passed, result.judge_passed) == (False, False)


# Runs


def test_timeout() -> None:
    """A run that takes too long is stopped; what it called is kept, and teardown is called."""
    log: list[str] = []
    case = Case(
        "n",
        "hi",
        agent=named(once(("hang", {}))),
        expected_tool_calls=("hang",),
        timeout_seconds=1,
        teardown=lambda context, result: log.append(f"{result.timed_out}"),
    )
    result = one(case)
    assert (result.timed_out, result.passed, result.reliability_passed) == (True, False, None)
    assert (result.tools_called, log) == (("hang",), ["True"])
    assert result.error == "timeout: the run took longer than 1 s"


class SlowJudge(RuleModel):
    """A judge that never comes to its end."""

    async def ainvoke(self, *_args: Any, **_options: Any) -> ModelResponse:
        """Waits."""
        await asyncio.Event().wait()
        raise AssertionError


@pytest.mark.parametrize("evals", [original, ours])
def test_judging_is_inside_the_timeout(evals: Any) -> None:
    """The limit is the case's, the judge's time included; what the run gave is kept. There and here."""
    model = SlowJudge(rule=lambda messages: text(""))
    case = evals.Case(
        "n",
        "hi",
        agent=named(once(ADD)),
        criteria="x",
        judge_model=model,
        expected_tool_calls=("add",),
        timeout_seconds=1,
    )
    suite = evals.run_cases([case])
    result = suite.results[0]
    assert (result.timed_out, result.passed, result.judge_passed, result.reliability_passed) == (
        True,
        False,
        None,
        None,
    )
    assert str(result.error).startswith("timeout: ")
    assert (result.tools_called, result.output) == (("add",), result.response.content)
    if evals is ours:
        (reported,) = suite.to_report().results
        assert (reported.error_kind, reported.actual_response) == (ErrorKind.TIMEOUT, result.output)


def test_default_timeout() -> None:
    """The runner's limit counts for cases without their own."""
    result = one(Case("n", "hi", agent=named(once(("hang", {}))), expected_tool_calls=("hang",)), default_timeout=1)
    assert result.timed_out


def test_setup_is_outside_the_timeout() -> None:
    """Setup and teardown take the time that they need, and count in the duration."""

    async def slow(*_args: Any) -> None:
        await asyncio.sleep(0.3)

    case = Case("n", "hi", agent=named(), criteria="x", judge_model=YES, setup=slow, teardown=slow)
    result = one(case)
    assert result.passed
    assert result.duration_seconds >= 0.6


def test_response() -> None:
    """What agno returned is there for programs, and not in the payload."""
    result = one(Case("n", "hi", agent=named(once(ADD)), expected_tool_calls=("add",)))
    assert result.response.content == result.output
    assert result.session_id == result.response.session_id
    assert "response" not in result.to_dict()


# Hooks


def test_hooks() -> None:
    """Hooks see every case, also skipped ones, and every event of a run."""
    log: list[str] = []
    events: list[str] = []
    suite = cases(ours, [])[-3:]
    run_cases(
        suite,
        on_case_start=lambda case: log.append(f"start {case.name}"),
        on_case_end=lambda case, result: log.append(f"end {case.name} {result.skipped}"),
        on_run_event=lambda case, event: events.append(type(event).__name__),
    )
    assert log == [
        "start broken teardown",
        "end broken teardown False",
        "start cancelled",
        "end cancelled False",
        "end never run True",
    ]
    assert events[0] == "RunStartedEvent"


def test_broken_hooks() -> None:
    """What a hook raises is an error of its case, once, and aborts nothing."""

    def broken(*_args: Any) -> None:
        raise KeyError("x")

    async def asynchronous(*_args: Any) -> None:
        raise AssertionError("never called")

    made = Case("n", "hi", agent=named(), criteria="x", judge_model=YES)
    result = one(made, on_case_start=broken, on_case_end=broken, on_run_event=broken)
    assert result.error == "; ".join(
        f"hook: {name} KeyError: 'x'" for name in ("on_case_start", "on_run_event", "on_case_end")
    )
    assert (result.passed, result.judge_passed) == (False, True)
    assert "hook: on_case_start TypeError: a hook" in str(one(made, on_case_start=asynchronous).error)


def leave(*_args: Any) -> None:
    """Tries to end the process as if all were well."""
    sys.exit(0)


def stray(*_args: Any) -> None:
    """Raises a cancellation that nobody asked for."""
    raise asyncio.CancelledError


class AsyncHook:
    """An object whose call is asynchronous."""

    async def __call__(self, *_args: Any) -> None:
        """Is never awaited."""
        raise AssertionError("never called")


@pytest.mark.parametrize("name", ["on_case_start", "on_case_end", "on_run_event"])
@pytest.mark.parametrize("hook", [AsyncHook(), lambda *_args: AsyncHook()(), leave, stray])
def test_hooks_that_cannot_be(name: str, hook: Any) -> None:
    """Hooks that would have to be awaited, and those that want to end the run, are an error of each case."""
    suite = [Case(n, "hi", agent=named(), criteria="x", judge_model=YES) for n in ("one", "two")]
    results = run_cases(suite, **{name: hook}).results
    assert [(result.passed, result.judge_passed) for result in results] == [(False, True)] * 2
    assert all(str(result.error).startswith(f"hook: {name} ") for result in results)


@pytest.mark.parametrize("ends", [leave, stray])
@pytest.mark.parametrize(("step", "prefix"), [("setup", "setup: "), ("teardown", "cleanup: ")])
def test_steps_that_end_the_process(step: str, prefix: str, ends: Any) -> None:
    """What a setup or a teardown does to the process is an error of its case; the suite goes on, the exit code is 1."""
    suite = [
        Case("one", "hi", agent=named(), criteria="x", judge_model=YES, **{step: ends}),
        Case("two", "hi", agent=named(), criteria="x", judge_model=YES),
    ]
    made = run_cases(suite)
    assert str(made.results[0].error).startswith(prefix)
    assert [result.passed for result in made.results] == [False, True]
    assert [result.error_kind for result in made.to_report().results] == [ErrorKind.FIXTURE, None]
    assert cli(suite, argv=[]) == 1


def test_teardown_of_a_suite_that_is_stopped() -> None:
    """Whoever stops the suite still gets the teardown of the case that ran."""
    log: list[Any] = []

    async def main() -> None:
        started = asyncio.Event()
        case = Case(
            "n",
            "hi",
            agent=named(once(("hang", {}))),
            expected_tool_calls=("hang",),
            setup=lambda: "context",
            teardown=lambda context, result: log.append(context),
        )
        suite = asyncio.create_task(arun_cases([case], on_run_event=lambda case, event: started.set()))
        await started.wait()
        suite.cancel()
        await suite

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(main())
    assert log == ["context"]


def test_an_error_that_speaks_of_cancelling() -> None:
    """Only a run that agno cancelled aborts the suite, whatever the words of an error are."""

    def refuse(messages: list[Message]) -> ModelResponse:
        raise RuntimeError("order 7 was cancelled")

    suite = [
        Case("one", "hi", agent=named(refuse), criteria="x", judge_model=YES),
        Case("two", "hi", agent=named(), criteria="x", judge_model=YES),
    ]
    assert [(result.passed, result.skipped) for result in run_cases(suite).results] == [(False, False), (True, False)]


# Suites


def test_empty_suite() -> None:
    """Nothing selected is no success."""
    assert SuiteResult().status == "FAIL"
    assert run_cases([Case("n", "hi", agent=named(), criteria="x")], name="m").to_dict() == {
        "summary": {"total": 0, "passed": 0, "failed": 0, "status": "FAIL"},
        "cases": [],
    }
    assert not SuiteResult().to_report().gate_passed


def test_result_without_checks() -> None:
    """A result that nothing checked has not passed."""
    assert not CaseResult("n").passed


def test_inside_a_loop(capsys: pytest.CaptureFixture[str]) -> None:
    """The awaitable variants."""

    async def main() -> tuple[str, int]:
        made = Case("n", "hi", agent=named(), criteria="x", judge_model=YES)
        return (await arun_cases([made])).status, await acli([made], argv=[])

    assert asyncio.run(main()) == ("PASS", 0)
    assert "PASS: 1/1 passed, 0 failed" in capsys.readouterr().out


def test_output(capsys: pytest.CaptureFixture[str]) -> None:
    """What failed is said with its reason."""
    assert cli(cases(ours, []), argv=["--name", "one of two", "-v"]) == 1
    printed = capsys.readouterr().out
    assert "FAIL  one of two" in printed
    assert "tools: slowly was not called" in printed
    assert "tool calls: add" in printed


@pytest.mark.parametrize("arguments", [["--nothing"], ["--timeout", "0"], ["--timeout", "soon"]])
def test_bad_options(arguments: list[str]) -> None:
    """An option that makes no sense ends the process with 2."""
    with pytest.raises(SystemExit) as raised:
        cli([], argv=arguments)
    assert raised.value.code == 2


def test_output_that_cannot_be_written(tmp_path: Path) -> None:
    """A file that cannot be written is a failure."""
    (tmp_path / "file").write_text("")
    target = str(tmp_path / "file" / "x.json")
    assert cli(cases(ours, [])[:1], argv=["--json-output", target]) == 1


def test_to_report() -> None:
    """The suite as HTML and JUnit, with the same verdicts."""
    suite = run_cases(cases(ours, []))
    report = suite.to_report()
    assert [result.passed for result in report.results] == [result.passed for result in suite.results]
    assert "slowly was not called" in HTMLReporter().render(report)
    document = etree.fromstring(JUnitXMLReporter().render(report).encode())
    assert document.get("tests") == "27"
