from __future__ import annotations

import asyncio
from contextvars import ContextVar
from pathlib import Path
from typing import Any
from unittest.mock import ANY

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


@pytest.mark.parametrize(("share", "passes"), [(None, False), (0.0, True), (0.5, True), (0.6, False), (1, False)])
@pytest.mark.parametrize("by_hand", [False, True])
def test_both_reports_agree_on_the_gate(share: float | None, passes: bool, by_hand: bool) -> None:
    """The report of this package passes its gate exactly when the suite passes its own."""
    report = suite(EvalCase("a", answer, lambda r: True), EvalCase("b", answer, lambda r: False), min_accuracy=share)
    if by_hand:
        report = EvalReport(report.results, share)
    assert (report.accuracy_passed, report.to_report().gate_passed) == (passes, passes)


def test_nothing_passed() -> None:
    """A suite in which nothing passed is not green, even when no share was asked for."""
    report = suite(EvalCase("a", answer, lambda r: False), min_accuracy=0.0)
    assert (report.accuracy_passed, report.to_report().gate_passed) == (False, False)


class Unreadable:
    """A result whose ``value`` cannot be read."""

    @property
    def value(self) -> str:
        raise ValueError("closed")


class Mute(Exception):
    """An exception without a text."""

    def __str__(self) -> str:
        raise RuntimeError("mute")


def test_result_is_the_checks_alone() -> None:
    """The check is given the very object that was returned; what cannot be shown of it breaks nothing."""
    made = Unreadable()
    assert one(lambda r: r is made, lambda: made).passed


def test_exception_without_a_text() -> None:
    """It ends its case, in a run and in a check."""

    def breaks(*_: Any) -> Any:
        raise Mute

    for result in (one(lambda r: True, breaks), one(breaks)):
        assert (result.passed, result.reason) == (False, "Mute: <message unreadable: RuntimeError in __str__>")


def test_context_variables_reach_the_check() -> None:
    """What a run sets its check can read, and the next run cannot."""
    current: ContextVar[str] = ContextVar("current", default="nothing")

    async def run() -> str:
        before = current.get()
        current.set("set")
        return before

    def check(result: str) -> bool:
        return (result, current.get()) == ("nothing", "set")

    assert suite(EvalCase("a", run, check), EvalCase("b", run, check)).passed


@pytest.mark.parametrize(
    "names", [["x (2)", "x", "x"], ["x", "x", "x (1)"], ["", "case (0)", ""], ["a", "a", "a (1)", "a (1)"]]
)
def test_names_that_look_made(names: list[str]) -> None:
    """Names may occur more than once, also beside those that they are made unique by."""
    report = suite(*[EvalCase(name, answer, lambda r: True) for name in names])
    assert [result.name for result in report.results] == names
    ids = [result.eval_id for result in report.to_report().results]
    assert len(set(ids)) == len(names)
    assert [id_ for id_, name in zip(ids, names, strict=True) if id_ == name] == list(
        dict.fromkeys(filter(None, names))
    )


def test_cases_from_a_generator() -> None:
    """Anything that yields cases is a suite."""
    made: Any = (EvalCase(name, answer, lambda r: True) for name in "ab")
    assert asyncio.run(run_eval_suite(made)).summary() == "2/2 passed (100.0% accuracy)"


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


@pytest.mark.parametrize("verdict", [0.4, 1, [], {}, EvalResult("x", True), ANY])
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


@pytest.mark.parametrize("share", [-0.1, 1.1, "0.9", float("nan"), True])
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


def test_script_says_exactly_what_it_states() -> None:
    """Empty turns and characters that no report can hold reach the kit as they are."""
    said = ["", " ", "a\x00b", "\ud800"]
    kit = Kit()
    script = ConversationScript("s", tuple(Turn(text, lambda r: True) for text in said))
    assert asyncio.run(run_conversation_script(script, kit)).passed
    assert kit.said == said


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
    assert (ours.gate_passed, report.accuracy_passed) == (True, True)


def test_reports_compare_by_results() -> None:
    """Two reports with the same results are equal."""
    assert seen(suite(EvalCase("a", answer, lambda r: True))) == seen(EvalReport((EvalResult("a", True, "passed"),)))
    assert suite(EvalCase("a", answer, lambda r: True)) == EvalReport((EvalResult("a", True, "passed"),))
