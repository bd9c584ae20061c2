"""Replies of judges on disk, so that the same question is not paid for twice."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agentflow_eval.errors import JudgeError, exception_text

_FORMAT = 1


class JudgeCache:
    """Usable replies by question, safe for several processes and for crashes (SQLite with a write-ahead log).

    Raises:
        JudgeError: The file cannot be used.
    """

    def __init__(self, path: Path | str) -> None:
        self._path = Path(path)
        self._lock = threading.Lock()
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(self._path, timeout=30, isolation_level=None, check_same_thread=False)
            self._connection.execute("PRAGMA journal_mode=WAL")
            self._connection.execute("PRAGMA synchronous=NORMAL")
            self._connection.execute("CREATE TABLE IF NOT EXISTS replies (key TEXT PRIMARY KEY, reply TEXT NOT NULL)")
        except (OSError, sqlite3.Error) as exc:
            raise JudgeError(f"judge_cache {str(path)!r} cannot be used: {exception_text(exc)}") from exc

    @staticmethod
    def key(model: str, prompt: str, parameters: Mapping[str, Any], sample: int) -> str:
        """What decides a reply: model, prompt, parameters and which sample it is."""
        parts = json.dumps([_FORMAT, model, prompt, parameters, sample], sort_keys=True)
        return hashlib.sha256(parts.encode("utf-8", "backslashreplace")).hexdigest()

    def get(self, key: str) -> str | None:
        """The stored reply, or None."""
        with self._lock:
            row = self._connection.execute("SELECT reply FROM replies WHERE key = ?", (key,)).fetchone()
        return None if row is None else str(row[0])

    def put(self, key: str, reply: str) -> None:
        """Stores a reply; the first one that was stored stays."""
        text = reply.encode("utf-8", "backslashreplace").decode("utf-8")
        with self._lock:
            self._connection.execute("INSERT OR IGNORE INTO replies VALUES (?, ?)", (key, text))

    def close(self) -> None:
        """Closes the file."""
        with self._lock:
            self._connection.close()
