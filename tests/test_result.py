"""Results, and the numbers made of them."""

from __future__ import annotations

import copy
import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from agentflow_eval import (
    CriterionResult,
    CriterionStats,
    ErrorKind,
    EvalCaseResult,
    EvalReport,
    EvalSummary,
    ExecutionResult,
    LoadError,
    NodeDetail,
    NodeResponse,
    Outcome,
    TokenUsage,
    ToolCall,
    TrajectoryStep,
    TurnResult,
)
from agentflow_eval.result import EMPTY_DICT, EMPTY_LIST, NO_TOKENS, TOLERANCE, maker, total_cost, verdict

PASSED = CriterionResult.scored("rouge_match", 1.0, 0.5)
FAILED = CriterionResult.scored("rouge_match", 0.2, 0.5)
BROKEN = CriterionResult.broken("rouge_match", 0.5, "judge away", {"error_kind": "judge"})
SKIPPED = CriterionResult.skipped("rouge_match", 0.5, "nothing stated")


def case(
    eval_id: str = "c", outcome: Outcome = Outcome.PASSED, *results: CriterionResult, **more: Any
) -> EvalCaseResult:
    """A case with this outcome."""
    return EvalCaseResult(
        eval_id=eval_id, outcome=outcome, passed=outcome == "passed", criterion_results=list(results), **more
    )


def report(*outcomes: Outcome, **more: Any) -> EvalReport:
    """A report of one case for each outcome."""
    results = [case(f"c{number}", outcome) for number, outcome in enumerate(outcomes)]
    return EvalReport.create("shop", results, **more)


# Criteria


@pytest.mark.parametrize(
    ("score", "threshold", "outcome"),
    [
        (0.7, 0.7, "passed"),
        (sum([0.7, 0.7, 0.7]) / 3, 0.7, "passed"),
        (0.8 - TOLERANCE / 2, 0.8, "passed"),
        (0.8 - TOLERANCE * 2, 0.8, "failed"),
        (0.0, 0.0, "passed"),
        (1, 1.0, "passed"),
        (0.0, 0.1, "failed"),
    ],
)
def test_threshold(score: float, threshold: float, outcome: str) -> None:
    """A score meets its threshold within rounding, and no further."""
    result = CriterionResult.scored("x", score, threshold)
    assert (outcome, outcome == "passed") == (result.outcome, result.passed)
    assert (result.reason is None) == result.passed
    assert result.error is None


@pytest.mark.parametrize("score", [-0.1, 1.1, float("nan"), float("inf")])
def test_scores_off_the_scale(score: float) -> None:
    """A score is a finite number of 0..1, whatever a criterion says."""
    with pytest.raises(ValueError, match="is not between 0 and 1"):
        CriterionResult.scored("x", score, 0.5)
    with pytest.raises(ValidationError):
        CriterionResult(criterion="x", score=score, passed=score >= 0.5, outcome=Outcome.FAILED)


def test_no_score_where_nothing_was_judged() -> None:
    """Skipped and broken criteria have no score, no pass, and a reason."""
    for result in (SKIPPED, BROKEN):
        assert (result.score, result.passed) == (None, False)
    assert (SKIPPED.reason, SKIPPED.error, SKIPPED.is_error) == ("nothing stated", None, False)
    assert (BROKEN.reason, BROKEN.error, BROKEN.is_error) == ("judge away", "judge away", True)


def test_reasons() -> None:
    """A failed criterion always has a reason; a given one is kept, also beside other details."""
    assert FAILED.reason == "score 0.20 is below the threshold 0.50"
    given_reason = CriterionResult.scored("x", 0.2, 0.5, {"found": []}, "too short")
    assert given_reason.details == {"found": [], "reason": "too short"}
    assert CriterionResult.scored("x", 0.6, 0.5, {"found": []}, "too short").reason is None


