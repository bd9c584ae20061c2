"""The exceptions, and the hints in their messages."""

from __future__ import annotations

import copy
import pickle
from typing import NoReturn

import pytest

from agentflow_eval import errors
from agentflow_eval.errors import LoadError, MissingFileError, Problem, did_you_mean, exception_text


class Unprintable(Exception):
    """Its text cannot be had."""

    def __init__(self, cause: BaseException) -> None:
        self.cause = cause
        super().__init__()

    def __str__(self) -> NoReturn:
        raise self.cause


@pytest.mark.parametrize(
    ("exc", "text"),
    [
        (ValueError("no such city"), "ValueError: no such city"),
        (ValueError(), "ValueError"),
        (KeyError("city"), "KeyError: 'city'"),
        (SystemExit(3), "SystemExit: 3"),
        (Unprintable(RuntimeError("x")), "Unprintable: <message unreadable: RuntimeError in __str__>"),
        (Unprintable(SystemExit()), "Unprintable: <message unreadable: SystemExit in __str__>"),
    ],
)
def test_exception_text(exc: BaseException, text: str) -> None:
    """Type and message of any exception, even of one that cannot be printed."""
    assert text == exception_text(exc)


@pytest.mark.parametrize(
    ("word", "near"),
    [
        ("trajectry", "trajectory"),
        ("evalCases", "eval_cases"),
        ("EvalCases", "eval_cases"),
        ("eval-cases", "eval_cases"),
        ("eval cases", "eval_cases"),
        ("EVAL_CASES", "eval_cases"),
        ("Node_Order", "node_order"),
        ("colour", None),
        ("", None),
        ("$", None),
    ],
)
def test_did_you_mean(word: str, near: str | None) -> None:
    """The near name is found whatever the spelling, and nothing is made up."""
    assert near == did_you_mean(word, ["trajectory", "eval_cases", "node_order"])


def test_did_you_mean_prefers_the_first() -> None:
    """Of names that differ only in case the first one is meant."""
    assert did_you_mean("websearch", ["Web_Search", "web_search"]) == "Web_Search"


def test_load_error_lists_every_problem() -> None:
    """Each problem has the file in front, and the place where there is one."""
    error = LoadError("sets/shop.json", [Problem("eval_cases[2].tags", "must be a list"), Problem("", "is empty")])
    assert str(error) == "sets/shop.json: eval_cases[2].tags: must be a list\nsets/shop.json: is empty"


def test_load_error_stops_at_fifty_lines() -> None:
    """A file with thousands of problems still gives a readable message, and keeps them all."""
    error = LoadError("a.json", [Problem(f"[{number}]", "wrong") for number in range(73)])
    assert str(error).splitlines()[-1] == "a.json: and 23 more problems"
    assert len(str(error).splitlines()) == 51
    assert len(error.problems) == 73


@pytest.mark.parametrize("cls", [LoadError, MissingFileError])
def test_load_error_survives_copying(cls: type[LoadError]) -> None:
    """Errors travel between processes whole, as test runners send them."""
    error = cls("a.json", [Problem("name", "must be text")])
    for twin in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert str(error) == str(twin)
        assert error.problems == twin.problems


@pytest.mark.parametrize(
    ("cls", "builtin"),
    [
        (errors.LoadError, ValueError),
        (errors.MissingFileError, FileNotFoundError),
        (errors.UsageError, ValueError),
        (errors.TargetError, TypeError),
        (errors.AgentImportError, ImportError),
        (errors.MissingExtraError, ImportError),
        (errors.ReportError, OSError),
        (errors.AgentError, Exception),
        (errors.JudgeError, Exception),
    ],
)
def test_tree(cls: type[Exception], builtin: type[Exception]) -> None:
    """Everything is an `AgentflowEvalError` and the built-in error that one would expect."""
    assert issubclass(cls, errors.AgentflowEvalError)
    assert issubclass(cls, builtin)
    assert cls.__name__ in (errors.__doc__ or "")
