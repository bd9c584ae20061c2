from __future__ import annotations

import asyncio
import itertools
import json
import random
from typing import Any

import pytest
from pydantic import BaseModel
from tulip.agent import Agent, AgentConfig
from tulip.core.interrupt import interrupt
from tulip.core.messages import Message, ToolCall
from tulip.core.send import Send
from tulip.memory.backends import MemoryCheckpointer
from tulip.models import ModelResponse
from tulip.multiagent.graph import END, START, CachePolicy, RetryPolicy, StateGraph
from tulip.testing import FunctionModel, text, tool_call
from tulip.tools.decorator import tool

from agentflow_eval import as_eval_target
from agentflow_eval.adapters import Session, adapt
from agentflow_eval.errors import AgentError, TargetError, UsageError
from agentflow_eval.result import ErrorKind, EvalCaseResult, Outcome
from tests.adapters.driving import calls, check_isolation, judged, say


@tool
def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


@tool
async def slowly(number: str) -> str:
    """Takes its time."""
    await asyncio.sleep(random.random() / 100)
    return f"done {number}"


@tool
async def hang() -> str:
    """Never ends."""
    await asyncio.sleep(60)
    return "late"


@tool
def fail(why: str) -> str:
    """Fails."""
    raise ValueError(why)


def wants(*requested: tuple[str, dict[str, Any]]) -> ModelResponse:
    """A turn that calls tools."""
    made = [ToolCall(id=f"c{i}", name=name, arguments=args) for i, (name, args) in enumerate(requested)]
    usage = {"prompt_tokens": 10, "completion_tokens": 20, "total_tokens": 30}
    return ModelResponse(message=Message.assistant(content=None, tool_calls=made), usage=usage)


def agent(*requested: tuple[str, dict[str, Any]], **options: Any) -> Agent:
    """Requests the tools after each message of the user, then answers with what they said."""

    def rule(messages: list[Message], _tools: list[Any]) -> ModelResponse:
        if messages[-1].role != "tool":
            return wants(*requested) if requested else text("hello")
        asked = max(index for index, message in enumerate(messages) if message.role == "user")
        return text(" | ".join(str(m.content) for m in messages[asked:] if m.role == "tool"))

    return Agent(model=FunctionModel(rule), tools=[add, slowly, hang, fail], context_window=100_000, **options)


def graph(*nodes: tuple[str, Any], **options: Any) -> StateGraph:
    """Nodes one after the other."""
    made = StateGraph(**options)
    names = [START, *(name for name, _ in nodes), END]
    for name, executor in nodes:
        made.add_node(name, executor)
    for source, target in itertools.pairwise(names):
        made.add_edge(source, target)
    return made


def answer(state: dict[str, Any]) -> dict[str, Any]:
    return {"answer": f"hello {state['prompt']}"}


# Agents


def test_plain_answer() -> None:
    """An answer without tools."""
    run = say(agent())
    assert run.actual_response == "hello"
    assert run.tool_calls == []
    assert [response.node_name for response in run.node_responses] == ["agent"]


def test_tools_in_request_order() -> None:
    """Arguments, result, error and id of each call, in the order of the request."""
    run = say(agent(("slowly", {"number": "1"}), ("fail", {"why": "broken"}), ("add", {"a": 1, "b": 2})))
    assert calls(run) == [("slowly", {"number": "1"}), ("fail", {"why": "broken"}), ("add", {"a": 1, "b": 2})]
    assert [call.call_id for call in run.tool_calls] == ["c0", "c1", "c2"]
    assert [call.result for call in run.tool_calls] == ["done 1", None, "3"]
    assert run.tool_calls[0].error is None
    assert "broken" in (run.tool_calls[1].error or "")
    assert run.actual_response.startswith("done 1")


def test_unknown_tool() -> None:
    """A tool that does not exist is a failed call."""
    run = say(agent(("addd", {"a": 1})))
    assert calls(run) == [("addd", {"a": 1})]
    assert "addd" in (run.tool_calls[0].error or "")


