"""Turns what a 10xgraph graph reports of its runs into records."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from functools import cache, wraps
from typing import Any
from weakref import WeakKeyDictionary, ref

from agentflow_eval._values import shown
from agentflow_eval.adapters import _messages
from agentflow_eval.collector import CURRENT, ToolRecord, TrajectoryCollector
from agentflow_eval.result import NO_TOKENS, TokenUsage

MARKERS = ("__start__", "__end__")
"""The runtime's own nodes, which are no visits."""

_HANDOVER = "transfer_to_"

_run: ContextVar[Run | None] = ContextVar("agentflow_eval_10xgraph_run", default=None)
_routers: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
_listening: list[tuple[ref[TrajectoryCollector], Mapping[str, Any] | None]] = []


# The runtime's messages


def as_chat(message: Any) -> dict[str, Any]:
    """A message of the runtime as ``{"role", "content"}`` with its tool requests."""
    chat = {"role": message.role, "content": message.text(), "tool_calls": message.tools_calls or []}
    if message.role == "tool":
        chat["tool_call_id"] = next((call_id for call_id, _, _ in _outcomes(message)), None)
        chat["name"] = message.metadata.get("function_name")
    return chat


def usage(message: Any) -> TokenUsage:
    """The tokens that a message reports; zero when it reports none."""
    counted = message.usages
    if counted is None:
        return NO_TOKENS
    return TokenUsage(
        input_tokens=counted.prompt_tokens or 0,
        output_tokens=counted.completion_tokens or 0,
        total_tokens=counted.total_tokens or 0,
        cache_read_tokens=counted.cache_read_input_tokens or 0,
        cache_creation_tokens=counted.cache_creation_input_tokens or 0,
    )


def _outcomes(message: Any) -> list[tuple[str, Any, bool]]:
    """Call id, output and whether it failed, for each call that a tool message answers."""
    blocks = [block for block in message.content if getattr(block, "type", "") == "tool_result"]
    if blocks:
        return [(block.call_id, block.output, block.is_error or block.status == "failed") for block in blocks]
    return [(str(message.metadata.get("tool_call_id") or ""), message.text(), False)]


def _output(value: Any) -> Any:
    """What a tool returned: the runtime puts an object into a list of one, and any other value under ``content``."""
    if isinstance(value, str):
        return _messages.tool_outcome({"content": value})[0]
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    return value["content"] if isinstance(value, dict) and set(value) == {"content"} else value


# One run


class _Call:
    """A tool call of a run, from the request to the reply."""

    __slots__ = ("answered", "ended", "name", "record", "requested", "started")

    def __init__(self, name: str, record: ToolRecord, *, requested: bool) -> None:
        self.name = name
        self.record = record
        self.requested = requested
        self.started = self.ended = self.answered = False


