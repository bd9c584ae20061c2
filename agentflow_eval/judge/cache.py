"""Replies of judges on disk, so that the same question is not paid for twice."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agentflow_eval.errors import JudgeError, exception_text

_FORMAT = 2
_BUSY_SECONDS = 30.0
_INSERT = "INSERT OR IGNORE INTO replies VALUES (?, ?)"
_REPLACE = "INSERT OR REPLACE INTO replies VALUES (?, ?)"


class JudgeCache:
    """Usable replies by question, safe for several processes and for crashes (SQLite with a write-ahead log).

    Every method raises `JudgeError` when the file cannot be used.
    """

    def __init__(self, path: Path | str) -> None:
        self._path = Path(path)
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(
                self._path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
            _prepare(self._connection)
        except (OSError, sqlite3.Error) as exc:
            self.close()
            raise self._error(exc) from exc

    @staticmethod
    def key(model: str, prompt: str, parameters: Mapping[str, Any], sample: int) -> str:
        """What decides a reply: model, prompt, parameters and which sample it is."""
        parts = json.dumps([_FORMAT, model, prompt, parameters, sample], sort_keys=True, default=str)
        return hashlib.sha256(parts.encode()).hexdigest()

    def get(self, key: str) -> str | None:
        """The stored reply, or None."""
        rows = self._run("SELECT reply FROM replies WHERE key = ?", (key,))
        return str(rows[0][0]) if rows else None

    def put(self, key: str, reply: str, replace: bool = False) -> None:
        """Stores a reply; the first one that was stored stays, unless it is to be replaced."""
        text = reply.encode("utf-8", "backslashreplace").decode("utf-8")
        self._run(_REPLACE if replace else _INSERT, (key, text))

    def _run(self, statement: str, values: tuple[str, ...]) -> list[Any]:
        with self._lock:
            if self._connection is None:
                raise JudgeError(f"judge_cache {str(self._path)!r} is closed")
            try:
                return self._connection.execute(statement, values).fetchall()
            except sqlite3.Error as exc:
                raise self._error(exc) from exc

    def _error(self, exc: Exception) -> JudgeError:
        problem = f"judge_cache {str(self._path)!r} cannot be used: {exception_text(exc)}"
        return JudgeError(f"{problem}; delete the file or name another one")

    def close(self) -> None:
        """Closes the file."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
            self._connection = None


def _prepare(connection: sqlite3.Connection) -> None:
    """Sets the file up; SQLite does not wait by itself while another process switches the same file to its log."""
    give_up = time.monotonic() + _BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=NORMAL")
            connection.execute("CREATE TABLE IF NOT EXISTS replies (key TEXT PRIMARY KEY, reply TEXT NOT NULL)")
            connection.execute("SELECT key, reply FROM replies LIMIT 1")
            return
        except sqlite3.OperationalError as exc:
            if "locked" not in str(exc) or time.monotonic() > give_up:
                raise
            time.sleep(0.01)
