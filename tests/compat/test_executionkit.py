from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from lxml import etree

from agentflow_eval.compat import executionkit as evals
from agentflow_eval.compat.executionkit import (
    LIVE_EVAL_MIN_ACCURACY,
    ConversationScript,
    EvalCase,
    EvalReport,
    EvalResult,
    Turn,
    live_provider_from_env,
    run_conversation_script,
    run_eval_suite,
)
from agentflow_eval.reporters import HTMLReporter, JUnitXMLReporter
from tests.compat.executionkit_suite import answer, cases, seen


def suite(*made: Any, **options: Any) -> EvalReport:
    """The report of a suite."""
    return asyncio.run(run_eval_suite(list(made), **options))


def one(check: Any, run: Any = answer) -> EvalResult:
    """The result of one case."""
    return suite(EvalCase("c", run, check)).results[0]


def test_suite() -> None:
    """Every kind of verdict, of run and of fault, as the original reports it."""
    report = suite(*cases(evals))
    assert [(r.passed, r.reason) for r in report.results] == [
        *[(True, "passed")] * 3,
        (False, "check returned False"),
        (False, "expected Berlin, got Paris"),
        (False, " "),
        *[(True, "passed")] * 3,
        (False, "empty"),
        (False, "ValueError: no connection"),
        (False, "RuntimeError: "),
        (False, "ZeroDivisionError: division by zero"),
        (False, "AssertionError: got Paris"),
        *[(True, "passed")] * 3,
        (False, "check returned False"),
        (True, "passed"),
        (False, "check returned False"),
        (True, "passed"),
        (False, "\u00fc"),
        (False, "KeyError: 'country'"),
        (False, "x" * 5000),
    ]
    assert [r.name for r in report.results] == [case.name for case in cases(evals)]
    assert dict(report.results[16].metadata) == {"tags": ["smoke"], "n": 1}
    assert (report.summary(), report.passed, report.failed_count) == ("11/24 passed (45.8% accuracy)", False, 13)


def test_gates() -> None:
    """All have to pass, or the share that was asked for."""
    good, bad = EvalCase("a", answer, lambda r: True), EvalCase("b", answer, lambda r: False)
    assert suite(good).passed
    assert (suite(good, bad).passed, suite(good, bad).accuracy_passed) == (False, False)
    assert suite(good, bad, min_accuracy=0.5).accuracy_passed
    assert not suite(good, bad, min_accuracy=LIVE_EVAL_MIN_ACCURACY).accuracy_passed


def test_cases_run_in_order() -> None:
    """One after the other, in the loop of the caller."""
    log: list[str] = []

    def case(name: str) -> EvalCase:
        async def run() -> str:
            log.append(f"{name} begins")
            await asyncio.sleep(0.01)
            log.append(f"{name} ends")
            return name

        return EvalCase(name, run, lambda result: log.append(f"{name} checked"))

    assert suite(case("a"), case("b")).passed
    assert log == ["a begins", "a ends", "a checked", "b begins", "b ends", "b checked"]


@pytest.mark.parametrize("verdict", [0.4, 1, [], {}, EvalResult("x", True)])
def test_odd_verdicts(verdict: Any) -> None:
    """A check that returns something else is an error of its own, in words."""
    result = one(lambda r: verdict)
    assert not result.passed
    assert result.reason.startswith("TypeError: a check returns None, True, False or a text, got ")


def test_asynchronous_check() -> None:
    """A check may be asynchronous."""

    async def check(result: Any) -> bool:
        return bool(result == "Paris")

    assert one(check).passed


def test_exit_ends_its_case_only() -> None:
    """What would end the process ends the case."""

    async def leaves() -> str:
        raise SystemExit(3)

    report = suite(EvalCase("a", leaves, lambda r: True), EvalCase("b", answer, lambda r: True))
    assert [r.passed for r in report.results] == [False, True]
    assert report.results[0].reason == "SystemExit: 3"


