"""What the support agent can do. The conversation's database comes with the run's config, unseen by the model."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, ToolException, tool

from .store import Store, StoreError, store_of


@contextmanager
def _store(config: RunnableConfig) -> Iterator[Store]:
    try:
        yield store_of(str(config.get("configurable", {}).get("thread_id", "")))
    except StoreError as exc:
        raise ToolException(str(exc)) from exc


@tool
def lookup_order(order_id: int, config: RunnableConfig) -> dict[str, Any]:
    """Customer, item, amount, status and address of an order."""
    with _store(config) as store:
        return store.order(order_id)


@tool
def track_shipment(order_id: int, config: RunnableConfig) -> dict[str, Any]:
    """Carrier, status and expected day of an order's parcel."""
    with _store(config) as store:
        return store.shipment(order_id)


@tool
def refund_order(order_id: int, amount: float, reason: str, config: RunnableConfig) -> dict[str, Any]:
    """Refund a delivered order, in full or in part."""
    with _store(config) as store:
        return store.refund(order_id, amount, reason)


@tool
def search_policy(query: str, config: RunnableConfig, limit: int = 1) -> dict[str, Any]:
    """The shop's policies on a subject."""
    with _store(config) as store:
        return {"policies": store.policies(query, limit)}


@tool
def change_address(order_id: int, address: str, config: RunnableConfig) -> dict[str, Any]:
    """Send an order that has not left the warehouse to another address."""
    with _store(config) as store:
        return store.move(order_id, address)


@tool
def escalate_to_human(
    order_id: int, reason: str, config: RunnableConfig, priority: Literal["normal", "high"] = "normal"
) -> dict[str, Any]:
    """Hand an order over to a colleague."""
    with _store(config) as store:
        order = store.order(order_id)
    return {"ticket": f"T-{order['order_id']}", "priority": priority, "reason": reason}


TOOLS: list[BaseTool] = [
    lookup_order,
    track_shipment,
    refund_order,
    search_policy,
    change_address,
    escalate_to_human,
]
for _tool in TOOLS:
    _tool.handle_tool_error = (
        True  # a refusal of the store is told to the model; any other exception is a bug and ends the run
    )
