"""Tests of what LangGraph reports, in the graphs where it reports it differently."""

from __future__ import annotations

import asyncio
import json
import operator
from dataclasses import dataclass, field
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.callbacks import AsyncCallbackManager, BaseCallbackHandler
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.func import entrypoint
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Command, interrupt

from agentflow_eval.adapters import Session, Turn, adapt
from agentflow_eval.adapters._langchain_events import Recorder, Routes, handler_class
from agentflow_eval.collector import TrajectoryCollector
from agentflow_eval.dataset import MessageContent, StepType
from agentflow_eval.errors import AgentError, TargetError
from agentflow_eval.result import ExecutionResult
from tests.adapters.graphs import RuleModel, calls, chain, once, react, say, wants


class Ticket(TypedDict, total=False):
    question: str
    answer: str


class PlainMessages(TypedDict):
    messages: list[Any]


class SyncSaver(InMemorySaver):
    """A saver without the async half, as the one for SQLite is."""

    async def aget_tuple(self, config: Any) -> Any:
        raise NotImplementedError("use the async saver")


@tool
def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


def edges(execution: ExecutionResult) -> list[tuple[str, Any]]:
    """Name and target of each recorded decision."""
    return [(s.name, s.metadata["target"]) for s in execution.trajectory if s.step_type is StepType.CONDITIONAL]


def turn(content: Any) -> Turn:
    message = MessageContent(role="user", content=content)
    return Turn(0, message.get_text(), message)


# Edges


def inner(_state: Ticket) -> str:
    return "yes"


def entry(_state: Ticket) -> str:
    return "desk"


def test_edge_from_the_start() -> None:
    """The decision where to begin is a step, and the start itself is no visit."""
    builder = StateGraph(Ticket)
    builder.add_node("desk", lambda state: {"answer": "ok"})
    builder.add_node("other", lambda state: {"answer": "no"})
    builder.add_conditional_edges(START, entry, ["desk", "other"])
    execution = say(builder.compile(), input_key="question", output_key="answer")
    assert edges(execution) == [("entry", "desk")]
    assert execution.node_visits == ["desk"]


def test_edge_in_a_subgraph() -> None:
    """A decision inside a subgraph is a step with the node it means."""
    builder = StateGraph(Ticket)
    builder.add_node("first", lambda state: {"answer": "one"})
    builder.add_node("second", lambda state: {"answer": "two"})
    builder.add_edge(START, "first")
    builder.add_conditional_edges("first", inner, {"yes": "second", "no": END})
    execution = say(chain(Ticket, ("desk", builder.compile())), input_key="question", output_key="answer")
    assert edges(execution) == [("inner", "second")]
    assert execution.node_visits == ["desk", "desk/first", "desk/second"]
    assert execution.actual_response == "two"


def test_node_that_speaks_like_an_edge() -> None:
    """A node made of a chain whose parts return text is no decision."""
    from langchain_core.runnables import RunnableLambda

    parts: Any = RunnableLambda(lambda state: "b") | RunnableLambda(lambda text: {"answer": text})
    execution = say(chain(Ticket, ("a", parts), ("b", lambda state: {})), input_key="question", output_key="answer")
    assert edges(execution) == []
    assert execution.node_visits == ["a", "b"]


# Memory


def test_saver_without_the_async_half() -> None:
    """A graph with a saver that only works synchronously is run in a thread, and remembers."""

    def count(state: MessagesState) -> dict[str, Any]:
        add.invoke({"a": 1, "b": 2})
        return {"messages": [AIMessage(str(len(state["messages"])))]}

    execution = say(chain(MessagesState, ("count", count), checkpointer=SyncSaver()), "one", "two")
    assert [result.agent_response for result in execution.turns] == ["1", "3"]
    assert execution.node_visits == ["count", "count"]
    assert calls(execution) == [("add", {"a": 1, "b": 2})] * 2


def test_saver_that_is_broken() -> None:
    """What the saver raises goes on to the engine."""

    class Broken(InMemorySaver):
        async def aget_tuple(self, config: Any) -> Any:
            raise ConnectionError("database down")

    with pytest.raises(ConnectionError, match="database down"):
        say(chain(MessagesState, ("a", lambda state: {}), checkpointer=Broken()))


def test_breakpoint_of_a_graph_that_only_runs_synchronously() -> None:
    """It is found there too."""
    options = {"checkpointer": SyncSaver(), "interrupt_after": ["one"]}
    graph = chain(MessagesState, ("one", lambda state: {}), ("two", lambda state: {}), **options)
    with pytest.raises(AgentError, match="breakpoint before two"):
        say(graph)


