"""What all criteria share: whole runs, turns, overrides, and evidence that is missing."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agentflow_eval import (
    AgentEvaluator,
    BaseCriterion,
    ContainsKeywordsConfig,
    ContainsKeywordsCriterion,
    CriteriaConfig,
    CriterionConfig,
    CriterionResult,
    EvalCase,
    EvalCaseResult,
    EvalConfig,
    EvalSet,
    ExactMatchConfig,
    ExactMatchCriterion,
    ExecutionResult,
    Invocation,
    MatchType,
    NodeOrderConfig,
    NodeOrderMatchCriterion,
    ReporterConfig,
    RougeMatchConfig,
    RougeMatchCriterion,
    SyncCriterion,
    ToolCall,
    ToolNameMatchConfig,
    ToolNameMatchCriterion,
    TrajectoryConfig,
    TrajectoryMatchCriterion,
)
from agentflow_eval.criteria import build, for_case
from tests.criteria.runs import case, expecting, run

TOOL_CRITERIA: list[Any] = [
    TrajectoryMatchCriterion(TrajectoryConfig()),
    ToolNameMatchCriterion(ToolNameMatchConfig()),
    NodeOrderMatchCriterion(NodeOrderConfig()),
]


# Wiring


@pytest.mark.parametrize("criterion", TOOL_CRITERIA, ids=lambda criterion: criterion.slot)
def test_an_answer_without_events(criterion: SyncCriterion) -> None:
    """An agent that answered while nothing was recorded is an error about wiring, with the fix."""
    result = criterion.evaluate_sync(run(answer="Hi"), case(expecting(tools=["a"], nodes=["A"])))
    assert (result.outcome, result.details["error_kind"]) == ("error", "wiring")
    assert "the collector saw no events" in (result.reason or "")
    assert "run.tool(...)" in (result.reason or "")


@pytest.mark.parametrize("criterion", TOOL_CRITERIA, ids=lambda criterion: criterion.slot)
def test_neither_answer_nor_events(criterion: SyncCriterion) -> None:
    """An agent that did nothing at all failed."""
    result = criterion.evaluate_sync(run(answer=None), case(expecting(tools=["a"], nodes=["A"])))
    assert (result.outcome, result.score) == ("failed", 0.0)


# The whole case


def test_all_turns_together() -> None:
    """Without a scope the accumulated execution is scored once."""
    actual = run({"tools": ["a"], "nodes": ["A"]}, {"tools": ["b"], "nodes": ["B"]}, {"tools": ["c"], "nodes": ["C"]})
    expected = case(expecting(tools=["a"], nodes=["A"]), expecting(tools=["b", "c"], nodes=["B", "C"]), expecting())
    for criterion in TOOL_CRITERIA:
        result = criterion.evaluate_sync(actual, expected)
        assert result.score == 1.0
        assert "turns" not in result.details


def test_a_run_built_by_hand() -> None:
    """An execution without turns is judged by its response."""
    actual = ExecutionResult(actual_response="two", tool_calls=[ToolCall(name="a")])
    expected = case(expecting("one"), expecting("two", tools=["a"]))
    assert ExactMatchCriterion(ExactMatchConfig()).evaluate_sync(actual, expected).passed
    assert TOOL_CRITERIA[0].evaluate_sync(actual, expected).passed
    empty = EvalCase(eval_id="none")
    assert RougeMatchCriterion(RougeMatchConfig()).evaluate_sync(actual, empty).outcome == "skipped"


# Turn by turn


def test_scope_turn() -> None:
    """Each turn is scored by its own expectations; the mean is the score, and every judged turn has to pass."""
    actual = run({"answer": "one"}, {"answer": "zwei"}, {"answer": "three"})
    expected = case(expecting("one"), expecting("two"), expecting())
    result = ExactMatchCriterion(ExactMatchConfig(scope="turn", threshold=0.4)).evaluate_sync(actual, expected)
    assert (result.outcome, result.score, result.threshold) == ("failed", 0.5, 0.4)
    assert result.reason == 'turn 2: differs at character 1: expected "two", got "zwei"'
    assert [(row["turn"], row["outcome"], row["score"]) for row in result.details["turns"]] == [
        (1, "passed", 1.0),
        (2, "failed", 0.0),
        (3, "skipped", None),
    ]


def test_scope_turn_passed() -> None:
    """When every judged turn passed the case did."""
    actual = run({"tools": ["a"]}, {"tools": ["b", "x"]}, {"tools": ["c"]})
    expected = case(expecting(tools=["a"]), expecting(), expecting(tools=["c"]))
    config = TrajectoryConfig(scope="turn", threshold=1.0)
    result = TrajectoryMatchCriterion(config).evaluate_sync(actual, expected)
    assert (result.outcome, result.score, result.threshold) == ("passed", 1.0, 1.0)
    assert not TrajectoryMatchCriterion(TrajectoryConfig(threshold=1.0)).evaluate_sync(actual, expected).passed


def test_scope_turn_without_expectations() -> None:
    """No turn that states anything is no judgement."""
    result = ExactMatchCriterion(ExactMatchConfig(scope="turn")).evaluate_sync(run(), case(expecting()))
    assert (result.outcome, result.reason) == ("skipped", "no turn states an expectation for it")
    assert result.details["turns"][0]["outcome"] == "skipped"


def test_scope_turn_with_a_broken_turn() -> None:
    """A turn that cannot be judged breaks the criterion, and keeps the kind of the break."""
    expected = case(expecting("?!"), expecting("b"))
    result = RougeMatchCriterion(RougeMatchConfig(scope="turn")).evaluate_sync(run({}, {"answer": "b"}), expected)
    assert result.outcome == "error"
    assert (result.reason or "").startswith("turn 1: the expected answer '?!' has no word")
    unwired = TrajectoryMatchCriterion(TrajectoryConfig(scope="turn"))
    broken = unwired.evaluate_sync(run(), case(expecting(tools=["a"])))
    assert broken.details["error_kind"] == "wiring"


def test_unanswered_turns_fail() -> None:
    """A turn that should have been answered and was not fails, although a later one was."""
    actual = run({"answer": None}, {"answer": "two"})
    expected = case(expecting("a"), expecting("two"))
    result = RougeMatchCriterion(RougeMatchConfig(scope="turn")).evaluate_sync(actual, expected)
    assert (result.outcome, result.reason) == ("failed", "turn 1: the agent gave no response")


def test_turns_that_were_not_played() -> None:
    """Turns beyond the recorded ones are not judged by another turn's evidence."""
    result = ExactMatchCriterion(ExactMatchConfig(scope="turn")).evaluate_sync(
        run({"answer": "one"}), case(expecting("one"), expecting("two"))
    )
    assert [row["turn"] for row in result.details["turns"]] == [1]


