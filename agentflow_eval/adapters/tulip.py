"""Drives tulip agents and graphs and records what they do."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Iterator, Mapping
from contextlib import aclosing, contextmanager
from contextvars import ContextVar
from typing import Any

from agentflow_eval._values import shown
from agentflow_eval.adapters._target import AgentShape, Session, Turn, starting_state
from agentflow_eval.adapters._threads import run_blocking
from agentflow_eval.collector import ToolRecord, TrajectoryCollector
from agentflow_eval.errors import AgentError, TargetError, UsageError, did_you_mean
from agentflow_eval.result import TokenUsage

_GOOD_ENDINGS = ("complete", "terminal_tool", "confidence_met")
_MARKERS = ("__START__", "__END__")


class TulipAgentTarget:
    """A tulip ``Agent``.

    An agent with a checkpointer remembers by the thread of the session; any other is given the earlier turns as a
    checkpoint of its own.
    """

    def __init__(self, agent: Any) -> None:
        self._agent = agent
        _watch_agents()

    def describe(self) -> AgentShape:
        """The agent's tools."""
        tools = {tool.name: tool.parameters for tool in self._agent.tools if hasattr(tool, "parameters")}
        return AgentShape(tools=tools or None)

    async def run_turn(self, turn: Turn, session: Session, collector: TrajectoryCollector) -> None:
        """Plays one turn; the records are written as the events come.

        Raises:
            AgentError: The agent stopped for another reason than that it was done.
        """
        agent = self._agent if not session.messages or self._remembers else await self._reminded(session)
        metadata = {"user_id": session.user_id, **starting_state({}, session), **session.config.get("metadata", {})}
        last: Any = None
        with _recording(_Recorder(collector)):
            async with aclosing(agent.run(turn.text, thread_id=session.thread_id, metadata=metadata)) as events:
                async for event in events:
                    if event.event_type in ("terminate", "interrupt"):
                        last = event
        _check_ending(last)
        collector.say(last.final_message)

    @property
    def _remembers(self) -> bool:
        return self._agent.config.checkpointer is not None

    async def _reminded(self, session: Session) -> Any:
        """The agent with a checkpoint that holds the conversation before this turn."""
        from tulip.core.messages import Message
        from tulip.core.state import AgentState
        from tulip.memory.backends import MemoryCheckpointer

        said = [Message(role=message["role"], content=message["content"]) for message in session.messages]
        checkpointer = MemoryCheckpointer()
        await checkpointer.save(AgentState(messages=(Message.system(""), *said)), session.thread_id)
        agent = self._agent.model_copy()
        agent.config = self._agent.config.model_copy(update={"checkpointer": checkpointer})
        return agent


def _check_ending(last: Any) -> None:
    from tulip.agent.result import normalize_stop_reason

    if last is None:
        raise AgentError("the agent ended without saying why")
    if last.event_type == "interrupt":
        raise AgentError(f"the agent stopped to ask a human: {last.question}")
    if normalize_stop_reason(last.reason) not in _GOOD_ENDINGS:
        said = f": {last.error or last.final_message}" if last.error or last.final_message else ""
        raise AgentError(f"the agent stopped because of {last.reason!r}{said}")