class Run:
    """What one run of a graph has done so far.

    Attributes:
        active: Whether the run has not ended yet.
        paused: Where and why the graph stopped before its end; None when it did not.
        said: The last text of each node that said something, by its path.
    """

    def __init__(
        self,
        collector: TrajectoryCollector,
        config: Mapping[str, Any],
        parent: Run | None = None,
        stamps: Mapping[str, Any] | None = None,
    ) -> None:
        self.collector = collector
        self.config = config
        self.parent = parent
        self.active = True
        self.paused: str | None = None
        self.said: dict[str, str | None] = {}
        self._stamps = dict(stamps or {})
        self._prefix = parent._path(parent._node) + "/" if parent is not None and parent._node else ""
        self._node: str | None = None
        self._calls: dict[str, list[_Call]] = {}
        self._running: dict[int, tuple[Any, _Call]] = {}
        self._seen: set[Any] = set()
        self._task = _task()

    def encloses(self, task: Any) -> bool:
        """Whether a run that begins in ``task`` was begun by a node of this one; nodes have tasks of their own."""
        return self.active and self._node is not None and self._task is not task

    def owns(self, config: Mapping[str, Any]) -> bool:
        """Whether a callback with this run config belongs to the run."""
        return config is self.config or config.get("run_id") == self.config.get("run_id")

    def _path(self, node: str | None) -> str:
        return f"{self._prefix}{node}"

    def enter(self, node: str | None) -> None:
        """A node is at work; recorded once until `leave`."""
        if node and node not in MARKERS and node != self._node:
            self._node = node
            self.collector.node(self._path(node))
            self._event("node_execution", "start", node)

    def leave(self, node: str, before: Sequence[Any], after: Sequence[Any]) -> None:
        """A node has ended; what it added to the conversation is recorded."""
        self.enter(node)
        known = {message.message_id for message in before} | self._seen
        for message in after:
            if message.message_id not in known:
                self._message(message, node, before)
        self._event("node_execution", "end", node)
        self._node = None

    def finish(self, messages: Iterable[Any]) -> None:
        """After the run: what only its result shows, and requests that nothing answered."""
        for message in messages:
            if message.message_id not in self._seen:
                self._message(message)
        for call in [call for calls in self._calls.values() for call in calls]:
            if call.started or call.answered or call.record.error is not None:
                continue
            if call.name.startswith(_HANDOVER):
                call.record.result = f"handed over to {call.name.removeprefix(_HANDOVER)}"
            else:
                call.record.error = "requested, but never run"

    def _message(self, message: Any, node: str | None = None, asked: Sequence[Any] = ()) -> None:
        self._seen.add(message.message_id)
        if message.role == "tool":
            for call_id, output, failed in _outcomes(message):
                self._answer(call_id, output, failed)
        elif message.role == "assistant":
            requests = _messages.requests(as_chat(message))
            self._response(message, [request.name for request in requests], node, asked)
            for request in requests:
                self._request(request)

    def _response(self, message: Any, tools: list[str], node: str | None, asked: Sequence[Any]) -> None:
        if node is None:
            if message.usages is not None:
                self.collector.tokens(usage(message))
            return
        if not tools:
            self.said[self._path(node)] = message.text()
        self.collector.node_response(
            self._path(node),
            input_messages=[_messages.as_dict(as_chat(one)) for one in asked],
            response_text=message.text(),
            tool_call_names=tools,
            token_usage=usage(message),
        )

    def _request(self, request: _messages.Requested) -> None:
        calls = self._calls.setdefault(request.call_id or "", [])
        for call in calls:
            if not call.requested and call.name == request.name:  # a node that runs its tools before it says so
                call.requested = True
                return
        record = self.collector.tool(request.name, request.args, error=request.error, call_id=request.call_id)
        calls.append(_Call(request.name, record, requested=True))

    def _answer(self, call_id: str, output: Any, failed: bool) -> None:
        """Fills in what no callback told: results of remote tools, and why a tool failed or was not found."""
        call = next((call for call in self._calls.get(call_id, ()) if not call.answered), None)
        if call is None:
            return
        call.answered = True
        if failed and call.record.error is None:
            call.record.error = output
        elif not failed and not call.ended:
            call.record.result = _output(output)

    def tool_started(self, context: Any) -> None:
        """A tool runs; its call is recorded already when the message that requests it has been seen."""
        details = context.metadata
        self.enter(details["config"].get("_node_name"))
        name, call_id = context.function_name or "tool", details.get("tool_call_id")
        calls = self._calls.setdefault(call_id or "", [])
        call = next((call for call in calls if call.name == name and not call.started and not call.answered), None)
        if call is None:
            call = _Call(name, self.collector.tool(name, details.get("args"), call_id=call_id), requested=False)
            calls.append(call)
        call.started = True
        self._running[id(context)] = context, call
        self._event("tool_execution", "start", name, tool_call_id=call_id, args=call.record.call.args)

    def tool_ended(self, context: Any, output: Any) -> None:
        """A tool has returned; what it wraps in a type of the runtime is read from the tool's message instead."""
        _, call = self._running.pop(id(context), (None, None))
        if call is None:
            return
        if type(output).__module__.partition(".")[0] not in ("tenxgraph", "agentflow"):
            call.ended = True
            call.record.result = _output(output) if isinstance(output, str) else output
        details = context.metadata
        self._event(
            "tool_execution", "end", call.name, tool_call_id=details.get("tool_call_id"), result=call.record.result
        )

    def _event(self, event: str, phase: str, name: str, **data: Any) -> None:
        if not self.collector.capture_all_events:
            return
        events = importlib.import_module(f"{runtime_name()}.runtime.publisher.events")
        kinds = [events.ContentType("tool_call" if event == "tool_execution" else "state")]
        config = {**self.config, **self._stamps}
        self.collector.on_event_sync(
            events.EventModel.default(
                config,
                data=data,
                content_type=kinds,
                event=events.Event(event),
                event_type=events.EventType(phase),
                node_name=name,
            )
        )


def current_run() -> Run | None:
    """The run that this task has begun last."""
    return _run.get()


def forget_run() -> None:
    """Lets the next run of this task be nobody's inner run."""
    _run.set(None)


def _task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None


def _enclosing() -> Run | None:
    run, task = _run.get(), _task()
    while run is not None and not run.encloses(task):
        run = run.parent
    return run


def _run_of(config: Mapping[str, Any]) -> Run | None:
    """The run that a callback belongs to; None when nobody listens."""
    latest = run = _run.get()
    while run is not None and not run.owns(config):
        run = run.parent
    if run is None and latest is not None and latest.active:  # a graph inside of a node, whose start nobody heard of
        run = Run(latest.collector, config, latest)
        _run.set(run)
    return run


# The callbacks


def _listener() -> tuple[TrajectoryCollector | None, Mapping[str, Any] | None]:
    return next(((listening(), stamps) for listening, stamps in _listening), (None, None))


def _contained(method: Callable[..., None]) -> Callable[..., Any]:
    """A hook whose failure is noted on the case; the runtime would fail the agent, or only log it."""

    @wraps(method)
    async def call(*args: Any, **kwargs: Any) -> None:
        try:
            method(*args, **kwargs)
        except Exception as exc:  # an observer never raises into the agent
            run = _run.get()
            collector = run.collector if run is not None else CURRENT.get()
            if collector is not None:
                collector.observer_failed(exc)

    return call


