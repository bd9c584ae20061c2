"""Reads a judge's reply: tolerant of how it is written, strict about what it says."""

from __future__ import annotations

import ast
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from agentflow_eval.errors import JudgeError

Scale = Literal["0-1", "1-10", "binary"]

_SLACK = 1e-9
_THINKING = re.compile(r"<(think|thinking|reasoning)>.*?</\1>", re.DOTALL | re.IGNORECASE)
_FENCE = re.compile(r"```[a-zA-Z0-9_-]*[ \t]*\r?\n?(.*?)```", re.DOTALL)
_PERCENT = re.compile(r"\s*([+-]?\d+(?:\.\d+)?)\s*%\s*")
_OUT_OF = re.compile(r"\s*([+-]?\d+(?:\.\d+)?)\s*/\s*(\d+(?:\.\d+)?)\s*")
_YES = frozenset({"true", "pass", "passed", "yes"})
_NO = frozenset({"false", "fail", "failed", "no"})
_BINARY_NAMES = ("passed", "pass", "verdict", "score")
_LONGEST_SHOWN = 200


class UnusableReplyError(JudgeError):
    """A reply that holds no verdict a careful reader would accept; the message says why."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a judge decided.

    Attributes:
        scores: 0..1 by name; ``score`` when there is only one.
        reasoning: Why, in the judge's words; may be empty.
        values: The whole object that the judge wrote.
        notes: How the reply had to be read: ``lenient`` syntax, ``coerced`` text.
    """

    scores: dict[str, float]
    reasoning: str = ""
    values: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def score(self) -> float:
        """The only score, or the least of several."""
        return min(self.scores.values())


def read_verdict(reply: str | Mapping[str, Any] | None, scale: Scale = "0-1", names: Sequence[str] = ()) -> Verdict:
    """The verdict in a judge's reply.

    Args:
        reply: The text, or the object that a provider parsed already.
        scale: What scores mean: ``0-1``, ``1-10`` (divided by 10), or ``binary`` (passed or not).
        names: The scores that the verdict must hold; empty means one, ``score`` (``passed`` for ``binary``).

    Raises:
        UnusableReplyError: There is no verdict, there are several different ones, or its score is not on the scale.
    """
    notes: list[str] = []
    values = dict(reply) if isinstance(reply, Mapping) else _only_object(reply or "", names or _wanted(scale), notes)
    if names:
        nested = values.get("categories") or values.get("scores")
        source = nested if isinstance(nested, Mapping) else values
        scores = {name: _score(name, _value(source, (name,)), scale, notes) for name in names}
    else:
        wanted = _wanted(scale)
        scores = {"score": _score(wanted[0], _value(values, wanted), scale, notes)}
    reasoning = next((str(values[key]) for key in values if key.lower() in ("reasoning", "reason", "explanation")), "")
    return Verdict(scores, reasoning, values, tuple(dict.fromkeys(notes)))


def _wanted(scale: Scale) -> Sequence[str]:
    return _BINARY_NAMES if scale == "binary" else ("score",)


# Finding the one object


def _only_object(text: str, names: Sequence[str], notes: list[str]) -> dict[str, Any]:
    stripped = _THINKING.sub("", text).strip()
    if not stripped:
        raise UnusableReplyError("the reply is empty")
    whole = _parsed(stripped, notes)
    if whole is None:
        found = [value for chunk in _objects(stripped) if (value := _parsed(chunk, notes)) is not None]
    else:
        found = [whole]
    objects = [_unwrapped(value) for value in found]
    verdicts = [value for value in objects if _speaks_of(value, names)]
    distinct = [value for index, value in enumerate(verdicts) if value not in verdicts[:index]]
    if len(distinct) > 1:
        raise UnusableReplyError(f"the reply holds {len(distinct)} verdicts that differ: {_short(text)}")
    if distinct:
        if _cut_after(stripped):
            raise UnusableReplyError(f"the reply is truncated after a verdict; raise max_tokens: {_short(text)}")
        return distinct[0]
    if objects:
        raise UnusableReplyError(f"the reply has no {' or '.join(names)}: {_short(text)}")
    if "{" in stripped and _cut_after(stripped):
        raise UnusableReplyError(f"the reply is truncated; raise max_tokens of the judge: {_short(text)}")
    raise UnusableReplyError(f"there is no JSON object in the reply: {_short(text)}")


def _unwrapped(value: Any) -> dict[str, Any]:
    if isinstance(value, list):
        if len(value) != 1 or not isinstance(value[0], dict):
            raise UnusableReplyError(f"the reply is a list of {len(value)} items, not one verdict")
        return dict(value[0])
    return dict(value)


def _speaks_of(value: Mapping[str, Any], names: Sequence[str]) -> bool:
    keys = {key.lower() for key in value}
    return any(name in keys for name in (*names, "categories", "scores"))


def _parsed(text: str, notes: list[str]) -> Any:
    """The object or list that ``text`` is, or None."""
    try:
        value = json.loads(text, object_pairs_hook=_unique, parse_constant=_not_a_number)
    except (ValueError, RecursionError):
        value = _python_like(text)
        if value is not None:
            notes.append("lenient: not strict JSON")
    return value if isinstance(value, (dict, list)) else None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in pairs:
        if key in result and result[key] != value:
            raise UnusableReplyError(f"the reply gives {key!r} twice: {_short(result[key])} and {_short(value)}")
        result[key] = value
    return result


def _not_a_number(name: str) -> float:
    raise UnusableReplyError(f"the reply holds {name}, which is no score")


