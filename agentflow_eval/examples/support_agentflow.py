"""The support agent as a 10xgraph graph: MAIN says the next step, TOOL runs what it wants, until there is an answer."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from tenxgraph.core.graph import StateGraph, ToolNode
from tenxgraph.core.state import AgentState, Message
from tenxgraph.core.state.message import TokenUsages
from tenxgraph.utils import END

from .support.rules import Outcome, Request, Situation, Step, SupportRules
from .support.store import Store, store_of

_FAILED = "Internal execution error: "
"""What the runtime writes before the text of an exception that a tool raised."""


def _told(config: dict[str, Any], use: Callable[[Store], Any]) -> str:
    """What the conversation's store gives; as JSON text, because the runtime has its own idea of a key ``status``."""
    return json.dumps(use(store_of(str(config.get("thread_id", "")))))


def lookup_order(order_id: int, config: dict[str, Any]) -> str:
    """Customer, item, amount, status and address of an order."""
    return _told(config, lambda store: store.order(order_id))


def track_shipment(order_id: int, config: dict[str, Any]) -> str:
    """Carrier, status and expected day of an order's parcel."""
    return _told(config, lambda store: store.shipment(order_id))


def refund_order(order_id: int, amount: float, reason: str, config: dict[str, Any]) -> str:
    """Refund a delivered order, in full or in part."""
    return _told(config, lambda store: store.refund(order_id, amount, reason))


def search_policy(query: str, config: dict[str, Any], limit: int = 1) -> str:
    """The shop's policies on a subject."""
    return _told(config, lambda store: {"policies": store.policies(query, limit)})


def change_address(order_id: int, address: str, config: dict[str, Any]) -> str:
    """Send an order that has not left the warehouse to another address."""
    return _told(config, lambda store: store.move(order_id, address))


def escalate_to_human(order_id: int, reason: str, config: dict[str, Any], priority: str = "normal") -> str:
    """Hand an order over to a colleague."""
    return _told(
        config,
        lambda store: {"ticket": f"T-{store.order(order_id)['order_id']}", "priority": priority, "reason": reason},
    )


TOOLS = [lookup_order, track_shipment, refund_order, search_policy, change_address, escalate_to_human]


def situation(messages: Sequence[Message]) -> Situation:
    """What the conversation says so far."""
    asked = [index for index, message in enumerate(messages) if message.role == "user"]
    said = [messages[index].text() for index in reversed(asked)]
    return Situation(said, _outcomes(messages[asked[-1] + 1 :] if asked else []))


def _outcomes(messages: Sequence[Message]) -> list[Outcome]:
    replies = {
        block.call_id: block
        for message in messages
        if message.role == "tool"
        for block in message.content
        if block.type == "tool_result"
    }
    requested = [call for message in messages for call in message.tools_calls or []]
    return [_outcome(call["function"], replies[call["id"]]) for call in requested if call["id"] in replies]


def _outcome(function: dict[str, Any], reply: Any) -> Outcome:
    args = json.loads(function["arguments"])
    if reply.is_error:
        return Outcome(function["name"], args, None, reply.output.removeprefix(_FAILED))
    return Outcome(function["name"], args, json.loads(reply.output), None)


def reply(step: Step, asked: Sequence[Message]) -> Message:
    """The step as a message; words stand in for tokens."""
    text, requests = (step, []) if isinstance(step, str) else ("", step)
    message = Message.text_message(text, role="assistant")
    number = sum(one.role == "assistant" for one in asked)
    message.tools_calls = [_call(request, f"call-{number}-{index}") for index, request in enumerate(requests)] or None
    read, written = sum(map(_size, asked)), _size(message)
    message.usages = TokenUsages(prompt_tokens=read, completion_tokens=written, total_tokens=read + written)
    return message


def _call(request: Request, call_id: str) -> dict[str, Any]:
    function = {"name": request.tool, "arguments": json.dumps(request.args)}
    return {"id": call_id, "type": "function", "function": function}


def _size(message: Message) -> int:
    calls = message.tools_calls or []
    return len(message.text().split()) + sum(1 + 2 * len(json.loads(call["function"]["arguments"])) for call in calls)


def build_graph(rules: SupportRules | None = None) -> StateGraph:
    """The graph, not compiled yet."""
    judgement = rules or SupportRules()

    async def main(state: AgentState) -> Message:
        return reply(judgement.step(situation(state.context)), state.context)

    def wanted(state: AgentState) -> str:
        return "TOOL" if state.context[-1].tools_calls else END

    builder = StateGraph()
    builder.add_node("MAIN", main)
    builder.add_node("TOOL", ToolNode(TOOLS))
    builder.add_conditional_edges("MAIN", wanted, {"TOOL": "TOOL", END: END})
    builder.add_edge("TOOL", "MAIN")
    builder.set_entry_point("MAIN")
    return builder


graph = build_graph()
