"""Tool calls in order and with arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentflow_eval import CriterionResult, MatchType, ToolCall, TrajectoryConfig, TrajectoryMatchCriterion
from tests.criteria.runs import Call, calls, case, expecting, run

EXACT, IN_ORDER, ANY_ORDER = MatchType.EXACT, MatchType.IN_ORDER, MatchType.ANY_ORDER


def judge(expected: Sequence[Call], actual: Sequence[Call], **config: Any) -> CriterionResult:
    """The judgement of a run with these calls."""
    criterion = TrajectoryMatchCriterion(TrajectoryConfig(**{"threshold": 1.0, **config}))
    return criterion.evaluate_sync(run(tools=actual, nodes=["MAIN"]), case(expecting(tools=expected)))


def table(name: str, **args: Any) -> dict[str, Any]:
    """The values of a call."""
    return {"name": name, "args": args}


@pytest.mark.parametrize(
    ("expected", "actual", "score", "parts"),
    [
        pytest.param([table("pay", eur=5)], [table("pay", eur=5)], 1.0, [], id="equal"),
        pytest.param(
            [table("pay", eur=5)],
            [table("pay", eur=5, tip=False)],
            0.0,
            ["step 1: pay: args.tip: unexpected, got false"],
            id="argument too many",
        ),
        pytest.param([table("set", c=21)], [table("set", c=21.0)], 1.0, [], id="int and float"),
        pytest.param([table("pay", eur=0.3)], [table("pay", eur=0.1 + 0.2)], 1.0, [], id="rounding"),
        pytest.param(
            [table("get", id=7)],
            [table("get", id="7")],
            0.0,
            ['args.id: expected 7, got "7" (type string, not number)'],
            id="type",
        ),
        pytest.param([table("find", c=None)], [table("find", c=None)], 1.0, [], id="null"),
        pytest.param([table("list", u="x")], [table("list")], 0.0, ['args.u: missing (expected "x")'], id="missing"),
        pytest.param(
            [table("ship", to={"zip": "7", "city": "Ulm"})],
            [table("ship", to={"city": "Ulm", "zip": "7"})],
            1.0,
            [],
            id="key order",
        ),
        pytest.param([table("geo", p="Zürich")], [table("geo", p="Zu\u0308rich")], 1.0, [], id="canonical"),
        pytest.param([table("dial", n="45")], [table("dial", n="４５")], 0.0, [r"\uff14"], id="look alike"),
        pytest.param([table("open", t={"$any": True})], [table("open", t=[1])], 1.0, [], id="any"),
        pytest.param([table("open", t={"$any": True})], ["open"], 0.0, ["args.t: missing"], id="any is there"),
        pytest.param([table("f", c="any")], [table("f", c="red")], 0.0, [], id="the word any"),
        pytest.param(
            [table("log", d={"$regex": r"\d+"})], [table("log", d="on 5")], 0.0, ["as a whole"], id="whole text"
        ),
        pytest.param([table("log", d={"$regex": r"\d+"})], [table("log", d=5)], 0.0, ["a string that"], id="no text"),
        pytest.param(
            [table("s", d={"$literal": {"$any": True}})], [table("s", d={"$any": True})], 1.0, [], id="literal"
        ),
        pytest.param([table("plot", y=float("nan"))], [table("plot", y=float("nan"))], 1.0, [], id="NaN"),
        pytest.param(
            ["Web Search"],
            ["web_search"],
            0.0,
            ["step 1: expected Web Search(), got web_search() (did you mean web_search?)"],
            id="near name",
        ),
        pytest.param(
            [table("a", x=1), "b"],
            [table("a", x=1)],
            0.5,
            ["step 2: expected b(), got nothing"],
            id="call missing",
        ),
        pytest.param(
            ["a"], ["a", table("b", y=2)], 0.5, ["step 2: b(y=2) was called and is not expected"], id="call too many"
        ),
        pytest.param(["a", "b"], ["b", "a"], 0.0, ["step 1: expected a(), got b()", "step 2"], id="swapped"),
        pytest.param([table("write", s="\x1b\x00")], [table("write", s="\x1b\x00")], 1.0, [], id="control characters"),
        pytest.param([], [], 1.0, [], id="none expected, none made"),
        pytest.param([], ["a"], 0.0, ["no tool may be called, got a()"], id="none expected, one made"),
        pytest.param(["a"], [], 0.0, ["step 1: expected a(), got nothing"], id="nothing made"),
    ],
)
def test_exact_with_arguments(expected: list[Call], actual: list[Call], score: float, parts: list[str]) -> None:
    """The same calls at the same places; the reason names step, tool, place, expected and got."""
    result = judge(expected, actual, check_args=True)
    assert score == result.score
    assert (score == 1.0) == result.passed
    assert not [part for part in parts if part not in (result.reason or "")], result.reason


@pytest.mark.parametrize(
    ("match_type", "expected", "actual", "score", "parts"),
    [
        (IN_ORDER, ["a", "b"], ["a", "x", "b", "y"], 1.0, []),
        (IN_ORDER, ["a", "b"], ["b", "a"], 0.5, ["was called, but not in the expected order"]),
        (IN_ORDER, ["a", "b"], ["a"], 0.5, ["step 2: b() was not called"]),
        (IN_ORDER, [table("a", x=1)], [table("a", x=2)], 0.0, ["step 1: a: args.x: expected 1, got 2"]),
        (ANY_ORDER, [table("p", h="a")] * 2, [table("p", h="a")], 0.5, ['step 2: p(h="a") was not called']),
        (ANY_ORDER, [table("f", u="x")], [table("f", u="x")] * 3, 1.0, []),
        (ANY_ORDER, [table("s", r={"$any": True}), table("s", r=7)], [table("s", r=7), table("s", r=9)], 1.0, []),
        (ANY_ORDER, [table("s", r=7), table("s", r={"$any": True})], [table("s", r=7), table("s", r=9)], 1.0, []),
        (ANY_ORDER, [table("w", c="Oslo"), table("f")], [table("f"), table("w", c="Oslo")], 1.0, []),
        (ANY_ORDER, ["a"], ["b"], 0.0, ["step 1: a() was not called"]),
        (ANY_ORDER, [], ["b"], 0.0, ["no tool may be called"]),
        (EXACT, ["power", "times"], ["power", "times"], 1.0, []),
    ],
)
def test_match_types(
    match_type: MatchType, expected: list[Call], actual: list[Call], score: float, parts: list[str]
) -> None:
    """Extras are allowed where the order may be loose, and each call counts once."""
    result = judge(expected, actual, match_type=match_type, check_args=True)
    assert score == result.score
    assert not [part for part in parts if part not in (result.reason or "")], result.reason
    assert result.details["match_type"] == match_type.value


@pytest.mark.parametrize(
    ("settings", "passed"),
    [
        ({}, True),
        ({"check_args": True}, False),
        ({"args_mode": "exact"}, False),
        ({"args_mode": "subset"}, True),
        ({"args_mode": "ignore", "check_args": True}, True),
    ],
)
def test_ways_of_comparing_arguments(settings: dict[str, Any], passed: bool) -> None:
    """Arguments are ignored unless asked for, and may be a part of those made."""
    result = judge([table("find", q="owl")], [table("find", q="owl", limit=5)], **settings)
    assert passed == result.passed
    assert result.details["check_args"] == (settings not in ({}, {"args_mode": "ignore", "check_args": True}))


@pytest.mark.parametrize(
    ("expected", "actual", "passed"),
    [
        ({"q": "owl"}, {"q": "owl", "limit": 10}, True),
        ({"q": "owl", "limit": 10}, {"q": "owl"}, True),
        ({"q": "owl"}, {"q": "owl", "limit": 20}, False),
        ({"q": "owl", "limit": 20}, {"q": "owl"}, False),
        ({}, {"q": "owl", "limit": 20}, True),
    ],
)
def test_defaults_of_tools(expected: dict[str, Any], actual: dict[str, Any], passed: bool) -> None:
    """A left out argument is its default, on both sides."""
    settings: dict[str, Any] = {"check_args": True, "tool_defaults": {"find": {"limit": 10}, "other": {"x": 1}}}
    assert passed == judge([{"name": "find", "args": expected}], [{"name": "find", "args": actual}], **settings).passed


@pytest.mark.parametrize(("required", "passed"), [(False, True), (True, False)])
def test_calls_that_failed(required: bool, passed: bool) -> None:
    """A failed call matches and is flagged, unless success is required."""
    failed = [ToolCall(name="charge", args={"eur": 5}, error="CardDeclined")]
    result = judge([table("charge", eur=5)], failed, check_args=True, require_success=required)
    assert passed == result.passed
    if passed:
        assert result.details["notes"] == ["1 matched call ended in an error"]
    else:
        assert result.reason == "step 1: charge ended in an error: CardDeclined"


def test_vacuous_arguments_are_visible() -> None:
    """An expected call without arguments accepts any and says so, where arguments are compared at all."""
    assert judge(["find"], [table("find", q=1)], check_args=True).details["notes"] == [
        "step 1: find: arguments not constrained"
    ]
    assert "notes" not in judge(["find"], [table("find", q=1)]).details


def test_call_ids_are_never_compared() -> None:
    """The runtime's ids do not matter."""
    assert judge([ToolCall(name="a", call_id="1")], [ToolCall(name="a", call_id="2")], check_args=True).passed


