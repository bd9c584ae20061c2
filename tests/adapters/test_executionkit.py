from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

if sys.version_info < (3, 13):
    pytest.skip("executionkit fails below Python 3.13 in every call of a Kit", allow_module_level=True)

from executionkit import Kit, LLMResponse, Tool, ToolCall
from executionkit.approval import ApprovalDecision

from agentflow_eval import KitTarget
from agentflow_eval.adapters import adapt
from agentflow_eval.errors import TargetError
from agentflow_eval.result import ErrorKind, EvalCaseResult, Outcome
from tests.adapters.driving import calls, check_isolation, judged, say
from tests.readme import PASSED, example_of, run_example

pytestmark = pytest.mark.executionkit

Rule = Callable[[Sequence[dict[str, Any]]], LLMResponse]


class RuleProvider:
    """A model whose answer is a function of the conversation."""

    supports_tools = True

    def __init__(self, rule: Rule) -> None:
        self.rule = rule

    async def complete(self, messages: Sequence[dict[str, Any]], **_: Any) -> LLMResponse:
        return self.rule(messages)


def text(content: str) -> LLMResponse:
    return LLMResponse(content=content, usage=MappingProxyType({"input_tokens": 10, "output_tokens": 20}))


def wants(*requested: tuple[str, dict[str, Any]]) -> LLMResponse:
    """A reply that requests tools."""
    made = tuple(ToolCall(id=f"c{i}", name=name, arguments=args) for i, (name, args) in enumerate(requested))
    return LLMResponse(content="", tool_calls=made, usage=MappingProxyType({"input_tokens": 10, "output_tokens": 20}))


def once(*requested: tuple[str, dict[str, Any]]) -> Rule:
    """Requests the tools after each message of the user, then answers with what they said."""

    def rule(messages: Sequence[dict[str, Any]]) -> LLMResponse:
        if messages[-1]["role"] != "tool":
            return wants(*requested) if requested else text("hello")
        asked = max(index for index, message in enumerate(messages) if message["role"] == "user")
        return text(" | ".join(m["content"] for m in messages[asked:] if m["role"] == "tool"))

    return rule


def tool(execute: Any, timeout: float = 30.0, **kinds: str) -> Tool:
    properties = {name: {"type": kind} for name, kind in kinds.items()}
    schema = {"type": "object", "properties": properties, "required": list(kinds)}
    return Tool(execute.__name__, "A tool.", schema, execute, timeout=timeout)


async def add(a: int, b: int) -> str:
    return str(a + b)


async def fail(why: str) -> str:
    raise ValueError(why)


async def slowly(number: str) -> str:
    await asyncio.sleep(random.random() / 100)
    return f"done {number}"


async def hang() -> str:
    await asyncio.sleep(60)
    return "late"


async def dawdle() -> str:
    await asyncio.sleep(60)
    return "late"


TOOLS = [
    tool(add, a="integer", b="integer"),
    tool(fail, why="string"),
    tool(slowly, number="string"),
    tool(hang),
    tool(dawdle, timeout=0.05),
]


def kit(rule: Rule, **options: Any) -> KitTarget:
    return KitTarget(Kit(RuleProvider(rule)), TOOLS, **options)


def test_plain_answer() -> None:
    """A kit without tools can be evaluated as it is."""
    run = say(Kit(RuleProvider(once())))
    assert run.actual_response == "hello"
    assert [response.response_text for response in run.node_responses] == ["hello"]


def test_tools_in_request_order() -> None:
    """Arguments, result, error and id of each call, in the order of the request."""
    run = say(
        kit(
            once(
                ("slowly", {"number": "1"}),
                ("nope", {"z": 1}),
                ("fail", {"why": "broken"}),
                ("add", {"a": "one"}),
                ("dawdle", {}),
                ("add", {"a": 1, "b": 2}),
            )
        )
    )
    assert [call.name for call in run.tool_calls] == ["slowly", "nope", "fail", "add", "dawdle", "add"]
    assert [call.call_id for call in run.tool_calls] == ["c0", "c1", "c2", "c3", "c4", "c5"]
    assert run.tool_calls[1].args == {"z": 1}
    assert [call.result for call in run.tool_calls] == ["done 1", None, None, None, None, "3"]
    errors = [call.error or "" for call in run.tool_calls]
    assert errors[0] == errors[5] == ""
    assert "Unknown tool" in errors[1]
    assert errors[2] == "ValueError: broken"
    assert "argument error" in errors[3]
    assert "timed out" in errors[4]


def test_tokens() -> None:
    """The tokens of all model calls, and the tools that each asked for."""
    run = say(kit(once(("add", {"a": 1, "b": 2}))))
    assert [response.tool_call_names for response in run.node_responses] == [["add"], []]
    assert run.agent_token_usage is not None
    assert (run.agent_token_usage.input_tokens, run.agent_token_usage.output_tokens) == (20, 40)


def test_turns() -> None:
    """Each turn sees the turns before it once, and its calls are its own although their ids repeat."""
    seen: list[list[str]] = []

    def rule(messages: Sequence[dict[str, Any]]) -> LLMResponse:
        if messages[-1]["role"] != "tool":
            return wants(("add", {"a": len(seen), "b": 0}))
        seen.append([m["content"] for m in messages if m["role"] in ("user", "assistant") and m["content"]])
        return text(f"answer {len(seen)}")

    shared = Kit(RuleProvider(rule))
    run = say(KitTarget(shared, TOOLS), "one", "two", "three")
    assert seen[-1] == ["one", "answer 1", "two", "answer 2", "three"]
    assert [[(call.args["a"], call.result) for call in turn.tool_calls] for turn in run.turns] == [
        [(0, "0")],
        [(1, "1")],
        [(2, "2")],
    ]
    assert shared.messages == []


