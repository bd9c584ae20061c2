"""Checks and a fixture for the support agent: whether what it says is what the shop's database says."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .store import REFUND_LIMIT, StoreError, store_of


@contextmanager
def policy() -> Iterator[dict[str, float]]:
    """What the shop allows, for the checks of a case."""
    yield {"refund_limit": REFUND_LIMIT}


def refund_is_booked(ctx: Any) -> str | None:
    """Every refund that the agent was granted stands in the database: a second one is refused there."""
    store = store_of(ctx.session.thread_id)
    granted = [call for call in ctx.tool_calls if call.name == "refund_order" and call.error is None]
    if not granted:
        return "no refund was granted"
    for call in granted:
        try:
            store.refund(call.args["order_id"], call.args["amount"], "second time")
        except StoreError as exc:
            if "already been refunded" in str(exc):
                continue
        return f"order {call.args['order_id']} is not refunded in the database"
    return None


def within_the_limit(ctx: Any) -> bool:
    """No refund above what the shop allows was even asked for."""
    amounts = [call.args["amount"] for call in ctx.tool_calls if call.name == "refund_order"]
    return all(amount <= ctx.fixtures["policy"]["refund_limit"] for amount in amounts)


def names_the_order(ctx: Any) -> float | str:
    """Share of the orders that this turn's tools worked on which its answer names; it is not enough to talk of one."""
    orders = {str(call.args["order_id"]) for call in ctx.tool_calls if "order_id" in call.args and call.error is None}
    if not orders:
        return "no tool worked on an order in this turn"
    return sum(order in ctx.response for order in orders) / len(orders)