def _python_like(text: str) -> Any:
    """The value of a Python literal, with JSON's words for true, false and null; None when it is none."""
    try:
        tree = ast.parse(text.strip(), mode="eval")
        value = ast.literal_eval(_JsonWords().visit(tree))
    except UnusableReplyError:
        raise
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return None
    if isinstance(value, dict) and not all(isinstance(key, str) for key in value):
        return None
    return value


class _JsonWords(ast.NodeTransformer):
    _meanings = {"true": True, "false": False, "null": None}

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id in self._meanings:
            return ast.copy_location(ast.Constant(self._meanings[node.id]), node)
        if node.id in ("NaN", "Infinity", "nan", "inf"):
            _not_a_number(node.id)
        return node

    def visit_Dict(self, node: ast.Dict) -> ast.AST:
        keys = [key.value for key in node.keys if isinstance(key, ast.Constant)]
        for key in keys:
            if keys.count(key) > 1:
                raise UnusableReplyError(f"the reply gives {key!r} twice")
        return self.generic_visit(node)


def _objects(text: str) -> Iterator[str]:
    """The top-level ``{...}`` parts of a text, in fences first, quotes respected."""
    fenced = [match.group(1).strip() for match in _FENCE.finditer(text)]
    if any(part.startswith(("{", "[")) for part in fenced):
        yield from (part for part in fenced if part.startswith(("{", "[")))
        text = _FENCE.sub(" ", text)
    start = text.find("{")
    while start >= 0:
        end = _closing(text, start)
        if end < 0:
            return
        yield text[start:end]
        start = text.find("{", end)


def _closing(text: str, start: int) -> int:
    """Where the object that begins at ``start`` has ended, or -1."""
    depth, quote, index = 0, "", start
    while index < len(text):
        char = text[index]
        if quote:
            if char == "\\":
                index += 1
            elif char == quote:
                quote = ""
        elif char == '"' or (char == "'" and _opens_text(text, index)):
            quote = char
        elif char == "{":
            depth += 1
        elif char == "}":
            depth -= 1
            if not depth:
                return index + 1
        index += 1
    return -1


def _opens_text(text: str, index: int) -> bool:
    """Whether a single quote begins a text: it follows a brace, bracket, colon or comma, not a letter."""
    return text[:index].rstrip()[-1:] in "{[:,"


def _cut_after(text: str) -> bool:
    """Whether an object begins in the text and never ends."""
    position = text.find("{")
    while position >= 0:
        end = _closing(text, position)
        if end < 0:
            return True
        position = text.find("{", end)
    return False


# Reading the score


def _value(values: Mapping[str, Any], names: Sequence[str]) -> Any:
    """The value of the first of ``names`` that is there, whatever its case."""
    by_lower: dict[str, list[Any]] = {}
    for key, value in values.items():
        by_lower.setdefault(str(key).lower(), []).append(value)
    for name in names:
        found = by_lower.get(name.lower(), [])
        if any(value != found[0] for value in found):
            raise UnusableReplyError(f"the reply gives {name!r} twice with different values")
        if found:
            return found[0]
    raise UnusableReplyError(f"the reply has no {names[0]!r}")


def _score(name: str, value: Any, scale: Scale, notes: list[str]) -> float:
    if scale == "binary":
        return _binary(name, value, notes)
    if isinstance(value, str):
        return _from_text(name, value, scale, notes)
    if value is None or isinstance(value, (bool, list, Mapping)):
        kind = {bool: "a boolean", list: "a list"}.get(type(value), "null" if value is None else "an object")
        raise UnusableReplyError(f"{name} is {kind}, not a number: {_short(value)}")
    return _on_scale(name, value, scale)


def _binary(name: str, value: Any, notes: list[str]) -> float:
    if isinstance(value, bool):
        return float(value)
    if isinstance(value, str) and value.strip().lower() in _YES | _NO:
        notes.append(f"coerced: {name} was the text {value!r}")
        return float(value.strip().lower() in _YES)
    if isinstance(value, (int, float)) and value in (0, 1):
        return float(value)
    raise UnusableReplyError(f"{name} must be true or false, got {_short(value)}")


def _from_text(name: str, value: str, scale: Scale, notes: list[str]) -> float:
    notes.append(f"coerced: {name} was the text {value!r}")
    percent, out_of = _PERCENT.fullmatch(value), _OUT_OF.fullmatch(value)
    if percent:
        return _share(name, float(percent.group(1)) / 100, value)
    if out_of and float(out_of.group(2)) > 0:
        return _share(name, float(out_of.group(1)) / float(out_of.group(2)), value)
    try:
        number = float(value)
    except ValueError:
        raise UnusableReplyError(f"{name} is not a number: {_short(value)}") from None
    return _on_scale(name, number, scale)


def _on_scale(name: str, number: float, scale: Scale) -> float:
    if not math.isfinite(number):
        raise UnusableReplyError(f"{name} is {number}, which is no score")
    if scale == "1-10":
        if not 1 - _SLACK <= number <= 10 + _SLACK:
            raise UnusableReplyError(f"{name} must be between 1 and 10, got {number:g}")
        return min(max(number / 10, 0.0), 1.0)
    return _share(name, number, f"{number!r}")


def _share(name: str, number: float, shown: str) -> float:
    if not -_SLACK <= number <= 1 + _SLACK:
        raise UnusableReplyError(f"{name} must be between 0 and 1, got {shown}")
    return min(max(number, 0.0), 1.0)


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."
