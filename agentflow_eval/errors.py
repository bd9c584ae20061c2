"""Every exception this package raises.

AgentflowEvalError
├── LoadError (ValueError)                 a file cannot be used; lists every problem in it
│   └── MissingFileError (FileNotFoundError)
├── UsageError (ValueError)                a call cannot be carried out as asked
├── TargetError (TypeError)                an object is not an agent that can be driven
├── AgentImportError (ImportError)         `module:attribute` does not lead to an agent
├── MissingExtraError (ImportError)        an optional dependency is not installed
├── AgentError                             the agent ended badly without raising
├── JudgeError                             a judge gave no usable verdict
└── ReportError (OSError)                  a report could not be written

LoadWarning (UserWarning)                  a file loads, and something in it deserves a look
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from typing import NamedTuple

_PROBLEMS_SHOWN = 50


class AgentflowEvalError(Exception):
    """Root of all errors of this package."""


class Problem(NamedTuple):
    """One thing that is wrong in a file.

    Attributes:
        place: Path inside the file such as ``eval_cases[0].tags``; empty for the file as a whole.
        message: What is wrong and what would be right.
    """

    place: str
    message: str


class LoadError(AgentflowEvalError, ValueError):
    """A file cannot be used.

    Attributes:
        path: The file, as it was given.
        problems: Everything that is wrong with it, in file order.
    """

    def __init__(self, path: str, problems: Sequence[Problem]) -> None:
        self.path = path
        self.problems = tuple(problems)
        super().__init__(path, self.problems)

    def __str__(self) -> str:
        lines = [
            f"{self.path}: {problem.place}: {problem.message}" if problem.place else f"{self.path}: {problem.message}"
            for problem in self.problems[:_PROBLEMS_SHOWN]
        ]
        hidden = len(self.problems) - _PROBLEMS_SHOWN
        if hidden > 0:
            lines.append(f"{self.path}: and {hidden} more problems")
        return "\n".join(lines)


class MissingFileError(LoadError, FileNotFoundError):
    """The file does not exist."""


class UsageError(AgentflowEvalError, ValueError):
    """A call cannot be carried out as asked; the message says what to call instead."""


class TargetError(AgentflowEvalError, TypeError):
    """An object is not an agent that can be driven."""


class AgentImportError(AgentflowEvalError, ImportError):
    """``module:attribute`` does not lead to an agent."""


class MissingExtraError(AgentflowEvalError, ImportError):
    """An optional dependency is not installed; the message names the extra that brings it."""


class AgentError(AgentflowEvalError):
    """The agent ended badly without raising, for example by hitting its own step limit."""


class JudgeError(AgentflowEvalError):
    """A judge gave no usable verdict."""


class ReportError(AgentflowEvalError, OSError):
    """A report could not be written."""


class LoadWarning(UserWarning):
    """A file loads, and something in it deserves a look."""


def exception_text(exc: BaseException) -> str:
    """``Type: message`` of any exception, even of one whose ``__str__`` raises."""
    name = type(exc).__name__
    try:
        message = str(exc)
    except BaseException as broken:  # a stranger's __str__ may raise anything
        return f"{name}: <message unreadable: {type(broken).__name__} in __str__>"
    return f"{name}: {message}" if message else name


def did_you_mean(word: str, known: Sequence[str]) -> str | None:
    """The one of ``known`` that ``word`` most likely stands for, or None."""
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", word).lower()
    folded = {re.sub(r"[\s_-]+", "", name).lower(): name for name in reversed(known)}
    same = folded.get(re.sub(r"[\s_-]+", "", snake))
    if same:
        return same
    close = difflib.get_close_matches(snake, [name.lower() for name in known], n=1, cutoff=0.6)
    return next((name for name in known if close and name.lower() == close[0]), None)