def test_factory_of_kits() -> None:
    """A function makes the kit of each case, and seed messages are its own."""
    made: list[Kit] = []

    async def fresh() -> Kit:
        made.append(Kit(RuleProvider(once()), messages=[{"role": "system", "content": "be good"}]))
        return made[-1]

    target = KitTarget(fresh)
    assert say(target, "one", "two").actual_response == "hello"
    assert say(target).actual_response == "hello"
    assert [len(one.messages) for one in made] == [5, 3]


def test_own_trace() -> None:
    """A trace of the user's is called too."""
    kinds: list[str] = []
    say(kit(once(), trace=lambda event: kinds.append(event.kind)))
    assert kinds == ["llm_call_start", "llm_call_end"]


def test_calls_beyond_the_limit() -> None:
    """Calls that the kit rejects are failed calls at their place."""
    run = say(kit(once(*(("add", {"a": n, "b": 0}) for n in range(3))), max_tool_calls_per_round=2))
    assert [call.args["a"] for call in run.tool_calls] == [0, 1, 2]
    assert "rejected" in (run.tool_calls[2].error or "")


def test_blocked_call() -> None:
    """A call that an approval gate denies is a failed call."""

    class Gate:
        async def request(self, _: Any) -> ApprovalDecision:
            return ApprovalDecision(approved=False, reason="too risky")

    run = say(kit(once(("add", {"a": 1, "b": 2})), approval_gate=Gate()))
    assert "blocked by approval" in (run.tool_calls[0].error or "")


def test_kit_at_its_limit() -> None:
    """A kit that reaches its limit of rounds is an error that keeps its calls and why they failed."""
    result = judged(kit(lambda messages: wants(("nope", {})), max_rounds=2))
    assert (result.outcome, result.error_kind) == (Outcome.ERROR, ErrorKind.AGENT)
    assert "max_rounds" in (result.error or "")
    assert ["Unknown tool" in (call.error or "") for call in result.actual_tool_calls] == [True, True]


def test_raising_model() -> None:
    """What the model raises is the agent's error, and what was recorded before stays."""

    def rule(messages: Sequence[dict[str, Any]]) -> LLMResponse:
        if messages[-1]["role"] == "tool":
            raise RuntimeError("model down")
        return wants(("add", {"a": 1, "b": 2}))

    result = judged(kit(rule))
    assert "model down" in (result.error or "")
    assert [call.result for call in result.actual_tool_calls] == ["3"]


def test_timeout_keeps_evidence() -> None:
    """The calls of a kit that hangs are recorded, with the results that came."""
    result = judged(kit(once(("add", {"a": 1, "b": 2}), ("hang", {}))), timeout=0.3)
    assert result.timed_out
    assert calls(result) == [("add", {"a": 1, "b": 2}), ("hang", {})]
    assert result.actual_tool_calls[0].result == "3"
    assert result.agent_token_usage.input_tokens == 10


def test_isolation() -> None:
    """Concurrent conversations with one kit do not mix."""

    def rule(messages: Sequence[dict[str, Any]]) -> LLMResponse:
        asked = {m["content"] for m in messages if m["role"] == "user"}
        if len(asked) != 1:
            return text(f"mixed {asked}")
        number = asked.pop()
        if messages[-1]["role"] == "tool":
            return text(number)
        return wants(("slowly", {"number": number}), ("nope", {"n": number}))

    def check(number: int, result: EvalCaseResult) -> None:
        assert calls(result) == [("slowly", {"number": str(number)}), ("nope", {"n": str(number)})] * 2
        assert [call.result for call in result.actual_tool_calls] == [f"done {number}", None] * 2
        assert result.actual_response == str(number)
        assert result.agent_token_usage.input_tokens == 40

    check_isolation(kit(rule), check, turns=2)


def test_refused() -> None:
    """What cannot be driven is named."""
    with pytest.raises(TargetError, match="a Kit can be driven"):
        adapt(TOOLS[0])
    with pytest.raises(TargetError, match="only make sense for a graph"):
        adapt(Kit(RuleProvider(once())), input_key="question")


def test_readme(tmp_path: Path) -> None:
    """The example of the README runs as pasted."""
    assert PASSED in run_example(tmp_path, example_of("executionkit"))


def test_shape() -> None:
    """The tools are known before the kit runs."""
    from agentflow_eval.adapters import shape_of

    tools = shape_of(kit(once())).tools or {}
    assert list(tools) == ["add", "fail", "slowly", "hang", "dawdle"]
    assert (tools["add"] or {})["required"] == ["a", "b"]


def test_doctor() -> None:
    """Conversations with one kit are apart."""
    from agentflow_eval.doctor import diagnose

    found = asyncio.run(diagnose(kit(once(("add", {"a": 1, "b": 2}))))).findings
    assert [finding.topic for finding in found if finding.level == "wrong"] == []
    assert {finding.topic: finding.level for finding in found}["tools"] == "ok"