def test_tokens() -> None:
    """The tokens of all model calls."""
    run = say(agent(("add", {"a": 1, "b": 2})))
    assert run.agent_token_usage is not None
    assert (run.agent_token_usage.input_tokens, run.agent_token_usage.output_tokens) == (20, 40)


@pytest.mark.parametrize("remembers", [True, False])
def test_turns(remembers: bool) -> None:
    """Each turn sees the turns before it once, whether the agent has a checkpointer or not."""
    seen: list[list[str]] = []

    def rule(messages: list[Message], _tools: list[Any]) -> str:
        seen.append([str(message.content) for message in messages if message.role != "system"])
        return f"answer {len(seen)}"

    options: dict[str, Any] = {"checkpointer": MemoryCheckpointer()} if remembers else {}
    run = say(Agent(model=FunctionModel(rule), context_window=100_000, **options), "one", "two", "three")
    assert seen[-1] == ["one", "answer 1", "two", "answer 2", "three"]
    assert [turn.agent_response for turn in run.turns] == ["answer 1", "answer 2", "answer 3"]


def test_repeated_call_ids() -> None:
    """The same id in two turns is two calls."""
    run = say(agent(("add", {"a": 1, "b": 2})), "one", "two")
    assert [call.result for call in run.tool_calls] == ["3", "3"]


def test_state_reaches_tools() -> None:
    """The state of the session is the metadata of the run."""
    seen: list[Any] = []

    def prompt(context: dict[str, Any]) -> str:
        metadata = context["metadata"]
        seen.append((metadata["tier"], metadata["user_id"]))
        return "be good"

    model = FunctionModel(lambda messages, tools: "hello")
    config = AgentConfig(model=model, system_prompt=prompt, context_window=100_000)
    say(Agent(config=config), session=Session(thread_id="t", user_id="u", state={"tier": "gold"}))
    assert seen == [("gold", "u")]


def test_capped_agent() -> None:
    """An agent that is stopped at its limit gives an error, not a pass."""

    def rule(messages: list[Message], _tools: list[Any]) -> ModelResponse:
        return tool_call("add", a=len(messages), b=1)

    looping = Agent(model=FunctionModel(rule), tools=[add], max_iterations=2, context_window=100_000)
    result = judged(looping)
    assert (result.outcome, result.error_kind) == (Outcome.ERROR, ErrorKind.AGENT)
    assert "max_iterations" in (result.error or "")
    assert len(result.actual_tool_calls) == 2


def test_interrupted_agent() -> None:
    """An agent that asks a human gives an error that holds the question."""

    @tool
    def ask_user(question: str) -> str:
        """Asks a human, in the way of tulip's own tool."""
        return json.dumps({"__interrupt__": True, "question": question})

    model = FunctionModel(lambda messages, tools: tool_call("ask_user", question="Which one?"))
    asking = Agent(model=model, tools=[ask_user], context_window=100_000)
    with pytest.raises(AgentError, match="Which one"):
        say(asking)


def test_raising_model() -> None:
    """What the model raises is the agent's error, and what was recorded before stays."""

    def rule(messages: list[Message], _tools: list[Any]) -> ModelResponse:
        if messages[-1].role == "tool":
            raise RuntimeError("model down")
        return wants(("add", {"a": 1, "b": 2}))

    result = judged(Agent(model=FunctionModel(rule), tools=[add], context_window=100_000))
    assert "model down" in (result.error or "")
    assert [call.result for call in result.actual_tool_calls] == ["3"]


def test_timeout_keeps_evidence() -> None:
    """The calls of an agent that hangs are recorded."""
    result = judged(agent(("hang", {})), timeout=0.3)
    assert result.timed_out
    assert calls(result) == [("hang", {})]


