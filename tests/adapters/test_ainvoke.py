"""Tests of objects with ``ainvoke`` that are no graphs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda

from agentflow_eval.adapters import Session, Turn, adapt
from agentflow_eval.collector import TrajectoryCollector
from agentflow_eval.dataset import MessageContent
from agentflow_eval.errors import AgentError, TargetError
from agentflow_eval.result import ExecutionResult
from tests.adapters.graphs import RuleModel, wants


class Agent:
    """Answers by a function of what it is asked, and remembers what that was."""

    def __init__(self, reply: Callable[[Any], Any]) -> None:
        self.reply = reply
        self.asked: list[Any] = []

    async def ainvoke(self, question: Any) -> Any:
        self.asked.append(question)
        return self.reply(question)


class Configured(Agent):
    """Keeps its run config too."""

    async def ainvoke(self, question: Any, config: Any = None) -> Any:
        self.asked.append(config)
        return self.reply(question)


class EchoModel(BaseChatModel):
    """A chat model that says how many messages it got, and the last of them."""

    @property
    def _llm_type(self) -> str:
        return "echo"

    def _generate(self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **_: Any) -> ChatResult:
        usage: Any = {
            "input_tokens": 5,
            "output_tokens": 2,
            "total_tokens": 7,
            "input_token_details": {"cache_read": 3},
        }
        said = AIMessage(f"{len(messages)}: {messages[-1].text}", usage_metadata=usage)
        return ChatResult(generations=[ChatGeneration(message=said)])


def say(agent: Any, *texts: str, session: Session | None = None, **options: Any) -> ExecutionResult:
    """What a conversation with the agent records."""

    async def talk() -> ExecutionResult:
        target, collector, own = adapt(agent, **options), TrajectoryCollector(), session or Session(thread_id="t1")
        for index, text in enumerate(texts or ("hi",)):
            collector.begin_turn(text)
            await target.run_turn(Turn(index, text, MessageContent.user(text)), own, collector)
            collector.end_turn()
            own.messages.append({"role": "user", "content": text})
            if collector.final_response:
                own.messages.append({"role": "assistant", "content": collector.final_response})
        collector.finish()
        assert collector.failures == []
        return collector.execution()

    return asyncio.run(talk())


def openai_call(call_id: str, name: str, arguments: str) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        ("text", "text"),
        (AIMessage("a message"), "a message"),
        (
            AIMessage([{"type": "text", "text": "two "}, {"type": "image"}, {"type": "text", "text": "blocks"}]),
            "two blocks",
        ),
        ({"role": "assistant", "content": "a dictionary"}, "a dictionary"),
        ({"messages": [AIMessage("old"), {"role": "user", "content": "hi"}, AIMessage("new")]}, "new"),
        ({"messages": [{"type": "ai", "content": "as a server sends it"}]}, "as a server sends it"),
        ({"messages": [AIMessage("said before"), {"role": "user", "content": "hi"}]}, ""),
        ({"messages": []}, ""),
        (SimpleNamespace(messages=[AIMessage("old"), HumanMessage("hi"), AIMessage("in an object")]), "in an object"),
        (SimpleNamespace(messages=[AIMessage("said before"), HumanMessage("hi")]), ""),
        ([HumanMessage("hi"), AIMessage("in a list")], "in a list"),
        (["a", "b"], '["a", "b"]'),
        ([], "[]"),
        ({"response": "ours"}, "ours"),
        ({"anything": 1}, '{"anything": 1}'),
        (None, ""),
    ],
)
def test_answer(reply: Any, answer: str) -> None:
    """The answer is text, a message's text, the last new assistant message, or the value as JSON."""
    assert answer == say(Agent(lambda _: reply)).actual_response


def test_the_whole_conversation_is_given() -> None:
    """Each turn is asked with all messages so far, as copies."""
    agent = Agent(lambda question: f"answer {len(question['messages'])}")
    execution = say(agent, "one", "two")
    assert [message["content"] for message in agent.asked[1]["messages"]] == ["one", "answer 1", "two"]
    assert [message["role"] for message in agent.asked[1]["messages"]] == ["user", "assistant", "user"]
    assert execution.actual_response == "answer 3"


def test_the_conversation_cannot_be_changed() -> None:
    """An agent that writes into what it is given does not change the next turn."""
    heard: list[int] = []

    def reply(question: Any) -> str:
        heard.append(len(question["messages"]))
        question["messages"][0]["content"] = "changed"
        question["messages"].clear()
        return "ok"

    execution = say(Agent(reply), "one", "two")
    assert heard == [1, 3]
    assert [message["content"] for message in execution.messages] == ["one", "ok", "two", "ok"]


def test_plain_value_instead_of_an_awaitable() -> None:
    """An ``ainvoke`` that is no coroutine is taken as it is."""
    assert say(SimpleNamespace(ainvoke=lambda _question: "now")).actual_response == "now"


def test_chat_model() -> None:
    """A LangChain model is asked with the list of messages; its tokens count, those from the cache too."""
    execution = say(EchoModel(), "one", "two")
    assert execution.actual_response == "3: two"
    usage = execution.agent_token_usage
    assert usage is not None
    assert (
        usage.input_tokens,
        usage.output_tokens,
        usage.total_tokens,
        usage.cache_read_tokens,
    ) == (10, 4, 14, 6)


def test_chat_model_with_tools() -> None:
    """A model with bound tools is asked with the list of messages too, and what it requests is a call."""
    model = RuleModel(rule=lambda messages: wants(("add", {"a": len(messages)}))).bind_tools([])
    execution = say(model)
    assert [(call.name, call.args) for call in execution.tool_calls] == [("add", {"a": 1})]
    assert execution.actual_response == ""