def test_missing_arguments() -> None:
    """A call without arguments lacks those expected, and nothing raises."""
    assert judge([table("find", q=1)], ["find"], check_args=True).reason == "step 1: find: args.q: missing (expected 1)"


def test_many_reasons_are_cut() -> None:
    """Twenty wrong steps give five lines and a count."""
    result = judge([f"a{number}" for number in range(20)], [f"b{number}" for number in range(20)])
    assert result.reason is not None
    assert result.reason.count("step") == 5
    assert result.reason.endswith("; and 15 more")


def test_threshold() -> None:
    """A share may be enough."""
    assert judge(["a", "b", "c", "d"], ["a", "b", "c", "x"], threshold=0.75).passed
    assert not judge(["a", "b", "c", "d"], ["a", "b", "y", "x"], threshold=0.75).passed


names = st.lists(st.sampled_from("abc"), max_size=5)


@given(names, names, st.sampled_from(MatchType), st.booleans())
def test_scores_are_shares(expected: list[Call], actual: list[Call], match_type: MatchType, check_args: bool) -> None:
    """Any run gets a score of 0..1 and, short of passing, a reason."""
    result = judge(expected, actual, match_type=match_type, check_args=check_args)
    assert result.score is not None
    assert 0.0 <= result.score <= 1.0
    assert result.passed == (result.reason is None)


@given(names, names.filter(bool), st.sampled_from("abcx"))
def test_an_extra_call_never_raises_an_exact_score(expected: list[str], actual: list[str], extra: str) -> None:
    """Calling one more tool than expected is never better."""
    before, after = judge([*expected], [*actual]).score, judge([*expected], [*actual, extra]).score
    assert before is not None
    assert after is not None
    assert after <= before or len(actual) < len(expected)


@given(names.filter(bool), st.permutations(range(5)))
def test_any_order_ignores_the_order(actual: list[str], order: list[int]) -> None:
    """The order of the expected calls makes no difference."""
    expected: list[Call] = [table("a"), table("b", x={"$any": True}), table("b", x=1), table("c"), table("a")]
    made = [table(name, x=1) for name in actual]
    first = judge(expected, [*made], match_type=ANY_ORDER, check_args=True)
    second = judge([expected[index] for index in order], [*made], match_type=ANY_ORDER, check_args=True)
    assert first.score == second.score


def test_calls_helper() -> None:
    """Expected calls may be names, values or calls."""
    assert calls("a", {"name": "b"}, ToolCall(name="c")) == [ToolCall(name=name) for name in "abc"]