def test_keywords_turn_by_turn() -> None:
    """Keywords of the config count in every turn, those of the case in the last one."""
    actual = run({"answer": "fee one"}, {"answer": "fee two"})
    expected = case(expecting(expected_keywords=["one"]), expecting(), expected_keywords=["two"])
    config = ContainsKeywordsConfig(keywords=["fee"], scope="turn", threshold=1.0)
    assert ContainsKeywordsCriterion(config).evaluate_sync(actual, expected).passed


# Overrides


def test_turns_override_the_config() -> None:
    """A turn's own slot replaces the config's for that turn: another threshold, off, or null."""
    actual = run({"answer": "a b"}, {"answer": "x"}, {"answer": "x"}, {"answer": "a b"})
    turns = [expecting("a b c") for _ in range(4)]
    turns[0].criteria = CriteriaConfig(rouge_match=RougeMatchConfig(threshold=0.5))
    turns[1].criteria = CriteriaConfig(rouge_match=RougeMatchConfig(enabled=False))
    turns[2].criteria = CriteriaConfig(rouge_match=None)
    result = RougeMatchCriterion(RougeMatchConfig(threshold=0.9)).evaluate_sync(actual, case(*turns))
    assert [(row["turn"], row["outcome"]) for row in result.details["turns"]] == [(1, "passed"), (4, "failed")]
    assert result.outcome == "failed"


def test_a_pass_below_the_threshold_of_the_config() -> None:
    """Turns with lower thresholds of their own may pass with a lower mean."""
    turn = expecting("a b c", criteria=CriteriaConfig(rouge_match=RougeMatchConfig(threshold=0.5)))
    result = RougeMatchCriterion(RougeMatchConfig(threshold=0.9)).evaluate_sync(run(answer="a b"), case(turn))
    assert (result.outcome, result.score) == ("passed", 0.8)
    assert result.threshold == 0.8


