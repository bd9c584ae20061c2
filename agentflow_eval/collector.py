"""Records one run of one case, whatever the runtime, and makes its text valid once."""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Iterable, Mapping, Sequence
from contextvars import ContextVar
from types import TracebackType
from typing import Any, Self

from agentflow_eval._files import printable
from agentflow_eval._values import as_name, as_text, jsonable, shown
from agentflow_eval.dataset import StepType, ToolCall, TrajectoryStep
from agentflow_eval.errors import AgentError, exception_text
from agentflow_eval.result import (
    EMPTY_DICT,
    NO_TOKENS,
    ExecutionResult,
    NodeResponse,
    TokenUsage,
    TurnResult,
    maker,
    shape,
)

CURRENT: ContextVar[TrajectoryCollector | None] = ContextVar("agentflow_eval_collector", default=None)
"""The collector of the case that the running task (or ``to_thread`` worker) belongs to."""

_put = object.__setattr__
_said = shape("role", "content")
_make_call = maker(ToolCall)
_make_step = maker(TrajectoryStep)
_make_turn = maker(TurnResult)
_make_execution = maker(ExecutionResult)
_NOTHING: Any = object()
_ANSWER_KEYS = frozenset({"response", "tool_calls", "node_visits", "token_usage"})


class ToolRecord:
    """A recorded call that is still open: set ``result`` or ``error``, or use it as a context manager that times it."""

    __slots__ = ("_call", "_collector", "_started", "_step")

    def __init__(self, collector: TrajectoryCollector, call: ToolCall, step: TrajectoryStep) -> None:
        self._collector = collector
        self._call = call
        self._step = step
        self._started = step.timestamp or 0.0

    @property
    def call(self) -> ToolCall:
        """The call as recorded so far."""
        return self._call

    @property
    def step(self) -> TrajectoryStep:
        """The call's step of the trajectory."""
        return self._step

    @property
    def result(self) -> Any:
        """What the tool returned; kept as a JSON copy."""
        return self._call.result

    @result.setter
    def result(self, value: Any) -> None:
        if not self._collector.closed:
            _put(self._call, "result", jsonable(value))

    @property
    def error(self) -> str | None:
        """Why the call failed; None when it did not."""
        return self._call.error

    @error.setter
    def error(self, value: object) -> None:
        if not self._collector.closed:
            _put(self._call, "error", None if value is None else _error_text(value))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, exc: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        if exc is not None:
            self.error = exc
        if not self._collector.closed:
            now = self._collector.touch()
            timed = {"duration_seconds": round(now - self._started, 6)}
            _put(self._step, "metadata", {**self._step.metadata, **timed})


