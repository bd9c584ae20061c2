"""Reads a judge's reply: tolerant of how it is written, strict about what it says."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from agentflow_eval._files import printable
from agentflow_eval.judge._loose import Found, UnusableReplyError, check_depth, find, is_quoted, same, short
from agentflow_eval.judge._prompts import Prompt

Scale = Literal["0-1", "1-10", "binary"]

_SLACK = 1e-9
_NUMBER = re.compile(r"[+-]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]{1,4})?")
_PERCENT = re.compile(r"([+-]?[0-9]++(?:\.[0-9]++)?)\s*+%")
_OUT_OF = re.compile(r"([+-]?[0-9]++(?:\.[0-9]++)?)\s*+/\s*+([0-9]++(?:\.[0-9]++)?)")
_SAID = re.compile(
    r"\bscore\b[\s\"'*_`]{0,8}(?:[:=]|is\b)[\s\"'*_`]{0,8}([+-]?[0-9]{1,9}(?:\.[0-9]{1,18})?)(?:\s{0,3}/\s{0,3}([0-9]{1,9}))?",
    re.IGNORECASE,
)
_FENCE = re.compile(r"[`~]{3,}+[ \t]*+[a-z0-9]*+", re.IGNORECASE)
_YES = frozenset({"true", "pass", "passed", "yes"})
_NO = frozenset({"false", "fail", "failed", "no"})
_BINARY_NAMES = ("passed", "pass", "verdict", "score")
_GROUPS = ("categories", "scores")
_REASONS = ("reasoning", "reason", "explanation")


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


def read_verdict(
    reply: str | Mapping[str, Any] | None,
    scale: Scale = "0-1",
    names: Sequence[str] = (),
    prompt: Prompt | None = None,
) -> Verdict:
    """The verdict in a judge's reply.

    Args:
        reply: The text, or the object that a provider parsed already.
        scale: What scores mean: ``0-1``, ``1-10`` (divided by 10), or ``binary`` (passed or not).
        names: The scores that the verdict must hold; empty means one, ``score`` (``passed`` for ``binary``).
        prompt: What was asked. An object that stands in it is no verdict when the reply says more than that; the
            prompt's own example never is.

    Raises:
        UnusableReplyError: There is no verdict, there are several different ones, it is only repeated from the prompt,
            or its score is not on the scale.
    """
    notes: list[str] = []
    values, found = _object(reply, names or _wanted(scale), prompt)
    if found.lenient:
        notes.append("lenient: not strict JSON")
    if names:
        scores = {name: _score(name, _value(_with_groups(values), name), scale, notes) for name in names}
    elif scale == "binary":
        scores = {"score": _passed(values, notes)}
    else:
        scores = {"score": _score("score", _value(_lowered(values), "score"), scale, notes)}
        _check_prose(found.prose, scores["score"])
    said = next((value for key, value in values.items() if key.lower() in _REASONS and value is not None), "")
    return Verdict(scores, printable(str(said)), values, tuple(dict.fromkeys(notes)))


def read_object(
    reply: str | Mapping[str, Any] | None, names: Sequence[str], prompt: Prompt | None = None
) -> dict[str, Any]:
    """The one JSON object in a reply that has any of the keys ``names``; ``prompt`` as in `read_verdict`.

    Raises:
        UnusableReplyError: There is none, there are several that differ, or it is only repeated from the prompt.
    """
    return _object(reply, names, prompt)[0]


def _wanted(scale: Scale) -> Sequence[str]:
    return _BINARY_NAMES if scale == "binary" else ("score",)


# Finding the one object


def _object(reply: object, names: Sequence[str], prompt: Prompt | None) -> tuple[dict[str, Any], Found]:
    values, found = _found_object(reply, names)
    if prompt is not None:
        _check_own(values, found, prompt)
    return values, found


def _check_own(values: Mapping[str, Any], found: Found, prompt: Prompt) -> None:
    """Raises when the object is not the judge's own.

    Nothing tells a whole reply from an honest verdict that happens to be the same; an object with words around it may
    be what the judge only talks about.
    """
    if _alike(values, prompt.example) and any(isinstance(value, str) for value in values.values()):
        raise UnusableReplyError(f"the reply only repeats the example of the instructions: {short(values)}")
    if _FENCE.sub("", "".join(found.prose)).strip() and is_quoted(dict(values), prompt.material):
        raise UnusableReplyError(
            f"the reply quotes a verdict from the material and gives none of its own: {short(values)}"
        )


def _found_object(reply: object, names: Sequence[str]) -> tuple[dict[str, Any], Found]:
    if isinstance(reply, Mapping):
        values = {str(key): value for key, value in reply.items()}
        check_depth(values)
        return values, Found()
    if reply is not None and not isinstance(reply, str):
        raise UnusableReplyError(f"the reply is a {type(reply).__name__}, not text")
    text = (reply or "").strip()
    if not text:
        raise UnusableReplyError("the reply is empty")
    found = find(text)
    return _only_object(text, found, names), found


def _only_object(text: str, found: Found, names: Sequence[str]) -> dict[str, Any]:
    objects = [_unwrapped(value) for value in found.values]
    verdicts = [value for value in objects if _speaks_of(value, names)]
    other = next((value for value in verdicts[1:] if not _alike(value, verdicts[0])), None)
    if other is not None:
        count = 1 + sum(not _alike(value, verdicts[0]) for value in verdicts)
        raise UnusableReplyError(f"the reply holds {count} verdicts that differ: {short(text)}")
    if found.cut:
        where = " after a verdict" if verdicts else ""
        raise UnusableReplyError(f"the reply is truncated{where}; raise max_tokens of the judge: {short(text)}")
    broken = next((part for part in found.broken if _mentions(part, names)), None)
    if broken is not None:
        raise UnusableReplyError(f"the reply holds an object that cannot be read: {short(broken)}")
    if verdicts:
        return verdicts[0]
    if objects:
        raise UnusableReplyError(f"the reply has no {' or '.join(names)}: {short(text)}")
    raise UnusableReplyError(f"there is no JSON object in the reply: {short(text)}")


def _unwrapped(value: Any) -> dict[str, Any]:
    if isinstance(value, list):
        if len(value) != 1 or not isinstance(value[0], dict):
            raise UnusableReplyError(f"the reply is a list of {len(value)} items, not one verdict")
        return dict(value[0])
    return dict(value)


def _speaks_of(value: Mapping[str, Any], names: Sequence[str]) -> bool:
    keys = {key.lower() for key in value}
    return any(name.lower() in keys for name in (*names, *_GROUPS))


def _alike(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return one.keys() == other.keys() and all(same(value, other[key]) for key, value in one.items())


def _mentions(part: str, names: Sequence[str]) -> bool:
    lowered = part.lower()
    return any(name.lower() in lowered for name in names)


def _check_prose(prose: Sequence[str], score: float) -> None:
    """Raises when the text around the verdict states another score."""
    for match in _SAID.finditer(" ".join(prose)):
        number, out_of = float(match.group(1)), float(match.group(2) or 0)
        readings = (number / out_of,) if out_of else (number, number / 10, number / 100)
        if not any(math.isclose(reading, score, abs_tol=1e-6) for reading in readings):
            raise UnusableReplyError(f"the reply says {short(match.group())} beside a verdict of {score:g}")


# Reading the score


def _lowered(values: Mapping[str, Any]) -> dict[str, list[Any]]:
    by_lower: dict[str, list[Any]] = {}
    for key, value in values.items():
        by_lower.setdefault(key.lower(), []).append(value)
    return by_lower


def _with_groups(values: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Every value by its key in lower case, those of ``categories`` and ``scores`` among them."""
    by_lower = _lowered(values)
    for group in [inner for name in _GROUPS for inner in by_lower.get(name, ()) if isinstance(inner, Mapping)]:
        for key, value in group.items():
            by_lower.setdefault(str(key).lower(), []).append(value)
    return by_lower


