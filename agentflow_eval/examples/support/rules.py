"""What the support agent does next: rules that stand in for a model's judgement."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

INTENTS = {
    "policy": r"policy|policies|warranty|how long|how many days",
    "refund": r"refund|money back",
    "address": r"address|send it to",
    "overview": r"what.* where|where.* what",
    "track": r"where|track|arrive",
    "human": r"human|person|manager",
    "order": r"status|ordered|bought|what is in",
    "thanks": r"thanks|thank you",
}
ASK_ORDER = "Which order is it about? The number has four digits and is in your confirmation."
GREETING = "Hello! I can look up, track, refund and redirect orders. What can I do for you?"


@dataclass(frozen=True)
class Request:
    """A tool call that the model wants."""

    tool: str
    args: dict[str, Any]


@dataclass(frozen=True)
class Outcome:
    """A tool call that was made since the question, and what came of it."""

    tool: str
    args: dict[str, Any]
    result: Any
    error: str | None


Step = str | list[Request]
"""What the model does next: it answers, or it wants tools."""


class Situation:
    """What the model knows when it is asked.

    Attributes:
        question: What the customer said last.
        earlier: What the customer said before, the latest first.
        outcomes: The tool calls since the question.
    """

    def __init__(self, said: Sequence[str], outcomes: Sequence[Outcome]) -> None:
        """Takes what the customer said, the latest first."""
        self.question, self.earlier = (said[0], list(said[1:])) if said else ("", [])
        self.outcomes = list(outcomes)

    @property
    def orders(self) -> list[int]:
        """The orders that the question names, else those that the conversation was about before."""
        for text in (self.question, *self.earlier):
            numbers = re.findall(r"\b\d{4}\b(?! euros)", text)
            if numbers:
                return [int(number) for number in dict.fromkeys(numbers)]
        return []

    @property
    def intent(self) -> str:
        """What the customer wants; an answer to a question of the model keeps the intent of what came before."""
        for text in (self.question, *self.earlier):
            for intent, pattern in INTENTS.items():
                if re.search(rf"\b(?:{pattern})\b", text, re.IGNORECASE | re.DOTALL):
                    return intent
        return "greeting"

    def of(self, tool: str) -> list[Outcome]:
        """The calls of a tool since the question."""
        return [outcome for outcome in self.outcomes if outcome.tool == tool]


class SupportRules:
    """Each intent is a method that says the next step."""

    def step(self, now: Situation) -> Step:
        """What to do next."""
        step: Step = getattr(self, now.intent)(now)
        return step

    def greeting(self, _now: Situation) -> Step:
        """Says what can be done here."""
        return GREETING

    def thanks(self, _now: Situation) -> Step:
        """Says goodbye."""
        return "You are welcome. Have a good day!"

    def order(self, now: Situation) -> Step:
        """Looks orders up."""
        if not now.orders:
            return ASK_ORDER
        if not now.outcomes:
            return [Request("lookup_order", {"order_id": order}) for order in now.orders]
        return " ".join(_order_line(outcome) for outcome in now.outcomes)

    def track(self, now: Situation) -> Step:
        """Tracks parcels; a lost one goes to a colleague."""
        if not now.orders:
            return ASK_ORDER
        if not now.outcomes:
            return [Request("track_shipment", {"order_id": order}) for order in now.orders]
        tracked, tickets = now.of("track_shipment"), now.of("escalate_to_human")
        lost = [
            outcome.args["order_id"] for outcome in tracked if outcome.result and outcome.result["status"] == "lost"
        ]
        if lost and not tickets:
            return [Request("escalate_to_human", _escalation(order, "parcel lost")) for order in lost]
        return " ".join([*map(_parcel_line, tracked), *map(_ticket_line, tickets)])

    def overview(self, now: Situation) -> Step:
        """Looks an order up and tracks it, both at once."""
        if not now.orders:
            return ASK_ORDER
        if not now.outcomes:
            return [Request(tool, {"order_id": now.orders[0]}) for tool in ("lookup_order", "track_shipment")]
        lines = [*map(_order_line, now.of("lookup_order")), *map(_parcel_line, now.of("track_shipment"))]
        return " ".join(dict.fromkeys(lines))

    def refund(self, now: Situation) -> Step:
        """Looks the order up and pays back what it cost, or the amount that is asked for."""
        if not now.orders:
            return ASK_ORDER
        order, tickets = now.orders[0], now.of("escalate_to_human")
        if tickets:
            return f"This is above what I may refund myself. {_ticket_line(tickets[0])}"
        if now.of("refund_order"):
            return self.refunded(now.of("refund_order")[0])
        if not now.outcomes:
            return [Request("lookup_order", {"order_id": order})]
        found = now.of("lookup_order")[0]
        if found.error is not None:
            return f"{found.error} Please check the number."
        amount = re.search(r"(\d+(?:\.\d+)?) euros?", now.question)
        paid = float(amount[1]) if amount else found.result["amount"]
        return [Request("refund_order", {"order_id": order, "amount": paid, "reason": _reason(now.question)})]

    def refunded(self, outcome: Outcome) -> Step:
        """What follows a refund: good news, a colleague, or the reason why not."""
        if outcome.error is None:
            paid = outcome.result
            return f"I have refunded {paid['amount']:.2f} euros for order {paid['order_id']} ({paid['refund_id']})."
        if "above the limit" in outcome.error:
            return [Request("escalate_to_human", _escalation(outcome.args["order_id"], "refund above the limit"))]
        return f"I cannot refund this. {outcome.error}"

    def policy(self, now: Situation) -> Step:
        """Answers with what the policies say."""
        if not now.outcomes:
            return [Request("search_policy", {"query": now.question.strip(" ?.!")})]
        found = now.outcomes[0].result["policies"]
        return found[0]["text"] if found else "I know of no policy on that; a colleague will be glad to help."

    def address(self, now: Situation) -> Step:
        """Changes where an order goes."""
        if not now.orders:
            return ASK_ORDER
        if now.outcomes:
            moved = now.outcomes[0]
            return moved.error or f"Order {moved.result['order_id']} now goes to {moved.result['address']}."
        address = re.search(r"(?:\bto )?(\d{1,3} [A-Z][^?!]*?)[.?!]*$", now.question)
        if address is None:
            return "What is the new address?"
        return [Request("change_address", {"order_id": now.orders[0], "address": address[1]})]

    def human(self, now: Situation) -> Step:
        """Hands over to a colleague."""
        if not now.orders:
            return ASK_ORDER
        if not now.outcomes:
            wish = {"order_id": now.orders[0], "reason": "the customer asked for a human", "priority": "normal"}
            return [Request("escalate_to_human", wish)]
        return _ticket_line(now.outcomes[0])


def _reason(question: str) -> str:
    told = re.search(r"\b(broken|damaged|late|wrong|too small|too big)\b", question, re.IGNORECASE)
    return told[1].lower() if told else "customer request"


def _escalation(order: int, reason: str) -> dict[str, Any]:
    return {"order_id": order, "reason": reason, "priority": "high"}


def _order_line(outcome: Outcome) -> str:
    if outcome.error is not None:
        return outcome.error
    order = outcome.result
    return f"Order {order['order_id']} ({order['item']}, {order['amount']:.2f} euros) is {order['status']}."


def _parcel_line(outcome: Outcome) -> str:
    if outcome.error is not None:
        return outcome.error
    parcel, order = outcome.result, outcome.args["order_id"]
    if parcel["status"] == "in transit":
        return (
            f"The parcel of order {order} is in transit with {parcel['carrier']} and arrives on {parcel['expected']}."
        )
    if parcel["status"] == "lost":
        return f"{parcel['carrier']} has lost the parcel of order {order}. I am sorry."
    return f"The parcel of order {order} was delivered on {parcel['expected']}."


def _ticket_line(outcome: Outcome) -> str:
    if outcome.error is not None:
        return outcome.error
    return f"A colleague will write to you about it (ticket {outcome.result['ticket']})."
