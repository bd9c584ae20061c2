"""A suite as a user of executionkit.evals writes it; ``evals`` is that module, or ours in its place."""

from __future__ import annotations

from typing import Any


async def answer() -> str:
    return "Paris"


async def number() -> int:
    return 42


async def mapping() -> dict[str, Any]:
    return {"city": "Paris", "tool_calls": "none"}


async def nothing() -> None:
    return None


async def broken() -> str:
    raise ValueError("no connection")


async def silent() -> str:
    raise RuntimeError


def at_once() -> str:
    return "Paris"


def asserts(result: Any) -> None:
    assert result == "Berlin", f"got {result}"


def divides(result: Any) -> bool:
    return bool(1 / 0)


def cases(evals: Any, answer: Any = answer) -> list[Any]:
    """Twenty-four cases: every kind of verdict, of run and of fault; ``answer`` says Paris."""
    make = evals.EvalCase
    return [
        make("passes with None", answer, lambda result: None),
        make("passes with True", answer, lambda result: result == "Paris"),
        make("passes with empty text", answer, lambda result: ""),
        make("fails with False", answer, lambda result: result == "Berlin"),
        make("fails with a reason", answer, lambda result: f"expected Berlin, got {result}"),
        make("fails with a blank reason", answer, lambda result: " "),
        make("number", number, lambda result: result == 42),
        make("mapping", mapping, lambda result: result["city"] == "Paris"),
        make("nothing", nothing, lambda result: result is None),
        make("nothing, but expected", nothing, lambda result: "empty" if result is None else None),
        make("broken run", broken, lambda result: True),
        make("broken run without words", silent, lambda result: True),
        make("broken check", answer, divides),
        make("assertion", answer, asserts),
        make("sync run", at_once, lambda result: result == "Paris"),
        make("sync run that returns something to await", lambda: answer(), lambda result: result == "Paris"),
        make("metadata", answer, lambda result: True, {"tags": ["smoke"], "n": 1}),
        make("metadata of a failure", answer, lambda result: False, {"n": 2}),
        make("twice", answer, lambda result: True),
        make("twice", answer, lambda result: False),
        make("", answer, lambda result: True),
        make("\u00fcml\u00e4ut \ud83d\ude00", answer, lambda result: "\u00fc"),
        make("key that is not there", mapping, lambda result: result["country"]),
        make("long reason", answer, lambda result: "x" * 5000),
    ]


def seen(report: Any) -> dict[str, Any]:
    """Everything that a report says, field by field."""
    return {
        "results": [(r.name, r.passed, r.reason, dict(r.metadata)) for r in report.results],
        "total": report.total,
        "passed_count": report.passed_count,
        "failed_count": report.failed_count,
        "failures": [r.name for r in report.failures],
        "accuracy": report.accuracy,
        "passed": report.passed,
        "accuracy_passed": report.accuracy_passed,
        "min_accuracy": report.min_accuracy,
        "summary": report.summary(),
    }