def names(criteria: list[BaseCriterion] | None) -> list[str]:
    """The names of criteria, in running order."""
    return [criterion.name for criterion in criteria or []]


def test_build() -> None:
    """What is switched on is built, in running order."""
    criteria = EvalConfig.strict().criteria
    criteria.exact_match = ExactMatchConfig()
    criteria.rouge_match = RougeMatchConfig(enabled=False)
    assert names(build(criteria)) == [
        "tool_trajectory_avg_score",
        "response_match_score",
        "exact_match",
        "final_response_match_v2",
    ]
    assert for_case(case(expecting()), criteria) is None


def test_criteria_of_a_case() -> None:
    """Turn over case over config: slots are replaced, switched off and added."""
    config = CriteriaConfig(rouge_match=RougeMatchConfig(), exact_match=ExactMatchConfig())
    turn = expecting("a", criteria=CriteriaConfig(node_order=NodeOrderConfig(), rouge_match=RougeMatchConfig()))
    own = case(
        turn,
        criteria=CriteriaConfig(exact_match=None, tool_name_match=ToolNameMatchConfig(threshold=0.5)),
        budget=CriterionConfig.budget(max_tool_calls=1),
    )
    made = for_case(own, config)
    assert names(made) == ["tool_name_match_score", "node_order_score", "rouge_match", "budget"]
    assert made is not None
    assert made[0].config.threshold == 0.5


def test_a_slot_of_one_turn() -> None:
    """A criterion that only one turn gives judges that turn only."""
    turns = [expecting("a"), expecting("b", criteria=CriteriaConfig(exact_match=ExactMatchConfig()))]
    made = for_case(case(*turns), CriteriaConfig())
    assert made is not None
    (criterion,) = made
    assert isinstance(criterion, ExactMatchCriterion)
    result = criterion.evaluate_sync(run({"answer": "x"}, {"answer": "b"}), case(*turns))
    assert [row["turn"] for row in result.details["turns"]] == [2]
    assert result.passed


# Through the front door


def agent(text: str, run: Any) -> str:
    """Records one node and one tool, and repeats the text."""
    run.node("MAIN")
    run.tool("echo", {"text": text})
    return text


def evaluate(common: CriteriaConfig, *turns: Invocation, **more: Any) -> EvalCaseResult:
    """The result of one case with that agent."""
    config = EvalConfig(criteria=common, reporter=ReporterConfig(enabled=False))
    evaluator = AgentEvaluator(agent, config=config)
    return asyncio.run(evaluator.evaluate_case(case(*turns, **more)))


def test_evaluated_with_overrides() -> None:
    """A case's own criteria decide through the evaluator too."""
    criteria = CriteriaConfig(
        trajectory=CriterionConfig.trajectory(match_type=MatchType.ANY_ORDER, check_args=True),
        exact_match=ExactMatchConfig(),
    )
    turn = Invocation.simple("ping", "pong", [ToolCall(name="echo", args={"text": "ping"})])
    assert evaluate(criteria, turn).outcome == "failed"
    result = evaluate(criteria, turn, criteria=CriteriaConfig(exact_match=ExactMatchConfig(enabled=False)))
    assert result.outcome == "passed"
    assert [one.criterion for one in result.criterion_results] == ["tool_trajectory_avg_score"]


def test_nothing_checked() -> None:
    """A case that states nothing a criterion reads is an error that says so."""
    result = evaluate(CriteriaConfig(exact_match=ExactMatchConfig()), Invocation.simple("ping"))
    assert (result.outcome, result.error_kind) == ("error", "nothing_checked")


def test_own_criteria() -> None:
    """A criterion of one's own needs a name and one method."""

    class Short(SyncCriterion):
        name = "short"

        def evaluate_sync(self, actual: ExecutionResult, expected: EvalCase) -> CriterionResult:
            return CriterionResult.scored(self.name, float(len(actual.actual_response) < 9), self.config.threshold)

    config = EvalConfig(reporter=ReporterConfig(enabled=False))
    evaluator = AgentEvaluator(agent, config=config)
    evaluator.criteria.append(Short())
    report = asyncio.run(evaluator.evaluate(EvalSet(eval_cases=[case(Invocation.simple("ping"))])))
    assert report.summary.criterion_stats["short"].passed == 1
    assert asyncio.run(Short().evaluate(run(answer="far too long"), case(expecting()))).score == 0.0
