"""Small 10xgraph graphs for the tests of the adapter."""

from __future__ import annotations

import asyncio
import itertools
import json
import random
from collections.abc import Callable
from typing import Any

from tenxgraph.core.graph import BaseAgent, StateGraph, ToolNode
from tenxgraph.core.state import AgentState, Message
from tenxgraph.core.state.message import TokenUsages
from tenxgraph.runtime.adapters.llm.base_converter import BaseConverter
from tenxgraph.runtime.adapters.llm.model_response_converter import ModelResponseConverter
from tenxgraph.utils import END

CAPITALS = {"France": "Paris", "Germany": "Berlin"}


def asks(*calls: tuple[str, Any], text: str = "", ids: str = "call") -> Message:
    """An assistant message that requests tools; arguments that are text are taken as they are."""
    message = Message.text_message(text, role="assistant")
    message.tools_calls = [
        {
            "id": f"{ids}_{index}",
            "type": "function",
            "function": {"name": name, "arguments": args if isinstance(args, str) else json.dumps(args)},
        }
        for index, (name, args) in enumerate(calls)
    ]
    return message


def says(text: str) -> Message:
    """An assistant message that is an answer."""
    return Message.text_message(text, role="assistant")


def results(state: AgentState) -> list[str]:
    """The outputs of the tools that ran since the last question."""
    asked = max(index for index, message in enumerate(state.context) if message.role == "user")
    return [message.text() for message in state.context[asked:] if message.role == "tool"]


def question(state: AgentState) -> str:
    """What the user said last."""
    return str([message for message in state.context if message.role == "user"][-1].text())


def tool_graph(main: Any, *tools: Callable[..., Any], **options: Any) -> StateGraph:
    """MAIN and TOOL, until MAIN requests nothing."""

    def wanted(state: AgentState) -> str:
        return "TOOL" if state.context[-1].tools_calls else END

    graph = StateGraph(**options)
    graph.add_node("MAIN", main)
    graph.add_node("TOOL", ToolNode(list(tools)))
    graph.add_conditional_edges("MAIN", wanted, {"TOOL": "TOOL", END: END})
    graph.add_edge("TOOL", "MAIN")
    graph.set_entry_point("MAIN")
    return graph


def chain(*nodes: tuple[str, Any], **options: Any) -> StateGraph:
    """Nodes one after the other."""
    graph = StateGraph(**options)
    for name, node in nodes:
        graph.add_node(name, node)
    graph.set_entry_point(nodes[0][0])
    for (name, _), (after, _) in itertools.pairwise(nodes):
        graph.add_edge(name, after)
    graph.add_edge(nodes[-1][0], END)
    return graph


def requesting(*calls: tuple[str, Any]) -> Any:
    """A MAIN that requests these calls first and then answers with what they gave."""

    async def main(state: AgentState) -> Message:
        found = results(state)
        return says(" | ".join(found)) if found else asks(*calls)

    return main


def lookup_capital(country: str) -> str:
    """The capital of a country."""
    return CAPITALS[country]


def build_graph() -> StateGraph:
    """Answers which city is the capital of a country, with one tool."""

    async def main(state: AgentState) -> Message:
        country = question(state).removeprefix("What is the capital of ").rstrip("?")
        found = results(state)
        return (
            says(f"The capital of {country} is {found[0]}.")
            if found
            else asks(("lookup_capital", {"country": country}))
        )

    return tool_graph(main, lookup_capital)


async def _nap() -> None:
    await asyncio.sleep(random.random() / 200)


async def repeat(number: str) -> str:
    """Gives its argument back, after a while."""
    await _nap()
    return f"async {number}"


def repeat_in_thread(number: str, config: dict[str, Any], state: AgentState) -> str:
    """Gives its argument back, from a worker thread."""
    return f"sync {number} {question(state)} {len(config) > 0}"


def numbered() -> StateGraph:
    """Says ``n: ...`` to the question ``n``, with two tools at once and random delays everywhere."""

    async def main(state: AgentState) -> Message:
        await _nap()
        found, number = results(state), question(state)
        if found:
            return says(f"{number}: {', '.join(found)}")
        return asks(("repeat", {"number": number}), ("repeat_in_thread", {"number": number}))

    return tool_graph(main, repeat, repeat_in_thread)


class Plain(BaseConverter):  # type: ignore[misc]  # the runtime is not there for the type checker
    """Takes a message as it is."""

    async def convert_response(self, response: Any) -> Message:
        """The message."""
        return response

    async def convert_streaming_response(self, *args: Any, **kwargs: Any) -> Any:
        """Nothing streams here."""
        raise AssertionError("the test graphs do not stream")


class Model(BaseAgent):  # type: ignore[misc]  # as above
    """An agent node whose model counts how often it is asked."""

    def __init__(self) -> None:
        super().__init__(model="rules")
        self.asked = 0

    async def execute(self, state: AgentState, config: dict[str, Any]) -> ModelResponseConverter:
        """What the runtime invokes to ask the model."""
        return ModelResponseConverter(self._call_llm, Plain())

    async def _call_llm(self, *args: Any, **kwargs: Any) -> Message:
        self.asked += 1
        message = says(f"answer {self.asked}")
        message.usages = TokenUsages(prompt_tokens=7, completion_tokens=2, total_tokens=9, cache_read_input_tokens=3)
        return message