class TulipGraphTarget:
    """A tulip ``StateGraph``; nodes are visits, also those of subgraphs, as ``outer/inner``.

    Tools and tokens of agents that run in nodes are recorded too. A graph does not remember: each turn starts it anew
    with the user's text, or with the whole conversation when ``input_key`` is ``messages``.

    Args:
        graph: The graph.
        input_key: Field of the initial state that takes the user's text.
        output_key: Field of the final state that holds the answer.
        output_node: Node whose last output is the answer; without both it is all that the run added to the state.
        initial_state: Fields that every run starts with.
        nodes_as_tools: Record each node as a tool call as well, without arguments.

    Raises:
        UsageError: ``output_key`` and ``output_node`` are both given.
        TargetError: There is no node of that name.
    """

    def __init__(
        self,
        graph: Any,
        *,
        input_key: str = "prompt",
        output_key: str | None = None,
        output_node: str | None = None,
        initial_state: Mapping[str, Any] | None = None,
        nodes_as_tools: bool = False,
    ) -> None:
        if output_key is not None and output_node is not None:
            raise UsageError("give output_key (a field of the final state) or output_node (a node's output), not both")
        nodes = [name for name in graph.nodes if name not in _MARKERS]
        if output_node is not None and output_node not in nodes:
            near = did_you_mean(output_node, nodes)
            hint = f"; did you mean {near!r}?" if near else ""
            raise TargetError(f"output_node {output_node!r} is not in the graph{hint} (there: {', '.join(nodes)})")
        self._graph = graph
        self._input_key = input_key
        self._output_key = output_key
        self._output_node = output_node
        self._initial_state = dict(initial_state or {})
        self._nodes_as_tools = nodes_as_tools
        _watch_agents()

    async def run_turn(self, turn: Turn, session: Session, collector: TrajectoryCollector) -> None:
        """Plays one turn; the records are written as the nodes run.

        Raises:
            AgentError: The graph failed, stopped at a skipped node, waits for a human, or reached its step limit.
        """
        asked: Any = turn.text
        if self._input_key == "messages":
            asked = [*map(dict, session.messages), {"role": "user", "content": turn.text}]
        given = {**starting_state(self._initial_state, session), self._input_key: asked}
        recorder = _Recorder(collector, self._nodes_as_tools)
        with _recording(recorder):
            result = await _run_graph(self._graph, dict(given), recorder, "", session.thread_id)
        collector.say(self._answer(result, given, recorder))

    def _answer(self, result: Any, given: Mapping[str, Any], recorder: _Recorder) -> Any:
        state = result.final_state
        if self._output_node is not None:
            return recorder.outputs.get(self._output_node)
        if self._output_key is None:
            own = _without_bookkeeping(state)
            return {name: value for name, value in own.items() if name not in given or value != given[name]} or None
        if self._output_key not in state:
            there = ", ".join(_without_bookkeeping(state))
            raise AgentError(f"the final state has no {self._output_key!r} (output_key); it has: {there}")
        return state[self._output_key]


def as_eval_target(
    graph: Any,
    *,
    input_key: str = "prompt",
    output_key: str | None = None,
    output_node: str | None = None,
    initial_state: Mapping[str, Any] | None = None,
    nodes_as_tools: bool = False,
) -> TulipGraphTarget:
    """A tulip ``StateGraph`` as an agent that can be evaluated; see `TulipGraphTarget` for the arguments."""
    return TulipGraphTarget(
        graph,
        input_key=input_key,
        output_key=output_key,
        output_node=output_node,
        initial_state=initial_state,
        nodes_as_tools=nodes_as_tools,
    )


# Graphs


async def _run_graph(graph: Any, state: dict[str, Any], recorder: _Recorder, path: str, thread_id: str) -> Any:
    """The result of a graph whose nodes report that they run.

    Raises:
        AgentError: It did not end well.
    """
    limit = _Limit(graph.config.max_iterations)
    changes: dict[str, Any] = {"max_iterations": limit}
    if graph.config.checkpointer is not None:
        changes["thread_id"] = thread_id
    config = graph.config.model_copy(update=changes)
    nodes = {name: _Node(node, name, f"{path}{name}", recorder, thread_id) for name, node in graph.nodes.items()}
    watched = graph.model_copy(update={"nodes": nodes, "config": config})
    result = await watched.execute(state)
    _check_graph(graph, result, limit, list(nodes.values()))
    return result


