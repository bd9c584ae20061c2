"""Drives agno agents and teams and records what they do."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from agentflow_eval.adapters import _messages
from agentflow_eval.adapters._target import AgentShape, Session, Turn, starting_state
from agentflow_eval.collector import ToolRecord, TrajectoryCollector
from agentflow_eval.errors import AgentError
from agentflow_eval.result import TokenUsage


class AgnoTarget:
    """An agno ``Agent`` or ``Team``; each run of one of them is a visit of a node that has its id.

    One that adds its history to the context, from a database or from its cached session, remembers; any other is given
    the whole conversation in each turn. Each case works on a shallow copy, so that cases do not share a cached session.

    Args:
        agent: The agent or team.
        on_event: Called with every event of a run as it comes.
    """

    def __init__(self, agent: Any, on_event: Callable[[Any], None] | None = None) -> None:
        self._agent = agent
        self._on_event = on_event

    def describe(self) -> AgentShape:
        """An agent's tools that are functions or tool kits; those of teams and MCP servers show when they run."""
        given = getattr(self._agent, "tools", None)
        if not isinstance(given, list) or hasattr(self._agent, "members"):
            return AgentShape()
        listed = [one for tool in given for one in (getattr(tool, "functions", None) or {"": tool}).values()]
        tools: dict[str, Any] = {}
        for tool in listed:
            name = getattr(tool, "name", None) or getattr(tool, "__name__", None)
            if name is None:
                return AgentShape()
            tools[str(name)] = None  # agno works the arguments out when it runs
        return AgentShape(tools=tools or None)

    async def run_turn(self, turn: Turn, session: Session, collector: TrajectoryCollector) -> None:
        """Plays one turn; the records are written as the events come.

        Raises:
            AgentError: The run failed, was cancelled, or waits for a human.
        """
        agent = session.memory.setdefault("agent", copy.copy(self._agent))
        remembers = bool(agent.add_history_to_context and (agent.db is not None or agent.cache_session))
        options: dict[str, Any] = {**session.config}
        if session.state and (turn.index == 0 or not remembers):
            options["session_state"] = starting_state({}, session)
        recorder = _Recorder(collector)
        events = agent.arun(
            input=turn.text if remembers or not session.messages else _conversation(turn, session),
            stream=True,
            stream_events=True,
            yield_run_output=True,
            user_id=session.user_id,
            session_id=session.thread_id,
            **options,
        )
        try:
            async with aclosing(events):
                async for event in events:
                    recorder.event(event)
                    if self._on_event is not None and event is not recorder.output:
                        self._on_event(event)
        finally:
            recorder.flush()
            session.raw[turn.index] = recorder.output
        output = _checked(recorder)
        recorder.finish(output)
        collector.say(output.content)


def _conversation(turn: Turn, session: Session) -> list[Any]:
    from agno.models.message import Message

    said = [*session.messages, {"role": "user", "content": turn.text}]
    return [Message(role=message["role"], content=message["content"]) for message in said]


def _checked(recorder: _Recorder) -> Any:
    """What the run left, when it ended well."""
    output, ending = recorder.output, recorder.ending
    why = getattr(ending, "reason", None) or getattr(ending, "content", None) or getattr(output, "content", None)
    said = f": {why}" if why else ""
    kind = str(getattr(ending, "event", "")).removeprefix("Team")
    if kind == "RunPaused":
        waiting = [tool.tool_name for tool in ending.tools or () if tool.is_paused]
        wish = f" with the tools {', '.join(waiting)}" if waiting else ""
        raise AgentError(f"the run paused to wait for a human{wish}{said}")
    if kind == "RunCancelled":
        raise AgentError(f"the run was cancelled{said}")
    if kind == "RunError":
        error = getattr(ending, "error_type", None)
        raise AgentError(f"the run failed with {error}{said}" if error else f"the run failed{said}")
    if output is None:
        raise AgentError("the run ended without a result")
    status = getattr(output.status, "value", output.status)
    if status != "COMPLETED":
        raise AgentError(f"the run ended as {status}{said}")
    return output


@dataclass
class _ModelCall:
    """A model call that is over, or a piece of it; recorded when the tools it asked for have been seen."""

    node: str
    text: str = ""
    tools: list[str] = field(default_factory=list)
    usage: TokenUsage | None = None


