"""Drives a compiled LangGraph graph and records what it does."""

from __future__ import annotations

import copy
import functools
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from agentflow_eval._values import shown
from agentflow_eval.adapters import _messages
from agentflow_eval.adapters._langchain_events import MARKERS, Recorder, Routes, handler_class
from agentflow_eval.adapters._target import AgentShape, Session, Turn, starting_state
from agentflow_eval.adapters._threads import run_blocking
from agentflow_eval.collector import TrajectoryCollector
from agentflow_eval.errors import AgentError, TargetError, did_you_mean


class LangGraphTarget:
    """A compiled graph.

    A graph with a checkpointer remembers, so each turn gives it the user's new message alone; any other graph gets the
    whole conversation. ``initial_state`` and the state of the session go into the first turn of a graph that remembers,
    into every turn of one that does not.

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
        self._input_key = None if input_key == "messages" else input_key
        self._output_key = None if output_key == "messages" else output_key
        self._output_node = output_node
        self._initial_state = dict(initial_state or {})
        self._nodes = [name for name in getattr(agent, "nodes", {}) if name not in MARKERS]
        self._check_names(_state_fields(agent), _input_fields(agent), _output_fields(agent))
        self._routes = _routes(agent)
        self._messages_have_ids = _adds_messages(agent)
        self._checkpointer = getattr(agent, "checkpointer", None)
        self._remembers = self._checkpointer not in (None, False)
        self._only_sync: bool | None = None

    def describe(self) -> AgentShape:
        """Nodes and edges as the graph is drawn, and the tools of its tool nodes."""
        try:
            subgraphs = {name.replace("|", "/"): graph for name, graph in self._graph.get_subgraphs(recurse=True)}
            drawn = self._graph.get_graph()
        except Exception:  # a graph may be of any kind, and some cannot be drawn
            return AgentShape(nodes=self._nodes or None)
        inner = [f"{outer}/{name}" for outer, graph in subgraphs.items() for name in graph.nodes if name not in MARKERS]
        tools: dict[str, Any] = {}
        for graph in (self._graph, *subgraphs.values()):
            for node in graph.nodes.values():
                found = getattr(getattr(node, "bound", None), "tools_by_name", None) or {}
                tools |= {name: _arguments_of(tool) for name, tool in found.items()}
        edges = frozenset((edge.source, edge.target) for edge in drawn.edges)
        return AgentShape(tools=tools or None, nodes=[*self._nodes, *inner], edges=edges)

    def _check_names(self, fields: list[str], inputs: list[str], outputs: list[str]) -> None:
        for option, names, known in (
            ("input_key", [self._input_key], inputs),
            ("output_key", [self._output_key], outputs),
            ("output_node", [self._output_node], self._nodes),
            ("initial_state", self._initial_state, fields),
        ):
            for name in names:
                if name is not None and known and name not in known:
                    near = did_you_mean(name, known)
                    hint = f"; did you mean {near!r}?" if near else ""
                    raise TargetError(f"{option} {name!r} is not in the graph{hint} (there: {', '.join(known)})")
        how = '(in a config: "agent_options": {"input_key": ..., "output_key": ...})'
        if inputs and "messages" not in inputs and self._input_key is None:
            raise TargetError(
                f"the graph's input has no messages but {', '.join(inputs)}; say with input_key which of them takes "
                f"the user's text {how}"
            )
        if outputs and "messages" not in outputs and self._output_key is None and self._output_node is None:
            raise TargetError(
                f"the graph's output has no messages but {', '.join(outputs)}; say with output_key which of them holds "
                f"the answer, or with output_node which node gives it {how}"
            )

    async def run_turn(self, turn: Turn, session: Session, collector: TrajectoryCollector) -> None:
        """Plays one turn; the records are written as the callbacks come.

        Raises:
            AgentError: The graph stopped to wait for a human.
        """
        asked = _message_id()
        recorder = Recorder(collector, session.memory.setdefault("seen", {}), self._routes)
        config = self._run_config(session, recorder)
        graph_input = self._input(turn, session, asked)
        if self._only_sync is None:
            self._only_sync = self._remembers and await _is_only_sync(self._checkpointer, session.thread_id)
        if self._only_sync:
            result = await run_blocking(functools.partial(self._graph.invoke, graph_input, config=config))
        else:
            result = await self._graph.ainvoke(graph_input, config=config)
        fresh = _fresh_messages(result, asked, turn.text, session.memory.setdefault("ids", set()))
        recorder.finish(fresh)
        _messages.record(fresh, collector)
        await self._check_ended(result, config)
        collector.say(self._answer(result, fresh, recorder))

    def _input(self, turn: Turn, session: Session, asked: str) -> dict[str, Any]:
        first = turn.index == 0 or not self._remembers
        given = starting_state(self._initial_state, session) if first else {}
        if self._input_key is not None:
            return {**given, self._input_key: turn.text}
        said: list[dict[str, Any]] = [] if self._remembers else [dict(message) for message in session.messages]
        said.append({"role": "user", "content": _content(turn)})
        if self._messages_have_ids:
            for message in said:
                message["id"] = _message_id()
            session.memory.setdefault("ids", set()).update(message["id"] for message in said)
            said[-1]["id"] = asked
        return {**given, "messages": [*given.get("messages", []), *said]}

    @staticmethod
    def _run_config(session: Session, recorder: Recorder) -> dict[str, Any]:
        given = session.config
        handler = handler_class()(recorder)
        callbacks = given.get("callbacks") or []
        if isinstance(callbacks, Iterable):
            callbacks = [*callbacks, handler]
        else:  # a callback manager of LangChain
            callbacks = callbacks.copy()
            callbacks.add_handler(handler, inherit=True)
        own = {"thread_id": session.thread_id, "user_id": session.user_id}
        return {**given, "callbacks": callbacks, "configurable": {**own, **(given.get("configurable") or {})}}

    async def _check_ended(self, result: Any, config: dict[str, Any]) -> None:
        waiting = result.get("__interrupt__") if isinstance(result, Mapping) else None
        if waiting:
            asked = "; ".join(_wish(item) for item in waiting)
            raise AgentError(f"the graph stopped to wait for a human: {asked}")
        if not (
            getattr(self._graph, "interrupt_before_nodes", ()) or getattr(self._graph, "interrupt_after_nodes", ())
        ):
            return
        if self._only_sync:
            state = await run_blocking(functools.partial(self._graph.get_state, config))
        else:
            state = await self._graph.aget_state(config)
        if state.next:
            raise AgentError(
                f"the graph stopped at a breakpoint before {', '.join(state.next)}; "
                "compile it for the evaluation without interrupt_before and interrupt_after"
            )

    def _answer(self, result: Any, fresh: list[Any], recorder: Recorder) -> Any:
        if self._output_node is not None:
            return _spoken(recorder.outputs.get(self._output_node))
        if self._output_key is not None:
            return _spoken(result.get(self._output_key) if isinstance(result, Mapping) else result)
        if isinstance(result, Mapping) and "messages" in result:
            return _messages.answer(fresh)
        return None if _output_fields(self._graph) else _spoken(result)


def _message_id() -> str:
    return str(uuid.uuid4())


def _wish(interrupt: Any) -> str:
    value = getattr(interrupt, "value", interrupt)
    return value if isinstance(value, str) else shown(value)


def _content(turn: Turn) -> Any:
    """What the user says: text, or the content blocks when one of them is not text."""
    content = turn.content.content
    if isinstance(content, str) or all(isinstance(block.get("text"), str) for block in content):
        return turn.text
    return copy.deepcopy(content)


# What a graph says of itself


def _state_fields(graph: Any) -> list[str]:
    """The fields of the graph's state, without the runtime's own channels."""
    channels: Iterable[str] = getattr(graph, "channels", None) or ()
    return _own(channels, graph)


def _input_fields(graph: Any) -> list[str]:
    """The fields of the state that the input may set."""
    builder = getattr(graph, "builder", None)
    schemas = getattr(builder, "schemas", None) or {}
    return _own(schemas.get(getattr(builder, "input_schema", None)) or _state_fields(graph), graph)


def _output_fields(graph: Any) -> list[str]:
    """The fields of the state that the output has; none for a graph whose output is one value."""
    fields, channels = _state_fields(graph), getattr(graph, "output_channels", None)
    return [name for name in fields if name in channels] if isinstance(channels, (list, tuple)) else fields


def _own(channels: Iterable[str], graph: Any) -> list[str]:
    return [name for name in channels if not name.startswith("__") and ":" not in name and name not in graph.nodes]


def _adds_messages(graph: Any) -> bool:
    """Whether the state's ``messages`` are merged by id, as ``add_messages`` does; other states keep them as given."""
    channel = (getattr(graph, "channels", None) or {}).get("messages")
    return "add_messages" in getattr(getattr(channel, "operator", None), "__name__", "")