def _value(by_lower: Mapping[str, list[Any]], name: str) -> Any:
    """The value of ``name``, whatever its case."""
    found = by_lower.get(name.lower())
    if not found:
        raise UnusableReplyError(f"the reply has no {name!r}")
    if any(not same(value, found[0]) for value in found[1:]):
        raise UnusableReplyError(f"the reply gives {name!r} twice with different values")
    return found[0]


def _passed(values: Mapping[str, Any], notes: list[str]) -> float:
    """Whether it passed: the first of the names that is there, unless another one says the opposite."""
    by_lower = _lowered(values)
    name = next((name for name in _BINARY_NAMES if name in by_lower), _BINARY_NAMES[0])
    passed = _binary(name, _value(by_lower, name), notes)
    for other in _BINARY_NAMES:
        for value in by_lower.get(other, ()):
            if _yes_or_no(value) not in (passed, None):
                raise UnusableReplyError(
                    f"the reply contradicts itself: {name} is {passed == 1}, {other} {short(value)}"
                )
    return passed


def _score(name: str, value: Any, scale: Scale, notes: list[str]) -> float:
    if scale == "binary":
        return _binary(name, value, notes)
    if isinstance(value, str):
        return _from_text(name, value, scale, notes)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        kinds = {bool: "a boolean", list: "a list", dict: "an object", type(None): "null"}
        kind = kinds.get(type(value), f"a {type(value).__name__}")
        raise UnusableReplyError(f"{name} is {kind}, not a number: {short(value)}")
    return _on_scale(name, value, scale)


def _binary(name: str, value: Any, notes: list[str]) -> float:
    passed = _yes_or_no(value)
    if passed is None:
        raise UnusableReplyError(f"{name} must be true or false, got {short(value)}")
    if isinstance(value, str):
        notes.append(f"coerced: {name} was the text {value!r}")
    return passed


def _yes_or_no(value: Any) -> float | None:
    if isinstance(value, (bool, int, float)):
        return float(value) if value in (0, 1) else None
    word = value.strip().lower() if isinstance(value, str) else ""
    return 1.0 if word in _YES else 0.0 if word in _NO else None


def _from_text(name: str, value: str, scale: Scale, notes: list[str]) -> float:
    notes.append(f"coerced: {name} was the text {short(value)!r}")
    text = value.strip()
    percent, out_of = _PERCENT.fullmatch(text), _OUT_OF.fullmatch(text)
    if percent:
        return _share(name, float(percent.group(1)) / 100, short(value))
    if out_of and float(out_of.group(2)) > 0:
        return _share(name, float(out_of.group(1)) / float(out_of.group(2)), short(value))
    if not _NUMBER.fullmatch(text):
        raise UnusableReplyError(f"{name} is not a number: {short(value)}")
    return _on_scale(name, float(text), scale)


def _on_scale(name: str, number: float, scale: Scale) -> float:
    if isinstance(number, float) and not math.isfinite(number):
        raise UnusableReplyError(f"{name} is {number}, which is no score")
    if scale == "1-10":
        if not 1 - _SLACK <= number <= 10 + _SLACK:
            raise UnusableReplyError(f"{name} must be between 1 and 10, got {short(number)}")
        return min(number / 10, 1.0)
    return _share(name, number, short(number))


def _share(name: str, number: float, shown: str) -> float:
    if not -_SLACK <= number <= 1 + _SLACK:
        raise UnusableReplyError(f"{name} must be between 0 and 1, got {shown}")
    return min(max(number, 0.0), 1.0) + 0.0