class _Recorder:
    """Turns the events of one turn into records.

    Attributes:
        output: What the outermost run returned; None before that.
        ending: The event that tells of its bad end; None when it has none.
    """

    def __init__(self, collector: TrajectoryCollector) -> None:
        self.output: Any = None
        self.ending: Any = None
        self._collector = collector
        self._root: str | None = None
        self._model_calls: dict[str | None, _ModelCall] = {}
        self._calls: dict[tuple[str | None, str | None], list[ToolRecord]] = {}
        self._done: set[ToolRecord] = set()

    def event(self, event: Any) -> None:
        """Records an event; nothing that goes wrong here reaches the agent."""
        try:
            if self._collector.capture_all_events:
                self._collector.on_event_sync(event)
            if hasattr(event, "messages") and hasattr(event, "status"):
                self.output = event
            else:
                self._record(event, str(getattr(event, "event", "")).removeprefix("Team"))
        except Exception as exc:  # an observer never raises into the agent
            self._collector.observer_failed(exc)

    def _record(self, event: Any, kind: str) -> None:
        run_id = getattr(event, "run_id", None)
        if kind == "RunStarted":
            self._root = self._root or run_id
            self._collector.node(_node(event))
        elif kind == "ModelRequestStarted":
            self._flush(run_id)
            self._model_calls[run_id] = _ModelCall(_node(event))
        elif kind == "RunContent" and isinstance(event.content, str) and run_id in self._model_calls:
            self._model_calls[run_id].text += event.content
        elif kind == "ModelRequestCompleted" and run_id in self._model_calls:
            self._model_calls[run_id].usage = _usage(event)
        elif kind == "ToolCallStarted":
            self._tool_started(run_id, event.tool)
        elif kind in ("ToolCallCompleted", "ToolCallError"):
            self._tool_ended(run_id, event)
        elif kind in ("RunError", "RunCancelled", "RunPaused") and run_id in (None, self._root):
            self.ending = event

    def _tool_started(self, run_id: str | None, tool: Any) -> None:
        record = self._collector.tool(tool.tool_name, tool.tool_args, call_id=tool.tool_call_id)
        self._calls.setdefault((run_id, tool.tool_call_id), []).append(record)
        if run_id in self._model_calls:
            self._model_calls[run_id].tools.append(tool.tool_name)

    def _tool_ended(self, run_id: str | None, event: Any) -> None:
        tool = event.tool
        waiting = [record for record in self._calls.get((run_id, tool.tool_call_id), ()) if record not in self._done]
        if not waiting:
            return
        self._done.add(waiting[-1])
        if tool.tool_call_error:
            waiting[-1].error = tool.result or getattr(event, "error", None) or "failed"
        else:
            waiting[-1].result = tool.result

    def _flush(self, run_id: str | None) -> None:
        call = self._model_calls.pop(run_id, None)
        if call is not None and call.usage is not None:
            self._collector.node_response(
                call.node, response_text=call.text, tool_call_names=call.tools, token_usage=call.usage
            )

    def flush(self) -> None:
        """Records the model calls that are over."""
        for run_id in list(self._model_calls):
            self._flush(run_id)

    def finish(self, output: Any) -> None:
        """Adds the calls that only the messages show: unknown tools, unreadable arguments, members without events."""
        try:
            for run in _runs(output):
                seen = {call_id: records for (run_id, call_id), records in self._calls.items() if run_id == run.run_id}
                _messages.record_unseen(_own_messages(run), seen, self._collector, _outcome)
            self._add_messages(output)
        except Exception as exc:  # what a stranger's run holds may be anything
            self._collector.observer_failed(exc)

    def _add_messages(self, output: Any) -> None:
        said = [message for message in _own_messages(output) if message.role in ("assistant", "tool")]
        _messages.record(said, self._collector)


def _runs(output: Any) -> Iterator[Any]:
    """The run and those of members, of members of members..."""
    yield output
    for member in getattr(output, "member_responses", None) or ():
        yield from _runs(member)


def _own_messages(run: Any) -> list[Any]:
    """The messages of this run alone, without those that came from the history."""
    fresh = [message for message in run.messages or () if not getattr(message, "from_history", False)]
    users = [index for index, message in enumerate(fresh) if message.role == "user"]
    return fresh[users[-1] + 1 :] if users else fresh


def _outcome(reply: Any) -> tuple[Any, str | None]:
    """Result and error of a tool message; one that says nothing of an error was written instead of a call."""
    said = _messages.text(reply)
    return (said, None) if reply.tool_call_error is False else (None, said or "failed")


def _node(event: Any) -> str:
    """The id of an agent or team, which is a random one when it has no name."""
    for kind in ("agent", "team"):
        if hasattr(event, f"{kind}_id"):
            name, own = getattr(event, f"{kind}_name", None), getattr(event, f"{kind}_id", None)
            return str((own if name else None) or name or kind)
    return "agent"


def _usage(event: Any) -> TokenUsage:
    return TokenUsage(
        input_tokens=event.input_tokens or 0,
        output_tokens=event.output_tokens or 0,
        total_tokens=event.total_tokens or 0,
        cache_read_tokens=event.cache_read_tokens or 0,
        cache_creation_tokens=event.cache_write_tokens or 0,
    )