async def _is_only_sync(checkpointer: Any, thread_id: str) -> bool:
    """Whether a checkpointer, such as ``SqliteSaver``, only works with ``invoke``."""
    try:
        await checkpointer.aget_tuple({"configurable": {"thread_id": thread_id, "checkpoint_ns": ""}})
    except NotImplementedError:
        return True
    except Exception:  # a broken checkpointer is found by the run itself
        return False
    return False


def _routes(graph: Any) -> Routes:
    """Where conditional edges may lead, in the graph and in its subgraphs."""
    nodes: set[str] = set(MARKERS)
    ends: dict[str, dict[str, str]] = {}
    subgraphs: Sequence[tuple[str, Any]] = ()
    if getattr(graph, "builder", None) is not None:
        subgraphs = list(graph.get_subgraphs(recurse=True))
    for one in [graph, *(subgraph for _, subgraph in subgraphs)]:
        nodes.update(getattr(one, "nodes", None) or ())
        branches = getattr(getattr(one, "builder", None), "branches", None) or {}
        for by_name in branches.values():
            for name, branch in by_name.items():
                ends.setdefault(name, {}).update(
                    (str(key), end) for key, end in (getattr(branch, "ends", None) or {}).items()
                )
    return Routes(nodes, ends)


# What a run leaves