@pytest.mark.parametrize(
    "values",
    [
        {"score": 1.0, "passed": True, "outcome": "failed"},
        {"score": 1.0, "passed": False, "outcome": "passed"},
        {"score": None, "passed": True, "outcome": "passed"},
        {"score": 0.5, "passed": False, "outcome": "error"},
        {"score": 0.5, "passed": False, "outcome": "skipped"},
        {"score": None, "passed": False, "outcome": "failed"},
        {"score": 0.5, "passed": False, "outcome": "failed", "verdict": "no"},
    ],
)
def test_inconsistent_criterion_results(values: dict[str, Any]) -> None:
    """Outcome, pass and score cannot contradict each other."""
    with pytest.raises(ValidationError):
        CriterionResult(criterion="x", **values)


def test_inconsistent_case_result() -> None:
    """Outcome and pass of a case cannot contradict each other."""
    with pytest.raises(ValidationError, match="passed is True and outcome is failed"):
        EvalCaseResult(eval_id="c", passed=True, outcome=Outcome.FAILED)


# Cases


@pytest.mark.parametrize(
    ("results", "outcome", "kind"),
    [
        ([PASSED], "passed", None),
        ([PASSED, SKIPPED], "passed", None),
        ([PASSED, FAILED], "failed", None),
        ([BROKEN, FAILED, PASSED], "failed", None),
        ([PASSED, BROKEN], "error", "judge"),
        ([CriterionResult.broken("x", 0.5, "boom")], "error", "criterion"),
        ([CriterionResult.broken("x", 0.5, "boom", {"error_kind": "wiring"}), BROKEN], "error", "wiring"),
        ([CriterionResult.broken("x", 0.5, "boom", {"error_kind": "of my own"})], "error", "criterion"),
        ([CriterionResult.broken("x", 0.5, "boom", {"error_kind": ["odd"]})], "error", "criterion"),
        ([SKIPPED], "error", "nothing_checked"),
        ([], "error", "nothing_checked"),
    ],
)
def test_verdict(results: list[CriterionResult], outcome: str, kind: str | None) -> None:
    """Failed before broken before passed, and a case that nothing judged is an error."""
    assert (outcome, kind) == verdict(results)


def test_case_result_readers() -> None:
    """Criteria are found by name and by how they went."""
    other = CriterionResult.scored("exact_match", 1.0, 1.0)
    result = case("c", Outcome.FAILED, FAILED, other, SKIPPED, name="Returns")
    assert result.get_criterion_result("exact_match") is other
    assert result.get_criterion_result("safety_v1") is None
    assert (result.failed_criteria, result.passed_criteria) == ([FAILED], [other])
    assert case("c", Outcome.ERROR, BROKEN).failed_criteria == [BROKEN]
    assert (result.label, case("c").label) == ("c - Returns", "c")
    assert [case("c", outcome).is_error for outcome in Outcome] == [False, False, True, False]


@pytest.mark.parametrize(
    ("result", "lines"),
    [
        (case(), []),
        (case("c", Outcome.SKIPPED, skip_reason="flaky network"), ["skipped: flaky network"]),
        (case("c", Outcome.FAILED, FAILED, PASSED), [f"rouge_match: {FAILED.reason}"]),
        (case("c", Outcome.ERROR, BROKEN, error="judge away", error_kind="judge"), ["rouge_match: judge away"]),
        (
            case("c", Outcome.ERROR, FAILED, error="ValueError: x", error_kind="agent"),
            ["ValueError: x", f"rouge_match: {FAILED.reason}"],
        ),
        (case("c", Outcome.ERROR, error="no criterion", error_kind="nothing_checked"), ["no criterion"]),
    ],
)
def test_explanation(result: EvalCaseResult, lines: list[str]) -> None:
    """Why a case did not pass, once."""
    assert lines == result.explanation()


@pytest.mark.parametrize(
    ("trials", "rate", "flaky"),
    [([], 1.0, False), ([1, 0, 1, 1, 0], 0.6, True), ([1, 1], 1.0, False), ([0, 0], 0.0, False)],
)
def test_trials(trials: list[int], rate: float, flaky: bool) -> None:
    """A case that passes sometimes is flaky."""
    runs = [case("c", Outcome.PASSED if passed else Outcome.FAILED) for passed in trials]
    result = case("c", Outcome.PASSED if all(trials) else Outcome.FAILED, trials=runs)
    assert (rate, flaky) == (result.trial_pass_rate, result.flaky)


# Tokens


