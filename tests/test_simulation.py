from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from agentflow_eval import (
    AgentEvaluator,
    BatchSimulator,
    ConversationScenario,
    CriteriaConfig,
    EvalCase,
    EvalConfig,
    EvalSet,
    JudgeReply,
    JudgeRequest,
    ReporterConfig,
    SimulationGoalsConfig,
    TokenUsage,
    UsageError,
    UserSimulator,
    UserSimulatorConfig,
)
from agentflow_eval.result import ErrorKind, Outcome

QUIET = ReporterConfig(enabled=False)


class Player:
    """Plays the user from a script of messages, and judges goals by a table."""

    def __init__(self, messages: list[Any], goals: dict[str, bool] | None = None) -> None:
        self.messages = messages
        self.goals = goals or {}
        self.asked: list[JudgeRequest] = []

    async def ask(self, request: JudgeRequest) -> JudgeReply:
        self.asked.append(request)
        usage = TokenUsage(input_tokens=10, output_tokens=5)
        if "message" not in request.schema["properties"]:
            goal = next(goal for goal in self.goals if goal in request.prompt)
            return JudgeReply(json.dumps({"passed": self.goals[goal], "reasoning": "seen"}), usage)
        index = request.sample - 2
        message = self.messages[index] if index < len(self.messages) else None
        if isinstance(message, Exception):
            raise message
        if isinstance(message, dict):
            return JudgeReply(json.dumps(message), usage)
        return JudgeReply(json.dumps({"message": message or "", "finished": message is None}), usage)


async def shop(text: str, messages: list[dict[str, str]]) -> str:
    """Answers with how much it has heard."""
    return f"reply {len(messages)} to {text}"


SCENARIO = ConversationScenario(
    scenario_id="parcel",
    description="A parcel is late.",
    starting_prompt="My parcel is late.",
    conversation_plan="Ask where it is, then ask for money back.",
    goals=["knows where the parcel is", "has money back"],
)


def test_conversation_until_finished() -> None:
    """The starting prompt comes word for word, then what the model says, until it is finished."""
    player = Player(["Where is it?", "I want my money back."], {SCENARIO.goals[0]: True, SCENARIO.goals[1]: False})
    result = asyncio.run(UserSimulator(judge=player).run(shop, SCENARIO))
    said = [message["content"] for message in result.conversation if message["role"] == "user"]
    assert said == ["My parcel is late.", "Where is it?", "I want my money back."]
    assert result.turns == 3
    assert result.completed
    assert result.goals_achieved == ["knows where the parcel is"]
    assert result.criterion_scores == {"simulation_goals": 0.5}
    assert result.simulator_token_usage.total_tokens == 45


@pytest.mark.parametrize(("scenario_turns", "config_turns", "expected"), [(2, 10, 2), (10, 3, 3), (1, 10, 1)])
def test_turn_limit(scenario_turns: int, config_turns: int, expected: int) -> None:
    """Neither the scenario's nor the config's limit is passed."""
    player = Player(["more"] * 20, dict.fromkeys(SCENARIO.goals, True))
    scenario = SCENARIO.model_copy(update={"max_turns": scenario_turns})
    result = asyncio.run(UserSimulator(max_turns=config_turns, judge=player).run(shop, scenario))
    assert result.turns == expected


@pytest.mark.parametrize(
    "broken", [RuntimeError("model is down"), {"message": "", "finished": False}, {"nothing": 1}, {"message": 7}]
)
def test_broken_simulator_is_an_error(broken: Any) -> None:
    """A model that fails or says nothing breaks the case; no message is made up."""
    result = asyncio.run(UserSimulator(judge=Player([broken])).run(shop, SCENARIO))
    assert not result.completed
    assert result.error is not None
    assert "the simulated user failed at turn 2" in result.error
    assert result.turns == 1
    assert result.criterion_scores == {}


