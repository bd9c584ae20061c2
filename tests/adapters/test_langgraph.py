"""Tests of LangGraph agents, with real graphs."""

from __future__ import annotations

import asyncio
import operator
import random
import sys
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import InjectedToolCallId, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import InjectedState
from langgraph.types import Send, interrupt
from pydantic import BaseModel

from agentflow_eval.adapters import Session, adapt
from agentflow_eval.collector import TrajectoryCollector
from agentflow_eval.config import CriteriaConfig, EvalConfig, ReporterConfig, RougeMatchConfig
from agentflow_eval.dataset import EvalCase, EvalSet, Invocation, SessionInput, StepType
from agentflow_eval.errors import AgentError, TargetError
from agentflow_eval.evaluator import AgentEvaluator
from agentflow_eval.result import ErrorKind, EvalCaseResult, Outcome
from tests.adapters.graphs import RuleModel, calls, chain, once, react, say, talk, wants


class QA(TypedDict, total=False):
    question: str
    answer: str
    lang: str
    notes: Annotated[list[str], operator.add]


def hello(_messages: list[BaseMessage]) -> AIMessage:
    return AIMessage("hello")


def judged(graph: Any, *texts: str, **settings: Any) -> EvalCaseResult:
    """The result of one case through the front door."""
    config = EvalConfig(
        criteria=CriteriaConfig(rouge_match=RougeMatchConfig()), reporter=ReporterConfig(enabled=False), **settings
    )
    turns = [Invocation.simple(text, "hello") for text in texts or ("hi",)]
    case = EvalCase(eval_id="c1", conversation=turns, session_input=SessionInput(config={"recursion_limit": 12}))
    return AgentEvaluator(graph, config=config).run_sync(EvalSet(eval_set_id="s", eval_cases=[case])).results[0]


@tool
def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


@tool
async def fail(why: str) -> str:
    """Fails."""
    raise ValueError(why)


# Nodes and edges


def test_nodes_of_a_plain_answer() -> None:
    """An answer without tools visits the model's node once."""
    run = say(react(hello, [add]))
    assert run.node_visits == ["MAIN"]
    assert run.actual_response == "hello"
    assert run.tool_calls == []


def test_nodes_of_a_tool_call() -> None:
    """A tool call visits the model, the tools and the model again."""
    run = say(react(once(("add", {"a": 1, "b": 2})), [add]))
    assert run.node_visits == ["MAIN", "TOOL", "MAIN"]
    assert calls(run) == [("add", {"a": 1, "b": 2})]
    assert run.tool_calls[0].result == "3"
    assert run.actual_response == "3"


def test_nodes_of_subgraphs() -> None:
    """A node inside a graph inside a graph is named by its path."""
    inner = chain(MessagesState, ("deep", lambda state: {"messages": [AIMessage("hello")]}))
    middle = chain(MessagesState, ("inner", inner))
    run = say(chain(MessagesState, ("outer", middle), ("last", lambda state: {})))
    assert run.node_visits == ["outer", "outer/inner", "outer/inner/deep", "last"]
    assert run.actual_response == "hello"


def test_subgraph_called_in_a_node() -> None:
    """A graph that a node invokes itself is a subgraph too, and its tool calls count once."""
    inner = react(once(("add", {"a": 1, "b": 2})), [add])

    async def ask(state: MessagesState) -> dict[str, Any]:
        return {"messages": (await inner.ainvoke({"messages": state["messages"]}))["messages"]}

    run = say(chain(MessagesState, ("outer", ask)))
    assert run.node_visits == ["outer", "outer/MAIN", "outer/TOOL", "outer/MAIN"]
    assert calls(run) == [("add", {"a": 1, "b": 2})]


def test_conditional_edges() -> None:
    """Each decision of an edge is a step with its target."""
    run = say(react(once(("add", {"a": 1, "b": 2})), [add]))
    decided = [step.metadata["target"] for step in run.trajectory if step.step_type is StepType.CONDITIONAL]
    assert decided == ["TOOL", "__end__"]


def fan_out() -> Any:
    async def work(state: QA) -> dict[str, Any]:
        return {"notes": [await add.ainvoke({"a": int(state["question"]), "b": 1})]}

    builder: Any = StateGraph(QA)
    builder.add_node("split", lambda state: {})
    builder.add_node("work", work)
    builder.add_node("join", lambda state: {"answer": str(sum(state["notes"]))})
    builder.add_edge(START, "split")
    builder.add_conditional_edges(
        "split", lambda state: [Send("work", {"question": str(n)}) for n in (1, 2, 3)], ["work"]
    )
    builder.add_edge("work", "join")
    return builder.compile()