def test_interrupt_that_asks_with_an_object() -> None:
    """What the graph waits for is shown as JSON."""
    graph = chain(MessagesState, ("ask", lambda state: interrupt({"approve": 7})), checkpointer=InMemorySaver())
    with pytest.raises(AgentError, match=r'wait for a human: \{"approve": 7\}'):
        say(graph)


def test_history_that_the_graph_trims() -> None:
    """An answer of an earlier turn is not echoed when the graph drops the user's message."""

    def forget(state: MessagesState) -> dict[str, Any]:
        last = state["messages"][-1]
        answered = [] if len(state["messages"]) > 1 else [AIMessage("first answer")]
        return {"messages": [RemoveMessage(id=str(last.id)), *answered]}

    execution = say(chain(MessagesState, ("forget", forget)), "one", "two")
    assert [result.agent_response for result in execution.turns] == ["first answer", ""]


def test_state_that_keeps_messages_as_given() -> None:
    """Without ``add_messages`` the messages are the plain objects that were given; nothing is counted twice."""
    said: list[Any] = []

    def answer(state: PlainMessages) -> dict[str, Any]:
        said.append(list(state["messages"]))
        new = [
            wants(("add", {"a": len(said), "b": 0})),
            ToolMessage(str(len(said)), tool_call_id="c0"),
            AIMessage("ok"),
        ]
        return {"messages": [*state["messages"], *new]}

    execution = say(chain(PlainMessages, ("answer", answer)), "one", "two")
    assert said[1] == [
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": "ok"},
        {"role": "user", "content": "two"},
    ]
    assert [(call.args["a"], call.result) for call in execution.tool_calls] == [(1, "1"), (2, "2")]


def test_messages_that_a_graph_without_ids_remembers() -> None:
    """Calls of earlier turns, which such a graph returns again, are not calls of this turn."""

    def answer(state: PlainMessages) -> dict[str, Any]:
        new = [wants(("add", {"a": 1, "b": 0})), ToolMessage("1", tool_call_id="c0"), AIMessage("ok")]
        return {"messages": [*state["messages"], *new]}

    class Appending(PlainMessages):
        messages: Annotated[list[Any], lambda old, new: new if len(new) > 1 else [*old, *new]]

    graph = chain(Appending, ("answer", answer), checkpointer=InMemorySaver())
    assert len(say(graph, "one", "two", "three").tool_calls) == 3


def test_messages_of_the_initial_state() -> None:
    """Calls in messages that the run starts with are not the agent's, and their text is no answer."""
    before = [
        HumanMessage("old"),
        wants(("add", {"a": 1, "b": 1})),
        ToolMessage("2", tool_call_id="c0"),
        AIMessage("2"),
    ]
    graph = chain(PlainMessages, ("quiet", lambda state: {"messages": state["messages"]}))
    execution = say(graph, initial_state={"messages": before})
    assert (execution.tool_calls, execution.actual_response) == ([], "")


# Other graphs


def test_entrypoint() -> None:
    """A workflow of the functional API answers with what it returns."""

    @entrypoint()
    async def workflow(asked: dict[str, Any]) -> str:
        return f"{asked['messages'][-1]['content']}!"

    assert say(workflow, "hello").actual_response == "hello!"


def test_entrypoint_with_messages() -> None:
    """A workflow that returns messages answers with the last of them."""

    @entrypoint()
    async def workflow(asked: dict[str, Any]) -> dict[str, Any]:
        return {"messages": [*asked["messages"], AIMessage("fine")]}

    assert say(workflow, "hello").actual_response == "fine"


def test_state_that_is_a_dataclass() -> None:
    """A state with attributes is read like one with keys."""

    @dataclass
    class State:
        messages: Annotated[list[Any], operator.add] = field(default_factory=list)

    graph = chain(State, ("answer", lambda state: {"messages": [AIMessage(f"{len(state.messages)}")]}))
    assert say(graph, "one", "two").actual_response == "3"


def test_command() -> None:
    """Calls in the update of a command are recorded."""

    def go(state: MessagesState) -> Command[Any]:
        return Command(goto="end", update={"messages": [wants(("add", {"a": 1, "b": 2}))]})

    builder = StateGraph(MessagesState)
    builder.add_node("go", go, destinations=("end",))
    builder.add_node("end", lambda state: {"messages": [AIMessage("ok")]})
    builder.add_edge(START, "go")
    execution = say(builder.compile())
    assert (calls(execution), execution.node_visits) == ([("add", {"a": 1, "b": 2})], ["go", "end"])
    assert execution.tool_calls[0].error == "requested, but never run"


