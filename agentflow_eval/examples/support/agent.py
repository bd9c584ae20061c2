"""The support agent: MAIN asks the model, TOOL runs what the model wants, until there is an answer."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import SystemMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from .model import SupportModel
from .store import CONVERSATIONS_KEPT
from .tools import TOOLS

PROMPT = SystemMessage("You are the support agent of an outdoor shop. Use the tools; never invent an order.")


class RecentConversations(InMemorySaver):
    """Remembers the latest conversations and forgets the rest, as the store does."""

    def __init__(self) -> None:
        super().__init__()
        self._order: OrderedDict[str, None] = OrderedDict()

    def put(self, config: RunnableConfig, *args: Any, **kwargs: Any) -> RunnableConfig:
        """Saves a checkpoint."""
        thread_id = str(config["configurable"]["thread_id"])
        self._order[thread_id] = None
        self._order.move_to_end(thread_id)
        while len(self._order) > CONVERSATIONS_KEPT:
            self.delete_thread(self._order.popitem(last=False)[0])
        saved: RunnableConfig = super().put(config, *args, **kwargs)
        return saved


def build_graph(model: BaseChatModel | None = None) -> CompiledStateGraph[Any, Any, Any, Any]:
    """The compiled graph; ``model`` stands in for the rules."""
    bound = (model or SupportModel()).bind_tools(TOOLS)

    async def main(state: MessagesState) -> dict[str, Any]:
        return {"messages": [await bound.ainvoke([PROMPT, *state["messages"]])]}

    builder = StateGraph(MessagesState)
    builder.add_node("MAIN", main)
    builder.add_node("TOOL", ToolNode(TOOLS))
    builder.add_edge(START, "MAIN")
    builder.add_conditional_edges("MAIN", tools_condition, {"tools": "TOOL", END: END})
    builder.add_edge("TOOL", "MAIN")
    return builder.compile(checkpointer=RecentConversations())


graph = build_graph()
