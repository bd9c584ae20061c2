"""Drives a compiled LangGraph graph and records what it does."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping
from functools import cache, wraps
from typing import Any

from agentflow_eval.adapters import _messages
from agentflow_eval.adapters._target import Session, Turn
from agentflow_eval.collector import ToolRecord, TrajectoryCollector
from agentflow_eval.errors import AgentError, TargetError, did_you_mean

_MARKERS = ("__start__", "__end__")


class LangGraphTarget:
    """A compiled graph.

    Raises:
        TargetError: It is not compiled, a named field or node does not exist, or a graph without ``messages`` leaves
            open where the question goes or where the answer stands.
    """

    def __init__(
        self,
        agent: Any,
        *,
        input_key: str | None = None,
        output_key: str | None = None,
        output_node: str | None = None,
        initial_state: Mapping[str, Any] | None = None,
    ) -> None:
        if not callable(getattr(agent, "ainvoke", None)):
            raise TargetError(f"the agent is a {type(agent).__name__} that is not compiled; call .compile() first")
        self._graph = agent
        self._input_key = input_key
        self._output_key = output_key
        self._output_node = output_node
        self._initial_state = dict(initial_state or {})
        self._fields = _state_fields(agent)
        self._nodes = [name for name in getattr(agent, "nodes", {}) if name not in _MARKERS]
        self._branches = _branches(agent)
        self._remembers = getattr(agent, "checkpointer", None) not in (None, False)
        self._check_names()

    def _check_names(self) -> None:
        for option, name, known in (
            ("input_key", self._input_key, self._fields),
            ("output_key", self._output_key, self._fields),
            ("output_node", self._output_node, self._nodes),
        ):
            if name is not None and known and name not in known:
                near = did_you_mean(name, known)
                hint = f"; did you mean {near!r}?" if near else ""
                raise TargetError(f"{option} {name!r} is not in the graph{hint} (there: {', '.join(known)})")
        if "messages" in self._fields or not self._fields:
            return
        fields = ", ".join(self._fields)
        if self._input_key is None:
            raise TargetError(
                f"the graph's state has no messages but {fields}; say with input_key which of them takes the user's text "
                '(in a config: "agent_options": {"input_key": ..., "output_key": ...})'
            )
        if self._output_key is None and self._output_node is None:
            raise TargetError(
                f"say with output_key which field of the state holds the answer ({fields}), or output_node"
            )

    async def run_turn(self, turn: Turn, session: Session, collector: TrajectoryCollector) -> None:
        """Plays one turn; the records are written as the callbacks come.

        Raises:
            AgentError: The graph stopped to wait for a human.
        """
        asked_id = str(uuid.uuid4())
        recorder = _Recorder(collector, session.memory.setdefault("seen", {}), self._nodes, self._branches)
        run_config = self._run_config(session, recorder)
        result = await self._graph.ainvoke(self._input(turn, session, asked_id), config=run_config)
        self._check_ended(result)
        fresh = _fresh_messages(result, asked_id, session.memory)
        recorder.finish(fresh)
        _messages.record(fresh, collector)
        collector.say(self._answer(result, fresh, recorder))

    def _input(self, turn: Turn, session: Session, asked_id: str) -> dict[str, Any]:
        first = turn.index == 0 or not self._remembers
        given = {**self._initial_state, **session.state} if first else {}
        if self._input_key is not None and self._input_key != "messages":
            return {**given, self._input_key: turn.text}
        history = [] if self._remembers else [dict(message) for message in session.messages]
        before = given.pop("messages", [])
        return {**given, "messages": [*before, *history, {"role": "user", "content": turn.text, "id": asked_id}]}

    @staticmethod
    def _run_config(session: Session, recorder: _Recorder) -> dict[str, Any]:
        given = session.config
        return {
            **given,
            "callbacks": [*(given.get("callbacks") or []), _handler_class()(recorder)],
            "configurable": {
                "thread_id": session.thread_id,
                "user_id": session.user_id,
                **given.get("configurable", {}),
            },
        }

    @staticmethod
    def _check_ended(result: Any) -> None:
        waiting = result.get("__interrupt__") if isinstance(result, Mapping) else None
        if waiting:
            asked = "; ".join(str(getattr(item, "value", item)) for item in waiting)
            raise AgentError(f"the graph stopped to wait for a human: {asked}")

    def _answer(self, result: Any, fresh: list[Any], recorder: _Recorder) -> Any:
        if self._output_node is not None:
            return _spoken(recorder.outputs.get(self._output_node))
        if self._output_key is not None and self._output_key != "messages":
            return _spoken(result.get(self._output_key) if isinstance(result, Mapping) else result)
        return _messages.answer(fresh)


def _state_fields(graph: Any) -> list[str]:
    """The fields of the graph's state, without the runtime's own channels."""
    channels: Iterable[str] = getattr(graph, "channels", None) or ()
    return [name for name in channels if not name.startswith("__") and ":" not in name and name not in graph.nodes]


def _branches(graph: Any) -> dict[str, dict[str, str]]:
    """Name of a conditional edge -> what it may return -> the node that means."""
    by_node = getattr(getattr(graph, "builder", None), "branches", None) or {}
    return {
        name: {str(key): end for key, end in (getattr(branch, "ends", None) or {}).items()}
        for branches in by_node.values()
        for name, branch in branches.items()
    }


def _spoken(value: Any) -> Any:
    """What a node or a field says: the text of its last assistant message, or the value itself."""
    said = list(_messages.messages_in(value))
    if said:
        return _messages.answer(said)
    if isinstance(value, Mapping) and len(value) == 1:
        return next(iter(value.values()))
    return value


def _fresh_messages(result: Any, asked_id: str, memory: dict[str, Any]) -> list[Any]:
    """The messages that this turn added: those after the user's, or, in a trimmed history, those not seen before."""
    messages = result.get("messages") if isinstance(result, Mapping) else None
    found = list(messages) if isinstance(messages, (list, tuple)) else []
    ids = [_messages.field(message, "id") for message in found]
    known: set[Any] = memory.setdefault("ids", set())
    if asked_id in ids:
        fresh = found[ids.index(asked_id) + 1 :]
    else:
        fresh = [message for message, key in zip(found, ids, strict=True) if key is None or key not in known]
    known.update(key for key in ids if key is not None)
    return [message for message in fresh if _messages.role(message) != "user"]