def test_agent_as_tool() -> None:
    """The calls of an agent inside a tool are recorded, and its tokens count once."""
    inner = agent(("add", {"a": 1, "b": 2}), name="inner")

    @tool
    def delegate(task: str) -> str:
        """Asks another agent."""
        return str(inner.run_sync(task).message)

    def rule(messages: list[Message], _tools: list[Any]) -> ModelResponse:
        return text("hello") if messages[-1].role == "tool" else wants(("delegate", {"task": "add"}))

    run = say(Agent(model=FunctionModel(rule), tools=[delegate], context_window=100_000))
    assert calls(run) == [("delegate", {"task": "add"}), ("add", {"a": 1, "b": 2})]
    assert [call.result for call in run.tool_calls] == ["3", "3"]
    assert [response.node_name for response in run.node_responses] == ["agent", "inner", "inner", "agent"]
    assert run.agent_token_usage is not None
    assert run.agent_token_usage.input_tokens == 40


def test_agent_isolation() -> None:
    """Concurrent cases over one agent keep their records."""

    def rule(messages: list[Message], _tools: list[Any]) -> ModelResponse:
        asked = [m.content for m in messages if m.role == "user"][-1]
        said = [str(m.content) for m in messages if m.role == "tool"]
        return text(str(asked)) if said else wants(("slowly", {"number": asked}), ("slowly", {"number": f"{asked}b"}))

    def check(number: int, result: EvalCaseResult) -> None:
        assert calls(result) == [("slowly", {"number": str(number)}), ("slowly", {"number": f"{number}b"})]
        assert [call.result for call in result.actual_tool_calls] == [f"done {number}", f"done {number}b"]
        assert result.actual_response == str(number)
        assert len(result.node_responses) == 2

    check_isolation(Agent(model=FunctionModel(rule), tools=[slowly], context_window=100_000), check)


# Graphs


def test_graph() -> None:
    """Nodes are visits, and the answer is a field of the final state."""
    made = graph(("classify", lambda state: {"topic": "billing"}), ("reply", answer))
    run = say(made, output_key="answer")
    assert run.node_visits == ["classify", "reply"]
    assert run.actual_response == "hello hi"
    assert run.tool_calls == []


def test_nodes_as_tools() -> None:
    """When asked, each node is a tool call too, with what it returned."""
    run = say(as_eval_target(graph(("reply", answer)), output_node="reply", nodes_as_tools=True))
    assert calls(run) == [("reply", {})]
    assert run.tool_calls[0].result == {"answer": "hello hi"}
    assert run.actual_response == '{"answer": "hello hi"}'


def test_whole_state_is_the_answer() -> None:
    """Without a key the answer is what the run added, so that the prompt alone matches nothing."""
    run = say(as_eval_target(graph(("reply", lambda state: {"x": 1})), initial_state={"tier": "gold"}))
    assert run.actual_response == '{"x": 1}'


def test_input_key_and_state() -> None:
    """The prompt, the initial state and the session's state are what the graph starts with."""
    made = graph(("reply", lambda state: {"answer": f"{state['question']} {state['tier']} {state['lang']}"}))
    target = as_eval_target(made, input_key="question", output_key="answer", initial_state={"tier": "gold"})
    assert say(target, session=Session(thread_id="t", state={"lang": "de"})).actual_response == "hi gold de"


def test_conversation_as_input() -> None:
    """A graph over messages gets the whole conversation in each turn."""
    made = graph(("reply", lambda state: {"answer": " ".join(m["content"] for m in state["messages"])}))
    run = say(as_eval_target(made, input_key="messages", output_key="answer"), "one", "two")
    assert run.actual_response == "one one two"


def test_subgraph() -> None:
    """Nodes of a subgraph are named by their path."""
    run = say(graph(("outer", graph(("inner", answer))), ("last", lambda state: {})), output_key="answer")
    assert run.node_visits == ["outer", "outer/inner", "last"]
    assert run.actual_response == "hello hi"


