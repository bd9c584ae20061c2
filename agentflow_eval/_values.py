"""When an actual value is the one that was expected, and what a foreign value looks like as JSON."""

from __future__ import annotations

import base64
import dataclasses
import datetime
import enum
import json
import math
import numbers
import re
import unicodedata
import uuid
from collections.abc import Iterator, Mapping, Set
from decimal import Decimal
from functools import cache
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel

from agentflow_eval._files import printable

if TYPE_CHECKING:
    import regex

ArgsMode = Literal["exact", "subset", "ignore"]

_RELATIVE_TOLERANCE = 1e-9
_DEFAULT_TOL = 1e-6
_DEEPEST = 64
_LONGEST_REPR = 2000
_MOST_BITS = 14_000
"""Larger whole numbers have more than the 4300 digits that Python writes and reads as text."""
_LARGEST_EXPONENT = 300
_WORD = 1 << 63
_SHOWN = 120
_SCALARS = (str, int, bool)

# Projection to JSON


def jsonable(value: Any, depth: int = _DEEPEST, above: tuple[int, ...] = ()) -> Any:
    """An independent copy of ``value`` made of JSON types only.

    Models and dataclasses become objects, tuples and NumPy's arrays lists, sets sorted lists, dates ISO text,
    ``Decimal``, fractions and NumPy's scalars numbers, bytes base64, enum members their value, NaN and the infinities
    the texts ``NaN``, ``Infinity`` and ``-Infinity``, integers of more than 4300 digits hexadecimal text, keys text,
    anything else its ``repr``. Text that UTF-8 cannot hold is made visible, and so is an object that holds itself.
    Never raises.

    Args:
        value: Anything.
        depth: Levels of nesting that are kept.
        above: Ids of the objects that hold ``value``.
    """
    kind = type(value)
    if kind is str:
        return value if value.isprintable() else printable(value)
    if kind is dict and (flat := _flat_copy(value)) is not None:
        return flat
    if kind is int:
        return value if value.bit_length() <= _MOST_BITS else hex(value)
    if kind is bool or value is None:
        return value
    if kind is float:
        return _finite(value)
    if depth <= 0:
        return "<nested too deeply>"
    if id(value) in above:
        return f"<{kind.__name__} that holds itself>"
    if kind is dict:
        depth, above = depth - 1, (*above, id(value))
        return {
            printable(key) if type(key) is str else as_name(key): item
            if type(item) is str and item.isprintable()
            else jsonable(item, depth, above)
            for key, item in value.items()
        }
    if kind is list or kind is tuple:
        above = (*above, id(value))
        return [jsonable(item, depth - 1, above) for item in value]
    try:
        return _foreign(value, depth, (*above, id(value)))
    except Exception as exc:  # a stranger's object may raise from any method
        return f"<{kind.__name__}: unreadable, {type(exc).__name__}>"


def _flat_copy(values: dict[Any, Any]) -> dict[str, Any] | None:
    """A copy of an object that holds nothing but plain short values, as most arguments do; None of any other."""
    copy = {}
    for key, item in values.items():
        kind = type(item)
        plain = (
            item.isprintable()
            if kind is str
            else item is None or kind is bool or (kind is int and -_WORD < item < _WORD)
        )
        if not plain or type(key) is not str or not key.isprintable():
            return None
        copy[key] = item
    return copy


def _finite(value: float) -> float | str:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _foreign(value: Any, depth: int, above: tuple[int, ...]) -> Any:
    if isinstance(value, enum.Enum):
        return jsonable(value.value, depth - 1, above)
    if isinstance(value, BaseModel):
        return jsonable(value.model_dump(), depth - 1, above)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        return jsonable(fields, depth - 1, above)
    if isinstance(value, str):
        return printable(str.__str__(value))
    plain: Any
    for plain in (float, int, list, tuple):
        if isinstance(value, plain):  # a subclass counts as what it extends
            return jsonable(plain(value), depth, above)
    if isinstance(value, Mapping):
        return jsonable(dict(value.items()), depth, above)
    if isinstance(value, Set):
        items = [jsonable(item, depth - 1, above) for item in value]
        return sorted(items, key=lambda item: (type(item).__name__, str(item)))
    return _foreign_scalar(value)