def test_send() -> None:
    """Each task of a fan-out is a visit, its tools are recorded, and the edge names all targets."""
    run = say(fan_out(), input_key="question", output_key="answer")
    assert run.node_visits == ["split", "work", "work", "work", "join"]
    assert sorted(call.args["a"] for call in run.tool_calls) == [1, 2, 3]
    decided = [step.metadata["target"] for step in run.trajectory if step.step_type is StepType.CONDITIONAL]
    assert decided == [["work", "work", "work"]]
    assert run.actual_response == "9"


def test_sync_nodes() -> None:
    """Nodes that are plain functions, with a tool called in them, are recorded from their threads."""

    def work(state: QA) -> dict[str, Any]:
        return {"answer": str(add.invoke({"a": 1, "b": 2}))}

    run = say(chain(QA, ("work", work)), input_key="question", output_key="answer")
    assert run.node_visits == ["work"]
    assert calls(run) == [("add", {"a": 1, "b": 2})]
    assert run.actual_response == "3"


def test_tasks_in_a_node() -> None:
    """Tools that a node calls in tasks of its own are recorded."""

    async def work(state: QA) -> dict[str, Any]:
        tasks = [asyncio.create_task(add.ainvoke({"a": n, "b": 0})) for n in range(5)]
        return {"answer": str(sum(await asyncio.gather(*tasks)))}

    run = say(chain(QA, ("work", work)), input_key="question", output_key="answer")
    assert sorted(call.args["a"] for call in run.tool_calls) == [0, 1, 2, 3, 4]
    assert run.actual_response == "10"


# Tools


def test_parallel_tools_keep_the_order_of_the_request() -> None:
    """Calls are recorded as requested although the last one finishes first."""
    gates = [asyncio.Event() for _ in range(4)]
    gates[3].set()
    finished = []

    @tool
    async def wait(number: int) -> int:
        """Finishes after the next one."""
        await gates[number + 1].wait()
        finished.append(number)
        gates[number].set()
        return number

    run = say(react(once(*(("wait", {"number": number}) for number in range(3))), [wait]))
    assert finished == [2, 1, 0]
    assert [(call.args["number"], call.result) for call in run.tool_calls] == [(0, "0"), (1, "1"), (2, "2")]


def test_unknown_tool() -> None:
    """A tool that does not exist is a call with the error that the model was told."""
    run = say(react(once(("subtract", {"a": 1}), ("add", {"a": 1, "b": 1}), answer="ok"), [add]))
    assert calls(run) == [("subtract", {"a": 1}), ("add", {"a": 1, "b": 1})]
    assert "subtract is not a valid tool" in (run.tool_calls[0].error or "")
    assert run.tool_calls[1].error is None


def test_invalid_arguments() -> None:
    """Arguments that the tool's schema refuses are recorded as the model gave them, with the error."""
    run = say(react(once(("add", {"a": "one"}), answer="ok"), [add]))
    assert calls(run) == [("add", {"a": "one"})]
    assert "valid integer" in (run.tool_calls[0].error or "")
    assert run.actual_response == "ok"


def test_raising_tool_that_is_handled() -> None:
    """A tool that raises under handle_tool_errors is a call with an error, and the run goes on."""
    run = say(react(once(("fail", {"why": "no luck"}), answer="ok"), [fail], handle_tool_errors=True))
    assert "no luck" in (run.tool_calls[0].error or "")
    assert run.tool_calls[0].result is None
    assert run.actual_response == "ok"


def test_raising_tool_that_is_not_handled() -> None:
    """A tool whose exception ends the run is evidence in a broken case."""
    result = judged(react(once(("fail", {"why": "no luck"})), [fail]))
    assert result.outcome is Outcome.ERROR
    assert result.error_kind is ErrorKind.AGENT
    assert "no luck" in (result.error or "")
    assert [call.error for call in result.actual_tool_calls] == ["ValueError: no luck"]
    assert result.node_visits == ["MAIN", "TOOL"]


def test_injected_arguments() -> None:
    """What the runtime injects is not among the recorded arguments."""

    @tool
    def secret(
        a: int,
        state: Annotated[dict[str, Any], InjectedState],
        call_id: Annotated[str, InjectedToolCallId],
        config: RunnableConfig,
    ) -> str:
        """Sees much."""
        assert state["messages"]
        return f"{call_id} {config['configurable']['thread_id']}"

    run = say(react(once(("secret", {"a": 1})), [secret]))
    assert calls(run) == [("secret", {"a": 1})]
    assert run.actual_response == "c0 t1"