def _check_graph(graph: Any, result: Any, limit: _Limit, nodes: list[_Node]) -> None:
    if result.interrupt is not None:
        wish = getattr(result.interrupt.interrupt, "payload", None)
        why = f": {wish if isinstance(wish, str) else shown(wish)}" if wish is not None else ""
        raise AgentError(f"the graph stopped at node {result.interrupt.node_id!r} to wait for a human{why}")
    failed = [f"node {node.path!r} failed: {error}" for node in nodes for error in node.errors]
    if failed:
        raise AgentError("; ".join(failed))
    if not result.success:
        raise AgentError("the graph failed")
    if limit.reached:
        raise AgentError(f"the graph was stopped at its limit of {int(limit)} iterations (max_iterations)")
    skipped = _ended_at_skipped(graph, result)
    if skipped is not None:
        raise AgentError(f"the graph ended at node {skipped!r}, which was skipped because its condition was not met")
    if not result.execution_order:
        raise AgentError("no node of the graph ran; it needs an edge from START or an entry point")


def _ended_at_skipped(graph: Any, result: Any) -> str | None:
    """The skipped node that ended the run; None when it ended elsewhere, a skipped node beside it included."""
    skipped: list[str] = []
    for name in reversed(result.execution_order):
        if result.node_results[name].status != "skipped":
            edges = {edge.target_id for edge in graph.edges if edge.source_id == name}
            conditional = any(edge.source_id == name for edge in graph.conditional_edges)
            return next((other for other in skipped if conditional or other in edges), None)
        skipped.append(name)
    return skipped[-1] if skipped else None


def _without_bookkeeping(output: Any) -> Any:
    """What a node returned, without the entries in which a graph keeps the outputs of its nodes."""
    if not isinstance(output, dict):
        return output
    return {name: value for name, value in output.items() if not str(name).startswith("_node_")}


class _Limit(int):
    """A step limit that notes whether it stopped the graph, which its result does not tell."""

    reached = False

    def __gt__(self, steps: int) -> bool:
        self.reached = not super().__gt__(steps)
        return not self.reached


class _Node:
    """A node of a graph that reports when it runs.

    Attributes:
        path: Its name behind those of the graphs around it.
        errors: Why runs of it failed, which a graph does not tell for nodes that it runs by `Send`.
    """

    def __init__(self, node: Any, name: str, path: str, recorder: _Recorder, thread_id: str) -> None:
        self._node = node
        self._name = name
        self._recorder = recorder
        self._thread_id = thread_id
        self.path = path
        self.errors: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._node, name)

    async def execute(self, inputs: dict[str, Any], **options: Any) -> Any:
        """Runs the node as the graph does."""
        visit = _Visit(self._recorder, self.path)
        run = functools.partial(self._run, visit)
        node = self._node.model_copy(update={"executor": run, "is_subgraph": False})
        result = await node.execute(inputs, **options)
        visit.end(result)
        if result.status == "completed":
            self._recorder.outputs[self.path] = result.output
        if result.status == "failed":
            self.errors.append(result.error or "without a reason")
        return result

    async def _run(self, visit: _Visit, inputs: dict[str, Any]) -> Any:
        visit.begin()
        with _recording(self._recorder, visit):
            if self._node.is_subgraph and self._node.subgraph is not None:
                inner = await _run_graph(
                    self._node.subgraph, dict(inputs), self._recorder, f"{self.path}/", self._thread_id
                )
                return inner.final_state
            executor = self._node.executor
            if inspect.iscoroutinefunction(executor) or inspect.iscoroutinefunction(type(executor).__call__):
                return await executor(inputs)
            return await run_blocking(functools.partial(executor, inputs))


class _Visit:
    """One run of a node, retries included."""

    def __init__(self, recorder: _Recorder, path: str) -> None:
        self._recorder = recorder
        self.path = path
        self._begun = False
        self._tool: ToolRecord | None = None

    def begin(self) -> None:
        """The node is entered, which a skipped node never is."""
        if self._begun:
            return
        self._begun = True
        self._recorder.collector.node(self.path)
        if self._recorder.nodes_as_tools:
            self._tool = self._recorder.collector.tool(self.path)

    def end(self, result: Any) -> None:
        """The node is done; one whose output came out of a cache has been visited all the same."""
        if result.status == "completed":
            self.begin()
        if self._tool is not None:
            self._tool.result = _without_bookkeeping(result.output)
            self._tool.error = result.error


