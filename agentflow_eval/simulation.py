"""Runs scenarios with a model as the user, outside an eval set."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from pydantic import BaseModel, Field

from agentflow_eval.config import (
    DEFAULT_JUDGE_MODEL,
    CriteriaConfig,
    EvalConfig,
    SimulationGoalsConfig,
    UserSimulatorConfig,
)
from agentflow_eval.criteria import BaseCriterion
from agentflow_eval.dataset import ConversationScenario, EvalCase
from agentflow_eval.errors import UsageError
from agentflow_eval.evaluator import AgentEvaluator
from agentflow_eval.judge import Judge
from agentflow_eval.result import NO_TOKENS, CriterionResult, EvalCaseResult, TokenUsage


class SimulationResult(BaseModel):
    """How one simulated conversation went.

    Attributes:
        scenario_id: Of the scenario.
        turns: Messages of the user that the agent answered.
        conversation: ``{"role", "content"}`` of user and assistant, in order.
        goals_achieved: Goals that the judge found reached.
        completed: Whether the conversation came to its end without an error.
        error: What broke it; None when nothing did.
        criterion_scores: Score by reported name, only of criteria that judged.
        criterion_details: Details by reported name.
        simulator_token_usage: Tokens of the model that played the user.
        criterion_results: The judgements.
    """

    scenario_id: str
    turns: int = 0
    conversation: list[dict[str, Any]] = Field(default_factory=list)
    goals_achieved: list[str] = Field(default_factory=list)
    completed: bool = False
    error: str | None = None
    criterion_scores: dict[str, float] = Field(default_factory=dict)
    criterion_details: dict[str, dict[str, Any]] = Field(default_factory=dict)
    simulator_token_usage: TokenUsage = NO_TOKENS
    criterion_results: list[CriterionResult] = Field(default_factory=list)


class UserSimulator:
    """A model that plays the user of a scenario; ``simulation_goals`` judges what was reached.

    Args:
        model: The model that plays the user, and that judges unless ``config`` says otherwise.
        temperature: Of the user's messages.
        max_turns: Messages of the user at most.
        config: Settings instead of the three above.
        criteria: Criteria of your own, scored too.
        api_style: Kept for older code; every provider is called by chat completions.
        judge: The model itself, or an async function of the prompt, instead of ``model``'s provider.
    """

    def __init__(
        self,
        model: str = DEFAULT_JUDGE_MODEL,
        temperature: float = 0.7,
        max_turns: int = 10,
        config: UserSimulatorConfig | None = None,
        criteria: Sequence[BaseCriterion] | None = None,
        api_style: str = "responses",
        *,
        judge: Judge | Callable[[Any], Awaitable[Any]] | None = None,
    ) -> None:
        self.config = config or UserSimulatorConfig(
            model=model, temperature=temperature, max_invocations=max_turns, api_style=api_style
        )
        self.criteria = list(criteria or ())
        self.judge = judge

    async def run(
        self, graph: Any, scenario: ConversationScenario, config: EvalConfig | None = None
    ) -> SimulationResult:
        """Plays one scenario with an agent.

        Args:
            graph: Anything that `adapt` accepts.
            scenario: What the user wants.
            config: Criteria and settings; None judges the goals only.
        """
        evaluator = AgentEvaluator(graph, config=self._config(config), criteria=self.criteria, judge=self.judge)
        case = EvalCase(eval_id=scenario.scenario_id or "scenario", scenario=scenario)
        return _result(await evaluator.evaluate_case(case), scenario)

    def _config(self, given: EvalConfig | None) -> EvalConfig:
        if given is not None:
            return given.model_copy(update={"user_simulator_config": given.user_simulator_config or self.config})
        goals = SimulationGoalsConfig(judge_model=self.config.model, num_samples=1)
        return EvalConfig(criteria=CriteriaConfig(simulation_goals=goals), user_simulator_config=self.config)


class BatchSimulator:
    """Plays several scenarios at once, each in a conversation of its own.

    Args:
        simulator: The user; None makes one of ``kwargs``.
        max_concurrency: Conversations at once, at least 1.
        kwargs: For `UserSimulator`.
    """

    def __init__(self, simulator: UserSimulator | None = None, max_concurrency: int = 5, **kwargs: Any) -> None:
        if max_concurrency < 1:
            raise UsageError(f"max_concurrency must be at least 1, got {max_concurrency}")
        self.simulator = simulator or UserSimulator(**kwargs)
        self.max_concurrency = max_concurrency

    async def run_batch(
        self, graph: Any, scenarios: Sequence[ConversationScenario], config: EvalConfig | None = None
    ) -> list[SimulationResult]:
        """The result of each scenario, in order."""
        limit = asyncio.Semaphore(self.max_concurrency)

        async def one(scenario: ConversationScenario) -> SimulationResult:
            async with limit:
                return await self.simulator.run(graph, scenario, config)

        return list(await asyncio.gather(*(one(scenario) for scenario in scenarios)))

    @staticmethod
    def summary(results: Sequence[SimulationResult]) -> dict[str, Any]:
        """Counts over the results; ``average_turns`` and ``completion_rate`` are 0.0 without any."""
        total = len(results)
        completed = sum(result.completed for result in results)
        return {
            "total_scenarios": total,
            "completed": completed,
            "completion_rate": completed / total if total else 0.0,
            "total_goals_achieved": sum(len(result.goals_achieved) for result in results),
            "average_turns": sum(result.turns for result in results) / total if total else 0.0,
            "errors": sum(result.error is not None for result in results),
        }


def _result(case: EvalCaseResult, scenario: ConversationScenario) -> SimulationResult:
    goals = next((r for r in case.criterion_results if r.criterion == "simulation_goals"), None)
    broke = case.error if case.error_kind is not None and case.error_kind != "nothing_checked" else None
    return SimulationResult(
        scenario_id=scenario.scenario_id,
        turns=sum(turn.answered for turn in case.turn_results),
        conversation=[m for m in case.messages if m.get("role") in ("user", "assistant") and m.get("content")],
        goals_achieved=list(goals.details.get("achieved_goals", [])) if goals else [],
        completed=broke is None,
        error=broke,
        criterion_scores={r.criterion: r.score for r in case.criterion_results if r.score is not None},
        criterion_details={r.criterion: r.details for r in case.criterion_results},
        simulator_token_usage=case.simulator_token_usage,
        criterion_results=case.criterion_results,
    )