def _spoken(value: Any) -> Any:
    """What a node or a field says: the text of its last assistant message, or the value itself."""
    said = list(_messages.messages_in(value))
    if said:
        return _messages.answer(said)
    if isinstance(value, Mapping) and len(value) == 1:
        return next(iter(value.values()))
    return value


def _fresh_messages(result: Any, asked: str, text: str, known: set[Any]) -> list[Any]:
    """The messages that this turn added: those after the user's, or, in a trimmed history, those not seen before."""
    messages = result.get("messages") if isinstance(result, Mapping) else None
    found = [m for m in messages if _messages.is_message(m)] if isinstance(messages, (list, tuple)) else []
    ids = [_messages.field(message, "id") for message in found]
    repeated = [i for i, m in enumerate(found) if _messages.role(m) == "user" and _messages.text(m) == text]
    if asked in ids:
        fresh = found[ids.index(asked) + 1 :]
    elif repeated and ids[repeated[-1]] is None:  # a state that keeps messages as given, without ids
        fresh = found[repeated[-1] + 1 :]
    else:
        fresh = [message for message, key in zip(found, ids, strict=True) if key is None or key not in known]
    known.update(key for key in ids if key is not None)
    return [message for message in fresh if _messages.role(message) != "user"]


def _arguments_of(tool: Any) -> dict[str, Any] | None:
    """JSON Schema of the arguments that a model gives a tool."""
    try:
        schema = tool.tool_call_schema
        described: dict[str, Any] = schema if isinstance(schema, dict) else schema.model_json_schema()
    except Exception:  # arguments of any type need not have a schema
        return None
    return described