def test_input_and_output_schema() -> None:
    """Only fields of the input take the text, and only fields of the output hold the answer."""

    class Asked(TypedDict):
        question: str

    class Told(TypedDict):
        answer: str

    builder = StateGraph(Ticket, input_schema=Asked, output_schema=Told)
    builder.add_node("a", lambda state: {"answer": state["question"]})
    builder.add_edge(START, "a")
    graph = builder.compile()
    assert say(graph, "hm", input_key="question", output_key="answer").actual_response == "hm"
    with pytest.raises(TargetError, match=r"input_key 'answer' is not in the graph \(there: question\)"):
        adapt(graph, input_key="answer", output_key="answer")
    with pytest.raises(TargetError, match=r"output_key 'question' is not in the graph \(there: answer\)"):
        adapt(graph, input_key="question", output_key="question")
    with pytest.raises(TargetError, match=r"input has no messages but question; .*agent_options"):
        adapt(graph)


def test_initial_state_with_a_wrong_name() -> None:
    """A field that the state does not have is refused; LangGraph would drop it silently."""
    graph = chain(Ticket, ("a", lambda state: {}))
    with pytest.raises(TargetError, match="did you mean 'answer'"):
        adapt(graph, input_key="question", output_key="answer", initial_state={"answr": 1})


def test_initial_state_that_is_no_json() -> None:
    """Lists are copied for each run; what cannot be copied is shared."""

    class State(TypedDict, total=False):
        question: str
        lock: Any
        log: list[str]
        answer: str

    def node(state: State) -> dict[str, Any]:
        state["log"].append("x")
        return {"answer": f"{len(state['log'])} {state['lock'].locked()}"}

    options: dict[str, Any] = {"initial_state": {"lock": asyncio.Lock(), "log": []}}
    execution = say(chain(State, ("a", node)), "1", "2", input_key="question", output_key="answer", **options)
    assert [result.agent_response for result in execution.turns] == ["1 False", "1 False"]


@pytest.mark.parametrize(
    ("content", "given"),
    [
        ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "a b"),
        ([{"type": "text", "text": "a"}, {"type": "image", "url": "x"}], [{"type": "text"}, {"type": "image"}]),
    ],
)
def test_content_blocks(content: Any, given: Any) -> None:
    """Blocks of text are one text; an image reaches the graph."""
    seen: list[Any] = []
    graph = chain(MessagesState, ("a", lambda state: seen.append(state["messages"][-1].content)))

    async def run() -> None:
        collector = TrajectoryCollector()
        collector.begin_turn("")
        await adapt(graph).run_turn(turn(content), Session(thread_id="t"), collector)

    asyncio.run(run())
    shown = seen[0] if isinstance(seen[0], str) else [{"type": block["type"]} for block in seen[0]]
    assert shown == given


def test_answer_in_blocks() -> None:
    """Text blocks and refusals are the answer; reasoning is not."""
    blocks: list[str | dict[Any, Any]] = [
        {"type": "reasoning", "reasoning": "hm"},
        {"type": "text", "text": "No"},
        {"type": "refusal", "refusal": "!"},
    ]
    assert say(react(lambda _: AIMessage(blocks))).actual_response == "No!"


def test_last_message_that_is_empty() -> None:
    """An agent that ends with an empty message gave no answer, whatever it said on the way."""
    graph = chain(
        MessagesState,
        ("a", lambda state: {"messages": [AIMessage("One moment.")]}),
        ("b", lambda state: {"messages": [AIMessage("")]}),
    )
    assert say(graph).actual_response == ""


def test_malformed_call() -> None:
    """A call whose arguments are no JSON is recorded as the model wrote it."""
    broken = AIMessage("sorry", invalid_tool_calls=[{"name": "add", "args": "{a:", "id": "x", "error": None}])
    graph = chain(MessagesState, ("a", lambda state: {"messages": [broken, AIMessage("ok")]}))
    (call,) = say(graph).tool_calls
    assert (call.args, call.error) == ({"raw": "{a:"}, "malformed tool call: its arguments are not JSON")


def test_tool_without_a_request() -> None:
    """A tool that a node calls by itself is recorded when it starts, each time."""
    graph = chain(MessagesState, ("a", lambda state: [add.invoke({"a": 1, "b": n}) for n in range(9)] and {}))
    assert calls(say(graph)) == [("add", {"a": 1, "b": n}) for n in range(9)]


def test_model_and_tools_in_one_node() -> None:
    """Calls that a node runs before it returns the request are recorded in the order of the request, once."""
    model = RuleModel(rule=once(("add", {"a": 1, "b": 1}), ("add", {"a": 2, "b": 2})))

    async def work(state: MessagesState) -> dict[str, Any]:
        asked = await model.ainvoke(state["messages"])
        second, first = [await add.ainvoke(dict(call, type="tool_call")) for call in reversed(asked.tool_calls)]
        return {"messages": [asked, first, second, AIMessage("done")]}

    execution = say(chain(MessagesState, ("work", work)), "one", "two")
    assert [(call.args["a"], call.result) for call in execution.tool_calls] == [(1, "2"), (2, "4")] * 2
    assert execution.actual_response == "done"


