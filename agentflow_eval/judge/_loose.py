"""Finds the objects in what a model wrote: JSON, or JSON as models write it; in linear time."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NoReturn

from agentflow_eval.errors import JudgeError

_DEEPEST = 64
_LONGEST_NUMBER = 300
_LONGEST_SHOWN = 200

_OPENER = re.compile(r"\{|\[(?=\s*+\{)")
_OBJECT = re.compile(r"\{(?=\s*+[\"'])")
_THOUGHTS = re.compile(r"\s*+<(think|thinking|reasoning)>", re.IGNORECASE)
_MARKS = re.compile(r"[\"'{}]")
_SPACE = re.compile(r"[ \t\r\n]*+")
_TEXTS = {
    '"': re.compile(r'"([^"\\]*+(?:\\.[^"\\]*+)*+)"', re.DOTALL),
    "'": re.compile(r"'([^'\\]*+(?:\\.[^'\\]*+)*+)'", re.DOTALL),
}
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?(?=[\s,}\]])")
_WORD = re.compile(r"-?[A-Za-z]++(?=[\s,}\]])")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|.)", re.DOTALL)
_ODD_ESCAPE = re.compile(r"(?<!\\)(?:\\\\)*+\\(?![\"\\/bfnrtu])")
_ESCAPED_QUOTE = re.compile(r"\\++(?=[\"'])")
_ESCAPED_SPACE = re.compile(r"\\++[nrt]")
_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "\n": "", '"': '"', "'": "'", "\\": "\\", "/": "/"}
_WORDS = {"true": True, "false": False, "null": None}
_PYTHON_WORDS = {"True": True, "False": False, "None": None}
_NO_NUMBERS = frozenset({"nan", "-nan", "inf", "-inf", "infinity", "-infinity"})


class UnusableReplyError(JudgeError):
    """A reply that holds no verdict a careful reader would accept; the message says why."""


class _BrokenError(Exception):
    """The syntax is wrong at this place."""


class _CutError(Exception):
    """The text ends inside of what was begun."""


@dataclass(slots=True)
class Found:
    """What a reply is made of.

    Attributes:
        values: The objects and lists of objects, in order.
        broken: Parts in braces that cannot be read.
        prose: The text around them, without a model's thoughts.
        cut: Whether something begins that never ends, or ends that never began.
        lenient: Whether a value was not strict JSON.
    """

    values: list[Any] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    prose: list[str] = field(default_factory=list)
    cut: bool = False
    lenient: bool = False


def short(value: Any) -> str:
    """A value for a message."""
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."


def find(text: str) -> Found:
    """What a reply is made of, without the thoughts that it begins with.

    Raises:
        UnusableReplyError: A value is one that no verdict holds: NaN, a key with two values.
    """
    found = Found()
    whole = _strict(text)
    if whole is not None:
        found.values.append(whole)
        return found
    position = _past_thoughts(text)
    while position >= 0 and (opener := _OPENER.search(text, position)):
        found.prose.append(text[position : opener.start()])
        position = _past_value(text, opener.start(), found)
    if position >= 0:
        found.prose.append(text[position:])
    # A brace that closes nothing is left of an object whose beginning is missing.
    found.cut = position < 0 or any("}" in part for part in found.prose)
    return found


def is_quoted(value: dict[str, Any], text: str) -> bool:
    """Whether an object in ``text``, plain or inside of a JSON text there, holds everything that ``value`` holds."""
    if not all(key in text for key in value):
        return False
    plain = _ESCAPED_SPACE.sub(" ", _ESCAPED_QUOTE.sub("", text))
    return any(
        all(key in other and _reads_as(item, other[key]) for key, item in value.items())
        for source in dict.fromkeys((text, plain))
        for other in _objects(source)
    )


def _objects(text: str) -> Iterator[dict[str, Any]]:
    """Every object in a text, those inside of others or of what cannot be read too."""
    for opener in _OBJECT.finditer(text):
        try:
            yield _Reader(text, opener.start()).value(0)
        except (_CutError, _BrokenError, UnusableReplyError):
            continue


def _reads_as(one: Any, other: Any) -> bool:
    if isinstance(one, str) and isinstance(other, str):
        return one.split() == other.split()
    return same(one, other)


def _past_thoughts(text: str) -> int:
    """Where the thoughts at the beginning are over, or -1; tags further on may be quotes of what is judged."""
    position = 0
    while tag := _THOUGHTS.match(text, position):
        end = re.compile(f"</{tag.group(1)}>", re.IGNORECASE).search(text, tag.end())
        if end is None:
            return -1
        position = end.end()
    return position


def _past_value(text: str, start: int, found: Found) -> int:
    """Where the value that begins at ``start`` has ended, or -1."""
    reader = _Reader(text, start)
    try:
        found.values.append(reader.value(0))
    except _CutError:
        return -1
    except _BrokenError:
        end = _closing(text, start)
        found.broken.append(text[start : end if end >= 0 else None])
        return end
    found.lenient = found.lenient or reader.lenient
    return reader.position


def _strict(text: str) -> Any:
    """The object or list that the whole text is as JSON, or None."""
    try:
        value = json.loads(text, object_pairs_hook=unique, parse_constant=_not_a_number, parse_int=_whole_number)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, (dict, list)):
        return None
    if text.count("{") + text.count("[") > _DEEPEST:
        check_depth(value)
    return value


def check_depth(value: Any) -> None:
    """Raises `UnusableReplyError` for a value whose nesting would break whoever walks through it."""
    level = [value]
    for _ in range(_DEEPEST):
        level = [
            inner
            for item in level
            if isinstance(item, (dict, list))
            for inner in (item.values() if isinstance(item, dict) else item)
        ]
        if not level:
            return
    raise UnusableReplyError(f"the reply is nested more than {_DEEPEST} levels deep")


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object of these pairs; no key may have two different values."""
    result: dict[str, Any] = {}
    for key, value in pairs:
        if key in result and not same(result[key], value):
            raise UnusableReplyError(f"the reply gives {key!r} twice: {short(result[key])} and {short(value)}")
        result[key] = value
    return result