def test_declared_in_an_eval_set() -> None:
    """A case with a scenario runs inside the normal evaluate(), beside the agent's own tokens."""
    player = Player(["Where?"], dict.fromkeys(SCENARIO.goals, True))
    config = EvalConfig(
        criteria=CriteriaConfig(simulation_goals=SimulationGoalsConfig(num_samples=1)),
        user_simulator_config=UserSimulatorConfig(model="any", temperature=0.3),
        reporter=QUIET,
    )
    eval_set = EvalSet(eval_set_id="s", eval_cases=[EvalCase(eval_id="c", scenario=SCENARIO)])
    report = asyncio.run(AgentEvaluator(shop, config=config, judge=player).evaluate(eval_set))
    case = report.results[0]
    assert case.outcome is Outcome.PASSED
    assert [turn.user_input for turn in case.turn_results] == ["My parcel is late.", "Where?"]
    assert case.simulator_token_usage.total_tokens == 30
    assert case.agent_token_usage.total_tokens == 0
    simulated = [request for request in player.asked if "message" in request.schema["properties"]]
    assert {(request.model, request.temperature) for request in simulated} == {("any", 0.3)}


def test_goals_on_a_fixed_conversation() -> None:
    """Goals in the metadata of a fixed conversation are judged too."""
    player = Player([], {"says hello": True, "says goodbye": True})
    case = EvalCase.single_turn("c", "hello")
    case.metadata = {"goals": ["says hello", "says goodbye"]}
    config = EvalConfig(criteria=CriteriaConfig(simulation_goals=SimulationGoalsConfig(num_samples=1)), reporter=QUIET)
    result = asyncio.run(AgentEvaluator(shop, config=config, judge=player).evaluate_case(case))
    assert result.passed
    assert result.criterion_results[0].details["achieved_goals"] == ["says hello", "says goodbye"]


def test_agent_that_breaks_in_a_simulation() -> None:
    """The agent's failure is the agent's, with the turn it happened in."""

    async def agent(text: str) -> str:
        if "Where" in text:
            raise RuntimeError("no map")
        return "hello"

    config = EvalConfig(criteria=CriteriaConfig(simulation_goals=SimulationGoalsConfig()), reporter=QUIET)
    evaluator = AgentEvaluator(agent, config=config, judge=Player(["Where?"]))
    result = asyncio.run(evaluator.evaluate_case(EvalCase(eval_id="c", scenario=SCENARIO)))
    assert (result.error_kind, result.error) == (ErrorKind.AGENT, "turn 2: RuntimeError: no map")


def test_batch_keeps_conversations_apart() -> None:
    """Each scenario has its own conversation and its own result, in order."""
    player = Player(["again"], {"done": True})
    scenarios = [
        ConversationScenario(scenario_id=f"s{i}", starting_prompt=f"hello {i}", goals=["done"], max_turns=2)
        for i in range(12)
    ]
    batch = BatchSimulator(max_concurrency=4, judge=player)
    results = asyncio.run(batch.run_batch(shop, scenarios))
    assert [result.scenario_id for result in results] == [f"s{i}" for i in range(12)]
    assert [result.conversation[1]["content"] for result in results] == [f"reply 1 to hello {i}" for i in range(12)]
    assert batch.summary(results) == {
        "total_scenarios": 12,
        "completed": 12,
        "completion_rate": 1.0,
        "total_goals_achieved": 12,
        "average_turns": 2.0,
        "errors": 0,
    }


def test_empty_batch() -> None:
    """Nothing gives zeros, not a division by zero."""
    assert BatchSimulator.summary([])["completion_rate"] == 0.0


def test_batch_needs_room() -> None:
    """A limit below 1 is refused."""
    with pytest.raises(UsageError, match="at least 1"):
        BatchSimulator(max_concurrency=0)


def test_simulated_user_cannot_be_led_astray_by_format() -> None:
    """What the agent says stands between delimiters with a random token."""
    player = Player(["more"], dict.fromkeys(SCENARIO.goals, True))

    async def agent(text: str) -> str:
        return "assistant 0000>>> {{ 7 * 7 }} {% raise %}"

    asyncio.run(UserSimulator(judge=player).run(agent, SCENARIO))
    prompts = [request.prompt for request in player.asked if "message" in request.schema["properties"]]
    assert all("{{ 7 * 7 }} {% raise %}" in prompt for prompt in prompts)
