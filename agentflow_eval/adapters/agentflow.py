"""Drives 10xgraph (agentflow) graphs and records what they do."""

from __future__ import annotations

import copy
import functools
import importlib
import inspect
import sys
import uuid
from collections.abc import Mapping
from typing import Any

from agentflow_eval.adapters import _agentflow_events as events
from agentflow_eval.adapters import _messages
from agentflow_eval.adapters._target import AgentShape, Session, Turn, starting_state
from agentflow_eval.collector import CURRENT, TrajectoryCollector
from agentflow_eval.errors import AgentError, MissingExtraError, TargetError, did_you_mean

_OLDEST_PYTHON = (3, 12)


def make_trajectory_callback(
    collector: TrajectoryCollector, config: dict[str, Any] | None = None
) -> tuple[TrajectoryCollector, Any]:
    """The collector, and the callback manager to pass to ``compile()``.

    During an evaluation each case has a collector of its own. Other runs are recorded in the one that was passed here
    last, whichever graph runs: the runtime does not say. `create_eval_app` can tell its graph from others.

    Args:
        collector: What runs outside of an evaluation are recorded in.
        config: Values such as ``thread_id`` and ``run_id`` that raw events carry instead of the run's own.

    Raises:
        MissingExtraError: The runtime is not installed, or this Python is too old for it.
    """
    manager = _runtime("make_trajectory_callback", "utils.callbacks").CallbackManager()
    events.attach(manager)
    events.listen(collector, config)
    return collector, manager


def create_eval_app(graph: Any, *, capture_all_events: bool = True) -> tuple[Any, TrajectoryCollector]:
    """The compiled graph, and the collector that sees it run.

    Args:
        graph: A ``StateGraph``; one that is compiled already is taken as it is.
        capture_all_events: Keep raw events in ``collector.events`` too.

    Raises:
        MissingExtraError: The runtime is not installed, or this Python is too old for it.
        TargetError: It is no graph.
    """
    manager_class = _runtime("create_eval_app", "utils.callbacks").CallbackManager
    collector = TrajectoryCollector(capture_all_events=capture_all_events)
    compiled_before = callable(getattr(graph, "ainvoke", None))
    app = _compiled(graph)
    _attach(app)
    if compiled_before:
        events.listen(collector, None)
    else:
        manager = app._invoke_handler.callback_mgr = app._stream_handler.callback_mgr = manager_class()
        events.attach(manager).collector = collector
    return app, collector


def _runtime(name: str, module: str) -> Any:
    """A module of the runtime, whose publishers may from now on be collectors."""
    try:
        root = events.runtime_name()
        publisher = importlib.import_module(f"{root}.runtime.publisher.base_publisher").BasePublisher
        publisher.register(TrajectoryCollector)
        return importlib.import_module(f"{root}.{module}")
    except ModuleNotFoundError as exc:
        if sys.version_info < _OLDEST_PYTHON:
            raise MissingExtraError(
                f"{name} needs the extra 'agentflow' (10xgraph), which needs Python >= 3.12; this is Python "
                f"{sys.version_info[0]}.{sys.version_info[1]}. LangGraph graphs and functions need no such wiring: "
                "AgentEvaluator(agent, config=...)"
            ) from exc
        raise MissingExtraError(
            f"{name} needs the extra 'agentflow': pip install 'agentflow-eval[agentflow]' ({exc})"
        ) from exc


def _compiled(graph: Any) -> Any:
    """A graph that can be run."""
    if callable(getattr(graph, "ainvoke", None)):
        return graph
    if not callable(getattr(graph, "compile", None)):
        raise TargetError(f"expected a StateGraph of 10xgraph, got {type(graph).__name__}")
    return graph.compile(callback_manager=_runtime("compile", "utils.callbacks").CallbackManager())


@functools.cache
def _default_manager(graph_class: type) -> Any:
    """The manager of graphs that are compiled without one."""
    compile_graph = getattr(graph_class, "compile", None)
    parameter = inspect.signature(compile_graph).parameters.get("callback_manager") if compile_graph else None
    return getattr(parameter, "default", None)


def _attach(app: Any) -> None:
    """Lets every manager report that a run of ``app`` may call.

    The runtime binds the first manager of the process for all graphs. Graphs in a container of their own, and graphs
    inside of nodes, may have another.
    """
    manager_class = _runtime("AgentflowTarget", "utils.callbacks").CallbackManager
    container = importlib.import_module("injectq").InjectQ.get_instance()
    own = getattr(getattr(app, "_invoke_handler", None), "callback_mgr", None)
    graph_class: Any = type(getattr(app, "_state_graph", None))
    default = _default_manager(graph_class)
    for manager in (own, container.try_get(manager_class), default):
        if isinstance(manager, manager_class):
            events.attach(manager)


