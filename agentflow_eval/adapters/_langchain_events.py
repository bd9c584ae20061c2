"""Turns what LangChain and LangGraph report of one run into records."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass
from functools import cache, wraps
from typing import Any

from agentflow_eval.adapters import _messages
from agentflow_eval.collector import ToolRecord, TrajectoryCollector

MARKERS = ("__start__", "__end__")
"""LangGraph's own nodes, which are no visits."""


@dataclass(frozen=True, slots=True)
class Routes:
    """Where conditional edges may lead.

    Attributes:
        nodes: The names of all nodes, the markers too.
        ends: Name of an edge -> what it may return -> the node which that means.
    """

    nodes: Set[str]
    ends: Mapping[str, Mapping[str, str]]


class Recorder:
    """Turns one run's callbacks into records.

    Attributes:
        outputs: What each node returned last, by its path.
    """

    def __init__(self, collector: TrajectoryCollector, seen: dict[Any, Any], routes: Routes) -> None:
        self.collector = collector
        self.outputs: dict[str, Any] = {}
        self._seen = seen
        self._routes = routes
        self._began = False
        self._visits: dict[Any, str] = {}
        self._edges: dict[Any, str] = {}
        self._model_calls: dict[Any, tuple[str, list[dict[str, Any]]]] = {}
        self._said: list[Any] = []
        self._requests: dict[str, ToolRecord] = {}
        self._running: dict[Any, ToolRecord] = {}
        self._ran: set[ToolRecord] = set()

    def chain_started(
        self, run_id: Any, parent: Any, name: str, tags: list[str], metadata: Mapping[str, Any], inputs: Any
    ) -> None:
        """A node is entered, or an edge is being decided."""
        if name == metadata.get("langgraph_node") and any(tag.startswith("graph:step:") for tag in tags):
            path = _path(metadata)
            self._visits[run_id] = path
            if name in MARKERS:
                return
            if not self._began:
                self._began = True
                self._skip_older(inputs)
            self.collector.node(path)
        elif parent in self._visits and any(tag.startswith("seq:step:") and tag != "seq:step:1" for tag in tags):
            self._edges[run_id] = name

    def _skip_older(self, inputs: Any) -> None:
        """What the first node is given was said before this run."""
        for message in _messages.messages_in(inputs):
            self._is_new(message)

    def chain_ended(self, run_id: Any, outputs: Any) -> None:
        """A node has returned, or an edge is decided."""
        path = self._visits.pop(run_id, None)
        if path in MARKERS:
            return
        if path is not None:
            self.outputs[path] = outputs
            for message in _messages.messages_in(outputs):
                self._message(message)
            return
        name = self._edges.pop(run_id, None)
        if name is not None:
            ends = self._routes.ends.get(name, {})
            targets = [ends.get(target, target) for target in _targets(outputs)]
            if targets and all(target in self._routes.nodes for target in targets):
                self.collector.conditional(name, targets if len(targets) > 1 else targets[0])

    def chain_failed(self, run_id: Any) -> None:
        """A node or an edge has raised."""
        self._visits.pop(run_id, None)
        self._edges.pop(run_id, None)

    def model_started(self, run_id: Any, metadata: Mapping[str, Any], messages: list[Any]) -> None:
        """A node asks its model."""
        self._model_calls[run_id] = (_path(metadata), [_messages.as_dict(message) for message in messages])

    def model_ended(self, run_id: Any, message: Any) -> None:
        """The model has answered."""
        path, asked = self._model_calls.pop(run_id, ("", []))
        self._said.append(message)
        self.collector.node_response(
            path,
            input_messages=asked,
            response_text=_messages.text(message),
            tool_call_names=[request.name for request in _messages.requests(message)],
            token_usage=_messages.usage(message),
        )

    def tool_started(self, run_id: Any, name: str, args: Any, call_id: str | None) -> None:
        """A tool runs; its call is recorded already when the message that requests it has been seen."""
        if call_id is not None and self._open(call_id) is None:
            for message in self._said:
                if any(request.call_id == call_id for request in _messages.requests(message)):
                    self._message(message)
        record = self._open(call_id) if call_id is not None else None
        if record is None:
            record = self.collector.tool(name, args, call_id=call_id)
        self._running[run_id] = record
        self._ran.add(record)

    def _open(self, call_id: str) -> ToolRecord | None:
        record = self._requests.get(call_id)
        return None if record is None or record in self._ran else record

    def tool_ended(self, run_id: Any, output: Any) -> None:
        """A tool has returned."""
        record = self._running.pop(run_id, None)
        if record is None:
            return
        said = [message for message in _messages.messages_in(output) if _messages.role(message) == "tool"]
        if said:
            record.result, record.error = _messages.tool_outcome(said[-1])
        else:
            record.result = output

    def tool_failed(self, run_id: Any, error: BaseException) -> None:
        """A tool has raised."""
        record = self._running.pop(run_id, None)
        if record is not None:
            record.error = error

    def _message(self, message: Any) -> None:
        """A message enters the state: its tool requests count, and so does what a tool message says."""
        kind = _messages.role(message)
        if kind not in ("assistant", "tool") or not self._is_new(message):
            return
        if kind == "tool":
            self._tool_message(message)
            return
        for request in _messages.requests(message):
            record = self.collector.tool(request.name, request.args, error=request.error, call_id=request.call_id)
            if request.call_id is not None:
                self._requests[request.call_id] = record

    def _is_new(self, message: Any) -> bool:
        """Whether a message is seen for the first time in this conversation."""
        key = _messages.field(message, "id")
        if id(message) in self._seen or (key is not None and key in self._seen):
            return False
        self._seen[id(message)] = message  # kept, so that its id() is not given to another object
        if key is not None:
            self._seen[key] = message
        return True

    def _tool_message(self, message: Any) -> None:
        """Fills in what no tool event told: the error of a tool that does not exist or could not be called."""
        record = self._requests.get(str(_messages.field(message, "tool_call_id")))
        if record is not None and record.result is None and record.error is None:
            self._ran.add(record)
            record.result, record.error = _messages.tool_outcome(message)

    def finish(self, fresh: list[Any]) -> None:
        """After the run: what only the final state shows, and requests that nothing answered."""
        for message in fresh:
            self._message(message)
        for record in self._requests.values():
            if record not in self._ran and record.error is None and record.result is None:
                record.error = "requested, but never run"