def test_token_usage() -> None:
    """Counts add up; the total is the runtime's, else input and output together."""
    first, second = TokenUsage(input_tokens=5, output_tokens=2), TokenUsage(input_tokens=1, total_tokens=9)
    assert (first.total_tokens, second.total_tokens) == (7, 9)
    both = first + second
    assert (both.input_tokens, both.output_tokens, both.total_tokens) == (6, 2, 16)
    assert sum([], NO_TOKENS) == NO_TOKENS == TokenUsage()
    assert not NO_TOKENS
    assert first + NO_TOKENS == NO_TOKENS + first == first
    assert repr(first) == str(first) == "TokenUsage(input=5, output=2, total=7)"


def test_cached_tokens_alone_are_tokens() -> None:
    """A call that was answered from a cache is counted."""
    cached = TokenUsage(cache_read_tokens=4)
    assert cached
    assert (cached + TokenUsage(input_tokens=1)).cache_read_tokens == 4
    assert (TokenUsage(input_tokens=1) + cached).cache_read_tokens == 4


def test_execution_tokens() -> None:
    """Tokens are those of the run, else those of its nodes."""
    nodes = [NodeResponse(token_usage=TokenUsage(input_tokens=2)), NodeResponse(token_usage=TokenUsage(input_tokens=3))]
    assert ExecutionResult(node_responses=nodes).token_usage.total_tokens == 5
    assert (
        ExecutionResult(node_responses=nodes, agent_token_usage=TokenUsage(total_tokens=8)).token_usage.total_tokens
        == 8
    )


@pytest.mark.parametrize(
    ("execution", "iterations", "saw_events"),
    [
        (ExecutionResult(), 0, False),
        (ExecutionResult(actual_response="hi"), 0, False),
        (ExecutionResult(node_visits=["A", "B"]), 2, True),
        (ExecutionResult(node_visits=["A", "B"], node_responses=[NodeResponse()]), 1, True),
        (ExecutionResult(tool_calls=[ToolCall(name="t")]), 0, True),
        (ExecutionResult(trajectory=[TrajectoryStep.node("A")]), 0, True),
    ],
)
def test_execution(execution: ExecutionResult, iterations: int, saw_events: bool) -> None:
    """Iterations are model turns where they are known, else node visits."""
    assert (iterations, saw_events) == (execution.iterations, execution.saw_events)
    assert execution.tool_trajectory is execution.tool_calls
    assert execution.get_tool_names() == [call.name for call in execution.tool_calls]


# Summary


def test_errors_do_not_move_the_mean() -> None:
    """A criterion that could not judge lowers the pass rate and leaves the mean alone."""
    scores = [CriterionResult.scored("x", 1.0, 0.5), CriterionResult.scored("x", 0.4, 0.5)]
    broken = CriterionResult.broken("x", 0.5, "timeout")
    results = [
        case("a", Outcome.PASSED, scores[0]),
        case("b", Outcome.FAILED, scores[1]),
        case("c", Outcome.ERROR, broken),
        case("d", Outcome.SKIPPED, CriterionResult.skipped("x", 0.5, "none")),
    ]
    summary = EvalSummary.from_results(results)
    stats = summary.criterion_stats["x"]
    assert (stats.avg_score, stats.mean) == (0.7, 0.7)
    assert (stats.total, stats.scored, stats.passed, stats.failed, stats.errored, stats.skipped) == (3, 2, 1, 1, 1, 1)
    assert stats.pass_rate == summary.pass_rate == 1 / 3


def test_summary() -> None:
    """Cases, seconds and tokens are summed; averages are over the cases that ran."""
    results = [
        case("a", duration_seconds=2.0, token_usage=TokenUsage(input_tokens=6), judge_cost=0.5),
        case("b", Outcome.FAILED, duration_seconds=1.0, token_usage=TokenUsage(input_tokens=2), judge_cost=0.25),
        case("c", Outcome.SKIPPED),
    ]
    summary = EvalSummary.from_results(results, wall_clock_seconds=1.5)
    assert summary.total_cases == 3
    assert (summary.passed_cases, summary.failed_cases, summary.error_cases, summary.skipped_cases) == (1, 1, 0, 1)
    assert (summary.total_duration_seconds, summary.avg_duration_seconds, summary.wall_clock_seconds) == (3.0, 1.5, 1.5)
    assert (summary.total_token_usage.total_tokens, summary.avg_tokens_per_case) == (8, 4.0)
    assert list(summary.per_case_token_usage) == ["a", "b"]
    assert summary.judge_cost == 0.75
    assert summary.pass_rate == 0.5


