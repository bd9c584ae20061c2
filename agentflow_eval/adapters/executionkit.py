"""Drives executionkit kits and records what they do."""

from __future__ import annotations

import copy
import dataclasses
import functools
import inspect
import sys
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any

from agentflow_eval.adapters import _messages
from agentflow_eval.adapters._target import AgentShape, Session, Turn
from agentflow_eval.collector import ToolRecord, TrajectoryCollector
from agentflow_eval.errors import MissingExtraError, TargetError, exception_text
from agentflow_eval.result import TokenUsage

_RUNNING: ContextVar[tuple[_Recorder, ToolRecord] | None] = ContextVar("agentflow_eval_executionkit", default=None)


class KitTarget:
    """An executionkit ``Kit`` with the tools and options of its turns; each case has a kit of its own.

    Args:
        kit: A kit, of which each case gets a copy with the messages that it holds now, or a function without parameters
            that makes one.
        tools: What ``kit.turn`` is called with.
        options: More of what ``kit.turn`` takes, such as ``max_rounds``.

    Raises:
        TargetError: executionkit does not work on this Python.
        MissingExtraError: It is not installed.
    """

    def __init__(self, kit: Any, tools: Sequence[Any] = (), **options: Any) -> None:
        _check_works()
        self._kit = kit
        self._tools = [_watched(tool) for tool in tools]
        self._options = options

    def describe(self) -> AgentShape:
        """The tools that the kit is called with."""
        return AgentShape(tools={tool.name: tool.parameters for tool in self._tools} or None)

    async def run_turn(self, turn: Turn, session: Session, collector: TrajectoryCollector) -> None:
        """Plays one turn; the records are written as the kit's trace comes.

        Raises:
            ExecutionKitError: The model failed, or the kit reached one of its limits.
        """
        if "kit" not in session.memory:
            session.memory["kit"] = await self._fresh_kit()
        kit = session.memory["kit"]
        options = {**self._options, **session.config}
        recorder = _Recorder(collector, options.pop("trace", None))
        before = len(kit.messages) + 1
        try:
            result = await kit.turn(turn.text, self._tools, trace=recorder.event, redact_trace_args=False, **options)
        except Exception as exc:
            metadata = getattr(exc, "metadata", None) or {}
            recorder.finish(metadata.get("messages", ())[before:])
            raise
        except BaseException:
            recorder.finish(())
            raise
        recorder.finish(kit.messages[before:])
        session.raw[turn.index] = result
        collector.say(result.value)

    async def _fresh_kit(self) -> Any:
        if not hasattr(self._kit, "turn"):
            made = self._kit()
            return await made if inspect.isawaitable(made) else made
        kit = copy.copy(self._kit)
        kit.messages = copy.deepcopy(self._kit.messages)
        return kit


@functools.cache
def _check_works() -> None:
    try:
        from executionkit.types import PatternResult
    except ImportError as exc:
        raise MissingExtraError("a KitTarget needs the extra 'executionkit', which needs Python >= 3.13") from exc
    try:
        PatternResult[str](value="")
    except TypeError as exc:
        version = ".".join(map(str, sys.version_info[:2]))
        raise TargetError(
            f"executionkit cannot run on Python {version}, because every call of a Kit ends with "
            f"{exception_text(exc)}; it makes a PatternResult[str], and that class, generic and frozen with slots, can "
            "only be made so from Python 3.13 on"
        ) from exc


def _watched(tool: Any) -> Any:
    """The tool, which notes on its call what it returns or raises."""

    @functools.wraps(tool.execute)
    async def execute(**arguments: Any) -> Any:
        running = _RUNNING.get()
        try:
            result = await tool.execute(**arguments)
        except Exception as exc:
            if running is not None:
                running[0].ended(running[1], None, exc)
            raise
        if running is not None:
            running[0].ended(running[1], result, None)
        return result

    return dataclasses.replace(tool, execute=execute)


@dataclasses.dataclass
class _ModelCall:
    """A model call that is over; recorded when the tools that it asked for have been seen."""

    text: str
    usage: TokenUsage
    tools: list[str] = dataclasses.field(default_factory=list)


class _Recorder:
    """Turns the trace of one turn into records."""

    def __init__(self, collector: TrajectoryCollector, trace: Callable[[Any], Any] | None) -> None:
        self._collector = collector
        self._trace = trace
        self._model_call: _ModelCall | None = None
        self._calls: dict[str | None, list[ToolRecord]] = {}
        self._ran: set[ToolRecord] = set()

    def event(self, event: Any) -> Any:
        """Records an event and passes it on; nothing that goes wrong here reaches the agent."""
        try:
            if self._collector.capture_all_events:
                self._collector.on_event_sync({"event": event.kind, **event.payload})
            self._record(event.kind, event.payload)
        except Exception as exc:  # an observer never raises into the agent
            self._collector.observer_failed(exc)
        return self._trace(event) if self._trace is not None else None

    def _record(self, kind: str, payload: Any) -> None:
        if kind == "llm_call_end":
            self._flush()
            tokens = TokenUsage(input_tokens=payload["input_tokens"], output_tokens=payload["output_tokens"])
            self._model_call = _ModelCall(payload["content"], tokens)
        elif kind == "tool_call_start":
            record = self._collector.tool(payload["tool_name"], payload["arguments"], call_id=payload["tool_call_id"])
            self._calls.setdefault(payload["tool_call_id"], []).append(record)
            _RUNNING.set((self, record))  # of the task that runs this call alone
            if self._model_call is not None:
                self._model_call.tools.append(payload["tool_name"])

    def ended(self, record: ToolRecord, result: Any, error: BaseException | None) -> None:
        """Notes what a tool returned or raised, which the trace does not tell."""
        self._ran.add(record)
        record.result = result
        record.error = error

    def _flush(self) -> None:
        call, self._model_call = self._model_call, None
        if call is not None:
            self._collector.node_response(
                "kit", response_text=call.text, tool_call_names=call.tools, token_usage=call.usage
            )

    def finish(self, messages: Sequence[Any]) -> None:
        """Adds what only the messages of the turn show: why calls were not run, and calls beyond the kit's limit."""
        self._flush()
        try:
            replies: dict[Any, list[str]] = {}
            for message in messages:
                if message["role"] == "tool":
                    replies.setdefault(message["tool_call_id"], []).append(message["content"])
            for call_id, records in self._calls.items():
                for record, said in zip(records, replies.get(call_id, ()), strict=False):
                    if record not in self._ran:
                        record.error = said
            _messages.record_unseen(messages, self._calls, self._collector, lambda reply: (None, reply["content"]))
            _messages.record(messages, self._collector)
        except Exception as exc:  # a kit may have been given any messages
            self._collector.observer_failed(exc)