def test_structured_output_is_no_tool_call() -> None:
    """A schema that a model fills in as a tool call, which nothing runs, is not a call of the agent."""

    class Mood(BaseModel):
        """How somebody feels."""

        word: str

    model = RuleModel(rule=lambda messages: wants(("Mood", {"word": "glad"})))

    async def work(state: MessagesState) -> dict[str, Any]:
        mood: Any = await model.with_structured_output(Mood).ainvoke(state["messages"])
        return {"messages": [AIMessage(mood.word)]}

    run = say(chain(MessagesState, ("work", work)))
    assert run.tool_calls == []
    assert run.actual_response == "glad"
    assert [response.tool_call_names for response in run.node_responses] == [["Mood"]]


def test_request_that_nothing_answers() -> None:
    """A requested call that no node runs is recorded, and says so."""
    run = say(chain(MessagesState, ("work", lambda state: {"messages": [wants(("add", {"a": 1}))]})))
    assert calls(run) == [("add", {"a": 1})]
    assert run.tool_calls[0].error == "requested, but never run"
    assert run.actual_response == ""


def test_call_ids_that_repeat() -> None:
    """A model that gives every turn the same call id still gets every call recorded with its own result."""

    def rule(messages: list[BaseMessage]) -> AIMessage:
        if isinstance(messages[-1], HumanMessage):
            return wants(("add", {"a": len(messages), "b": 0}))
        return AIMessage(str(messages[-1].text))

    run = say(react(rule, [add], InMemorySaver()), "one", "two")
    assert [(call.args["a"], call.result) for call in run.tool_calls] == [(1, "1"), (5, "5")]


# Models


def counted(messages: list[BaseMessage]) -> AIMessage:
    message = once(("add", {"a": 1, "b": 2}))(messages)
    message.usage_metadata = {"input_tokens": 10, "output_tokens": 3, "total_tokens": 13}
    return message


def test_tokens() -> None:
    """The tokens of all model calls are summed up."""
    run = say(react(counted, [add]))
    assert run.token_usage.input_tokens == 20
    assert run.token_usage.output_tokens == 6
    assert run.token_usage.total_tokens == 26


def test_node_responses() -> None:
    """Each model call shows its node, what it read and what it said."""
    run = say(react(counted, [add]))
    first, second = run.node_responses
    assert (first.node_name, first.tool_call_names, first.is_final) == ("MAIN", ["add"], False)
    assert (second.node_name, second.response_text, second.is_final) == ("MAIN", "3", True)
    assert [message["role"] for message in second.input_messages] == ["user", "assistant", "tool"]


def test_model_in_a_subgraph() -> None:
    """A model call belongs to the path of its node."""
    run = say(chain(MessagesState, ("outer", react(hello, [add]))))
    assert [response.node_name for response in run.node_responses] == ["outer/MAIN"]


# Turns


def listener(heard: list[list[str]], checkpointer: Any = None) -> Any:
    def work(state: MessagesState) -> dict[str, Any]:
        heard.append([str(message.text) for message in state["messages"]])
        return {"messages": [AIMessage(f"answer {len(state['messages'])}")]}

    return chain(MessagesState, ("work", work), checkpointer=checkpointer)


@pytest.mark.parametrize("checkpointer", [None, InMemorySaver()], ids=["forgets", "remembers"])
def test_history(checkpointer: Any) -> None:
    """A graph sees the whole conversation once, whether it remembers or is told."""
    heard: list[list[str]] = []
    run = say(listener(heard, checkpointer), "one", "two")
    assert heard == [["one"], ["one", "answer 1", "two"]]
    assert [turn.agent_response for turn in run.turns] == ["answer 1", "answer 3"]


def test_only_the_new_message_is_sent_to_a_graph_that_remembers() -> None:
    """The input of a turn holds one message."""
    seen: list[int] = []

    class Spy(BaseCallbackHandler):
        def on_chain_start(self, serialized: Any, inputs: Any, **kwargs: Any) -> None:
            if kwargs.get("parent_run_id") is None:
                seen.append(len(inputs["messages"]))

    session = Session(thread_id="t1", config={"callbacks": [Spy()]})
    say(listener([], InMemorySaver()), "one", "two", session=session)
    assert seen == [1, 1]


def test_no_new_answer() -> None:
    """A turn that adds no answer has no response, not the previous one."""

    def work(state: MessagesState) -> dict[str, Any]:
        return {"messages": [AIMessage("first")]} if len(state["messages"]) == 1 else {}

    run = say(chain(MessagesState, ("work", work), checkpointer=InMemorySaver()), "one", "two")
    assert [turn.agent_response for turn in run.turns] == ["first", ""]
    assert [turn.answered for turn in run.turns] == [True, False]


