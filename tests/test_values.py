"""Comparing values, and making foreign values JSON."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import json
import math
import uuid
from collections import OrderedDict, deque
from decimal import Decimal
from fractions import Fraction
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any, NamedTuple, NoReturn

import numpy
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from pydantic import BaseModel

from agentflow_eval._values import as_name, as_text, example, jsonable, matcher_problem, mismatch, shown

NAN = float("nan")

scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
json_values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)


def has_matcher(value: Any) -> bool:
    """Whether an object in the value has a key with ``$``."""
    if isinstance(value, list):
        return any(map(has_matcher, value))
    return isinstance(value, dict) and any(key.startswith("$") or has_matcher(item) for key, item in value.items())


plain_args = st.dictionaries(st.text(max_size=4), json_values, max_size=4).filter(lambda args: not has_matcher(args))


# Matching


@pytest.mark.parametrize(
    ("expected", "actual", "why"),
    [
        pytest.param({"seats": 2}, {"seats": 2}, None, id="equal"),
        pytest.param({"seats": 2}, {"seats": 2.0}, None, id="int and float"),
        pytest.param({"eur": 0.3}, {"eur": 0.1 + 0.2}, None, id="rounding"),
        pytest.param({"eur": 1.0}, {"eur": 1.00001}, "args.eur: expected 1.0, got 1.00001", id="no more than rounding"),
        pytest.param({"id": 7}, {"id": "7"}, "(type string, not number)", id="text is no number"),
        pytest.param({"id": "7"}, {"id": 7}, "(type number, not string)", id="number is no text"),
        pytest.param({"on": True}, {"on": 1}, "(type number, not boolean)", id="1 is not true"),
        pytest.param({"on": 0}, {"on": False}, "(type boolean, not number)", id="false is not 0"),
        pytest.param({"x": None}, {"x": None}, None, id="null"),
        pytest.param({"x": None}, {}, "args.x: missing (expected null)", id="missing is not null"),
        pytest.param({}, {"x": None}, "args.x: unexpected, got null", id="null is not missing"),
        pytest.param({"x": None}, {"x": ""}, "(type string, not null)", id="empty is not null"),
        pytest.param({"user": "u"}, None, "args: expected an object, got null", id="no arguments"),
        pytest.param({"a": {"b": 1, "c": [1]}}, {"a": {"c": [1], "b": 1}}, None, id="key order"),
        pytest.param({"a": [1, 2]}, {"a": [2, 1]}, "args.a[0]: expected 1, got 2", id="list order"),
        pytest.param({"a": [1]}, {"a": [1, 2]}, "args.a: expected 1 items, got 2", id="list length"),
        pytest.param({"a": [{"b": [3]}]}, {"a": [{"b": [4]}]}, "args.a[0].b[0]: expected 3, got 4", id="deep path"),
        pytest.param({"a": {"b": 1}}, {"a": [1]}, "args.a: expected an object, got [1] (type list", id="object"),
        pytest.param({"q": "Zürich"}, {"q": "Zu\u0308rich"}, None, id="canonically equal"),
        pytest.param({"q": "ﬁn"}, {"q": "fin"}, r'expected "\ufb01n", got "fin" (they only look alike)', id="ligature"),
        pytest.param({"q": "Oslo"}, {"q": "oslo"}, "they only look alike", id="case matters"),
        pytest.param({"q": "45"}, {"q": "４５"}, r"\uff14\uff15", id="wide digits"),
        pytest.param({"q": "any"}, {"q": "red"}, 'args.q: expected "any", got "red"', id="word any is no matcher"),
        pytest.param({"y": NAN}, {"y": NAN}, None, id="NaN equals NaN"),
        pytest.param({"y": NAN}, {"y": 1.0}, "args.y: expected", id="NaN is no number"),
        pytest.param({"y": math.inf}, {"y": -math.inf}, "args.y: expected", id="infinities differ"),
        pytest.param({"n": 2**60}, {"n": 2**60 + 1}, "args.n: expected", id="integers are exact"),
        pytest.param({"n": 10**400}, {"n": 1.5}, "args.n: expected", id="beyond floats"),
        pytest.param({"n": 10**6000}, {"n": 10**6000}, None, id="beyond text"),
        pytest.param({"n": 10**6000}, {"n": 10**6000 + 1}, "args.n: expected", id="beyond text, exact"),
        pytest.param({"x": 1}, {"x": 1, "y": 2}, "args.y: unexpected, got 2", id="one more"),
        pytest.param({"$any": True}, {"$any": True}, None, id="names of arguments are names"),
        pytest.param({"t": (1, 2)}, {"t": [1, 2]}, None, id="tuples are lists"),
        pytest.param({"m": MappingProxyType({"a": 1})}, {"m": {"a": 1}}, None, id="mappings are objects"),
        pytest.param({"m": MappingProxyType({"a": 1})}, {"m": {"a": 2}}, "args.m.a: expected 1, got 2", id="mapping"),
    ],
)
def test_mismatch(expected: Any, actual: Any, why: str | None) -> None:
    """Values are compared strictly by type, and the reason names the place and both values."""
    found = mismatch(expected, actual)
    assert (found is None) if why is None else (found is not None and why in found)


@pytest.mark.parametrize(
    ("expected", "actual", "why"),
    [
        pytest.param({"x": 1}, {"x": 1, "y": 2}, None, id="further key"),
        pytest.param({"x": {"a": 1}}, {"x": {"a": 1, "b": 2}}, None, id="further key below"),
        pytest.param({"x": [{"a": 1}]}, {"x": [{"a": 1, "b": 2}]}, None, id="further key in a list"),
        pytest.param({"x": [1]}, {"x": [1, 2]}, "args.x: expected 1 items", id="lists are whole"),
        pytest.param({"x": 1}, {"y": 1}, "args.x: missing", id="missing"),
    ],
)
def test_subset(expected: Any, actual: Any, why: str | None) -> None:
    """Objects may have further keys, at any depth."""
    found = mismatch(expected, actual, subset=True)
    assert (found is None) if why is None else (found is not None and why in found)


@pytest.mark.parametrize(
    ("matcher", "fits", "fits_not"),
    [
        ({"$any": True}, [None, 1, "", [], {"a": 1}], []),
        ({"$regex": r"\d{4}-\d\d"}, ["2031-07"], ["on 2031-07", "2031-07 ", "2031-07\n", 203107, None, ["2031-07"]]),
        ({"$regex": "cafe\u0301"}, ["café", "cafe\u0301"], ["cafe"]),
        ({"$approx": 3.0, "tol": 0.1}, [3, 3.1, 2.9, 3.05], [3.11, 2.8, "3", True, None, NAN, math.inf, 10**400]),
        ({"$approx": 5}, [5, 5.0000001], [5.1, -5]),
        ({"$approx": 10**400}, [10**400], [1.5, 0]),
        ({"$in": ["a", 2, None]}, ["a", 2, 2.0, None], ["b", "2", [], True]),
        ({"$in": [{"k": {"$type": "number"}}]}, [{"k": 1}], [{"k": "1"}, {"k": 1, "l": 2}]),
        ({"$type": "string"}, ["", "x"], [1, None, ["x"]]),
        ({"$type": "number"}, [1, 1.5, -0.0, 10**400], [True, "1"]),
        ({"$type": "integer"}, [1, 2.0, 10**400], [1.5, True, "1", math.inf, NAN]),
        ({"$type": "boolean"}, [True, False], [0, "true"]),
        ({"$type": "list"}, [[], [1]], [{}, "[]"]),
        ({"$type": "object"}, [{}, {"a": 1}], [[], None]),
        ({"$type": "null"}, [None], [0, "", False]),
        ({"$literal": {"$any": True}}, [{"$any": True}], [{"$any": False}, {}, 1]),
        ({"$literal": [{"$in": [1]}, 2]}, [[{"$in": [1]}, 2]], [[{"$in": [1]}], [{"$in": [1]}, 3], {}]),
        ({"$literal": "x"}, ["x"], ["y", 1]),
    ],
)
def test_matchers(matcher: dict[str, Any], fits: list[Any], fits_not: list[Any]) -> None:
    """Each matcher takes what it should and nothing else, at any depth."""
    assert matcher_problem({"v": matcher}) is None
    assert [value for value in fits if mismatch({"v": [matcher]}, {"v": [value]})] == []
    assert [value for value in fits_not if not mismatch({"v": [matcher]}, {"v": [value]})] == []
    assert (mismatch({"v": matcher}, {}) or "").startswith("args.v: missing")


def test_matcher_reasons() -> None:
    """The reason says what the matcher asks for."""
    assert mismatch({"n": {"$regex": r"\d+"}}, {"n": 12}) == (
        r'args.n: expected a string that matches "\\d+", got 12 (type number)'
    )
    assert (
        mismatch({"n": {"$type": "list"}}, {"n": "x"}) == 'args.n: expected a value of type list, got "x" (type string)'
    )
    assert mismatch({"n": {"$in": [1, 2]}}, {"n": 3}) == "args.n: expected one of [1, 2], got 3"


@pytest.mark.parametrize(
    ("args", "place", "message"),
    [
        ({"q": {"$regex": "([0-"}}, "args.q", r'$regex "([0-" is not a regular expression: unterminated'),
        ({"q": {"$regex": "(a"}}, "args.q", "at position 0"),
        ({"q": {"$regex": 5}}, "args.q", "$regex takes a string, got 5"),
        (
            {"q": [0, {"$gt": 5}]},
            "args.q[1]",
            "$gt is not a matcher (known: $any, $approx, $in, $literal, $regex, $type)",
        ),
        ({"q": {"a": {"$gt": 5}}}, "args.q.a", '{"$literal": {"$gt": 5}}'),
        ({"q": {"$any": False}}, "args.q", "$any takes true, got false"),
        ({"q": {"$any": True, "x": 1, 2: 3}}, "args.q", "stands alone in its object; remove 2, x"),
        ({"q": {3: 4, "$any": True}}, "args.q", "remove 3"),
        ({"q": {"$type": "int"}}, "args.q", "$type takes one of string, number, integer"),
        ({"q": {"$type": ["string"]}}, "args.q", "$type takes one of"),
        ({"q": {"$in": []}}, "args.q", "$in takes a list of at least one value"),
        ({"q": {"$in": [1, {"$regex": "*"}]}}, "args.q[1]", "nothing to repeat"),
        ({"q": {"$approx": "3"}}, "args.q", "$approx takes a number"),
        ({"q": {"$approx": 3, "tol": -1}}, "args.q", "tol takes a number of at least 0, got -1"),
        ({"q": {"$approx": 3, "tol": True}}, "args.q", "tol takes a number"),
        ({"q": {"$approx": 3, "tolerance": 1}}, "args.q", "remove tolerance"),
    ],
)
def test_wrong_matchers(args: dict[str, Any], place: str, message: str) -> None:
    """A matcher that makes no sense is told with its place, and matches nothing when it gets as far as a run."""
    problem = matcher_problem(args)
    assert problem is not None
    assert place == problem[0]
    assert message in problem[1]
    if "$in" not in args["q"] or not args["q"]["$in"]:
        assert message in (mismatch(args, args) or "")


@pytest.mark.parametrize(
    "args", [{"$any": 1}, {"q": "$regex"}, {"q": {"literal": "$"}}, {"q": {"$literal": {"$gt": 1}}}, {}]
)
def test_no_wrong_matchers(args: dict[str, Any]) -> None:
    """Argument names and texts may have a ``$``."""
    assert matcher_problem(args) is None


@given(plain_args)
def test_equal_values_match(args: dict[str, Any]) -> None:
    """Any JSON value equals itself and its own copy."""
    assert mismatch(args, args) is None
    assert mismatch(args, json.loads(json.dumps(args))) is None
    assert mismatch(args, args, subset=True) is None


@given(plain_args, plain_args)
def test_matching_is_symmetric(first: dict[str, Any], second: dict[str, Any]) -> None:
    """Without matchers it does not matter which of two values is the expected one."""
    assert (mismatch(first, second) is None) == (mismatch(second, first) is None)


@given(plain_args, plain_args)
def test_literal_is_plain_equality(first: dict[str, Any], second: dict[str, Any]) -> None:
    """A literal compares as values without ``$`` do."""
    plain = mismatch({"v": first}, {"v": second}) is None
    assert plain == (mismatch({"v": {"$literal": first}}, {"v": second}) is None)


@given(json_values)
def test_literal_matches_itself(value: Any) -> None:
    """Anything at all can be expected literally."""
    assert mismatch({"v": {"$literal": value}}, {"v": value}) is None


@given(plain_args, st.text(max_size=4), json_values)
def test_subset_allows_further_keys(args: dict[str, Any], key: str, value: Any) -> None:
    """Further keys never spoil a subset and always spoil an exact match."""
    assume(key not in args)
    assert mismatch(args, {**args, key: value}, subset=True) is None
    assert mismatch(args, {**args, key: value}) is not None


@given(json_values, json_values)
def test_mismatch_never_raises(expected: Any, actual: Any) -> None:
    """Whatever is compared, matchers with nonsense included, the answer is a text or None."""
    assert isinstance(mismatch({"v": expected}, {"v": actual}), str | None)


# Examples

PATTERNS = [
    r"\d{3}-\w+",
    "[a-f]{2}",
    "(ab|cd)+",
    "a?b*",
    ".",
    r"\S\s\W",
    "x{2,}y",
    "(?:n|m)o",
    "[^a]",
    "[^b]",
    r"[^\w-]",
    "[^a-z0 ]+",
    r"[\d_]",
    r"[\s.]",
    r"[\W]",
    r"\.json",
    "ﬁ",
    "e\u0301",
    "",
]
regexes = st.sampled_from(PATTERNS)
matchers = st.recursive(
    st.one_of(
        scalars,
        st.just({"$any": True}),
        regexes.map(lambda pattern: {"$regex": pattern}),
        st.floats(allow_nan=False, allow_infinity=False).map(lambda number: {"$approx": number}),
        st.sampled_from(["string", "number", "integer", "boolean", "list", "object", "null"]).map(
            lambda t: {"$type": t}
        ),
        json_values.map(lambda value: {"$literal": value}),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.text("abc", max_size=2), inner, max_size=3),
        st.lists(inner, min_size=1, max_size=3).map(lambda options: {"$in": options}),
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.text("abc", min_size=1, max_size=2), matchers, max_size=3))
def test_example_matches(expected: dict[str, Any]) -> None:
    """The example of an expectation meets it."""
    assert matcher_problem(expected) is None
    assert mismatch(expected, {key: example(value) for key, value in expected.items()}) is None


@pytest.mark.parametrize("pattern", PATTERNS)
def test_example_of_a_pattern(pattern: str) -> None:
    """The example of a pattern is a text that it matches as a whole."""
    assert mismatch({"v": {"$regex": pattern}}, {"v": example({"$regex": pattern})}) is None


def test_example_of_a_pattern_beyond_it() -> None:
    """A pattern that is too clever gives itself."""
    assert example({"$regex": r"(a)(?!b)\1\b"}) == r"(a)(?!b)\1\b"
    assert example({"$regex": "("}) == "("


# Projection to JSON


class Color(enum.Enum):
    """A plain enum."""

    RED = "red"
    TWO = 2


class Word(str, enum.Enum):  # noqa: UP042  # on purpose: its text is not its value
    """An enum of texts whose `str` is not its value."""

    YES = "yes"


class Item(BaseModel):
    """A model."""

    sku: str
    qty: int = 1
    when: datetime.date | None = None


@dataclasses.dataclass
class Pair:
    """A dataclass."""

    left: Any
    right: Any = None


class Point(NamedTuple):
    """A named tuple."""

    x: int
    y: int


class Shout(str):
    """A text that prints as another."""

    def __str__(self) -> str:
        return self.upper()


class Hostile:
    """Raises from everything."""

    def __str__(self) -> NoReturn:
        raise RuntimeError("no text")

    __repr__ = __str__

    def __iter__(self) -> NoReturn:
        raise RuntimeError("no items")


class Unbound:
    """A proxy without an object behind it."""

    @property
    def __class__(self) -> Any:
        raise RuntimeError("unbound")

    @__class__.setter
    def __class__(self, value: Any) -> None:
        raise RuntimeError("unbound")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (datetime.datetime(2031, 5, 6, 7, 8, tzinfo=datetime.UTC), "2031-05-06T07:08:00+00:00"),
        (datetime.date(2031, 5, 6), "2031-05-06"),
        (datetime.time(7, 8), "07:08:00"),
        (Decimal("7.50"), 7.5),
        (Decimal("7.00"), 7),
        (Decimal("1e400"), "1E+400"),
        (Decimal("1e999999999"), "1E+999999999"),
        (Decimal("-Infinity"), "-Infinity"),
        (Decimal("sNaN"), "NaN"),
        (Decimal("0e500"), 0),
        ({"b", "a"}, ["a", "b"]),
        (frozenset({2, 1}), [1, 2]),
        ({1, "1"}, [1, "1"]),
        (b"\x00\x02", "AAI="),
        (bytearray(b"\x00"), "AA=="),
        (memoryview(b"\x00"), "AA=="),
        (Color.RED, "red"),
        (Color.TWO, 2),
        (Word.YES, "yes"),
        (Item(sku="A7", when=datetime.date(2031, 1, 2)), {"sku": "A7", "qty": 1, "when": "2031-01-02"}),
        (Pair((1, 2), {"x"}), {"left": [1, 2], "right": ["x"]}),
        (Point(1, 2), [1, 2]),
        (OrderedDict(a=1), {"a": 1}),
        (MappingProxyType({"a": (1,)}), {"a": [1]}),
        (uuid.UUID(int=5), "00000000-0000-0000-0000-000000000005"),
        (PurePosixPath("/srv/x"), "/srv/x"),
        (NAN, "NaN"),
        ([math.inf, -math.inf], ["Infinity", "-Infinity"]),
        ({1: "a", None: "b", Color.RED: "c", Word.YES: "d"}, {"1": "a", "None": "b", "red": "c", "yes": "d"}),
        (10**5000, hex(10**5000)),
        (10**4000, 10**4000),
        (Shout("quiet"), "quiet"),
        ("\ud800\x00", r"\ud800\x00"),
        (Hostile(), "<Hostile: unreadable, RuntimeError>"),
        ({Hostile(): 1}, {"<Hostile: unreadable, RuntimeError>": 1}),
        (Unbound(), "<Unbound: unreadable, RuntimeError>"),
        (Pair(Hostile()), {"left": "<Hostile: unreadable, RuntimeError>", "right": None}),
        (deque([1]), "deque([1])"),
        (Pair, "<class 'tests.test_values.Pair'>"),
        (3 + 4j, "(3+4j)"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_jsonable(value: Any, expected: Any) -> None:
    """Foreign values become JSON in one documented way."""
    projected = jsonable(value)
    assert json.dumps(expected) == json.dumps(projected)
    assert json.loads(json.dumps(projected)) == projected


def test_an_expected_foreign_value_matches() -> None:
    """Expected and recorded values go through the same projection."""
    expected = {"at": "2031-05-06", "eur": 7.5, "tags": ["a", "b"], "blob": "AAI=", "item": {"sku": "A7", "qty": 2}}
    actual = {
        "at": datetime.date(2031, 5, 6),
        "eur": Decimal("7.50"),
        "tags": {"b", "a"},
        "blob": b"\x00\x02",
        "item": Pair(1),
    }
    recorded = jsonable({**actual, "item": {"sku": "A7", "qty": 2}})
    assert mismatch(expected, recorded) is None
    assert mismatch({**actual, "item": {"sku": "A7", "qty": 2}}, recorded) is None


def test_jsonable_of_objects_that_hold_themselves() -> None:
    """A tree with links to the parent ends at the link, however wide it is."""
    ring: list[Any] = [1]
    ring += [ring, ring, ring]
    assert jsonable(ring) == [1, *["<list that holds itself>"] * 3]
    parent: Any = Pair([])
    parent.left += [Pair(number, parent) for number in range(20)]
    assert jsonable(parent)["left"][7] == {"left": 7, "right": "<Pair that holds itself>"}
    loop: dict[str, Any] = {}
    loop["self"] = {"again": loop}
    assert jsonable(loop) == {"self": {"again": "<dict that holds itself>"}}


def test_jsonable_keeps_what_stands_in_two_places() -> None:
    """The same object beside itself is no ring."""
    shared = {"a": 1}
    assert jsonable([shared, shared, {"x": shared}]) == [{"a": 1}, {"a": 1}, {"x": {"a": 1}}]


def test_jsonable_stops_at_a_depth() -> None:
    """Nesting beyond reason is cut with a note."""
    nested: Any = "bottom"
    for _ in range(100):
        nested = [nested]
    text = json.dumps(jsonable(nested))
    assert "<nested too deeply>" in text
    assert text.count("[") == 64


def test_jsonable_is_a_copy() -> None:
    """Later changes of the value are not seen."""
    value = {"a": [1, {"b": 2}]}
    copy = jsonable(value)
    value["a"].append(3)
    assert copy == {"a": [1, {"b": 2}]}


@given(json_values)
def test_jsonable_is_idempotent(value: Any) -> None:
    """What is JSON already stays as it is, and can be written."""
    once = jsonable(value)
    assert json.dumps(once) == json.dumps(jsonable(once))
    json.dumps(once, allow_nan=False, ensure_ascii=False).encode()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("plain", "plain"),
        ("", ""),
        (None, None),
        ("\ud800", r"\ud800"),
        (b"\x00\x02", "b64:AAI="),
        ({"answer": "blue", "n": 2}, '{"answer": "blue", "n": 2}'),
        (["你好", True], '["你好", true]'),
        (5, "5"),
        (Word.YES, "yes"),
        (Color.RED, "red"),
        (Shout("quiet"), "quiet"),
        (Item(sku="A7"), '{"sku": "A7", "qty": 1, "when": null}'),
        (NAN, '"NaN"'),
        (Hostile(), '"<Hostile: unreadable, RuntimeError>"'),
        (Unbound(), '"<Unbound: unreadable, RuntimeError>"'),
    ],
    ids=lambda value: type(value).__name__,
)
def test_as_text(value: Any, text: str | None) -> None:
    """Any answer becomes text, and None stays no answer."""
    assert text == as_text(value)


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ("MAIN", "MAIN"),
        (Word.YES, "yes"),
        (Color.TWO, "2"),
        (7, "7"),
        ("a\x00", r"a\x00"),
        (Shout("main"), "main"),
        (Hostile(), "<Hostile: unreadable, RuntimeError>"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_as_name(value: Any, name: str) -> None:
    """Names of nodes and tools may be given as enum members."""
    assert name == as_name(value)


def test_shown_is_short() -> None:
    """Values in messages are cut."""
    assert shown({"a": [1, None]}) == '{"a": [1, null]}'
    assert len(shown("x" * 500)) == 120
    assert shown("x" * 500).endswith("...")


def test_numbers_of_other_kinds() -> None:
    """Fractions and NumPy's scalars are numbers, truth values and lists, in records and in matching."""
    made = [Fraction(1, 4), numpy.int64(7), numpy.float32(0.5), numpy.bool_(True), numpy.array([[1, 2], [3, 4]])]
    assert jsonable(made) == [0.25, 7, 0.5, True, [[1, 2], [3, 4]]]
    assert [type(item) for item in jsonable(made)] == [float, int, float, bool, list]
    assert jsonable(numpy.float64("nan")) == "NaN"
    assert mismatch({"n": 7}, {"n": numpy.int64(7)}) is None
    assert mismatch({"n": True}, {"n": numpy.int64(1)}) is not None
