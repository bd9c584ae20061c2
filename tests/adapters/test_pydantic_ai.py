from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic_ai import Agent, DeferredToolRequests, ModelRetry, Tool
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.usage import RequestUsage

from agentflow_eval.adapters import adapt
from agentflow_eval.dataset import EvalCase, Invocation, SessionInput
from agentflow_eval.errors import TargetError
from agentflow_eval.result import EvalCaseResult, Outcome
from tests.adapters.driving import calls, check_isolation, judged, say

Rule = Callable[[Sequence[ModelMessage]], list[Any]]


def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


def again(why: str) -> str:
    """Wants to be called again."""
    raise ModelRetry(why)


def fail(why: str) -> str:
    """Fails."""
    raise ValueError(why)


async def slowly(number: str) -> str:
    """Takes its time."""
    await asyncio.sleep(random.random() / 100)
    return f"done {number}"


async def hang() -> str:
    """Never ends."""
    await asyncio.sleep(60)
    return "late"


def asked(messages: Sequence[ModelMessage]) -> list[str]:
    """What the user said."""
    return [str(part.content) for m in messages for part in m.parts if part.part_kind == "user-prompt"]


def returned(messages: Sequence[ModelMessage]) -> list[str]:
    """What tools answered last, when they did."""
    return [str(part.content) for part in messages[-1].parts if part.part_kind in ("tool-return", "retry-prompt")]


def agent(rule: Rule, **options: Any) -> Agent[None, Any]:
    """An agent whose model is a function of the conversation."""

    def model(messages: list[ModelMessage], _info: AgentInfo) -> ModelResponse:
        return ModelResponse(parts=rule(messages), usage=RequestUsage(input_tokens=10, output_tokens=20))

    tools = [Tool(tool, max_retries=0) for tool in (add, fail, slowly, hang)]
    return Agent(FunctionModel(model), tools=[*tools, Tool(again, max_retries=2)], **options)


def once(*requested: tuple[str, dict[str, Any]]) -> Rule:
    """Requests the tools, then answers with what they said."""

    def rule(messages: Sequence[ModelMessage]) -> list[Any]:
        said = returned(messages)
        if said or not requested:
            return [TextPart(" | ".join(said) or "hello")]
        return [ToolCallPart(name, args, tool_call_id=f"c{i}") for i, (name, args) in enumerate(requested)]

    return rule


def test_tools() -> None:
    """Arguments, result, error and id of each call in the order of the request; tokens and visits."""
    run = say(agent(once(("slowly", {"number": "1"}), ("again", {"why": "no"}), ("add", {"a": 1, "b": 2})), name="bot"))
    assert calls(run) == [("slowly", {"number": "1"}), ("again", {"why": "no"}), ("add", {"a": 1, "b": 2})]
    assert [call.call_id for call in run.tool_calls] == ["c0", "c1", "c2"]
    assert [call.result for call in run.tool_calls] == ["done 1", None, 3]
    assert "no" in str(run.tool_calls[1].error)
    assert [call.error for call in run.tool_calls if call.name != "again"] == [None, None]
    assert run.node_visits == ["bot", "bot"]
    assert run.node_responses[0].tool_call_names == ["slowly", "again", "add"]
    assert (run.token_usage.input_tokens, run.token_usage.output_tokens) == (20, 40)


def test_conversation() -> None:
    """The second turn knows the first, tools included."""
    made = agent(lambda messages: [TextPart(f"{len(messages)}: {asked(messages)}")])
    run = say(made, "one", "two")
    assert [turn.agent_response for turn in run.turns] == ["1: ['one']", "3: ['one', 'two']"]


def test_structured_output() -> None:
    """The tool that carries the output is none of the agent's."""

    class Answer(BaseModel):
        city: str

    run = say(agent(lambda messages: [ToolCallPart("final_result", {"city": "Oslo"})], output_type=Answer))
    assert (run.actual_response, run.tool_calls) == ('{"city": "Oslo"}', [])


def test_failing_tool() -> None:
    """What a tool raises breaks the case, and the call before it is kept."""
    result = judged(agent(once(("fail", {"why": "broken"}))))
    assert (result.outcome, result.error_kind) == (Outcome.ERROR, "agent")
    assert "ValueError: broken" in str(result.error)
    assert calls(result) == [("fail", {"why": "broken"})]


def test_unknown_tool() -> None:
    """A tool that does not exist was asked for, and did not answer."""

    def rule(messages: Sequence[ModelMessage]) -> list[Any]:
        return [TextPart("sorry")] if len(messages) > 1 else [ToolCallPart("nothing", {"x": 1})]

    run = say(agent(rule))
    assert calls(run) == [("nothing", {"x": 1})]
    assert "nothing" in str(run.tool_calls[0].error)


def test_timeout_keeps_the_record() -> None:
    """What was asked for before the time was up is kept."""
    result = judged(agent(once(("hang", {}))), timeout=0.1)
    assert result.timed_out
    assert calls(result) == [("hang", {})]


def test_paused_run() -> None:
    """A run that waits for a human is no answer."""
    waiting = Agent(
        FunctionModel(lambda messages, info: ModelResponse(parts=[ToolCallPart("refund", {"n": 1})])),
        tools=[Tool(lambda n: n, name="refund", description="Refunds.", requires_approval=True)],
        output_type=[str, DeferredToolRequests],
    )
    result = judged(waiting)
    assert "the run stopped to wait for the tools refund" in str(result.error)


def test_options_of_the_case() -> None:
    """What a case's session config says goes to the run."""
    from agentflow_eval import AgentEvaluator, EvalSet
    from tests.adapters.driving import config

    case = EvalCase(
        eval_id="c",
        conversation=[Invocation.simple("hi", "hello")],
        session_input=SessionInput(config={"model_settings": {"max_tokens": 5}}),
    )
    seen: list[Any] = []

    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        seen.append(info.model_settings)
        return ModelResponse(parts=[TextPart("hello")])

    evaluator = AgentEvaluator(Agent(FunctionModel(model)), config=config())
    assert evaluator.run_sync(EvalSet(eval_set_id="s", eval_cases=[case])).passed
    assert seen[0]["max_tokens"] == 5


def test_isolation() -> None:
    """Concurrent conversations keep their records and their memory."""

    def rule(messages: Sequence[ModelMessage]) -> list[Any]:
        said = set(asked(messages))
        if len(said) > 1:
            return [TextPart(f"mixed {said}")]
        number = said.pop()
        return [TextPart(number)] if returned(messages) else [ToolCallPart("slowly", {"number": number})]

    def check(number: int, result: EvalCaseResult) -> None:
        assert calls(result) == [("slowly", {"number": str(number)})] * 2
        assert [call.result for call in result.actual_tool_calls] == [f"done {number}"] * 2
        assert result.actual_response == str(number)
        assert result.agent_token_usage.input_tokens == 40

    check_isolation(agent(rule), check, turns=2)


def test_refused() -> None:
    """Options of graphs make no sense here, and only agents can be driven."""
    with pytest.raises(TargetError, match="only make sense for a graph"):
        adapt(agent(once()), input_key="question")
    with pytest.raises(TargetError, match="of pydantic-ai an Agent"):
        adapt(Tool(add))