def _path(metadata: Mapping[str, Any]) -> str:
    """``outer/inner`` of a node, from the namespace of its checkpoint."""
    namespace = str(metadata.get("langgraph_checkpoint_ns") or "")
    names = [part.split(":")[0] for part in namespace.split("|") if part]
    return "/".join(name for name in names if not name.isdigit()) or str(metadata.get("langgraph_node") or "")


def _targets(outputs: Any) -> list[str]:
    items = outputs if isinstance(outputs, (list, tuple)) else [outputs]
    names = [item if isinstance(item, str) else getattr(item, "node", None) for item in items]
    return [name for name in names if isinstance(name, str)] if all(isinstance(n, str) for n in names) else []


def _contained(method: Callable[..., None]) -> Callable[..., None]:
    """A callback whose failure is noted on the case; LangChain would only log it."""

    @wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> None:
        collector: TrajectoryCollector = self.recorder.collector
        try:
            if collector.capture_all_events:
                collector.on_event_sync({"event": method.__name__, "args": args, **kwargs})
            method(self, *args, **kwargs)
        except Exception as exc:  # an observer never raises into the agent
            collector.observer_failed(exc)

    return call


@cache
def handler_class() -> Callable[[Recorder], Any]:
    """The callback handler; made late, because its base class comes with the runtime."""
    from langchain_core.callbacks import BaseCallbackHandler

    class Handler(BaseCallbackHandler):
        run_inline = True  # in the thread of the run: the order is right, and it costs next to nothing

        def __init__(self, recorder: Recorder) -> None:
            self.recorder = recorder

        @_contained
        def on_chain_start(self, _serialized: Any, inputs: Any, **kw: Any) -> None:
            tags, metadata = kw.get("tags") or [], kw.get("metadata") or {}
            self.recorder.chain_started(
                kw["run_id"], kw.get("parent_run_id"), kw.get("name") or "", tags, metadata, inputs
            )

        @_contained
        def on_chain_end(self, outputs: Any, **kw: Any) -> None:
            self.recorder.chain_ended(kw["run_id"], outputs)

        @_contained
        def on_chain_error(self, _error: BaseException, **kw: Any) -> None:
            self.recorder.chain_failed(kw["run_id"])

        @_contained
        def on_chat_model_start(self, _serialized: Any, messages: Any, **kw: Any) -> None:
            self.recorder.model_started(kw["run_id"], kw.get("metadata") or {}, messages[0] if messages else [])

        @_contained
        def on_llm_start(self, _serialized: Any, prompts: Any, **kw: Any) -> None:
            asked = [{"role": "user", "content": prompt} for prompt in prompts]
            self.recorder.model_started(kw["run_id"], kw.get("metadata") or {}, asked)

        @_contained
        def on_llm_end(self, response: Any, **kw: Any) -> None:
            generation = response.generations[0][0]
            message = getattr(generation, "message", None) or {"role": "assistant", "content": generation.text}
            self.recorder.model_ended(kw["run_id"], message)

        @_contained
        def on_tool_start(self, serialized: Any, input_str: str, **kw: Any) -> None:
            name = (serialized or {}).get("name") or kw.get("name") or "tool"
            inputs = kw.get("inputs")
            args = input_str if inputs is None else inputs
            self.recorder.tool_started(kw["run_id"], name, args, kw.get("tool_call_id"))

        @_contained
        def on_tool_end(self, output: Any, **kw: Any) -> None:
            self.recorder.tool_ended(kw["run_id"], output)

        @_contained
        def on_tool_error(self, error: BaseException, **kw: Any) -> None:
            self.recorder.tool_failed(kw["run_id"], error)

    return Handler