@pytest.mark.parametrize("is_async", [True, False])
def test_agents_in_nodes(is_async: bool) -> None:
    """Tools and tokens of agents in nodes are recorded, in nodes that are plain functions too."""
    inside = agent(("add", {"a": 1, "b": 2}))

    async def ask(state: dict[str, Any]) -> dict[str, Any]:
        return {"answer": (await inside.arun(state["prompt"])).message}

    def ask_sync(state: dict[str, Any]) -> dict[str, Any]:
        return {"answer": inside.run_sync(state["prompt"]).message}

    run = say(graph(("ask", ask if is_async else ask_sync)), output_key="answer")
    assert calls(run) == [("add", {"a": 1, "b": 2})]
    assert run.tool_calls[0].result == "3"
    assert [response.node_name for response in run.node_responses] == ["ask", "ask"]
    assert run.agent_token_usage is not None
    assert run.agent_token_usage.input_tokens == 20


def test_conditional_edges() -> None:
    """Only the nodes that ran are visits."""
    made = StateGraph()
    for name in ("classify", "billing", "other"):
        made.add_node(name, answer)
    made.add_edge(START, "classify")
    made.add_conditional_edges("classify", lambda state: "billing", {"billing": "billing", "other": "other"})
    made.add_edge("billing", END)
    assert say(made, output_key="answer").node_visits == ["classify", "billing"]


def test_retried_node() -> None:
    """A node that is tried again is one visit, and no failure when it succeeds."""
    tries: list[int] = []

    def flaky(state: dict[str, Any]) -> dict[str, Any]:
        tries.append(1)
        if len(tries) < 2:
            raise ValueError("not yet")
        return {"answer": "hello"}

    made = StateGraph()
    made.add_node("flaky", flaky, retry_policy=RetryPolicy(initial_interval=0))
    made.add_edge(START, "flaky")
    run = say(made, output_key="answer")
    assert run.node_visits == ["flaky"]
    assert len(tries) == 2


def test_cached_node() -> None:
    """A node whose output comes from tulip's cache has been visited."""
    made = StateGraph()
    made.add_node("reply", answer, cache_policy=CachePolicy())
    made.add_edge(START, "reply")
    assert say(made, output_key="answer").node_visits == ["reply"]
    assert say(made, output_key="answer").node_visits == ["reply"]


def fan_out(work: Any) -> StateGraph:
    made = StateGraph()
    made.add_node("split", lambda state: [Send(node="work", payload={"n": n}) for n in range(3)])
    made.add_node("work", work)
    made.add_edge(START, "split")
    return made


def test_send() -> None:
    """Each task of a fan-out is a visit."""
    assert say(fan_out(lambda state: {"n": state["n"]})).node_visits == ["split", "work", "work", "work"]


# Bad endings of graphs


def broken(state: dict[str, Any]) -> dict[str, Any]:
    raise ValueError("boom")


def broken_once(state: dict[str, Any]) -> dict[str, Any]:
    return broken(state) if state["n"] == 1 else {}


def asks(state: dict[str, Any]) -> dict[str, Any]:
    return {"answer": interrupt("Approve?")}


def capped() -> StateGraph:
    made = StateGraph()
    made.config.allow_cycles = True
    made.add_node("again", lambda state: {"answer": "hello"})
    made.add_edge(START, "again")
    made.add_edge("again", "again")
    made.config.max_iterations = 3
    return made


def skipped() -> StateGraph:
    made = graph(("first", answer), ("second", answer))
    made.nodes["second"].condition = lambda state: False
    return made


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (graph(("reply", answer), ("bad", broken)), "node 'bad' failed: boom"),
        (graph(("outer", graph(("bad", broken)))), "node 'outer/bad' failed: boom"),
        (graph(("ask", asks)), "stopped at node 'ask' to wait for a human: Approve"),
        (graph(("outer", graph(("ask", asks)))), "wait for a human"),
        (graph(("reply", answer)).compile(interrupt_before=["reply"]), "stopped at node 'reply'"),
        (fan_out(broken_once), "node 'work' failed: boom"),
        (capped(), "limit of 3 iterations"),
        (graph(("outer", capped())), "limit of 3 iterations"),
        (skipped(), "ended at node 'second', which was skipped"),
        (StateGraph(), "no node of the graph ran"),
    ],
)
def test_bad_ending(made: StateGraph, said: str) -> None:
    """A graph that did not end well is an error, although tulip may call it a success."""
    result = judged(made)
    assert result.outcome is Outcome.ERROR
    assert said in (result.error or "")