def _foreign_scalar(value: Any) -> Any:
    if isinstance(value, (bytes, bytearray, memoryview)):
        return base64.b64encode(bytes(value)).decode("ascii")
    if isinstance(value, Decimal):
        return _decimal(value)
    if type(value).__module__ == "numpy" and hasattr(value, "tolist"):  # its scalars and arrays
        return jsonable(value.tolist())
    if isinstance(value, numbers.Integral):
        return jsonable(int(value))
    if isinstance(value, numbers.Real):
        return _finite(float(value))
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, (uuid.UUID, PurePath)):
        return str(value)
    return printable(repr(value)[:_LONGEST_REPR])


def _decimal(value: Decimal) -> Any:
    if not value.is_finite():
        return "NaN" if value.is_nan() else _finite(float(value))
    if value and abs(value.adjusted()) > _LARGEST_EXPONENT:
        return str(value)
    return int(value) if value == value.to_integral_value() else float(value)


def as_text(value: Any) -> str | None:
    """An agent's answer as text, or None when there is no answer. Never raises.

    Text stays text; bytes become ``b64:`` and base64; enum members their value; everything else becomes JSON text.
    """
    kind = type(value)
    if issubclass(kind, enum.Enum):
        return as_text(value.value)
    if value is None:
        return None
    if issubclass(kind, str):
        return printable(str.__str__(value))
    if issubclass(kind, (bytes, bytearray)):
        return "b64:" + base64.b64encode(value).decode("ascii")
    return json.dumps(jsonable(value), ensure_ascii=False)


def as_name(value: Any) -> str:
    """What somebody gave as a name, as text: that of an enum member is its value. Never raises."""
    kind = type(value)
    if kind is str and value.isprintable():
        return str(value)
    if issubclass(kind, enum.Enum):
        return as_name(value.value)
    if issubclass(kind, str):
        return printable(str.__str__(value))
    try:
        return printable(str(value))
    except Exception as exc:  # a stranger's __str__ may raise anything
        return f"<{kind.__name__}: unreadable, {type(exc).__name__}>"


@cache
def _unseen() -> regex.Pattern[str]:
    import regex

    joined = r"[\p{Joining_Type=Dual_Joining}\p{Joining_Type=Right_Joining}\p{Indic_Syllabic_Category=Virama}"
    joined += r"\p{Extended_Pictographic}\p{Emoji_Modifier}]"
    ignorable = r"[\p{Default_Ignorable_Code_Point}--[\u200c\u200d]]"
    return regex.compile(rf"{ignorable}|(?<!{joined}\p{{M}}*{ignorable}*)[\u200c\u200d]", regex.VERSION1)


def visible(text: str) -> str:
    """``text`` without characters that nobody can see: soft hyphens, zero-width spaces, byte order marks and the like.

    These are Unicode's Default_Ignorable_Code_Points. The two joiners (U+200C, U+200D) stay where they are spelling:
    after letters that join, as in Persian, after a virama, as in Hindi, and in emoji.
    """
    return text if text.isascii() else _unseen().sub("", text)


# Matching


def mismatch(expected: Any, actual: Any, *, subset: bool = False, path: str = "args") -> str | None:
    """Why ``actual`` is not what was ``expected``, with the key path; None when it is.

    Type-strict: ``true`` is not ``1``, ``"42"`` is not ``42``; numbers compare by value within a relative 1e-9;
    text compares after NFC; a missing key is not null. ``subset`` lets objects have further keys.
    Expected objects with a ``$`` key are matchers: see `matcher_problem`.
    """
    if isinstance(expected, dict):
        if path != "args" and any(isinstance(key, str) and key.startswith("$") for key in expected):
            return _matcher_mismatch(expected, actual, path, subset)
        return _object_mismatch(expected, actual, subset, path)
    return _value_mismatch(expected, actual, subset, path)


def _value_mismatch(expected: Any, actual: Any, subset: bool, path: str) -> str | None:
    expected, actual = _plain(expected), _plain(actual)
    if isinstance(expected, dict):
        return _object_mismatch(expected, actual, subset, path)
    if _kind(expected) != _kind(actual):
        return f"{path}: expected {shown(expected)}, got {shown(actual)} (type {_kind(actual)}, not {_kind(expected)})"
    if isinstance(expected, list):
        return _list_mismatch(expected, actual, subset, path)
    if isinstance(expected, str):
        return _text_mismatch(expected, actual, path)
    same = _same_number(expected, actual) if _kind(expected) == "number" else expected == actual
    return None if same else f"{path}: expected {shown(expected)}, got {shown(actual)}"