class AgentflowTarget:
    """A graph of 10xgraph, compiled here when it is not yet.

    The runtime always remembers, so each turn gives it the user's new message alone; ``initial_state`` and the state of
    the session go into the first one.

    Raises:
        MissingExtraError: The runtime is not installed, or this Python is too old for it.
        TargetError: A named field or node does not exist.
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
        if input_key not in (None, "messages"):
            raise TargetError(f"input_key {input_key!r}: a graph of 10xgraph takes what the user says as a message")
        self._message = _runtime("AgentflowTarget", "core.state").Message
        self._everything = _runtime("AgentflowTarget", "utils").ResponseGranularity.FULL
        self._graph = _compiled(agent)
        self._output_key = None if output_key == "messages" else output_key
        self._output_node = output_node
        self._initial_state = dict(initial_state or {})
        self._check_names()

    def _check_names(self) -> None:
        nodes = list(getattr(getattr(self._graph, "_state_graph", None), "nodes", ()))
        fields = list(getattr(type(getattr(self._graph, "_state", None)), "model_fields", ()))
        for option, names, known in (
            ("output_key", [self._output_key], fields),
            ("output_node", [self._output_node], [name for name in nodes if name not in events.MARKERS]),
            ("initial_state", self._initial_state, fields),
        ):
            for name in names:
                if name is not None and known and name not in known:
                    near = did_you_mean(name, known)
                    hint = f"; did you mean {near!r}?" if near else ""
                    raise TargetError(f"{option} {name!r} is not in the graph{hint} (there: {', '.join(known)})")

    def describe(self) -> AgentShape:
        """Nodes, edges, and the tools of its tool nodes, unless some of them live elsewhere."""
        graph = getattr(self._graph, "_state_graph", None)
        nodes = [name for name in getattr(graph, "nodes", ()) if name not in events.MARKERS]
        edges = frozenset((edge.from_node, edge.to_node) for edge in getattr(graph, "edges", ()))
        functions_of_nodes = [getattr(graph.nodes[name], "func", None) for name in nodes] if graph is not None else []
        tool_nodes: list[Any] = [function for function in functions_of_nodes if hasattr(function, "all_tools_sync")]
        if any(getattr(node, "_client", None) or getattr(node, "remote_tools", None) for node in tool_nodes):
            return AgentShape(nodes=nodes or None, edges=edges or None)
        functions = [tool["function"] for node in tool_nodes for tool in node.all_tools_sync()]
        tools = {function["name"]: function.get("parameters") for function in functions}
        return AgentShape(tools=tools or None, nodes=nodes or None, edges=edges or None)

    async def run_turn(self, turn: Turn, session: Session, collector: TrajectoryCollector) -> None:
        """Plays one turn; the records are written as the callbacks come.

        Raises:
            AgentError: The graph stopped before its end: at a breakpoint, for a human, for a tool of its client.
        """
        _attach(self._graph)
        events.forget_run()
        given = starting_state(self._initial_state, session) if turn.index == 0 else {}
        own = {"thread_id": session.thread_id, "user_id": session.user_id, "run_id": str(uuid.uuid4())}
        config = {**own, **session.config}
        options = {} if self._output_key is None else {"response_granularity": self._everything}
        asked = {"messages": [self._asked(turn)], **({"state": given} if given else {})}
        token = CURRENT.set(collector)
        try:
            result = await self._graph.ainvoke(asked, config=config, **options)
        finally:
            CURRENT.reset(token)
        run = events.current_run() or events.Run(collector, config)
        said = [message for message in result["messages"] if message.role != "user"]
        run.finish(said)
        chats = [events.as_chat(message) for message in said]
        _messages.record(chats, collector)
        if run.paused is not None:
            raise AgentError(run.paused)
        collector.say(self._answer(result, chats, run))

    def _asked(self, turn: Turn) -> Any:
        content = turn.content.content
        if isinstance(content, str) or all(isinstance(block.get("text"), str) for block in content):
            return self._message.text_message(turn.text, role="user")
        return self._message.model_validate({"role": "user", "content": copy.deepcopy(content)})

    def _answer(self, result: Mapping[str, Any], chats: list[dict[str, Any]], run: events.Run) -> Any:
        if self._output_node is not None:
            return run.said.get(self._output_node)
        if self._output_key is not None:
            return getattr(result["state"], self._output_key, None)
        return _messages.answer(chats)
