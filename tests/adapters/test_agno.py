from __future__ import annotations

import asyncio
import json
import logging
import random
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from agno.agent import Agent
from agno.db.in_memory import InMemoryDb
from agno.metrics import MessageMetrics
from agno.models.base import Model
from agno.models.message import Message
from agno.models.response import ModelResponse
from agno.run import RunContext
from agno.team import Team
from agno.tools import tool
from agno.workflow import Workflow

from agentflow_eval.adapters import Session, adapt
from agentflow_eval.errors import AgentError, TargetError
from agentflow_eval.result import ErrorKind, EvalCaseResult, Outcome
from tests.adapters.driving import calls, check_isolation, judged, say


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """agno writes failed tools to standard error."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


Rule = Callable[[list[Message]], ModelResponse]


@dataclass
class RuleModel(Model):
    """A model whose answer is a function of the conversation."""

    id: str = "rule"
    rule: Any = None

    def invoke(self, messages: list[Message], **_: Any) -> ModelResponse:
        answer: ModelResponse = self.rule(messages)
        return answer

    async def ainvoke(self, messages: list[Message], **_: Any) -> ModelResponse:
        answer: ModelResponse = self.rule(messages)
        return answer

    def invoke_stream(self, messages: list[Message], **_: Any) -> Iterator[ModelResponse]:
        yield self.rule(messages)

    async def ainvoke_stream(self, messages: list[Message], **_: Any) -> AsyncIterator[ModelResponse]:
        yield self.rule(messages)

    def _parse_provider_response(self, response: Any, **_: Any) -> ModelResponse:
        return response  # type: ignore[no-any-return]

    def _parse_provider_response_delta(self, response: Any) -> ModelResponse:
        return response  # type: ignore[no-any-return]


def used() -> MessageMetrics:
    return MessageMetrics(input_tokens=10, output_tokens=20, total_tokens=30)


def text(content: str) -> ModelResponse:
    return ModelResponse(role="assistant", content=content, response_usage=used())


def wants(*requested: tuple[str, Any]) -> ModelResponse:
    """A reply that requests tools."""
    made = [
        {"id": f"c{i}", "type": "function", "function": {"name": name, "arguments": json.dumps(args)}}
        for i, (name, args) in enumerate(requested)
    ]
    return ModelResponse(role="assistant", tool_calls=made, response_usage=used())


def once(*requested: tuple[str, Any]) -> Rule:
    """Requests the tools after each message of the user, then answers with what they said."""

    def rule(messages: list[Message]) -> ModelResponse:
        if messages[-1].role != "tool":
            return wants(*requested) if requested else text("hello")
        asked = max(index for index, message in enumerate(messages) if message.role == "user")
        return text(" | ".join(str(m.content) for m in messages[asked:] if m.role == "tool"))

    return rule


def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


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


@tool(requires_confirmation=True)
def danger(what: str) -> str:
    """Needs a human."""
    return what


def agent(rule: Rule, **options: Any) -> Agent:
    tools: list[Any] = [add, fail, slowly, hang, danger]
    return Agent(model=RuleModel(rule=rule), tools=tools, telemetry=False, **options)


def team(*members: Agent, rule: Rule | None = None, **options: Any) -> Team:
    """Delegates each message of the user to every member, then answers."""
    delegate = once(*(("delegate_task_to_member", {"member_id": m.name, "task": m.name}) for m in members))
    return Team(members=list(members), model=RuleModel(rule=rule or delegate), name="boss", telemetry=False, **options)


# Agents


def test_plain_answer() -> None:
    """An answer without tools, by an agent without a name."""
    run = say(agent(once()))
    assert run.actual_response == "hello"
    assert run.node_visits == ["agent"]
    assert [response.response_text for response in run.node_responses] == ["hello"]


def test_tools_in_request_order() -> None:
    """Arguments, result, error and id of each call, unknown and unreadable ones at their place."""
    run = say(
        agent(
            once(
                ("nope", {"z": 1}),
                ("slowly", {"number": "1"}),
                ("fail", {"why": "broken"}),
                ("add", "no object"),
                ("add", {"a": 1, "b": 2}),
            )
        )
    )
    assert [call.name for call in run.tool_calls] == ["nope", "slowly", "fail", "add", "add"]
    assert [step.name for step in run.trajectory] == ["agent", "nope", "slowly", "fail", "add", "add"]
    assert [call.call_id for call in run.tool_calls] == ["c0", "c1", "c2", "c3", "c4"]
    assert run.tool_calls[0].args == {"z": 1}
    assert [call.result for call in run.tool_calls] == [None, "done 1", None, None, "3"]
    assert "does not exist" in (run.tool_calls[0].error or "")
    assert run.tool_calls[2].error == "broken"
    assert "JSON" in (run.tool_calls[3].error or "")


def test_only_an_unknown_tool() -> None:
    """A reply with nothing but an unknown tool."""
    run = say(agent(once(("nope", {"z": 1}))))
    assert calls(run) == [("nope", {"z": 1})]


def test_tokens() -> None:
    """The tokens of all model calls."""
    run = say(agent(once(("add", {"a": 1, "b": 2}))))
    assert [response.tool_call_names for response in run.node_responses] == [["add"], []]
    assert run.agent_token_usage is not None
    assert (run.agent_token_usage.input_tokens, run.agent_token_usage.output_tokens) == (20, 40)


@pytest.mark.parametrize("memory", ["none", "db", "cached session"])
def test_turns(memory: str) -> None:
    """Each turn sees the turns before it once, however the agent remembers, and records only its own calls."""
    db: Any = InMemoryDb  # not annotated
    options: dict[str, Any] = {
        "none": {},
        "db": {"db": db(), "add_history_to_context": True},
        "cached session": {"cache_session": True, "add_history_to_context": True},
    }[memory]
    seen: list[list[str]] = []

    def rule(messages: list[Message]) -> ModelResponse:
        if messages[-1].role != "tool":
            return wants(("add", {"a": len(seen), "b": 0}))
        seen.append([str(m.content) for m in messages if m.role in ("user", "assistant") and m.content])
        return text(f"answer {len(seen)}")

    run = say(agent(rule, **options), "one", "two", "three")
    assert seen[-1] == ["one", "answer 1", "two", "answer 2", "three"]
    assert [turn.agent_response for turn in run.turns] == ["answer 1", "answer 2", "answer 3"]
    assert [[call.args["a"] for call in turn.tool_calls] for turn in run.turns] == [[0], [1], [2]]
    assert [message["content"] for message in run.messages if message["role"] == "user"] == ["one", "two", "three"]


def test_session_state() -> None:
    """Tools see the state of the session, and the case keeps its own."""

    def tier(run_context: RunContext) -> str:
        """Tells the tier."""
        state = run_context.session_state or {}
        state["asked"] = True
        return str(state["tier"])

    session = Session(thread_id="t", state={"tier": "gold"})
    run = say(Agent(model=RuleModel(rule=once(("tier", {}))), tools=[tier], telemetry=False), session=session)
    assert run.actual_response == "gold"
    assert run.tool_calls[0].args == {}
    assert session.state == {"tier": "gold"}


# Teams


def test_team() -> None:
    """Tools of members stand where they ran, and the tokens of all count."""
    one = agent(once(("add", {"a": 1, "b": 2}), ("nope", {})), name="one")
    two = agent(once(("add", {"a": 3, "b": 4})), name="two")
    run = say(team(one, two))
    assert run.node_visits[0] == "boss"
    assert sorted(run.node_visits[1:]) == ["one", "two"]
    delegated = [call.args["member_id"] for call in run.tool_calls if call.name == "delegate_task_to_member"]
    assert delegated == ["one", "two"]
    assert [call.result for call in run.tool_calls if call.name == "add"] in (["3", "7"], ["7", "3"])
    assert [call.name for call in run.tool_calls].count("nope") == 1
    assert run.agent_token_usage is not None
    assert run.agent_token_usage.input_tokens == 60


def test_team_that_hides_its_members() -> None:
    """The calls of members that give no events are read from what they leave."""
    run = say(team(agent(once(("add", {"a": 1, "b": 2})), name="one"), stream_member_events=False))
    found = next(call for call in run.tool_calls if call.name == "add")
    assert (found.args, found.result, found.error) == ({"a": 1, "b": 2}, "3", None)


# Bad endings


def down(messages: list[Message]) -> ModelResponse:
    raise RuntimeError("model down")


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (agent(once(("danger", {"what": "x"}))), "paused to wait for a human with the tools danger"),
        (agent(down), "failed with RuntimeError: model down"),
        (team(agent(once(), name="one"), rule=down), "failed with RuntimeError: model down"),
        (team(agent(once(("danger", {"what": "x"})), name="one")), "paused to wait for a human"),
    ],
)
def test_bad_ending(made: Any, said: str) -> None:
    """A run that paused or failed is an error, not a pass."""
    result = judged(made)
    assert (result.outcome, result.error_kind) == (Outcome.ERROR, ErrorKind.AGENT)
    assert said in (result.error or "")


def test_cancelled_run() -> None:
    """A run that somebody cancels is an error."""

    def cancel(run_context: RunContext) -> str:
        """Cancels the run."""
        Agent.cancel_run(run_context.run_id)
        return "cancelled"

    made = Agent(model=RuleModel(rule=once(("cancel", {}))), tools=[cancel], telemetry=False)
    with pytest.raises(AgentError, match="cancelled"):
        say(made)


def test_timeout_keeps_evidence() -> None:
    """The calls and tokens of an agent that hangs are recorded."""
    result = judged(agent(once(("add", {"a": 1, "b": 2}), ("hang", {}))), timeout=0.5)
    assert result.timed_out
    assert calls(result) == [("add", {"a": 1, "b": 2}), ("hang", {})]
    assert result.agent_token_usage.input_tokens == 10


def test_member_timeout_keeps_evidence() -> None:
    """The calls of a member that hangs are recorded."""
    result = judged(team(agent(once(("hang", {})), name="one")), timeout=0.5)
    assert result.timed_out
    assert [name for name, _ in calls(result)] == ["delegate_task_to_member", "hang"]


# Isolation


def echo(messages: list[Message]) -> ModelResponse:
    asked = next(str(m.content) for m in reversed(messages) if m.role == "user")
    return text(asked) if messages[-1].role == "tool" else wants(("slowly", {"number": asked}), ("nope", {"n": asked}))


@pytest.mark.parametrize("options", [{}, {"cache_session": True, "add_history_to_context": True}])
def test_agent_isolation(options: dict[str, Any]) -> None:
    """Concurrent conversations with one agent keep their records and their memory."""

    def rule(messages: list[Message]) -> ModelResponse:
        said = {str(m.content) for m in messages if m.role == "user"}
        return echo(messages) if len(said) == 1 else text(f"mixed {said}")

    def check(number: int, result: EvalCaseResult) -> None:
        expected = [("slowly", {"number": str(number)}), ("nope", {"n": str(number)})]
        assert calls(result) == expected * 2
        assert [call.result for call in result.actual_tool_calls] == [f"done {number}", None] * 2
        assert result.actual_response == str(number)
        assert result.node_visits == ["one", "one"]
        assert result.agent_token_usage.input_tokens == 40

    check_isolation(agent(rule, name="one", **options), check, turns=2)


def test_team_isolation() -> None:
    """Concurrent cases with one team keep their records."""

    def lead(messages: list[Message]) -> ModelResponse:
        asked = next(str(m.content) for m in reversed(messages) if m.role == "user")
        task = {"member_id": "one", "task": asked}
        return text(asked) if messages[-1].role == "tool" else wants(("delegate_task_to_member", task))

    def check(number: int, result: EvalCaseResult) -> None:
        assert [name for name, _ in calls(result)] == ["delegate_task_to_member", "slowly", "nope"]
        assert result.actual_tool_calls[1].result == f"done {number}"
        assert result.actual_response == str(number)
        assert result.node_visits == ["boss", "one"]

    check_isolation(team(agent(echo, name="one"), rule=lead), check)


# Wrong wiring


def test_refused() -> None:
    """What cannot be driven is named."""
    with pytest.raises(TargetError, match="an Agent and a Team"):
        adapt(Workflow(name="flow"))
    with pytest.raises(TargetError, match="only make sense for a graph"):
        adapt(agent(once()), input_key="question")
