"""The support agent with the faults that real agents have, one for each kind of question."""

from __future__ import annotations

from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.messages import BaseMessage, HumanMessage
from langchain_core.outputs import ChatResult

from .agent import build_graph
from .model import SupportModel
from .rules import ASK_ORDER, Request, Situation, Step


class BrokenModel(SupportModel):
    """Forgets what was said before the latest question, and gets every intent but the greeting wrong in its own way."""

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **options: Any,
    ) -> ChatResult:
        asked = [index for index, message in enumerate(messages) if isinstance(message, HumanMessage)]
        return super()._generate(messages[asked[-1] :], stop, run_manager, **options)

    def order(self, now: Situation) -> Step:
        """Wants a tool that does not exist."""
        if now.outcomes or not now.orders:
            return "I could not find that order."
        return [Request("get_order", {"order_id": order}) for order in now.orders]

    def track(self, now: Situation) -> Step:
        """Gives the order number as text."""
        if now.outcomes or not now.orders:
            return super().track(now)
        return [Request("track_shipment", {"order_id": str(order)}) for order in now.orders]

    def overview(self, now: Situation) -> Step:
        """Calls the tools the wrong way round, and one that nobody needs."""
        if now.outcomes:
            return super().overview(now)
        tracked, found = (Request(tool, {"order_id": now.orders[0]}) for tool in ("track_shipment", "lookup_order"))
        return [tracked, found, Request("search_policy", {"query": "shipping"})]

    def refund(self, now: Situation) -> Step:
        """Pays 50 euros without looking the order up."""
        if not now.orders:
            return ASK_ORDER
        if not now.outcomes:
            return [Request("refund_order", {"order_id": now.orders[0], "amount": 50.0, "reason": "goodwill"})]
        return "Done! Your money is on its way."

    def policy(self, now: Situation) -> Step:
        """Makes policies up, and knows nothing of warranties."""
        return "" if "warranty" in now.question else "You have 90 days, whatever it is."

    def address(self, now: Situation) -> Step:
        """Crashes."""
        raise RuntimeError(f"no address service for {now.orders}")


graph = build_graph(BrokenModel())