@given(st.lists(st.sampled_from(Outcome), max_size=8))
def test_summary_adds_up(outcomes: list[Outcome]) -> None:
    """The four counts are the total, the rate is a share, and only passed cases raise it."""
    summary = report(*outcomes).summary
    counts = (summary.passed_cases, summary.failed_cases, summary.error_cases, summary.skipped_cases)
    assert summary.total_cases == sum(counts) == len(outcomes)
    assert 0.0 <= summary.pass_rate <= 1.0
    assert (summary.pass_rate == 1.0) == (Outcome.PASSED in outcomes and not {"failed", "error"} & set(outcomes))


def test_total_cost() -> None:
    """Unknown costs are not zero."""
    assert total_cost([None, 0.5, None, 0.25]) == 0.75
    assert total_cost([None]) is None
    assert total_cost([0.0]) == 0.0


# Reports

OK, NO, ERR, SKIP = Outcome.PASSED, Outcome.FAILED, Outcome.ERROR, Outcome.SKIPPED


@pytest.mark.parametrize(
    ("outcomes", "more", "passed", "gate"),
    [
        ([], {}, False, False),
        ([SKIP], {}, False, False),
        ([OK], {}, True, True),
        ([OK, SKIP], {}, True, True),
        ([OK, NO], {}, False, False),
        ([OK, ERR], {}, False, False),
        ([OK, OK, OK, OK, NO], {"min_pass_rate": 0.8}, False, True),
        ([OK, OK, NO], {"min_pass_rate": 2 / 3 + 1e-12}, False, True),
        ([OK, NO, NO], {"min_pass_rate": 0.5}, False, False),
        ([NO], {"min_pass_rate": 1e-10}, False, False),
        ([OK], {"mock": True}, False, False),
        ([OK], {"interrupted": True}, True, False),
    ],
)
def test_gate(outcomes: list[Outcome], more: dict[str, Any], passed: bool, gate: bool) -> None:
    """Nothing passes without a passed case, a real agent and a whole run."""
    made = report(*outcomes, **more)
    assert (passed, gate) == (made.passed, made.gate_passed)


def test_report_readers() -> None:
    """Cases are found by id and by how they went."""
    made = report(OK, NO, ERR, SKIP)
    assert [result.eval_id for result in made.failed_cases] == ["c1", "c2"]
    assert [result.eval_id for result in made.passed_cases] == ["c0"]
    assert made.get_case_result("c3") is made.results[3]
    assert made.get_case_result("c9") is None


def test_format_summary() -> None:
    """The numbers as lines of text."""
    results = [
        case("a", OK, PASSED, token_usage=TokenUsage(input_tokens=30)),
        case("b", ERR, BROKEN),
        case("c", SKIP, SKIPPED, SKIPPED.model_copy(update={"criterion": "safety_v1"})),
    ]
    made = EvalReport.create("shop", results, "Shop", wall_clock_seconds=1.25)
    assert made.format_summary().splitlines() == [
        "Shop: FAILED",
        "  cases: 3 (1 passed, 1 errors, 1 skipped), pass rate 50.0%",
        "  time: 1.25 s",
        "  tokens: 30",
        "  rouge_match: 1/2 passed, mean 1.00, 1 errors, 1 skipped",
        "  safety_v1: 0/0 passed, no score, 1 skipped",
    ]
    assert report(OK).format_summary().startswith("shop: PASSED")
    assert report(OK, mock=True).format_summary().startswith("shop: MOCK RUN")