def test_just_within_the_limit() -> None:
    """A graph that needs exactly as many steps as it may take ends well."""
    made = graph(("first", answer), ("second", answer))
    made.config.max_iterations = 2
    assert say(made, output_key="answer").actual_response == "hello hi"


@pytest.mark.parametrize("parallel", [True, False])
def test_skipped_beside_another(parallel: bool) -> None:
    """A skipped node beside one that ran is no bad ending, and no visit."""
    made = StateGraph()
    made.config.parallel = parallel
    made.add_node("runs", answer)
    made.add_node("idle", answer, condition=lambda state: False)
    made.add_edge(START, "runs")
    made.add_edge(START, "idle")
    made.add_edge("runs", END)
    assert say(made, output_key="answer").node_visits == ["runs"]


def test_hanging_node_is_recorded() -> None:
    """A node that hangs is a visit of a timed out case."""

    async def hangs(state: dict[str, Any]) -> None:
        await asyncio.sleep(60)

    result = judged(graph(("reply", answer), ("hangs", hangs)), timeout=0.3)
    assert result.timed_out
    assert result.node_visits == ["reply", "hangs"]


def test_graph_is_left_alone() -> None:
    """The graph itself is not changed."""
    made = graph(("outer", graph(("inner", answer))))
    nodes, limit = dict(made.nodes), made.config.max_iterations
    say(made, output_key="answer")
    assert made.nodes == nodes
    assert type(made.config.max_iterations) is type(limit)


@pytest.mark.parametrize("parallel", [True, False])
def test_graph_isolation(parallel: bool) -> None:
    """Concurrent cases over one graph keep their records, those of agents in its nodes included."""

    def rule(messages: list[Message], _tools: list[Any]) -> ModelResponse:
        asked = str(messages[1].content)
        return text(asked) if messages[-1].role == "tool" else wants(("slowly", {"number": asked}))

    inside = Agent(model=FunctionModel(rule), tools=[slowly], context_window=100_000)

    async def ask(state: dict[str, Any]) -> dict[str, Any]:
        await asyncio.sleep(random.random() / 100)
        return {"answer": (await inside.arun(state["prompt"])).message}

    async def beside(state: dict[str, Any]) -> dict[str, Any]:
        return {"beside": (await inside.arun(state["prompt"] + "b")).message}

    made = StateGraph()
    made.config.parallel = parallel
    for name, executor in (("ask", ask), ("beside", beside)):
        made.add_node(name, executor)
        made.add_edge(START, name)

    def check(number: int, result: EvalCaseResult) -> None:
        assert result.node_visits == ["ask", "beside"]
        assert sorted(call.args["number"] for call in result.actual_tool_calls) == [str(number), f"{number}b"]
        assert all(call.result == f"done {call.args['number']}" for call in result.actual_tool_calls)
        assert result.actual_response == str(number)

    check_isolation(as_eval_target(made, output_key="answer"), check)


# Wrong wiring


def test_wrong_options() -> None:
    """Options that make no sense are refused with what would."""
    made = graph(("reply", answer))
    with pytest.raises(UsageError, match="not both"):
        as_eval_target(made, output_key="answer", output_node="reply")
    with pytest.raises(TargetError, match="did you mean 'reply'"):
        as_eval_target(made, output_node="replay")
    with pytest.raises(TargetError, match="only make sense for a graph"):
        adapt(agent(), output_key="answer")
    with pytest.raises(AgentError, match=r"no 'anser'.*it has: prompt, answer"):
        say(made, output_key="anser")


def test_other_tulip_objects() -> None:
    """What is neither an agent nor a graph is named."""

    class Other(BaseModel):
        pass

    Other.__module__ = "tulip.other"
    with pytest.raises(TargetError, match="an Agent and a StateGraph"):
        adapt(Other())