def same(one: Any, other: Any) -> bool:
    """Equality in which true is not 1."""
    return bool(isinstance(one, bool) == isinstance(other, bool) and one == other)


def _not_a_number(name: str) -> NoReturn:
    raise UnusableReplyError(f"the reply holds {name}, which is no score")


def _whole_number(digits: str) -> float:
    return int(digits) if len(digits) < _LONGEST_NUMBER else float(digits)


class _Reader:
    """Reads one value that begins at ``position``: JSON, with single quotes, Python's words and trailing commas."""

    def __init__(self, text: str, position: int) -> None:
        self.text = text
        self.position = position
        self.lenient = False

    def value(self, depth: int) -> Any:
        if depth > _DEEPEST:
            raise _BrokenError
        char = self._peek()
        if char == "{":
            return unique(list(self._items("}", depth)))
        if char == "[":
            return list(self._items("]", depth))
        if char in "\"'":
            return self._string(char)
        return self._scalar()

    def _peek(self) -> str:
        """The next character that is no space."""
        self.position = _SPACE.match(self.text, self.position).end()  # type: ignore[union-attr]  # it matches nothing too
        if self.position == len(self.text):
            raise _CutError
        return self.text[self.position]

    def _items(self, closer: str, depth: int) -> Iterator[Any]:
        self.position += 1
        while (char := self._peek()) != closer:
            if closer == "]":
                yield self.value(depth + 1)
            else:
                yield self._pair(char, depth)
            char = self._peek()
            if char == closer:
                break
            if char != ",":
                raise _BrokenError
            self.position += 1
            self.lenient = self.lenient or self._peek() == closer
        self.position += 1

    def _pair(self, quote: str, depth: int) -> tuple[str, Any]:
        if quote not in "\"'":
            raise _BrokenError
        key = self._string(quote)
        if self._peek() != ":":
            raise _BrokenError
        self.position += 1
        return key, self.value(depth + 1)

    def _string(self, quote: str) -> str:
        match = _TEXTS[quote].match(self.text, self.position)
        if match is None:
            raise _CutError
        self.position = match.end()
        inside = match.group(1)
        self.lenient = self.lenient or quote == "'" or "\n" in inside
        if "\\" not in inside:
            return inside
        self.lenient = self.lenient or _ODD_ESCAPE.search(inside) is not None
        return _PAIR.sub(_joined, _ESCAPE.sub(_unescaped, inside))

    def _scalar(self) -> Any:
        if match := _NUMBER.match(self.text, self.position):
            self.position = match.end()
            number = match.group()
            return _whole_number(number) if number.lstrip("-").isdigit() else float(number)
        match = _WORD.match(self.text, self.position)
        if match is None:
            raise _BrokenError
        word = match.group()
        self.position = match.end()
        if word.lower() in _NO_NUMBERS:
            _not_a_number(word)
        if word in _WORDS:
            return _WORDS[word]
        if word not in _PYTHON_WORDS:
            raise _BrokenError
        self.lenient = True
        return _PYTHON_WORDS[word]


def _unescaped(match: re.Match[str]) -> str:
    code = match.group(1)
    if code in ("u", "x"):
        raise _BrokenError  # a character's number that is not there
    if len(code) > 1:
        return chr(int(code[1:], 16))
    return _ESCAPED.get(code, match.group())


def _joined(pair: re.Match[str]) -> str:
    return pair.group().encode("utf-16", "surrogatepass").decode("utf-16")


def _closing(text: str, start: int) -> int:
    """Where the braces that begin at ``start`` have ended, or -1; quotes are respected."""
    depth, position = 0, start
    while mark := _MARKS.search(text, position):
        char, position = mark.group(), mark.end()
        if char == "{":
            depth += 1
        elif char == "}":
            depth -= 1
            if depth <= 0:
                return position
        elif char == '"' or _opens_text(text, mark.start()):
            quoted = _TEXTS[char].match(text, mark.start())
            if quoted is None:
                return -1
            position = quoted.end()
    return -1


def _opens_text(text: str, index: int) -> bool:
    """Whether a single quote begins a text: what comes before is a brace, bracket, colon or comma, not a letter."""
    before = text[max(0, index - 20) : index].rstrip()
    return before[-1:] in ("{", "[", ":", ",")