def test_empty_suite_has_not_passed() -> None:
    """Nothing was checked."""
    for report in (suite(), suite(min_accuracy=0.5), suite(min_accuracy=0.0), EvalReport(())):
        assert (report.passed, report.accuracy_passed, report.accuracy) == (False, False, 0.0)
        assert not report.to_report().gate_passed
    assert suite().summary() == "0/0 passed (0.0% accuracy)"


@pytest.mark.parametrize("share", [-0.1, 1.1, "0.9", float("nan")])
def test_bad_min_accuracy(share: Any) -> None:
    """A share lies between 0 and 1."""
    with pytest.raises(ValueError, match="min_accuracy must be a number between 0 and 1"):
        suite(EvalCase("a", answer, lambda r: True), min_accuracy=share)


# Scripts


class Kit:
    """Remembers what was said, as the kit of executionkit does."""

    def __init__(self) -> None:
        self.said: list[str] = []

    async def turn(self, text: str) -> Any:
        self.said.append(text)
        if text == "break":
            raise ConnectionError("gone")
        return type("Result", (), {"value": " / ".join(self.said)})()


def test_script() -> None:
    """One kit plays all turns, also after one that broke; each turn has its own result."""
    script = ConversationScript(
        "trip",
        (
            Turn("Paris", lambda r: r.value == "Paris"),
            Turn("break", lambda r: True),
            Turn("Rome", lambda r: None if r.value == "Paris / break / Rome" else r.value),
            Turn("end", lambda r: "never right"),
            Turn("end", lambda r: r.nothing),
        ),
    )
    kit = Kit()
    report = asyncio.run(run_conversation_script(script, kit))
    assert [(r.name, r.passed, r.reason) for r in report.results] == [
        ("trip[0]", True, "passed"),
        ("trip[1]", False, "ConnectionError: gone"),
        ("trip[2]", True, "passed"),
        ("trip[3]", False, "never right"),
        ("trip[4]", False, "AttributeError: 'Result' object has no attribute 'nothing'"),
    ]
    assert kit.said == ["Paris", "break", "Rome", "end", "end"]
    assert (report.min_accuracy, report.passed) == (None, False)


def test_empty_script() -> None:
    """A script without turns has checked nothing."""
    assert not asyncio.run(run_conversation_script(ConversationScript("s", ()), Kit())).passed


# Live


def test_live_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    """None unless it is asked for; what is missing is named."""
    for name in ("LIVE_EVAL", "BASE_URL", "MODEL", "API_KEY"):
        monkeypatch.delenv(f"EXECUTIONKIT_{name}", raising=False)
    assert live_provider_from_env() is None
    monkeypatch.setenv("EXECUTIONKIT_LIVE_EVAL", "1")
    with pytest.raises(ValueError, match=r"^EXECUTIONKIT_BASE_URL, EXECUTIONKIT_MODEL required for live evals$"):
        live_provider_from_env()
    monkeypatch.setenv("EXECUTIONKIT_BASE_URL", "http://localhost:1")
    with pytest.raises(ValueError, match=r"^EXECUTIONKIT_MODEL required for live evals$"):
        live_provider_from_env()


# Reports


@pytest.mark.parametrize("by_hand", [False, True])
def test_to_report(by_hand: bool, tmp_path: Path) -> None:
    """The same suite as HTML and JUnit; a report that somebody made by hand too."""
    report = suite(*cases(evals), min_accuracy=0.3)
    if by_hand:
        report = EvalReport(report.results, report.min_accuracy)
    ours = report.to_report()
    assert [result.passed for result in ours.results] == [result.passed for result in report.results]
    assert "expected Berlin, got Paris" in HTMLReporter().render(ours)
    document = etree.fromstring(JUnitXMLReporter().render(ours).encode())
    assert (document.get("tests"), len(document.findall(".//testcase"))) == ("24", 24)
    assert (ours.gate_passed, report.accuracy_passed) == (not by_hand, True)


def test_reports_compare_by_results() -> None:
    """Two reports with the same results are equal."""
    assert seen(suite(EvalCase("a", answer, lambda r: True))) == seen(EvalReport((EvalResult("a", True, "passed"),)))
    assert suite(EvalCase("a", answer, lambda r: True)) == EvalReport((EvalResult("a", True, "passed"),))