class TrajectoryCollector:
    """Records node visits, tool calls, model output and answers of one run.

    Function agents get it as ``run``; adapters write to it as things happen, so that evidence survives a timeout.
    What it is given is copied at once, so later changes of an argument are not seen. It never raises into the agent.

    Args:
        capture_all_events: Keep the raw events of the runtime in ``events`` too.

    Attributes:
        trajectory: Node, tool and edge steps, in order.
        tool_calls: Calls in the order in which the model requested them.
        node_visits: Names of the visited nodes, in order.
        node_responses: Input and output of each model call.
        events: Raw events, when ``capture_all_events``.
        stdout: What the agent printed.
        start_time: Unix time of the first record, None before it.
        end_time: Unix time of the last record, None before the first.
    """

    def __init__(self, capture_all_events: bool = False) -> None:
        self.capture_all_events = capture_all_events
        self.reset()

    def reset(self) -> None:
        """Forgets everything that was recorded."""
        self.trajectory: list[TrajectoryStep] = []
        self.tool_calls: list[ToolCall] = []
        self.node_visits: list[str] = []
        self.node_responses: list[NodeResponse] = []
        self.messages: list[dict[str, Any]] = []
        self.events: list[Any] = []
        self.stdout = ""
        self.start_time: float | None = None
        self.end_time: float | None = None
        self.closed = False
        self.failures: list[str] = []
        self.exits: list[AgentError] = []
        self._turns: list[_TurnMark] = []
        self._open: dict[str, ToolRecord] = {}
        self._tokens: TokenUsage | None = None

    # What agents and adapters call

    def node(self, name: str, **metadata: Any) -> None:
        """Records that a node was entered."""
        if self.closed:
            return
        name = as_name(name)
        self.node_visits.append(name)
        self._step(StepType.NODE, name, EMPTY_DICT, jsonable(metadata) if metadata else EMPTY_DICT)

    def conditional(self, name: str, target: Any) -> None:
        """Records which way a conditional edge went."""
        if not self.closed:
            self._step(StepType.CONDITIONAL, as_name(name), EMPTY_DICT, {"target": jsonable(target)})

    def tool(
        self,
        name: str,
        args: Any = None,
        *,
        result: Any = None,
        error: object = None,
        call_id: str | None = None,
        before: ToolRecord | None = None,
    ) -> ToolRecord:
        """Records a tool call at once; the returned record takes what comes later and times a ``with`` block.

        Args:
            name: The tool.
            args: Arguments by name, or a JSON object as text; copied now.
            result: What it returned, when that is known.
            error: An exception or a text, when it failed.
            call_id: The runtime's id of the call.
            before: A call of this turn that was requested after this one, though it was recorded before.
        """
        arguments, note = _arguments(args)
        call = _make_call(
            name=as_name(name) or "(no name)",
            args=arguments,
            call_id=None if call_id is None else as_name(call_id),
            result=None if result is None else jsonable(result),
            error=None if error is None else _error_text(error),
        )
        metadata = {"note": note} if note else EMPTY_DICT
        if self.closed:
            step = TrajectoryStep(step_type=StepType.TOOL, name=call.name)
        else:
            step = self._step(StepType.TOOL, call.name, arguments, metadata)
            self.tool_calls.append(call)
        record = ToolRecord(self, call, step)
        if before is not None and not self.closed:
            self._move_last(before)
        return record

    def _move_last(self, before: ToolRecord) -> None:
        lists: list[tuple[list[Any], Any]] = [(self.tool_calls, before.call), (self.trajectory, before.step)]
        for items, later in lists:
            place = next((i for i, item in enumerate(items) if item is later), None)
            if place is not None:
                items.insert(place, items.pop())

    def request_tool(self, key: str, name: str, args: Any, call_id: str | None = None) -> ToolRecord:
        """Records a call that the model requested, once per ``key``; `open_tool` finds it when the tool runs."""
        record = self._open.get(key)
        if record is None:
            record = self._open[key] = self.tool(name, args, call_id=call_id)
        return record

    def open_tool(self, key: str) -> ToolRecord | None:
        """The call recorded under ``key`` in this turn, or None."""
        return self._open.get(key)

    def node_response(
        self,
        node_name: str,
        *,
        input_messages: Sequence[Mapping[str, Any]] = (),
        response_text: Any = "",
        tool_call_names: Sequence[str] = (),
        token_usage: TokenUsage = NO_TOKENS,
    ) -> None:
        """Records what went into one call of a node's model and what came out."""
        if self.closed:
            return
        self.node_responses.append(
            NodeResponse(
                node_name=as_name(node_name),
                input_messages=[_message(message) for message in input_messages],
                response_text=as_text(response_text) or "",
                has_tool_calls=bool(tool_call_names),
                tool_call_names=[as_name(name) for name in tool_call_names],
                is_final=not tool_call_names,
                timestamp=self.touch(),
                token_usage=self._usage(token_usage),
            )
        )

    def message(self, role: str, content: Any, **more: Any) -> None:
        """Records a message of the conversation beside the user's and the final answer."""
        if not self.closed:
            self.messages.append({"role": as_name(role), "content": as_text(content) or "", **jsonable(more)})

    def say(self, answer: Any) -> None:
        """Records the answer of this turn; a later one replaces it, None takes it back."""
        if not self.closed:
            self._turn().answer = as_text(answer)
            self.touch()

    def piece(self, text: str) -> None:
        """Records a streamed piece of the answer; the pieces joined are the answer unless `say` gives one."""
        if not self.closed:
            self._turn().pieces.append(as_text(text) or "")
            self.touch()

    def tokens(self, usage: TokenUsage | Mapping[str, Any]) -> None:
        """Adds tokens of the agent that belong to no recorded model call."""
        if not self.closed:
            self._tokens = (self._tokens or NO_TOKENS) + self._usage(usage)

    def take(self, answer: Any) -> None:
        """Records what an agent returned: text, an object with ``response``, ``tool_calls``..., or any other value.

        Raises:
            AgentError: ``tool_calls`` or ``node_visits`` of the object is not a list.
        """
        if answer is None:
            return
        if isinstance(answer, ExecutionResult):
            self._take_execution(answer)
        elif isinstance(answer, Mapping) and answer and answer.keys() <= _ANSWER_KEYS:
            for name in _listed(answer, "node_visits"):
                self.node(name)
            for call in _listed(answer, "tool_calls"):
                self._take_call(call)
            if answer.get("token_usage") is not None:
                self.tokens(answer["token_usage"])
            if "response" in answer:
                self.say(answer["response"])
        else:
            self.say(answer)

    def _take_execution(self, answer: ExecutionResult) -> None:
        if answer.trajectory:
            self.trajectory += copy.deepcopy(answer.trajectory)
            self.touch()
        for name in answer.node_visits:
            self.node(name) if not answer.trajectory else self.node_visits.append(as_name(name))
        for call in answer.tool_calls:
            self._take_call(call, step=not answer.trajectory)
        self.messages += [_message(message) for message in answer.messages]
        self.node_responses += answer.node_responses
        if answer.agent_token_usage is not None:
            self.tokens(answer.agent_token_usage)
        self.say(answer.actual_response or None)

    def _take_call(self, call: Any, step: bool = True) -> None:
        if isinstance(call, ToolCall):
            call = {name: getattr(call, name) for name in ToolCall.model_fields}
        elif isinstance(call, str):
            call = {"name": call}
        if not isinstance(call, Mapping) or not call.get("name"):
            return
        before = len(self.trajectory)
        self.tool(
            call["name"],
            call.get("args"),
            result=call.get("result"),
            error=call.get("error"),
            call_id=call.get("call_id"),
        )
        if not step:
            del self.trajectory[before:]

    def observer_failed(self, exc: BaseException) -> None:
        """Notes that an adapter could not record something; the case then says so instead of scoring half a run."""
        self.failures.append(exception_text(exc))

    # What the engine calls

    def begin_turn(self, user_input: str) -> None:
        """Starts the record of a turn."""
        self.messages.append(_said("user", user_input))
        self._turns.append(_TurnMark(self, user_input))
        self._open = {}

    def end_turn(self, error: str | None = None) -> None:
        """Ends the record of the turn: the streamed pieces become its answer when it has no other."""
        turn = self._turn()
        turn.settle()
        turn.error = error
        turn.duration = time.perf_counter() - turn.started
        turn.end(self)
        if turn.answer is not None and self._last_assistant_text() != turn.answer:
            self.messages.append(_said("assistant", turn.answer))

    def _last_assistant_text(self) -> str | None:
        last = self.messages[-1] if self.messages else {}
        return last.get("content") if last.get("role") == "assistant" else None

    def finish(self) -> None:
        """Stops recording: what a late thread or task still reports is dropped."""
        self.closed = True

    def execution(self, error: str | None = None) -> ExecutionResult:
        """The record as one value; the collector should be finished before."""
        turns = [turn.result(self, index) for index, turn in enumerate(self._turns)]
        return _make_execution(
            tool_calls=self.tool_calls,
            trajectory=self.trajectory,
            messages=self.messages,
            actual_response=self.final_response,
            node_responses=self.node_responses,
            node_visits=self.node_visits,
            duration_seconds=sum(turn.duration_seconds for turn in turns),
            turns=turns,
            agent_token_usage=self._all_tokens(),
            error=error,
        )

    def _all_tokens(self) -> TokenUsage:
        nodes = (
            sum((response.token_usage for response in self.node_responses), NO_TOKENS)
            if self.node_responses
            else NO_TOKENS
        )
        return nodes if self._tokens is None else nodes + self._tokens

    def touch(self) -> float:
        """Now, as Unix time in seconds; also noted as the time of the last record."""
        now = time.time()
        if self.start_time is None:
            self.start_time = now
        self.end_time = now
        return now

    def _usage(self, usage: TokenUsage | Mapping[str, Any]) -> TokenUsage:
        """Token counts, or none and a note when they are no numbers."""
        try:
            return _usage(usage)
        except Exception as exc:  # a stranger's mapping may hold and raise anything
            self.observer_failed(exc)
            return NO_TOKENS

    def _turn(self) -> _TurnMark:
        if not self._turns:
            self._turns.append(_TurnMark(self, ""))
        return self._turns[-1]

    def _step(self, kind: StepType, name: str, args: dict[str, Any], metadata: dict[str, Any]) -> TrajectoryStep:
        now = time.time()
        if self.start_time is None:
            self.start_time = now
        self.end_time = now
        step = _make_step(step_type=kind, name=name, args=args, timestamp=now, metadata=metadata)
        self.trajectory.append(step)
        return step

    # What readers call

    @property
    def final_response(self) -> str:
        """The answer of the last turn; empty when it gave none."""
        if not self._turns:
            return ""
        turn = self._turns[-1]
        return turn.answer if turn.answer is not None else "".join(turn.pieces)

    @property
    def duration(self) -> float:
        """Seconds between the first and the last record."""
        return (self.end_time or 0.0) - (self.start_time or 0.0)

    def get_tool_names(self) -> list[str]:
        """The names of the called tools, in order."""
        return [call.name for call in self.tool_calls]

    def get_trajectory_steps(self, step_type: StepType | None = None) -> list[TrajectoryStep]:
        """The steps of one type, or all of them."""
        return [step for step in self.trajectory if step_type is None or step.step_type == step_type]

    def to_dict(self) -> dict[str, Any]:
        """The record as JSON values."""
        return {
            "trajectory": [step.model_dump(mode="json") for step in self.trajectory],
            "tool_calls": [call.model_dump(mode="json") for call in self.tool_calls],
            "node_visits": list(self.node_visits),
            "node_responses": [response.model_dump(mode="json") for response in self.node_responses],
            "final_response": self.final_response,
            "start_time": self.start_time,
            "end_time": self.end_time,
            "duration": self.duration,
        }

    # A runtime's publisher

    def on_event_sync(self, event: Any) -> None:
        """Takes a raw event of a runtime; kept when ``capture_all_events``."""
        if self.closed:
            return
        self.touch()
        if self.capture_all_events:
            self.events.append(event)

    async def on_event(self, event: Any) -> None:
        """Same as `on_event_sync`, for runtimes that await it."""
        self.on_event_sync(event)

    async def publish(self, event: Any) -> None:
        """Same as `on_event_sync`, for runtimes that await it."""
        self.on_event_sync(event)

    async def close(self) -> None:
        """Nothing is held open."""

    def sync_close(self) -> None:
        """Nothing is held open."""