def _plain(value: Any) -> Any:
    if type(value) in (str, int, bool, list, dict) or value is None:
        return value
    return jsonable(value)


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, (int, float)):
        return "number"
    names: dict[type, str] = {str: "string", list: "list", dict: "object"}
    return names.get(type(value), type(value).__name__)


def _same_number(expected: float, actual: float) -> bool:
    if expected == actual:
        return True
    if isinstance(expected, int) and isinstance(actual, int):
        return False
    try:
        return math.isclose(expected, actual, rel_tol=_RELATIVE_TOLERANCE, abs_tol=0.0)
    except OverflowError:
        return False


def _text_mismatch(expected: str, actual: str, path: str) -> str | None:
    if expected == actual:
        return None
    expected, actual = printable(expected), printable(actual)  # as the collector records text
    if unicodedata.normalize("NFC", expected) == unicodedata.normalize("NFC", actual):
        return None
    if _folded(expected) == _folded(actual):
        return f"{path}: expected {_code_points(expected)}, got {_code_points(actual)} (they only look alike)"
    return f"{path}: expected {shown(expected)}, got {shown(actual)}"


def _folded(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold()


def _code_points(text: str) -> str:
    return json.dumps(text[:_SHOWN])


def _list_mismatch(expected: list[Any], actual: list[Any], subset: bool, path: str) -> str | None:
    if len(expected) != len(actual):
        return (
            f"{path}: expected {len(expected)} items, got {len(actual)}: "
            f"expected {shown(expected)}, got {shown(actual)}"
        )
    pairs = enumerate(zip(expected, actual, strict=True))
    return next(
        (why for i, (want, got) in pairs if (why := mismatch(want, got, subset=subset, path=f"{path}[{i}]"))), None
    )


def _object_mismatch(expected: dict[str, Any], actual: Any, subset: bool, path: str) -> str | None:
    actual = _plain(actual)
    if not isinstance(actual, dict):
        return f"{path}: expected an object, got {shown(actual)} (type {_kind(actual)}, not object)"
    for key, want in expected.items():
        if key not in actual:
            return f"{path}.{key}: missing (expected {shown(want)})"
        got = actual[key]
        if type(want) is type(got) and type(want) in _SCALARS and want == got:
            continue
        why = mismatch(want, got, subset=subset, path=f"{path}.{key}")
        if why:
            return why
    if subset or len(actual) == len(expected):
        return None
    extra = [key for key in actual if key not in expected]
    return f"{path}.{extra[0]}: unexpected, got {shown(actual[extra[0]])}"


def shown(value: Any, longest: int = _SHOWN) -> str:
    """A value as JSON text for a message, cut to ``longest`` characters."""
    text = json.dumps(jsonable(value), ensure_ascii=False)
    return text if len(text) <= longest else f"{text[: longest - 3]}..."


# Matchers in expected values

_TYPES = ("string", "number", "integer", "boolean", "list", "object", "null")


def _matcher_mismatch(matcher: dict[str, Any], actual: Any, path: str, subset: bool) -> str | None:
    for place, message in _own_problems(matcher, path):
        return f"{place}: {message}"
    if "$any" in matcher:
        return None
    if "$literal" in matcher:
        return _literal_mismatch(matcher["$literal"], actual, path)
    if "$regex" in matcher:
        return _regex_mismatch(matcher["$regex"], actual, path)
    if "$approx" in matcher:
        return _approx_mismatch(matcher, actual, path)
    if "$type" in matcher:
        return _type_mismatch(matcher["$type"], actual, path)
    options = matcher["$in"]
    if any(mismatch(option, actual, subset=subset, path=path) is None for option in options):
        return None
    return f"{path}: expected one of {shown(options)}, got {shown(actual)}"


def _literal_mismatch(expected: Any, actual: Any, path: str) -> str | None:
    """Equality in which ``$`` keys mean themselves."""
    expected, actual = _plain(expected), _plain(actual)
    if isinstance(expected, dict) and isinstance(actual, dict) and expected.keys() == actual.keys():
        keys = expected.keys()
        return next((w for key in keys if (w := _literal_mismatch(expected[key], actual[key], f"{path}.{key}"))), None)
    if isinstance(expected, list) and isinstance(actual, list) and len(expected) == len(actual):
        pairs = enumerate(zip(expected, actual, strict=True))
        return next((w for i, (want, got) in pairs if (w := _literal_mismatch(want, got, f"{path}[{i}]"))), None)
    if isinstance(expected, (dict, list)):
        return f"{path}: expected exactly {shown(expected)}, got {shown(actual)}"
    return _value_mismatch(expected, actual, False, path)


def _regex_mismatch(pattern: str, actual: Any, path: str) -> str | None:
    if not isinstance(actual, str):
        return f"{path}: expected a string that matches {shown(pattern)}, got {shown(actual)} (type {_kind(actual)})"
    if re.fullmatch(unicodedata.normalize("NFC", pattern), unicodedata.normalize("NFC", actual)):
        return None
    return f"{path}: expected a string that matches {shown(pattern)} as a whole, got {shown(actual)}"


def _approx_mismatch(matcher: dict[str, Any], actual: Any, path: str) -> str | None:
    target, tol = matcher["$approx"], matcher.get("tol", _DEFAULT_TOL)
    if _kind(actual) != "number":
        return f"{path}: expected a number near {shown(target)}, got {shown(actual)} (type {_kind(actual)})"
    if _is_near(target, actual, tol):
        return None
    return f"{path}: expected {shown(target)} within {tol}, got {shown(actual)}"


def _is_near(target: float, actual: float, tol: float) -> bool:
    if target == actual:
        return True
    try:
        slack = _RELATIVE_TOLERANCE * max(abs(target), abs(actual), tol)
        return math.isfinite(actual) and abs(actual - target) <= tol + slack
    except OverflowError:  # a whole number beyond the floats
        return False


def _type_mismatch(wanted: str, actual: Any, path: str) -> str | None:
    actual = _plain(actual)
    kind = _kind(actual)
    whole = kind == "number" and (isinstance(actual, int) or actual.is_integer())
    if kind == wanted or (wanted == "integer" and whole):
        return None
    return f"{path}: expected a value of type {wanted}, got {shown(actual)} (type {kind})"


def matcher_problem(args: Mapping[str, Any]) -> tuple[str, str] | None:
    """The first expected value that uses ``$`` wrongly, as (key path, message), or None.

    The matchers are ``{"$any": true}``, ``{"$regex": "..."}`` (the whole text), ``{"$approx": 3.0, "tol": 0.1}``,
    ``{"$in": [...]}``, ``{"$type": "string"}`` and ``{"$literal": ...}``, which takes ``$`` keys as they are.
    """
    for key, value in args.items():
        if type(value) in (dict, list):
            for problem in _matcher_problems(value, f"args.{key}"):
                return problem
    return None


def _matcher_problems(value: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _matcher_problems(item, f"{path}[{index}]")
    elif isinstance(value, dict):
        if any(isinstance(key, str) and key.startswith("$") for key in value):
            yield from _own_problems(value, path)
        else:
            for key, item in value.items():
                yield from _matcher_problems(item, f"{path}.{key}")


def _own_problems(matcher: dict[str, Any], path: str) -> Iterator[tuple[str, str]]:
    known = {"$any", "$regex", "$approx", "$in", "$type", "$literal"}
    name = next(key for key in matcher if isinstance(key, str) and key.startswith("$"))
    allowed = {name, "tol"} if name == "$approx" else {name}
    value = matcher[name]
    if name not in known:
        literal = shown({"$literal": matcher})
        yield path, f"{name} is not a matcher (known: {', '.join(sorted(known))}); for the value itself write {literal}"
    elif set(matcher) - allowed:
        others = ", ".join(sorted(str(key) for key in matcher.keys() - allowed))
        yield path, f"{name} stands alone in its object; remove {others}"
    elif name == "$any" and value is not True:
        yield path, f'$any takes true, got {shown(value)}; to accept any value write {{"$any": true}}'
    elif name == "$regex":
        yield from _regex_problems(value, path)
    elif name == "$approx":
        yield from _approx_problems(matcher, path)
    elif name == "$type" and value not in _TYPES:
        yield path, f"$type takes one of {', '.join(_TYPES)}, got {shown(value)}"
    elif name == "$in":
        if not isinstance(value, list) or not value:
            yield path, f"$in takes a list of at least one value, got {shown(value)}"
        else:
            yield from _matcher_problems(value, path)


def _regex_problems(pattern: Any, path: str) -> Iterator[tuple[str, str]]:
    try:
        re.compile(pattern if isinstance(pattern, str) else "")
    except re.error as exc:
        yield path, f"$regex {shown(pattern)} is not a regular expression: {exc.msg} at position {exc.pos}"
    if not isinstance(pattern, str):
        yield path, f"$regex takes a string, got {shown(pattern)}"


def _approx_problems(matcher: dict[str, Any], path: str) -> Iterator[tuple[str, str]]:
    if _kind(matcher["$approx"]) != "number":
        yield path, f"$approx takes a number, got {shown(matcher['$approx'])}"
    tol = matcher.get("tol", _DEFAULT_TOL)
    if _kind(tol) != "number" or not 0 <= tol < math.inf:
        yield path, f"tol takes a number of at least 0, got {shown(tol)}"


# Examples


def example(expected: Any) -> Any:
    """A value that ``expected`` matches, with each matcher in it replaced by such a value."""
    if isinstance(expected, list):
        return [example(item) for item in expected]
    if not isinstance(expected, dict):
        return expected
    if "$regex" in expected:
        return _example_text(expected["$regex"])
    for name in ("$literal", "$approx"):
        if name in expected:
            return expected[name]
    if "$in" in expected:
        return example(expected["$in"][0])
    if "$type" in expected:
        samples = {"string": "", "number": 0, "integer": 0, "boolean": False, "list": [], "object": {}, "null": None}
        return samples[expected["$type"]]
    if "$any" in expected:
        return None
    return {key: example(value) for key, value in expected.items()}


_CATEGORIES = {
    "CATEGORY_DIGIT": r"\d",
    "CATEGORY_NOT_DIGIT": r"\D",
    "CATEGORY_SPACE": r"\s",
    "CATEGORY_NOT_SPACE": r"\S",
    "CATEGORY_WORD": r"\w",
    "CATEGORY_NOT_WORD": r"\W",
}


def _example_text(pattern: str) -> str:
    """A short text that the pattern matches as a whole; the pattern itself where none is found."""
    from re import _parser  # type: ignore[attr-defined]  # the only way to read a pattern; guarded below

    try:
        text = _shortest(_parser.parse(pattern))
    except Exception:  # an undocumented module may change
        return pattern
    return text if re.fullmatch(pattern, text) else pattern


def _shortest(parsed: Any) -> str:
    text = ""
    for operation, argument in parsed:
        name = str(operation)
        if name == "LITERAL":
            text += chr(argument)
        elif name == "IN":
            text += _member(argument)
        elif name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
            text += _shortest(argument[2]) * argument[0]
        elif name == "SUBPATTERN":
            text += _shortest(argument[-1])
        elif name == "BRANCH":
            text += _shortest(argument[1][0])
        elif name == "NOT_LITERAL":
            text += "b" if argument == ord("a") else "a"
        elif name == "ANY":
            text += "a"
    return text


def _member(options: Any) -> str:
    name, value = str(options[0][0]), options[0][1]
    if name == "NEGATE":
        return next(char for char in "a0 -_" if not any(_covers(option, char) for option in options[1:]))
    if name == "LITERAL":
        return chr(value)
    if name == "RANGE":
        return chr(value[0])
    return {"CATEGORY_DIGIT": "0", "CATEGORY_SPACE": " ", "CATEGORY_NOT_WORD": "-"}.get(str(value), "a")


def _covers(option: Any, char: str) -> bool:
    name, value = str(option[0]), option[1]
    if name == "LITERAL":
        return bool(value == ord(char))
    if name == "RANGE":
        return bool(value[0] <= ord(char) <= value[1])
    return re.fullmatch(_CATEGORIES[str(value)], char) is not None