def test_calls_of_earlier_turns_are_not_repeated() -> None:
    """Each turn records its own calls."""
    run = say(react(once(("add", {"a": 1, "b": 2})), [add], InMemorySaver()), "one", "two")
    assert [len(turn.tool_calls) for turn in run.turns] == [1, 1]
    assert [turn.node_visits for turn in run.turns] == [["MAIN", "TOOL", "MAIN"]] * 2


def test_callbacks_of_the_session_are_kept() -> None:
    """The user's own callbacks, tags and thread id reach the graph."""
    names: list[str] = []

    class Spy(BaseCallbackHandler):
        def on_tool_start(self, serialized: Any, input_str: str, **kwargs: Any) -> None:
            names.append(serialized["name"])

    def rule(messages: list[BaseMessage]) -> AIMessage:
        return once(("whoami", {}))(messages)

    @tool
    def whoami(config: RunnableConfig) -> str:
        """Tells the thread."""
        return f"{config['configurable']['thread_id']} {config['configurable']['user_id']}"

    config = {"callbacks": [Spy()], "configurable": {"thread_id": "mine"}}
    run = say(react(rule, [whoami]), session=Session(thread_id="t1", user_id="u1", config=config))
    assert names == ["whoami"]
    assert run.actual_response == "mine u1"
    assert len(config["callbacks"]) == 1


# Runs that end badly


def test_interrupt() -> None:
    """A graph that waits for a human is an error that says what it asks."""

    def work(state: MessagesState) -> dict[str, Any]:
        return {"messages": [AIMessage(interrupt("May I?"))]}

    with pytest.raises(AgentError, match=r"wait for a human: May I\?"):
        say(chain(MessagesState, ("work", work), checkpointer=InMemorySaver()))


def test_breakpoint() -> None:
    """A graph compiled with a breakpoint is an error that names the node."""
    graph = chain(
        MessagesState,
        ("one", lambda state: {}),
        ("two", lambda state: {}),
        checkpointer=InMemorySaver(),
        interrupt_before=["two"],
    )
    with pytest.raises(AgentError, match="breakpoint before two"):
        say(graph)


def test_recursion_limit() -> None:
    """A graph that runs in circles is an error, and what it did until then is kept."""
    result = judged(react(lambda messages: wants(("add", {"a": 1, "b": 2})), [add]))
    assert result.outcome is Outcome.ERROR
    assert "GraphRecursionError" in (result.error or "")
    assert result.node_visits == ["MAIN", "TOOL"] * 6
    assert [call.result for call in result.actual_tool_calls] == ["3"] * 6


def test_timeout() -> None:
    """A graph that hangs in a tool is an error after the time limit, and what it did until then is kept."""

    @tool
    async def hang(a: int) -> str:
        """Never returns."""
        await asyncio.Event().wait()
        return ""

    result = judged(react(once(("hang", {"a": 1})), [hang]), timeout=0.3)
    assert result.error_kind is ErrorKind.TIMEOUT
    assert result.timed_out
    assert result.node_visits == ["MAIN", "TOOL"]
    assert [call.args for call in result.actual_tool_calls] == [{"a": 1}]


@pytest.mark.parametrize("kind", ["sync tool", "async tool", "sync node", "async node"])
def test_exit(kind: str) -> None:
    """Code that ends the process breaks its own case only."""

    @tool
    def leave() -> str:
        """Ends the process."""
        sys.exit(0)

    @tool("leave")
    async def leave_later() -> str:
        """Ends the process."""
        sys.exit(0)

    def node(state: MessagesState) -> dict[str, Any]:
        sys.exit(0)

    async def async_node(state: MessagesState) -> dict[str, Any]:
        sys.exit(0)

    graphs = {
        "sync tool": react(once(("leave", {})), [leave], handle_tool_errors=True),
        "async tool": react(once(("leave", {})), [leave_later], handle_tool_errors=True),
        "sync node": chain(MessagesState, ("TOOL", node)),
        "async node": chain(MessagesState, ("TOOL", async_node)),
    }
    result = judged(graphs[kind])
    assert result.outcome is Outcome.ERROR
    assert result.error_kind is ErrorKind.AGENT
    assert "SystemExit" in (result.error or "")
    assert "TOOL" in result.node_visits


# States that are no list of messages


def qa(**options: Any) -> Any:
    def think(state: QA) -> dict[str, Any]:
        return {"notes": [state["question"]], "lang": state.get("lang", "en")}

    def speak(state: QA) -> dict[str, Any]:
        return {"answer": f"{state['lang']}: {', '.join(state['notes'])}"}

    return chain(QA, ("think", think), ("speak", speak), **options)