# Agents


class _Recorder:
    """Turns the events of agents into records.

    Attributes:
        outputs: What each node of a graph returned last, by its path.
    """

    def __init__(self, collector: TrajectoryCollector, nodes_as_tools: bool = False) -> None:
        self.collector = collector
        self.nodes_as_tools = nodes_as_tools
        self.outputs: dict[str, Any] = {}
        self._loop = asyncio.get_running_loop()
        self._open: dict[tuple[_Visit | None, str | None, str], list[ToolRecord]] = {}

    def event(self, event: Any, visit: _Visit | None) -> None:
        """Records an event of an agent that runs in ``visit``."""
        if self.collector.capture_all_events:
            self.collector.on_event_sync(event)
        if event.event_type == "think":
            node = event.agent_name or (visit.path if visit is not None else "agent")
            names = [call.name for call in event.tool_calls]
            self.collector.node_response(node, response_text=event.reasoning, tool_call_names=names)
        elif event.event_type == "tool_start":
            record = self.collector.tool(event.tool_name, event.arguments, call_id=event.tool_call_id)
            self._open.setdefault((visit, event.agent_name, event.tool_call_id), []).append(record)
        elif event.event_type == "tool_complete":
            self._tool_done(event, self._open.get((visit, event.agent_name, event.tool_call_id)))
        elif event.event_type == "terminate" and event.usage and not self._is_counted_above(visit):
            self.collector.tokens(_usage(event.usage))

    @staticmethod
    def _tool_done(event: Any, records: list[ToolRecord] | None) -> None:
        if records:
            record = records.pop()
            if event.error is None:
                record.result = event.result if event.structured_content is None else event.structured_content
            record.error = event.error

    def _is_counted_above(self, visit: _Visit | None) -> bool:
        """Whether the run belongs to a tool of an agent that reports its tokens too: not from another event loop."""
        inside = any(records for (place, _, _), records in self._open.items() if place is visit)
        return inside and asyncio.get_running_loop() is self._loop


def _usage(reported: Mapping[str, int]) -> TokenUsage:
    return TokenUsage(
        input_tokens=reported.get("prompt_tokens", 0),
        output_tokens=reported.get("completion_tokens", 0),
        total_tokens=reported.get("total_tokens", 0),
        cache_read_tokens=reported.get("cache_read_input_tokens", 0) or reported.get("cached_tokens", 0),
        cache_creation_tokens=reported.get("cache_creation_input_tokens", 0) or reported.get("cache_write_tokens", 0),
    )


_RECORDING: ContextVar[tuple[_Recorder, _Visit | None] | None] = ContextVar("agentflow_eval_tulip", default=None)


@contextmanager
def _recording(recorder: _Recorder, visit: _Visit | None = None) -> Iterator[None]:
    token = _RECORDING.set((recorder, visit))
    try:
        yield
    finally:
        _RECORDING.reset(token)


def _watch_agents() -> None:
    """Lets the recorder of the running case see the events of every agent, once per process.

    Each agent hands its events to tulip's own telemetry, which passes on no arguments and results; so we listen there.
    """
    from tulip.observability import agent_bridge

    passed_on = agent_bridge.bridge_tulip_event
    if hasattr(passed_on, "agentflow_eval"):
        return

    @functools.wraps(passed_on)
    async def bridge(event: Any) -> None:
        current = _RECORDING.get()
        if current is not None:
            recorder, visit = current
            try:
                recorder.event(event, visit)
            except Exception as exc:  # an observer never raises into the agent
                recorder.collector.observer_failed(exc)
        await passed_on(event)

    bridge.agentflow_eval = True  # type: ignore[attr-defined]  # a mark on our function: wrapped once per process
    agent_bridge.bridge_tulip_event = bridge
