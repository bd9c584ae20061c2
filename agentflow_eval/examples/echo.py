"""The smallest agent that has nodes and tools: an async function, recorded through its ``run``."""

from __future__ import annotations

from typing import Any


async def agent(text: str, run: Any) -> str:
    """Repeats what it is told; ``shout: ...`` makes it louder with a tool."""
    run.node("LISTEN")
    if not text.startswith("shout: "):
        return f"You said: {text}"
    words = text.removeprefix("shout: ")
    with run.tool("upper", {"text": words}) as call:
        call.result = words.upper()
    run.node("SPEAK")
    return f"You said: {call.result}!"
