"""Reads chat messages, LangChain's own and plain dictionaries, without importing a runtime."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from pydantic import BaseModel

from agentflow_eval.collector import ToolRecord, TrajectoryCollector
from agentflow_eval.result import TokenUsage

_ROLES = {
    "ai": "assistant",
    "AIMessageChunk": "assistant",
    "human": "user",
    "HumanMessageChunk": "user",
    "function": "tool",
    "ToolMessageChunk": "tool",
}
_DEEPEST = 8


@dataclass(frozen=True, slots=True)
class Requested:
    """A tool call as a model requested it.

    Attributes:
        call_id: None where the model gave none.
        error: Why it cannot be run, for a request that is malformed.
    """

    name: str
    args: Any
    call_id: str | None
    error: str | None = None


def field(message: Any, name: str, default: Any = None) -> Any:
    """A value of a message, whatever kind it is."""
    kind: Any = type(message)
    if kind is dict or isinstance(message, Mapping):
        return message.get(name, default)
    if _is_undeclared(kind, name):
        extra = message.__pydantic_extra__
        return extra.get(name, default) if extra else default
    return getattr(message, name, default)


@lru_cache(maxsize=1024)
def _is_undeclared(kind: type, name: str) -> bool:
    """Whether models of this class can hold the name as an extra at most; asking them for it would take long."""
    if not issubclass(kind, BaseModel) or name in kind.model_fields:
        return False
    answers_itself = getattr(kind, "__getattr__", None) is not getattr(BaseModel, "__getattr__", None)
    return not answers_itself and not any(name in base.__dict__ for base in kind.__mro__)


def is_message(value: Any) -> bool:
    """Whether a value is a chat message."""
    if isinstance(value, Mapping):
        # LangGraph's server sends messages as objects with a type instead of a role.
        known = isinstance(value.get("role"), str) or value.get("type") in ("ai", "human", "tool", "system")
        return known and ("content" in value or "tool_calls" in value)
    return isinstance(getattr(value, "type", None), str) and hasattr(value, "content")


def role(message: Any) -> str:
    """``user``, ``assistant``, ``system`` or ``tool``."""
    name = str(field(message, "role") or field(message, "type") or "")
    return _ROLES.get(name, name)


def text(message: Any) -> str:
    """The text of a message; text blocks and refusals are joined, other blocks left out."""
    content = field(message, "content")
    if isinstance(content, str):
        return content
    if not isinstance(content, Sequence):
        return "" if content is None else str(content)
    parts = [block if isinstance(block, str) else _block_text(block) for block in content]
    return "".join(part for part in parts if isinstance(part, str))


def _block_text(block: Any) -> Any:
    kind = field(block, "type", "text")
    return (
        field(block, kind) if kind in ("text", "refusal") else field(block, "text") if kind == "output_text" else None
    )


def requests(message: Any) -> list[Requested]:
    """The tool calls that an assistant message requests, in order, malformed ones last."""
    calls = [_requested(call) for call in field(message, "tool_calls") or ()]
    broken = [
        Requested(str(field(call, "name") or "?"), field(call, "args"), field(call, "id"), _why(field(call, "error")))
        for call in field(message, "invalid_tool_calls") or ()
    ]
    return calls + broken


def _why(error: Any) -> str:
    return f"malformed tool call: {error or 'its arguments are not JSON'}"


def _requested(call: Any) -> Requested:
    function = field(call, "function")
    if function is not None:  # OpenAI's shape: arguments are JSON text
        return Requested(str(field(function, "name")), field(function, "arguments"), field(call, "id"))
    return Requested(str(field(call, "name")), field(call, "args"), field(call, "id"))


def answer(messages: Sequence[Any]) -> str | None:
    """The text of the last assistant message that requests no tool; None without one, and when it says nothing."""
    for message in reversed(messages):
        if role(message) == "assistant" and not requests(message):
            return text(message) if text(message).strip() else None
    return None


def usage(message: Any) -> TokenUsage:
    """The tokens that a model message reports; zero when it reports none."""
    reported = field(message, "usage_metadata") or field(message, "usage") or {}
    details = field(reported, "input_token_details") or {}
    return TokenUsage(
        input_tokens=_count(reported, "input_tokens", "prompt_tokens"),
        output_tokens=_count(reported, "output_tokens", "completion_tokens"),
        total_tokens=_count(reported, "total_tokens"),
        cache_read_tokens=_count(details, "cache_read"),
        cache_creation_tokens=_count(details, "cache_creation"),
    )


def _count(values: Any, *names: str) -> int:
    found = (field(values, name) for name in names)
    return next((int(value) for value in found if isinstance(value, (int, float))), 0)


def as_dict(message: Any) -> dict[str, Any]:
    """A message as ``{"role", "content"}`` with its tool requests."""
    wanted = requests(message)
    calls = [{"id": call.call_id, "name": call.name, "args": call.args} for call in wanted]
    return {"role": role(message), "content": text(message), **({"tool_calls": calls} if calls else {})}


def record(messages: Sequence[Any], collector: TrajectoryCollector) -> None:
    """Records the messages of a turn beside the user's and the final answer."""
    for message in messages:
        known = as_dict(message)
        kind = known.pop("role")
        if kind == "tool":
            call_id, name = field(message, "tool_call_id"), field(message, "name")
            collector.message("tool", known["content"], tool_call_id=call_id, name=name)
        elif kind == "assistant":
            collector.message("assistant", known.pop("content"), **known)


def messages_in(value: Any, depth: int = _DEEPEST) -> Iterator[Any]:
    """The messages in a state, or near the surface of what a node returned."""
    if depth <= 0 or isinstance(value, str):
        return
    if is_message(value):
        yield value
    elif isinstance(value, (Mapping, list, tuple)):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from messages_in(item, depth - 1)
    elif hasattr(value, "update") and hasattr(value, "goto"):  # LangGraph's Command
        yield from messages_in(value.update, depth - 1)
    elif isinstance(getattr(value, "messages", None), (list, tuple)):  # a state that is a model or a dataclass
        yield from messages_in(value.messages, depth - 1)


def tool_outcome(message: Any) -> tuple[Any, str | None]:
    """Result and error of a tool message; an object or list that stands there as JSON text is decoded."""
    said = text(message)
    if field(message, "status") == "error":
        return None, said or "failed"
    if not said.startswith(("{", "[")):
        return said, None
    try:
        return json.loads(said), None
    except (ValueError, RecursionError):
        return said, None


def record_unseen(
    messages: Sequence[Any],
    seen: Mapping[str | None, Sequence[ToolRecord]],
    collector: TrajectoryCollector,
    outcome: Callable[[Any], tuple[Any, str | None]],
) -> None:
    """Records the requested calls that no event told of, each before the calls that were requested after it.

    Args:
        messages: Those of one run in one turn.
        seen: The calls that events told of, by their id, in order.
        collector: Where the others are recorded.
        outcome: Result and error of a tool message.
    """
    waiting = {call_id: list(records) for call_id, records in seen.items()}
    later: ToolRecord | None = None
    for index in reversed(range(len(messages))):
        for request in reversed(requests(messages[index])):
            if waiting.get(request.call_id):
                later = waiting[request.call_id].pop()
                continue
            replies = (m for m in messages[index + 1 :] if field(m, "tool_call_id") == request.call_id)
            reply = next(replies, None)
            result, error = outcome(reply) if reply is not None else (None, "requested, but never run")
            later = collector.tool(
                request.name, request.args, result=result, error=error, call_id=request.call_id, before=later
            )