class _TurnMark:
    """Where a turn begins and ends in the lists of its collector, and what it answered."""

    __slots__ = ("answer", "began", "duration", "ended", "error", "note", "pieces", "started", "user_input")

    def __init__(self, collector: TrajectoryCollector, user_input: str) -> None:
        self.user_input = user_input
        self.answer: str | None = None
        self.pieces: list[str] = []
        self.note: str | None = None
        self.error: str | None = None
        self.duration = 0.0
        self.started = time.perf_counter()
        self.began = (len(collector.tool_calls), len(collector.node_visits), len(collector.trajectory))
        self.ended: tuple[int, int, int] | None = None

    def settle(self) -> None:
        if self.answer is None and self.pieces:
            self.answer = "".join(self.pieces)
            self.note = f"no final event: the answer is its {len(self.pieces)} streamed pieces joined"

    def end(self, collector: TrajectoryCollector) -> None:
        self.ended = (len(collector.tool_calls), len(collector.node_visits), len(collector.trajectory))

    def result(self, collector: TrajectoryCollector, index: int) -> TurnResult:
        lists: tuple[list[Any], ...] = (collector.tool_calls, collector.node_visits, collector.trajectory)
        first, last = self.began, self.ended or tuple(len(item) for item in lists)
        # One turn of one is the whole run: it shares the lists instead of copying them.
        calls, visits, steps = (
            item if begin == 0 and end == len(item) else item[begin:end]
            for item, begin, end in zip(lists, first, last, strict=True)
        )
        return _make_turn(
            turn_index=index,
            user_input=self.user_input,
            agent_response=self.answer or "",
            answered=bool(self.answer and self.answer.strip()),
            tool_calls=calls,
            node_visits=visits,
            trajectory_steps=steps,
            outcome="ok" if self.error is None else "error",
            error=self.error,
            duration_seconds=self.duration,
            note=self.note,
            expected_response=None,
            expected_tool_calls=None,
            expected_node_order=None,
        )