@pytest.mark.parametrize("kind", ["parser", "retry", "fallbacks"])
def test_chain_that_begins_with_a_model(kind: str) -> None:
    """Whatever stands around a model, it is asked with the list of messages."""
    agents: dict[str, Any] = {
        "parser": EchoModel() | StrOutputParser(),
        "retry": EchoModel().with_retry(),
        "fallbacks": EchoModel().bind(stop=["x"]).with_fallbacks([EchoModel()]),
    }
    assert say(agents[kind], "one", "two").actual_response == "3: two"


def test_chain_of_a_prompt_and_a_model() -> None:
    """A chain that begins with a prompt takes the text by ``input_key``."""
    chain = ChatPromptTemplate.from_template("Say {text} in {lang}") | EchoModel() | StrOutputParser()
    execution = say(chain, input_key="text", initial_state={"lang": "German"})
    assert execution.actual_response == "1: Say hi in German"


def test_runnable() -> None:
    """A LangChain chain is asked with an object and its answer is read like any other."""

    async def shout(question: dict[str, Any]) -> AIMessage:
        return AIMessage(question["q"].upper())

    assert say(RunnableLambda(shout), input_key="q").actual_response == "HI"


def test_tool_calls_of_langchain() -> None:
    """Requested calls are recorded in order, with results and errors that the tool messages give."""
    calls = [
        {"name": "find", "args": {"n": 1}, "id": "a"},
        {"name": "pay", "args": {}, "id": "b"},
        {"name": "lost", "args": {}, "id": "c"},
    ]
    said = [
        AIMessage("", tool_calls=calls),
        ToolMessage("no money", tool_call_id="b", status="error"),
        ToolMessage('{"found": true}', tool_call_id="a"),
        AIMessage("done"),
    ]
    execution = say(Agent(lambda _: {"messages": said}))
    assert execution.actual_response == "done"
    assert [(call.name, call.args, call.result, call.error, call.call_id) for call in execution.tool_calls] == [
        ("find", {"n": 1}, {"found": True}, None, "a"),
        ("pay", {}, None, "no money", "b"),
        ("lost", {}, None, None, "c"),
    ]


def test_tool_calls_of_openai() -> None:
    """Calls in plain dictionaries are read from JSON text, and text that is no JSON is kept."""
    said = [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [openai_call("a", "find", json.dumps({"n": 1})), openai_call("b", "find", "{n:")],
        },
        {"role": "tool", "tool_call_id": "a", "content": "[1, 2]"},
        {"role": "assistant", "content": "done"},
    ]
    execution = say(Agent(lambda _: {"messages": said}))
    assert [(call.args, call.result) for call in execution.tool_calls] == [({"n": 1}, [1, 2]), ({"raw": "{n:"}, None)]
    assert [message["role"] for message in execution.messages] == ["user", "assistant", "tool", "assistant"]


def test_malformed_tool_call() -> None:
    """A call that LangChain could not read is recorded with the reason."""
    broken = AIMessage("", invalid_tool_calls=[{"name": "find", "args": "{n:", "id": "a", "error": "no JSON"}])
    (call,) = say(Agent(lambda _: {"messages": [broken, AIMessage("done")]})).tool_calls
    assert (call.name, call.args, call.error) == ("find", {"raw": "{n:"}, "malformed tool call: no JSON")


def test_input_and_output_key() -> None:
    """The text goes into one field beside the starting state, and the answer comes from another."""
    agent = Agent(lambda question: {"steps": [], "output": question["input"] + question["lang"] + question["tone"]})
    session = Session(thread_id="t1", state={"tone": "?"})
    options: dict[str, Any] = {
        "input_key": "input",
        "output_key": "output",
        "initial_state": {"lang": "en", "tone": "!"},
    }
    assert say(agent, session=session, **options).actual_response == "hien?"


def test_starting_state_is_not_shared() -> None:
    """What one run changes in its state, the next does not see."""
    agent = Agent(lambda question: question["log"].append("x") or str(len(question["log"])))
    assert say(agent, "one", "two", initial_state={"log": []}).actual_response == "1"


@pytest.mark.parametrize(("reply", "seen"), [({"outptu": "x"}, "it has: outptu"), ("text", "it has: str")])
def test_missing_output_key(reply: Any, seen: str) -> None:
    """An answer without the named field is an error that says what there is."""
    with pytest.raises(AgentError, match=seen):
        say(Agent(lambda _: reply), output_key="output")


def test_output_node() -> None:
    """Only graphs have nodes."""
    with pytest.raises(TargetError, match="use output_key"):
        adapt(Agent(lambda _: ""), output_node="MAIN")


def test_config() -> None:
    """An agent that takes a config gets the thread, and the session's config over it."""
    agent = Configured(lambda _: "ok")
    say(agent, session=Session(thread_id="t1", config={"tags": ["x"], "configurable": {"lang": "en"}}))
    say(agent, session=Session(thread_id="t2", config={"configurable": {"thread_id": "mine"}}))
    assert agent.asked == [
        {"tags": ["x"], "configurable": {"thread_id": "t1", "lang": "en"}},
        {"configurable": {"thread_id": "mine"}},
    ]


def test_signature_that_cannot_be_read() -> None:
    """An agent whose parameters are hidden is asked without a config."""

    class Hidden:
        __signature__ = "nonsense"

        async def __call__(self, question: Any) -> str:
            return f"{len(question['messages'])} message"

    assert say(SimpleNamespace(ainvoke=Hidden())).actual_response == "1 message"


def test_what_the_agent_raises() -> None:
    """An exception goes on to the engine."""

    def fail(_question: Any) -> Any:
        raise ConnectionError("down")

    with pytest.raises(ConnectionError, match="down"):
        say(Agent(fail))