def test_output_node_that_speaks_in_messages() -> None:
    """The answer of an output node is its message, not the whole update."""
    graph = chain(
        MessagesState,
        ("draft", lambda state: {"messages": [AIMessage("draft")]}),
        ("check", lambda state: {"messages": [AIMessage("fine")]}),
    )
    assert say(graph, output_node="draft").actual_response == "draft"


def test_output_node_with_several_values() -> None:
    """The answer of an output node that sets several fields is the update as JSON."""
    graph = chain(Ticket, ("a", lambda state: {"answer": "x", "question": "y"}))
    answer = say(graph, input_key="question", output_node="a").actual_response
    assert json.loads(answer) == {"answer": "x", "question": "y"}


def test_model_that_takes_text() -> None:
    """A model of the older kind, text in and text out, is a model call too."""
    from langchain_core.language_models import FakeListLLM

    model = FakeListLLM(responses=["fine"])
    graph = chain(MessagesState, ("a", lambda state: {"messages": [AIMessage(model.invoke("how?"))]}))
    (response,) = say(graph).node_responses
    assert (response.node_name, response.response_text) == ("a", "fine")
    assert response.input_messages == [{"role": "user", "content": "how?"}]


def test_tokens_from_a_cache() -> None:
    """Tokens that were read from or written to a cache are counted."""
    details: Any = {"cache_read": 3, "cache_creation": 2}
    usage: Any = {"input_tokens": 9, "output_tokens": 1, "total_tokens": 10, "input_token_details": details}
    (response,) = say(react(lambda _: AIMessage("ok", usage_metadata=usage))).node_responses
    tokens = response.token_usage
    assert (tokens.input_tokens, tokens.cache_read_tokens, tokens.cache_creation_tokens) == (9, 3, 2)


# Observing


def test_callback_manager_of_the_session() -> None:
    """A manager in the session's config is kept, and not changed."""
    seen: list[str] = []

    class Mine(BaseCallbackHandler):
        def on_tool_start(self, serialized: Any, input_str: str, **_: Any) -> None:
            seen.append(serialized["name"])

    manager = AsyncCallbackManager(handlers=[Mine()], inheritable_handlers=[Mine()])
    session = Session(thread_id="t", config={"callbacks": manager, "configurable": None})
    assert calls(say(react(once(("add", {"a": 1, "b": 2})), [add]), session=session)) == [("add", {"a": 1, "b": 2})]
    assert seen == ["add"]
    assert len(manager.handlers) == 1


def test_all_events() -> None:
    """A collector that captures everything gets the raw events."""

    async def run() -> list[str]:
        collector = TrajectoryCollector(capture_all_events=True)
        collector.begin_turn("hi")
        await adapt(react(once(("add", {"a": 1, "b": 2})), [add])).run_turn(turn("hi"), Session("t"), collector)
        return [event["event"] for event in collector.events]

    names = asyncio.run(run())
    assert {"on_chain_start", "on_chat_model_start", "on_llm_end", "on_tool_start", "on_tool_end"} <= set(names)


def test_failing_observer() -> None:
    """What the recorder cannot follow is noted on the case and does not reach the agent."""
    collector = TrajectoryCollector()
    handler = handler_class()(Recorder(collector, {}, Routes(frozenset(), {})))
    handler.on_llm_end(object(), run_id=1)
    assert collector.failures == ["AttributeError: 'object' object has no attribute 'generations'"]


def test_events_without_a_beginning() -> None:
    """Ends of things whose start was not seen change nothing."""
    collector = TrajectoryCollector()
    handler = handler_class()(Recorder(collector, {}, Routes(frozenset(), {})))
    handler.on_tool_end("x", run_id=1)
    handler.on_tool_error(ValueError("x"), run_id=1)
    handler.on_chain_end({}, run_id=1)
    assert (collector.failures, collector.trajectory) == ([], [])


def test_prebuilt_agent() -> None:
    """LangGraph's own agent is driven like any graph."""
    from langgraph.prebuilt import create_react_agent
    from langgraph.warnings import LangGraphDeprecatedSinceV10

    with pytest.warns(LangGraphDeprecatedSinceV10):
        graph = create_react_agent(RuleModel(rule=once(("add", {"a": 1, "b": 2}))), [add])
    execution = say(graph)
    assert execution.node_visits == ["agent", "tools", "agent"]
    assert [(call.args, call.result) for call in execution.tool_calls] == [({"a": 1, "b": 2}, "3")]
    assert execution.actual_response == "3"
