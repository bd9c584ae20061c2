from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable
from typing import Any

import pytest
from agents import Agent, Model, ModelResponse, Usage, function_tool, handoff
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

from agentflow_eval.adapters import adapt
from agentflow_eval.errors import TargetError
from agentflow_eval.result import EvalCaseResult, Outcome
from tests.adapters.driving import calls, check_isolation, judged, say

Items = list[dict[str, Any]]
Rule = Callable[[Items], list[Any]]


class RuleModel(Model):
    """A model whose answer is a function of the conversation."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule

    async def get_response(self, system_instructions: Any, input: Any, *args: Any, **kwargs: Any) -> ModelResponse:  # noqa: A002
        usage = Usage(requests=1, input_tokens=10, output_tokens=20, total_tokens=30)
        return ModelResponse(output=self.rule(list(input)), usage=usage, response_id=None)

    def stream_response(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError


def text(content: str) -> ResponseOutputMessage:
    part = ResponseOutputText(annotations=[], text=content, type="output_text")
    return ResponseOutputMessage(id="m", content=[part], role="assistant", status="completed", type="message")


def wants(name: str, args: Any, call_id: str = "c0") -> ResponseFunctionToolCall:
    return ResponseFunctionToolCall(name=name, arguments=json.dumps(args), call_id=call_id, type="function_call")


@function_tool
def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


@function_tool
def fail(why: str) -> str:
    """Fails."""
    raise ValueError(why)


@function_tool
async def slowly(number: str) -> str:
    """Takes its time."""
    await asyncio.sleep(random.random() / 100)
    return f"done {number}"


@function_tool
async def hang() -> str:
    """Never ends."""
    await asyncio.sleep(60)
    return "late"


def asked(items: Items) -> list[str]:
    """What the user said."""
    return [str(item["content"]) for item in items if item.get("role") == "user"]


def agent(rule: Rule, name: str = "bot", **options: Any) -> Agent[Any]:
    """An agent with tools."""
    return Agent(name=name, model=RuleModel(rule), tools=[add, fail, slowly, hang], **options)


def once(*requested: tuple[str, dict[str, Any]]) -> Rule:
    """Requests the tools, then answers with what they said."""

    def rule(items: Items) -> list[Any]:
        said = [str(item["output"]) for item in items if item.get("type") == "function_call_output"]
        if said or not requested:
            return [text(" | ".join(said) or "hello")]
        return [wants(name, args, f"c{i}") for i, (name, args) in enumerate(requested)]

    return rule


def test_tools() -> None:
    """Arguments, result, error and id of each call in the order of the request; tokens and visits."""
    run = say(agent(once(("slowly", {"number": "1"}), ("fail", {"why": "x"}), ("add", {"a": 1, "b": 2}))))
    assert calls(run) == [("slowly", {"number": "1"}), ("fail", {"why": "x"}), ("add", {"a": 1, "b": 2})]
    assert [call.call_id for call in run.tool_calls] == ["c0", "c1", "c2"]
    assert [call.result for call in run.tool_calls] == ["done 1", None, 3]
    assert "An error occurred while running the tool" in str(run.tool_calls[1].error)
    assert run.node_visits == ["bot"]
    assert run.node_responses[0].tool_call_names == ["slowly", "fail", "add"]
    assert (run.token_usage.input_tokens, run.token_usage.total_tokens) == (20, 60)


def test_conversation() -> None:
    """The second turn knows the first."""
    run = say(agent(lambda items: [text(str(asked(items)))]), "one", "two")
    assert [turn.agent_response for turn in run.turns] == ["['one']", "['one', 'two']"]


@pytest.mark.parametrize("named", [False, True])
def test_handoff(named: bool) -> None:
    """An agent that takes over is a node and goes on with the conversation; a handoff is an edge, no tool call."""
    refunds = agent(lambda items: [text(f"refunds: {asked(items)[-1]}")], "refunds")
    tool = "go" if named else "transfer_to_refunds"
    offered: Any = handoff(refunds, tool_name_override="go") if named else refunds
    front = agent(lambda items: [wants(tool, {})], "front", handoffs=[offered])
    run = say(front, "one", "two")
    assert run.node_visits == ["front", "refunds", "refunds"]
    assert run.tool_calls == []
    assert [(s.name, s.metadata) for s in run.trajectory if s.step_type == "conditional"] == [
        ("front", {"target": "refunds"})
    ]
    assert [turn.agent_response for turn in run.turns] == ["refunds: one", "refunds: two"]


def test_unknown_tool() -> None:
    """A tool that does not exist breaks the case, and the request is kept."""
    result = judged(agent(once(("nothing", {"x": 1}))))
    assert (result.outcome, result.error_kind) == (Outcome.ERROR, "agent")
    assert calls(result) == [("nothing", {"x": 1})]


def test_endless_agent() -> None:
    """An agent that never answers reaches the SDK's own limit."""
    result = judged(agent(lambda items: [wants("add", {"a": 1, "b": 1})]))
    assert "MaxTurnsExceeded" in str(result.error)


def test_timeout_keeps_the_record() -> None:
    """What was asked for before the time was up is kept."""
    result = judged(agent(once(("hang", {}))), timeout=0.1)
    assert result.timed_out
    assert calls(result) == [("hang", {})]


def test_isolation() -> None:
    """Concurrent conversations keep their records and their memory."""

    def rule(items: Items) -> list[Any]:
        said = set(asked(items))
        if len(said) > 1:
            return [text(f"mixed {said}")]
        number = said.pop()
        done = items[-1].get("type") == "function_call_output"
        return [text(number)] if done else [wants("slowly", {"number": number})]

    def check(number: int, result: EvalCaseResult) -> None:
        assert calls(result) == [("slowly", {"number": str(number)})] * 2
        assert [call.result for call in result.actual_tool_calls] == [f"done {number}"] * 2
        assert result.actual_response == str(number)
        assert result.agent_token_usage.input_tokens == 40

    check_isolation(agent(rule), check, turns=2)


def test_refused() -> None:
    """Options of graphs make no sense here."""
    with pytest.raises(TargetError, match="only make sense for a graph"):
        adapt(agent(once()), input_key="question")