def test_input_and_output_key() -> None:
    """The question goes into one field, the answer comes from another."""
    run = say(qa(), input_key="question", output_key="answer")
    assert run.actual_response == "en: hi"


def test_output_node() -> None:
    """The answer is what a node returned last."""
    assert say(qa(), input_key="question", output_node="speak").actual_response == "en: hi"


def test_initial_state() -> None:
    """Fields of the agent's initial state and of the session's, which wins."""
    state = {"lang": "de", "notes": ["start"]}
    run = say(qa(), input_key="question", output_key="answer", initial_state=state)
    assert run.actual_response == "de: start, hi"
    session = Session(thread_id="t1", state={"lang": "fr"})
    run = say(qa(), input_key="question", output_key="answer", initial_state=state, session=session)
    assert run.actual_response == "fr: start, hi"
    assert state == {"lang": "de", "notes": ["start"]}


def test_initial_state_of_a_graph_that_remembers() -> None:
    """It goes in once; a later turn does not reset what the graph remembers."""
    graph = qa(checkpointer=InMemorySaver())
    options: dict[str, Any] = {"input_key": "question", "output_key": "answer", "initial_state": {"notes": ["start"]}}
    run = say(graph, "one", "two", **options)
    assert [turn.agent_response for turn in run.turns] == ["en: start, one", "en: start, one, two"]


def test_missing_output() -> None:
    """An output field that no node sets is no response."""
    assert say(qa(), input_key="question", output_key="notes").actual_response == '["hi"]'
    graph = chain(QA, ("think", lambda state: {"lang": "en"}))
    assert say(graph, input_key="question", output_key="answer").actual_response == ""


# Agents that cannot be driven


def test_uncompiled() -> None:
    """A builder is refused with what to do."""
    builder: Any = StateGraph(MessagesState)
    with pytest.raises(TargetError, match=r"not compiled; call \.compile\(\) first"):
        adapt(builder)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"input_key": "qestion", "output_key": "answer"}, "input_key 'qestion' is not in the graph; did you mean"),
        ({"input_key": "question", "output_key": "anser"}, "did you mean 'answer'?"),
        ({"input_key": "question", "output_node": "speek"}, "did you mean 'speak'?"),
        ({"input_key": "question", "output_key": "answer", "initial_state": {"lnag": "en"}}, "did you mean 'lang'?"),
        ({"output_key": "answer"}, "the graph's input has no messages"),
        ({"input_key": "question"}, "the graph's output has no messages"),
    ],
)
def test_wrong_names(options: dict[str, Any], text: str) -> None:
    """A name that the graph does not have is refused before anything runs."""
    with pytest.raises(TargetError) as caught:
        adapt(qa(), **options)
    assert text in str(caught.value)


# Many at once


def test_concurrent_runs_over_one_graph() -> None:
    """Two hundred runs over one graph, sixteen at a time: every record is in its own case, and none is lost."""
    seed = random.Random(7)

    @tool
    async def slow(case: str, n: int) -> str:
        """Takes a random while."""
        await asyncio.sleep(seed.random() / 500)
        return f"{case}-{n}"

    @tool
    def threaded(case: str, n: int) -> str:
        """Runs in a thread."""
        return f"{case}-{n}"

    def rule(messages: list[BaseMessage]) -> AIMessage:
        name = str(messages[0].text)
        if isinstance(messages[-1], HumanMessage):
            return wants(*((("slow", "threaded")[n % 2], {"case": name, "n": n}) for n in range(4)))
        return AIMessage(name)

    graph = react(rule, [slow, threaded], InMemorySaver())

    async def one(number: int, limit: asyncio.Semaphore) -> tuple[str, Any]:
        async with limit:
            name = f"case{number}"
            return name, await talk(graph, name, session=Session(thread_id=name))

    async def everything() -> list[tuple[str, Any]]:
        limit = asyncio.Semaphore(16)
        return await asyncio.gather(*(one(number, limit) for number in range(200)))

    for name, run in asyncio.run(everything()):
        assert [(call.args, call.result) for call in run.tool_calls] == [
            ({"case": name, "n": n}, f"{name}-{n}") for n in range(4)
        ]
        assert run.node_visits == ["MAIN", "TOOL", "MAIN"]
        assert run.actual_response == name
        assert len(run.node_responses) == 2


def test_late_records_are_dropped() -> None:
    """A collector that is finished takes nothing more, whatever the graph still does."""
    collector = TrajectoryCollector()
    collector.finish()
    collector.node("late")
    assert collector.node_visits == []