def _arguments(args: Any) -> tuple[dict[str, Any], str | None]:
    """Arguments as an object, and what had to be done to make them one."""
    if args is None:
        return {}, None
    if issubclass(type(args), str):
        try:
            decoded = json.loads(args) if args.strip() else {}
        except (ValueError, RecursionError):
            return {"raw": printable(args)}, "the arguments are not JSON; kept as text under 'raw'"
        args = decoded
    copy = jsonable(args)
    if isinstance(copy, dict):
        return copy, None
    return {"raw": copy}, "the arguments are not an object; kept under 'raw'"


def _listed(answer: Mapping[str, Any], name: str) -> Sequence[Any]:
    """The list under ``name`` in an agent's answer; empty when there is none."""
    value = answer.get(name)
    if value is None:
        return ()
    if isinstance(value, (list, tuple)):
        return value
    raise AgentError(f"the agent returned {name} = {shown(value)}; it must be a list")


def _message(message: Any) -> dict[str, Any]:
    copy = jsonable(message)
    return copy if isinstance(copy, dict) else {"content": copy}


def _error_text(error: object) -> str:
    if isinstance(error, BaseException):
        return printable(exception_text(error))
    return as_text(error) or "failed"


def _usage(usage: TokenUsage | Mapping[str, Any]) -> TokenUsage:
    if isinstance(usage, TokenUsage):
        return usage
    known: Iterable[str] = TokenUsage.model_fields
    return TokenUsage(**{name: int(usage[name]) for name in known if usage.get(name) is not None})