def full_report() -> EvalReport:
    """A report with every kind of part."""
    tool = ToolCall(name="find", args={"q": "owl", "n": 2**60}, call_id="1", result={"hits": [1.5, None]}, error="late")
    step = TrajectoryStep.tool("find", {"q": "owl"}, 17.5, note="x")
    usage = TokenUsage(input_tokens=3, output_tokens=4, cache_read_tokens=1)
    turn = TurnResult(
        turn_index=0,
        user_input="q",
        agent_response="a",
        tool_calls=[tool],
        node_visits=["A"],
        trajectory_steps=[step],
        expected_tool_calls=[],
        expected_node_order=["A"],
    )
    first = case(
        "a",
        NO,
        CriterionResult.scored("x", 0.1, 0.5, {"nan": float("nan"), "list": [1]}, token_usage=usage, cost=0.01),
        SKIPPED,
        BROKEN,
        actual_trajectory=[step],
        actual_tool_calls=[tool],
        turn_results=[turn],
        node_responses=[NodeResponse(node_name="A", token_usage=usage, input_messages=[{"role": "user"}])],
        node_details=[NodeDetail(node_name="A")],
        trials=[case("a", NO), case("a", OK)],
        tags=["smoke"],
        token_usage=usage,
    )
    second = case("b", ERR, error="timed out: 你好", error_kind=ErrorKind.TIMEOUT, error_traceback="...")
    return EvalReport.create("shop", [first, second], "Shop", {"timeout": 3}, run_id="r1", versions={"python": "3"})


def test_save_then_load(tmp_path: Path) -> None:
    """A report that was written is read whole, and writes the same bytes again."""
    made = full_report()
    made.to_file(tmp_path / "a.json")
    loaded = EvalReport.from_file(str(tmp_path / "a.json"))
    loaded.to_file(tmp_path / "b.json")
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()
    assert made.summary == loaded.summary
    assert loaded.results[1] == made.results[1]
    assert loaded.results[0].criterion_results[1].score is None
    assert loaded.format_version == 1


def test_reports_of_the_original(tmp_path: Path) -> None:
    """A report with nothing but the old keys loads; what broke has no score, whatever the old one wrote."""
    stats = {"total": 3, "passed": 1, "failed": 1, "avg_score": 0.5, "pass_rate": 0.33}
    criteria = [
        {"criterion": "x", "score": 0.9, "passed": True, "threshold": 0.8, "details": {}, "error": None},
        {"criterion": "y", "score": 0.2, "passed": False, "threshold": 0.8, "details": {"reason": "short"}},
        {"criterion": "z", "score": 0.5, "passed": False, "threshold": 0.8, "error": "No provider"},
        {"criterion": "w", "score": 1.0, "passed": True, "threshold": 0.8, "error": "half broken"},
    ]
    turn = {"turn_index": 0, "user_input": "q", "agent_response": "a", "tool_calls": [], "node_visits": []}
    old = {
        "eval_set_id": "shop",
        "eval_set_name": "Shop",
        "results": [
            {"eval_id": "a", "name": "", "passed": True, "criterion_results": criteria[:1], "turn_results": [turn]},
            {"eval_id": "b", "name": "", "passed": False, "criterion_results": criteria},
            {"eval_id": "c", "name": "", "passed": False, "error": "RuntimeError: down", "criterion_results": []},
        ],
        "summary": {"total_cases": 3, "passed_cases": 1, "failed_cases": 1, "error_cases": 1, "pass_rate": 0.33}
        | {"criterion_stats": {"x": stats}, "per_case_token_usage": {"a": {"input_tokens": 1}}},
        "config_used": {},
        "timestamp": 1.5e9,
        "metadata": {},
    }
    (tmp_path / "old.json").write_text(json.dumps(old))
    loaded = EvalReport.from_file(tmp_path / "old.json")
    assert [result.outcome for result in loaded.results] == [OK, NO, ERR]
    outcomes = [(result.outcome, result.score) for result in loaded.results[1].criterion_results]
    assert outcomes == [(OK, 0.9), (NO, 0.2), (ERR, None), (ERR, None)]
    assert loaded.summary.criterion_stats["x"].avg_score == 0.5
    loaded.to_file(tmp_path / "new.json")
    assert EvalReport.from_file(tmp_path / "new.json").results == loaded.results


def test_report_that_contradicts_itself(tmp_path: Path) -> None:
    """A report somebody edited into nonsense is refused with the place."""
    values = json.loads(report(NO).model_dump_json())
    values["results"][0]["passed"] = True
    (tmp_path / "r.json").write_text(json.dumps(values))
    with pytest.raises(LoadError, match=r"results\[0\]: passed is True and outcome is failed"):
        EvalReport.from_file(tmp_path / "r.json")