class _Recorder:
    """Turns one run's callbacks into records.

    Attributes:
        outputs: What each node returned last, by its path.
    """

    def __init__(
        self,
        collector: TrajectoryCollector,
        seen: dict[Any, Any],
        nodes: list[str],
        branches: Mapping[str, Mapping[str, str]],
    ) -> None:
        self.collector = collector
        self.outputs: dict[str, Any] = {}
        self._seen = seen
        self._nodes = nodes
        self._branches = branches
        self._visits: dict[Any, str] = {}
        self._edges: dict[Any, str] = {}
        self._model_calls: dict[Any, tuple[str, list[dict[str, Any]]]] = {}
        self._said: list[Any] = []
        self._requests: dict[str, ToolRecord] = {}
        self._running: dict[Any, ToolRecord] = {}
        self._ran: set[int] = set()

    def chain_started(self, run_id: Any, parent: Any, name: str, tags: list[str], metadata: Mapping[str, Any]) -> None:
        """A node is entered, or an edge is being decided."""
        node = metadata.get("langgraph_node")
        if name == node and name not in _MARKERS and any(tag.startswith("graph:step:") for tag in tags):
            path = _path(metadata)
            self._visits[run_id] = path
            self.collector.node(path)
        elif parent in self._visits and any(tag.startswith("seq:step:") for tag in tags):
            self._edges[run_id] = name

    def chain_ended(self, run_id: Any, outputs: Any) -> None:
        """A node has returned, or an edge is decided."""
        path = self._visits.pop(run_id, None)
        if path is not None:
            self.outputs[path] = outputs
            for message in _messages.messages_in(outputs):
                self._message(message)
            return
        name = self._edges.pop(run_id, None)
        if name is not None:
            ends = self._branches.get(name, {})
            targets = [ends.get(target, target) for target in _targets(outputs)]
            if targets and all(target in self._nodes or target in _MARKERS for target in targets):
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
        self._ran.add(id(record))

    def _open(self, call_id: str) -> ToolRecord | None:
        record = self._requests.get(call_id)
        return None if record is None or id(record) in self._ran else record

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
        kind, key = _messages.role(message), _messages.field(message, "id")
        if kind == "tool":
            self._tool_message(message)
        if kind != "assistant" or id(message) in self._seen or (key is not None and key in self._seen):
            return
        self._seen[id(message)] = message  # kept, so that its id() is not given to another object
        if key is not None:
            self._seen[key] = message
        for request in _messages.requests(message):
            record = self.collector.tool(request.name, request.args, error=request.error, call_id=request.call_id)
            if request.call_id is not None:
                self._requests[request.call_id] = record

    def _tool_message(self, message: Any) -> None:
        """Fills in what no tool event told: the error of a tool that does not exist or could not be called."""
        record = self._requests.get(str(_messages.field(message, "tool_call_id")))
        if record is not None and record.result is None and record.error is None:
            self._ran.add(id(record))
            record.result, record.error = _messages.tool_outcome(message)

    def finish(self, fresh: list[Any]) -> None:
        """After the run: what only the final state shows, and requests that nothing answered."""
        for message in fresh:
            self._message(message)
        for record in self._requests.values():
            if id(record) not in self._ran and record.error is None and record.result is None:
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
        try:
            method(self, *args, **kwargs)
        except Exception as exc:  # an observer never raises into the agent
            self.recorder.collector.observer_failed(exc)

    return call


