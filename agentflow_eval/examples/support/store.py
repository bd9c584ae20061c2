"""The shop's database: one small SQLite file in memory for each conversation."""

from __future__ import annotations

import re
import sqlite3
import threading
from collections import OrderedDict
from typing import Any

REFUND_LIMIT = 500.0
"""Euros that are refunded without asking a human."""

CONVERSATIONS_KEPT = 200
"""The database of the conversation that has been quiet for longest goes first."""

_SEED = """
CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT, email TEXT);
CREATE TABLE orders (id INTEGER PRIMARY KEY, customer_id INTEGER, item TEXT, amount REAL, status TEXT, address TEXT);
CREATE TABLE shipments (order_id INTEGER PRIMARY KEY, carrier TEXT, tracking TEXT, status TEXT, expected TEXT);
CREATE TABLE refunds (order_id INTEGER PRIMARY KEY, amount REAL, reason TEXT);
CREATE TABLE policies (title TEXT, text TEXT);

INSERT INTO customers VALUES
  (1, 'Ada Brandt', 'ada@example.com'), (2, 'Bruno Keller', 'bruno@example.com'),
  (3, 'Chen Li', 'chen@example.com'), (4, 'Dara Nwosu', 'dara@example.com');
INSERT INTO orders VALUES
  (1001, 1, 'two-person tent', 189.0, 'delivered', '3 Harbour Road, Bristol'),
  (1002, 1, 'wool socks', 24.0, 'shipped', '3 Harbour Road, Bristol'),
  (1003, 2, 'espresso maker', 64.5, 'delivered', '80 Station Street, Leeds'),
  (1004, 2, 'expedition parka', 749.0, 'delivered', '80 Station Street, Leeds'),
  (1005, 3, 'headlamp', 39.9, 'processing', '5 Orchard Close, Oxford'),
  (1006, 4, 'camping stove', 58.0, 'delivered', '21 Quay Lane, Cardiff'),
  (1007, 4, 'water filter', 45.0, 'shipped', '21 Quay Lane, Cardiff');
INSERT INTO shipments VALUES
  (1001, 'Swift Parcel', 'SP-77310', 'delivered', '2026-02-11'),
  (1002, 'Swift Parcel', 'SP-77942', 'in transit', '2026-03-06'),
  (1003, 'Redline', 'RL-20118', 'delivered', '2026-02-20'),
  (1004, 'Redline', 'RL-20119', 'delivered', '2026-02-21'),
  (1006, 'Swift Parcel', 'SP-76008', 'delivered', '2026-01-29'),
  (1007, 'Redline', 'RL-20555', 'lost', '2026-02-24');
INSERT INTO refunds VALUES (1006, 58.0, 'arrived damaged');
INSERT INTO policies VALUES
  ('Refunds', 'A delivered order is refunded in full within 30 days; above 500 euros a colleague decides.'),
  ('Shipping', 'Standard shipping takes 3 to 5 working days and is free from 50 euros.'),
  ('Warranty', 'Tents, stoves and lamps have a warranty of two years, counted from delivery.'),
  ('Address changes', 'The address of an order can be changed until it leaves the warehouse.');
"""


class StoreError(Exception):
    """What the shop's rules do not allow; the text is meant for the customer."""


class Store:
    """The data that one conversation sees and changes; safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._database = sqlite3.connect(":memory:", check_same_thread=False)
        self._database.row_factory = sqlite3.Row
        self._database.executescript(_SEED)

    def close(self) -> None:
        """Frees the database."""
        with self._lock:
            self._database.close()

    def order(self, order_id: int) -> dict[str, Any]:
        """An order with the name of its customer.

        Raises:
            StoreError: There is no such order.
        """
        row = self._row(
            "SELECT orders.id AS order_id, name AS customer, item, amount, status, address "
            "FROM orders JOIN customers ON customers.id = customer_id WHERE orders.id = ?",
            order_id,
        )
        if row is None:
            raise StoreError(f"There is no order {order_id}.")
        return row

    def shipment(self, order_id: int) -> dict[str, Any]:
        """Where the parcel of an order is.

        Raises:
            StoreError: There is no such order, or it has not been handed to a carrier.
        """
        self.order(order_id)
        row = self._row("SELECT * FROM shipments WHERE order_id = ?", order_id)
        if row is None:
            raise StoreError(f"Order {order_id} has not left the warehouse yet.")
        return row

    def refund(self, order_id: int, amount: float, reason: str) -> dict[str, Any]:
        """Pays money back, once for each order.

        Raises:
            StoreError: The order does not exist, is refunded already or not delivered, or the amount is not allowed.
        """
        with self._lock:
            order = self.order(order_id)
            if self._row("SELECT * FROM refunds WHERE order_id = ?", order_id):
                raise StoreError(f"Order {order_id} has already been refunded.")
            if order["status"] != "delivered":
                raise StoreError(f"Order {order_id} has not been delivered yet.")
            if not 0 < amount <= order["amount"]:
                raise StoreError(f"Order {order_id} cost {order['amount']:.2f} euros; {amount:.2f} is not possible.")
            if amount > REFUND_LIMIT:
                raise StoreError(f"{amount:.2f} euros is above the limit of {REFUND_LIMIT:.2f}; a colleague decides.")
            self._database.execute("INSERT INTO refunds VALUES (?, ?, ?)", (order_id, amount, reason))
        return {"refund_id": f"R-{order_id}", "order_id": order_id, "amount": amount}

    def move(self, order_id: int, address: str) -> dict[str, Any]:
        """Sends an order elsewhere.

        Raises:
            StoreError: There is no such order, or it has left the warehouse.
        """
        with self._lock:
            if self.order(order_id)["status"] != "processing":
                raise StoreError(f"Order {order_id} has left the warehouse; its address can no longer be changed.")
            self._database.execute("UPDATE orders SET address = ? WHERE id = ?", (address, order_id))
            return self.order(order_id)

    def policies(self, query: str, limit: int) -> list[dict[str, Any]]:
        """The policies that share most words with ``query``, the best first; none when no word is shared."""
        wanted = _words(query)
        with self._lock:
            rows = [dict(row) for row in self._database.execute("SELECT title, text FROM policies")]
        ranked = sorted(rows, key=lambda row: -_shared(wanted, row))
        return [row for row in ranked if _shared(wanted, row)][:limit]

    def _row(self, query: str, order_id: int) -> dict[str, Any] | None:
        with self._lock:
            row = self._database.execute(query, (order_id,)).fetchone()
        return None if row is None else dict(row)


def _shared(wanted: set[str], policy: dict[str, Any]) -> int:
    return 3 * len(wanted & _words(policy["title"])) + len(wanted & _words(policy["text"]))


def _words(text: str) -> set[str]:
    """The words that mean something: at least four letters, singular."""
    return {word.removesuffix("s") for word in re.findall(r"[a-z]{4,}", text.lower())}


_stores: OrderedDict[str, Store] = OrderedDict()
_stores_lock = threading.Lock()


def store_of(thread_id: str) -> Store:
    """The database of a conversation, made with the seed data when the conversation is new."""
    with _stores_lock:
        store = _stores.get(thread_id)
        if store is None:
            store = _stores[thread_id] = Store()
        _stores.move_to_end(thread_id)
        while len(_stores) > CONVERSATIONS_KEPT:
            _stores.popitem(last=False)[1].close()
        return store