# Records


def test_records_print_short() -> None:
    """Asyncio prints what a run returns; a report is one word then."""
    made = full_report()
    assert repr(made) == str(made) == "<EvalReport>"
    assert repr(made.results[0]) == "<EvalCaseResult>"


def test_records_read_like_dicts() -> None:
    """Turns and stats were dictionaries once."""
    turn = TurnResult(turn_index=0, user_input="q", agent_response="a")
    assert (turn["agent_response"], turn.get("agent_response"), turn.get("nope", 5)) == ("a", "a", 5)
    assert dict(turn)["user_input"] == "q"
    assert "turn_index" in turn.keys()  # noqa: SIM118  # the method is the subject
    stats = CriterionStats(total=2)
    assert (stats["total"], stats.get("total"), stats.get("nope")) == (2, 2, None)
    for record in (turn, stats):
        with pytest.raises(KeyError):
            record["model_config"]


@pytest.mark.parametrize("cls", [ToolCall, TurnResult, ExecutionResult, CriterionResult, TrajectoryStep])
def test_maker(cls: Any) -> None:
    """A record made without validation equals one made with it."""
    required: dict[str, Any] = {
        "name": "t",
        "step_type": "tool",
        "turn_index": 1,
        "user_input": "q",
        "criterion": "x",
    }
    names = getattr(cls, "model_fields", None) or cls.__dataclass_fields__
    validated = cls(**{name: value for name, value in required.items() if name in names})
    made = maker(cls)(**{name: getattr(validated, name) for name in names})
    assert made == validated
    assert made.model_dump() == validated.model_dump()
    assert copy.deepcopy(made) == pickle.loads(pickle.dumps(made)) == made


def test_shared_empties() -> None:
    """The shared empty values cannot be filled, and their copies can."""
    for fill in (
        lambda: EMPTY_DICT.update(a=1),
        lambda: EMPTY_DICT.setdefault("a", 1),
        lambda: EMPTY_DICT.__setitem__("a", 1),
        lambda: EMPTY_DICT.__ior__({"a": 1}),
        lambda: EMPTY_LIST.append(1),
        lambda: EMPTY_LIST.extend([1]),
        lambda: EMPTY_LIST.__iadd__([1]),
        lambda: EMPTY_LIST.insert(0, 1),
    ):
        with pytest.raises(TypeError, match="make a copy"):
            fill()
    for copied in (copy.copy(EMPTY_DICT), copy.deepcopy(EMPTY_DICT), pickle.loads(pickle.dumps(EMPTY_DICT))):
        copied["a"] = 1
    for copies in (copy.copy(EMPTY_LIST), copy.deepcopy(EMPTY_LIST), pickle.loads(pickle.dumps(EMPTY_LIST))):
        copies.append(1)
    assert (EMPTY_DICT, EMPTY_LIST) == ({}, [])


def test_a_case_keeps_little_memory() -> None:
    """Instances share their field names only up to 29 fields: past that each takes 1.3 KB more."""
    assert len(EvalCaseResult.model_fields) <= 29


def test_timed_out_follows_the_kind_of_error() -> None:
    """It stands in files, and a file that contradicts itself is refused."""
    late = case("a", ERR, error="late", error_kind=ErrorKind.TIMEOUT)
    assert (late.timed_out, late.model_dump()["timed_out"], case("a", OK).timed_out) == (True, True, False)
    assert EvalCaseResult.model_validate(late.model_dump()) == late
    with pytest.raises(ValueError, match="timed_out is False and error_kind is timeout"):
        EvalCaseResult.model_validate(late.model_dump() | {"timed_out": False})


def test_passed_below_the_threshold_is_refused() -> None:
    """A result that somebody made cannot have passed with a score that does not meet its threshold."""
    with pytest.raises(ValueError, match=r"passed is true, and score 0\.2 is below threshold 0\.8"):
        CriterionResult(criterion="c", score=0.2, passed=True, threshold=0.8, outcome=Outcome.PASSED)
    assert CriterionResult(criterion="c", score=0.8, passed=True, threshold=0.8, outcome=Outcome.PASSED).passed