@cache
def _handler_class() -> Callable[[_Recorder], Any]:
    """The callback handler; made late, because its base class comes with the runtime."""
    from langchain_core.callbacks import BaseCallbackHandler

    class Handler(BaseCallbackHandler):
        run_inline = True  # in the thread of the run: the order is right, and it costs next to nothing

        def __init__(self, recorder: _Recorder) -> None:
            self.recorder = recorder

        @_contained
        def on_chain_start(self, serialized: Any, inputs: Any, **kw: Any) -> None:
            self.recorder.chain_started(
                kw["run_id"],
                kw.get("parent_run_id"),
                kw.get("name") or "",
                kw.get("tags") or [],
                kw.get("metadata") or {},
            )

        @_contained
        def on_chain_end(self, outputs: Any, **kw: Any) -> None:
            self.recorder.chain_ended(kw["run_id"], outputs)

        @_contained
        def on_chain_error(self, error: BaseException, **kw: Any) -> None:
            self.recorder.chain_failed(kw["run_id"])

        @_contained
        def on_chat_model_start(self, serialized: Any, messages: Any, **kw: Any) -> None:
            self.recorder.model_started(kw["run_id"], kw.get("metadata") or {}, messages[0] if messages else [])

        @_contained
        def on_llm_start(self, serialized: Any, prompts: Any, **kw: Any) -> None:
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
            self.recorder.tool_started(
                kw["run_id"], name, input_str if inputs is None else inputs, kw.get("tool_call_id")
            )

        @_contained
        def on_tool_end(self, output: Any, **kw: Any) -> None:
            self.recorder.tool_ended(kw["run_id"], output)

        @_contained
        def on_tool_error(self, error: BaseException, **kw: Any) -> None:
            self.recorder.tool_failed(kw["run_id"], error)

    return Handler