@_contained
def _ai_starts(context: Any) -> None:
    run = _run_of(context.metadata["config"])
    if run is not None:
        run.enter(context.node_name)


@_contained
def _tool_starts(context: Any) -> None:
    run = _run_of(context.metadata["config"])
    if run is not None:
        run.tool_started(context)


@_contained
def _tool_ends(context: Any, output: Any) -> None:
    run = _run_of(context.metadata["config"])
    if run is not None:
        run.tool_ended(context, output)


async def _before_ai(context: Any, data: Any) -> Any:
    await _ai_starts(context)
    return data


async def _before_tool(context: Any, data: Any) -> Any:
    await _tool_starts(context)
    return data


async def _after_tool(context: Any, _data: Any, output: Any) -> Any:
    await _tool_ends(context, output)
    return output


@cache
def runtime_name() -> str:
    """``tenxgraph``, or ``agentflow`` where only the package's older form is installed."""
    try:
        importlib.import_module("tenxgraph")
    except ModuleNotFoundError as exc:
        if exc.name != "tenxgraph":
            raise
        importlib.import_module("agentflow")
        return "agentflow"
    return "tenxgraph"


@cache
def _router_class() -> Callable[[], Any]:
    """The lifecycle hook; made late, because its base class comes with the runtime."""
    callbacks = importlib.import_module(f"{runtime_name()}.utils.callbacks")

    class Router(callbacks.GraphLifecycleHook):  # type: ignore[name-defined,misc]  # a class of an untyped module
        """Reports the steps of graphs.

        Attributes:
            collector: What takes runs outside of an evaluation; None for the one that listens last.
        """

        collector: TrajectoryCollector | None = None

        @_contained
        def on_graph_start(self, context: Any, state: Any) -> None:  # noqa: ARG002  # the runtime's signature
            listener, stamps = (self.collector, None) if self.collector is not None else _listener()
            collector = CURRENT.get() or listener
            _run.set(None if collector is None else Run(collector, context.config, _enclosing(), stamps))

        @_contained
        def on_state_update(self, context: Any, node_name: str, old_state: Any, new_state: Any, step: int) -> None:  # noqa: ARG002
            run = _run_of(context.config)
            if run is not None and node_name not in MARKERS:
                run.leave(node_name, old_state.context, new_state.context)

        @_contained
        def on_interrupt(self, context: Any, interrupted_node: str, interrupt_type: str, state: Any) -> None:
            run = _run_of(context.config)
            if run is not None:
                run.paused = _pause(interrupted_node, interrupt_type, state.execution_meta.interrupt_data)
                run.active = False

        @_contained
        def on_graph_end(self, context: Any, final_state: Any, messages: list[Any], total_steps: int) -> None:  # noqa: ARG002
            run = _run_of(context.config)
            if run is not None:
                run.active = False
                if run.parent is None and CURRENT.get() is None:  # the user's own run, which nobody else reads
                    said = [message for message in messages if message.role != "user"]
                    run.finish(said)
                    run.collector.say(_messages.answer([as_chat(message) for message in said]))

        @_contained
        def on_graph_error(
            self,
            context: Any,
            error: Exception,
            partial_state: Any,  # noqa: ARG002
            messages: list[Any],  # noqa: ARG002
            step: int,  # noqa: ARG002
            node_name: str,
        ) -> None:
            run = _run_of(context.config)
            if run is not None:
                if any(cls.__name__ == "NodeError" for cls in type(error).__mro__):
                    run.enter(node_name)
                run.active = False

    return Router


def _pause(node: str, kind: str, asked: Any) -> str:
    """Why a graph stopped before its end."""
    if kind in ("before", "after"):
        return f"the graph stopped at a breakpoint {kind} {node}; compile it for the evaluation without interrupts"
    if kind == "stop":
        return f"the graph was told to stop at {node}"
    if kind == "remote_tool":
        return f"the graph stopped at {node} to wait for a tool that its client runs"
    request = (asked or {}).get("interrupt") or {}
    wish = request.get("message") or request.get("value")
    said = wish if isinstance(wish, str) else shown(wish)
    return f"the graph stopped at {node} to wait for a human" + (f": {said}" if wish else "")


def attach(manager: Any) -> Any:
    """The router of a callback manager, made once; it lets the manager report."""
    router = _routers.get(manager)
    if router is None:
        kinds = importlib.import_module(f"{runtime_name()}.utils.callbacks").InvocationType
        router = _routers[manager] = _router_class()()
        manager.register_lifecycle_hook(router)
        manager.register_before_invoke(kinds.AI, _before_ai)
        for kind in (kinds.TOOL, kinds.MCP, getattr(kinds, "SKILL", None)):
            if kind is not None:
                manager.register_before_invoke(kind, _before_tool)
                manager.register_after_invoke(kind, _after_tool)
    return router


def listen(collector: TrajectoryCollector, stamps: Mapping[str, Any] | None) -> None:
    """Records runs outside of an evaluation in ``collector``, until another one listens.

    The runtime gives every graph the first callback manager of the process, so which graph runs cannot be told.
    """
    _listening[:] = [(ref(collector), stamps)]
