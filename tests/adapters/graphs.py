"""Real graphs with a model that follows a rule, and a way to drive them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from agentflow_eval.adapters import Session, Turn, adapt
from agentflow_eval.collector import TrajectoryCollector
from agentflow_eval.dataset import MessageContent
from agentflow_eval.result import ExecutionResult

Rule = Callable[[list[BaseMessage]], AIMessage]


class RuleModel(BaseChatModel):
    """A chat model whose answer is a function of the conversation."""

    rule: Any

    @property
    def _llm_type(self) -> str:
        return "rule"

    def bind_tools(self, tools: Sequence[Any], *, tool_choice: str | None = None, **kwargs: Any) -> Any:
        return self.bind(tools=[convert_to_openai_tool(tool) for tool in tools], **kwargs)

    def _generate(self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **_: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self.rule(messages))])


def wants(*calls: tuple[str, dict[str, Any]], text: str = "") -> AIMessage:
    """A message that requests tools."""
    requested = [
        {"name": name, "args": args, "id": f"c{i}", "type": "tool_call"} for i, (name, args) in enumerate(calls)
    ]
    return AIMessage(text, tool_calls=requested)


def once(*calls: tuple[str, dict[str, Any]], answer: str | None = None) -> Rule:
    """Requests the tools after the user's message, then answers with what they said."""

    def rule(messages: list[BaseMessage]) -> AIMessage:
        if isinstance(messages[-1], HumanMessage):
            return wants(*calls)
        asked = max(index for index, message in enumerate(messages) if isinstance(message, HumanMessage))
        said = [str(message.text) for message in messages[asked:] if isinstance(message, ToolMessage)]
        return AIMessage(answer or " | ".join(said))

    return rule


def react(rule: Rule, tools: Sequence[Any] = (), checkpointer: Any = None, **options: Any) -> Any:
    """MAIN asks the model, TOOL runs what it wants."""
    model = RuleModel(rule=rule).bind_tools(tools)

    async def main(state: MessagesState) -> dict[str, Any]:
        return {"messages": [await model.ainvoke(state["messages"])]}

    builder = StateGraph(MessagesState)
    builder.add_node("MAIN", main)
    builder.add_node("TOOL", ToolNode(list(tools), **options))
    builder.add_edge(START, "MAIN")
    builder.add_conditional_edges("MAIN", tools_condition, {"tools": "TOOL", END: END})
    builder.add_edge("TOOL", "MAIN")
    return builder.compile(checkpointer=checkpointer)


def chain(state: Any, *nodes: tuple[str, Any], **options: Any) -> Any:
    """A compiled graph of nodes one after the other."""
    builder: Any = StateGraph(state)
    builder.add_sequence(list(nodes))
    builder.add_edge(START, nodes[0][0])
    return builder.compile(**options)


async def talk(agent: Any, *texts: str, session: Session | None = None, **options: Any) -> ExecutionResult:
    """What a conversation with the agent records."""
    target, collector = adapt(agent, **options), TrajectoryCollector()
    session = session or Session(thread_id="t1")
    for index, text in enumerate(texts):
        collector.begin_turn(text)
        await target.run_turn(Turn(index, text, MessageContent.user(text)), session, collector)
        collector.end_turn()
        session.messages.append({"role": "user", "content": text})
        answer = collector.final_response
        if answer:
            session.messages.append({"role": "assistant", "content": answer})
    collector.finish()
    assert collector.failures == []
    return collector.execution()


def say(agent: Any, *texts: str, session: Session | None = None, **options: Any) -> ExecutionResult:
    """`talk` from synchronous code."""
    return asyncio.run(talk(agent, *(texts or ("hi",)), session=session, **options))


def calls(execution: ExecutionResult) -> list[tuple[str, dict[str, Any]]]:
    """Name and arguments of each recorded call."""
    return [(call.name, call.args) for call in execution.tool_calls]
