"""Uses the public API as a user would; never run, only checked by the type checker."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import assert_type

from agentflow_eval import (
    AgentEvaluator,
    BaseCriterionConfig,
    CriteriaConfig,
    CriterionConfig,
    CriterionResult,
    EvalCase,
    EvalCaseResult,
    EvalConfig,
    EvalPresets,
    EvalReport,
    EvalSet,
    EvalSetBuilder,
    EvaluationRunner,
    ExecutionResult,
    Invocation,
    JSONReporter,
    LoadError,
    MatchType,
    Outcome,
    ReporterConfig,
    Rubric,
    Session,
    StepType,
    SyncCriterion,
    Target,
    ToolCall,
    ToolRecord,
    TrajectoryCollector,
    TrajectoryConfig,
    TrajectoryStep,
    Turn,
    adapt,
    print_report,
)


async def agent(text: str, run: TrajectoryCollector) -> str:
    """An agent that records what it does."""
    run.node("MAIN")
    with run.tool("lookup", {"q": text}) as call:
        assert_type(call, ToolRecord)
        call.result = {"hits": 3}
    return "three"


async def stream(text: str) -> AsyncIterator[str]:
    """An agent that streams."""
    yield text


class Short(SyncCriterion):
    """A criterion of one's own."""

    name = "short"

    def evaluate_sync(self, actual: ExecutionResult, expected: EvalCase) -> CriterionResult:
        """Short answers pass."""
        score = 1.0 if len(actual.actual_response) < 100 else 0.0
        return CriterionResult.scored(self.name, score, self.config.threshold, {"turns": len(actual.turns)})


class Driven:
    """A target of one's own."""

    async def run_turn(self, turn: Turn, session: Session, collector: TrajectoryCollector) -> None:
        """Repeats the text."""
        collector.say(turn.text)


def sets() -> EvalSet:
    """Every way to an eval set."""
    case = EvalCase.single_turn(
        eval_id="c",
        user_query="q",
        expected_response="a",
        expected_tools=[ToolCall(name="lookup", args={"q": {"$any": True}})],
        expected_node_order=["MAIN"],
    )
    eval_set = EvalSet(eval_set_id="s", eval_cases=[case])
    eval_set.add_case(EvalCase.multi_turn("m", [("q", "a"), ("r", "b")]))
    assert_type(eval_set.get_case("c"), EvalCase | None)
    assert_type(eval_set.filter_by_tags(["x"]), list[EvalCase])
    for each in eval_set:
        assert_type(each, EvalCase)
        assert_type(each.conversation, list[Invocation])
    built = EvalSetBuilder("b").add_case("q", "a", expected_tools=["lookup"]).add_tool_test("q", "lookup").build()
    assert_type(built, EvalSet)
    try:
        return EvalSet.from_file("set.json")
    except LoadError as error:
        assert_type(error.problems[0].place, str)
        return eval_set


def config() -> EvalConfig:
    """Every way to a config."""
    made = EvalConfig(
        criteria=CriteriaConfig(
            trajectory=CriterionConfig.trajectory(match_type=MatchType.IN_ORDER, check_args=True),
            contains_keywords=CriterionConfig.contains_keywords(["fee"]),
            node_order=CriterionConfig(threshold=0.9),
            llm_judge=CriterionConfig.llm_judge(judge_model="m"),
        ),
        parallel=True,
        reporter=ReporterConfig(junit_xml=True),
    )
    assert_type(made.criteria.trajectory, TrajectoryConfig | None)
    assert_type(made.get_criterion_config("trajectory"), BaseCriterionConfig | None)
    assert_type(made.with_rubrics([Rubric.create("r", "Polite.")]), EvalConfig)
    return EvalPresets.combine(made, EvalConfig.strict(), EvalPresets.quick_check())


async def evaluate() -> None:
    """Every way to a report."""
    evaluator = AgentEvaluator(agent, config=config())
    evaluator.criteria.append(Short())
    report = await evaluator.evaluate(sets(), parallel=True, max_concurrency=2, output_dir="out")
    assert_type(report, EvalReport)
    assert_type(await evaluator.evaluate_case(EvalCase.single_turn("c", "q")), EvalCaseResult)
    assert_type(adapt(stream), Target)
    assert_type(adapt(Driven()), Target)
    runner = EvaluationRunner(EvalConfig.default())
    assert_type(await runner.run([(agent, None, sets())]), dict[str, EvalReport])
    read(report)


def read(report: EvalReport) -> None:
    """What people read of a report."""
    assert_type(report.passed, bool)
    assert_type(report.summary.pass_rate, float)
    assert_type(report.summary.criterion_stats["rouge_match"].avg_score, float | None)
    for case in report.failed_cases:
        assert_type(case.outcome, Outcome)
        assert_type(case.actual_trajectory, list[TrajectoryStep])
        assert_type(case.actual_trajectory[0].step_type, StepType)
        for result in case.failed_criteria:
            assert_type(result.score, float | None)
            assert_type(result.reason, str | None)
    print_report(report, verbose=False, use_color=True)
    JSONReporter(indent=2).save(report, "report.json")
    report.to_file("report.json")
    assert_type(EvalReport.from_file("report.json"), EvalReport)
